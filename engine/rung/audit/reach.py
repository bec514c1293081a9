"""Rules RG402, RG403 and RG406: cells that nobody reaches, and platforms that reach no cell.

Owns the three questions and their wording. What is certain of ladders is for `rung.audit.ladders`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, islice, product
from typing import TYPE_CHECKING, Final

from rung import lattice
from rung.audit.ladders import FIT_STEPS, EnoughJudged, Ladders
from rung.diagnostics import Problem, UnknownArch, shorten
from rung.entries import GENERIC
from rung.facts import Facts
from rung.predicates import NO
from rung.source import MAX_FINDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rung.audit.conditions import Term
    from rung.audit.ladders import Offer, Rung, Way
    from rung.audit.scene import Scene
    from rung.diagnostics import Where
    from rung.entries import Device
    from rung.manifest import CellEntry, Entry
    from rung.models import PlatformModel

__all__ = ["RULES", "reach"]

_CPU: Final = "cpu"
_RELATED: Final = 3
"""Places beside that of a finding."""

Offered = dict[str, "dict[Offer, CellEntry]"]
"""What is offered for an op, by device, each with a cell that offers it."""
Row = tuple[str, str, str, int]
Spot = tuple[str, int]
"""A variant, "" for the one that is judged, and an index among its rungs."""


def reach(scene: Scene) -> Iterator[Problem]:
    """Give what RG406, RG402 and RG403 find. They look at the same ladders, which are built once."""
    rules: tuple[Callable[[Ladders], Iterator[Problem]], ...] = (rg406, rg402, rg403)
    try:
        ladders = Ladders(scene)
        for rule in rules:
            yield from islice(rule(ladders), MAX_FINDINGS)
    except EnoughJudged:
        return


def rg406(ladders: Ladders) -> Iterator[Problem]:
    """A platform, not a CPU, on which an op reaches only the reference: one finding for each op."""
    scene = ladders.scene
    machines = [made for entry in scene.whole.platforms.values() if (made := _machine(ladders, entry)) is not None]
    offered: dict[str, Offered] = {}
    for (section, serves, device, _), variants in ladders.groups.items():
        if section == "kernels":
            offers = offered.setdefault(serves, {}).setdefault(device, {})
            offers.update((offer, cell) for cell, offer in chain.from_iterable(variants.values()))
    for op in scene.whole.ops.values():
        offers_of_op = offered.get(op.name, {})
        lacking = [machine for machine in machines if not machine.reaches(offers_of_op)]
        if lacking and scene.is_settled(op.name) and scene.is_sound(op.document, op.loc):
            yield _hole(op.name, op.where, lacking, offers_of_op)


def _hole(op: str, where: Where, lacking: Sequence[_Machine], offered: Offered) -> Problem:
    names = [machine.entry.name for machine in lacking]
    lead = f"`{shorten(op, 24)}`: only the reference serves on "
    devices = _several(dict.fromkeys(machine.entry.model.device for machine in lacking), 60)
    hint = f"in a backend's `kernels`, add a cell for {devices} whose conditions can hold there"
    hint += f"; all of them: {', '.join(names)}" if len(names) > 1 else ""
    first = lacking[0]
    related = [(first.entry.where, f"`{first.entry.name}` is declared"), *first.passed(offered)]
    return Problem("RG406", where, lead + _several(names, 79 - len(lead)), hint, related=tuple(related))


@dataclass(frozen=True, slots=True)
class _Machine:
    """A declared platform: its devices as a caller there falls along them, each with the archs it may have."""

    ladders: Ladders
    entry: Entry[PlatformModel]
    devices: tuple[tuple[Device, tuple[str, ...]], ...]
    facts: Facts
    fails: dict[tuple[Term, str, str], bool] = field(default_factory=dict)

    def reaches(self, offered: Offered) -> bool:
        """Say whether some cell may serve here. One that RG402 reports was meant to, and is reported there."""
        for device, archs in self.devices:
            for offer in offered.get(device.name, ()):
                self.ladders.spend(1)
                if not offer.order or any(arch in offer.order and self._may_hold(offer, arch) for arch in archs):
                    return True
        return False

    def _may_hold(self, offer: Offer, arch: str) -> bool:
        device = offer.code.device
        for term in offer.condition.terms:
            key = (term, device.name, arch)
            if key not in self.fails:
                self.ladders.spend(FIT_STEPS)
                self.fails[key] = self.ladders.conditions.judge(term, self.facts, device, arch).answer == NO
            if self.fails[key]:
                return False
        return True

    def passed(self, offered: Offered) -> Iterator[tuple[Where, str]]:
        """Give the places of some cells for these devices, and why each does not serve here."""
        cells = (
            (cell.where, f"`{shorten(cell.id, 80)}` does not serve there: {self._why(offer, archs[0])}")
            for device, archs in self.devices
            for offer, cell in offered.get(device.name, {}).items()
        )
        return islice(cells, _RELATED)

    def _why(self, offer: Offer, arch: str) -> str:
        code, conditions = offer.code, self.ladders.conditions
        fit = lattice.fit(code.device, code.target or GENERIC, code.artifact, arch, code.exclude)
        if not fit.runs:
            return fit.why
        verdicts = [conditions.judge(term, self.facts, code.device, arch) for term in offer.condition.terms]
        return min(verdict.reason for verdict in verdicts if verdict.answer == NO)


def _machine(ladders: Ladders, entry: Entry[PlatformModel]) -> _Machine | None:
    """Give what is known of a platform; None for a CPU, and where it or one of its devices has a fault of its own."""
    scene, model = ladders.scene, entry.model
    if model.device == _CPU or not scene.is_sound(entry.document, entry.loc):
        return None
    records = scene.whole.device_records
    line: dict[str, tuple[str, ...]] = {}
    name: str | None = model.device
    while name is not None and name not in line:
        device = scene.whole.devices.get(name)
        if device is None or not scene.is_sound(device.document, device.loc):
            return None
        written = model.arch if name == model.device else model.cpu if name == _CPU else GENERIC
        try:
            line[name] = (lattice.read_arch(records[name], written),) if written else ladders.archs(records[name])
        except UnknownArch:
            return None
        name = records[name].falls_back_to
    cards: dict[str, list[dict[str, str]]] = {name: [] for name in records}
    cards[model.device] = [{"arch": line[model.device][0]}]
    if model.cpu:
        cards[_CPU] = [{"arch": model.cpu}]
    else:
        cards.pop(_CPU, None)
    known = {"os": model.os, "machine": model.machine, "devices": cards}
    facts = Facts({key: value for key, value in known.items() if value is not None}, origin=f"platform `{entry.name}`")
    return _Machine(ladders, entry, tuple((records[name], archs) for name, archs in line.items()), facts)


def rg402(ladders: Ladders) -> Iterator[Problem]:
    """A cell that no request reaches on any arch: one finding for each row."""
    found: dict[Row, list[Rung]] = {}
    some_run_nowhere = any(not offer.order for offer in ladders.offers.values())
    for (section, serves, _, _), variants in ladders.groups.items():
        for variant, rungs in variants.items():
            backends = {way.only for way in ladders.ways(section, serves, variant)}
            if None in backends and not some_run_nowhere:
                continue
            for cell, offer in rungs:
                if not offer.order or backends.isdisjoint((None, offer.backend)):
                    found.setdefault(_row(cell), []).append((cell, offer))
    for row in found.values():
        yield _unreachable(ladders, row)


def _unreachable(ladders: Ladders, row: list[Rung]) -> Problem:
    """Say why nobody reaches the first of a row's cells, and of how many more that is true."""
    (cell, offer), code = row[0], row[0][1].code
    where = cell.where
    related: tuple[tuple[Where, str], ...] = ()
    name = f"`{shorten(code.target or cell.device, 24)}`"
    if offer.order:
        message = f"no request for `{shorten(cell.serves, 20)}` tries its variant `{shorten(cell.variant, 20)}`"
        hint = f"put `{cell.variant}` in a chain, or remove the cell"
    elif code.order:
        best = next(iter(code.order))
        reasons = (ladders.obstacle(term, code.device, best) for term in offer.condition.terms)
        why = min(filter(None, reasons))
        hint = f"{name} is offered on {_several(code.order, 60)}; on {best}: {why}"
        if ladders.offer(code, ladders.conditions.of(cell.backend.file.requires, None)).order:
            where = cell.backend.at(cell.section, cell.serves, cell.index, "when")
            message = f"`when` fails on every arch on which {name} is offered"
        else:
            related = ((cell.backend.at("requires"), "`requires` is for every cell of its file"),)
            message = f"`requires` fails on every arch on which {name} is offered"
    elif code.exclude and code.target is not None:
        where = cell.backend.at(cell.section, cell.serves, cell.index, "exclude")
        message = f"`exclude` leaves no arch that runs {name}"
        runs = ladders.order(code.device, code.target, code.artifact)
        hint = f"without it {_several(runs, 60)} would: take one out of `exclude`, or remove the cell"
    else:
        message = f"no arch of `{shorten(cell.device, 20)}` runs {name} as `{code.artifact}`"
        hint = "choose another `artifact` or `arch`"
    return Problem("RG402", where, message, _of_row(hint, [cell for cell, _ in row]), cell.id, related)


def rg403(ladders: Ladders) -> Iterator[Problem]:
    """A cell before which another serves wherever it could: one finding for each row."""
    found: dict[Row, list[tuple[CellEntry, list[Rung]]]] = {}
    known: dict[tuple[object, ...], list[tuple[int, list[Spot]]]] = {}
    for (section, serves, _, _), variants in ladders.groups.items():
        for variant, own in variants.items():
            ways = ladders.ways(section, serves, variant)
            # Variants that offer the same are judged once, unless others come into it.
            others = [variants.get(name, ()) for way in ways for name in way.before]
            key = (ways, *[offer for _, offer in own])
            hidden = known.get(key) if not others else None
            if hidden is None:
                hidden = known[key] = [*_shadowed(ladders, own, variants, ways)]
            for index, spots in hidden:
                cell = own[index][0]
                first = [variants[name or variant][place] for name, place in spots]
                found.setdefault(_row(cell), []).append((cell, first))
    for row in found.values():
        yield _hidden(row)


def _shadowed(
    ladders: Ladders, own: Sequence[Rung], variants: Mapping[str, Sequence[Rung]], ways: Iterable[Way]
) -> Iterator[tuple[int, list[Spot]]]:
    """Give the rungs of a variant that are never chosen, by index, each with all that come first somewhere."""
    for index, (_, offer) in enumerate(own):
        spots: dict[Spot, None] = {}
        for way, arch in product([way for way in ways if way.only in (None, offer.backend)], offer.order):
            asked, place = offer.asked_on(arch), offer.order[arch]
            # Those that come first elsewhere are tried first, so that as few as possible are named.
            for name, at in chain(spots, _spots(ladders, own, variants, way)):
                other = (variants[name] if name else own)[at][1]
                its_place = other.order.get(arch)
                if (
                    its_place is not None
                    and (name in way.before or (not name and its_place < place))
                    and way.only in (None, other.backend)
                    and other.asked_on(arch) <= asked
                ):
                    break
            else:
                break
            spots[name, at] = None
        else:
            if spots:
                yield index, [*spots]


def _spots(ladders: Ladders, own: Sequence[Rung], variants: Mapping[str, Sequence[Rung]], way: Way) -> Iterator[Spot]:
    """Give every rung of the variants before and of the one that is judged."""
    for name in (*way.before, ""):
        rungs = variants.get(name, ()) if name else own
        ladders.spend(len(rungs))
        yield from ((name, index) for index in range(len(rungs)))


def _hidden(row: list[tuple[CellEntry, list[Rung]]]) -> Problem:
    """Say what comes before the first of a row's cells, and of how many more that is true."""
    cell, others = row[0]
    (first, offer), more = others[0], len(others) - 1
    message = f"never chosen: `{shorten(first.id, 44)}` always comes first"
    if more:
        message = f"never chosen: `{shorten(first.id)}` and {more} more come first"
    what = "asks nothing that this cell does not ask" if offer.condition.terms else "has no condition"
    hint = f"`{first.id}` {what}: give it a condition that can fail here, or remove this cell"
    if first.variant != cell.variant:
        hint += f", or put `{cell.variant}` before `{first.variant}` in the chain"
    related = tuple((other.where, f"`{shorten(other.id, 80)}`") for other, _ in others[:_RELATED])
    return Problem("RG403", cell.where, message, _of_row(hint, [hidden for hidden, _ in row]), cell.id, related)


def _row(cell: CellEntry) -> Row:
    return cell.section, cell.serves, cell.backend.name, cell.index


def _of_row(hint: str, cells: Sequence[CellEntry]) -> str:
    """Say which of a row's cells a hint is about, where the row stands for several."""
    cell, model = cells[0], cells[0].model
    if len(model.device) == len(model.variant) == len(getattr(model, "arch", ("",))) == 1:
        return hint
    more = f" and {len(cells) - 1} more of its row" if len(cells) > 1 else ""
    return f"{hint} (this is about `{shorten(cell.id, 80)}`{more})"


def _several(names: Iterable[str], room: int) -> str:
    """List names, as many as there is room for and the first always."""
    listed = [f"`{shorten(name, 20)}`" for name in names]
    for count in range(len(listed), 1, -1):
        rest = f" and {len(listed) - count} more" if count < len(listed) else ""
        text = ", ".join(listed[:count]) + rest
        if len(text) <= room:
            return text
    return listed[0] + (f" and {len(listed) - 1} more" if len(listed) > 1 else "")


RULES = (reach,)
