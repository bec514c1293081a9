"""The stand-in accelerator against the oracle: bit for bit, in every dtype and through whole trajectories."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from rung_backends.accel import solver as accel
from rung_backends.reference import cases
from rung_backends.reference import solver as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Op = Callable[..., Any]

EULER: list[Op] = [accel.flow_match_step, accel.flow_match_step_tiled, accel.flow_match_step_fused]
SDE: list[Op] = [accel.flow_sde_step, accel.flow_sde_step_tiled]
DTYPES = ["float16", "bfloat16", "float32", "float64"]


def name(op: Op) -> str:
    return op.__name__


def assert_same_bits(got: Any, expected: Any) -> None:
    if not isinstance(expected, tuple):
        got, expected = (got,), (expected,)
    for a, b in zip(got, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", EULER, ids=name)
def test_euler_cases(op: Op, dtype: str) -> None:
    for args, kwargs in cases.flow_match_step(dtype, np.random.default_rng(0)):
        assert_same_bits(op(*args, **kwargs), reference.flow_match_step(*args, **kwargs))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", SDE, ids=name)
def test_sde_cases(op: Op, dtype: str) -> None:
    for args, kwargs in cases.flow_sde_step(dtype, np.random.default_rng(0)):
        assert_same_bits(op(*args, **kwargs), reference.flow_sde_step(*args, **kwargs))


arrays = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6).flatmap(
    lambda shape: st.tuples(*[hnp.arrays(np.float64, shape, elements=st.floats(-1e6, 1e6, allow_subnormal=False))] * 3)
)
steps = st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)).map(lambda pair: (max(pair), min(pair)))


@pytest.mark.parametrize("op", EULER, ids=name)
@given(data=arrays, step=steps)
def test_euler_on_anything(op: Op, data: tuple[NDArray[Any], ...], step: tuple[float, float]) -> None:
    x, v, _ = data
    assert_same_bits(op(x, v, *step), reference.flow_match_step(x, v, *step))


@pytest.mark.parametrize("op", SDE, ids=name)
@example((np.array([0.0]), np.array([0.0]), np.array([13.0])), (9.2e-154, 2.2e-313), 1.0)  # the density underflows
@given(data=arrays, step=steps, noise_scale=st.floats(1e-3, 2.0) | st.just(0.0))
def test_sde_on_anything(op: Op, data: tuple[NDArray[Any], ...], step: tuple[float, float], noise_scale: float) -> None:
    x, v, other = data
    for given_array in ("noise", "prev_sample"):
        options: dict[str, Any] = {"noise_scale": noise_scale, given_array: other}
        assert_same_bits(op(x, v, *step, **options), reference.flow_sde_step(x, v, *step, **options))


@pytest.mark.parametrize("size", [accel.TILE - 1, accel.TILE, accel.TILE + 1, 3 * accel.TILE])
def test_tiles_meet_without_gap_or_overlap(size: int) -> None:
    rng = np.random.default_rng(0)
    x, v, noise = rng.standard_normal((3, 1, size))
    assert_same_bits(accel.flow_match_step_tiled(x, v, 0.6, 0.5), reference.flow_match_step(x, v, 0.6, 0.5))
    assert_same_bits(
        accel.flow_sde_step_tiled(x, v, 0.6, 0.5, noise=noise),
        reference.flow_sde_step(x, v, 0.6, 0.5, noise=noise),
    )


@pytest.mark.parametrize("op", EULER, ids=name)
def test_euler_on_reversed_views(op: Op) -> None:
    x, v = np.random.default_rng(0).standard_normal((2, 4, 5))
    args = (x[::-1], v[:, ::-1], 0.6, 0.5)
    assert_same_bits(op(*args), reference.flow_match_step(*args))


@pytest.mark.parametrize("op", SDE, ids=name)
def test_sde_on_reversed_views(op: Op) -> None:
    x, v = np.random.default_rng(0).standard_normal((2, 4, 5))
    args = (x[::-1], v[:, ::-1], 0.6, 0.5)
    assert_same_bits(op(*args, prev_sample=v), reference.flow_sde_step(*args, prev_sample=v))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("euler", EULER, ids=name)
def test_an_ode_trajectory_stays_equal(euler: Op, dtype: str) -> None:
    sigmas = np.linspace(1.0, 0.0, 26)
    ours = theirs = np.random.default_rng(0).standard_normal((4, 8, 8)).astype(dtype)
    for sigma, sigma_next in pairwise(sigmas.tolist()):
        ours = euler(ours, np.tanh(ours) - sigma * ours, sigma, sigma_next)
        theirs = reference.flow_match_step(theirs, np.tanh(theirs) - sigma * theirs, sigma, sigma_next)
        assert_same_bits(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sde", SDE, ids=name)
def test_an_sde_trajectory_stays_equal(sde: Op, dtype: str) -> None:
    sigmas = np.linspace(1.0, 0.0, 26)
    rng = np.random.default_rng(0)
    ours = theirs = rng.standard_normal((4, 8, 8)).astype(dtype)
    for sigma, sigma_next in pairwise(sigmas.tolist()):
        noise = rng.standard_normal(ours.shape).astype(dtype)
        stepped = sde(ours, np.tanh(ours) - sigma * ours, sigma, sigma_next, noise=noise)
        expected = reference.flow_sde_step(theirs, np.tanh(theirs) - sigma * theirs, sigma, sigma_next, noise=noise)
        assert_same_bits(stepped, expected)
        ours, theirs = stepped[0], expected[0]
