"""What `rung check` finds beyond what loading demands: cells nobody reaches, holes, bindings, hygiene.

Owns which audits run, on what, and which findings a comment may silence. `rung.rules` is what a manifest must fulfil to
be loaded at all; an audit judges manifests that may well load, may look at files beside them, and runs in `check`
only. Imports no backend code: `rung.audit.imports` does, in a child process, when it is asked to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rung.audit import bindings, hygiene, imports, predicates, reach
from rung.manifest import collector_paused
from rung.rules import limited
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
    problems, ignores = scene.whole.problems, scene.ignores
    capped: set[str] = set()
    for rule in RULES:
        found = limited(rule(scene))
        capped.update(problem.code for problem in found[MAX_FINDINGS:] and found)
        problems.found.extend(filter(scene.is_asked_about, found))
    problems.found = [problem for problem in problems.found if not ignores.silences(problem.where, problem.code)]
    useless = limited(ignores.useless(lambda document, code: code not in capped and scene.would_tell(document, code)))
    problems.found.extend(filter(scene.is_asked_about, useless))
