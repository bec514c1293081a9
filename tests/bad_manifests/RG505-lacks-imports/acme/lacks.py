import acme_runtime


def flow_match_step(sample, velocity, sigma, sigma_next):
    return acme_runtime.step(sample, velocity, sigma, sigma_next)
