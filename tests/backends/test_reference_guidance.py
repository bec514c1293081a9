"""The oracle's guidance: against exact fractions, numpy's deviation, the plain step; laws of mixing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal

from catalogue import parity_cases, to_torch
from rung_backends.reference.guidance import cfg_combine, cfg_flow_match_step
from rung_backends.reference.solver import flow_match_step

scales = st.floats(-10.0, 20.0)
parts = st.floats(0.0, 1.0)
# Multiples of 1/64: sums and differences of them are exact.
elements = st.integers(-64_000, 64_000).map(lambda n: n / 64)
batches = arrays("float64", array_shapes(min_dims=2, max_dims=3, max_side=5), elements=elements)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def deviations(x: Any) -> Any:
    return np.std(x, axis=tuple(range(1, x.ndim)), keepdims=True)


# Against others.


def test_exact_fractions() -> None:
    cond, uncond, sample = normal(40), normal(40, seed=1), normal(40, seed=2)
    scale, sigma, sigma_next = 7.3, 0.61803, 0.51237
    step = Fraction(sigma_next) - Fraction(sigma)
    guided = [
        Fraction(u) + Fraction(scale) * (Fraction(c) - Fraction(u))
        for c, u in zip(cond.tolist(), uncond.tolist(), strict=True)
    ]
    stepped = [Fraction(x) + step * v for x, v in zip(sample.tolist(), guided, strict=True)]
    assert_allclose(cfg_combine(cond, uncond, scale), [float(v) for v in guided], rtol=1e-15, atol=2e-15)
    result = cfg_flow_match_step(sample, cond, uncond, scale, sigma, sigma_next)
    assert_allclose(result, [float(v) for v in stepped], rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_narrow_answers_are_rounded_once(dtype: str) -> None:
    cond, uncond, sample = (normal(500, seed=seed).astype(dtype) for seed in range(3))
    x, c, u = (a.astype("float64") for a in (sample, cond, uncond))
    expected = (x + (0.51237 - 0.61803) * (u + 7.3 * (c - u))).astype(dtype)
    result = cfg_flow_match_step(sample, cond, uncond, 7.3, 0.61803, 0.51237)
    assert_array_equal(result, expected)
    twice = flow_match_step(sample, cfg_combine(cond, uncond, 7.3), 0.61803, 0.51237)
    assert (result != twice).any()  # what the fused op is for


@np.errstate(invalid="ignore")  # some cases are not finite
def test_rescaling_with_numpys_deviation() -> None:
    for (cond, uncond, scale), kwargs in parity_cases("cfg_combine"):
        phi = kwargs.get("rescale", 0.0)
        out = uncond + scale * (cond - uncond)
        if phi and scale != 1.0 and cond.ndim > 1 and cond.size:
            found = deviations(out)
            found, wanted = np.where(found == 0, 1.0, found), np.where(found == 0, 1.0, deviations(cond))
            out = phi * out * wanted / found + (1 - phi) * out
        assert_allclose(cfg_combine(cond, uncond, scale, **kwargs), out, rtol=1e-14, atol=1e-14)


def test_rescaling_with_torchs_deviation_of_a_sample() -> None:
    # Divided by n - 1, as torch does unless told; both deviations are of n elements, so it makes no difference.
    pytest.importorskip("torch")
    cond, uncond = normal(3, 4, 8, 8), normal(3, 4, 8, 8, seed=1)
    out = to_torch(uncond + 7.5 * (cond - uncond))
    factor = to_torch(cond).std(dim=(1, 2, 3), keepdim=True) / out.std(dim=(1, 2, 3), keepdim=True)
    expected = (0.7 * out * factor + 0.3 * out).numpy()
    assert_allclose(cfg_combine(cond, uncond, 7.5, rescale=0.7), expected, rtol=1e-13, atol=1e-14)


def test_a_million_elements() -> None:
    cond, uncond = normal(4, 250_000), normal(4, 250_000, seed=1)
    out = uncond + 7.5 * (cond - uncond)
    expected = out * deviations(cond) / deviations(out)
    assert_allclose(cfg_combine(cond, uncond, 7.5, rescale=1.0), expected, rtol=1e-13)


# Ends.


@pytest.mark.parametrize("exponent", [-1000, -500, 500, 1000])
def test_deviations_are_found_at_the_ends_of_the_range(exponent: int) -> None:
    cond, uncond = normal(3, 8), normal(3, 8, seed=1)
    expected = np.ldexp(cfg_combine(cond, uncond, 2.0, rescale=0.7), exponent)
    far = cfg_combine(np.ldexp(cond, exponent), np.ldexp(uncond, exponent), 2.0, rescale=0.7)
    assert_array_equal(far, expected)


def test_what_is_beyond_the_dtype_is_infinite() -> None:
    big = np.array([6e4], "float16")
    assert_array_equal(cfg_combine(big, -big, 2.0), [np.inf])
    assert_array_equal(cfg_flow_match_step(big, -big, big, 2.0, 1.0, 0.0), [np.inf])


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e-300], ids=str)
@pytest.mark.parametrize("count", [1, 3, 7, 1000])
def test_samples_of_equal_elements_are_not_rescaled(value: float, count: int) -> None:
    cond, uncond = np.full((2, count), value), np.full((2, count), 3 * value)
    assert_array_equal(cfg_combine(cond, uncond, 4.0, rescale=1.0), cfg_combine(cond, uncond, 4.0))
    flat = cfg_combine(normal(2, count), cond, 0.0, rescale=1.0)
    assert_array_equal(flat, cond)


def test_a_condition_of_equal_elements_leaves_nothing() -> None:
    assert_array_equal(cfg_combine(np.full((2, 9), 0.1), normal(2, 9), 4.0, rescale=1.0), np.zeros((2, 9)))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (2, 0, 3)], ids=str)
def test_nothing_in_nothing_out(shape: tuple[int, ...]) -> None:
    empty = np.empty(shape)
    assert cfg_combine(empty, empty, 7.5, rescale=0.7).shape == shape
    assert cfg_flow_match_step(empty, empty, empty, 7.5, 0.6, 0.5).shape == shape


# Laws.


@given(batches)
def test_a_scale_of_one_gives_the_condition_and_none_the_other(cond: Any) -> None:
    uncond = np.flip(cond) + 1.0
    assert_array_equal(cfg_combine(cond, uncond, 1.0), cond)
    assert_array_equal(cfg_combine(cond, uncond, 0.0), uncond)


@given(batches, scales)
def test_where_both_agree_the_scale_does_not_matter(cond: Any, scale: float) -> None:
    assert_array_equal(cfg_combine(cond, cond, scale), cond)
    assert_allclose(cfg_combine(cond, cond, scale, rescale=0.7), cond, rtol=1e-15)


@given(batches, scales)
def test_the_two_change_places_with_one_less_the_scale(cond: Any, scale: float) -> None:
    uncond = np.flip(cond) + 1.0
    one, other = cfg_combine(cond, uncond, scale), cfg_combine(uncond, cond, 1.0 - scale)
    assert_allclose(one, other, rtol=1e-12, atol=1e-10)


@given(scales, parts)
def test_rescaling_moves_the_deviation_towards_the_conditions(scale: float, phi: float) -> None:
    cond, uncond = normal(3, 4, 5), normal(3, 4, 5, seed=1)
    before = deviations(cfg_combine(cond, uncond, scale))
    after = deviations(cfg_combine(cond, uncond, scale, rescale=phi))
    assert_allclose(after, phi * deviations(cond) + (1 - phi) * before, rtol=1e-13)


@given(scales, parts, parts)
def test_a_guided_step_is_a_step_along_the_guided_velocity(scale: float, a: float, b: float) -> None:
    sigma, sigma_next = max(a, b), min(a, b)
    x, cond, uncond = normal(3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2)
    expected = flow_match_step(x, cfg_combine(cond, uncond, scale), sigma, sigma_next)
    assert_array_equal(cfg_flow_match_step(x, cond, uncond, scale, sigma, sigma_next), expected)


def test_samples_of_a_batch_do_not_meet() -> None:
    cond, uncond = normal(4, 3, 5), normal(4, 3, 5, seed=1)
    together = cfg_combine(cond, uncond, 7.5, rescale=0.7)
    for i in range(4):
        assert_array_equal(together[i : i + 1], cfg_combine(cond[i : i + 1], uncond[i : i + 1], 7.5, rescale=0.7))
