"""Normalisation and its modulation on the stand-in accelerator's vector unit.

Owns its form of the contract of `rung_backends.reference.norm`. Computes halves in float32 and rounds once, so rows
whose sum of squares leaves the range of what is computed in are lost, as the contract allows. Must not import the
reference, nor change an argument.
"""

from __future__ import annotations

import numpy as np

from rung_backends.accel.checks import Array, check_broadcast, check_floats, check_vectors, given
from rung_backends.accel.floats import as_ieee_says, centred, mean_square, widened
from rung_backends.numbers import check_not_negative

__all__ = ["layer_norm", "modulate"]


@as_ieee_says
def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5) -> Array:
    """Centre each row and divide by its deviation: ``(x - mean) / sqrt(var + eps) * weight + bias``, last axis.

    Source, shapes, dtypes and errors: `rung_backends.reference.norm.layer_norm`.
    """
    vectors = given(weight=weight, bias=bias)
    wide = check_floats(x=x, **vectors)
    check_vectors(x, **vectors)
    eps = check_not_negative("eps", eps)
    if not x.size:
        return x.copy()
    rows = centred(widened(x, wide))
    rows /= np.sqrt(mean_square(rows) + eps)
    if weight is not None:
        rows *= weight
    if bias is not None:
        rows += bias
    return rows.astype(x.dtype, copy=False)


@as_ieee_says
def modulate(x: Array, shift: Array, scale: Array) -> Array:
    """Scale and shift: ``x * (1 + scale) + shift``.

    Source, shapes, dtypes and errors: `rung_backends.reference.norm.modulate`.
    """
    wide = check_floats(x=x, shift=shift, scale=scale)
    check_broadcast(x.shape, "x's shape", shift=shift, scale=scale)
    result = widened(x, wide)
    result *= widened(scale, wide) + 1.0
    result += shift
    return result.astype(x.dtype, copy=False)
