"""The oracle itself: its statistics, its guards, its accuracy."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rung_backends.reference.solver import flow_match_step, flow_sde_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

sigmas = st.floats(0.0, 1.0)
scales = st.floats(0.0, 1.4)


def descending(a: float, b: float) -> tuple[float, float]:
    return max(a, b), min(a, b)


def row(*values: float, dtype: str = "float64") -> NDArray[Any]:
    return np.array([values], dtype=dtype)


# Statistics.


def test_log_prob_is_scipys_averaged_over_each_sample() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    x, v, point = rng.standard_normal((3, 4, 5, 2, 2))
    _, log_prob, mean, std = flow_sde_step(x, v, 0.6, 0.5, prev_sample=point)
    expected = stats.norm(mean, std).logpdf(point).mean(axis=(1, 2, 3))
    assert_allclose(log_prob, expected, rtol=1e-14)


@pytest.mark.parametrize("noise_scale", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.0), (2.0, 0.5), (-1.0, 0.05)])
def test_marginals_are_those_of_the_flow(noise_scale: float, centre: float, spread: float) -> None:
    # For data from a normal distribution the best velocity is affine in the sample, and so is the step: its
    # moments can be followed exactly. They must be those of (1 - sigma) * data + sigma * noise, except next
    # to the ends, where one step exchanges a good part of the noise there is.
    schedule = np.linspace(1.0, 0.0, 4001)
    mean, variance = 0.0, 1.0
    for sigma, sigma_next in pairwise(schedule.tolist()):
        total = (1 - sigma) ** 2 * spread**2 + sigma**2
        gain = (sigma - (1 - sigma) * spread**2) / total  # Cov(noise - data, sample) / Var(sample)
        probe = row(0.0, 1.0).T
        velocity = gain * (probe - (1 - sigma) * centre) - centre
        _, _, stepped, std = flow_sde_step(probe, velocity, sigma, sigma_next, noise_scale=noise_scale)
        slope = stepped[1, 0] - stepped[0, 0]
        mean = stepped[0, 0] + slope * mean
        variance = slope**2 * variance + std[0, 0] ** 2
        if 0.02 < sigma_next < 0.8:
            assert mean == pytest.approx((1 - sigma_next) * centre, abs=2e-3)
            expected = (1 - sigma_next) ** 2 * spread**2 + sigma_next**2
            assert variance == pytest.approx(expected, rel=2e-2)
    assert mean == pytest.approx(centre, abs=2e-3)
    assert math.sqrt(variance) == pytest.approx(spread, abs=1e-2)


def test_given_noise_is_scaled_and_shifted() -> None:
    rng = np.random.default_rng(0)
    x, v, noise = rng.standard_normal((3, 2, 9))
    prev_sample, _, mean, std = flow_sde_step(x, v, 0.6, 0.5, noise=noise)
    assert_array_equal(prev_sample, mean + std * noise)


# Guards.


@given(sigmas, sigmas, scales)
@example(1.0, 1.0, 0.7)
@example(1.0, 1.0 - 2**-53, 0.7)
@example(1.0, 5e-324, 1.4)
@example(1e-300, 1e-301, 0.7)
@example(0.5, 0.4, 1e-320)
def test_every_step_is_finite_and_no_noisier_than_twice_a_first_step(a: float, b: float, noise_scale: float) -> None:
    sigma, sigma_next = descending(a, b)
    x, v = row(0.3, -2.0), row(1.0, 0.5)
    results = flow_sde_step(x, v, sigma, sigma_next, noise_scale=noise_scale)
    assert all(np.isfinite(r).all() for r in results)
    std = results[3].item()
    assert std <= 2 * noise_scale * math.sqrt(sigma) * (1 + 1e-15)
    if sigma_next == 0.0:
        assert std == 0.0


@given(sigmas, sigmas, scales)
def test_mean_is_the_euler_step_less_the_noise_that_is_renewed(a: float, b: float, noise_scale: float) -> None:
    sigma, sigma_next = descending(a, b)
    data, noise = row(0.5, -1.5), row(1.25, 0.25)
    x, v = (1 - sigma) * data + sigma * noise, noise - data
    _, _, mean, std = flow_sde_step(x, v, sigma, sigma_next, noise_scale=noise_scale)
    renewed = std**2 / (2 * sigma) * noise if sigma > 1e-150 else 0.0
    assert_allclose(mean, flow_match_step(x, v, sigma, sigma_next) - renewed, rtol=0, atol=1e-14)


@given(sigmas, sigmas)
def test_the_formula_holds_up_to_steps_four_times_the_way_from_noise(a: float, b: float) -> None:
    sigma, sigma_next = descending(a, b)
    x = row(1.0)
    std = flow_sde_step(x, x, sigma, sigma_next, noise_scale=0.7)[3].item()
    if 0.0 < sigma_next < sigma and sigma - sigma_next <= 4.0 * (1.0 - sigma) and sigma * (sigma - sigma_next) > 1e-300:
        assert std == pytest.approx(0.7 * math.sqrt(sigma / (1.0 - sigma) * (sigma - sigma_next)), rel=1e-12)


# Accuracy.


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_narrow_answers_are_rounded_once(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((2, 3, 50)).astype(dtype)
    sigma, sigma_next = 0.61803, 0.51237  # a tenth would put some answers half-way between two floats
    exact = [
        Fraction(float(p)) + (Fraction(sigma_next) - Fraction(sigma)) * Fraction(float(q))
        for p, q in zip(x.flat, v.flat, strict=True)
    ]
    expected = np.array([float(e) for e in exact]).astype(dtype).reshape(x.shape)
    assert_array_equal(flow_match_step(x, v, sigma, sigma_next), expected)


def test_log_prob_does_not_depend_on_the_order_of_elements() -> None:
    rng = np.random.default_rng(0)
    x, v, point = rng.standard_normal((3, 1, 10_000))
    order = rng.permutation(x.shape[1])
    straight = flow_sde_step(x, v, 0.6, 0.5, prev_sample=point)[1]
    shuffled = flow_sde_step(x[:, order], v[:, order], 0.6, 0.5, prev_sample=point[:, order])[1]
    assert_array_equal(straight, shuffled)


def test_float32_samples_are_judged_where_they_are_not_where_they_were_drawn() -> None:
    x, v, noise = (row(value, dtype="float32") for value in (1.7, 0.3, 1.1))
    prev_sample, log_prob, _, std = flow_sde_step(x, v, 0.02, 0.01, noise=noise, noise_scale=1e-3)
    mean = flow_sde_step(x.astype("float64"), v.astype("float64"), 0.02, 0.01, noise_scale=1e-3)[2].item()
    wide_std = 1e-3 * math.sqrt(0.02 * 0.01 / 0.98)
    assert std.item() == np.float32(wide_std)
    z = (float(prev_sample.item()) - mean) / wide_std
    assert abs(z - 1.1) > 1e-4  # the rounding that this is about
    expected = -0.5 * z**2 - math.log(wide_std) - 0.5 * math.log(2 * math.pi)
    assert log_prob.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_sample_too_far_away_has_log_probability_minus_infinity_without_a_warning(dtype: str) -> None:
    x = np.zeros((1, 2), dtype)
    far = np.full((1, 2), np.finfo(dtype).max, dtype)
    log_prob = flow_sde_step(x, x, 1e-3, 1e-4, prev_sample=far)[1]
    assert log_prob.tolist() == [-np.inf]
