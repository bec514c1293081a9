"""Numeric gradients: their formula and the bound of their error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rung.parity.gradients import numeric_gradient

if TYPE_CHECKING:
    from collections.abc import Callable

POINT = np.array([[-2.5, -0.3, 0.01], [0.7, 1.9, 40.0]])
WEIGHTS = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]])


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        pytest.param(lambda x: 3 * x, lambda x: 3 + 0 * x, id="linear"),
        pytest.param(lambda x: x**3, lambda x: 3 * x * x, id="cubic"),
        pytest.param(
            lambda x: x / (1 + np.exp(-x)), lambda x: (s := 1 / (1 + np.exp(-x))) * (1 + x * (1 - s)), id="silu"
        ),
        pytest.param(np.tanh, lambda x: 1 / np.cosh(x) ** 2, id="tanh"),
        pytest.param(lambda x: x * 0 + 1, lambda x: 0 * x, id="constant"),
    ],
)
def test_it_is_the_derivative_within_its_bound(
    function: Callable[[Any], Any], derivative: Callable[[Any], Any]
) -> None:
    gradient, bound = numeric_gradient(lambda x: [function(x)], POINT, [WEIGHTS])
    exact = WEIGHTS * derivative(POINT)
    assert (np.abs(gradient - exact) <= bound).all()
    assert (bound <= 1e-9 * (np.abs(WEIGHTS * function(POINT)).sum() + np.abs(exact))).all()


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_it_is_the_derivative_of_a_norm(values: list[float], seed: int) -> None:
    point = np.array(values)
    weights = np.random.default_rng(seed).standard_normal(point.shape)
    gradient, bound = numeric_gradient(lambda x: [x / np.sqrt((x * x).mean() + 1e-2)], point, [weights])
    scale = np.sqrt((point * point).mean() + 1e-2)
    exact = weights / scale - point * (weights @ point) / (point.size * scale**3)
    assert (np.abs(gradient - exact) <= bound + 1e-9).all()


def test_a_narrow_function_is_differentiated_with_a_smaller_step() -> None:
    gradient, bound = numeric_gradient(lambda x: [np.tanh(x * 1e3)], np.array([1e-4]), [np.ones(1)])
    assert abs(gradient[0] - 1e3 / np.cosh(0.1) ** 2) <= bound[0] <= 1e-5


def test_several_results_and_what_does_not_move() -> None:
    def function(x: Any) -> list[Any]:
        return [x * 2, np.array([np.inf, np.nan]), x.sum(keepdims=True)]

    gradient, bound = numeric_gradient(function, np.array([1.0, 2.0]), [np.ones(2), np.ones(2), np.ones(1)])
    np.testing.assert_allclose(gradient, [3.0, 3.0], rtol=1e-11)
    assert np.isfinite(bound).all()
