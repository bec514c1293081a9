"""Cross-entry checks over the merged manifests: one function per rule code, grouped as the codes are.

Owns which rules run. A rule reads `Manifests` and yields problems; it changes nothing and imports no backend.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rung.diagnostics import Problem
from rung.manifest import collector_paused
from rung.rules import arguments, predicates, references, safety, table, values
from rung.source import MAX_FINDINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rung.manifest import Manifests

__all__ = ["RULES", "check", "limited"]

RULES = (*references.RULES, *arguments.RULES, *table.RULES, *predicates.RULES, *values.RULES, *safety.RULES)


def limited(findings: Iterable[Problem]) -> list[Problem]:
    """Take findings of one rule up to a limit, and say that there are more with one of RG004."""
    found = list(islice(findings, MAX_FINDINGS + 1))
    if len(found) > MAX_FINDINGS:
        last = found.pop()
        message = f"more than {MAX_FINDINGS} findings of one rule, the last of them {last.code}"
        found.append(Problem("RG004", last.where, message, "repair these first: the rest of them is not reported"))
    return found


@collector_paused()
def check(whole: Manifests) -> None:
    """Run every rule and add what it finds, up to a limit for each rule, to the whole's problems."""
    for rule in RULES:
        whole.problems.found.extend(limited(rule(whole)))
