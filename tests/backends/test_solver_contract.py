"""What every implementation of the solver ops must do, asked of each of them with the same numpy arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rung_backends.accel import solver as accel
from rung_backends.reference import solver as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Implementation:
    """The two ops, taking and giving numpy arrays."""

    step: Callable[..., Any]
    sde: Callable[..., Any]


def through_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass numpy arrays as the tensors that share their memory."""
    torch = pytest.importorskip("torch")

    def to_torch(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return torch.from_numpy(value if value.flags.writeable else value.copy())

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*map(to_torch, args), **{name: to_torch(value) for name, value in kwargs.items()})
        return tuple(t.numpy() for t in result) if isinstance(result, tuple) else result.numpy()

    return call


@pytest.fixture(
    params=["reference", "accel scalar", "accel tiled", "accel fused", "torch"],
    ids=lambda name: name.split()[-1],
)
def impl(request: pytest.FixtureRequest) -> Implementation:
    match request.param:
        case "reference":
            return Implementation(reference.flow_match_step, reference.flow_sde_step)
        case "accel scalar":
            return Implementation(accel.flow_match_step, accel.flow_sde_step)
        case "accel tiled":
            return Implementation(accel.flow_match_step_tiled, accel.flow_sde_step_tiled)
        case "accel fused":
            return Implementation(accel.flow_match_step_fused, accel.flow_sde_step_tiled)
    pytest.importorskip("torch")
    from rung_backends.torch import solver

    return Implementation(through_torch(solver.flow_match_step), through_torch(solver.flow_sde_step))


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


SHAPES = [(1,), (4,), (1, 1), (3, 5), (2, 3, 4, 5), (0,), (0, 3), (2, 0), (2, 0, 3)]
DTYPES = ["float16", "float32", "float64"]
DETERMINISTIC = [
    pytest.param((0.1, 0.0), 0.7, id="last step"),
    pytest.param((1.0, 0.0), 0.7, id="the only step"),
    pytest.param((0.5, 0.5), 0.7, id="no step"),
    pytest.param((1.0, 1.0), 0.7, id="no step at noise"),
    pytest.param((0.0, 0.0), 0.7, id="no step at data"),
    pytest.param((0.5, 0.4), 0.0, id="no noise"),
    pytest.param((1.0, 0.9), 0.0, id="no noise at noise"),
    pytest.param((0.5, 0.4), 5e-324, id="noise below the smallest float"),
]
RANDOM = [
    pytest.param((1.0, 0.9), 0.7, id="first step"),
    pytest.param((1.0 - 1e-9, 0.9), 0.7, id="near noise"),
    pytest.param((0.98, 0.88), 0.7, id="guarded"),
    pytest.param((0.6, 0.5), 0.7, id="ordinary"),
    pytest.param((0.6, 0.5), 0.05, id="little noise"),
    pytest.param((0.6, 0.5), 1.3, id="much noise"),
    pytest.param((0.02, 0.01), 0.7, id="near data"),
    pytest.param((1.0, 1e-3), 0.7, id="long step"),
]


# The Euler step.


@pytest.mark.parametrize(
    ("sample", "velocity", "sigmas", "expected"),
    [
        pytest.param(2.0, 8.0, (0.75, 0.5), 0.0, id="down the velocity"),
        pytest.param(2.0, -8.0, (0.75, 0.5), 4.0, id="negative velocity"),
        pytest.param(3.0, 1.0, (1.0, 0.0), 2.0, id="all the way to data"),
        pytest.param(3.0, 1.0, (0.5, 0.5), 3.0, id="no step"),
    ],
)
def test_euler_values(
    impl: Implementation, sample: float, velocity: float, sigmas: tuple[float, float], expected: float
) -> None:
    assert_array_equal(impl.step(np.full((2, 3), sample), np.full((2, 3), velocity), *sigmas), expected)


def test_a_perfect_velocity_arrives_at_the_data(impl: Implementation) -> None:
    data, noise = normal(3, 4, seed=1), normal(3, 4, seed=2)
    sample = 0.25 * data + 0.75 * noise
    assert_allclose(impl.step(sample, noise - data, 0.75, 0.0), data, rtol=0, atol=1e-15)


# The stochastic step: formula.


@pytest.mark.parametrize("noise_scale", [0.3, 0.7, 1.2])
@pytest.mark.parametrize("sigmas", [(0.9, 0.85), (0.6, 0.5), (0.3, 0.1)], ids=str)
def test_sde_is_the_papers_formula_away_from_the_ends(
    impl: Implementation, sigmas: tuple[float, float], noise_scale: float
) -> None:
    x, v, noise = normal(2, 5, seed=1), normal(2, 5, seed=2), normal(2, 5, seed=3)
    sigma, dt = sigmas[0], sigmas[1] - sigmas[0]
    s = noise_scale * math.sqrt(sigma / (1 - sigma))
    mean = x + (v + s**2 / (2 * sigma) * (x + (1 - sigma) * v)) * dt
    std = s * math.sqrt(-dt)

    prev_sample, log_prob, got_mean, got_std = impl.sde(x, v, *sigmas, noise=noise, noise_scale=noise_scale)

    assert_allclose(got_mean, mean, rtol=1e-13, atol=1e-13)
    assert_allclose(got_std, std, rtol=1e-13)
    assert_allclose(prev_sample, mean + std * noise, rtol=1e-13, atol=1e-13)
    assert_allclose(log_prob, np.mean(-0.5 * noise**2 - math.log(std * math.sqrt(2 * math.pi)), axis=1), rtol=1e-12)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize(("sigmas", "noise_scale"), RANDOM)
def test_density_of_one_element_integrates_to_one(
    impl: Implementation, sigmas: tuple[float, float], noise_scale: float, shape: tuple[int, ...]
) -> None:
    sample, velocity = np.full(shape, 0.4), np.full(shape, -1.1)
    _, _, mean, std = impl.sde(sample, velocity, *sigmas, noise_scale=noise_scale)
    grid, spacing = np.linspace(-9.0, 9.0, 2001, retstep=True)  # in standard deviations
    points = mean.item() + std.item() * grid
    each = (points.size, *shape[1:])  # one sample per point

    _, log_prob, _, _ = impl.sde(
        np.broadcast_to(sample, each),
        np.broadcast_to(velocity, each),
        *sigmas,
        prev_sample=points.reshape(each),
        noise_scale=noise_scale,
    )

    density = np.exp(log_prob)
    weight = spacing * std.item()
    assert density.sum() * weight == pytest.approx(1.0, abs=1e-12)
    assert (density * points).sum() * weight == pytest.approx(mean.item(), abs=1e-12)
    assert (density * (points - mean.item()) ** 2).sum() * weight == pytest.approx(std.item() ** 2, rel=1e-12)


@pytest.mark.parametrize("sigmas", [(1.0, 0.9), (0.6, 0.5), (0.2, 0.0)], ids=str)
def test_vanishing_noise_recovers_the_euler_step(impl: Implementation, sigmas: tuple[float, float]) -> None:
    x, v, noise = normal(4, 6, seed=1), normal(4, 6, seed=2), normal(4, 6, seed=3)
    euler = impl.step(x, v, *sigmas)
    for noise_scale in (1e-2, 1e-4, 1e-8, 1e-12):
        prev_sample, _, mean, _ = impl.sde(x, v, *sigmas, noise=noise, noise_scale=noise_scale)
        assert_allclose(mean, euler, rtol=0, atol=8 * noise_scale**2 + 1e-15)
        assert_allclose(prev_sample, euler, rtol=0, atol=4 * noise_scale + 1e-15)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("sigmas", "noise_scale"), DETERMINISTIC)
def test_steps_without_noise_are_the_euler_step(
    impl: Implementation, sigmas: tuple[float, float], noise_scale: float, dtype: str
) -> None:
    x, v = normal(4, 6, seed=1, dtype=dtype), normal(4, 6, seed=2, dtype=dtype)
    euler = impl.step(x, v, *sigmas)
    elsewhere = normal(4, 6, seed=3, dtype=dtype)
    for given in ({}, {"noise": elsewhere}, {"prev_sample": elsewhere}):
        prev_sample, log_prob, mean, std = impl.sde(x, v, *sigmas, noise_scale=noise_scale, **given)
        assert_array_equal(mean, euler)
        assert_array_equal(prev_sample, given.get("prev_sample", euler))
        assert_array_equal(std, 0.0)
        assert_array_equal(log_prob, 0.0)


def test_sigma_one_takes_the_schedules_second_sigma_under_the_noise(impl: Implementation) -> None:
    x, v = normal(2, 3, seed=1), normal(2, 3, seed=2)
    _, _, mean, std = impl.sde(x, v, 1.0, 0.9, noise_scale=0.7)
    s = 0.7 * math.sqrt(1.0 / (1.0 - 0.9))
    assert_allclose(std, s * math.sqrt(0.1), rtol=1e-14)
    assert_allclose(mean, x + (v + s**2 / 2 * x) * -0.1, rtol=1e-13, atol=1e-14)


def test_nothing_jumps_near_sigma_one(impl: Implementation) -> None:
    x, v, noise = normal(2, 3, seed=1), normal(2, 3, seed=2), normal(2, 3, seed=3)
    at_one = impl.sde(x, v, 1.0, 0.9, noise=noise)
    for gap in (1e-3, 1e-6, 1e-9, 1e-12, 2**-53):
        for got, expected in zip(impl.sde(x, v, 1.0 - gap, 0.9, noise=noise), at_one, strict=True):
            assert_allclose(got, expected, rtol=0, atol=60 * gap + 1e-14)


# Drawing and judging.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("sigmas", "noise_scale"), RANDOM)
def test_judging_a_drawn_sample_gives_the_log_probability_it_was_drawn_with(
    impl: Implementation, sigmas: tuple[float, float], noise_scale: float, dtype: str
) -> None:
    x, v = normal(3, 4, 4, seed=1, dtype=dtype), normal(3, 4, 4, seed=2, dtype=dtype)
    drawn = impl.sde(x, v, *sigmas, noise_scale=noise_scale)
    judged = impl.sde(x, v, *sigmas, noise_scale=noise_scale, prev_sample=drawn[0])
    for a, b in zip(drawn, judged, strict=True):
        assert_array_equal(a, b)


def test_draws_are_standard_normal_and_do_not_repeat(impl: Implementation) -> None:
    x, v = normal(40, 1000, seed=1), normal(40, 1000, seed=2)
    first, log_prob, mean, std = impl.sde(x, v, 0.6, 0.5)
    second, *_ = impl.sde(x, v, 0.6, 0.5)
    z = (first - mean) / std
    # 40 000 draws: the mean's standard error is 0.005, the variance's 0.007. Six of those.
    assert abs(z.mean()) < 0.03
    assert abs(z.var() - 1.0) < 0.045
    entropy = 0.5 * math.log(2 * math.pi * math.e) + math.log(std.flat[0])
    assert abs(log_prob.mean() + entropy) < 0.03
    assert not np.any(first == second)


def test_samples_of_a_batch_do_not_meet(impl: Implementation) -> None:
    x, v, noise = normal(5, 3, 40, seed=1), normal(5, 3, 40, seed=2), normal(5, 3, 40, seed=3)
    together = impl.sde(x, v, 0.6, 0.5, noise=noise)
    for i in range(5):
        alone = impl.sde(x[i : i + 1], v[i : i + 1], 0.6, 0.5, noise=noise[i : i + 1])
        for whole, part in zip(together, alone, strict=True):
            assert_allclose(whole[i : i + 1], part, rtol=1e-14)


# Arrays in, arrays out.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_and_dtypes(impl: Implementation, shape: tuple[int, ...], dtype: str) -> None:
    x, v, other = (normal(*shape, seed=seed, dtype=dtype) for seed in range(3))
    stepped = impl.step(x, v, 0.6, 0.5)
    assert (stepped.shape, stepped.dtype) == (shape, dtype)
    for sigma_next in (0.5, 0.0):
        for given in ({}, {"noise": other}, {"prev_sample": other}):
            results = impl.sde(x, v, 0.6, sigma_next, **given)
            assert isinstance(results, tuple)
            assert [r.shape for r in results] == [
                shape,
                shape[:1],
                shape,
                shape[:1] + (1,) * (len(shape) - 1),
            ]
            assert [r.dtype for r in results] == [dtype] * 4
            assert all(np.isfinite(r).all() for r in results)


def test_samples_without_elements_have_log_probability_zero(impl: Implementation) -> None:
    empty = np.empty((2, 0, 3))
    _, log_prob, _, std = impl.sde(empty, empty, 0.6, 0.5, noise=empty)
    assert_array_equal(log_prob, [0.0, 0.0])
    assert (std > 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_arguments_are_neither_changed_nor_returned(impl: Implementation, dtype: str) -> None:
    arrays = {name: normal(3, 4, seed=i, dtype=dtype) for i, name in enumerate(["x", "v", "other"])}
    before = {name: array.copy() for name, array in arrays.items()}
    x, v, other = arrays.values()
    results = [impl.step(x, v, 0.6, 0.5), impl.step(x, v, 0.5, 0.5), impl.step(x, x, 0.6, 0.5)]
    for sigmas in ((0.6, 0.5), (0.5, 0.5), (0.5, 0.0)):
        for given in ({}, {"noise": other}, {"prev_sample": other}):
            outputs = impl.sde(x, v, *sigmas, **given)
            results += outputs
            assert not any(np.shares_memory(a, b) for i, a in enumerate(outputs) for b in outputs[:i])
    for name, array in arrays.items():
        assert_array_equal(array, before[name])
        assert not any(np.shares_memory(array, result) for result in results)


LAYOUTS = [
    pytest.param(lambda: normal(5, 4, 3, seed=1).T, id="transposed"),
    pytest.param(lambda: normal(6, 4, 10, seed=1)[::2, :, 1::2], id="strided"),
    pytest.param(lambda: np.broadcast_to(normal(1, 4, 1, seed=1), (3, 4, 5)), id="broadcast"),
]


@pytest.mark.parametrize("make", LAYOUTS)
def test_memory_layout_does_not_matter(impl: Implementation, make: Callable[[], NDArray[Any]]) -> None:
    x = make()
    plain = np.array(x, order="C")
    other = normal(*x.shape, seed=2)
    assert_array_equal(impl.step(x, other, 0.6, 0.5), impl.step(plain, other, 0.6, 0.5))
    for name in ("noise", "prev_sample"):
        odd = impl.sde(other, x, 0.6, 0.5, **{name: x})
        for a, b in zip(odd, impl.sde(other, plain, 0.6, 0.5, **{name: plain}), strict=True):
            assert_allclose(a, b, rtol=1e-14)


def test_velocity_may_have_another_float_dtype(impl: Implementation) -> None:
    x, v = normal(2, 3, seed=1, dtype="float32"), normal(2, 3, seed=2, dtype="float16")
    stepped = impl.step(x, v, 0.6, 0.5)
    assert stepped.dtype == "float32"
    assert_allclose(stepped, x - 0.1 * v.astype("float32"), rtol=1e-6, atol=1e-6)
    assert impl.sde(x, v, 0.6, 0.5)[0].dtype == "float32"


def test_sigmas_may_be_numpy_scalars(impl: Implementation) -> None:
    x, v, noise = normal(2, 3, seed=1), normal(2, 3, seed=2), normal(2, 3, seed=3)
    sigmas = np.linspace(1.0, 0.0, 5, dtype="float32")  # these are exact
    assert_array_equal(impl.step(x, v, sigmas[1], sigmas[2]), impl.step(x, v, 0.75, 0.5))
    odd = impl.sde(x, v, sigmas[1], sigmas[2], noise=noise, noise_scale=np.float32(0.5))
    for a, b in zip(odd, impl.sde(x, v, 0.75, 0.5, noise=noise, noise_scale=0.5), strict=True):
        assert_array_equal(a, b)


# Errors.

GOOD = np.zeros((2, 3))


FLOATS = "must be float16, .*float32 or float64, got .*"


@pytest.mark.parametrize(
    ("sample", "velocity", "error", "says"),
    [
        pytest.param(GOOD, np.zeros((3, 2)), ValueError, r"velocity .* shape \(2, 3\), got \(3, 2\)", id="shape"),
        pytest.param(GOOD, np.zeros((1, 3)), ValueError, "velocity must have sample's shape", id="broadcast"),
        pytest.param(np.array(1.0), np.array(1.0), ValueError, "sample needs a batch axis", id="no axis"),
        pytest.param(np.zeros((2, 3), np.int64), GOOD, TypeError, f"sample {FLOATS}int64", id="integers"),
        pytest.param(np.zeros((2, 3), complex), GOOD, TypeError, f"sample {FLOATS}complex128", id="complex"),
        pytest.param(GOOD, np.zeros((2, 3), bool), TypeError, f"velocity {FLOATS}bool", id="bool velocity"),
        pytest.param([[1.0]], np.zeros((1, 1)), TypeError, "sample must be a .*, got list", id="list"),
        pytest.param(GOOD, 0.5, TypeError, "velocity must be a .*, got float", id="scalar velocity"),
    ],
)
def test_bad_arrays(impl: Implementation, sample: Any, velocity: Any, error: type[Exception], says: str) -> None:
    for function in (impl.step, impl.sde):
        with pytest.raises(error, match=says):
            function(sample, velocity, 0.6, 0.5)


@pytest.mark.parametrize(
    "sigmas",
    [
        pytest.param((0.5, 0.6), id="up"),
        pytest.param((1.1, 0.5), id="above one"),
        pytest.param((0.5, -0.1), id="below zero"),
        pytest.param((math.nan, 0.1), id="nan"),
        pytest.param((0.5, math.nan), id="next nan"),
    ],
)
def test_bad_sigmas(impl: Implementation, sigmas: tuple[float, float]) -> None:
    for function in (impl.step, impl.sde):
        with pytest.raises(ValueError, match="need 0 <= sigma_next <= sigma <= 1, got sigma="):
            function(GOOD, GOOD, *sigmas)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        pytest.param({"noise": GOOD, "prev_sample": GOOD}, ValueError, "not both", id="noise and prev_sample"),
        pytest.param({"noise": np.zeros((2, 1))}, ValueError, "noise must have sample's shape", id="noise shape"),
        pytest.param({"prev_sample": np.zeros(2)}, ValueError, "prev_sample must have sample's", id="prev shape"),
        pytest.param({"noise": np.zeros((2, 3), np.int64)}, TypeError, "noise must be float16", id="integer noise"),
        pytest.param({"noise_scale": -0.1}, ValueError, "noise_scale must be finite and not", id="negative scale"),
        pytest.param({"noise_scale": math.inf}, ValueError, "noise_scale must be finite", id="infinite scale"),
        pytest.param({"noise_scale": math.nan}, ValueError, "noise_scale must be finite", id="nan scale"),
    ],
)
def test_bad_options(impl: Implementation, given: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        impl.sde(GOOD, GOOD, 0.6, 0.5, **given)
    with pytest.raises(error, match=says):
        impl.sde(GOOD, GOOD, 0.6, 0.0, **given)
