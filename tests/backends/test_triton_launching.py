"""How the Triton kernels see memory: as rows of columns that lead to every element, whatever its strides."""

from __future__ import annotations

import importlib.util
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)

from rung_backends.triton.launching import Layout, lay_out, tile_for  # noqa: E402 - needs triton

if TYPE_CHECKING:
    from collections.abc import Callable


@st.composite
def views(draw: Callable[..., Any], least: int = 0) -> list[Any]:
    """Give up to three tensors of one shape whose axes were permuted, sliced or broadcast, each in its way."""
    shape = draw(st.lists(st.integers(1, 3), min_size=least, max_size=6))
    arrays = []
    for _ in range(draw(st.integers(1, 3))):
        steps = [draw(st.sampled_from([0, 1, 2])) for _ in shape]  # 0: broadcast
        sizes = [size * step or 1 for size, step in zip(shape, steps, strict=True)]
        order = draw(st.permutations(range(len(shape))))
        whole = torch.arange(float(math.prod(sizes))).reshape([sizes[i] for i in order])
        array = whole.permute([order.index(i) for i in range(len(shape))])
        arrays.append(array[tuple(slice(None, None, step or 1) for step in steps)].expand(shape))
    return arrays


def gathered(layout: Layout, index: int) -> list[float]:
    """Read an array the way a kernel does: sample by sample, row by row, column by column."""
    array: Any = layout.arrays[index]
    steps = layout.strides[index]
    n1, n2 = layout.middle
    memory = array.as_strided((int(array.untyped_storage().nbytes() // array.element_size()),), (1,), 0)
    out: list[float] = []
    for sample in range(layout.samples):
        for row in range(layout.rows):
            at = {
                1: row * steps[2],
                2: row // n2 * steps[1] + row % n2 * steps[2],
                3: row // n2 // n1 * steps[0] + row // n2 % n1 * steps[1] + row % n2 * steps[2],
            }[layout.axes]
            at += array.storage_offset() + (sample * steps[0] if layout.samples > 1 else 0)
            out += [memory[at + col * steps[3]].item() for col in range(layout.cols)]
    return out


@given(arrays=views())
def test_every_element_is_found(arrays: list[Any]) -> None:
    layout = lay_out(*arrays)
    assert layout.samples == 1
    for i, array in enumerate(arrays):
        assert gathered(layout, i) == array.flatten().tolist()


@given(arrays=views(least=1))
def test_the_last_axis_can_be_kept(arrays: list[Any]) -> None:
    layout = lay_out(*arrays, keep="last")
    assert layout.samples == 1
    assert layout.cols == arrays[0].shape[-1]
    for i, array in enumerate(arrays):
        assert gathered(layout, i) == array.flatten().tolist()


@given(arrays=views(least=1))
def test_the_first_axis_can_be_kept(arrays: list[Any]) -> None:
    layout = lay_out(*arrays, keep="first")
    assert layout.samples == arrays[0].shape[0]
    assert layout.axes < 3
    for i, array in enumerate(arrays):
        assert gathered(layout, i) == array.flatten().tolist()


def test_contiguous_arrays_are_one_row() -> None:
    layout = lay_out(torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 4, 5))
    assert (layout.rows, layout.cols, layout.axes) == (1, 120, 1)


def test_memory_that_fits_is_not_copied() -> None:
    heads = torch.zeros(2, 7, 3, 8).transpose(1, 2)
    layout = lay_out(heads, heads[:, :1].expand(2, 3, 7, 8), keep="last")
    assert layout.arrays[0] is heads
    assert layout.strides == ((168, 8, 24, 1), (168, 0, 24, 1))


@pytest.mark.parametrize("cols", [1, 2, 3, 63, 64, 1000, 1024, 1025, 10**6])
@pytest.mark.parametrize("most", [1024, 8192])
def test_tiles_are_powers_of_two(cols: int, most: int) -> None:
    size = tile_for(cols, most)
    assert all(n & (n - 1) == 0 for n in size)
    assert min(cols, most) <= size.cols <= most
    assert 1024 <= size.rows * size.cols <= most
    assert 1 <= size.warps <= 8
