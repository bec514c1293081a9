"""The solver ops in PyTorch: one implementation for cpu, cuda, rocm, mps and xpu.

Owns the torch form of the contract of `rung_backends.reference.solver`. Computes float16 and bfloat16 in
float32 and casts back; makes no float64 tensor unless an argument is one, for mps has none. Builds every
result from differentiable, out-of-place operations and reads no tensor's value, so autograd and
`torch.compile` see through it and no device waits. Must not name a device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rung_backends.numbers import check_not_negative, check_sigmas
from rung_backends.torch.checks import check_floats, check_same_shape, given

__all__ = ["flow_match_step", "flow_sde_step"]

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


def flow_match_step(sample: Tensor, velocity: Tensor, sigma: float, sigma_next: float) -> Tensor:
    """Take one Euler step along the flow: ``sample + (sigma_next - sigma) * velocity``.

    Source, shapes, ranges and errors: `rung_backends.reference.solver.flow_match_step`; bfloat16 is a dtype
    here too. Gradients reach `sample` and `velocity`.
    """
    wide = check_floats(sample=sample, velocity=velocity)
    check_same_shape(sample=sample, velocity=velocity)
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    return (sample.to(wide) + (sigma_next - sigma) * velocity.to(wide)).to(sample.dtype)


def flow_sde_step(
    sample: Tensor,
    velocity: Tensor,
    sigma: float,
    sigma_next: float,
    *,
    noise: Tensor | None = None,
    prev_sample: Tensor | None = None,
    noise_scale: float = 0.7,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Take one stochastic step of Flow-GRPO and give the log-probability of where it went.

    With dt = sigma_next - sigma and s = noise_scale * sqrt(sigma / max(1 - sigma, -dt - 3 * (1 - sigma)))::

        mean = sample + (velocity + s**2 / (2 * sigma) * (sample + (1 - sigma) * velocity)) * dt
        std  = s * sqrt(-dt)
        prev = mean + std * noise

    and the Euler step, std = 0, at sigma_next = 0. Source, guards, shapes, ranges and errors:
    `rung_backends.reference.solver.flow_sde_step`; bfloat16 is a dtype here too. Without `noise` and
    `prev_sample`, draws from the default generator of sample's device: `torch.manual_seed` decides. A step
    with std = 0 draws nothing.

    Gradients: prev_sample and mean are differentiable in `sample` and `velocity` (and `noise`). log_prob
    holds a sample it has drawn fixed, so that its gradient is the one a policy-gradient method needs; with
    that sample free, log_prob would not depend on the mean at all. A given `prev_sample` is not detached: its
    own gradient is the score. Where std = 0, log_prob is a constant.
    """
    if noise is not None and prev_sample is not None:
        raise ValueError("give noise (to draw with it) or prev_sample (to judge it), not both")
    others = given(noise=noise, prev_sample=prev_sample)
    wide = check_floats(sample=sample, velocity=velocity, **others)
    check_same_shape(sample=sample, velocity=velocity, **others)
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    noise_scale = check_not_negative("noise_scale", noise_scale)

    keep, push, std = _coefficients(sigma, sigma_next, noise_scale)
    mean = keep * sample.to(wide) + push * velocity.to(wide)
    if prev_sample is not None:
        point = prev_sample.to(wide)
        result = prev_sample.to(sample.dtype, copy=True)
    else:
        if std == 0.0:
            result = mean.to(sample.dtype, copy=True)
        else:
            noise = torch.randn_like(mean) if noise is None else noise.to(wide)
            result = (mean + std * noise).to(sample.dtype)
        point = result.detach().to(wide)

    batch, count = sample.shape[0], math.prod(sample.shape[1:])
    if std == 0.0 or count == 0:
        log_prob = sample.new_zeros(batch)
    else:
        spread = ((point - mean) / std).square().reshape(batch, count).sum(1) / count
        # Not `math.log`, for which torch.compile makes a graph for each number.
        log_std = spread.new_full((), std).log()
        log_prob = (-0.5 * spread - (log_std + _HALF_LOG_TAU)).to(sample.dtype)
    stds = sample.new_full((batch, *(1,) * (sample.ndim - 1)), std)
    return result, log_prob, mean.to(sample.dtype), stds


def _coefficients(sigma: float, sigma_next: float, noise_scale: float) -> tuple[float, float, float]:
    """Give (keep, push, std) of the step: mean = keep * sample + push * velocity."""
    step = sigma - sigma_next
    room = max(1.0 - sigma, step - 3.0 * (1.0 - sigma))
    std = noise_scale * math.sqrt(sigma * step / room) if sigma_next > 0.0 and step > 0.0 else 0.0
    pull = noise_scale * noise_scale * step / (2.0 * room) if std > 0.0 else 0.0
    return 1.0 - pull, -step - pull * (1.0 - sigma), std
