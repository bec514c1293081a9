"""The oracle's activations: against torch, scipy and high precision, far down their tails too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from catalogue import parity_cases, to_torch
from rung_backends.reference.activation import gelu, silu_and_mul

APPROXIMATIONS = ["none", "tanh"]
POINTS = [-37.0, -30.0, -20.0, -10.0, -5.5, -3.0, -1.0, -0.75, -1e-9, 1e-9, 0.5, 1.0, 2.0, 5.5, 8.5, 40.0]
finite = st.floats(allow_nan=False, allow_infinity=False)


def silu(x: Any) -> Any:
    """Give silu(x) alone, as what gates ones."""
    values = np.asarray(x, dtype="float64")[..., None]
    return silu_and_mul(np.concatenate((values, np.ones_like(values)), axis=-1))[..., 0]


# Against others.


@pytest.mark.parametrize("op", ["gelu", "silu_and_mul"])
def test_torchs_answer(op: str) -> None:
    functional = pytest.importorskip("torch").nn.functional
    for (x,), kwargs in parity_cases(op):
        tensor = to_torch(x)
        if op == "gelu":
            got, expected = gelu(x, **kwargs), functional.gelu(tensor, **kwargs)
        else:
            gate, value = tensor.chunk(2, -1)
            got, expected = silu_and_mul(x), functional.silu(gate) * value
        assert_allclose(got, expected.numpy(), rtol=1e-14, atol=1e-15)


def test_gelu_is_scipys_all_the_way_down() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-37.0, 10.0, 2001)
    assert_allclose(gelu(x), x * special.ndtr(x), rtol=1e-12, atol=0)  # which is scipy's error
    assert_allclose(gelu(x), 0.5 * x * (1.0 + special.erf(x / math.sqrt(2.0))), rtol=5e-16, atol=1e-15)
    below = x[x < 0]
    # Logarithms of what is about to vanish: their difference is the relative error.
    assert_allclose(np.log(-gelu(below)), special.log_ndtr(below) + np.log(-below), rtol=0, atol=1e-12)


@pytest.mark.parametrize("approximate", APPROXIMATIONS)
@pytest.mark.parametrize("x", POINTS)
def test_gelu_in_a_thousand_digits(x: float, approximate: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(1000):
        value = mpmath.mpf(x)
        if approximate == "none":
            chance = mpmath.erfc(-value / mpmath.sqrt(2)) / 2
        else:
            chance = (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (value + mpmath.mpf("0.044715") * value**3))) / 2
        expected = float(value * chance)
    assert_allclose(gelu(np.array(x), approximate=approximate), expected, rtol=4 * 2**-52, atol=0)


@pytest.mark.parametrize(("approximate", "lowest"), [("none", -37.4), ("tanh", -20.7)])
def test_gelu_keeps_its_digits_down_to_the_smallest_normal_factor(approximate: str, lowest: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    x = np.random.default_rng(0).uniform(lowest, 1.0, 500)
    with mpmath.workdps(60):
        expected = []
        for value in map(mpmath.mpf, x.tolist()):
            if approximate == "none":
                chance = mpmath.erfc(-value / mpmath.sqrt(2)) / 2
            else:
                cubic = value + mpmath.mpf("0.044715") * value**3
                chance = 1 / (1 + mpmath.exp(-mpmath.sqrt(8 / mpmath.pi) * cubic))
            expected.append(float(value * chance))
    off = np.abs(gelu(x, approximate=approximate) - expected) / np.spacing(np.abs(expected))
    assert off.max() <= 4.0


@pytest.mark.parametrize("x", [*POINTS, -700.0, -744.0, 710.0])
def test_silu_in_a_thousand_digits(x: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(1000):
        expected = float(mpmath.mpf(x) / (1 + mpmath.exp(-mpmath.mpf(x))))
    # At -744 the sigmoid is below the normal numbers and has few digits.
    assert_allclose(silu(x), expected, rtol=4e-16, atol=1e-320)


def test_a_million_elements() -> None:
    functional = pytest.importorskip("torch").nn.functional
    x = np.random.default_rng(0).standard_normal((1000, 1000)) * 4.0
    for approximate in APPROXIMATIONS:
        expected = functional.gelu(to_torch(x), approximate=approximate).numpy()
        assert_allclose(gelu(x, approximate=approximate), expected, rtol=1e-14, atol=1e-15)
    gate, value = to_torch(x).chunk(2, -1)
    assert_allclose(silu_and_mul(x), (functional.silu(gate) * value).numpy(), rtol=1e-15)


# Ends.


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_ends_of_the_range(dtype: str) -> None:
    info = np.finfo(dtype)
    tiny = info.smallest_subnormal
    x = np.array([info.max, -info.max, 0.0, -0.0, tiny, -tiny], dtype)
    for result in (gelu(x), gelu(x, approximate="tanh"), silu(x).astype(dtype)):
        assert_array_equal(result[:4], [info.max, -0.0, 0.0, -0.0])
        assert np.signbit(result).tolist() == [False, True, False, True, False, True]
        assert np.abs(result[4:]).max() <= tiny  # half of it, rounded either way


def test_a_gate_may_overflow_what_it_gates() -> None:
    x = np.array([[6e4, 6e4], [6e4, -6e4], [-6e4, 6e4]], "float16")
    assert_array_equal(silu_and_mul(x), [[np.inf], [-np.inf], [-0.0]])


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (2, 0, 6), (0,)], ids=str)
def test_nothing_in_nothing_out(shape: tuple[int, ...]) -> None:
    assert gelu(np.empty(shape)).shape == shape
    assert silu_and_mul(np.empty(shape)).shape == (*shape[:-1], shape[-1] // 2)


# Laws.


@given(finite)
@example(-745.2)
@example(1e308)
def test_a_value_and_its_mirror_differ_by_the_identity(x: float) -> None:
    # x * p(x) - (-x) * p(-x) = x for each chance p with p(x) + p(-x) = 1, less x * p(-x) on both sides.
    y = np.array([x, -x])
    for result in (gelu(y), gelu(y, approximate="tanh"), silu(y)):
        assert result[0] - result[1] == pytest.approx(x, rel=5e-16, abs=1e-323)  # of the halves of what is tiniest


@given(finite)
def test_both_lie_between_zero_and_x(x: float) -> None:
    y = np.array([x])
    for result in (gelu(y), gelu(y, approximate="tanh"), silu(y)):
        assert min(x, 0.0) <= result[0] <= max(x, 0.0)


@given(st.floats(-5.0, 5.0))
def test_the_approximation_is_close(x: float) -> None:
    y = np.array([x])
    assert_allclose(gelu(y, approximate="tanh"), gelu(y), rtol=0, atol=5e-4)


@given(finite, st.floats(-1e100, 1e100))
def test_the_gate_multiplies(gate: float, value: float) -> None:
    with np.errstate(over="ignore"):
        expected = silu(np.array([gate])) * value
    assert_array_equal(silu_and_mul(np.array([gate, value])), expected)


@given(st.floats(-700.0, 700.0))
def test_silu_is_x_over_one_plus_an_exponential(x: float) -> None:
    assert silu(x) == pytest.approx(x / (1.0 + math.exp(-x)), rel=1e-15, abs=0)
