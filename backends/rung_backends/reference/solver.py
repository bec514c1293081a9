"""The solver ops of flow matching, as the oracle answers them.

Owns the contract of `flow_match_step` and `flow_sde_step`: formulas, guards and conventions are stated here,
and every other implementation follows them. Works in float64 and rounds once, at the end. Must not trade
accuracy for speed, change an argument, or import anything but numpy and the references' helpers.

The convention of time: sigma is 1 at pure noise and 0 at data, and a step goes down. A point of the flow is
x = (1 - sigma) * data + sigma * noise, and the network predicts velocity = noise - data.

NaN and infinities go where the formulas take them, element by element: a step of 0 times an infinite velocity is NaN. A
log_prob sums its sample, so one NaN there makes it NaN.
"""

from __future__ import annotations

import math

import numpy as np

from rung_backends.numbers import check_not_negative, check_sigmas
from rung_backends.reference.checks import Array, check_floats, check_same_shape, given
from rung_backends.reference.floats import Wide, as_ieee_says, wide

__all__ = ["flow_match_step", "flow_sde_step"]

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


@as_ieee_says
def flow_match_step(sample: Array, velocity: Array, sigma: float, sigma_next: float) -> Array:
    """Take one deterministic Euler step along the flow: ``sample + (sigma_next - sigma) * velocity``.

    This integrates the probability-flow ODE dx/dsigma = velocity over one interval (Lipman et al., "Flow
    Matching for Generative Modeling", 2023; Esser et al., "Scaling Rectified Flow Transformers for
    High-Resolution Image Synthesis", 2024).

    Args:
        sample: float16, float32 or float64, any shape of at least one axis; the first is the batch.
        velocity: The predicted noise - data; sample's shape, any of those dtypes.
        sigma: Noise level of `sample`, in [0, 1].
        sigma_next: Noise level after the step, in [0, sigma].

    Returns:
        A new array of sample's shape and dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype, or a number is none.
        ValueError: Shapes differ, there is no batch axis, or the sigmas are out of order.

    """
    check_floats(sample=sample, velocity=velocity)
    check_same_shape(sample=sample, velocity=velocity)
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    result = wide(sample) + (sigma_next - sigma) * wide(velocity)
    return np.asarray(result, dtype=sample.dtype)


@as_ieee_says
def flow_sde_step(
    sample: Array,
    velocity: Array,
    sigma: float,
    sigma_next: float,
    *,
    noise: Array | None = None,
    prev_sample: Array | None = None,
    noise_scale: float = 0.7,
) -> tuple[Array, Array, Array, Array]:
    """Take one stochastic step of Flow-GRPO and give the log-probability of where it went.

    The reverse SDE that shares its marginals with the flow, discretised by Euler and Maruyama (Liu et al.,
    "Flow-GRPO: Training Flow Matching Models via Online RL", 2025, arXiv 2505.05470). With
    dt = sigma_next - sigma and s = noise_scale * sqrt(sigma / (1 - sigma))::

        mean = sample + (velocity + s**2 / (2 * sigma) * (sample + (1 - sigma) * velocity)) * dt
        std  = s * sqrt(-dt)
        prev = mean + std * noise

    The bracket's second term is the expected noise in `sample`, so the step takes out as much old noise as
    keeps the marginal right when it adds new. The sigma of s**2 cancels the sigma below it, which leaves a
    combination of two arrays with nothing to divide by at sigma = 0::

        pull = noise_scale**2 * -dt / (2 * (1 - sigma))
        mean = (1 - pull) * sample + (dt - pull * (1 - sigma)) * velocity

    Three places need more than the formula:

    * **Sigma near 1.** s diverges, so room = max(1 - sigma, -dt - 3 * (1 - sigma)) takes the place of the
      1 - sigma under s (and so of the one under `pull`). It is the formula itself unless a step is more than
      four times as long as the way already come from pure noise. Beyond that it is continuous, keeps `pull`
      under 2 * noise_scale**2, and reaches 1 - sigma_next at sigma = 1, the value the authors' code uses there.
    * **The last step**, sigma_next = 0. The formula would leave noise of standard deviation s * sqrt(sigma)
      on finished data, where the marginal has none. The step is the Euler step instead, with std = 0.
    * **Steps without noise**: the last step, noise_scale = 0, and sigma_next = sigma. The result is exactly
      that of `flow_match_step` and `noise` has no effect. A point mass has no density, so log_prob is 0 by
      convention, whatever `prev_sample` is: such a step adds nothing to a trajectory's log-probability, and
      the ratio of two policies over it is 1 rather than 0 / 0. Test ``std == 0`` to leave these steps out.

    log_prob is evaluated at `prev_sample` as given or, for a new one, as returned (rounded to sample's
    dtype), so that passing a result back in gives the same number. It is rounded to sample's dtype too:
    probability ratios near 1 need float32 samples or better.

    Args:
        sample: float16, float32 or float64, any shape of at least one axis; the first is the batch.
        velocity: The predicted noise - data; sample's shape, any of those dtypes.
        sigma: Noise level of `sample`, in [0, 1].
        sigma_next: Noise level after the step, in [0, sigma].
        noise: Standard normal draws to use, sample's shape. Without it and without `prev_sample` they come
            from a fresh `numpy.random.default_rng()`: no two calls agree.
        prev_sample: Judge this sample instead of drawing one; sample's shape. Excludes `noise`.
        noise_scale: How much noise is exchanged, the paper's a: finite, not negative.

    Returns:
        ``(prev_sample, log_prob, mean, std)``, new arrays of sample's dtype. prev_sample and mean have
        sample's shape. log_prob has shape (batch,): the natural logarithm of the Gaussian density, averaged
        over all axes but the first (0 where they hold no element). std is the same number for every sample,
        in shape (batch, 1, ..., 1), which broadcasts against sample.

    Raises:
        TypeError: An array is no numpy array or has another dtype, or a number is none.
        ValueError: Shapes differ, there is no batch axis, the sigmas are out of order, noise_scale is not
            usable, or both `noise` and `prev_sample` are given.

    """
    if noise is not None and prev_sample is not None:
        raise ValueError("give noise (to draw with it) or prev_sample (to judge it), not both")
    others = given(noise=noise, prev_sample=prev_sample)
    check_floats(sample=sample, velocity=velocity, **others)
    check_same_shape(sample=sample, velocity=velocity, **others)
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    noise_scale = check_not_negative("noise_scale", noise_scale)

    keep, push, std = _coefficients(sigma, sigma_next, noise_scale)
    dtype = sample.dtype
    mean = keep * wide(sample) + push * wide(velocity)
    if prev_sample is not None:
        point = prev_sample
    elif std == 0.0:
        point = mean.astype(dtype)
    else:
        if noise is None:
            noise = np.random.default_rng().standard_normal(sample.shape)
        point = (mean + std * wide(noise)).astype(dtype)

    log_prob = _log_prob(wide(point), mean, std)
    stds = np.full((sample.shape[0], *(1,) * (sample.ndim - 1)), std)
    return np.array(point, dtype), log_prob.astype(dtype), mean.astype(dtype), stds.astype(dtype)


def _coefficients(sigma: float, sigma_next: float, noise_scale: float) -> tuple[float, float, float]:
    """Give (keep, push, std) of the step: mean = keep * sample + push * velocity."""
    step = sigma - sigma_next
    if step == 0.0 or sigma_next == 0.0:
        return 1.0, -step, 0.0
    room = max(1.0 - sigma, step - 3.0 * (1.0 - sigma))
    std = noise_scale * math.sqrt(sigma * step / room)
    if std == 0.0:
        return 1.0, -step, 0.0
    pull = noise_scale * noise_scale * step / (2.0 * room)
    return 1.0 - pull, -step - pull * (1.0 - sigma), std


def _log_prob(point: Wide, mean: Wide, std: float) -> Wide:
    """Average the log-density over each sample.

    The sums are correctly rounded (`math.fsum`), so memory layout, batch size and order of summation leave no
    trace in the oracle's answer.
    """
    batch, count = point.shape[0], math.prod(point.shape[1:])
    if std == 0.0 or count == 0:
        return np.zeros(batch)
    squares = np.square((point - mean) / std).reshape(batch, count)
    peak = -math.log(std) - _HALF_LOG_TAU
    return np.array([peak - 0.5 * (_sum(row) / count) for row in squares.tolist()], dtype=np.float64)


def _sum(squares: list[float]) -> float:
    try:
        return math.fsum(squares)
    except OverflowError:
        return math.inf
