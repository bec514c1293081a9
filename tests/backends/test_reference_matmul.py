"""The oracle of scaled_mm: its formula, its roundings, its scales and ends."""

from __future__ import annotations

import math
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rung_backends.reference import cases
from rung_backends.reference.matmul import scaled_mm
from rung_backends.reference.rounding import rounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

FLOAT8 = ["float8_e4m3fn", "float8_e5m2"]
OUT = ["bfloat16", "float16", "float32", "float64"]
ONE = np.array(1.0, np.float32)


def draw(*shape: int, seed: int = 0, dtype: str = "float32") -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# Cases.


@pytest.mark.parametrize("kind", FLOAT8)
def test_cases_hold_float8_values_and_agree_with_exact_sums(kind: str) -> None:
    for args, kwargs in cases.scaled_mm(kind, np.random.default_rng(3)):
        for name, array in signature(scaled_mm).bind(*args, **kwargs).arguments.items():
            if name != "out_dtype":
                assert array.dtype == np.float32
                form = {"a": kind, "b": kind, "bias": "bfloat16"}.get(name)
                seen = array[np.isfinite(array)]  # float8 saturates
                assert form is None or np.array_equal(rounded(seen, form), seen)
        a, b, scale_a, scale_b = (array.astype(np.float64) for array in args)
        if not all(np.isfinite(array).all() for array in args):
            continue
        left, right = a * scale_a, b * scale_b
        exact = np.array([[math.fsum(x * y) for y in right.T] for x in left]).reshape(a.shape[0], b.shape[1])
        exact = exact + kwargs.get("bias", 0.0)
        wide = scaled_mm(*args, **{**kwargs, "out_dtype": "float64"})
        assert_allclose(wide, exact, rtol=1e-14, atol=1e-14)


COVERED: list[tuple[str, Callable[[Any], bool]]] = [
    ("one element", lambda c: c["a"].size == c["b"].size == 1),
    ("no row", lambda c: c["a"].shape[0] == 0),
    ("no column", lambda c: c["b"].shape[1] == 0),
    ("no product", lambda c: c["a"].shape[1] == 0 and c["bias"] is None),
    ("no product, biased", lambda c: c["a"].shape[1] == 0 and c["bias"] is not None),
    ("one scale each", lambda c: c["scale_a"].ndim == c["scale_b"].ndim == 0),
    ("one scale in an axis", lambda c: c["scale_a"].shape == c["scale_b"].shape == (1,)),
    ("a scale for each", lambda c: c["scale_a"].size > 1 and c["scale_b"].size > 1),
    ("a scale for each row alone", lambda c: c["scale_a"].size > 1 and c["scale_b"].shape == ()),
    ("a scale for each column alone", lambda c: c["scale_a"].shape == () and c["scale_b"].size > 1),
    ("float16", lambda c: c["out_dtype"] == "float16" and c["bias"] is not None),
    ("float32", lambda c: c["out_dtype"] == "float32" and c["bias"] is not None),
    ("bfloat16, biased", lambda c: c["out_dtype"] == "bfloat16" and c["bias"] is not None),
    ("shapes of float8 hardware", lambda c: c["a"].shape[1] % 16 == c["b"].shape[1] % 16 == 0 < c["a"].size),
    ("odd shapes", lambda c: c["a"].shape[1] % 16 and c["b"].shape[1] % 16),
    ("a by columns", lambda c: not c["a"].flags.c_contiguous),
    ("b by columns", lambda c: not c["b"].flags.c_contiguous),
    ("beyond float16", lambda c: c["out_dtype"] == "float16" and bool(np.isinf(scaled_mm(**c)).any())),
]


@pytest.mark.parametrize("holds", [pytest.param(holds, id=name) for name, holds in COVERED])
def test_cases_cover(holds: Callable[[Any], bool]) -> None:
    found = []
    for args, kwargs in cases.scaled_mm("float8_e4m3fn", np.random.default_rng(0)):
        found.append(signature(scaled_mm).bind(*args, **kwargs))
        found[-1].apply_defaults()
    assert any(holds(case.arguments) for case in found)


def test_a_seed_decides_the_cases() -> None:
    first, second = (list(cases.scaled_mm("float8_e5m2", np.random.default_rng(7))) for _ in range(2))
    for (args, kwargs), (args_again, kwargs_again) in zip(first, second, strict=True):
        for mine, theirs in zip((*args, *kwargs.values()), (*args_again, *kwargs_again.values()), strict=True):
            assert_array_equal(mine, theirs)


def test_cases_refuse_other_dtypes() -> None:
    with pytest.raises(ValueError, match=r"dtype must be one of float8_e4m3fn, float8_e5m2, got 'float16'"):
        next(cases.scaled_mm("float16", np.random.default_rng(0)))


# Formula.


def test_by_hand() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    b = np.array([[1.0, 0.0, -1.0], [0.5, 2.0, 0.0]], np.float32)
    product = np.array([[2.0, 4.0, -1.0], [5.0, 8.0, -3.0]])
    rows, columns = np.array([[2.0], [10.0]], np.float32), np.array([[1.0, 0.5, 3.0]], np.float32)
    assert_array_equal(scaled_mm(a, b, ONE, ONE), product)
    assert_array_equal(scaled_mm(a, b, np.array(2.0), np.array([4.0])), 8 * product)
    assert_array_equal(scaled_mm(a, b, rows, columns), product * rows * columns)
    bias = np.array([1.0, 2.0, 4.0])
    assert_array_equal(scaled_mm(a, b, rows, ONE, bias=bias, out_dtype="float64"), product * rows + bias)
    assert_array_equal(scaled_mm(a, b, ONE, columns, bias=bias, out_dtype="float64"), product * columns + bias)


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(0, 9), st.integers(0, 4))
def test_scales_may_as_well_be_multiplied_in(seed: int, rows: int, width: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((rows, width)), rng.standard_normal((width, columns))
    scale_a, scale_b = rng.uniform(0.1, 2.0, (rows, 1)), rng.uniform(0.1, 2.0, (1, columns))
    scaled = scaled_mm(a * scale_a, b * scale_b, ONE, ONE, out_dtype="float64")
    assert_allclose(scaled_mm(a, b, scale_a, scale_b, out_dtype="float64"), scaled, rtol=1e-12, atol=1e-13)


# Results.


@pytest.mark.parametrize("out_dtype", OUT)
def test_the_result_is_rounded_once_to_its_dtype(out_dtype: str) -> None:
    args = (draw(5, 33), draw(33, 7, seed=1), draw(5, 1, seed=2), draw(1, 7, seed=3))
    wide = scaled_mm(*args, bias=draw(7, seed=4), out_dtype="float64")
    got = scaled_mm(*args, bias=draw(7, seed=4), out_dtype=out_dtype)
    if out_dtype == "bfloat16":
        assert got.dtype == np.float32
        assert_array_equal(got, rounded(wide, "bfloat16"))
        torch = pytest.importorskip("torch")
        # float32 on the way, as torch goes, rounds twice, which these values do not show.
        assert_array_equal(got, torch.from_numpy(wide).float().bfloat16().float().numpy())
    else:
        assert got.dtype == out_dtype
        assert_array_equal(got, wide.astype(out_dtype))


def test_bfloat16_is_what_is_given_when_nothing_is_said() -> None:
    assert scaled_mm(np.array([[257.0]]), np.array([[1.0]]), ONE, ONE).item() == 256.0
    assert scaled_mm(np.array([[259.0]]), np.array([[1.0]]), ONE, ONE).item() == 260.0


@pytest.mark.parametrize("out_dtype", OUT)
def test_no_product_gives_the_bias_or_zeros(out_dtype: str) -> None:
    args = (draw(2, 0), draw(0, 3), ONE, draw(1, 3))
    bias = np.array([1.0, -2.0, 0.5])
    assert_array_equal(scaled_mm(*args, out_dtype=out_dtype), np.zeros((2, 3)))
    assert_array_equal(scaled_mm(*args, bias=bias, out_dtype=out_dtype), np.broadcast_to(bias, (2, 3)))
    assert scaled_mm(draw(0, 4), draw(4, 3), ONE, ONE, out_dtype=out_dtype).shape == (0, 3)


@pytest.mark.parametrize(
    ("out_dtype", "scale"), [("float16", 1.0), ("float32", 1e38), ("bfloat16", 1e38), ("float64", 1e308)]
)
def test_results_beyond_the_range_are_infinite(out_dtype: str, scale: float) -> None:
    a = np.array([[448.0], [-448.0], [0.0]])
    got = scaled_mm(a, np.array([[448.0]]), np.array(scale), ONE, out_dtype=out_dtype)
    assert_array_equal(got, [[math.inf], [-math.inf], [0.0]])


def test_nan_and_infinity_reach_what_depends_on_them() -> None:
    a, b = np.ones((3, 2)), np.ones((2, 2))
    a[0, 0], a[1, 0], b[0, 1] = np.nan, np.inf, 0.0
    expected = [[np.nan, np.nan], [np.inf, np.nan], [2.0, 1.0]]
    assert_array_equal(scaled_mm(a, b, ONE, ONE), expected)
    assert np.isnan(scaled_mm(b, b, np.array(np.nan), ONE)).all()


def test_a_scale_that_is_not_finite_comes_after_the_product() -> None:
    a, b = np.array([[1.0, -2.0], [2.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 2.0], [1.0, 1.0]])
    inf, nan = np.inf, np.nan
    assert_array_equal(scaled_mm(a, b, np.array(inf), ONE), [[-inf, nan], [inf, inf], [nan, nan]])
    assert_array_equal(scaled_mm(a, b, ONE, np.array(-inf)), [[inf, nan], [-inf, -inf], [nan, nan]])
    rows, columns = np.array([[1.0], [inf], [1.0]]), np.array([[nan, 1.0]])
    assert_array_equal(scaled_mm(a, b, rows, columns), [[nan, 0.0], [nan, inf], [nan, 0.0]])


# Layouts and arguments.


def test_layouts_do_not_matter() -> None:
    a, b = draw(6, 8), draw(8, 4, seed=1)
    expected = scaled_mm(a, b, ONE, ONE, out_dtype="float32")
    assert_array_equal(scaled_mm(np.asfortranarray(a), np.asfortranarray(b), ONE, ONE, out_dtype="float32"), expected)
    turned = scaled_mm(a[::-1], b[:, ::-1], ONE, ONE, out_dtype="float32")
    assert_array_equal(turned[::-1, ::-1], expected)
    row = np.broadcast_to(a[:1], a.shape)
    assert_array_equal(scaled_mm(row, b, ONE, ONE, out_dtype="float32"), np.broadcast_to(expected[:1], (6, 4)))


def test_arguments_are_left_alone_and_shared_with_nothing() -> None:
    arrays = [draw(2, 3), draw(3, 2, seed=1), draw(2, 1), draw(1, 2), draw(2)]
    before = [t.copy() for t in arrays]
    for out_dtype in OUT:
        scaled_mm(*arrays[:4], bias=arrays[4], out_dtype=out_dtype)[:] = 0.0
    for mine, old in zip(arrays, before, strict=True):
        assert_array_equal(mine, old)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        pytest.param({"a": [[1.0]]}, TypeError, "a must be a numpy array, got list", id="list"),
        pytest.param({"scale_a": 1.0}, TypeError, "scale_a must be a numpy array, got float", id="number"),
        pytest.param({"b": np.ones((3, 4), int)}, TypeError, "b must be float16, .* got int64", id="integers"),
        pytest.param({"a": draw(2, 4)}, ValueError, r"got \(2, 4\) and \(3, 4\)", id="inner sizes"),
        pytest.param({"a": draw(1, 2, 3)}, ValueError, r"of shape \(M, K\)", id="three axes"),
        pytest.param({"scale_a": draw(2)}, ValueError, r"or shape \(2, 1\), got \(2,\)", id="rows without an axis"),
        pytest.param({"scale_a": draw(1, 4)}, ValueError, r"scale_a must have .* got \(1, 4\)", id="of the other"),
        pytest.param({"scale_b": draw(4, 1)}, ValueError, r"or shape \(1, 4\), got \(4, 1\)", id="columns turned"),
        pytest.param({"bias": draw(1, 4)}, ValueError, r"bias must have shape \(4,\)", id="bias of two axes"),
        pytest.param({"bias": draw(2)}, ValueError, r"bias must have shape \(4,\)", id="bias of rows"),
        pytest.param({"out_dtype": ["float32"]}, ValueError, r"must be one of .* got \['float32'\]", id="list"),
        pytest.param(
            {"out_dtype": np.dtype("f4")}, ValueError, r"must be one of .* got dtype\('float32'\)", id="dtype"
        ),
        pytest.param(
            {"out_dtype": "float8_e5m2"}, ValueError, "must be one of bfloat16, .* got 'float8", id="out_dtype"
        ),
    ],
)
def test_refusals(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"a": draw(2, 3), "b": draw(3, 4), "scale_a": ONE, "scale_b": ONE, **changes}
    with pytest.raises(error, match=message):
        scaled_mm(**given)
