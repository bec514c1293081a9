"""Cross-entry checks over the merged manifests: one function per rule code, grouped as the codes are.

Owns which rules run. A rule reads `Manifests` and yields problems; it changes nothing and imports no backend.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rung.manifest import collector_paused
from rung.rules import predicates, references, safety, table, values
from rung.source import MAX_FINDINGS

if TYPE_CHECKING:
    from rung.manifest import Manifests

__all__ = ["RULES", "check"]

RULES = (*references.RULES, *table.RULES, *predicates.RULES, *values.RULES, *safety.RULES)


@collector_paused()
def check(whole: Manifests) -> None:
    """Run every rule and add what it finds, up to a limit for each rule, to the whole's problems."""
    for rule in RULES:
        whole.problems.found.extend(islice(rule(whole), MAX_FINDINGS))
