"""The gated activation in Triton.

Forward only: an argument that records a gradient is refused. Must not change an argument.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rung_backends.triton.launching import check, elementwise, place, put, tile

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
        RuntimeError: x records a gradient.

    """
    wide = check(x=x)
    if x.ndim == 0 or x.shape[-1] % 2:
        raise ValueError(f"x needs a last axis of even size, got shape {tuple(x.shape)}")
    half = x.shape[-1] // 2
    out = torch.empty((*x.shape[:-1], half), dtype=x.dtype, device=x.device)
    return elementwise(_silu_and_mul, out, x[..., :half], x[..., half:], wide=wide)


@triton.jit(do_not_specialize=["rows", "n1", "n2"])
def _silu_and_mul(
    out, gate, value, rows, cols, n1, n2,
    g0, g1, g2, g3, v0, v1, v2, v3,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    row, col, inside = tile(tl.program_id(0), rows, cols, tile_rows, tile_cols)
    g = tl.load(gate + place(row, n1, n2, g0, g1, g2, axes) + col * g3, mask=inside, other=0.0).to(compute)
    v = tl.load(value + place(row, n1, n2, v0, v1, v2, axes) + col * v3, mask=inside, other=0.0).to(compute)
    small = tl.exp(-tl.abs(g))  # at most 1, where exp(-g) may overflow
    put(out + row * cols + col, g * (tl.where(g < 0, small, 1.0) / (1.0 + small)) * v, inside)
