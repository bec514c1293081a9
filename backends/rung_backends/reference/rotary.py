"""Rotary position embedding, as the oracle answers it.

Owns the contract of `rotary_embedding`: formula and conventions are stated here, and every other implementation
follows them. Works in float64 and rounds once, at the end. Must not trade accuracy for speed, change an argument,
or import anything but numpy and the references' helpers.
"""

from __future__ import annotations

import numpy as np

from rung_backends.reference.checks import Array, check_axes, check_broadcast, check_floats
from rung_backends.reference.floats import as_ieee_says, wide

__all__ = ["rotary_embedding"]


@as_ieee_says
def rotary_embedding(x: Array, cos: Array, sin: Array, *, interleaved: bool = False) -> Array:
    """Turn pairs of elements by angles: ``(a, b)`` becomes ``(a * cos - b * sin, a * sin + b * cos)``.

    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021. The angles are the caller's:
    theta = position * base**(-2i / R) for pair i of R / 2 there. The first R elements of the last axis form the
    pairs, neighbours (2i, 2i + 1) as in that paper if `interleaved`, else (i, i + R / 2); elements from R on are
    passed through.

    Args:
        x: float16, float32 or float64, shape (..., S, D): two axes or more.
        cos: Any of those dtypes, shape (..., S, R / 2) with R at most D; all but the last axis broadcast to x's by
            numpy's rules.
        sin: cos's shape, any of those dtypes.
        interleaved: Whether pairs are neighbours.

    Returns:
        A new array of x's shape and dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype.
        ValueError: x has fewer than two axes, cos none or more than D / 2 pairs, shapes do not broadcast or cos and
            sin differ.

    """
    check_floats(x=x, cos=cos, sin=sin)
    check_axes(x, "S", "D")
    check_axes(cos, "R / 2", name="cos")
    if sin.shape != cos.shape:
        raise ValueError(f"sin must have cos's shape {cos.shape}, got {sin.shape}")
    half = cos.shape[-1]
    if 2 * half > x.shape[-1]:
        raise ValueError(f"cos has {half} angles for pairs, but x's last axis has {x.shape[-1]} elements")
    check_broadcast((*x.shape[:-1], half), "x's shape with one element for each pair", cos=cos, sin=sin)
    if interleaved:
        firsts, seconds = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    else:
        firsts, seconds = slice(half), slice(half, 2 * half)
    a, b = wide(x[..., firsts]), wide(x[..., seconds])
    c, s = wide(cos), wide(sin)
    result = np.array(x, order="C")
    result[..., firsts] = a * c - b * s
    result[..., seconds] = a * s + b * c
    return result
