"""Cells held against their references: which are compared on which cases.

Cases come from the op, tolerances from its manifest; nothing is tuned here. How far is too far is
`rung.parity.compare`'s, and gradients are `rung.parity.gradients`'.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from time import perf_counter
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final

from rung.arguments import refusal
from rung.bind import bind
from rung.diagnostics import BindError, did_you_mean, shorten
from rung.load import default_table
from rung.matrix import availability, contexts
from rung.parity.calls import (
    changed,
    converted,
    copied,
    is_call,
    kept_wide,
    lacking,
    named,
    rebuilt,
    result_dtype,
    shared,
    shown,
)
from rung.parity.compare import DTYPES, compare
from rung.parity.gradients import MOST, arguments_of, compare_gradients
from rung.parity.outcome import FAILED, GRADIENT, RESULT, SKIPPED, Outcome, Tally
from rung.platform import live_facts_of
from rung.predicates import YES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rung.entries import Cell, Op
    from rung.facts import Facts
    from rung.parity.calls import Call
    from rung.table import Table

__all__ = [
    "Check",
    "checks",
    "of_cell",
    "outcomes",
    "parity",
]

_PRECISE: Final = ("float64", "float32")
"""In which dtype gradients are compared: the first that the op has a tolerance for and the cell accepts."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison that can be made: a cell's results in a dtype, or its gradients.

    `dtypes` are those in which it is made, the first in which the cell accepts a case. `obstacle` says why the cell
    cannot be compared at all. `case` is the number of the one case that is compared, None for all.
    """

    op: Op
    cell: Cell
    what: str
    dtypes: tuple[str, ...]
    place: str
    roots: frozenset[str]
    seed: int = 0
    case: int | None = None
    obstacle: str = ""

    @property
    def id(self) -> str:
        """The cell's id with the dtype in brackets, or `gradient`."""
        inner = GRADIENT if self.what == GRADIENT else next(iter(self.dtypes), "")
        return f"{self.cell.id}[{inner}]" if inner else self.cell.id

    @property
    def reason(self) -> str:
        """Why this comparison cannot be made, as far as that is known before a case is; "" when it can."""
        if self.obstacle:
            return self.obstacle
        held = [lacking(self.cell.arrays, self.cell.device, dtype) for dtype in self.dtypes]
        return held[0] if all(held) else ""

    def run(self) -> Outcome:
        """Compare, and give the outcome. Raise nothing, whatever a kernel or a reference raises, but an interrupt."""
        start = perf_counter()
        outcome = self._run()
        return replace(outcome, seed=self.seed, what=self.what, seconds=perf_counter() - start)

    def _run(self) -> Outcome:
        cell, op = self.cell, self.op
        if self.obstacle:
            return Outcome(cell.id, op.name, "", SKIPPED, detail=self.obstacle)
        if self.reason:
            return Outcome(cell.id, op.name, self.dtypes[0], SKIPPED, detail=self.reason)
        assert op.cases is not None
        try:
            reference, cases, kernel = (bind(path, self.roots) for path in (op.reference, op.cases, cell.impl))
        except BindError as error:
            return Outcome(cell.id, op.name, "", FAILED, detail=f"broken: {error}")
        outcome: Outcome | None = None
        for dtype in self.dtypes:
            if not lacking(cell.arrays, cell.device, dtype):
                found = self._compare(dtype, reference, cases, kernel)
                outcome = found if outcome is None or found.status != SKIPPED else outcome
                if found.status != SKIPPED:
                    break
        assert outcome is not None
        return outcome

    def _compare(
        self, dtype: str, reference: Callable[..., Any], cases: Callable[..., Any], kernel: Callable[..., Any]
    ) -> Outcome:
        """Compare every case that is to be and can be, and count the others."""
        import numpy as np

        tally = Tally()
        number = -1
        try:
            for number, call in enumerate(cases(dtype, np.random.default_rng(self.seed))):
                if not is_call(call):
                    tally.fail(number, f"the op's cases gave {shorten(repr(call), 40)}, which is no (args, kwargs)")
                elif self.case is None or self.case == number:
                    one = self._gradient if self.what == GRADIENT else self._result
                    try:
                        one(tally, number, call, dtype, reference, kernel)
                    except BaseException as error:
                        tally.fail(number, f"cannot be given to the cell: {_raised(error)}")
                if self.case == number:
                    break
        except BaseException as error:
            tally.fail(number + 1, f"the op's cases raised {_raised(error)}")
        if self.case is not None and number < self.case:
            tally.refuse(f"there is no case {self.case}: the op gives {number + 1} in {dtype}", count=0)
        return tally.outcome(Outcome(self.cell.id, self.op.name, dtype, SKIPPED))

    def _result(
        self,
        tally: Tally,
        number: int,
        call: Call,
        dtype: str,
        reference: Callable[..., Any],
        kernel: Callable[..., Any],
    ) -> None:
        wanted = result_dtype(self.op, call, dtype)
        reason = lacking(self.cell.arrays, self.cell.device, wanted)
        given = converted(self.op, call, self.cell.arrays, self.place, dtype)
        reason = reason or refusal(self.op, self.cell, *given)
        if reason:
            tally.refuse(reason)
            return
        arguments = shown(self.op, given)
        before = copied(self.op, call)
        try:
            expected = reference(*call[0], **call[1])
        except BaseException as error:
            tally.fail(number, f"the reference raised {_raised(error)}", arguments)
            return
        if spoilt := changed(before, named(self.op, call)):
            tally.fail(number, f"the reference changed its argument `{spoilt}`", arguments)
            return
        before = copied(self.op, given)
        try:
            made = kernel(*given[0], **given[1])
        except BaseException as error:
            tally.fail(number, f"raised {_raised(error)}", arguments)
            return
        spoilt = changed(before, named(self.op, given))
        tolerance, cell = self.op.tolerance[dtype], self.cell
        found = compare(made, expected, wanted, tolerance, arrays=cell.arrays, place=self.place)
        if spoilt:
            found = replace(found, fault=f"argument `{spoilt}` was changed", index=None)
        elif view := not found.fault and shared(made, named(self.op, given)):
            if not shared(expected, named(self.op, call)):
                fault = f"the result lies in the memory of argument `{view}`; the reference gives a new array"
                found = replace(found, fault=fault)
        elif found.fault and wanted == dtype and str(getattr(made, "dtype", "")) == "torch.float32":
            found = replace(found, fault=found.fault + _widened(kept_wide(self.op, given, dtype), dtype))
        tally.count(number, found, arguments)

    def _gradient(
        self,
        tally: Tally,
        number: int,
        call: Call,
        dtype: str,
        reference: Callable[..., Any],
        kernel: Callable[..., Any],
    ) -> None:
        names = arguments_of(self.op, call)
        values = named(self.op, call)
        if not 0 < sum(values[name].size for name in names) <= MOST:
            tally.left_out += 1
            return
        if (wanted := result_dtype(self.op, call, dtype)) != dtype:
            tally.refuse(f"the result is {wanted}, and gradients are compared in {dtype}")
            return
        given = converted(self.op, call, self.cell.arrays, self.place, dtype)
        tensors = named(self.op, given)
        leaves = {name: tensors[name].detach().requires_grad_() for name in names}
        given = rebuilt(given, tensors | leaves)
        reason = refusal(self.op, self.cell, *given)
        if reason:
            tally.refuse(reason)
            return
        arguments = shown(self.op, given)
        try:
            import torch

            with torch.enable_grad():
                made = kernel(*given[0], **given[1])
                found = compare_gradients(self.op, call, dtype, made, leaves, reference, (self.seed, number))
        except BaseException as error:
            tally.fail(number, f"raised {_raised(error)}", arguments)
            return
        tally.count(number, found, arguments)


def _widened(names: Sequence[str], dtype: str) -> str:
    """Say why a result may have come out in float32."""
    if not names:
        return ""
    said = " and ".join(f"`{name}`" for name in names)
    return (
        f"; {said} came in float32, for the case has values that {dtype} does not hold: let the op's cases round "
        "them, or name the argument in the op's `dtypes`"
    )


def _raised(error: BaseException) -> str:
    """Say what was raised. What would end the program counts as a fault like any other, but for an interrupt."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    return f"{type(error).__name__}: {error}{_place(error)}"


def _place(error: BaseException) -> str:
    """Say where something was raised: the innermost line of the package that rung called, "" when rung called none."""
    roots = [(frame.f_globals.get("__name__", "").partition(".")[0], frame, line)
             for frame, line in walk_tb(error.__traceback__)]  # fmt: skip
    ours = __name__.partition(".")[0]
    called = next((root for root, _, _ in roots if root != ours), None)
    places = [(frame.f_code.co_filename, line) for root, frame, line in roots if root == called != ours]
    return f" (at {places[-1][0]}:{places[-1][1]})" if places and called is not None else ""


def checks(
    *,
    backend: str | Sequence[str] | None = None,
    op: str | Sequence[str] | None = None,
    cell: str | None = None,
    variant: str | None = None,
    dtype: str | None = None,
    what: str | None = None,
    case: int | None = None,
    seed: int = 0,
    table: Table | None = None,
    facts: Facts | None = None,
) -> Iterator[Check]:
    """Give the comparisons that can be made: for each cell one per dtype the op has a tolerance for, and the gradients.

    They are those of the named backends, ops, variant, dtype and of `result` or `gradient`, and of cells whose id is
    `cell` or matches it as a glob. Cells that are not usable here are among them, with the obstacle. The order is the
    table's. Raise UnknownOp, and KeyError for a backend, a cell, a variant or a dtype that there is not.
    """
    table = table or default_table()
    facts = facts or live_facts_of(table)
    backends, ops = _listed(backend), _listed(op)
    for name in ops or ():
        table.op(name)
    for name in backends or ():
        _known("backend", name, table.backends)
    _known("dtype", dtype, DTYPES)
    wanted = [
        entry
        for name, cells in table.kernels.items()
        for entry in (cells if ops is None or name in ops else ())
        if not entry.is_reference and (backends is None or entry.backend in backends)
    ]
    _known("variant", variant, dict.fromkeys(entry.variant for entry in wanted))
    wanted = [entry for entry in wanted if variant in (None, entry.variant)]
    if cell is not None:
        ids = {entry.id for entry in wanted}
        wanted = [entry for entry in wanted if entry.id == cell or fnmatchcase(entry.id, cell)]
        if not wanted:
            raise KeyError(f"no cell is called `{cell}`: {did_you_mean(cell, ids)}")
    here = {name: contexts(table, facts, name) for name in dict.fromkeys(entry.device for entry in wanted)}
    for entry in wanted:
        verdict = availability(entry, here[entry.device])
        obstacle = "" if verdict.answer == YES else verdict.reason
        yield from of_cell(
            table.ops[entry.serves], entry, table, obstacle=obstacle, dtype=dtype, what=what, case=case, seed=seed
        )


def of_cell(
    op: Op,
    cell: Cell,
    table: Table,
    *,
    obstacle: str = "",
    dtype: str | None = None,
    what: str | None = None,
    case: int | None = None,
    seed: int = 0,
) -> Iterator[Check]:
    """Give the comparisons that can be made of one cell, which need not be in the table."""
    if op.cases is None:
        obstacle = "the op declares no cases"
    elif not op.tolerance:
        obstacle = "the op declares no tolerance"
    whole = Check(op, cell, RESULT, (), table.devices[cell.device].torch, table.roots, seed, case, obstacle)
    if op.cases is None or not op.tolerance:
        yield whole
        return
    for name in op.tolerance if what in (None, RESULT) else ():
        if dtype in (None, name):
            yield replace(whole, dtypes=(name,))
    precise = tuple(name for name in _PRECISE if name in op.tolerance and dtype in (None, name))
    if what in (None, GRADIENT) and op.differentiable and cell.arrays == "torch" and precise:
        yield replace(whole, what=GRADIENT, dtypes=precise)


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return (names,) if isinstance(names, str) else tuple(names) if names else None


def _known(kind: str, name: str | None, legal: Iterable[str]) -> None:
    if name is not None and name not in legal:
        raise KeyError(f"unknown {kind} `{name}`: {did_you_mean(name, legal)}")


def outcomes(made: Iterable[Check], watch: Callable[[int, Check], None] | None = None) -> Iterator[Outcome]:
    """Run comparisons, and say what is true of a cell in every dtype once.

    `watch` is called before each with the number of those before it.
    """
    whole: set[str] = set()
    for number, check in enumerate(made):
        if watch is not None:
            watch(number, check)
        if check.cell.id not in whole:
            outcome = check.run()
            if not outcome.dtype:
                whole.add(check.cell.id)
            yield outcome


def parity(
    *,
    backend: str | Sequence[str] | None = None,
    op: str | Sequence[str] | None = None,
    cell: str | None = None,
    variant: str | None = None,
    dtype: str | None = None,
    what: str | None = None,
    case: int | None = None,
    seed: int = 0,
    table: Table | None = None,
    facts: Facts | None = None,
) -> Iterator[Outcome]:
    """Compare cells with their references: all, or those that `checks` gives for the same arguments.

    Cells that are not usable here are skipped with the reason, and so are dtypes in which a cell accepts no case.
    Raise as `checks` does.
    """
    return outcomes(
        checks(
            backend=backend, op=op, cell=cell, variant=variant, dtype=dtype, what=what, case=case, seed=seed,
            table=table, facts=facts,
        )
    )  # fmt: skip
