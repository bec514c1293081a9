"""The parity oracle: every usable cell against the op's reference, within the op's tolerance, its arguments unchanged.

Owns the comparison and its wording. Cases come from the op, tolerances from its manifest; nothing is tuned here.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rung.bind import bind
from rung.bridge import library_of, to_numpy, to_torch
from rung.diagnostics import BindError, did_you_mean
from rung.load import default_table
from rung.matrix import availability, contexts
from rung.platform import live_facts_of
from rung.predicates import YES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from rung.entries import Cell, Op
    from rung.facts import Facts
    from rung.table import Table

__all__ = ["Outcome", "parity"]

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comparing one cell in one dtype gave. `worst` is the largest absolute difference seen."""

    cell: str
    op: str
    dtype: str
    status: str
    cases: int = 0
    worst: float = 0.0
    detail: str = ""


def parity(
    *,
    backend: str | None = None,
    op: str | None = None,
    seed: int = 0,
    table: Table | None = None,
    facts: Facts | None = None,
) -> Iterator[Outcome]:
    """Compare the cells of a backend, of an op, or all, in every dtype the op has a tolerance for.

    Cells that are not usable here are skipped with the reason. Raise UnknownOp, or KeyError for a backend.
    """
    table = table or default_table()
    facts = facts or live_facts_of(table)
    if op is not None:
        table.op(op)
    if backend is not None and backend not in table.backends:
        raise KeyError(f"unknown backend `{backend}`: {did_you_mean(backend, table.backends)}")
    here = {name: contexts(table, facts, name) for name in table.devices}
    for name, cells in table.kernels.items():
        if op is not None and name != op:
            continue
        for cell in cells:
            if cell.is_reference or (backend is not None and cell.backend != backend):
                continue
            verdict = availability(cell, here[cell.device])
            if verdict.answer != YES:
                yield Outcome(cell.id, name, "", SKIPPED, detail=verdict.reason)
                continue
            yield from _cell(table.ops[name], cell, table, seed)


def _cell(op: Op, cell: Cell, table: Table, seed: int) -> Iterator[Outcome]:
    if op.cases is None:
        yield Outcome(cell.id, op.name, "", SKIPPED, detail="the op declares no cases")
        return
    try:
        reference, cases, kernel = (bind(path, table.roots) for path in (op.reference, op.cases, cell.impl))
    except BindError as error:
        yield Outcome(cell.id, op.name, "", FAILED, detail=f"broken: {error}")
        return
    for dtype, tolerance in op.tolerance.items():
        place = table.devices[cell.device].torch
        yield _compare_dtype(op, cell, place, dtype, tolerance, reference, cases, kernel, seed)


def _compare_dtype(
    op: Op,
    cell: Cell,
    place: str,
    dtype: str,
    tolerance: Any,
    reference: Callable[..., Any],
    cases: Callable[..., Any],
    kernel: Callable[..., Any],
    seed: int,
) -> Outcome:
    import numpy as np

    def outcome(status: str, count: int, worst: float, detail: str = "") -> Outcome:
        return Outcome(cell.id, op.name, dtype, status, count, worst, detail)

    if cell.arrays == "numpy" and dtype == "bfloat16":
        return outcome(SKIPPED, 0, 0.0, "numpy has no bfloat16")
    if cell.device == "mps" and dtype == "float64":
        return outcome(SKIPPED, 0, 0.0, "mps has no float64")
    count, worst = 0, 0.0
    for args, kwargs in cases(dtype, np.random.default_rng(seed)):
        expected = reference(*args, **kwargs)
        given = [_given(value, cell.arrays, place, dtype) for value in args]
        named = {key: _given(value, cell.arrays, place, dtype) for key, value in kwargs.items()}
        before = deepcopy((given, named))
        try:
            made = kernel(*given, **named)
        except Exception as error:
            return outcome(FAILED, count, worst, f"case {count} raised {type(error).__name__}: {error}")
        changed = _changed(before, (given, named))
        if changed:
            return outcome(FAILED, count, worst, f"case {count}: argument {changed} was changed")
        difference, fault = _compare(made, expected, dtype, tolerance)
        worst = max(worst, difference)
        if fault:
            return outcome(FAILED, count, worst, f"case {count}: {fault}")
        count += 1
    return outcome(PASSED, count, worst) if count else outcome(SKIPPED, 0, 0.0, "the op gives no case for this dtype")


def _given(value: Any, arrays: str, place: str, dtype: str) -> Any:
    """Give an argument in the cell's array library, on torch's device `place` and in the dtype compared."""
    if library_of(value) != "numpy" or arrays == "numpy":
        return value
    import torch

    tensor = to_torch(value, place)
    return tensor.to(getattr(torch, dtype)) if tensor.is_floating_point() else tensor


def _changed(before: tuple[list[Any], dict[str, Any]], after: tuple[list[Any], dict[str, Any]]) -> str:
    """Name the first argument that a call changed, "" when it left all as they were."""
    for position, (old, new) in enumerate(zip(before[0], after[0], strict=True)):
        if not _same(old, new):
            return str(position)
    return next((f"`{key}`" for key, old in before[1].items() if not _same(old, after[1][key])), "")


def _same(old: Any, new: Any) -> bool:
    """Say whether two values are equal bit for bit."""
    if isinstance(old, tuple | list):
        return len(old) == len(new) and all(map(_same, old, new))
    library = library_of(old)
    if library is None:
        return True  # numbers, texts and flags cannot change
    mine, theirs = (value if library == "numpy" else to_numpy(value.detach()) for value in (old, new))
    return bool(mine.shape == theirs.shape and mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes())


def _compare(made: Any, expected: Any, dtype: str, tolerance: Any) -> tuple[float, str]:
    """Compare results, tuples member by member; give the largest difference and the first fault."""
    if isinstance(expected, tuple):
        if not isinstance(made, tuple) or len(made) != len(expected):
            return math.inf, f"{len(expected)} results expected, got {type(made).__name__}"
        worst = 0.0
        for position, (mine, theirs) in enumerate(zip(made, expected, strict=True)):
            difference, fault = _compare(mine, theirs, dtype, tolerance)
            worst = max(worst, difference)
            if fault:
                return worst, f"result {position}: {fault}"
        return worst, ""
    library = library_of(made)
    if library is None:
        return math.inf, f"an array expected, got {type(made).__name__}"
    shown = str(made.dtype).removeprefix("torch.")
    if shown != dtype:
        return math.inf, f"dtype {shown}, expected {dtype}"
    return _compare_arrays(made if library == "numpy" else to_numpy(made.detach()), expected, tolerance)


def _compare_arrays(made: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], tolerance: Any) -> tuple[float, str]:
    import numpy as np

    if made.shape != expected.shape:
        return math.inf, f"shape {made.shape}, expected {expected.shape}"
    mine, theirs = made.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)), 0.0, np.abs(mine - theirs))
        difference = np.where(np.isnan(difference), math.inf, difference)
        allowed = tolerance.get("atol", 0.0) + tolerance.get("rtol", 0.0) * np.abs(np.nan_to_num(theirs))
        excess = difference - allowed
    worst = float(difference.max(initial=0.0))
    if not (excess > 0).any():
        return worst, ""
    index = np.unravel_index(int(np.argmax(excess)), excess.shape)
    at = ", ".join(str(int(i)) for i in index)
    limit = "exactly equal" if not tolerance else f"within {allowed[index]:.3g}"
    return worst, f"element [{at}] is {mine[index]!r}, reference {theirs[index]!r}, not {limit}".replace(
        "np.float64", ""
    )
