"""Classifier-free guidance, fused by torch.compile. Importing it compiles."""

from __future__ import annotations

import torch
from torch import Tensor

from rung_backends.numbers import check_finite
from rung_backends.torch_compile.fusing import COLS, ROWS, Fused, check, number, wide

__all__ = ["cfg_combine"]


def cfg_combine(cond: Tensor, uncond: Tensor, guidance_scale: float, *, rescale: float = 0.0) -> Tensor:
    """Combine two predictions: ``out = uncond + guidance_scale * (cond - uncond)``, its spread rescaled on demand.

    Source: Ho and Salimans, "Classifier-Free Diffusion Guidance", 2022. With ``rescale``, phi, the result is
    ``phi * out * std(cond) / std(out) + (1 - phi) * out``, the standard deviations over all axes but the first (Lin et
    al., "Common Diffusion Noise Schedules and Sample Steps are Flawed", 2023, section 3.4); where std(out) is 0, and at
    a guidance_scale of 1, the quotient is 1. Fused where both arrays have one dtype, and with `rescale` for samples of
    more than 4096 elements: below that TorchInductor adds up another way.

    Args:
        cond: Predicted with the condition: float16, bfloat16, float32 or float64, any shape of at least one axis; the
            first is the batch.
        uncond: Predicted without; cond's shape, any of those dtypes.
        guidance_scale: 1 is `cond`, 0 is `uncond`, and more than 1 goes beyond `cond`; in the range of
            what is computed in, float32 or float64.
        rescale: How much of the spread of `cond` is restored, from 0, nothing, to 1, all.

    Returns:
        A new tensor of cond's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype, or a number is none.
        ValueError: Shapes differ, there is no batch axis, or a number is out of range.

    """
    check(cond=cond, uncond=uncond)
    if uncond.shape != cond.shape:
        raise ValueError(f"uncond must have cond's shape {tuple(cond.shape)}, got {tuple(uncond.shape)}")
    if cond.ndim == 0:
        raise ValueError("cond needs a batch axis: its shape is (), use cond[None]")
    most = torch.finfo(wide(cond, uncond)).max
    guidance_scale = check_finite("guidance_scale", guidance_scale, within=(-most, most))
    rescale = check_finite("rescale", rescale, within=(0.0, 1.0))
    if rescale == 0.0 or guidance_scale == 1.0 or not cond.numel():
        return _COMBINED(cond.reshape(-1), uncond.reshape(-1), number(guidance_scale)).reshape(cond.shape)
    numbers = number(guidance_scale), number(rescale)
    # Sample by sample: the size of the batch, which is 1 as often as not, is then no size that code depends on.
    pairs = zip(cond, uncond, strict=True)
    return torch.stack([_RESCALED(c.reshape(-1), u.reshape(-1), *numbers).reshape(c.shape) for c, u in pairs])


def _combine(cond: Tensor, uncond: Tensor, guidance_scale: Tensor) -> Tensor:
    dtype = wide(cond, uncond)
    c, u = cond.to(dtype), uncond.to(dtype)
    return (u + guidance_scale * (c - u)).to(cond.dtype)


def _rescale(cond: Tensor, uncond: Tensor, guidance_scale: Tensor, rescale: Tensor) -> Tensor:
    dtype = wide(cond, uncond)
    c, u = cond.to(dtype), uncond.to(dtype)
    out = u + guidance_scale * (c - u)
    spread = _spread(out)
    is_flat = spread == 0.0
    quotient = torch.where(is_flat, 1.0, (_spread(c) / torch.where(is_flat, 1.0, spread)).sqrt())
    return (out * (rescale * quotient + (1.0 - rescale)).to(dtype)).to(cond.dtype)


def _spread(x: Tensor) -> Tensor:
    """Give the mean squared difference from the mean, in float64; exactly 0 where all elements are equal.

    Added up in float64, for TorchInductor adds one element after another: in float32, a million of them lose digits.
    """
    x = x - x[:1]
    return (x - x.mean(dtype=torch.float64).to(x.dtype)).square().mean(dtype=torch.float64)


def _example(dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.ones(ROWS * COLS, dtype=dtype), torch.ones(ROWS * COLS, dtype=dtype), number(3.0)


_COMBINED = Fused(_combine, _example)
_RESCALED = Fused(_rescale, lambda dtype: (*_example(dtype), number(0.5)))
