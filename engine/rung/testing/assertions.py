"""Assertions for tests that are written by hand.

Owns how a call is turned into comparisons, and how they are reported. What is compared, and how, is `rung.parity`'s.
"""

from __future__ import annotations

import dataclasses
import math
import unittest
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import count
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

from rung.bind import LOCAL, provide, withdraw
from rung.diagnostics import UnknownArrays, Where, did_you_mean
from rung.entries import ARRAYS, DEFAULT, GENERIC, Cell, cell_id
from rung.load import default_table
from rung.matrix import contexts
from rung.parity import FAILED, GRADIENT, PASSED, checks, of_cell, outcomes
from rung.parity.compare import DTYPES, compare
from rung.platform import live_facts_of
from rung.predicates import Verdict
from rung.testing.reports import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rung.parity import Check, Outcome
    from rung.table import Table

__all__ = ["assert_close", "assert_parity"]

_EXACT: Final = "exact"
_KINDS: Final = ({"ulp"}, {"cosine"}, {"rtol"}, {"atol"}, {"rtol", "atol"})
_numbers = count(1)


def assert_close(result: Any, expected: Any, dtype: str, tolerance: Mapping[str, float] | str = _EXACT) -> None:
    """Assert that a result is as close to the expected one as a tolerance allows.

    Both are arrays of numpy or torch, or tuples of them; floating results must have `dtype`, while `expected` may be
    wider. `tolerance` is as an op's in a manifest: `"exact"`, `{"ulp": 2}`, `{"rtol": 1e-6, "atol": 1e-6}` or
    `{"cosine": 0.999}`. Raise AssertionError that names the worst element, ValueError for what is no dtype or
    tolerance.
    """
    __tracebackhide__ = True
    _check("dtype", dtype, DTYPES)
    found = compare(result, _in_numpy(expected), dtype, _allowed(tolerance))
    if found.fault:
        raise AssertionError(found.fault)


def _check(kind: str, name: str, legal: Iterable[str]) -> None:
    if name not in legal:
        raise ValueError(f"unknown {kind} `{name}`: {did_you_mean(name, legal)}")


def _allowed(tolerance: Mapping[str, float] | str) -> dict[str, float | int]:
    """Give a tolerance as an op has it, by the rules that a manifest's follow."""
    if tolerance == _EXACT:
        return {}
    if not isinstance(tolerance, Mapping) or {*tolerance} not in _KINDS:
        raise ValueError(
            f'`{tolerance}` is no tolerance: write "exact", or a dict of `ulp`, of `cosine`, or of `rtol` and `atol`'
        )
    for name, value in tolerance.items():
        if name == "ulp":
            fits, words = isinstance(value, Integral) and value >= 0, "a whole number from 0 on"
        elif name == "cosine":
            fits, words = isinstance(value, Real) and 0 < value <= 1, "a number above 0, 1 at most"
        else:
            fits, words = isinstance(value, Real) and 0 <= value < math.inf, "a finite number from 0 on"
        if isinstance(value, bool) or not fits:
            raise ValueError(f"`{name}` of a tolerance is {words}, not `{value!r}`")
    return dict(tolerance)


def _in_numpy(expected: Any) -> Any:
    from rung.bridge import library_of, to_numpy

    if isinstance(expected, tuple):
        return tuple(map(_in_numpy, expected))
    return to_numpy(expected.detach()) if library_of(expected) == "torch" else expected


def assert_parity(
    kernel: str | Cell | Callable[..., Any],
    op: str | None = None,
    *,
    arrays: str = "numpy",
    device: str = "cpu",
    dtypes: str | Iterable[str] | None = None,
    gradients: bool = True,
    seed: int = 0,
    table: Table | None = None,
) -> list[Outcome]:
    """Assert that a kernel agrees with its op's reference on the op's cases, within the op's tolerance.

    `kernel` is a cell or its id, or a function that would serve `op` for callers of `arrays` on `device`. Compare in
    the named `dtypes`, by default in all that the op has a tolerance for, and compare the gradients of the arguments
    that the op calls differentiable. Give the outcomes. Raise AssertionError with all that failed, unittest.SkipTest
    when nothing could be compared (pytest skips the test), UnknownOp, UnknownArrays, UnknownDevice, KeyError for a cell
    that there is not, ValueError for what is no dtype, and TypeError for a function without an op.
    """
    __tracebackhide__ = True
    table = table or default_table()
    wanted = None if dtypes is None else {dtypes} if isinstance(dtypes, str) else {*dtypes}
    for name in wanted or ():
        _check("dtype", name, DTYPES)
    provided = ""
    try:
        if isinstance(kernel, str | Cell):
            made = checks(cell=kernel if isinstance(kernel, str) else kernel.id, table=table, seed=seed)
        elif op is None:
            raise TypeError("a function serves no op by itself: assert_parity(function, op)")
        else:
            provided = provide(f"{op}_in_test_{next(_numbers)}", kernel)
            made = iter(_of_function(provided, kernel, op, arrays, device, seed, table))
        chosen = [check for each in made if (check := _within(each, wanted)) and (gradients or check.what != GRADIENT)]
        found = list(outcomes(chosen))
    finally:
        withdraw([provided])
    failed = [outcome for outcome in found if outcome.status == FAILED]
    if failed:
        raise AssertionError("\n\n".join(map(report, failed)))
    if not any(outcome.status == PASSED for outcome in found):
        reasons = dict.fromkeys(outcome.detail for outcome in found)
        raise unittest.SkipTest("; ".join(reasons) or "the op has a tolerance in none of the dtypes")
    return found


def _within(check: Check, dtypes: set[str] | None) -> Check | None:
    """Give a comparison in those of its dtypes that are wanted, None where there is none of them."""
    if dtypes is None or not check.dtypes:
        return check
    kept = tuple(dtype for dtype in check.dtypes if dtype in dtypes)
    return dataclasses.replace(check, dtypes=kept) if kept else None


def _of_function(
    path: str, function: Callable[..., Any], op: str, arrays: str, device: str, seed: int, table: Table
) -> list[Check]:
    """Give the comparisons of a function as if it were a cell."""
    record = table.op(op)
    table.device(device)
    if arrays not in ARRAYS:
        raise UnknownArrays(f"unknown arrays `{arrays}`: {did_you_mean(arrays, ARRAYS)}")
    code = getattr(function, "__code__", None)
    where = Where(code.co_filename, code.co_firstlineno) if code else record.where
    name = cell_id(LOCAL, op, device, GENERIC, DEFAULT)
    cell = Cell(name, LOCAL, op, device, GENERIC, DEFAULT, arrays, path, "python", where)
    obstacle = "" if find_spec(arrays) else f"`{arrays}` is not installed"
    here = contexts(table, live_facts_of(table), device)
    if isinstance(here, Verdict) and device != "cpu":
        obstacle = obstacle or here.reason
    made = of_cell(record, cell, table, obstacle=obstacle, seed=seed)
    return [dataclasses.replace(check, roots=check.roots | {LOCAL}) for check in made]
