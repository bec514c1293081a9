"""The support matrix as rows: every cell, with whether it is available here and why.

Owns availability, which unlike a walk asks of every cell whether any card of this machine could run it. Imports no
implementation.
"""

from __future__ import annotations

from rung import lattice
from rung.entries import DEFAULT, GENERIC, Cell
from rung.facts import Unknown
from rung.load import default_table, disabled_globs
from rung.platform import live_facts_of
from rung.predicates import NO, UNKNOWN, YES, Verdict
from rung.resolve import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rung.facts import Facts
    from rung.table import Table

__all__ = ["availability", "component_matrix", "contexts", "kernel_matrix"]


def contexts(table: Table, facts: Facts, device: str) -> list[Context] | Verdict:
    """Give a context per distinct arch of a device's cards, or a verdict when there is no such card."""
    archs = [GENERIC]
    if table.devices[device].detect is not None:
        cards = facts.devices(device)
        if isinstance(cards, Unknown):
            return Verdict(UNKNOWN, cards.why)
        if not cards:
            return Verdict(NO, f"no {device} device was found")
        archs = []
        for card in cards:
            try:
                archs.append(lattice.read_arch(table.devices[device], card.arch))
            except KeyError:
                archs.append(GENERIC)
    else:
        archs = [*table.devices[device].archs, GENERIC]
    profile, globs = table.profile(DEFAULT), disabled_globs(table, facts)
    return [Context(table, device, arch, "numpy", facts, profile, globs) for arch in dict.fromkeys(archs)]


def availability(cell: Cell, here: list[Context] | Verdict) -> Verdict:
    """Say whether a cell could serve on some card, given its device's contexts."""
    if cell.is_reference:
        return Verdict(YES, "the reference has no condition")
    if isinstance(here, Verdict):
        return here
    best = Verdict(NO, "")
    for context in here:
        if cell.arch is not None:
            assert cell.artifact is not None
            record = context.table.devices[cell.device]
            answer = lattice.fit(record, cell.arch, cell.artifact, context.arch, cell.exclude)
            if not answer.runs:
                best = best if best.reason else Verdict(NO, answer.why)
                continue
        verdict = context.judge(cell)
        if verdict.answer == YES and context.obstacle(cell):
            verdict = Verdict(NO, f"broken: {context.obstacle(cell)}")
        if verdict.answer == YES:
            return verdict
        best = verdict if best.answer == NO else best
    return best


def _rows(cells: Iterable[Cell], table: Table, facts: Facts) -> list[dict[str, Any]]:
    here: dict[str, list[Context] | Verdict] = {}
    rows: list[dict[str, Any]] = []
    for cell in cells:
        if cell.device not in here and cell.device in table.devices:
            here[cell.device] = contexts(table, facts, cell.device)
        verdict = availability(cell, here.get(cell.device, Verdict(NO, "no such device")))
        place = {"op": cell.serves, "device": cell.device, "arch": cell.arch}
        if cell.arch is None:
            place = {"kind": cell.serves, "device": cell.device}
        row: dict[str, Any] = {
            **place,
            "variant": cell.variant,
            "backend": cell.backend,
            "arrays": cell.arrays,
            "cell": cell.id,
            "impl": cell.impl,
        }
        if cell.arch is not None:
            row["artifact"] = cell.artifact
            row["accepts"] = [str(condition) for condition in cell.accepts]
        rows.append({**row, "available": verdict.answer, "reason": verdict.reason, "where": str(cell.where)})
    return rows


def kernel_matrix(table: Table | None = None, facts: Facts | None = None) -> list[dict[str, Any]]:
    """Give a row per kernel cell, the unavailable ones too, sorted by op and cell id."""
    table = table or default_table()
    facts = facts or live_facts_of(table)
    return _rows((cell for cells in table.kernels.values() for cell in cells), table, facts)


def component_matrix(table: Table | None = None, facts: Facts | None = None) -> list[dict[str, Any]]:
    """Give a row per component cell, the unavailable ones too, sorted by kind and cell id."""
    table = table or default_table()
    facts = facts or live_facts_of(table)
    return _rows((cell for cells in table.components.values() for cell in cells), table, facts)
