"""The guided step of flow matching, fused by torch.compile. Importing it compiles."""

from __future__ import annotations

import torch
from torch import Tensor

from rung_backends.numbers import check_finite, check_sigmas
from rung_backends.torch_compile.fusing import COLS, ROWS, Fused, check, number, wide

__all__ = ["cfg_flow_match_step"]


def cfg_flow_match_step(
    sample: Tensor, cond: Tensor, uncond: Tensor, guidance_scale: float, sigma: float, sigma_next: float
) -> Tensor:
    """Take one Euler step along the guided velocity, with one rounding at the end.

    ``sample + (sigma_next - sigma) * (uncond + guidance_scale * (cond - uncond))``: classifier-free guidance (Ho and
    Salimans, "Classifier-Free Diffusion Guidance", 2022) of an Euler step. Fused where all arrays have one dtype.

    Args:
        sample: float16, bfloat16, float32 or float64, any shape of at least one axis; the first is the batch.
        cond: The velocity predicted with the condition; sample's shape, any of those dtypes.
        uncond: The velocity predicted without; sample's shape, any of those dtypes.
        guidance_scale: 1 is `cond`, 0 is `uncond`, and more than 1 goes beyond `cond`; in the range of what is computed
            in, float32 or float64.
        sigma: Noise level of `sample`, in [0, 1].
        sigma_next: Noise level after the step, in [0, sigma].

    Returns:
        A new tensor of sample's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype, or a number is none.
        ValueError: Shapes differ, there is no batch axis, guidance_scale is out of range, or the sigmas are out of
            order.

    """
    check(sample=sample, cond=cond, uncond=uncond)
    for name, array in (("cond", cond), ("uncond", uncond)):
        if array.shape != sample.shape:
            raise ValueError(f"{name} must have sample's shape {tuple(sample.shape)}, got {tuple(array.shape)}")
    if sample.ndim == 0:
        raise ValueError("sample needs a batch axis: its shape is (), use sample[None]")
    most = torch.finfo(wide(sample, cond, uncond)).max
    guidance_scale = check_finite("guidance_scale", guidance_scale, within=(-most, most))
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    arrays = (array.reshape(-1) for array in (sample, cond, uncond))
    return _FUSED(*arrays, number(guidance_scale), number(sigma_next - sigma)).reshape(sample.shape)


def _formula(sample: Tensor, cond: Tensor, uncond: Tensor, guidance_scale: Tensor, dt: Tensor) -> Tensor:
    dtype = wide(sample, cond, uncond)
    x, c, u = sample.to(dtype), cond.to(dtype), uncond.to(dtype)
    return (x + dt * (u + guidance_scale * (c - u))).to(sample.dtype)


def _example(dtype: torch.dtype) -> tuple[Tensor, ...]:
    return (*(torch.ones(ROWS * COLS, dtype=dtype) for _ in range(3)), number(3.0), number(-0.1))


_FUSED = Fused(_formula, _example)
