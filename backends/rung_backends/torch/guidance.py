"""Classifier-free guidance in PyTorch: one implementation for cpu, cuda, rocm, mps and xpu.

Owns the torch form of the contract of `rung_backends.reference.guidance`. Computes float16 and bfloat16 in float32 and
casts back; makes no float64 tensor unless an argument is one, for mps has none. Builds every result from
differentiable, out-of-place operations and reads no tensor's value. Must not name a device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rung_backends.numbers import check_finite, check_sigmas
from rung_backends.torch.checks import check_floats, check_same_shape

__all__ = ["cfg_combine", "cfg_flow_match_step"]


def cfg_combine(cond: Tensor, uncond: Tensor, guidance_scale: float, *, rescale: float = 0.0) -> Tensor:
    """Guide a prediction: ``out = uncond + guidance_scale * (cond - uncond)``, its deviation brought back by `rescale`.

    With phi = rescale, ``phi * out * std(cond) / std(out) + (1 - phi) * out``. Source, shapes, ranges and errors:
    `rung_backends.reference.guidance.cfg_combine`; bfloat16 is a dtype here too. A guidance_scale beyond the range of
    what is computed in, float32 or float64, is refused. Gradients reach cond and uncond; a sample with std(out) = 0 has
    those of out.
    """
    wide = check_floats(cond=cond, uncond=uncond)
    check_same_shape(cond=cond, uncond=uncond)
    guidance_scale = _checked(guidance_scale, wide)
    rescale = check_finite("rescale", rescale, within=(0.0, 1.0))
    result = _guided(cond.to(wide), uncond.to(wide), guidance_scale)
    if rescale and guidance_scale != 1.0 and cond.numel():
        found = _deviation_of_samples(result)
        flat = found == 0.0
        # Filled below as well as above the division, or its gradient would be 0 * inf.
        factor = (_deviation_of_samples(cond.to(wide)) / found.masked_fill(flat, 1.0)).masked_fill(flat, 1.0)
        result = (rescale * factor + (1.0 - rescale)) * result
    return result.to(cond.dtype)


def cfg_flow_match_step(
    sample: Tensor, cond: Tensor, uncond: Tensor, guidance_scale: float, sigma: float, sigma_next: float
) -> Tensor:
    """Take the Euler step along a guided velocity, in one: nothing is rounded between the two.

    ``sample + (sigma_next - sigma) * (uncond + guidance_scale * (cond - uncond))``. Source, shapes, ranges and errors:
    `rung_backends.reference.guidance.cfg_flow_match_step`; bfloat16 is a dtype here too. guidance_scale as in
    `cfg_combine`. Gradients reach sample, cond and uncond.
    """
    wide = check_floats(sample=sample, cond=cond, uncond=uncond)
    check_same_shape(sample=sample, cond=cond, uncond=uncond)
    guidance_scale = _checked(guidance_scale, wide)
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    velocity = _guided(cond.to(wide), uncond.to(wide), guidance_scale)
    return torch.add(sample.to(wide), velocity, alpha=sigma_next - sigma).to(sample.dtype)


def _checked(guidance_scale: float, dtype: torch.dtype) -> float:
    guidance_scale = check_finite("guidance_scale", guidance_scale)
    if abs(guidance_scale) > torch.finfo(dtype).max:
        raise ValueError(
            f"guidance_scale must be in the range of {dtype}, which this computes in, got {guidance_scale}"
        )
    return guidance_scale


def _guided(cond: Tensor, uncond: Tensor, guidance_scale: float) -> Tensor:
    return torch.add(uncond, cond - uncond, alpha=guidance_scale)


def _deviation_of_samples(tensor: Tensor) -> Tensor:
    """Give each sample's standard deviation, in a shape that broadcasts against the tensor.

    Measured from the sample's first element, which leaves a deviation of 0 for equal ones whatever rounding their mean
    would cost. Where from makes no difference to a deviation, nor to its gradient.
    """
    rows = tensor.flatten(1) if tensor.ndim > 1 else tensor[:, None]
    deviation = (rows - rows[:, :1].detach()).std(1, correction=0)
    return deviation.reshape(-1, *(1,) * (tensor.ndim - 1))
