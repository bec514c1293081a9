"""Scaled dot-product attention on the stand-in accelerator's vector unit.

Owns its form of the contract of `rung_backends.reference.attention`: all heads at once, with weights that are divided
by their sum only after they have met the values. Computes halves in float32, rounds once, and holds every score, so
memory grows with queries times keys. Must not import the reference, nor change an argument.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rung_backends.accel.checks import Array, check_broadcast, check_floats
from rung_backends.accel.floats import as_ieee_says, widened
from rung_backends.numbers import check_finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["attention"]

_MASKS = (np.bool_, np.float16, np.float32, np.float64)


@as_ieee_says
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | NDArray[np.bool_] | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    """Average values by how well each query meets their keys: ``softmax(scale * q @ k.T + mask) @ v``.

    Source, shapes, dtypes, masks, rows that see nothing, and errors: `rung_backends.reference.attention.attention`.
    """
    wide = check_floats(q=q, k=k, v=v)
    _check_shapes(q, k, v)
    heads, queries, count = q.shape[1], q.shape[2], k.shape[2]
    if mask is not None:
        _check_mask(mask, (len(q), heads, queries, count))
        wide = wide if mask.dtype == np.bool_ else np.promote_types(wide, mask.dtype)
    scale = check_finite("scale", 1.0 / math.sqrt(q.shape[3]) if scale is None else scale)

    # A copy of the keys and values for each query head that shares them.
    keys, values = (np.repeat(widened(array, wide), heads // max(1, k.shape[1]), axis=1) for array in (k, v))
    scores = (widened(q, wide) * scale) @ keys.swapaxes(2, 3)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    if causal:
        scores = np.where(np.tri(queries, count, count - queries, dtype=np.bool_), scores, -np.inf)

    peak = scores.max(axis=3, keepdims=True, initial=-np.inf)
    blind = peak == -np.inf
    weights = np.exp(scores - np.where(blind, 0.0, peak))
    total = weights.sum(axis=3, keepdims=True)
    mixed = (weights @ values) / np.where(blind, 1.0, total)
    return np.where(blind, 0.0, mixed).astype(q.dtype, copy=False)


def _check_mask(mask: Array | NDArray[np.bool_], scores: tuple[int, ...]) -> None:
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"mask must be a numpy array, got {type(mask).__name__}")
    if mask.dtype.type not in _MASKS:
        raise TypeError(f"mask must be boolean (True keeps), float16, float32 or float64, got {mask.dtype}")
    check_broadcast(scores, "(B, Hq, Sq, Skv) =", mask=mask)


def _check_shapes(q: Array, k: Array, v: Array) -> None:
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"q, k and v need four axes (batch, head, position, element), got {shapes}")
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ValueError(f"q, k and v must have the same batch, got {shapes}")
    if k.shape[:3] != v.shape[:3]:
        raise ValueError(f"k and v must agree in heads and positions, got {shapes}")
    if q.shape[3] != k.shape[3] or q.shape[3] == 0:
        raise ValueError(f"q and k need as many elements, at least one, got {shapes}")
    if q.shape[1] % k.shape[1] if k.shape[1] else q.shape[1]:
        raise ValueError(f"the heads of q must be a multiple of those of k and v, got {shapes}")
