"""The deterministic step of flow matching in Triton, alone and fused with classifier-free guidance.

Owns the Triton form of the contract of `rung_backends.reference.solver`, for the step without noise. Forward only: an
argument that records a gradient is refused. Must not change an argument or read a tensor's value.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rung_backends.numbers import check_finite, check_sigmas
from rung_backends.triton.launching import check, elementwise, place, put, tile

__all__ = ["cfg_flow_match_step", "flow_match_step"]


def flow_match_step(sample: Tensor, velocity: Tensor, sigma: float, sigma_next: float) -> Tensor:
    """Take one Euler step along the flow: ``sample + (sigma_next - sigma) * velocity``.

    Source, shapes, ranges and errors: `rung_backends.reference.solver.flow_match_step`; bfloat16 is a dtype here too.
    """
    wide = check(sample=sample, velocity=velocity)
    _check_shapes(sample, velocity=velocity)
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    out = torch.empty(sample.shape, dtype=sample.dtype, device=sample.device)
    return elementwise(_step, out, sample, velocity, numbers=(sigma_next - sigma,), wide=wide)


def cfg_flow_match_step(
    sample: Tensor, cond: Tensor, uncond: Tensor, guidance_scale: float, sigma: float, sigma_next: float
) -> Tensor:
    """Take one Euler step along the guided velocity, with one rounding at the end.

    ``sample + (sigma_next - sigma) * (uncond + guidance_scale * (cond - uncond))``: classifier-free guidance (Ho and
    Salimans, "Classifier-Free Diffusion Guidance", 2022) of the step of `flow_match_step`.

    Args:
        sample: float16, bfloat16, float32 or float64, any shape of at least one axis; the first is the batch.
        cond: The velocity predicted with the condition; sample's shape, any of those dtypes.
        uncond: The velocity predicted without; sample's shape, any of those dtypes.
        guidance_scale: 0 is `uncond`, 1 is `cond` but for rounding, and more than 1 goes beyond `cond`; in the range of
            what is computed in, float32 or float64.
        sigma: Noise level of `sample`, in [0, 1].
        sigma_next: Noise level after the step, in [0, sigma].

    Returns:
        A new tensor of sample's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype, or a number is none.
        ValueError: Shapes or devices differ, there is no batch axis, guidance_scale is out of range, or the sigmas are
            out of order.
        RuntimeError: An argument records a gradient.

    """
    wide = check(sample=sample, cond=cond, uncond=uncond)
    _check_shapes(sample, cond=cond, uncond=uncond)
    most = torch.finfo(torch.float64 if wide else torch.float32).max
    guidance_scale = check_finite("guidance_scale", guidance_scale, within=(-most, most))
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    out = torch.empty(sample.shape, dtype=sample.dtype, device=sample.device)
    numbers = guidance_scale, sigma_next - sigma
    return elementwise(_guided_step, out, sample, cond, uncond, numbers=numbers, wide=wide)


def _check_shapes(sample: Tensor, **others: Tensor) -> None:
    for name, tensor in others.items():
        if tensor.shape != sample.shape:
            raise ValueError(f"{name} must have sample's shape {tuple(sample.shape)}, got {tuple(tensor.shape)}")
    if sample.ndim == 0:
        raise ValueError("sample needs a batch axis: its shape is (), use sample[None]")


@triton.jit(do_not_specialize=["rows", "n1", "n2"])
def _step(
    out, sample, velocity, dt, rows, cols, n1, n2,
    x0, x1, x2, x3, v0, v1, v2, v3,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    if compute == tl.float64:
        dt = tl.load(dt)
    row, col, inside = tile(tl.program_id(0), rows, cols, tile_rows, tile_cols)
    x = tl.load(sample + place(row, n1, n2, x0, x1, x2, axes) + col * x3, mask=inside).to(compute)
    v = tl.load(velocity + place(row, n1, n2, v0, v1, v2, axes) + col * v3, mask=inside).to(compute)
    put(out + row * cols + col, x + dt * v, inside)


@triton.jit(do_not_specialize=["rows", "n1", "n2"])
def _guided_step(
    out, sample, cond, uncond, guidance_scale, dt, rows, cols, n1, n2,
    x0, x1, x2, x3, c0, c1, c2, c3, u0, u1, u2, u3,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    if compute == tl.float64:
        guidance_scale = tl.load(guidance_scale)
        dt = tl.load(dt)
    row, col, inside = tile(tl.program_id(0), rows, cols, tile_rows, tile_cols)
    x = tl.load(sample + place(row, n1, n2, x0, x1, x2, axes) + col * x3, mask=inside).to(compute)
    c = tl.load(cond + place(row, n1, n2, c0, c1, c2, axes) + col * c3, mask=inside).to(compute)
    u = tl.load(uncond + place(row, n1, n2, u0, u1, u2, axes) + col * u3, mask=inside).to(compute)
    put(out + row * cols + col, x + dt * (u + guidance_scale * (c - u)), inside)
