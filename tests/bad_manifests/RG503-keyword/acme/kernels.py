def flow_sde_step(sample, velocity, sigma, sigma_next, *, noise=None, previous_sample=None, noise_scale=0.7):
    raise NotImplementedError
