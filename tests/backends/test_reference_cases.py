"""The parity inputs: what they cover, and that they are the same for the same seed."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rung_backends.reference import cases, solver

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = ["float16", "bfloat16", "float32", "float64"]
OPS = ["flow_match_step", "flow_sde_step"]


def bound(op: str, dtype: str, seed: int = 0) -> list[inspect.BoundArguments]:
    """Give each case as the arguments it binds, defaults included."""
    signature = inspect.signature(getattr(solver, op))
    found = []
    for args, kwargs in getattr(cases, op)(dtype, np.random.default_rng(seed)):
        found.append(signature.bind(*args, **kwargs))
        found[-1].apply_defaults()
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_arrays_are_of_the_dtype(op: str, dtype: str) -> None:
    for case in bound(op, dtype):
        for value in case.arguments.values():
            if isinstance(value, np.ndarray):
                assert value.dtype == ("float32" if dtype == "bfloat16" else dtype)
                if dtype == "bfloat16":
                    assert not np.any(np.ascontiguousarray(value).view(np.uint32) & 0xFFFF)


@pytest.mark.parametrize("op", OPS)
def test_the_reference_takes_every_case(op: str) -> None:
    for case in bound(op, "float64"):
        results = getattr(solver, op)(*case.args, **case.kwargs)
        for result in results if isinstance(results, tuple) else (results,):
            assert np.isfinite(result).all()


COVERED: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("one element", lambda c: c["sample"].size == 1),
    ("empty batch", lambda c: c["sample"].shape[0] == 0),
    ("empty sample", lambda c: c["sample"].size == 0 and c["sample"].shape[0] > 0),
    ("one axis", lambda c: c["sample"].ndim == 1),
    ("two axes", lambda c: c["sample"].ndim == 2),
    ("four axes", lambda c: c["sample"].ndim == 4),
    ("not contiguous", lambda c: not c["sample"].flags.c_contiguous),
    ("zero stride", lambda c: 0 in c["sample"].strides and c["sample"].size > 1),
    ("first step", lambda c: c["sigma"] == 1.0),
    ("last step", lambda c: c["sigma_next"] == 0.0),
    ("no step", lambda c: c["sigma"] == c["sigma_next"]),
    ("guarded", lambda c: 4 * (1.0 - c["sigma"]) < c["sigma"] - c["sigma_next"] and c["sigma"] < 1.0),
]
COVERED_SDE: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    *COVERED,
    ("noise", lambda c: c["noise"] is not None),
    ("prev_sample", lambda c: c["prev_sample"] is not None),
    ("no noise", lambda c: c["noise_scale"] == 0.0),
    ("other noise", lambda c: c["noise_scale"] not in (0.0, 0.7)),
]


@pytest.mark.parametrize(
    ("op", "holds"),
    [pytest.param("flow_match_step", holds, id=f"euler, {name}") for name, holds in COVERED]
    + [pytest.param("flow_sde_step", holds, id=f"sde, {name}") for name, holds in COVERED_SDE],
)
def test_cases_cover(op: str, holds: Callable[[dict[str, Any]], bool]) -> None:
    assert any(holds(case.arguments) for case in bound(op, "float32"))


def test_no_sde_case_leaves_its_answer_to_chance() -> None:
    for case in bound("flow_sde_step", "float64"):
        given = case.arguments
        determined = given["noise"] is not None or given["prev_sample"] is not None
        assert determined or given["noise_scale"] == 0.0 or given["sigma_next"] == 0.0


@pytest.mark.parametrize("op", OPS)
def test_a_seed_decides(op: str) -> None:
    for first, second in zip(bound(op, "float32", 7), bound(op, "float32", 7), strict=True):
        for name, value in first.arguments.items():
            assert_array_equal(value, second.arguments[name])


@pytest.mark.parametrize("op", OPS)
def test_unknown_dtype(op: str) -> None:
    with pytest.raises(ValueError, match=r"dtype must be one of float16, .* got 'int8'"):
        next(getattr(cases, op)("int8", np.random.default_rng(0)))
