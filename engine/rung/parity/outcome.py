"""What came of comparing a cell with its reference, and how to do it again.

Owns the words for it, and how the outcomes of cases become one.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rung.parity.compare import Comparison
from rung.parity.gradients import MOST

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FAILED", "GRADIENT", "PASSED", "RESULT", "SKIPPED", "WHAT", "Outcome", "Tally", "again"]

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
RESULT, GRADIENT = "result", "gradient"
WHAT: Final = (RESULT, GRADIENT)
"""What of a kernel is compared."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comparing one cell in one dtype gave.

    `dtype` is "" for what is true of a cell in every dtype. `cases` were compared; `not_accepted` are those that the
    cell does not accept or its arrays cannot hold, and `left_out` those whose gradients take too long to differentiate.
    `worst` and `ulp` are the largest difference seen, and the largest in units in the last place. Where it failed,
    `failures` counts the cases that did, `case` is the number of the first one, from 0 for this `seed`, `arguments`
    are what the kernel was given there, `index` is the place of the worst element, and `detail` says what is wrong.
    """

    cell: str
    op: str
    dtype: str
    status: str
    cases: int = 0
    worst: float = 0.0
    detail: str = ""
    what: str = RESULT
    ulp: float = 0.0
    not_accepted: int = 0
    left_out: int = 0
    failures: int = 0
    case: int | None = None
    seed: int = 0
    arguments: str = ""
    index: tuple[int, ...] | None = None
    seconds: float = 0.0

    @property
    def label(self) -> str:
        """What was compared: a dtype, and whether it was the gradient."""
        return self.dtype if self.what == RESULT else f"{self.dtype} {self.what}".strip()

    @property
    def of(self) -> int:
        """How many cases there were."""
        return self.cases + self.not_accepted + self.left_out


class Tally:
    """What comparing case after case has given so far."""

    def __init__(self) -> None:
        self.cases = self.not_accepted = self.left_out = self.failures = self.elements = 0
        self.difference = self.ulp = 0.0
        self.reason = self.fault = self.arguments = ""
        self.case: int | None = None
        self.index: tuple[int, ...] | None = None

    def refuse(self, reason: str, count: int = 1) -> None:
        """Count a case that the cell does not accept."""
        self.not_accepted += count
        self.reason = self.reason or reason

    def fail(self, number: int, fault: str, arguments: str = "") -> None:
        """Count a case that could not be compared, through no merit of the kernel."""
        self.count(number, Comparison(fault=fault), arguments)

    def count(self, number: int, found: Comparison, arguments: str) -> None:
        """Count a case that was compared, and remember the first that failed."""
        self.cases += 1
        self.difference, self.ulp = max(self.difference, found.difference), max(self.ulp, found.ulp)
        self.elements += found.elements
        self.failures += bool(found.fault)
        if found.fault and self.case is None:
            self.case, self.fault, self.arguments, self.index = number, found.fault, arguments, found.index

    def outcome(self, about: Outcome) -> Outcome:
        """Give the outcome of all cases."""
        status, detail = PASSED, f"{self.not_accepted} not accepted: {self.reason}" if self.not_accepted else ""
        if self.failures:
            status, detail = FAILED, f"case {self.case}: {self.fault}"
            if self.cases > 1:
                detail += f" ({self.failures} of {self.cases} cases failed)"
        elif not self.cases:
            status, detail = SKIPPED, self.reason
            if self.not_accepted:
                detail = f"accepts none of {self.not_accepted} cases: {self.reason}"
            elif self.left_out:
                detail = f"every case has none or more than {MOST} elements to differentiate"
            detail = detail or "the op gives no case for this dtype"
        elif not self.elements:
            status, detail = SKIPPED, f"what was compared is empty: no result has an element; {detail}".rstrip("; ")
        return replace(
            about, status=status, cases=self.cases, worst=self.difference, detail=detail, ulp=self.ulp,
            not_accepted=self.not_accepted, left_out=self.left_out, failures=self.failures, case=self.case,
            arguments=self.arguments, index=self.index,
        )  # fmt: skip


def again(outcome: Outcome, more: Sequence[str] = ()) -> str:
    """Give the command that repeats the case that failed; `more` are flags that say where its manifests are."""
    words = ["rung", "parity", *more, "--cell", outcome.cell]
    words += ["--dtype", outcome.dtype, "--what", outcome.what] if outcome.dtype else []
    words += ["--case", str(outcome.case)] if outcome.case is not None else []
    return shlex.join([*words, *(["--seed", str(outcome.seed)] if outcome.seed else [])])
