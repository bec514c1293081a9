"""Rescaled guidance in every backend: where its quotient is not the formula's, and what long sums may lose."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from aside import Aside
from catalogue import implementation, through_torch
from rung_backends.reference.guidance import cfg_combine as reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[Any]

INTERPRETED = Aside(TRITON_INTERPRET="1")


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    INTERPRETED.close()


def interpreted(*args: Any, **kwargs: Any) -> Any:
    return INTERPRETED.call("rung_backends.triton.guidance:cfg_combine", *args, **kwargs)


@pytest.fixture(params=["reference", "accel", "torch", "torch_compile", "triton"])
def combine(request: pytest.FixtureRequest) -> Callable[..., Array]:
    """Give each backend's `cfg_combine`, for numpy arrays."""
    if request.param in ("reference", "accel"):
        return implementation(request.param, "cfg_combine")
    pytest.importorskip("torch")
    if request.param == "torch":
        return through_torch(implementation("torch", "cfg_combine"))
    if request.param == "torch_compile":
        from rung_backends.torch_compile.cfg_combine import cfg_combine

        return through_torch(cfg_combine)
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed")
    return through_torch(interpreted)


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("rescale", [0.5, 1.0])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [7, 5000])
def test_at_a_scale_of_one_nothing_is_rescaled(
    combine: Callable[..., Array], size: int, dtype: str, rescale: float
) -> None:
    cond, uncond = np.full((2, size), 0.1, dtype), normal(2, size, dtype=dtype)
    cond[1] = normal(size, seed=1, dtype=dtype)
    got = combine(cond, uncond, 1.0, rescale=rescale)
    assert_allclose(got, cond, rtol=0, atol=float(4 * np.finfo(dtype).eps))
    assert_array_equal(got, combine(cond, uncond, 1.0))


def test_a_condition_of_equal_elements_leaves_its_share(combine: Callable[..., Array]) -> None:
    cond, uncond = np.full((2, 9), 0.1, np.float32), normal(2, 9)
    assert not combine(cond, uncond, 4.0, rescale=1.0).any()
    assert_allclose(combine(cond, uncond, 4.0, rescale=0.5), combine(cond, uncond, 4.0) / 2, rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
def test_what_is_not_finite_spoils_its_sample_if_that_is_rescaled(combine: Callable[..., Array], value: float) -> None:
    for spoilt in (0, 1):
        for place in (0, 4):
            arrays = [normal(3, 9), normal(3, 9, seed=1)]
            arrays[spoilt][1, place] = value
            got = combine(*arrays, 4.0, rescale=0.7)
            assert_array_equal(np.isnan(got), np.arange(3)[:, None] == np.full(9, 1))
            cond, uncond = (a.astype(np.float64) for a in arrays)
            for phi in (0.0, 0.7):
                expected = reference(cond, uncond, 1.0, rescale=phi)
                assert_allclose(combine(*arrays, 1.0, rescale=phi), expected, rtol=1e-6, atol=1e-6)


LEVELS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "two": lambda rng, n: 0.7 * np.sign(rng.standard_normal(n)),
    "two, one of them zero": lambda rng, n: 0.7 * (rng.random(n) < 0.5),
    "some": lambda rng, n: np.round(rng.standard_normal(n) * 1.3) / 3,
    "one far away": lambda rng, n: np.where(np.arange(n) == 0, 1000.0, 0.1),
}


def off(combine: Callable[..., Array], cond: Array) -> float:
    """Give how far, relatively, all of a result in float32 is off: roundings of its elements apart, its quotient."""
    cond = cond.astype(np.float32)[None]
    uncond = normal(*cond.shape, seed=1)
    expected = reference(cond.astype(np.float64), uncond.astype(np.float64), 7.5, rescale=1.0)
    got = combine(cond, uncond, 7.5, rescale=1.0).astype(np.float64)
    return float(abs((got * expected).sum() / np.square(expected).sum() - 1))


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("backend", ["accel", "torch", "torch_compile"])
def test_long_sums_of_like_terms_keep_their_digits(backend: str, levels: str) -> None:
    cond = LEVELS[levels](np.random.default_rng(0), 1_000_001)
    if backend == "accel":
        assert off(implementation("accel", "cfg_combine"), cond) < 2e-7
        return
    pytest.importorskip("torch")
    if backend == "torch":
        assert off(through_torch(implementation("torch", "cfg_combine")), cond) < 2e-7
        return
    from rung_backends.torch_compile.cfg_combine import cfg_combine

    assert off(through_torch(cfg_combine), cond) < 2e-7


def test_many_tiles_of_like_terms_keep_their_digits() -> None:
    # One program for the whole sample takes as many tiles as 128 of them do of a sample 128 times as large. This number
    # is one of those of whose squares a hundred, added one by one, lose most: 8e-7 of the quotient.
    pytest.importorskip("torch")
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed")
    cond = 1.169921875 * np.where(np.arange(98 * 1024) % 2, 1.0, -1.0)
    before = INTERPRETED.call("aside:assign", "rung_backends.triton.guidance", "_CHUNKS", 1)
    try:
        assert off(through_torch(interpreted), cond) < 2e-7
    finally:
        INTERPRETED.call("aside:assign", "rung_backends.triton.guidance", "_CHUNKS", before)
