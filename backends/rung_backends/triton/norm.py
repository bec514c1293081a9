"""Normalisation over the last axis, and its modulation, in Triton.

Sums are float32 or wider whatever the dtype, and the variance is that of differences from the mean, in a second pass.
Before its mean a row loses its first element: of equal elements nothing is left then, where rounding the mean would
leave something that eps cannot hide.
Forward only: an argument that records a gradient is refused. Must not change an argument.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rung_backends.numbers import check_not_negative
from rung_backends.triton.launching import (
    check,
    elementwise,
    launch,
    lay_out,
    place,
    put,
    scalar,
    spread,
    tile,
    tile_for,
)

__all__ = ["layer_norm", "modulate", "rms_norm"]

_WHOLE = 8192
"""Columns up to which a row stays in registers; a longer one is read once more for each pass, in parts."""
_PART = 4096


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """Divide by the root mean square of the last axis: ``x / sqrt(mean(x**2) + eps) * weight``.

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    Args:
        x: float16, bfloat16, float32 or float64, shape (..., D).
        weight: Any of those dtypes, shape (D,); 1 where there is none.
        eps: What keeps the root away from 0; finite, not negative.

    Returns:
        A new tensor of x's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype, or eps is no number.
        ValueError: The shapes do not fit, the devices differ, or eps is not usable.
        RuntimeError: An argument records a gradient.

    """
    return _normalised(x, weight, None, eps, centred=False)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
    """Normalise the last axis: ``(x - mean(x)) / sqrt(var(x) + eps) * weight + bias``, the variance divided by D.

    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.

    Args:
        x: float16, bfloat16, float32 or float64, shape (..., D).
        weight: Any of those dtypes, shape (D,); 1 where there is none.
        bias: Any of those dtypes, shape (D,); 0 where there is none.
        eps: What keeps the root away from 0; finite, not negative.

    Returns:
        A new tensor of x's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype, or eps is no number.
        ValueError: The shapes do not fit, the devices differ, or eps is not usable.
        RuntimeError: An argument records a gradient.

    """
    return _normalised(x, weight, bias, eps, centred=True)


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Scale and shift by what a condition says: ``x * (1 + scale) + shift``.

    The adaptive layer norm of Peebles and Xie, "Scalable Diffusion Models with Transformers", 2023.

    Args:
        x: float16, bfloat16, float32 or float64, any shape.
        shift: Any of those dtypes, a shape that broadcasts to x's.
        scale: Any of those dtypes, a shape that broadcasts to x's.

    Returns:
        A new tensor of x's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype.
        ValueError: The shapes do not fit, or the devices differ.
        RuntimeError: An argument records a gradient.

    """
    wide = check(x=x, shift=shift, scale=scale)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return elementwise(_modulate, out, x, spread(x.shape, shift=shift), spread(x.shape, scale=scale), wide=wide)


def _normalised(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, *, centred: bool) -> Tensor:
    wide = check(x=x, weight=weight, bias=bias)
    if x.ndim == 0:
        raise ValueError("x needs an axis to normalise: its shape is ()")
    for name, array in (("weight", weight), ("bias", bias)):
        if array is not None and array.shape != x.shape[-1:]:
            raise ValueError(f"{name} must have shape {tuple(x.shape[-1:])}, x's last axis, got {tuple(array.shape)}")
    eps = check_not_negative("eps", eps)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    layout = lay_out(x, keep="last")
    whole = layout.cols <= _WHOLE
    size = tile_for(layout.cols, _WHOLE if whole else _PART)
    launch(
        _normalise,
        triton.cdiv(layout.rows, size.rows),
        out,
        *layout.arrays,
        x if weight is None else weight,
        x if bias is None else bias,
        scalar(eps, wide, out),
        layout.rows,
        layout.cols,
        *layout.middle,
        *layout.steps,
        0 if weight is None else weight.stride(0),
        0 if bias is None else bias.stride(0),
        wide=wide,
        warps=size.warps,
        centred=centred,
        weighted=weight is not None,
        biased=bias is not None,
        whole=whole,
        axes=layout.axes,
        tile_rows=size.rows,
        tile_cols=size.cols,
    )
    return out


@triton.jit(do_not_specialize=["rows", "n1", "n2"])
def _normalise(
    out, x, weight, bias, eps, rows, cols, n1, n2,
    x0, x1, x2, x3, w3, b3,
    centred: tl.constexpr, weighted: tl.constexpr, biased: tl.constexpr, whole: tl.constexpr,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    if compute == tl.float64:
        eps = tl.load(eps)
    row = tl.program_id(0).to(tl.int64) * tile_rows + tl.arange(0, tile_rows)[:, None]
    lane = tl.arange(0, tile_cols).to(tl.int64)[None, :]
    x += place(row, n1, n2, x0, x1, x2, axes)
    out += row * cols
    if whole:
        inside = (row < rows) & (lane < cols)
        v = tl.load(x + lane * x3, mask=inside, other=0.0).to(compute)
        if centred:
            first = tl.load(x, mask=row < rows, other=0.0).to(compute)
            v = tl.where(inside, v - first, 0.0)
            v = tl.where(inside, v - tl.sum(v, 1)[:, None] / cols, 0.0)
        rate = 1.0 / tl.sqrt(tl.sum(v * v, 1)[:, None] / cols + eps)
        v = _affine(v * rate, weight, bias, lane, cols, w3, b3, weighted, biased, compute)
        put(out + lane, v, inside)
    else:
        first = tl.zeros((tile_rows, 1), compute)
        mean = tl.zeros((tile_rows, 1), compute)
        if centred:
            first = tl.load(x, mask=row < rows, other=0.0).to(compute)
            total = tl.zeros((tile_rows, tile_cols), compute)
            for start in range(0, cols, tile_cols):
                col = lane + start
                inside = (row < rows) & (col < cols)
                total += tl.where(inside, tl.load(x + col * x3, mask=inside, other=0.0).to(compute) - first, 0.0)
            mean = tl.sum(total, 1)[:, None] / cols
        total = tl.zeros((tile_rows, tile_cols), compute)
        for start in range(0, cols, tile_cols):
            col = lane + start
            inside = (row < rows) & (col < cols)
            v = tl.where(inside, tl.load(x + col * x3, mask=inside, other=0.0).to(compute) - first - mean, 0.0)
            total += v * v
        rate = 1.0 / tl.sqrt(tl.sum(total, 1)[:, None] / cols + eps)
        for start in range(0, cols, tile_cols):
            col = lane + start
            inside = (row < rows) & (col < cols)
            v = (tl.load(x + col * x3, mask=inside, other=0.0).to(compute) - first - mean) * rate
            v = _affine(v, weight, bias, col, cols, w3, b3, weighted, biased, compute)
            put(out + col, v, inside)


@triton.jit
def _affine(
    v, weight, bias, col, cols, w3, b3,
    weighted: tl.constexpr, biased: tl.constexpr, compute: tl.constexpr,
):  # fmt: skip
    if weighted:
        v *= tl.load(weight + col * w3, mask=col < cols, other=0.0).to(compute)
    if biased:
        v += tl.load(bias + col * b3, mask=col < cols, other=0.0).to(compute)
    return v


@triton.jit(do_not_specialize=["rows", "n1", "n2"])
def _modulate(
    out, x, shift, scale, rows, cols, n1, n2,
    x0, x1, x2, x3, a0, a1, a2, a3, b0, b1, b2, b3,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    row, col, inside = tile(tl.program_id(0), rows, cols, tile_rows, tile_cols)
    v = tl.load(x + place(row, n1, n2, x0, x1, x2, axes) + col * x3, mask=inside).to(compute)
    a = tl.load(shift + place(row, n1, n2, a0, a1, a2, axes) + col * a3, mask=inside).to(compute)
    b = tl.load(scale + place(row, n1, n2, b0, b1, b2, axes) + col * b3, mask=inside).to(compute)
    put(out + row * cols + col, v * (1.0 + b) + a, inside)
