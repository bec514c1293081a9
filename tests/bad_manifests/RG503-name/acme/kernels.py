def flow_match_step(x, velocity, sigma, sigma_next):
    return x + (sigma_next - sigma) * velocity
