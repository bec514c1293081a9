"""Classifier-free guidance in Triton.

Sums are taken in a fixed order, without atomic operations: the same input gives the same bits. Forward only: an
argument that records a gradient is refused. Must not change an argument.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rung_backends.numbers import check_finite
from rung_backends.triton.launching import check, elementwise, launch, lay_out, place, put, scalar, tile, tile_for

__all__ = ["cfg_combine"]

_CHUNKS = 128
"""How many programs share the statistics of one sample, at most."""


def cfg_combine(cond: Tensor, uncond: Tensor, guidance_scale: float, *, rescale: float = 0.0) -> Tensor:
    """Combine two predictions: ``out = uncond + guidance_scale * (cond - uncond)``, its spread rescaled on demand.

    Source: Ho and Salimans, "Classifier-Free Diffusion Guidance", 2022. With ``rescale``, phi, the result is
    ``phi * out * std(cond) / std(out) + (1 - phi) * out``, the standard deviations over all axes but the first (Lin et
    al., "Common Diffusion Noise Schedules and Sample Steps are Flawed", 2023, section 3.4); where std(out) is 0, and at
    a guidance_scale of 1, the quotient is 1.

    Args:
        cond: Predicted with the condition: float16, bfloat16, float32 or float64, any shape of at least one axis; the
            first is the batch.
        uncond: Predicted without; cond's shape, any of those dtypes.
        guidance_scale: 0 is `uncond`, 1 is `cond` but for rounding, and more than 1 goes beyond `cond`; in the range of
            what is computed in, float32 or float64.
        rescale: How much of the spread of `cond` is restored, from 0, nothing, to 1, all.

    Returns:
        A new tensor of cond's shape and dtype.

    Raises:
        TypeError: An array is no torch tensor or has another dtype, or a number is none.
        ValueError: Shapes or devices differ, there is no batch axis, or a number is out of range.
        RuntimeError: An argument records a gradient.

    """
    wide = check(cond=cond, uncond=uncond)
    if uncond.shape != cond.shape:
        raise ValueError(f"uncond must have cond's shape {tuple(cond.shape)}, got {tuple(uncond.shape)}")
    if cond.ndim == 0:
        raise ValueError("cond needs a batch axis: its shape is (), use cond[None]")
    most = torch.finfo(torch.float64 if wide else torch.float32).max
    guidance_scale = check_finite("guidance_scale", guidance_scale, within=(-most, most))
    rescale = check_finite("rescale", rescale, within=(0.0, 1.0))
    out = torch.empty(cond.shape, dtype=cond.dtype, device=cond.device)
    if rescale == 0.0 or guidance_scale == 1.0 or not out.numel():
        return elementwise(_combine, out, cond, uncond, numbers=(guidance_scale,), wide=wide)

    layout = lay_out(cond, uncond, keep="first")
    size = tile_for(layout.cols)
    tiles = triton.cdiv(layout.rows, size.rows) * triton.cdiv(layout.cols, size.cols)
    chunks = min(tiles, _CHUNKS)
    moments = torch.empty(
        (layout.samples, 5, chunks), dtype=torch.float64 if wide else torch.float32, device=out.device
    )
    shared = (*layout.arrays, scalar(guidance_scale, wide, out))
    walk = (layout.rows, layout.cols, *layout.middle, *layout.steps)
    constants: dict[str, Any] = {"wide": wide, "warps": size.warps, "axes": layout.axes}
    constants |= {"tile_rows": size.rows, "tile_cols": size.cols}
    launch(_moments, layout.samples * chunks, moments, *shared, tiles, chunks, *walk, **constants)
    launch(
        _rescale,
        layout.samples * tiles,
        out,
        *shared,
        scalar(rescale, wide, out),
        moments,
        tiles,
        chunks,
        *walk,
        most_chunks=triton.next_power_of_2(chunks),
        **constants,
    )
    return out


@triton.jit(do_not_specialize=["rows", "n1", "n2"])
def _combine(
    out, cond, uncond, guidance_scale, rows, cols, n1, n2,
    c0, c1, c2, c3, u0, u1, u2, u3,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    if compute == tl.float64:
        guidance_scale = tl.load(guidance_scale)
    row, col, inside = tile(tl.program_id(0), rows, cols, tile_rows, tile_cols)
    c = tl.load(cond + place(row, n1, n2, c0, c1, c2, axes) + col * c3, mask=inside).to(compute)
    u = tl.load(uncond + place(row, n1, n2, u0, u1, u2, axes) + col * u3, mask=inside).to(compute)
    put(out + row * cols + col, u + guidance_scale * (c - u), inside)


@triton.jit(do_not_specialize=["tiles", "chunks", "rows", "n1", "n2"])
def _moments(
    moments, cond, uncond, guidance_scale, tiles, chunks,
    rows, cols, n1, n2,
    c0, c1, c2, c3, u0, u1, u2, u3,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    """Write the count, and of cond and of out the mean and the sum of squared differences from it, of every chunk.

    A chunk is every so-many-th tile of a sample. Means are relative to the sample's first element, so that a sample of
    equal elements has a spread of exactly 0.
    """
    if compute == tl.float64:
        guidance_scale = tl.load(guidance_scale)
    sample = (tl.program_id(0) // chunks).to(tl.int64)
    chunk = tl.program_id(0) % chunks
    cond += sample * c0
    uncond += sample * u0
    c_first = tl.load(cond).to(compute)
    u_first = tl.load(uncond).to(compute)
    o_first = u_first + guidance_scale * (c_first - u_first)

    count = tl.zeros((tile_rows, tile_cols), compute)
    c_total = tl.zeros((tile_rows, tile_cols), compute)
    o_total = tl.zeros((tile_rows, tile_cols), compute)
    for i in range(chunk, tiles, chunks):
        row, col, inside = tile(i, rows, cols, tile_rows, tile_cols)
        c = tl.load(cond + place(row, n1, n2, 0, c1, c2, axes) + col * c3, mask=inside).to(compute)
        u = tl.load(uncond + place(row, n1, n2, 0, u1, u2, axes) + col * u3, mask=inside).to(compute)
        count += tl.where(inside, 1.0, 0.0)
        c_total += tl.where(inside, c - c_first, 0.0)
        o_total += tl.where(inside, u + guidance_scale * (c - u) - o_first, 0.0)
    n = tl.sum(tl.sum(count, 1), 0)
    c_mean = tl.sum(tl.sum(c_total, 1), 0) / n
    o_mean = tl.sum(tl.sum(o_total, 1), 0) / n

    c_total = tl.zeros((tile_rows, tile_cols), compute)
    o_total = tl.zeros((tile_rows, tile_cols), compute)
    c_lost = tl.zeros((tile_rows, tile_cols), compute)
    o_lost = tl.zeros((tile_rows, tile_cols), compute)
    for i in range(chunk, tiles, chunks):
        row, col, inside = tile(i, rows, cols, tile_rows, tile_cols)
        c = tl.load(cond + place(row, n1, n2, 0, c1, c2, axes) + col * c3, mask=inside).to(compute)
        u = tl.load(uncond + place(row, n1, n2, 0, u1, u2, axes) + col * u3, mask=inside).to(compute)
        c_off = tl.where(inside, c - c_first - c_mean, 0.0)
        o_off = tl.where(inside, u + guidance_scale * (c - u) - o_first - o_mean, 0.0)
        c_total, c_lost = _added(c_total, c_lost, c_off * c_off)
        o_total, o_lost = _added(o_total, o_lost, o_off * o_off)
    moments += sample * 5 * chunks + chunk
    tl.store(moments, n)
    tl.store(moments + chunks, c_mean)
    tl.store(moments + 2 * chunks, tl.sum(tl.sum(c_total, 1), 0))
    tl.store(moments + 3 * chunks, o_mean)
    tl.store(moments + 4 * chunks, tl.sum(tl.sum(o_total, 1), 0))


@triton.jit(do_not_specialize=["tiles", "chunks", "rows", "n1", "n2"])
def _rescale(
    out, cond, uncond, guidance_scale, rescale, moments, tiles, chunks,
    rows, cols, n1, n2,
    c0, c1, c2, c3, u0, u1, u2, u3, most_chunks: tl.constexpr,
    axes: tl.constexpr, compute: tl.constexpr, tile_rows: tl.constexpr, tile_cols: tl.constexpr,
):  # fmt: skip
    """Combine a tile, after the statistics of its sample's chunks: every program adds them up itself, alike."""
    if compute == tl.float64:
        guidance_scale = tl.load(guidance_scale)
        rescale = tl.load(rescale)
    sample = (tl.program_id(0) // tiles).to(tl.int64)
    lane = tl.arange(0, most_chunks)
    moments += sample * 5 * chunks + lane
    n = tl.load(moments, mask=lane < chunks, other=0.0)
    c_mean = tl.load(moments + chunks, mask=lane < chunks, other=0.0)
    c_squares = tl.load(moments + 2 * chunks, mask=lane < chunks, other=0.0)
    o_mean = tl.load(moments + 3 * chunks, mask=lane < chunks, other=0.0)
    o_squares = tl.load(moments + 4 * chunks, mask=lane < chunks, other=0.0)
    c_spread = _spread(n, c_mean, c_squares)
    o_spread = _spread(n, o_mean, o_squares)
    quotient = tl.where(o_spread == 0, 1.0, tl.sqrt(c_spread / tl.where(o_spread == 0, 1.0, o_spread)))

    cond += sample * c0
    uncond += sample * u0
    out += sample * rows * cols
    row, col, inside = tile(tl.program_id(0) % tiles, rows, cols, tile_rows, tile_cols)
    c = tl.load(cond + place(row, n1, n2, 0, c1, c2, axes) + col * c3, mask=inside).to(compute)
    u = tl.load(uncond + place(row, n1, n2, 0, u1, u2, axes) + col * u3, mask=inside).to(compute)
    put(out + row * cols + col, (u + guidance_scale * (c - u)) * (rescale * quotient + (1.0 - rescale)), inside)


@triton.jit
def _added(total, lost, term):
    """Give a sum with a term more, and what rounding it lost, negated: next time's term makes up for it (Kahan, 1965).

    The samples of videos have so many tiles that their squares, added one by one, would lose digits of float32.
    """
    term -= lost
    grown = total + term
    return grown, grown - total - term


@triton.jit
def _spread(n, mean, squares):
    """Give the sum of squared differences from the mean of all, from the counts, means and sums of parts."""
    off = mean - tl.sum(n * mean, 0) / tl.sum(n, 0)
    return tl.sum(squares + n * off * off, 0)
