"""What a failed comparison says in a test's report.

Owns its lines. Nothing of pytest is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rung.diagnostics import printable
from rung.parity import again

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rung.parity import Outcome

__all__ = ["report"]


def report(outcome: Outcome, more: Sequence[str] = (), place: str = "") -> str:
    """Give the lines for an outcome that failed; `more` are flags that name its manifests, `place` is its own."""
    about = f"{outcome.cell} {outcome.label}".rstrip()
    lines = [outcome.detail, f"  cell: {about}" + (f", declared at {place}" if place else "")]
    if outcome.arguments:
        lines.append(f"  arguments: {outcome.arguments}")
    if not outcome.cell.startswith("local/"):
        lines.append(f"  again: {again(outcome, more)}")
    return "\n".join(map(printable, lines))
