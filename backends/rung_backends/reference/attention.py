"""Scaled dot-product attention, as the oracle answers it.

Owns the contract of `attention`: formula, masks, alignment and what rows that see nothing give are stated here,
and every other implementation follows them. Works in float64, a block of queries at a time, and rounds once, at
the end. Must not trade accuracy for speed, change an argument, or import anything but numpy and the references'
helpers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rung_backends.numbers import check_finite
from rung_backends.reference.checks import Array, check_broadcast, check_floats, check_plain
from rung_backends.reference.floats import Wide, as_ieee_says, wide

__all__ = ["attention"]

Mask = NDArray[np.floating[Any] | np.bool_]

# Scores held at once, so that memory grows with the number of keys and not with its product with the queries':
# 8 MiB of float64, or one row of every head where that is longer.
_SCORES = 2**20


@as_ieee_says
def attention(
    q: Array, k: Array, v: Array, *, mask: Mask | None = None, causal: bool = False, scale: float | None = None
) -> Array:
    """Average values by how well each query meets their keys: ``softmax(scale * q @ k.T + mask) @ v``.

    Scaled dot-product attention (Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1). Query heads
    may share key and value heads: query head h uses head h // (Hq / Hkv) (Ainslie et al., "GQA: Training
    Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", 2023). `causal` lets the last query
    see every key and each earlier one a key less: query i sees the keys j <= i + Skv - Sq, as in version 2.1 of
    the authors' code of Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
    2023. Queries that continue a cached sequence so see all of it.

    Three places need more than the formula:

    * **A row that sees nothing** gives zeros, whatever the arrays hold: one that the mask hides from every key,
      causal queries before the first key (Sq > Skv), Skv = 0, and any whose scores are all -inf.
    * **A score of +inf** makes its row NaN, for softmax takes exp(inf - inf) there. So does a score of NaN.
    * **What a mask hides** has score -inf and weight 0, whatever its key; an additive -inf is added to the score,
      and NaN or +inf stays NaN. The weight 0 multiplies the hidden value: an infinity or NaN there makes NaN.
      Kernels that skip what is hidden never meet it, and those that add -inf to hide it make NaN of +inf, so answers
      are the contract only if hidden keys and values are finite, and for a row whose visible scores are all -inf only
      if its hidden ones are finite or -inf too.

    Args:
        q: (B, Hq, Sq, D), float16, float32 or float64; D at least 1.
        k: (B, Hkv, Skv, D), any of those dtypes; Hq is a multiple of Hkv.
        v: (B, Hkv, Skv, Dv), any of those dtypes.
        mask: Broadcasts to (B, Hq, Sq, Skv), so it may have fewer axes: boolean, True where a query sees a key,
            or any of those dtypes, added to the scaled scores.
        causal: Hide the keys behind each query. A key must pass both this and `mask`.
        scale: Multiplies the scores, finite; 1 / sqrt(D) when not given.

    Returns:
        A new array (B, Hq, Sq, Dv) of q's dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype.
        ValueError: Shapes do not fit, or scale is not finite.

    """
    _check(q, k, v, mask)
    scale = 1.0 / math.sqrt(q.shape[3]) if scale is None else check_finite("scale", scale)

    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    if mask is not None:
        mask = np.broadcast_to(mask, (batch, heads, queries, keys))
    rows = max(1, _SCORES // max(1, heads * keys))
    result = np.empty((batch, heads, queries, v.shape[3]), q.dtype)
    for sample in range(batch):
        key, value = (_per_head(array[sample], heads) for array in (k, v))
        for start in range(0, queries, rows):
            block = slice(start, start + rows)
            query = wide(q[sample, :, block])
            # What makes less of large elements comes before their product.
            less, more = (scale, 1.0) if abs(scale) < 1.0 else (1.0, scale)
            scores = more * ((less * query) @ key.swapaxes(1, 2))
            if mask is not None:
                scores = _masked(scores, mask[sample, :, block])
            if causal:
                last = np.arange(start, start + scores.shape[1]) + keys - queries
                scores = _masked(scores, np.arange(keys) <= last[:, None])
            blind = np.all(scores == -np.inf, axis=2, keepdims=True)
            result[sample, :, block] = np.where(blind, 0.0, _softmax(scores) @ value)
    return result


def _per_head(array: Array, heads: int) -> Wide:
    """Give each query head the keys or values it looks at, (Hkv, Skv, D) as (Hq, Skv, D)."""
    return np.repeat(wide(array), heads // max(1, len(array)), axis=0)


def _masked(scores: Wide, mask: Mask) -> Wide:
    return np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask.astype(np.float64)


def _softmax(scores: Wide) -> Wide:
    """Give the weights of each row; zeros, without the NaN of -inf - -inf, where all its scores are -inf."""
    peak = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(peak == -np.inf, 0.0, peak))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0.0, 1.0, total)


def _check(q: Array, k: Array, v: Array, mask: Mask | None) -> None:
    check_floats(q=q, k=k, v=v)
    if mask is not None:
        check_plain("mask", mask)
        if mask.dtype.type not in (np.bool_, np.float16, np.float32, np.float64):
            raise TypeError(f"mask must be boolean (True keeps), float16, float32 or float64, got {mask.dtype}")
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
    scores = (*q.shape[:3], k.shape[2])
    if mask is not None:
        check_broadcast(scores, "(B, Hq, Sq, Skv) =", mask=mask)
