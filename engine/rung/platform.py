"""`Platform`: the chosen device, arch, arrays and facts, and the kernels that serve on it.

Owns detection, the cache of bound kernels and what is said about falls. The order of rungs is `rung.resolve`'s.

Note [Publish, then speak]: no lock is held while a module is imported or a probe runs, for either may call back
into rung or take long. Each thread makes its own answer; the first one published is what every thread gets, and
only the thread that published logs or warns.
"""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from rung import lattice, probes
from rung.bind import bind
from rung.bridge import TORCH_DEVICES, bridge
from rung.diagnostics import (
    FallbackWarning,
    FallError,
    ForeignFactsError,
    UnknownDevice,
    printable,
)
from rung.entries import DEFAULT, GENERIC, Cell
from rung.facts import Facts, Unknown
from rung.load import default_table, warn_idle_globs, warn_unknown_variables
from rung.resolve import Context, Resolution, own_arch, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rung.entries import Profile
    from rung.facts import DeviceFact
    from rung.table import Table

__all__ = ["Buildable", "KernelTable", "Platform", "detect", "live_facts_of"]

_lock = threading.Lock()


def live_facts_of(table: Table) -> Facts:
    """Give the facts of this machine for a table's devices: observed once per process and table."""
    found: Facts | None = table.memo.get(Facts)
    if found is None:
        detectors = {name: d.detect for name, d in table.devices.items() if d.detect is not None}
        found = table.memo.setdefault(Facts, probes.live_facts(detectors, table.roots))
    return found


def _warn(message: str) -> None:
    """Warn at the first frame outside rung."""
    warnings.warn(message, FallbackWarning, stacklevel=_frames_inside())


def _frames_inside() -> int:
    """Give the `stacklevel` at which a warning of `_warn` points at the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "rung":
        frame = frame.f_back
        level += 1
    return level


def _bind_kernel(context: Context, cell: Cell) -> Callable[..., Any]:
    function = bind(cell.impl, context.table.roots)
    crosses = cell.device != context.device or cell.arrays != context.arrays
    # numpy arrays are in host memory whatever the device is called: between two such cells nothing moves.
    if not crosses or (cell.arrays == "numpy" and context.arrays == "numpy"):
        return cast("Callable[..., Any]", function)
    device = TORCH_DEVICES.get(cell.device, "cpu") if cell.arrays == "torch" else None
    return bridge(function, cell.arrays, device)


class Buildable(Protocol):
    """What a component is built from; `rung.ComponentSpec` is one."""

    @property
    def kind(self) -> str:
        """The component kind."""

    @property
    def factory(self) -> Callable[[Any], Any]:
        """The builder of last resort, called with the instance."""


class KernelTable(dict[str, Any]):
    """The kernels of one platform: `kernels["op"]`, `kernels.op`, `kernels.get(op, variant)`.

    A dict of what has been resolved so far, filled at the first use of each op. The values are the
    implementations themselves, wrapped only where arguments must be bridged.
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._variants: dict[tuple[str, str, bool], Any] = {}
        self._sources: dict[tuple[str, str], str] = {}

    def __missing__(self, op: str) -> Any:
        return self._resolve(op, DEFAULT)

    def __getattr__(self, op: str) -> Any:
        if op.startswith("_"):
            raise AttributeError(op)
        try:
            found = self[op]
        except KeyError as error:
            raise AttributeError(str(error)) from error
        self.__dict__[op] = found
        return found

    def get(self, op: str, variant: Any = DEFAULT) -> Any:
        """Give the kernel for an op and variant; an unserved variant falls, and says so. Raise UnknownOp."""
        if variant == DEFAULT:
            return self[op]
        found = self._variants.get((op, variant, False))
        return found if found is not None else self._resolve(op, variant)

    def require(self, op: str, variant: str = DEFAULT) -> Any:
        """Give exactly this variant (for `default`, its chain) without any fall, or raise FallError."""
        found = self._variants.get((op, variant, True))
        return found if found is not None else self._resolve(op, variant, required=True)

    def resolved_source(self, op: str, variant: str = DEFAULT) -> str:
        """Give the id of the cell that serves an op, resolving it first where that has not happened."""
        self.get(op, variant)
        return self._sources[op, variant]

    def __contains__(self, op: object) -> bool:
        return op in self._context.table.ops

    def __iter__(self) -> Iterator[str]:
        return iter(self._context.table.ops)

    def __len__(self) -> int:
        return len(self._context.table.ops)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        context = self._context
        return f"<KernelTable of {context.device}.{context.arch}: {len(self)} ops>"

    def _resolve(self, op: str, variant: str, *, required: bool = False) -> Any:
        context = self._context
        context.table.op(op)
        if not context.facts.live:
            raise ForeignFactsError(
                f"the facts of this platform were recorded elsewhere ({context.facts.origin}): it can resolve and "
                f"explain `{op}`, not run it"
            )
        if required:
            strict = replace(context.profile, name="strict", fall=context.table.profile("strict").fall)
            context = replace(context, profile=strict)
        outcome, bound = walk(context, op, variant, required=required, bind=partial(_bind_kernel, context))
        if outcome.cell is None:
            raise FallError(_refusal(outcome))
        key = (op, variant, required)
        with _lock:
            if variant == DEFAULT and not required:
                mine = dict.get(self, op) is None
                found = self.setdefault(op, bound)
            else:
                mine = key not in self._variants
                found = self._variants.setdefault(key, bound)
            self._sources.setdefault((op, variant), outcome.cell.id)
        if mine:
            _announce(outcome)
        return found


def _refusal(outcome: Resolution) -> str:
    """Word the error for a walk that ended without a cell; the whole ladder is in it."""
    if outcome.refused is not None:
        head = f"{outcome.request}: profile {outcome.profile} forbids this fall: {outcome.refused.reason}"
        cell = next((r.cell for r in outcome.rungs if r.cell.id == outcome.refused.cell), None)
        if cell is not None:
            head += f" (declared at {cell.where})" + (f"; hint: {cell.hint}" if cell.hint else "")
    else:
        hints = list(dict.fromkeys(r.cell.hint for r in outcome.rungs if r.cell.hint))
        head = f"{outcome.request}: nothing serves variant `{outcome.variant}`"
        head += f"; hint: {' / '.join(hints)}" if hints else ""
    return f"{printable(head)}\n{outcome}"


def _announce(outcome: Resolution) -> None:
    """Log the resolution in one line, with the falls to be noted, and warn once of those to be warned of."""
    import logging

    def reasons(level: str) -> str:
        return "; ".join(f"{fall.axis}: {fall.reason}" for fall in outcome.falls if fall.level == level)

    noted, warned = reasons("note"), reasons("warn")
    logging.getLogger("rung").info(printable(f"resolved {outcome.summary()}" + (f"; {noted}" if noted else "")))
    if warned:
        hints = dict.fromkeys(r.hint for r in outcome.rungs if r.hint)
        hint = f" (hint: {' / '.join(hints)})" if hints else ""
        _warn(printable(f"{outcome.summary()}; {warned}{hint}"))


class Platform:
    """The chosen (device, arch, arrays, facts) with its policy. Make one with `detect` or `of`.

    Two platforms made alike from live facts are one object, so that a fall is said once per process.
    """

    __slots__ = ("__weakref__", "_announced", "_context", "card", "kernels")

    def __init__(self, context: Context, card: DeviceFact | None = None) -> None:
        self._context = context
        self.card = card
        self.kernels = KernelTable(context)
        self._announced: set[tuple[str, str]] = set()

    @property
    def device(self) -> str:
        """The device family, such as `cuda`."""
        return self._context.device

    @property
    def arch(self) -> str:
        """What the hardware is, such as `sm_90`; `generic` when no more is known."""
        return self._context.arch

    @property
    def arrays(self) -> str:
        """The array library the caller holds."""
        return self._context.arrays

    @property
    def facts(self) -> Facts:
        """What the machine is."""
        return self._context.facts

    @property
    def profile(self) -> str:
        """The name of the policy."""
        return self._context.profile.name

    @property
    def table(self) -> Table:
        """The compiled manifests."""
        return self._context.table

    @property
    def device_chain(self) -> tuple[str, ...]:
        """The device and what it falls back to, in order."""
        return self._context.device_chain

    def arch_chain(self, device: str | None = None) -> tuple[str, ...]:
        """Give the targets whose code runs on the platform's arch of `device`, closest first."""
        name = device or self.device
        record = self.table.device(name)
        steps = lattice.ladder(record, self._context.arch_of(name))
        return tuple(dict.fromkeys(step.target for step in steps))

    def __repr__(self) -> str:
        return f"<Platform {self.device}.{self.arch} with {self.arrays} arrays, profile {self.profile}>"

    @classmethod
    def of(
        cls,
        device: str,
        arch: str,
        *,
        arrays: str | None = None,
        facts: Facts | None = None,
        profile: str | None = None,
        table: Table | None = None,
    ) -> Platform:
        """Name a platform without looking whether it is there. Raise UnknownDevice or UnknownArch.

        Without `facts` those of this machine decide what is usable; naming a device assumes nothing about it.
        `arrays` defaults to the first of the device's libraries that is installed, `profile` to RUNG_PROFILE,
        else `default`.
        """
        table = table or default_table()
        facts = facts or live_facts_of(table)
        record = table.device(device)
        return cls._made(table, device, lattice.read_arch(record, arch), arrays, facts, profile, None)

    @classmethod
    def detect(
        cls,
        *,
        device: str | None = None,
        arrays: str | None = None,
        uuid: str | None = None,
        facts: Facts | None = None,
        profile: str | None = None,
        table: Table | None = None,
    ) -> Platform:
        """Look for a device in the profile's order and give its platform.

        `device` names the one to take, `uuid` the card (its UUID or PCI id, or a unique beginning of one).
        Raise UnknownDevice when no such device or card is there.
        """
        table = table or default_table()
        facts = facts or live_facts_of(table)
        policy = _profile_of(table, facts, profile)
        if device is not None and table.device(device).detect is None:
            raise UnknownDevice(f"{device} is never detected; name it: Platform.of({device!r}, ARCH)")
        for name in (device,) if device is not None else policy.devices:
            cards = facts.devices(name)
            if isinstance(cards, Unknown):
                if device is None:
                    message = f"could not tell whether there is a {name} device: {cards.why}"
                    _could_not_tell(policy, message)
                cards = ()
            elif uuid is not None:
                cards = tuple(c for c in cards if uuid in (c.uuid, c.pci) or c.uuid.startswith(uuid))
                if len(cards) > 1:
                    raise UnknownDevice(f"`{uuid}` fits several {name} cards: {', '.join(c.uuid for c in cards)}")
            if not cards and (uuid is not None or name != "cpu"):
                continue
            if uuid is not None:
                arch, why = lattice.read_arch(table.device(name), cards[0].arch), ""
            else:
                arch, why = own_arch(table, name, facts)
                if why and cards:
                    _warn(f"{why}; only portable code is offered. Name a card with uuid=")
            card = cards[0] if cards and not why else None
            return cls._made(table, name, arch, arrays, facts, policy.name, card)
        raise UnknownDevice(_nothing_found(facts, device, uuid, policy))

    @classmethod
    def _made(
        cls,
        table: Table,
        device: str,
        arch: str,
        arrays: str | None,
        facts: Facts,
        profile: str | None,
        card: DeviceFact | None,
    ) -> Platform:
        warn_unknown_variables(table.wanted().env)
        policy = _profile_of(table, facts, profile)
        arrays = arrays or _arrays_of(table, device, facts)
        if arrays not in ("numpy", "torch"):
            raise ValueError(f"unknown arrays {arrays!r}: rung knows `numpy` and `torch`")
        disabled = facts.env("RUNG_DISABLE")
        globs = tuple(disabled.replace(",", " ").split()) if isinstance(disabled, str) else ()
        warn_idle_globs(table, globs)
        context = Context(table, device, arch, arrays, facts, policy, globs)
        if facts is not table.memo.get(Facts):
            return cls(context, card)
        key = (cls, device, arch, arrays, policy.name, card, globs)
        made: Platform = table.memo.setdefault(key, cls(context, card))
        return made

    @classmethod
    def cpu(cls) -> Platform:
        """Give the portable CPU platform: arch `generic`, numpy arrays."""
        return cls.of("cpu", GENERIC, arrays="numpy")

    @classmethod
    def accel(cls, arch: str = "accel_v2") -> Platform:
        """Give the stand-in accelerator's platform, without looking: it is never detected."""
        return cls.of("accel", arch)

    @classmethod
    def cuda(cls, arch: str) -> Platform:
        """Give a CUDA platform by name, without looking whether there is a GPU."""
        return cls.of("cuda", arch)

    def resolve(self, op: str, variant: str = DEFAULT) -> Resolution:
        """Give the resolution of an op: what would serve, every rung passed over, and why. Imports nothing."""
        return walk(self._context, op, variant)[0]

    def explain(
        self, op: str, variant: str = DEFAULT, *, bind: bool = False, settled: Mapping[str, str] | None = None
    ) -> Resolution:
        """Give the same resolution, to be printed. `bind=True` also imports until a rung really binds.

        `settled` takes predicates as answered (`{"torch_cuda": "no"}`), for asking what would happen.
        """
        context = self._context
        if settled:
            context = replace(context, settled=dict(settled), _verdicts={})
        binder = partial(_bind_kernel, context) if bind else None
        return walk(context, op, variant, bind=binder)[0]

    def resolve_kernel(self, op: str, variant: str = DEFAULT) -> Any:
        """Give `kernels.get(op, variant)`."""
        return self.kernels.get(op, variant)

    def resolve_component(self, kind: str, variant: str = DEFAULT) -> Resolution:
        """Give the resolution of a component kind. The last rung stands for `spec.factory`."""
        return walk(self._context, kind, variant, component=True)[0]

    def build_component(self, spec: Buildable, instance: Any, variant: str = DEFAULT) -> Any:
        """Build a component with the builder that serves its kind here, else with `spec.factory(instance)`.

        Builders are called `(spec, instance, platform)`. Falls are said as for kernels; raise FallError
        where the profile forbids one. What a builder raises passes through.
        """
        context = self._context
        if not context.facts.live:
            raise ForeignFactsError(f"the facts of this platform were recorded elsewhere ({context.facts.origin})")

        def builder(cell: Cell) -> Callable[[], Any]:
            if not cell.impl:
                return partial(spec.factory, instance)
            return partial(bind(cell.impl, context.table.roots), spec, instance, self)

        outcome, build = walk(context, spec.kind, variant, component=True, bind=builder)
        if outcome.cell is None:
            raise FallError(_refusal(outcome))
        key = (spec.kind, variant)
        with _lock:
            mine = key not in self._announced
            self._announced.add(key)
        if mine:
            _announce(outcome)
        return build()


def _could_not_tell(policy: Profile, message: str) -> None:
    """Treat a device that cannot be told apart from an absent one as the profile treats the unknown."""
    level = policy.fall["unknown"]
    if level == "error":
        raise FallError(f"profile {policy.name}: {message}")
    if level == "warn":
        _warn(message)
    elif level == "note":
        import logging

        logging.getLogger("rung").info(message)


def _nothing_found(facts: Facts, device: str | None, uuid: str | None, policy: Profile) -> str:
    what = f"{device} " if device else ""
    card = f"no {what}card is `{uuid}`" if uuid else f"no {what}device was found"
    names = (device,) if device else policy.devices
    seen = []
    for name in names:
        cards = facts.devices(name)
        if isinstance(cards, Unknown):
            seen.append(f"{name}: could not tell ({cards.why})")
        else:
            seen += [f"{name}: {c.name or c.arch} {c.uuid or c.pci}".rstrip() for c in cards]
    return f"{card}; {'; '.join(seen) if seen else 'the probes found nothing'}"


def _profile_of(table: Table, facts: Facts, profile: str | None) -> Profile:
    if profile is None:
        chosen = facts.env("RUNG_PROFILE")
        profile = chosen if isinstance(chosen, str) and chosen else DEFAULT
    return table.profile(profile)


def _arrays_of(table: Table, device: str, facts: Facts) -> str:
    """Give the first of the device's array libraries that is installed; the first when none can be told."""
    libraries = table.devices[device].arrays
    for name in libraries:
        found = facts.module(name)
        if not isinstance(found, Unknown) and found is not False:
            return name
    return libraries[0]


def detect(
    *,
    device: str | None = None,
    arrays: str | None = None,
    uuid: str | None = None,
    facts: Facts | None = None,
    profile: str | None = None,
    table: Table | None = None,
) -> Platform:
    """Look at this machine (or at recorded facts) and give its platform; see `Platform.detect`."""
    return Platform.detect(device=device, arrays=arrays, uuid=uuid, facts=facts, profile=profile, table=table)
