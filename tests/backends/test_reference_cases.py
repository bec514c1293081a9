"""The parity inputs: what they cover, and that they are the same for the same seed."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from catalogue import MODULES, implementation, tolerance
from rung.load import default_table
from rung.parity.calls import named
from rung.parity.compare import compare
from rung.parity.gradients import MOST, arguments_of, numeric_gradient
from rung_backends.reference import cases, solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DTYPES = ["float16", "bfloat16", "float32", "float64"]
OPS = ["flow_match_step", "flow_sde_step", *MODULES]


def reference(op: str) -> Callable[..., Any]:
    found: Callable[..., Any] = implementation("reference", op) if op in MODULES else getattr(solver, op)
    return found


def bound(op: str, dtype: str, seed: int = 0) -> list[inspect.BoundArguments]:
    """Give each case as the arguments it binds, defaults included."""
    signature = inspect.signature(reference(op))
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
        results = reference(op)(*case.args, **case.kwargs)
        finite = all(np.isfinite(value).all() for value in case.arguments.values() if isinstance(value, np.ndarray))
        found = results if isinstance(results, tuple) else (results,)
        assert all(np.isfinite(result).all() for result in found) == finite


@pytest.mark.parametrize("op", [op for op in OPS if default_table().ops[op].differentiable])
def test_some_gradients_are_compared_of_every_argument(op: str) -> None:
    # Each argument has a case, few enough elements to be differentiated, in which none of its gradients is zero.
    record = default_table().ops[op]
    found = set()
    for args, kwargs in getattr(cases, op)("float64", np.random.default_rng(0)):
        names = arguments_of(record, (args, kwargs))
        values = named(record, (args, kwargs))
        if 0 < sum(values[name].size for name in names) <= MOST:
            for name in names:
                results = slopes(op, values, name)
                found |= {name} if (abs(results) > 1e-6).all() else set()
    assert found == {*record.differentiable}


def slopes(op: str, values: dict[str, Any], name: str) -> NDArray[np.floating[Any]]:
    def results(moved: NDArray[np.floating[Any]]) -> list[Any]:
        made = reference(op)(**{**values, name: moved})
        return [np.asarray(result) for result in (made if isinstance(made, tuple) else (made,))]

    weights = [np.random.default_rng(1).standard_normal(result.shape) for result in results(values[name])]
    return numeric_gradient(results, values[name], weights)[0]


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
# What a case's first array is like, for every op.
COVERED_ARRAYS: list[tuple[str, Callable[[Any], bool]]] = [
    ("no row", lambda x: x.shape[0] == 0),
    ("no element", lambda x: x.size == 0 and x.shape[0] > 0),
    ("two axes", lambda x: x.ndim == 2),
    ("three axes", lambda x: x.ndim == 3),
    ("four axes", lambda x: x.ndim == 4),
    ("not contiguous", lambda x: not x.flags.c_contiguous),
    ("zero stride", lambda x: 0 in x.strides and x.size > 1),
    ("large", lambda x: x.size > 10_000),
]
COVERED_ALSO: list[tuple[str, str, Callable[[dict[str, Any]], bool]]] = [
    ("rms_norm", "one axis", lambda c: c["x"].ndim == 1),
    ("rms_norm", "one element", lambda c: c["x"].size == 1),
    ("rms_norm", "no weight", lambda c: c["weight"] is None),
    ("rms_norm", "weight", lambda c: c["weight"] is not None),
    ("rms_norm", "strided weight", lambda c: c["weight"] is not None and not c["weight"].flags.c_contiguous),
    ("rms_norm", "no eps", lambda c: c["eps"] == 0.0),
    ("rms_norm", "zeros", lambda c: c["x"].size > 1 and not c["x"].any()),
    ("rms_norm", "squares beyond float16", lambda c: c["x"].size > 0 and abs(c["x"]).max() > 1e3),
    ("layer_norm", "one axis", lambda c: c["x"].ndim == 1),
    ("layer_norm", "one element", lambda c: c["x"].size == 1),
    ("layer_norm", "weight alone", lambda c: c["weight"] is not None and c["bias"] is None),
    ("layer_norm", "bias alone", lambda c: c["weight"] is None and c["bias"] is not None),
    ("layer_norm", "both", lambda c: c["weight"] is not None and c["bias"] is not None),
    ("layer_norm", "equal elements", lambda c: c["x"].size > 1 and c["x"].any() and np.ptp(c["x"]) == 0),
    ("layer_norm", "far from zero", lambda c: c["x"].size > 1 and c["x"].min() > 8 > np.ptp(c["x"]) > 0),
    ("group_norm", "one element", lambda c: c["x"].size == 1),
    ("group_norm", "one group", lambda c: c["groups"] == 1 and c["x"].shape[1] > 1),
    ("group_norm", "each channel its own", lambda c: c["groups"] == c["x"].shape[1] > 1),
    ("group_norm", "no channel", lambda c: c["x"].shape[1] == 0),
    ("group_norm", "channels last", lambda c: c["x"].ndim == 4 and c["x"].strides[1] == c["x"].itemsize),
    ("modulate", "0-d", lambda c: c["x"].ndim == 0),
    ("modulate", "each element", lambda c: c["shift"].shape == c["x"].shape and c["x"].ndim == 4),
    ("modulate", "each column", lambda c: c["shift"].ndim == 1 < c["x"].ndim),
    ("modulate", "each sample", lambda c: c["shift"].shape == (2, 1, 5)),
    ("modulate", "unlike shapes", lambda c: c["shift"].shape != c["scale"].shape),
    ("modulate", "nothing left of x", lambda c: c["scale"].size > 0 and (c["scale"] == -1).all()),
    ("silu_and_mul", "one axis", lambda c: c["x"].ndim == 1),
    ("silu_and_mul", "one element of each", lambda c: c["x"].size == 2),
    ("silu_and_mul", "gate shut", lambda c: c["x"].size > 0 and c["x"].min() < -1e4),
    ("gelu", "0-d", lambda c: c["x"].ndim == 0),
    ("gelu", "erf", lambda c: c["approximate"] == "none"),
    ("gelu", "tanh", lambda c: c["approximate"] == "tanh"),
    ("gelu", "far below zero", lambda c: c["x"].size > 0 and c["x"].max() < -1e4),
    ("rotary_embedding", "neighbours", lambda c: c["interleaved"]),
    ("rotary_embedding", "halves", lambda c: not c["interleaved"]),
    ("rotary_embedding", "a part", lambda c: 0 < 2 * c["cos"].shape[-1] < c["x"].shape[-1]),
    ("rotary_embedding", "an odd axis", lambda c: c["x"].shape[-1] % 2 == 1),
    ("rotary_embedding", "no pairs", lambda c: c["cos"].shape[-1] == 0 and c["x"].size > 0),
    ("rotary_embedding", "every axis given", lambda c: c["cos"].ndim == c["x"].ndim == 4),
    ("rotary_embedding", "fewer axes", lambda c: c["cos"].ndim < c["x"].ndim - 1),
    ("cfg_combine", "one element", lambda c: c["cond"].shape == (1,)),
    ("cfg_combine", "not rescaled", lambda c: c["rescale"] == 0.0),
    ("cfg_combine", "rescaled in part", lambda c: 0.0 < c["rescale"] < 1.0),
    ("cfg_combine", "rescaled", lambda c: c["rescale"] == 1.0),
    ("cfg_combine", "equal elements", lambda c: c["rescale"] > 0 and c["cond"].size > 1 and np.ptp(c["cond"]) == 0),
    ("cfg_combine", "no guidance", lambda c: c["guidance_scale"] == 1.0),
    ("cfg_combine", "negative", lambda c: c["guidance_scale"] < 0.0),
    ("cfg_flow_match_step", "first step", lambda c: c["sigma"] == 1.0),
    ("cfg_flow_match_step", "last step", lambda c: c["sigma_next"] == 0.0),
    ("cfg_flow_match_step", "no step", lambda c: c["sigma"] == c["sigma_next"]),
    ("cfg_flow_match_step", "no guidance", lambda c: c["guidance_scale"] == 1.0),
]


@pytest.mark.parametrize(
    ("op", "holds"),
    [pytest.param("flow_match_step", holds, id=f"euler, {name}") for name, holds in COVERED]
    + [pytest.param("flow_sde_step", holds, id=f"sde, {name}") for name, holds in COVERED_SDE]
    + [pytest.param(op, holds, id=f"{op}, {name}") for op, name, holds in COVERED_ALSO],
)
def test_cases_cover(op: str, holds: Callable[[dict[str, Any]], bool]) -> None:
    assert any(holds(case.arguments) for case in bound(op, "float32"))


@pytest.mark.parametrize("op", MODULES)
@pytest.mark.parametrize("holds", [pytest.param(holds, id=name) for name, holds in COVERED_ARRAYS])
def test_cases_cover_arrays(op: str, holds: Callable[[Any], bool]) -> None:
    assert any(holds(array) for array in (case.args[0] for case in bound(op, "float32")) if array.ndim)


# Kernels that are wrong: each must be found so by some case, in the tolerance of its op.

ROWWISE = ["gelu", "group_norm", "layer_norm", "modulate", "rms_norm", "rotary_embedding", "silu_and_mul"]


@functools.cache
def answered(op: str, dtype: str, seed: int = 0) -> list[tuple[dict[str, Any], NDArray[Any]]]:
    """Give the arguments of each case with the reference's answer."""
    return [(case.arguments, reference(op)(*case.args, **case.kwargs)) for case in bound(op, dtype, seed)]


def is_found_wrong(op: str, kernel: Callable[..., NDArray[Any]], dtype: str = "float32", seed: int = 0) -> bool:
    """Say whether a kernel, which takes a case's arguments and the reference's answer, fails on any."""
    limits = tolerance(op, dtype)
    return any(
        compare(kernel(given, answer.copy()), answer, dtype, limits).fault
        for given, answer in answered(op, dtype, seed)
    )


def in_rows(given: dict[str, Any], result: NDArray[Any]) -> NDArray[Any]:
    rows = (result.shape[0] * given["groups"], -1) if "groups" in given else (-1, result.shape[-1])
    return result.reshape(rows)


WALKS: dict[str, Callable[[dict[str, Any], NDArray[Any]], NDArray[Any]]] = {
    "rows": in_rows,
    "elements of rows": lambda given, result: in_rows(given, result).T,
    "elements": lambda given, result: result.reshape(-1),
}


@pytest.mark.parametrize("block", [2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("op", ROWWISE)
def test_a_kernel_that_leaves_out_an_incomplete_block_is_found_wrong(op: str, walk: str, block: int) -> None:
    def kernel(given: dict[str, Any], result: NDArray[Any]) -> NDArray[Any]:
        if result.size and result.ndim:
            seen = WALKS[walk](given, result)
            seen[max(1, len(seen) // block) * block :] = 0
        return result

    assert is_found_wrong(op, kernel)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ROWWISE)
def test_a_kernel_that_hides_what_is_not_finite_is_found_wrong(op: str, dtype: str) -> None:
    assert is_found_wrong(op, lambda given, result: np.nan_to_num(result), dtype)


@pytest.mark.parametrize("op", ROWWISE)
def test_a_kernel_that_spreads_a_nan_is_found_wrong(op: str) -> None:
    def kernel(given: dict[str, Any], result: NDArray[Any]) -> NDArray[Any]:
        return np.full_like(result, np.nan) if np.isnan(result).any() else result

    assert is_found_wrong(op, kernel)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["group_norm", "layer_norm"])
@pytest.mark.parametrize("folded", [False, True], ids=["rounded mean", "folded"])
def test_a_kernel_that_leaves_something_of_equal_elements_is_found_wrong(
    op: str, folded: bool, dtype: str, seed: int
) -> None:
    def kernel(given: dict[str, Any], result: NDArray[Any]) -> NDArray[Any]:
        if not result.size:
            return result
        rows = in_rows(given, given["x"])
        mean = rows.mean(-1, keepdims=True)
        rate = 1 / np.sqrt(np.square(rows - mean).mean(-1, keepdims=True) + result.dtype.type(given["eps"]))
        normed: NDArray[Any] = rows * rate - mean * rate if folded else (rows - mean) * rate
        normed = normed.reshape(result.shape)
        trailing = [1] * (result.ndim - 2 if "groups" in given else 0)
        for name, apply in (("weight", np.multiply), ("bias", np.add)):
            if given[name] is not None:
                normed = apply(normed, given[name].reshape(-1, *trailing))
        return normed

    with np.errstate(all="ignore"):
        assert is_found_wrong(op, kernel, dtype, seed)
        close = [
            not compare(kernel(given, answer), answer, dtype, tolerance(op, dtype)).fault
            for given, answer in answered(op, dtype, seed)
        ]
    assert sum(close) > len(close) / 2  # it is wrong in nothing else


@pytest.mark.parametrize("op", MODULES)
def test_cases_are_few(op: str) -> None:
    assert len(bound(op, "float32")) <= 60


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
