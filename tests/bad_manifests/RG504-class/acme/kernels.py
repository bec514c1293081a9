class FlowMatchStep:
    def __call__(self, sample, velocity, sigma, sigma_next):
        return sample + (sigma_next - sigma) * velocity


def flow_match_step(sample, velocity, sigma, sigma_next):
    return FlowMatchStep()(sample, velocity, sigma, sigma_next)
