def flow_match_step(sample, velocity, sigma, sigma_next):
    return sample + (sigma_next - sigma) * velocity
