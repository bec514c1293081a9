"""The walk: from a request on a platform to the cell that serves it, with the trace kept.

Owns the order of rungs, the verdict on each, and what counts as a fall. `kernels`, `resolve`, `explain` and
`build_component` are all this one walk; they differ in whether it may bind.

Note [One ladder for everybody]: a second implementation of the order, for explaining or for listing, would one
day disagree with the first. So the walk itself records why it passed each rung over, and everything that talks
about a resolution reads that record.
"""

from __future__ import annotations

from itertools import product

from rung import lattice
from rung.bind import is_installed, root_of
from rung.diagnostics import BindError, UnknownArch, Where, did_you_mean, printable
from rung.entries import ARRAYS, AXES, DEFAULT, GENERIC, REFERENCE, Cell, Expression
from rung.facts import Unknown
from rung.predicates import NO, UNKNOWN, YES, Scope, Verdict, evaluate
from rung.records import field, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Final

    from rung.entries import Profile
    from rung.facts import DeviceFact, Facts
    from rung.table import Table

__all__ = [
    "BROKEN",
    "NOT_TRIED",
    "Context",
    "Fall",
    "NotOffered",
    "Resolution",
    "Rung",
    "crosses",
    "factory_cell",
    "walk",
]

BROKEN: Final = "broken"
NOT_TRIED: Final = "not tried"
_CPU: Final = "cpu"
_DISABLED: Final = "disabled by RUNG_DISABLE="
_UNFIT: Final = "does not accept the call: "


@record
class Context:
    """What a walk is done for: the platform's choices, its facts and its policy.

    `disabled` are cell globs that only narrow, `settled` predicates answered by hand, `card` the one card meant.
    """

    table: Table
    device: str
    arch: str
    arrays: str
    facts: Facts
    profile: Profile
    disabled: tuple[str, ...] = ()
    settled: Mapping[str, str] = field(default_factory=dict)
    card: DeviceFact | None = None
    _archs: dict[str, str] = field(default_factory=dict)
    _verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def under(self, profile: Profile) -> Context:
        """Give this context under another policy."""
        return replace(self, profile=profile)

    def settle(self, settled: Mapping[str, str]) -> Context:
        """Give this context with some predicates answered by hand, on which others may depend."""
        return replace(self, settled=settled, _verdicts={})

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
        """Say whether a cell's conditions hold here: a no among them decides, else what could not be told.

        The last rung has no condition, so nothing disables it.
        """
        if cell.is_reference:
            return Verdict(YES, "no condition")
        if self.disabled:
            from fnmatch import fnmatchcase

            for glob in self.disabled:
                if fnmatchcase(cell.id, glob):
                    return Verdict(NO, _DISABLED + glob)
        unknown: Verdict | None = None
        last = Verdict(YES, "no condition")
        for name in cell.needs:
            last = self.verdict(name, cell.device)
            if last.answer == NO:
                return last
            if last.answer == UNKNOWN and unknown is None:
                unknown = last
        return unknown or last

    def obstacle(self, cell: Cell) -> str:
        """Give what is known to keep a cell from binding in this process, without trying; "" for nothing.

        Facts recorded elsewhere say nothing of this process, and it nothing of them.
        """
        if not self.facts.live or not cell.impl:
            return ""
        if not is_installed(cell.impl):
            return f"package `{root_of(cell.impl)}` is not installed"
        return self.table.failures.get(cell.impl, "")

    def verdict(self, name: str, device: str) -> Verdict:
        """Answer one predicate for one device, once per platform."""
        key = (name, device)
        known = self._verdicts.get(key)
        if known is None:
            table = self.table
            scope = Scope(self.facts, table.devices[device], self.arch_of(device), table.predicates, self.settled)
            known = evaluate(Expression("use", args=(("name", name),)), scope)
            why = table.predicates[name].why
            if known.answer != YES and why:
                known = Verdict(known.answer, f"{known.reason} (needed: {why})")
            known = self._verdicts.setdefault(key, known)
        return known


def own_arch(table: Table, device: str, facts: Facts, cards: tuple[DeviceFact, ...] | None = None) -> tuple[str, str]:
    """Give the arch of a device's first card, or `generic` with the reason nothing closer can be said.

    Cards that differ in arch have no common answer: only a card known to be the runtime's first decides.
    `cards` are those to choose from, by default all.
    """
    if cards is None:
        found = facts.devices(device)
        if isinstance(found, Unknown):
            return GENERIC, found.why
        cards = found
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
    except UnknownArch as error:
        return GENERIC, str(error)


@record
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

    @property
    def hint(self) -> str:
        """What to do about a rung that was passed over; "" for one that is there, disabled or not fit for a call."""
        missing = self.verdict in (NO, UNKNOWN, BROKEN) and not self.reason.startswith((_DISABLED, _UNFIT))
        return self.cell.hint if missing else ""


@record
class Fall:
    """One way in which the outcome is not the closest rung: the axis, the profile's level for it, and why."""

    axis: str
    level: str
    reason: str
    cell: str = ""


@record
class NotOffered:
    """A cell that is no rung here, because its code does not run on this arch or its arrays cannot cross."""

    cell: Cell
    reason: str


@record
class Resolution:
    """The outcome of a walk. `cell` is None when the profile refuses the fall (`refused`) or nothing serves.

    `rungs` are all candidates in order, `falls` what the outcome falls on, `not_offered` the cells that were asked
    for and cannot run here at all. `only` is the one backend the profile allows. `live` are the rungs among which the
    arguments of a call choose: more than one where the first does not take every call, and then `cell` and `falls` are
    those of the first. `str()` gives the ladder for a person.
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
    live: tuple[Rung, ...] = ()
    refused: Fall | None = None
    not_offered: tuple[NotOffered, ...] = ()
    suggestion: str = ""
    only: str = ""

    @property
    def chosen(self) -> Rung | None:
        """The rung that serves."""
        return next((r for r in self.rungs if r.cell is self.cell), None)

    @property
    def passed(self) -> tuple[Rung, ...]:
        """The rungs that were tried and do not serve."""
        return tuple(r for r in self.rungs if r.verdict in (NO, UNKNOWN, BROKEN))

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
            "live": [r.cell.id for r in self.live],
            "rungs": [
                {"cell": r.cell.id, "verdict": r.verdict, "reason": r.reason, "where": r.where, "bridged": r.bridged}
                for r in self.rungs
            ],
            "falls": [{"axis": f.axis, "level": f.level, "reason": f.reason, "cell": f.cell} for f in self.falls],
            "refused": self.refused.axis if self.refused is not None else None,
            "not_offered": [
                {"cell": f.cell.id, "reason": f.reason, "where": str(f.cell.where)} for f in self.not_offered
            ],
        }  # fmt: skip

    def summary(self) -> str:
        """Give one line: what serves, and what it fell past."""
        asked = self.request + (f" ({self.variant})" if self.variant != DEFAULT else "")
        place = f"{self.device}.{self.arch} with {self.arrays} arrays"
        if self.cell is None:
            return f"{asked} on {place}: {'refused' if self.refused is not None else 'nothing serves'}"
        more = len(self.live) - 1
        rest = f", and {more} more for other arguments" if more > 0 else ""
        return f"{asked} on {place}: {self.cell.id}" + (" (bridged)" if self.bridged else "") + rest

    def __str__(self) -> str:
        lines = [f"{self.summary()}, profile {self.profile}"]
        marks = {YES: "->", NO: "no", UNKNOWN: "? ", BROKEN: "!!", NOT_TRIED: "  "}
        words = {UNKNOWN: "could not tell: ", BROKEN: "broken: ", NOT_TRIED: "not tried: "}
        for rung in self.rungs:
            mark = marks[rung.verdict] if rung.verdict != YES or rung in self.live else "xx"
            bridged = " [bridged]" if rung.bridged else ""
            lines.append(f"  {mark} {rung.cell.id}{bridged}")
            where = f"  ({rung.where})" if rung.where else ""
            lines.append(f"       {words.get(rung.verdict, '')}{printable(rung.reason)}{where}")
            if rung.cell.accepts and rung in self.live:
                lines.append(f"       accepts {printable('; '.join(map(str, rung.cell.accepts)))}")
            if rung.cell.degraded:
                lines.append(f"       degraded: {printable(rung.cell.degraded)}")
            if rung.hint:
                lines.append(f"       hint: {printable(rung.hint)}")
        lines += [f"  fall on {fall.axis} ({fall.level}): {printable(fall.reason)}" for fall in self.falls]
        if self.refused is not None:
            lines.append(f"  refused: profile {self.profile} makes a fall on {self.refused.axis} an error")
        if self.only:
            lines.append(f"  profile {self.profile} takes cells of backend `{self.only}` only")
        elif all(rung.cell.is_reference for rung in self.rungs):
            why = "those that match do not run" if self.not_offered else "no other cell is for this device and variant"
            lines.append(f"  nothing else matches: {why} here")
        if self.suggestion:
            lines.append(f"  {self.suggestion}")
        if self.not_offered:
            lines.append("  not offered here:")
            lines += [f"       {f.cell.id}: {printable(f.reason)}  ({f.cell.where})" for f in self.not_offered]
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


def _chains(context: Context, request: str, *, component: bool) -> dict[str, tuple[str, ...]]:
    """Give the declared chains of a request by variant: the profile's in place of the op's."""
    declared = {} if component else context.table.ops[request].variants
    return {**declared, **context.profile.chains.get(request, {})}


def _chain(chains: Mapping[str, tuple[str, ...]], variant: str) -> tuple[str, ...]:
    """Give the variants to try: the declared chain, else the variant and then what the default would try."""
    return chains.get(variant) or tuple(dict.fromkeys((variant, *chains.get(DEFAULT, (DEFAULT,)))))


def _ladder(context: Context, cells: tuple[Cell, ...], chain: tuple[str, ...]) -> Iterator[tuple[Cell, bool]]:
    """Give the rungs in order, outermost first, each with whether it is bridged."""
    libraries = sorted(ARRAYS, key=lambda arrays: arrays != context.arrays)
    for device, arrays in product(context.device_chain, libraries):
        here = [c for c in cells if (c.device, c.arrays) == (device, arrays) and not c.is_reference]
        for variant in chain:
            fits = [(_fit(context, cell), cell) for cell in here if cell.variant == variant]
            # Of one op and variant a target has one cell, so what is equally close differs in the target's name.
            fits.sort(key=lambda pair: (pair[0].closeness, pair[1].arch or ""))
            yield from ((cell, crosses(context, cell)) for fit, cell in fits if fit.runs)
        # The reference closes the group it belongs to: it has no condition, so nothing lies below it.
        if (device, arrays) == (_CPU, "numpy"):
            break
    yield from ((cell, crosses(context, cell)) for cell in cells if cell.is_reference)


def _fit(context: Context, cell: Cell) -> lattice.Fit:
    """Say whether a cell can be a rung at all: its code runs on the arch, or its weights suit the caller's arrays."""
    if cell.arch is None:
        runs = cell.arrays == context.arrays
        return lattice.Fit(runs, "" if runs else f"it builds for {cell.arrays} arrays, and weights cannot be bridged")
    assert cell.artifact is not None
    record, arch = context.table.devices[cell.device], context.arch_of(cell.device)
    return lattice.fit(record, cell.arch, cell.artifact, arch, cell.exclude)


def crosses(context: Context, cell: Cell) -> bool:
    """Say whether calls cross to another device or library. A component's weights never do."""
    return cell.arch is not None and (cell.device, cell.arrays) != (context.device, context.arrays)


def _not_offered(context: Context, cells: tuple[Cell, ...], chain: tuple[str, ...]) -> Iterator[NotOffered]:
    """Give the cells of the chain on the platform's devices that are no rungs, and why not."""
    for cell in cells:
        if cell.variant in chain and cell.device in context.device_chain and not cell.is_reference:
            answer = _fit(context, cell)
            if not answer.runs:
                yield NotOffered(cell, answer.why)


def walk(
    context: Context,
    request: str,
    variant: str = DEFAULT,
    *,
    component: bool = False,
    required: bool = False,
    bind: Callable[[Cell], Any] | None = None,
    eager: bool = True,
    arguments: Mapping[str, Any] | None = None,
) -> tuple[Resolution, Any]:
    """Resolve a request and give the resolution with the bound object (None without `bind`).

    `bind` turns a cell into an object or raises BindError, which makes the rung broken. `required` keeps
    the cells of exactly the requested variant (for `default`, of its chain). Never raises for a fall: a fall
    the profile forbids ends the walk with `refused` set.

    `arguments` are those of a call by name: rungs that do not accept them are passed over. A rung whose conditions on
    arguments cannot be judged is live, and the walk goes on to the first that takes every call. Where a call decides,
    nothing is bound unless `eager`, but for the first rung of a variant that was asked for by name: who names one means
    to call it, and binding may take long.
    """
    table = context.table
    if component:
        table.kind(request)
        cells: tuple[Cell, ...] = (*table.components[request], factory_cell(request))
    else:
        table.op(request)
        cells = table.kernels[request]
    chains = _chains(context, request, component=component)
    known = {*chains, *(cell.variant for cell in cells), DEFAULT}
    suggestion = "" if variant in known else f"no variant `{variant}` of {request}: {did_you_mean(variant, known)}"
    chain = _chain(chains, variant)
    if required and variant != DEFAULT:
        chain = (variant,)
        cells = tuple(c for c in cells if c.variant == variant and not c.is_reference)
    only = context.profile.only
    ladder = [(cell, bridged) for cell, bridged in _ladder(context, cells, chain) if only in (None, cell.backend)]
    rungs: list[Rung] = []
    falls: list[Fall] = []
    live: list[Rung] = []
    is_settled = False
    refused: Fall | None = None
    bound: Any = None
    for cell, bridged in ladder:
        if is_settled or refused is not None:
            reason = "an earlier rung serves" if is_settled else "the walk ended before"
            rungs.append(Rung(cell, NOT_TRIED, reason, bridged))
            continue
        verdict = context.judge(cell)
        rung = Rung(cell, verdict.answer, verdict.reason, bridged)
        is_open = False
        if rung.verdict == YES and cell.accepts:
            is_open, why = _judge_arguments(cell, arguments)
            if why:
                rung = replace(rung, verdict=NO, reason=_UNFIT + why)
        if rung.verdict == YES:
            is_named = variant != DEFAULT and arguments is None
            is_bound = eager or not (live or (is_open and not is_named))
            cause = context.obstacle(cell) if bind is None or not is_installed(cell.impl) else ""
            if bind is not None and is_bound and not cause:
                try:
                    made = bind(cell)
                    bound = bound if live else made
                    table.failures.pop(cell.impl, None)
                except BindError as error:
                    cause = str(error)
                    table.failures[cell.impl] = cause
            if cause:
                rung = replace(rung, verdict=BROKEN, reason=cause)
        if live:
            met = []  # what a call may fall on beyond the first rung that may serve is said when it does
        elif rung.verdict == YES:
            met = list(_falls(context, variant, rung, rungs, more=len(ladder) > 1, unknown_variant=suggestion))
        elif rung.verdict == NO:
            met = []
        else:
            words = "could not be judged" if rung.verdict == UNKNOWN else "could not be bound"
            met = [
                Fall(rung.verdict, _level(context, rung), f"{cell.id} ({rung.where}) {words}: {rung.reason}", cell.id)
            ]
        rungs.append(rung)
        falls += met
        refused = next((fall for fall in met if fall.level == "error"), None)
        if rung.verdict == YES and refused is None:
            live.append(rung)
            is_settled = not is_open
    outcome = Resolution(
        request=request,
        variant=variant,
        component=component,
        device=context.device,
        arch=context.arch,
        arrays=context.arrays,
        profile=context.profile.name,
        cell=live[0].cell if live else None,
        rungs=tuple(rungs),
        falls=tuple(sorted(falls, key=lambda f: AXES.index(f.axis))),
        live=tuple(live),
        refused=refused,
        not_offered=tuple(_not_offered(context, cells, chain)),
        suggestion=suggestion,
        only=only or "",
    )
    return outcome, bound if live else None


def _judge_arguments(cell: Cell, arguments: Mapping[str, Any] | None) -> tuple[bool, str]:
    """Say whether a call still decides about a cell, and why these arguments, where they are known, do not fit it."""
    if arguments is None:
        return True, ""
    from rung.arguments import unfit

    is_open = False
    for condition in cell.accepts:
        why = unfit(condition, arguments)
        if why:
            return False, why
        is_open = is_open or why is None
    return is_open, ""


def _level(context: Context, rung: Rung) -> str:
    """Give the profile's level for a rung that is unknown or broken.

    On this machine nothing is unknown unless something failed, and a failure is never only noted.
    """
    level = context.profile.fall[rung.verdict]
    return "warn" if level == "note" and rung.verdict == UNKNOWN and context.facts.live else level


def _falls(
    context: Context, variant: str, chosen: Rung, passed: list[Rung], *, more: bool, unknown_variant: str
) -> Iterator[Fall]:
    """Give what choosing this rung falls on, besides the passed rungs that were unknown or broken.

    `more` says whether the ladder has another rung at all.
    """
    cell = chosen.cell
    level = context.profile.fall

    def fall(axis: str, reason: str) -> Fall:
        return Fall(axis, level[axis], reason, cell.id)

    if cell.device not in ("", context.device):
        yield fall("device", f"{cell.id} runs on {cell.device}, not on {context.device}")
    group = (cell.device, cell.arrays, cell.variant)
    closer = [r for r in passed if (r.cell.device, r.cell.arrays, r.cell.variant) == group and cell.arch is not None]
    if closer:
        yield fall("arch", f"closer than {cell.id}: {closer[0].cell.id}: {closer[0].reason}")
    if variant not in (DEFAULT, cell.variant):
        yield fall("variant", unknown_variant or f"`{variant}` was asked for and `{cell.variant}` serves")
    if chosen.bridged:
        here, there = f"{context.device} {context.arrays}", f"{cell.device} {cell.arrays}"
        both_numpy = context.arrays == cell.arrays == "numpy"  # in host memory, whatever the device is called
        how = f"serve on {cell.device} as they are" if both_numpy else f"cross to {there} and back on each call"
        yield fall("arrays", f"{here} arrays {how}")
    if cell.degraded:
        yield fall("degraded", cell.degraded)
    plain_cpu = (context.device, context.arrays) == (_CPU, "numpy")
    nothing_else = all(r.verdict == NO and not r.reason.startswith(_UNFIT) for r in passed)
    if cell.is_reference and more and not (plain_cpu and nothing_else):
        yield fall("reference", f"the {'factory' if cell.arch is None else 'numpy reference'} serves")
