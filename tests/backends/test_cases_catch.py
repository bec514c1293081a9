"""Kernels that are wrong: each must fail parity on the cases of its op. The other ops': `test_reference_cases`."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from catalogue import MANIFESTS
from rung.parity.compare import compare
from rung_backends.reference import attention, cases, guidance, matmul, solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

OPS: dict[str, tuple[Callable[..., Any], str]] = {
    "attention": (attention.attention, "attention"),
    "cfg_combine": (guidance.cfg_combine, "guidance"),
    "cfg_flow_match_step": (guidance.cfg_flow_match_step, "guidance"),
    "flow_match_step": (solver.flow_match_step, "solver"),
    "flow_sde_step": (solver.flow_sde_step, "solver"),
    "scaled_mm": (matmul.scaled_mm, "matmul"),
}
DTYPES = {op: ["float16", "bfloat16", "float32", "float64"] for op in OPS}
DTYPES["scaled_mm"] = ["float8_e4m3fn", "float8_e5m2"]


@functools.cache
def answered(op: str, dtype: str) -> list[tuple[dict[str, Any], tuple[Array, ...]]]:
    """Give the arguments of each case with the reference's answers."""
    reference = OPS[op][0]
    found = []
    for args, kwargs in getattr(cases, op)(dtype, np.random.default_rng(0)):
        bound = inspect.signature(reference).bind(*args, **kwargs)
        bound.apply_defaults()
        answer = reference(*args, **kwargs)
        found.append((bound.arguments, answer if isinstance(answer, tuple) else (answer,)))
    return found


def is_found_wrong(op: str, kernel: Callable[[dict[str, Any], Array], Array], dtype: str) -> bool:
    """Say whether what a kernel makes of the reference's first answer fails on any case."""
    manifest = yaml.safe_load((MANIFESTS / f"{OPS[op][1]}.yaml").read_text("utf-8"))
    limits = manifest["ops"][op]["tolerance"][dtype]
    for given, (answer, *_) in answered(op, dtype):
        wanted = given.get("out_dtype", dtype).replace("bfloat16", "float32")  # as which numpy holds it
        if compare(kernel(given, answer.copy()), answer, wanted, {} if limits == "exact" else limits).fault:
            return True
    return False


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op in OPS for dtype in DTYPES[op]])
def test_a_kernel_that_hides_what_is_not_finite_is_found_wrong(op: str, dtype: str) -> None:
    assert not is_found_wrong(op, lambda given, result: result, dtype)
    assert is_found_wrong(op, lambda given, result: np.where(np.isnan(result), 0, result), dtype)


@pytest.mark.parametrize("op", OPS)
def test_a_kernel_that_spreads_a_nan_is_found_wrong(op: str) -> None:
    def kernel(given: dict[str, Any], result: Array) -> Array:
        return np.full_like(result, np.nan) if np.isnan(result).any() else result

    assert is_found_wrong(op, kernel, DTYPES[op][-1])


@pytest.mark.parametrize("block", [*range(2, 20), 24, 32, 48, 64, 96, 128])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("op", OPS)
def test_a_kernel_that_leaves_out_an_incomplete_block_is_found_wrong(op: str, axis: int | None, block: int) -> None:
    if axis is not None and axis >= {"attention": 4}.get(op, 2):
        return  # no more axes that blocks are taken of
    if op == "attention" and axis in (0, 1) and block > 2:
        return  # batches and heads are not so many

    def kernel(given: dict[str, Any], result: Array) -> Array:
        seen = result.reshape(-1) if axis is None else np.moveaxis(result, axis, 0) if axis < result.ndim else result
        seen[max(1, len(seen) // block) * block :] = 0
        return result

    dtype = "float8_e4m3fn" if op == "scaled_mm" else "float32"
    assert is_found_wrong(op, kernel, dtype)


@pytest.mark.parametrize("block", [2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("op", ["attention", "scaled_mm"])
def test_a_kernel_that_leaves_out_the_last_keys_or_products_is_found_wrong(op: str, block: int) -> None:
    def kernel(given: dict[str, Any], result: Array) -> Array:
        given = dict(given)
        names, axis = (("k", "v"), 2) if op == "attention" else (("b",), 0)
        length = given[names[0]].shape[axis]
        kept = max(1, length // block) * block
        if kept >= length or given.get("mask") is not None or given.get("causal"):
            return result
        for name in names:
            given[name] = given[name][:, :, :kept] if axis == 2 else given[name][:kept]
        if op == "scaled_mm":
            given["a"] = given["a"][:, :kept]
        changed: Array = OPS[op][0](**given)
        return changed

    assert is_found_wrong(op, kernel, "float8_e4m3fn" if op == "scaled_mm" else "float32")
