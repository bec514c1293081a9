def flow_match_step_v2(sample, velocity, sigma, sigma_next):
    return sample + (sigma_next - sigma) * velocity
