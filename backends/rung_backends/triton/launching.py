"""What the Triton kernels share: what they refuse, how they see memory, how large their tiles are, how they start.

Owns the walk over memory. A kernel sees elements as rows of columns and covers them with tiles of both. Rows are
numbered through up to three axes and every axis has its stride, so arrays are read where they lie, whatever their
layout; results are contiguous. Must not name a device, read a tensor's value, or know what an op computes.

Arithmetic is in float32, and in float64 as soon as one array is. Products and sums are not fused into one rounding, so
that elementwise results are those of eager torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

__all__ = [
    "TILE",
    "Layout",
    "Tile",
    "check",
    "elementwise",
    "launch",
    "lay_out",
    "place",
    "put",
    "scalar",
    "spread",
    "tile",
    "tile_for",
]

TILE = 1024
"""How many elements a program takes at once, where the op does not need whole rows."""

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_PER_WARP = 256  # eight elements per thread: 16 bytes of a half type
_MOST_WARPS = 8

Strides = tuple[int, ...]


class Layout(NamedTuple):
    """Elements of some arrays of one shape, as `samples` of `rows` of `cols`.

    There are four axes, of which the last is the columns and the first is the samples, where they are told apart;
    `strides` are those of each array. A row is numbered through the axes before the columns: `middle` are the sizes of
    the second and the third, and `axes` says how many of them, from the columns backwards, count at all.
    """

    samples: int
    rows: int
    cols: int
    middle: tuple[int, int]
    axes: int
    arrays: tuple[Tensor, ...]
    strides: tuple[Strides, ...]

    @property
    def steps(self) -> Iterator[int]:
        """All strides, array after array."""
        return (step for steps in self.strides for step in steps)


class Tile(NamedTuple):
    """How many rows and columns one program takes, powers of two, and how many warps share them."""

    rows: int
    cols: int
    warps: int


def check(**arrays: Tensor | None) -> bool:
    """Refuse what the kernels cannot take, under the names given; say whether to compute in float64.

    Raises:
        TypeError: An argument is no tensor or has another dtype than float16, bfloat16, float32 or float64.
        ValueError: The arguments lie on several devices, or on the CPU without the interpreter.
        RuntimeError: A gradient is being recorded for an argument.

    """
    wide = False
    first: tuple[str, torch.device] | None = None
    for name, array in arrays.items():
        if array is None:
            continue
        if not isinstance(array, Tensor):
            raise TypeError(f"{name} must be a torch tensor, got {type(array).__name__}")
        if array.dtype not in _DTYPES:
            raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {array.dtype}")
        if first is None:
            first = name, array.device
        elif array.device != first[1]:
            raise ValueError(f"{name} must be on {first[0]}'s device {first[1]}, got {array.device}")
        if array.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(f"{name} records a gradient, which this kernel does not have: use another backend's")
        wide = wide or array.dtype == torch.float64
    if first and first[1].type == "cpu" and isinstance(place, triton.JITFunction):
        raise ValueError(f"{first[0]} is on the CPU: set TRITON_INTERPRET=1 before triton is imported, to interpret it")
    return wide


def spread(shape: torch.Size, **array: Tensor) -> Tensor:
    """Broadcast the one array that is passed, under its name, to a shape; the result is a view."""
    ((name, tensor),) = array.items()
    try:
        return tensor.expand(shape)
    except RuntimeError:
        raise ValueError(f"{name} must broadcast to {tuple(shape)}, got {tuple(tensor.shape)}") from None


def lay_out(*arrays: Tensor, keep: Literal["first", "last", "none"] = "none") -> Layout:
    """See arrays of one shape, not empty, as samples of rows of columns.

    Neighbouring axes that every array steps through as if they were one are merged. With keep="last" the last axis
    stays the columns, with keep="first" the first axis stays the samples; otherwise the columns are what is innermost
    after merging, and there is one sample.

    Arrays that need more than four axes even so are copied into contiguous memory.
    """
    shape, strides = arrays[0].shape, [array.stride() for array in arrays]
    cut, room = {"none": (0, (0, 4)), "first": (1, (1, 3)), "last": (len(shape) - 1, (3, 1))}[keep]
    outer = _merged(shape[:cut], [steps[:cut] for steps in strides])
    inner = _merged(shape[cut:], [steps[cut:] for steps in strides])
    if len(outer) > room[0] or len(inner) > room[1]:
        return lay_out(*(array.contiguous() for array in arrays), keep=keep)

    absent = (1, (0,) * len(arrays))
    axes = [absent] * (room[0] - len(outer)) + outer + [absent] * (room[1] - len(inner)) + inner
    sizes = [size for size, _ in axes]
    samples, sizes[0] = (sizes[0], 1) if keep == "first" else (1, sizes[0])
    return Layout(
        samples,
        math.prod(sizes[:3]),
        sizes[3],
        (sizes[1], sizes[2]),
        next((3 - i for i in range(2) if sizes[i] != 1), 1),
        arrays,
        tuple(zip(*(steps for _, steps in axes), strict=True)),
    )


def _merged(shape: Sequence[int], strides: Sequence[Strides]) -> list[tuple[int, Strides]]:
    """Give the axes that are left, outermost first: their size and each array's stride."""
    axes: list[tuple[int, Strides]] = []
    for i, size in enumerate(shape):
        if size == 1:
            continue
        steps = tuple(array[i] for array in strides)
        if axes and axes[-1][1] == tuple(step * size for step in steps):
            size *= axes.pop()[0]
        axes.append((size, steps))
    return axes


def tile_for(cols: int, most: int = TILE) -> Tile:
    """Give the tile for rows of so many columns: no more columns than `most`, and rows to make up for short ones."""
    width = min(triton.next_power_of_2(cols), most)
    height = max(1, TILE // width)
    return Tile(height, width, max(1, min(_MOST_WARPS, width * height // _PER_WARP)))


def scalar(value: float, wide: bool, like: Tensor) -> float | Tensor:
    """Give a number as a kernel takes it: a Python float arrives as float32, so float64 is read from memory."""
    return torch.full((1,), value, dtype=torch.float64, device=like.device) if wide else value


def launch(kernel: Any, programs: int, out: Tensor, *args: Any, wide: bool, warps: int, **constants: Any) -> None:
    """Start so many programs of a kernel on out's device, on its current stream."""
    constants["compute"] = tl.float64 if wide else tl.float32
    with _current(out.device):
        kernel[(programs,)](out, *args, **constants, num_warps=warps, enable_fp_fusion=False)


def elementwise(kernel: Any, out: Tensor, *arrays: Tensor, numbers: tuple[float, ...] = (), wide: bool) -> Tensor:
    """Fill `out` from arrays of its shape, one program per tile, and give it back.

    The kernel takes out, the arrays, the numbers, the rows, the columns, the sizes of the axes between, each array's
    four strides, and as constants how many axes number the rows, the dtype to compute in, and the tile's sizes.
    """
    if not out.numel():
        return out
    layout = lay_out(*arrays)
    size = tile_for(layout.cols)
    launch(
        kernel,
        triton.cdiv(layout.rows, size.rows) * triton.cdiv(layout.cols, size.cols),
        out,
        *layout.arrays,
        *(scalar(number, wide, out) for number in numbers),
        layout.rows,
        layout.cols,
        *layout.middle,
        *layout.steps,
        wide=wide,
        warps=size.warps,
        axes=layout.axes,
        tile_rows=size.rows,
        tile_cols=size.cols,
    )
    return out


def _current(device: torch.device) -> AbstractContextManager[Any]:
    """Make a device the current one, where there may be several: that is where Triton launches.

    The interpreter computes with numpy, which would warn of infinities and NaN, answers like any other.
    """
    if device.type == "cpu":
        return np.errstate(all="ignore")
    current: AbstractContextManager[Any] = getattr(torch, device.type).device(device)
    return current


# The walk, as kernels do it. Everything that may pass 2**31 is int64.


@triton.jit
def tile(index, rows, cols, tile_rows: tl.constexpr, tile_cols: tl.constexpr):
    """Give the rows, as a column, and the columns, as a row, of a tile, and which of its elements are there.

    Tiles are numbered along the rows.
    """
    across = tl.cdiv(cols, tile_cols)
    row = (index // across).to(tl.int64) * tile_rows + tl.arange(0, tile_rows)
    col = (index % across).to(tl.int64) * tile_cols + tl.arange(0, tile_cols)
    inside = (row < rows)[:, None] & (col < cols)[None, :]
    return row[:, None], col[None, :], inside


@triton.jit
def place(row, n1, n2, s0, s1, s2, axes: tl.constexpr):
    """Give the offset at which a row begins in an array of these strides."""
    at = row * s2
    if axes == 2:
        at = row // n2 * s1 + row % n2 * s2
    if axes == 3:
        outer = row // n2
        at = outer // n1 * s0 + outer % n1 * s1 + row % n2 * s2
    return at


@triton.jit
def put(at, value, inside):
    """Store values in the dtype of where they go: float64 reaches bfloat16 by way of float32, as it does in torch."""
    if at.dtype.element_ty == tl.bfloat16:
        value = value.to(tl.float32)
    tl.store(at, value, mask=inside)
