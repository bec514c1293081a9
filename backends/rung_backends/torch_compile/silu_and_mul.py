"""The gated activation, fused by torch.compile. Importing it compiles."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rung_backends.torch_compile.fusing import COLS, ROWS, Fused, check, wide

__all__ = ["silu_and_mul"]


def silu_and_mul(x: Tensor) -> Tensor:
    """Gate one half of the last axis with the other: ``silu(x[..., :d]) * x[..., d:]``, silu(y) = y / (1 + exp(-y)).

    The gate of SwiGLU (Shazeer, "GLU Variants Improve Transformer", 2020).

    Args:
        x: float16, bfloat16, float32 or float64, shape (..., 2 d).

    Returns:
        A new tensor of shape (..., d) and x's dtype.

    Raises:
        TypeError: x is no torch tensor or has another dtype.
        ValueError: The last axis is not there, or odd.

    """
    check(x=x)
    if x.ndim == 0 or x.shape[-1] % 2:
        raise ValueError(f"x needs a last axis of even size, got shape {tuple(x.shape)}")
    *leading, width = x.shape
    return _FUSED(x.reshape(math.prod(leading), width)).reshape(*leading, width // 2)


def _formula(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    y = x.to(wide(x))
    return (torch.nn.functional.silu(y[:, :half]) * y[:, half:]).to(x.dtype)


_FUSED = Fused(_formula, lambda dtype: (torch.ones(ROWS, COLS, dtype=dtype),))
