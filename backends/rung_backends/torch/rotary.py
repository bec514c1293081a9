"""Rotary position embedding in PyTorch: one implementation for cpu, cuda, rocm, mps and xpu.

Owns the torch form of the contract of `rung_backends.reference.rotary`. Computes float16 and bfloat16 in float32 and
casts back; makes no float64 tensor unless an argument is one, for mps has none. Builds every result from
differentiable, out-of-place operations and reads no tensor's value. Must not name a device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rung_backends.torch.checks import check_axes, check_broadcast, check_floats

__all__ = ["rotary_embedding"]


def rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    """Turn pairs of elements by angles: ``(a, b)`` becomes ``(a * cos - b * sin, a * sin + b * cos)``.

    Source, shapes, pairs and errors: `rung_backends.reference.rotary.rotary_embedding`; bfloat16 is a dtype here too.
    Gradients reach all three.
    """
    wide = check_floats(x=x, cos=cos, sin=sin)
    check_axes(x, "S", "D")
    check_axes(cos, "R / 2", name="cos")
    if sin.shape != cos.shape:
        raise ValueError(f"sin must have cos's shape {tuple(cos.shape)}, got {tuple(sin.shape)}")
    half = cos.shape[-1]
    if 2 * half > x.shape[-1]:
        raise ValueError(f"cos has {half} angles for pairs, but x's last axis has {x.shape[-1]} elements")
    check_broadcast((*x.shape[:-1], half), "x's shape with one element for each pair", cos=cos, sin=sin)
    turned = x[..., : 2 * half].to(wide)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., :half], turned[..., half:])
    c, s = cos.to(wide), sin.to(wide)
    a, b = a * c - b * s, a * s + b * c
    pairs = torch.stack((a, b), -1).flatten(-2) if interleaved else torch.cat((a, b), -1)
    return torch.cat((pairs.to(x.dtype), x[..., 2 * half :]), -1)
