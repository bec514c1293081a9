"""Modulation by a condition, fused by torch.compile. Importing it compiles."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rung_backends.torch_compile.fusing import COLS, ROWS, Fused, check, single, wide

__all__ = ["modulate"]


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Scale and shift by what a condition says: ``x * (1 + scale) + shift``.

    The adaptive layer norm of Peebles and Xie, "Scalable Diffusion Models with Transformers", 2023. Fused where shift
    and scale have both one row for all, or both one for each sample: (..., D) or (B, ..., D) with ones between.

    Args:
        x: float16, bfloat16, float32 or float64, any shape.
        shift: Any of those dtypes, a shape that broadcasts to x's.
        scale: Any of those dtypes, a shape that broadcasts to x's.

    Returns:
        A new tensor of x's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype.
        ValueError: The shapes do not fit.

    """
    check(x=x, shift=shift, scale=scale)
    for name, array in (("shift", shift), ("scale", scale)):
        if array.ndim > x.ndim or any(n not in (1, m) for n, m in zip(array.shape[::-1], x.shape[::-1], strict=False)):
            raise ValueError(f"{name} must broadcast to {tuple(x.shape)}, got {tuple(array.shape)}")
    if x.ndim and shift.numel() == scale.numel() == x.shape[-1]:
        width = x.shape[-1]
        rows = x.reshape(math.prod(x.shape[:-1]), width)
        return _SHARED(rows, single(shift.reshape(width)), single(scale.reshape(width))).reshape(x.shape)
    if x.ndim > 2 and shift.shape == scale.shape == (x.shape[0], *(1,) * (x.ndim - 2), x.shape[-1]):
        batch, width = x.shape[0], x.shape[-1]
        rows = x.reshape(batch, math.prod(x.shape[1:-1]), width)
        shift, scale = (single(array.reshape(batch, 1, width)) for array in (shift, scale))
        return _SEPARATE(rows, shift, scale).reshape(x.shape)
    return _shared(x, shift, scale).contiguous()


def _shared(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    dtype = wide(x, shift, scale)
    return (x.to(dtype) * (1.0 + scale.to(dtype)) + shift.to(dtype)).to(x.dtype)


def _separate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return _shared(x, shift, scale)


_SHARED = Fused(_shared, lambda dtype: (torch.ones(ROWS, COLS, dtype=dtype), torch.ones(COLS), torch.ones(COLS)))
_SEPARATE = Fused(
    _separate, lambda dtype: (torch.ones(4, ROWS, COLS, dtype=dtype), torch.ones(4, 1, COLS), torch.ones(4, 1, COLS))
)
