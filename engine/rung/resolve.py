"""The walk: from a request on a platform to the cell that serves it, with the trace kept.

Owns the order of rungs, the verdict on each, and what counts as a fall. `kernels`, `resolve`, `explain` and
`build_component` are all this one walk; they differ in whether it may bind.

Note [One ladder for everybody]: a second implementation of the order, for explaining or for listing, would one
day disagree with the first. So the walk itself records why it passed each rung over, and everything that talks
about a resolution reads that record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from rung import lattice
from rung.bind import FAILURES
from rung.diagnostics import BindError, Where, did_you_mean, printable
from rung.entries import AXES, DEFAULT, GENERIC, REFERENCE, Cell
from rung.facts import Unknown
from rung.predicates import NO, UNKNOWN, YES, Scope, Verdict, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rung.entries import Profile
    from rung.facts import Facts
    from rung.table import Table

__all__ = [
    "BROKEN",
    "NOT_TRIED",
    "Context",
    "Fall",
    "Forbidden",
    "Resolution",
    "Rung",
    "factory_cell",
    "walk",
]

BROKEN: Final = "broken"
NOT_TRIED: Final = "not tried"
_CPU: Final = "cpu"


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """What a walk is done for: the platform's choices, its facts and its policy.

    `disabled` are cell globs that only narrow. `settled` are predicates answered by hand.
    """

    table: Table
    device: str
    arch: str
    arrays: str
    facts: Facts
    profile: Profile
    disabled: tuple[str, ...] = ()
    settled: Mapping[str, str] = field(default_factory=dict)
    _archs: dict[str, str] = field(default_factory=dict)
    _verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)

    @property
    def device_chain(self) -> tuple[str, ...]:
        """The platform's device and what it falls back to."""
        return self.table.chain(self.device)

    def arch_of(self, device: str) -> str:
        """Give the arch code must run on there: a fallback device's own, from the facts, else `generic`."""
        if device == self.device:
            return self.arch
        known = self._archs.get(device)
        if known is None:
            known = self._archs.setdefault(device, own_arch(self.table, device, self.facts)[0])
        return known

    def judge(self, cell: Cell) -> Verdict:
        """Say whether a cell's conditions hold here; the first that is not a yes decides."""
        for glob in self.disabled:
            if fnmatchcase(cell.id, glob):
                return Verdict(NO, f"disabled by RUNG_DISABLE={glob}")
        unknown: Verdict | None = None
        last = Verdict(YES, "no condition")
        for name in cell.needs:
            last = self.verdict(name, cell.device)
            if last.answer == NO:
                return last
            if last.answer == UNKNOWN and unknown is None:
                unknown = last
        return unknown or last

    def verdict(self, name: str, device: str) -> Verdict:
        """Answer one predicate for one device, once per platform."""
        key = (name, device)
        known = self._verdicts.get(key)
        if known is None:
            scope = Scope(
                self.facts,
                self.table.devices[device],
                self.arch_of(device),
                self.table.predicates,
                self.table.devices,
                self.settled,
            )
            if name in self.settled:
                known = Verdict(self.settled[name], f"{name} was set to {self.settled[name]} by hand")
            else:
                known = evaluate(self.table.predicates[name], scope)
            known = self._verdicts.setdefault(key, known)
        return known


def own_arch(table: Table, device: str, facts: Facts) -> tuple[str, str]:
    """Give the arch of a device's first card, or `generic` with the reason nothing closer can be said.

    Cards that differ in arch have no common answer: only a card known to be the runtime's first decides.
    """
    cards = facts.devices(device)
    if isinstance(cards, Unknown):
        return GENERIC, cards.why
    if not cards:
        return GENERIC, f"no {device} device was found"
    first = next((card for card in cards if card.index == 0), None)
    if first is None and len({card.arch for card in cards}) > 1:
        shown = ", ".join(f"{card.name or card.uuid or '?'} ({card.arch})" for card in cards)
        note = f" ({cards[0].note})" if cards[0].note else ""
        return GENERIC, f"the {device} cards differ in arch and which comes first is not known: {shown}{note}"
    card = first or cards[0]
    try:
        return lattice.read_arch(table.device(device), card.arch), ""
    except KeyError as error:
        return GENERIC, str(error)


@dataclass(frozen=True, slots=True)
class Rung:
    """One candidate of a ladder: the cell, the verdict on it, and the reason in words."""

    cell: Cell
    verdict: str
    reason: str
    bridged: bool = False

    @property
    def where(self) -> str:
        """The place of the cell in its manifest, as `file:line`."""
        return str(self.cell.where) if self.cell.where.path else ""


@dataclass(frozen=True, slots=True)
class Fall:
    """One way in which the outcome is not the closest rung: the axis, the profile's level for it, and why."""

    axis: str
    level: str
    reason: str
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A cell that is no rung here, because its code does not run on this arch or its arrays cannot cross."""

    cell: Cell
    reason: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome of a walk. `cell` is None when the profile refuses the fall (`refused`) or nothing serves.

    `rungs` are all candidates in order, `falls` what the outcome falls on, `forbidden` the cells of the same
    name that cannot run here at all. `str()` gives the ladder for a person.
    """

    request: str
    variant: str
    component: bool
    device: str
    arch: str
    arrays: str
    profile: str
    cell: Cell | None
    rungs: tuple[Rung, ...]
    falls: tuple[Fall, ...]
    refused: Fall | None = None
    forbidden: tuple[Forbidden, ...] = ()
    suggestion: str = ""

    @property
    def chosen(self) -> Rung | None:
        """The rung that serves."""
        return next((r for r in self.rungs if r.verdict == YES), None) if self.cell is not None else None

    @property
    def bridged(self) -> bool:
        """Whether arguments cross to another device or array library."""
        return self.chosen is not None and self.chosen.bridged

    def as_dict(self) -> dict[str, object]:
        """Give the JSON form, `format_version` 1."""
        return {
            "format_version": 1,
            "kind" if self.component else "op": self.request,
            "variant": self.variant,
            "platform": {
                "device": self.device, "arch": self.arch, "arrays": self.arrays, "profile": self.profile,
            },
            "chosen": self.cell.id if self.cell is not None else None,
            "rungs": [
                {"cell": r.cell.id, "verdict": r.verdict, "reason": r.reason, "where": r.where, "bridged": r.bridged}
                for r in self.rungs
            ],
            "falls": [{"axis": f.axis, "level": f.level, "reason": f.reason, "cell": f.cell} for f in self.falls],
            "refused": self.refused.axis if self.refused is not None else None,
            "not_offered": [
                {"cell": f.cell.id, "reason": f.reason, "where": str(f.cell.where)} for f in self.forbidden
            ],
        }  # fmt: skip

    def summary(self) -> str:
        """Give one line: what serves, and what it fell past."""
        asked = self.request + (f" ({self.variant})" if self.variant != DEFAULT else "")
        place = f"{self.device}.{self.arch} with {self.arrays} arrays"
        if self.cell is None:
            return f"{asked} on {place}: nothing serves"
        return f"{asked} on {place}: {self.cell.id}" + (" (bridged)" if self.bridged else "")

    def __str__(self) -> str:
        lines = [f"{self.summary()}, profile {self.profile}"]
        marks = {YES: "->", NO: "no", UNKNOWN: "? ", BROKEN: "!!", NOT_TRIED: "  "}
        words = {UNKNOWN: "could not tell: ", BROKEN: "broken: ", NOT_TRIED: "not tried: "}
        for rung in self.rungs:
            mark = marks[rung.verdict] if rung.verdict != YES or self.cell is rung.cell else "xx"
            bridged = " [bridged]" if rung.bridged else ""
            lines.append(f"  {mark} {rung.cell.id}{bridged}")
            where = f"  ({rung.where})" if rung.where else ""
            lines.append(f"       {words.get(rung.verdict, '')}{printable(rung.reason)}{where}")
            if rung.cell.degraded:
                lines.append(f"       degraded: {printable(rung.cell.degraded)}")
            if rung.verdict in (NO, BROKEN) and rung.cell.hint:
                lines.append(f"       hint: {printable(rung.cell.hint)}")
        lines += [f"  fall on {fall.axis} ({fall.level}): {printable(fall.reason)}" for fall in self.falls]
        if self.refused is not None:
            lines.append(f"  refused: profile {self.profile} makes a fall on {self.refused.axis} an error")
        if all(rung.cell.is_reference for rung in self.rungs):
            lines.append("  nothing else matches: no other cell is for this device and these arrays")
        if self.suggestion:
            lines.append(f"  {self.suggestion}")
        if self.forbidden:
            lines.append("  not offered here:")
            lines += [f"       {f.cell.id}: {printable(f.reason)}  ({f.cell.where})" for f in self.forbidden]
        return "\n".join(lines)


def factory_cell(kind: str) -> Cell:
    """Give the cell that stands for `spec.factory`, the last rung of every component ladder."""
    return Cell(
        id=f"factory/{kind}@any#{DEFAULT}",
        backend=REFERENCE,
        serves=kind,
        device="",
        arch=None,
        variant=DEFAULT,
        arrays="",
        impl="",
        artifact=None,
        where=Where("", 0, 0),
    )


def chain_of(context: Context, request: str, variant: str) -> tuple[str, ...]:
    """Give the variants to try: the profile's chain, else the op's, else the variant and then the default's."""
    declared = dict(context.table.ops[request].variants) if request in context.table.ops else {}
    declared.update(context.profile.chains.get(request, {}))
    default = declared.get(DEFAULT, (DEFAULT,))
    if variant == DEFAULT:
        return default
    return declared.get(variant) or (variant, *(v for v in default if v != variant))


def _ladder(context: Context, cells: tuple[Cell, ...], chain: tuple[str, ...]) -> Iterator[tuple[Cell, bool]]:
    """Give the rungs in order, each with whether it is bridged: the order of DESIGN, outermost first."""
    for device in context.device_chain:
        here = [c for c in cells if c.device == device and not c.is_reference]
        arch = context.arch_of(device)
        record = context.table.devices[device]
        for arrays in (context.arrays, None):
            group = [c for c in here if (c.arrays == arrays if arrays else c.arrays != context.arrays)]
            for variant in chain:
                fits: list[tuple[tuple[int, ...], Cell]] = []
                for cell in group:
                    if cell.variant != variant:
                        continue
                    if cell.arch is None:
                        if cell.arrays == context.arrays:  # nothing can bridge weights
                            fits.append(((0,), cell))
                        continue
                    assert cell.artifact is not None
                    answer = lattice.fit(record, cell.arch, cell.artifact, arch, cell.exclude)
                    if answer.runs:
                        fits.append((answer.closeness, cell))
                for _, cell in sorted(fits, key=lambda pair: (pair[0], pair[1].id)):
                    yield cell, device != context.device or cell.arrays != context.arrays
            # The reference closes the group it belongs to: it has no condition, so nothing lies below it.
            closing = (arrays or _other(context.arrays)) == "numpy" and device == _CPU
            if closing:
                yield from _references(context, cells)
                return
    yield from _references(context, cells)


def _other(arrays: str) -> str:
    return "numpy" if arrays != "numpy" else "torch"


def _references(context: Context, cells: tuple[Cell, ...]) -> Iterator[tuple[Cell, bool]]:
    for cell in cells:
        if cell.is_reference:
            crosses = cell.arch is not None and (context.device != cell.device or context.arrays != cell.arrays)
            yield cell, crosses


def _forbidden(context: Context, cells: tuple[Cell, ...], offered: set[str]) -> Iterator[Forbidden]:
    """Give the cells on the platform's devices that are no rungs, and why not."""
    for cell in cells:
        if cell.id in offered or cell.device not in context.device_chain or cell.is_reference:
            continue
        if cell.arch is None:
            if cell.arrays != context.arrays:
                yield Forbidden(cell, f"it builds for {cell.arrays} arrays, and weights cannot be bridged")
            continue
        assert cell.artifact is not None
        arch = context.arch_of(cell.device)
        answer = lattice.fit(context.table.devices[cell.device], cell.arch, cell.artifact, arch, cell.exclude)
        if not answer.runs:
            yield Forbidden(cell, answer.why)


def walk(
    context: Context,
    request: str,
    variant: str = DEFAULT,
    *,
    component: bool = False,
    required: bool = False,
    bind: Callable[[Cell], Any] | None = None,
) -> tuple[Resolution, Any]:
    """Resolve a request and give the resolution with the bound object (None without `bind`).

    `bind` turns a cell into an object or raises BindError, which makes the rung broken. `required` keeps
    the cells of exactly the requested variant (for `default`, of its chain). Never raises for a fall: a fall
    the profile forbids ends the walk with `refused` set.
    """
    table = context.table
    if component:
        table.kind(request)
        cells: tuple[Cell, ...] = (*table.components[request], factory_cell(request))
    else:
        table.op(request)
        cells = table.kernels[request]
    chain = chain_of(context, request, variant)
    if required and variant != DEFAULT:
        chain = (variant,)
        cells = tuple(c for c in cells if c.variant == variant and not c.is_reference)
    ladder = list(_ladder(context, cells, chain))
    if context.profile.only is not None:
        only = context.profile.only
        ladder = [(c, bridged) for c, bridged in ladder if c.backend == only]
    rungs: list[Rung] = []
    falls: list[Fall] = []
    level = context.profile.fall
    chosen: Rung | None = None
    refused: Fall | None = None
    bound: Any = None
    for cell, bridged in ladder:
        if chosen is not None or refused is not None:
            rungs.append(
                Rung(cell, NOT_TRIED, "an earlier rung serves" if chosen else "the walk ended before", bridged)
            )
            continue
        verdict = context.judge(cell)
        rung = Rung(cell, verdict.answer, verdict.reason, bridged)
        if rung.verdict == YES:
            cause = _failure(cell) if bind is None else ""
            if bind is not None:
                try:
                    bound = bind(cell)
                except BindError as error:
                    cause = str(error)
            if cause:
                rung = replace(rung, verdict=BROKEN, reason=cause)
        rungs.append(rung)
        if rung.verdict in (UNKNOWN, BROKEN):
            words = "could not be judged" if rung.verdict == UNKNOWN else "could not be bound"
            fall = Fall(rung.verdict, level[rung.verdict], f"{cell.id} {words}: {rung.reason}", cell.id)
            falls.append(fall)
            refused = fall if fall.level == "error" else None
        elif rung.verdict == YES:
            made = list(_falls(context, variant, rung, rungs, ladder))
            falls += made
            refused = next((f for f in made if f.level == "error"), None)
            chosen = rung if refused is None else None
    outcome = Resolution(
        request=request,
        variant=variant,
        component=component,
        device=context.device,
        arch=context.arch,
        arrays=context.arrays,
        profile=context.profile.name,
        cell=chosen.cell if chosen is not None else None,
        rungs=tuple(rungs),
        falls=tuple(sorted(falls, key=lambda f: AXES.index(f.axis))),
        refused=refused,
        forbidden=tuple(_forbidden(context, cells, {cell.id for cell, _ in ladder})),
        suggestion=_suggestion(table, request, variant, component=component),
    )
    return outcome, bound if chosen is not None else None


def _failure(cell: Cell) -> str:
    return FAILURES.get(cell.impl, "") if cell.impl else ""


def _suggestion(table: Table, request: str, variant: str, *, component: bool) -> str:
    """Give a hint when no manifest knows the requested variant."""
    cells = (table.components if component else table.kernels)[request]
    declared = table.ops[request].variants if not component else {}
    known = {c.variant for c in cells} | set(declared) | {DEFAULT}
    return "" if variant in known else f"no variant `{variant}` of {request}: {did_you_mean(variant, known)}"


def _falls(
    context: Context, variant: str, chosen: Rung, rungs: list[Rung], ladder: list[tuple[Cell, bool]]
) -> Iterator[Fall]:
    """Give what choosing this rung falls on, besides the rungs already found unknown or broken."""
    cell = chosen.cell
    level = context.profile.fall
    passed = [r for r in rungs if r is not chosen]

    def fall(axis: str, reason: str) -> Fall:
        return Fall(axis, level[axis], reason, cell.id)

    if cell.device and cell.device != context.device:
        yield fall("device", f"{cell.id} runs on {cell.device}, not on {context.device}")
    same = [
        r for r in passed if (r.cell.device, r.cell.arrays, r.cell.variant) == (cell.device, cell.arrays, cell.variant)
    ]
    if same and cell.arch is not None and not cell.is_reference:
        yield fall("arch", f"closer than {cell.id}: {same[0].cell.id}: {same[0].reason}")
    if variant not in (DEFAULT, cell.variant):
        known = _suggestion(context.table, cell.serves, variant, component=cell.arch is None)
        yield fall("variant", known or f"`{variant}` was asked for and `{cell.variant}` serves")
    if chosen.bridged:
        what = f"{context.device} {context.arrays} arrays cross to {cell.device} {cell.arrays} and back on each call"
        yield fall("arrays", what)
    if cell.degraded:
        yield fall("degraded", cell.degraded)
    if cell.is_reference and len(ladder) > 1:
        plain_cpu = context.device == _CPU and context.arrays == "numpy"
        if not plain_cpu or any(r.verdict != NO for r in passed):
            yield fall("reference", f"the {'factory' if cell.arch is None else 'numpy reference'} serves")
