"""Assertions for tests that are written by hand.

Owns how a call is turned into comparisons, and how they are reported. What is compared, and how, is `rung.parity`'s.
"""

from __future__ import annotations

import dataclasses
import unittest
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from rung.bind import LOCAL, provide, withdraw
from rung.compare import DTYPES, compare
from rung.diagnostics import Where, did_you_mean
from rung.entries import DEFAULT, GENERIC, Cell, cell_id
from rung.load import default_table
from rung.parity import FAILED, PASSED, checks, of_cell, outcomes
from rung.testing.reports import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rung.parity import Check, Outcome
    from rung.table import Table

__all__ = ["assert_close", "assert_parity"]

_EXACT: Final = "exact"
_KINDS: Final = ("atol", "cosine", "rtol", "ulp")
_numbers = count(1)


def assert_close(result: Any, expected: Any, dtype: str, tolerance: Mapping[str, float] | str = _EXACT) -> None:
    """Assert that a result is as close to the expected one as a tolerance allows.

    Both are arrays of numpy or torch, or tuples of them; floating results must have `dtype`, while `expected` may be
    wider. `tolerance` is as an op's in a manifest: `"exact"`, `{"ulp": 2}`, `{"rtol": 1e-6, "atol": 1e-6}` or
    `{"cosine": 0.999}`. Raise AssertionError that names the worst element, ValueError for what is no dtype or
    tolerance.
    """
    __tracebackhide__ = True
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype `{dtype}`: {did_you_mean(dtype, DTYPES)}")
    allowed = {} if tolerance == _EXACT else tolerance
    if not isinstance(allowed, dict) or (strange := [name for name in allowed if name not in _KINDS]):
        said = f"`{tolerance}`" if not isinstance(allowed, dict) else f"`{strange[0]}`"
        raise ValueError(
            f'{said} is no tolerance: write "exact", or a dict of `ulp`, of `cosine`, or of `rtol`, `atol`'
        )
    found = compare(result, _in_numpy(expected), dtype, allowed)
    if found.fault:
        raise AssertionError(found.fault)


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
    dtypes: Iterable[str] | None = None,
    gradients: bool = True,
    seed: int = 0,
    table: Table | None = None,
) -> list[Outcome]:
    """Assert that a kernel agrees with its op's reference on the op's cases, within the op's tolerance.

    `kernel` is a cell or its id, or a function that would serve `op` for callers of `arrays` on `device`. Compare in
    the named `dtypes`, by default in all that the op has a tolerance for, and compare the gradients of the arguments
    that the op calls differentiable. Give the outcomes. Raise AssertionError with all that failed, unittest.SkipTest
    when nothing could be compared (pytest skips the test), UnknownOp, KeyError for a cell that there is not, and
    TypeError for a function without an op.
    """
    __tracebackhide__ = True
    table = table or default_table()
    wanted = None if dtypes is None else set(dtypes)
    provided = ""
    try:
        if isinstance(kernel, str | Cell):
            made = checks(cell=kernel if isinstance(kernel, str) else kernel.id, table=table, seed=seed)
        elif op is None:
            raise TypeError("a function serves no op by itself: assert_parity(function, op)")
        else:
            provided = provide(f"{op}_in_test_{next(_numbers)}", kernel)
            made = iter(_of_function(provided, kernel, op, arrays, device, seed, table))
        chosen = [check for check in made if wanted is None or not check.dtypes or wanted & {*check.dtypes}]
        found = list(outcomes(check for check in chosen if gradients or check.what != "gradient"))
    finally:
        withdraw([provided])
    failed = [outcome for outcome in found if outcome.status == FAILED]
    if failed:
        raise AssertionError("\n\n".join(map(report, failed)))
    if not any(outcome.status == PASSED for outcome in found):
        raise unittest.SkipTest("; ".join(dict.fromkeys(o.detail for o in found)) or "nothing to compare")
    return found


def _of_function(
    path: str, function: Callable[..., Any], op: str, arrays: str, device: str, seed: int, table: Table
) -> list[Check]:
    """Give the comparisons of a function as if it were a cell."""
    record = table.op(op)
    code = getattr(function, "__code__", None)
    where = Where(code.co_filename, code.co_firstlineno) if code else record.where
    name = cell_id(LOCAL, op, device, GENERIC, DEFAULT)
    cell = Cell(name, LOCAL, op, device, GENERIC, DEFAULT, arrays, path, "python", where)
    return [
        dataclasses.replace(check, roots=check.roots | {LOCAL}) for check in of_cell(record, cell, table, seed=seed)
    ]
