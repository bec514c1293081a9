"""Rotary position embedding in Triton.

Forward only: an argument that records a gradient is refused. Must not change an argument.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rung_backends.triton.launching import check, launch, lay_out, place, put, spread, tile, tile_for

__all__ = ["rotary_embedding"]


def rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    """Turn pairs of elements of the last axis by the angles whose cosines and sines are given.

    A pair (a, b) becomes ``(a cos - b sin, b cos + a sin)`` (Su et al., "RoFormer: Enhanced Transformer with Rotary
    Position Embedding", 2021). With R/2 angles, pair i is elements (2i, 2i + 1) if `interleaved`, else (i, i + R/2).
    Elements from R on pass through.

    Args:
        x: float16, bfloat16, float32 or float64, shape (..., S, D).
        cos: Any of those dtypes, shape (..., S, R/2), or (R/2,) for all places alike, which broadcasts to x's leading
            axes; R is at most D.
        sin: As `cos`, and of its shape.
        interleaved: Which elements are pairs.

    Returns:
        A new tensor of x's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype.
        ValueError: The shapes do not fit, or the devices differ.
        RuntimeError: An argument records a gradient.

    """
    wide = check(x=x, cos=cos, sin=sin)
    if x.ndim < 2 or not cos.ndim:
        raise ValueError(f"x needs the axes (S, D) and cos R/2, got {tuple(x.shape)} and {tuple(cos.shape)}")
    if sin.shape != cos.shape:
        raise ValueError(f"sin must have cos's shape {tuple(cos.shape)}, got {tuple(sin.shape)}")
    pairs = cos.shape[-1]
    if 2 * pairs > x.shape[-1]:
        raise ValueError(f"cos has {pairs} angles, too many for a last axis of {x.shape[-1]}: two elements make a pair")
    angles = torch.Size((*x.shape[:-1], pairs))
    cos, sin = spread(angles, cos=cos), spread(angles, sin=sin)

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if 2 * pairs < x.shape[-1]:
        out[..., 2 * pairs :] = x[..., 2 * pairs :]
    if not angles.numel():
        return out
    every, apart = (2, 1) if interleaved else (1, pairs)
    first = x[..., : every * pairs : every]
    layout = lay_out(first, x[..., apart : apart + every * pairs : every], cos, sin, keep="last")
    size = tile_for(pairs)
    launch(
        _turn,
        triton.cdiv(layout.rows, size.rows) * triton.cdiv(pairs, size.cols),
        out,
        *layout.arrays,
        x.shape[-1],
        every,
        apart,
        layout.rows,
        pairs,
        *layout.middle,
        *(step for steps in layout.strides[1:] for step in steps),
        wide=wide,
        warps=size.warps,
        axes=layout.axes,
        tile_rows=size.rows,
        tile_cols=size.cols,
    )
    return out


@triton.jit(do_not_specialize=["rows", "n1", "n2"])
def _turn(
    out, first, second, cos, sin, width, every, apart,
    rows, cols, n1, n2,
    x0, x1, x2, x3, c0, c1, c2, c3, s0, s1, s2, s3,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    row, col, inside = tile(tl.program_id(0), rows, cols, tile_rows, tile_cols)
    at = place(row, n1, n2, x0, x1, x2, axes) + col * x3  # the same in both, which differ in where they begin
    a = tl.load(first + at, mask=inside).to(compute)
    b = tl.load(second + at, mask=inside).to(compute)
    c = tl.load(cos + place(row, n1, n2, c0, c1, c2, axes) + col * c3, mask=inside).to(compute)
    s = tl.load(sin + place(row, n1, n2, s0, s1, s2, axes) + col * s3, mask=inside).to(compute)
    at = row * width + col * every
    put(out + at, a * c - b * s, inside)
    put(out + at + apart, b * c + a * s, inside)
