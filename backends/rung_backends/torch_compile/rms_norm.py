"""Root mean square normalisation, fused by torch.compile. Importing it compiles."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rung_backends.numbers import check_not_negative
from rung_backends.torch_compile.fusing import COLS, ROWS, Fused, check, number, single, wide

__all__ = ["rms_norm"]


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """Divide by the root mean square of the last axis: ``x / sqrt(mean(x**2) + eps) * weight``.

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019. Fused for D up to 4096: beyond that
    TorchInductor adds up another way, which would be code of its own.

    Args:
        x: float16, bfloat16, float32 or float64, shape (..., D).
        weight: Any of those dtypes, shape (D,); 1 where there is none.
        eps: What keeps the root away from 0; finite, not negative.

    Returns:
        A new tensor of x's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype, or eps is no number.
        ValueError: The shapes do not fit, or eps is not usable.

    """
    check(x=x, weight=weight)
    if x.ndim == 0:
        raise ValueError("x needs an axis to normalise: its shape is ()")
    if weight is not None and weight.shape != x.shape[-1:]:
        raise ValueError(f"weight must have shape {tuple(x.shape[-1:])}, x's last axis, got {tuple(weight.shape)}")
    eps = check_not_negative("eps", eps)
    width = x.shape[-1]
    factors = torch.ones(width, device=x.device) if weight is None else single(weight)
    return _FUSED(x.reshape(math.prod(x.shape[:-1]), width), factors, number(eps)).reshape(x.shape)


def _formula(x: Tensor, weight: Tensor, eps: Tensor) -> Tensor:
    dtype = wide(x, weight)
    y = x.to(dtype)
    rate = torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return (y * rate * weight.to(dtype)).to(x.dtype)


_FUSED = Fused(_formula, lambda dtype: (torch.ones(ROWS, COLS, dtype=dtype), torch.ones(COLS), number(1e-6)))
