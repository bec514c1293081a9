"""Rounding to bfloat16 and float8: against torch's own casts, and by hand where torch differs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from rung_backends.reference.rounding import FORMATS, rounded

FLOAT8 = ["float8_e4m3fn", "float8_e5m2"]


def same(a: Any, b: Any) -> bool:
    """Equal with signs of zero, all NaN being one."""
    return bool(np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0])))


@pytest.mark.parametrize("name", FORMATS)
def test_every_value_of_a_format_stays_itself(name: str) -> None:
    torch = pytest.importorskip("torch")
    if name == "bfloat16":
        codes = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    else:
        codes = torch.arange(256, dtype=torch.uint8)
    values = codes.view(getattr(torch, name)).double().numpy()
    values = values[~np.isinf(values)]
    assert same(rounded(values, name), values)
    assert np.nanmax(values) == FORMATS[name].largest


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", FORMATS)
def test_values_between_round_as_torch_casts_them(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    # Of all magnitudes, none below the half of the smallest: torch goes by float32, which has an end there.
    rng = np.random.default_rng(0)
    form = FORMATS[name]
    low, high = form.lowest, math.log2(form.largest)
    if dtype == "float16":
        low, high = max(low, -14), min(high, 15)
    values = rng.choice([-1.0, 1.0], 20000) * np.exp2(rng.uniform(low, high, 20000))
    values = values.astype(np.float32).astype(dtype)  # torch rounds float32 in one step, and only that
    cast = torch.from_numpy(values).float().to(getattr(torch, name)).double().numpy()
    assert same(rounded(values, name), cast)


@pytest.mark.parametrize("name", FORMATS)
def test_halfway_goes_to_the_even_neighbour(name: str) -> None:
    torch = pytest.importorskip("torch")
    if name == "bfloat16":
        grid = torch.arange(2**15, dtype=torch.int16).view(torch.bfloat16).double().numpy()
    else:
        grid = torch.arange(128, dtype=torch.uint8).view(getattr(torch, name)).double().numpy()
    grid = grid[np.isfinite(grid)]
    halfway = (grid[:-1] + grid[1:]) / 2
    even = np.where(np.arange(len(halfway)) % 2 == 0, grid[:-1], grid[1:])
    assert_array_equal(rounded(halfway, name), even)
    assert_array_equal(rounded(np.nextafter(halfway, -np.inf), name), grid[:-1])
    assert_array_equal(rounded(np.nextafter(halfway, np.inf), name), grid[1:])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        pytest.param("float8_e4m3fn", 463.9, 448.0, id="e4m3fn, rounds to the largest"),
        pytest.param("float8_e4m3fn", 1e9, 448.0, id="e4m3fn, far beyond"),
        pytest.param("float8_e4m3fn", -math.inf, -448.0, id="e4m3fn, infinite"),
        pytest.param("float8_e5m2", 65536.0, 57344.0, id="e5m2, beyond"),
        pytest.param("float8_e5m2", math.inf, 57344.0, id="e5m2, infinite"),
        pytest.param("float8_e4m3fn", 2.0**-10, 0.0, id="e4m3fn, half of the smallest"),
        pytest.param("float8_e4m3fn", -1.1 * 2.0**-10, -(2.0**-9), id="e4m3fn, above half of the smallest"),
        pytest.param("float8_e5m2", 1.5 * 2.0**-16, 2.0**-15, id="e5m2, subnormal halfway"),
        pytest.param("bfloat16", (2 - 2.0**-8) * 2.0**127, math.inf, id="bfloat16, halfway past the largest"),
        pytest.param("bfloat16", (2 - 1.01 * 2.0**-8) * 2.0**127, (2 - 2.0**-7) * 2.0**127, id="bfloat16, below that"),
        pytest.param("bfloat16", 1e300, math.inf, id="bfloat16, far beyond"),
        pytest.param("bfloat16", -math.inf, -math.inf, id="bfloat16, infinite"),
        pytest.param("bfloat16", 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7, id="bfloat16, rounded once and not by float32"),
        pytest.param("bfloat16", 2.0**-134, 0.0, id="bfloat16, half of the smallest"),
        pytest.param("bfloat16", 5e-324, 0.0, id="bfloat16, float64's smallest"),
        pytest.param("bfloat16", -0.0, -0.0, id="bfloat16, minus zero"),
        pytest.param("bfloat16", math.nan, math.nan, id="bfloat16, nan"),
        pytest.param("float8_e4m3fn", math.nan, math.nan, id="e4m3fn, nan"),
    ],
)
def test_ends(name: str, value: float, expected: float) -> None:
    assert same(rounded(np.array([value]), name), np.array([expected]))


@pytest.mark.parametrize("name", FORMATS)
@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_rounding_keeps_order_and_sign_and_is_done_once(name: str, a: float, b: float) -> None:
    low, high = rounded(np.array(sorted((a, b))), name)
    assert low <= high
    assert same(rounded(np.array([-a]), name), -rounded(np.array([a]), name))
    assert rounded(np.array([low]), name)[0] == low


def test_shapes_and_arguments_are_left_alone() -> None:
    values = np.broadcast_to(np.array([[1.01], [2.02]], np.float16), (2, 3))
    before = values.copy()
    assert rounded(values, "float8_e5m2").shape == (2, 3)
    assert rounded(np.zeros((2, 0)), "bfloat16").shape == (2, 0)
    assert_array_equal(values, before)
