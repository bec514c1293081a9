"""Comparing results: what each kind of tolerance allows, what an ulp is, and what is said of the worst element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rung.parity.compare import DTYPES, Comparison, compare, rounded, spacing

NAN, INF = math.nan, math.inf
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


def every_value(dtype: str) -> torch.Tensor:
    """Give all finite values of a small dtype, in order."""
    size = 8 if dtype.startswith("float8") else 16
    bits = torch.arange(2**size, dtype=torch.int32).to(torch.uint8 if size == 8 else torch.int16)
    values = bits.view(getattr(torch, dtype)).float()
    return torch.from_numpy(np.unique(values[values.isfinite()].numpy()))


class TestUnits:
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", *FLOAT8])
    def test_the_spacing_is_the_distance_to_the_next_value(self, dtype: str) -> None:
        values = every_value(dtype).double().numpy()
        positive = values[values >= 0]
        np.testing.assert_array_equal(spacing(positive[:-1], dtype), np.diff(positive))
        np.testing.assert_array_equal(spacing(-positive, dtype), spacing(positive, dtype))
        assert positive[-1] == DTYPES[dtype].most

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_the_spacing_is_numpys(self, dtype: str) -> None:
        info = np.finfo(dtype)
        values = np.array([0.0, info.tiny, info.smallest_subnormal, 1.0, 1.5, 3.0, 1e-30, info.max], dtype)
        with np.errstate(over="ignore"):
            theirs = np.spacing(values).astype(np.float64)
        theirs[-1] = 2.0 ** (info.maxexp - info.nmant - 1)  # numpy gives nan or inf: there is no next one
        np.testing.assert_array_equal(spacing(values.astype(np.float64), dtype), theirs)
        assert float(info.max) == DTYPES[dtype].most

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", *FLOAT8])
    @given(seed=st.integers(0, 2**32 - 1), scale=st.integers(-30, 20))
    def test_rounding_is_torchs(self, dtype: str, seed: int, scale: int) -> None:
        values = np.random.default_rng(seed).standard_normal(64) * 2.0**scale
        limit = DTYPES[dtype].most
        values = np.append(values[np.abs(values) <= limit], [0.0, -0.0, limit, -limit, NAN])
        if dtype != "float32":
            values = values.astype(np.float32).astype(np.float64)  # torch rounds float64 to float8 in two steps
        theirs = torch.from_numpy(values).to(getattr(torch, dtype)).double().numpy()
        np.testing.assert_array_equal(rounded(values, dtype), theirs)

    @pytest.mark.parametrize(
        ("dtype", "value", "result"),
        [
            pytest.param("float16", 65519.9, 65504.0, id="just fits"),
            pytest.param("float16", 65520.0, INF, id="a tie goes up"),
            pytest.param("bfloat16", -3.4e38, -INF, id="bfloat16"),
            pytest.param("float8_e5m2", 61440.0, INF, id="e5m2"),
            pytest.param("float8_e4m3fn", 1e9, 448.0, id="e4m3fn has no infinity"),
            pytest.param("float8_e4m3fn", -INF, -448.0, id="nor a negative one"),
        ],
    )
    def test_what_is_too_large(self, dtype: str, value: float, result: float) -> None:
        assert rounded(np.array([value]), dtype)[0] == result

    @given(st.floats(allow_nan=False, allow_infinity=False, width=32))
    def test_neighbours_are_one_unit_apart(self, value: float) -> None:
        near = float(np.nextafter(np.float32(value), np.float32(INF)))
        if math.isfinite(near):
            lower = min(abs(value), abs(near))
            assert abs(near - value) == spacing(np.array([lower]), "float32")[0]


def found(made: Any, expected: Any, tolerance: dict[str, float]) -> str:
    return compare(np.array(made, "float32"), np.array(expected), "float32", tolerance).fault


class TestAllowed:
    @pytest.mark.parametrize(
        ("made", "expected", "tolerance"),
        [
            pytest.param([1.0, NAN, INF], [1.0, NAN, INF], {}, id="exact"),
            pytest.param([0.0], [-0.0], {}, id="both zeros are one"),
            pytest.param([], [], {}, id="nothing"),
            pytest.param([1.0 + 2**-23], [1.0], {"ulp": 1}, id="an ulp"),
            pytest.param([0.1], [0.1], {"ulp": 0}, id="of the rounded reference"),
            pytest.param([0.1], [0.1], {}, id="which is rounded for exact too"),
            pytest.param([1.01], [1.0], {"rtol": 0.011}, id="relative"),
            pytest.param([0.01], [0.0], {"atol": 0.011}, id="absolute"),
            pytest.param([INF, NAN], [INF, NAN], {"rtol": 1e-6, "atol": 1e-6}, id="what is not finite"),
            pytest.param([1.0, 2.0], [1.01, 1.99], {"cosine": 0.999}, id="cosine"),
            pytest.param([0.0, 0.0], [0.0, 0.0], {"cosine": 0.999}, id="zero vectors"),
            pytest.param([1e30, 1e-30], [1e30, 0.0], {"cosine": 0.999}, id="of great lengths"),
            pytest.param([1.0, 2.0], [1.0, 2.0], {"cosine": 1.0}, id="equal vectors"),
            pytest.param([1.04], [1.0], {"cosine": 0.999}, id="a little too long"),
            pytest.param([3.4e38, INF], [3.0e38, INF], {"rtol": 2.0}, id="an infinity within more than all there is"),
            pytest.param([], [], {"cosine": 0.999}, id="no vector"),
        ],
    )
    def test_it_fits(self, made: Any, expected: Any, tolerance: dict[str, float]) -> None:
        assert found(made, expected, tolerance) == ""

    @pytest.mark.parametrize(
        ("made", "expected", "tolerance", "said"),
        [
            pytest.param(
                [[1.0, 2.0], [3.25, 4.0]], [[1.0, 2.0], [2.25, 4.0]], {"rtol": 1e-6, "atol": 1e-6},
                "element [1, 0] is 3.25, reference 2.25: off by 1 (relative 0.444, 4.194e+06 ulp); "
                "1 of 4 elements is not within rtol 1e-06, atol 1e-06", id="one element",
            ),
            pytest.param(
                [1.0, -2.0, 3.5], [1.0, 2.0, 3.0], {},
                "element [1] is -2.0, reference 2.0: off by 4 (relative 2, 1.678e+07 ulp); "
                "2 of 3 elements are not exactly equal", id="a sign",
            ),
            pytest.param(
                [0.5], [0.0], {"atol": 0.1},
                "element [0] is 0.5, reference 0.0: off by 0.5 (3.568e+44 ulp); "
                "1 of 1 element is not within atol 0.1", id="from zero",
            ),
            pytest.param(
                [1.0 + 3 * 2**-23, 1e6], [1.0, 1e6 + 0.125], {"ulp": 2},
                "element [0] is 1.0000004, reference 1.0: off by 3.58e-07 (relative 3.58e-07, 3 ulp); "
                "1 of 2 elements is not within 2 ulp of float32", id="ulp",
            ),
            pytest.param(
                [1e9, NAN, 1.0], [1.0, 2.0, INF], {"rtol": 1e-6},
                "element [1] is nan, reference 2.0; 3 of 3 elements are not within rtol 1e-06", id="nan is worst",
            ),
            pytest.param(
                [1e9, INF, 1.0], [1.0, 2.0, 1.0], {"rtol": 1e-6},
                "element [1] is inf, reference 2.0; 2 of 3 elements are not within rtol 1e-06", id="then infinities",
            ),
            pytest.param(
                [1.0], [INF], {"rtol": 2.0}, "element [0] is 1.0, reference inf; 1 of 1 element is not within rtol 2",
                id="an infinite tolerance",
            ),
            pytest.param(
                3.0, 2.0, {}, "it is 3.0, reference 2.0: off by 1 (relative 0.5, 4.194e+06 ulp); not exactly equal",
                id="no axes",
            ),
            pytest.param(
                [1.0, 0.0], [1.0, 1.0], {"cosine": 0.99},
                "cosine similarity 0.707107, at least 0.99 expected; element [1] is 0.0, reference 1.0: off by 1 "
                "(relative 1, 8.389e+06 ulp), the furthest of 1 that differ, of 2", id="cosine",
            ),
            pytest.param(
                [1.2, 1.2], [1.0, 1.0], {"cosine": 0.99},
                "1.2 times as long as the reference, between 0.8589 and 1.141 expected; element [0] is 1.2, "
                "reference 1.0: off by 0.2 (relative 0.2, 1.678e+06 ulp), the furthest of 2 that differ, of 2",
                id="too long",
            ),
            pytest.param(
                [0.0, 0.0], [1.0, 0.0], {"cosine": 0.99},
                "the result is zero and the other is not; element [0] is 0.0, reference 1.0: off by 1 (relative 1, "
                "8.389e+06 ulp), the furthest of 1 that differ, of 2", id="zero",
            ),
            pytest.param(
                [NAN, 0.0], [1.0, 0.0], {"cosine": 0.99},
                "the result is not finite, which no cosine compares; element [0] is nan, reference 1.0, the furthest "
                "of 1 that differ, of 2", id="not finite",
            ),
        ],
    )  # fmt: skip
    def test_it_does_not_fit(self, made: Any, expected: Any, tolerance: dict[str, float], said: str) -> None:
        assert found(made, expected, tolerance) == said

    def test_a_float32_sum_is_caught_in_float64(self) -> None:
        values = np.random.default_rng(0).standard_normal((8, 1000))
        narrow = values.astype(np.float32).sum(1).astype(np.float64)
        assert (
            "not within rtol 1e-12" in compare(narrow, values.sum(1), "float64", {"rtol": 1e-12, "atol": 1e-12}).fault
        )
        assert "not within 4 ulp of float64" in compare(narrow, values.sum(1), "float64", {"ulp": 4}).fault
        assert "not exactly equal" in compare(narrow, values.sum(1), "float64", {}).fault

    @pytest.mark.parametrize("dtype", ["bfloat16", *FLOAT8])
    def test_ulps_of_what_numpy_lacks(self, dtype: str) -> None:
        values = every_value(dtype)
        values = values[values > 0][:-2]
        typed = values.to(getattr(torch, dtype))
        up = every_value(dtype)
        up = up[up > 0][1:-1].to(typed.dtype)
        exact = values.double().numpy()
        assert compare(typed, exact, dtype, {}).fault == ""
        assert compare(up, exact, dtype, {"ulp": 1}).ulp == 1.0
        assert compare(up, exact, dtype, {"ulp": 1}).fault == ""
        assert f"elements are not within 0 ulp of {dtype}" in compare(up, exact, dtype, {"ulp": 0}).fault

    @given(
        st.lists(st.floats(width=32, allow_subnormal=True), max_size=8),
        st.sampled_from([{}, {"ulp": 0}, {"rtol": 0.0}]),
    )
    def test_what_is_equal_fits(self, values: list[float], tolerance: dict[str, float]) -> None:
        compared = compare(np.array(values, "f4"), np.array(values, "f4"), "float32", tolerance)
        assert (compared.fault, compared.difference, compared.ulp) == ("", 0.0, 0.0)

    @given(
        st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=6),
        st.sampled_from([{}, {"ulp": 3}, {"rtol": 1e-3, "atol": 1e-3}]),
    )
    def test_the_element_that_is_named_does_not_fit(
        self, pairs: list[tuple[float, float]], tolerance: dict[str, float]
    ) -> None:
        made, expected = np.array(pairs, "f4").T
        compared = compare(made, expected, "float32", tolerance)
        alone = [
            bool(compare(made[i : i + 1], expected[i : i + 1], "float32", tolerance).fault) for i in range(len(made))
        ]
        assert any(alone) == bool(compared.fault)
        if compared.index is not None:
            assert alone[compared.index[0]]


class TestKinds:
    F4 = np.zeros((2, 3), "f4")

    @pytest.mark.parametrize(
        ("made", "said"),
        [
            pytest.param(torch.zeros(2, 3), "", id="a tensor"),
            pytest.param(F4, "an array of torch expected, got one of numpy", id="an array"),
            pytest.param(np.float32(0), "an array of torch expected, got one of numpy", id="a scalar"),
            pytest.param(torch.zeros(2, 3, device="meta"), "a tensor on cpu:0 expected, got one on meta", id="device"),
            pytest.param((torch.zeros(2, 3), F4), "result 1: an array of torch expected, got one of numpy", id="two"),
        ],
    )
    def test_what_is_somewhere_else(self, made: Any, said: str) -> None:
        expected = (self.F4, self.F4) if isinstance(made, tuple) else self.F4
        assert compare(made, expected, "float32", {}, arrays="torch", place="cpu:0").fault == said

    @pytest.mark.parametrize(
        ("made", "expected", "said"),
        [
            pytest.param(None, F4, "an array expected, got NoneType", id="nothing"),
            pytest.param(F4.astype("f8"), F4, "dtype float64, expected float32", id="dtype"),
            pytest.param(F4.T, F4, "shape (3, 2), expected (2, 3)", id="shape"),
            pytest.param(F4, (F4, F4), "a tuple of 2 results expected, got ndarray", id="no tuple"),
            pytest.param((F4,), (F4, F4), "2 results expected, got 1", id="too few"),
            pytest.param((F4, F4 + 1), (F4, F4), "result 1: element [0, 0] is 1.0, reference 0.0", id="the second"),
            pytest.param(F4, F4 > 0, "dtype float32, expected bool", id="a mask"),
            pytest.param(F4 > -1, F4 > 0, "element [0, 0] is 1, reference 0: off by 1; 6 of 6", id="another mask"),
            pytest.param(F4, F4.astype("c8"), "the reference gives complex64", id="complex"),
            pytest.param(torch.zeros(2, 3, dtype=torch.bfloat16), F4, "dtype bfloat16, expected float32", id="torch"),
        ],
    )
    def test_what_is_of_another_kind(self, made: Any, expected: Any, said: str) -> None:
        assert compare(made, expected, "float32", {"atol": 1e-6}).fault.startswith(said)

    @pytest.mark.parametrize(
        ("made", "expected", "dtype", "said"),
        [
            pytest.param(2**53 + 1, 2**53, "int64", "is 9007199254740993, reference 9007199254740992: off by 1 (",
                         id="next to each other"),
            pytest.param(2**64 - 1, 2**64 - 2, "uint64", "is 18446744073709551615, reference 18446744073709551614: off",
                         id="unsigned"),
            pytest.param(2**63 - 1, -(2**63), "int64", "off by 1.84e+19 (relative 2)", id="far apart"),
            pytest.param(-3, 2, "int8", "it is -3, reference 2: off by 5 (relative 2.5); not exactly", id="small"),
            pytest.param(True, False, "bool", "it is 1, reference 0: off by 1; not exactly equal", id="flags"),
        ],
    )  # fmt: skip
    def test_whole_numbers_are_compared_as_they_are(self, made: int, expected: int, dtype: str, said: str) -> None:
        assert said in compare(np.array(made, dtype), np.array(expected, dtype), "float32", {}).fault
        assert said in compare(np.array([made], dtype), np.array([expected], dtype), "float32", {}).fault.replace(
            "element [0]", "it"
        ).replace("1 of 1 element is ", "")
        assert compare(np.array(made, dtype), np.array(made, dtype), "float32", {}) == Comparison(elements=1)

    def test_indices_and_tensors_and_scalars_of_numpy(self) -> None:
        assert compare(torch.arange(3), np.arange(3), "float32", {"atol": 10.0}).fault == ""
        assert "not exactly equal" in compare(torch.arange(3), np.arange(3) + 1, "float32", {"atol": 10.0}).fault
        assert compare(np.float32(2), np.float32(2), "float32", {}, arrays="numpy", place="cpu").fault == ""
        leaf = torch.ones(2, requires_grad=True)
        assert compare((leaf, leaf), (np.ones(2), np.ones(2)), "float32", {}).fault == ""
