"""Rotary position embedding, fused by torch.compile. Importing it compiles."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rung_backends.torch_compile.fusing import Fused, check, single, wide

__all__ = ["rotary_embedding"]


def rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    """Turn pairs of elements of the last axis by the angles whose cosines and sines are given.

    A pair (a, b) becomes ``(a cos - b sin, b cos + a sin)`` (Su et al., "RoFormer: Enhanced Transformer with Rotary
    Position Embedding", 2021). With R/2 angles, pair i is elements (2i, 2i + 1) if `interleaved`, else (i, i + R/2).
    Elements from R on pass through. Fused where cos and sin are (S, D/2), alike for all leading axes.

    Args:
        x: float16, bfloat16, float32 or float64, shape (..., S, D).
        cos: Any of those dtypes, shape (..., S, R/2), which broadcasts to x's leading axes; R is at most D.
        sin: As `cos`, and of its shape.
        interleaved: Which elements are pairs.

    Returns:
        A new tensor of x's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype.
        ValueError: The shapes do not fit.

    """
    check(x=x, cos=cos, sin=sin)
    if x.ndim < 2 or cos.ndim < 2:
        raise ValueError(f"x and cos need the axes (S, D) and (S, R/2), got {tuple(x.shape)} and {tuple(cos.shape)}")
    if sin.shape != cos.shape:
        raise ValueError(f"sin must have cos's shape {tuple(cos.shape)}, got {tuple(sin.shape)}")
    length, width = x.shape[-2:]
    turned = 2 * cos.shape[-1]
    if turned > width:
        raise ValueError(f"cos has {turned // 2} angles, too many for a last axis of {width}: two elements make a pair")
    pairs = zip(cos.shape[-2::-1], x.shape[-2::-1], strict=False)
    if cos.ndim > x.ndim or any(n not in (1, m) for n, m in pairs):
        raise ValueError(f"cos must broadcast to {(*x.shape[:-1], turned // 2)}, got {tuple(cos.shape)}")
    cos, sin = single(cos), single(sin)
    if turned == width and cos.numel() == length * width // 2:
        rows = x.reshape(math.prod(x.shape[:-2]), length, width)
        cos, sin = cos.reshape(length, width // 2), sin.reshape(length, width // 2)
        return (_INTERLEAVED if interleaved else _HALVES)(rows, cos, sin).reshape(x.shape)
    result = (_turn_pairs if interleaved else _turn_halves)(x[..., :turned], cos, sin)
    return torch.cat((result, x[..., turned:]), -1)


def _turn_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    dtype = wide(x, cos, sin)
    half = x.shape[-1] // 2
    a, b, c, s = x[..., :half].to(dtype), x[..., half:].to(dtype), cos.to(dtype), sin.to(dtype)
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)


def _turn_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    dtype = wide(x, cos, sin)
    a, b, c, s = x[..., 0::2].to(dtype), x[..., 1::2].to(dtype), cos.to(dtype), sin.to(dtype)
    return torch.stack((a * c - b * s, b * c + a * s), -1).reshape(x.shape).to(x.dtype)


def _example(dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.ones(18, 260, 130, dtype=dtype), torch.ones(260, 65), torch.ones(260, 65)


_HALVES = Fused(_turn_halves, _example)
_INTERLEAVED = Fused(_turn_pairs, _example)
