from os import system

LIMIT = 3


def step(sample, velocity, sigma, sigma_next):
    return sample


def short(sample, velocity):
    return sample


def build(spec, instance, platform):
    return None
