"""Rules RG402, RG403 and RG406: cells that nobody reaches, and platforms that reach no cell.

Owns the three questions and their wording. What is certain of ladders is for `rung.audit.ladders`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, islice, product
from math import prod
from typing import TYPE_CHECKING, Final

from rung import lattice
from rung.audit.ladders import FIT_STEPS, EnoughJudged, Ladders
from rung.audit.uses import Bindings
from rung.diagnostics import Problem, UnknownArch, closest, shorten
from rung.entries import GENERIC
from rung.facts import Facts
from rung.models import KernelModel, ManifestFile
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
    from rung.models import OpModel, PlatformModel

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
    holes: list[tuple[Entry[OpModel], list[_Machine]]] = []
    for op in scene.whole.ops.values():
        offers_of_op = offered.get(op.name, {})
        lacking = [machine for machine in machines if not machine.reaches(offers_of_op)]
        if lacking and scene.is_settled(op.name) and scene.is_sound(op.document, op.loc):
            holes.append((op, lacking))
    meant = _meant(scene, {op.name for op, _ in holes if op.name not in offered}) if holes else set()
    for op, lacking in holes:
        if op.name not in meant:
            yield _hole(op.name, op.where, lacking, offered.get(op.name, {}))


def _meant(scene: Scene, bare: set[str]) -> set[str]:
    """Give the ops that rows under a name nobody declares may be for; `bare` are those without any cell.

    A name like no other is taken for the one op that has no cell, where there is only one.
    """
    ops, kinds = scene.whole.names("ops"), scene.whole.names("kinds")
    names = frozenset(ops | kinds)
    out: set[str] = set()
    for name in islice(_misplaced(scene, ops, kinds), MAX_FINDINGS):
        found = name if name in ops else closest(name, names)
        out |= {found} if found is not None else bare if len(bare) == 1 else set()
    return out


def _misplaced(scene: Scene, ops: set[str], kinds: set[str]) -> Iterator[str]:
    """Give what rows are said to serve where it is none of its section, or the section has no such name."""
    legal = {"kernels": ops | kinds, "components": kinds}
    for document in scene.whole.documents:
        for section, rows in document.data.items() if isinstance(document.data, dict) else ():
            if isinstance(rows, dict) and (section in legal or section not in ManifestFile.model_fields):
                yield from (name for name in rows if name not in legal.get(section, ()))


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
            line[name] = (ladders.read_arch(records[name], written),) if written else ladders.archs(records[name])
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
    share = _Share.of(ladders, [cell for cell, _ in row])
    where, key = share.where, ""
    related: tuple[tuple[Where, str], ...] = ()
    name = f"`{shorten(code.target or cell.device, 24)}`"
    if offer.order:
        message = f"no request for `{shorten(cell.serves, 20)}` tries its variant `{shorten(cell.variant, 20)}`"
        hint = f"put `{cell.variant}` in a chain, or {share.removal}"
    elif code.order:
        best = next(iter(code.order))
        reasons = (ladders.obstacle(term, code.device, best) for term in offer.condition.terms)
        why = min(filter(None, reasons))
        hint = f"{name} is offered on {_several(code.order, 60)}; on {best}: {why}; correct that, or {share.removal}"
        if ladders.offer(code, ladders.conditions.of(cell.backend.file.requires, None)).order:
            key = "when"
            message = f"`when` fails on every arch on which {name} is offered"
        else:
            related = ((cell.backend.at("requires"), "`requires` is for every cell of its file"),)
            message = f"`requires` fails on every arch on which {name} is offered"
    elif code.exclude and code.target is not None:
        key = "exclude"
        message = f"`exclude` leaves no arch that runs {name}"
        runs = ladders.order(code.device, code.target, code.artifact)
        hint = f"without it {_several(runs, 60)} would: take one out of `exclude`, or {share.removal}"
    else:
        message = f"no arch of `{shorten(cell.device, 20)}` runs {name} as `{code.artifact}`"
        hint = "choose another `artifact` or `arch`"
    if key:
        place = cell.backend.at(cell.section, cell.serves, cell.index, key)
        if share.is_whole:
            where = place
        else:
            related = ((place, f"`{key}` is for every cell of its row"),)
    return Problem("RG402", where, message, hint + share.remark, cell.id, related)


def rg403(ladders: Ladders) -> Iterator[Problem]:
    """A cell before which another serves wherever it could: one finding for each row.

    A cell that cannot be bound hides none, for those behind it serve instead; it has a finding of its own.
    """
    found: dict[Row, list[tuple[CellEntry, list[Rung]]]] = {}
    known: dict[tuple[object, ...], list[tuple[int, list[Spot]]]] = {}
    unbound = Bindings.of(ladders.scene).unbound
    for (section, serves, _, _), rungs in ladders.groups.items():
        variants: Mapping[str, Sequence[Rung]] = rungs
        if unbound:
            variants = {name: [rung for rung in those if _id(rung) not in unbound] for name, those in rungs.items()}
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
        yield _hidden(ladders, row)


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


def _hidden(ladders: Ladders, row: list[tuple[CellEntry, list[Rung]]]) -> Problem:
    """Say what comes before the first of a row's cells, and of which others that is true."""
    cell, others = row[0]
    (first, offer), more = others[0], len(others) - 1
    share = _Share.of(ladders, [hidden for hidden, _ in row])
    if share.is_whole:
        message = f"never chosen while `{shorten(first.id, 44)}` can be bound"
        if more:
            message = f"never chosen while `{shorten(first.id, 40)}` and {more} more can be bound"
    else:
        alike = [hidden for hidden, those in row if _row(those[0][0]) == _row(first)]
        lead = f"{_several(dict.fromkeys(map(share.label, alike)), 24)} never chosen while `"
        end = f"` and {more} more bind" if more else "` binds"
        message = lead + shorten(first.id, 79 - len(lead) - len(end)) + end
    what = "asks nothing that this cell does not ask" if offer.condition.terms else "has no condition"
    hint = f"`{first.id}` {what}: give it a condition that can fail here, or {share.removal}"
    if first.variant != cell.variant:
        hint += f", or put `{cell.variant}` before `{first.variant}` in the chain"
    related = tuple((other.where, f"`{shorten(other.id, 80)}`") for other, _ in others[:_RELATED])
    return Problem("RG403", share.where, message, hint + share.remark, cell.id, related)


def _id(rung: Rung) -> tuple[str, str, str, str]:
    """Name what a cell binds as `Bindings.unbound` does."""
    cell = rung[0]
    return cell.section, cell.serves, cell.backend.name, cell.model.impl


def _row(cell: CellEntry) -> Row:
    return cell.section, cell.serves, cell.backend.name, cell.index


@dataclass(frozen=True, slots=True)
class _Share:
    """The cells of one row that a finding is about: all of the row, or some.

    `axis` is the list of the row that has what they have in common and no other cell of the row has, "" where it takes
    more than one list to tell them apart. `position` is the place of the first cell's own item in such a list.
    """

    cells: list[CellEntry]
    size: int
    axis: str
    position: tuple[str, int] | None

    @classmethod
    def of(cls, ladders: Ladders, cells: list[CellEntry]) -> _Share:
        """Compare cells of a row with the row."""
        model, target = cells[0].model, ladders.scene.whole.target
        axes = {"device": model.device, "variant": model.variant}
        if isinstance(model, KernelModel):
            axes = {"arch": [target(cells[0].device, arch) for arch in model.arch], **axes}
        size = prod(map(len, axes.values()))
        if len(cells) >= size:
            return cls(cells, size, "", None)
        used = {axis: {getattr(cell, axis) for cell in cells} for axis in axes}
        partial = [axis for axis, listed in axes.items() if len(used[axis]) < len(listed)]
        shared = len(cells) * len(axes[partial[0]]) == len(used[partial[0]]) * size if partial else False
        axis = partial[0] if shared else ""
        several = (name for name, listed in axes.items() if len(listed) > 1)
        pointed = partial[0] if partial else next(several)
        own = getattr(cells[0], pointed)
        return cls(cells, size, axis, (pointed, axes[pointed].index(own) if own in axes[pointed] else 0))

    @property
    def is_whole(self) -> bool:
        """Whether they are all that the row stands for."""
        return self.position is None

    @property
    def where(self) -> Where:
        """The place of the row, or of the item of its list that the first cell comes from."""
        cell = self.cells[0]
        return cell.backend.at(cell.section, cell.serves, cell.index, *(self.position or ()))

    def label(self, cell: CellEntry) -> str:
        """Name a cell among those of its row: by its item of the list where that is enough."""
        return str(getattr(cell, self.axis)) if self.axis else cell.id.partition("@")[2]

    @property
    def removal(self) -> str:
        """How to be rid of them, and of no others."""
        if self.is_whole:
            return "remove this row" if self.size > 1 else "remove this cell"
        labels = _several(dict.fromkeys(map(self.label, self.cells)), 60)
        return f"take {labels} out of this row" + (f"'s `{self.axis}`" if self.axis else ", which takes two rows")

    @property
    def remark(self) -> str:
        """What a hint about the first of them adds where there are more."""
        more = f" and {len(self.cells) - 1} more of its row" if len(self.cells) > 1 else ""
        return f" (this is about `{shorten(self.cells[0].id, 80)}`{more})" if self.size > 1 else ""


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
