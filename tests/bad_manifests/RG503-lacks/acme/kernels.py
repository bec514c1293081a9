def flow_match_step(sample, velocity, sigma):
    return sample - sigma * velocity
