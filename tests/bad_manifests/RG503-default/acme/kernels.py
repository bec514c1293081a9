def flow_sde_step(sample, velocity, sigma, sigma_next, *, noise=None, prev_sample=None, noise_scale=1.0):
    raise NotImplementedError
