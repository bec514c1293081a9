"""The oracle's rotary embedding: against complex numbers, and the laws of rotations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from catalogue import parity_cases
from rung_backends.reference.rotary import rotary_embedding

angles = st.lists(st.floats(-100.0, 100.0), min_size=3, max_size=3).map(np.array)
flags = st.booleans()
BOTH = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "neighbours"])


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def turn(x: Any, angle: Any, *, interleaved: bool) -> Any:
    return rotary_embedding(x, np.cos(angle), np.sin(angle), interleaved=interleaved)


def paired(x: Any, pairs: int, *, interleaved: bool) -> Any:
    """Give the pairs of the last axis as complex numbers."""
    if interleaved:
        return x[..., : 2 * pairs].astype("float64").reshape(*x.shape[:-1], pairs, 2) @ [1, 1j]
    return x[..., :pairs] + 1j * x[..., pairs : 2 * pairs]


# Against others.


def test_a_turn_is_a_product_of_complex_numbers() -> None:
    for (x, cos, sin), kwargs in parity_cases("rotary_embedding"):
        if not all(np.isfinite(array).all() for array in (x, cos, sin)):
            continue  # a complex product makes NaN of more
        interleaved = kwargs.get("interleaved", False)
        pairs = cos.shape[-1]
        turned = rotary_embedding(x, cos, sin, **kwargs)
        expected = paired(x, pairs, interleaved=interleaved) * (cos + 1j * sin)
        assert_allclose(paired(turned, pairs, interleaved=interleaved), expected, rtol=1e-15, atol=1e-15)
        assert_array_equal(turned[..., 2 * pairs :], x[..., 2 * pairs :])


def test_the_halves_are_those_of_rotate_half() -> None:
    # The other common way to write it: x * cos + rotate_half(x) * sin, with every angle given twice.
    x, angle = normal(2, 3, 5, 8), normal(5, 4, seed=1)
    doubled = np.concatenate((angle, angle), axis=-1)
    rotated = np.concatenate((-x[..., 4:], x[..., :4]), axis=-1)
    expected = x * np.cos(doubled) + rotated * np.sin(doubled)
    assert_allclose(turn(x, angle, interleaved=False), expected, rtol=1e-15, atol=1e-15)


@BOTH
def test_the_matrix_of_the_paper(interleaved: bool) -> None:
    # One block ((cos, -sin), (sin, cos)) for each pair.
    x, angle = normal(6), normal(3, seed=1)
    places = [(2 * i, 2 * i + 1) if interleaved else (i, i + 3) for i in range(3)]
    matrix = np.zeros((6, 6))
    for (first, second), theta in zip(places, angle, strict=True):
        matrix[np.ix_([first, second], [first, second])] = [
            [np.cos(theta), -np.sin(theta)],
            [np.sin(theta), np.cos(theta)],
        ]
    assert_allclose(turn(x[None], angle, interleaved=interleaved)[0], matrix @ x, rtol=1e-14, atol=1e-15)


@BOTH
def test_scores_depend_on_the_distance_alone(interleaved: bool) -> None:
    # What the embedding is for: a query at m and a key at n meet as at m + 7 and n + 7.
    frequencies = 10000.0 ** (-np.arange(4) / 4)
    positions = np.arange(12)[:, None]
    q, k = normal(1, 8), normal(1, 8, seed=1)
    queries, keys = (turn(np.tile(v, (12, 1)), positions * frequencies, interleaved=interleaved) for v in (q, k))
    scores = queries @ keys.T
    assert_allclose(scores[7:, 7:], scores[:5, :5], rtol=1e-12, atol=1e-13)


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_narrow_answers_are_rounded_once(dtype: str, interleaved: bool) -> None:
    x, cos, sin = (normal(4, n, seed=n).astype(dtype) for n in (6, 3, 3))
    turned = rotary_embedding(x, cos, sin, interleaved=interleaved)
    for row in range(4):
        for i in range(3):
            first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + 3)
            a, b, c, s = (Fraction(float(v)) for v in (x[row, first], x[row, second], cos[row, i], sin[row, i]))
            assert turned[row, first] == np.dtype(dtype).type(float(a * c - b * s))
            assert turned[row, second] == np.dtype(dtype).type(float(a * s + b * c))


def test_a_million_elements() -> None:
    x, angle = normal(4, 4, 500, 128), normal(500, 64, seed=1)
    turned = turn(x, angle, interleaved=True)
    expected = paired(x, 64, interleaved=True) * np.exp(1j * angle)
    assert_allclose(paired(turned, 64, interleaved=True), expected, rtol=1e-15, atol=1e-15)


# Ends.


def test_what_is_beyond_the_dtype_is_infinite() -> None:
    x, one = np.array([[6e4, -6e4, 1.0]], "float16"), np.ones((1, 1), "float16")
    assert_array_equal(rotary_embedding(x, one, one), [[np.inf, 0.0, 1.0]])


def test_what_is_not_finite_spoils_its_pair_alone() -> None:
    x = np.array([[np.inf, 1.0, 2.0, np.nan, 3.0, 4.0]])
    ones = np.ones((1, 3))
    turned = rotary_embedding(x, ones, ones, interleaved=True)
    assert_array_equal(turned, [[np.inf, np.inf, np.nan, np.nan, -1.0, 7.0]])


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (3, 0)], ids=str)
def test_nothing_in_nothing_out(shape: tuple[int, ...]) -> None:
    angle = np.empty((*shape[:-1], shape[-1] // 2))
    assert rotary_embedding(np.empty(shape), angle, angle).shape == shape


def test_without_angles_the_result_is_a_copy() -> None:
    x = normal(3, 4)
    turned = rotary_embedding(x, np.empty((3, 0)), np.empty((3, 0)))
    assert_array_equal(turned, x)
    assert not np.shares_memory(turned, x)


# Laws.


@given(angles, flags)
def test_a_turn_keeps_the_length_of_pairs(angle: Any, interleaved: bool) -> None:
    x = normal(5, 8)
    before, after = (paired(v, 3, interleaved=interleaved) for v in (x, turn(x, angle, interleaved=interleaved)))
    assert_allclose(np.abs(after), np.abs(before), rtol=1e-15)


@given(angles, angles, flags)
def test_turns_add_up(first: Any, second: Any, interleaved: bool) -> None:
    x = normal(5, 7)
    twice = turn(turn(x, first, interleaved=interleaved), second, interleaved=interleaved)
    assert_allclose(twice, turn(x, first + second, interleaved=interleaved), rtol=0, atol=1e-13)


@given(angles, flags)
def test_a_turn_back_undoes_a_turn(angle: Any, interleaved: bool) -> None:
    x = normal(5, 6)
    back = turn(turn(x, angle, interleaved=interleaved), -angle, interleaved=interleaved)
    assert_allclose(back, x, rtol=0, atol=2e-15)


@given(angles)
def test_neighbours_and_halves_agree_when_elements_change_places(angle: Any) -> None:
    x = normal(2, 5, 8)
    order = [0, 2, 4, 1, 3, 5, 6, 7]
    expected = turn(x, angle, interleaved=True)[..., order]
    assert_array_equal(turn(x[..., order], angle, interleaved=False), expected)


@given(flags)
def test_no_angle_no_turn(interleaved: bool) -> None:
    x = normal(5, 8)
    assert_array_equal(turn(x, np.zeros(4), interleaved=interleaved), x)
