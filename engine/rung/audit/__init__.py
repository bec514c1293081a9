"""What `rung check` finds beyond what loading demands: cells nobody reaches, holes, bindings, hygiene.

Owns which audits run, on what, and which findings a comment may silence. `rung.rules` is what a manifest must fulfil to
be loaded at all; an audit judges manifests that may well load, may look at files beside them, and runs in `check`
only. Imports no backend code: `rung.audit.imports` does, in a child process, when it is asked to.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rung.audit import bindings, hygiene, imports, predicates, reach
from rung.audit.ignores import apply_ignores
from rung.manifest import collector_paused
from rung.source import MAX_FINDINGS

if TYPE_CHECKING:
    from rung.audit.scene import Scene

__all__ = ["RULES", "audit"]

RULES = (*reach.RULES, *bindings.RULES, *imports.RULES, *predicates.RULES, *hygiene.RULES)


@collector_paused()
def audit(scene: Scene) -> None:
    """Run every audit on merged and checked manifests and add what is found to their problems.

    Comments that silence a finding are applied last, so that one which silences nothing is known.
    """
    problems = scene.whole.problems
    found = [problem for rule in RULES for problem in islice(rule(scene), MAX_FINDINGS)]
    problems.found.extend(filter(scene.is_asked_about, found))
    apply_ignores(scene)
