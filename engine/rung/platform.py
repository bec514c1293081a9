"""`Platform`: the chosen device, arch, arrays and facts, and the kernels that serve on it.

Owns detection, the cache of bound kernels and what is said about falls. The order of rungs is `rung.resolve`'s.

Note [Publish, then speak]: no lock is held while a module is imported or a probe runs, for either may call back
into rung or take long. Each thread makes its own answer; the first one published is what every thread gets, and
only the thread that published logs or warns.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from sys import intern

from rung import lattice, probes
from rung.bind import bind as rung_bind
from rung.diagnostics import (
    DeviceNotFound,
    FallbackWarning,
    FallError,
    ForeignFactsError,
    RungError,
    UnknownArch,
    UnknownArrays,
    UnknownPredicate,
    did_you_mean,
    log,
    printable,
    warn,
)
from rung.entries import ARRAYS, DEFAULT, GENERIC, Cell
from rung.facts import Facts, Unknown
from rung.load import default_table, disabled_globs
from rung.predicates import NO, UNKNOWN, YES
from rung.records import replace
from rung.resolve import BROKEN, Context, Fall, Resolution, crosses, own_arch, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
    from typing import Any, Final, NoReturn, Protocol

    from rung.entries import Op, Profile
    from rung.facts import DeviceFact
    from rung.table import Table

    _KernelDict = dict[str, Any]
else:
    Protocol, _KernelDict = object, dict

__all__ = ["Buildable", "KernelTable", "Platform", "detect", "live_facts_of"]

_CPU: Final = "cpu"
_lock = allocate_lock()


def live_facts_of(table: Table) -> Facts:
    """Give the facts of this machine for a table's devices: observed once per process and table."""
    found: Facts | None = table.memo.get(Facts)
    if found is None:
        detectors = {name: d.detect for name, d in table.devices.items() if d.detect is not None}
        found = table.memo.setdefault(Facts, probes.live_facts(detectors, table.roots))
    return found


def _itself(one: Any, memo: object = None) -> Any:
    """Stand for a copy: what resolves kernels is one and the same for all who hold it."""
    return one


def _stays(one: Any, protocol: object = None) -> Any:
    raise TypeError(
        f"a {type(one).__name__} belongs to its process: send the names of device and arch, "
        "and call rung.detect() or rung.Platform.of(device, arch) there"
    )


def _bind_kernel(context: Context, cell: Cell) -> Any:
    function = rung_bind(cell.impl, context.table.roots)
    # numpy arrays are in host memory whatever the device is called: between two such cells nothing moves.
    if not crosses(context, cell) or (cell.arrays == "numpy" and context.arrays == "numpy"):
        return function
    from rung.bridge import bridge

    op = context.table.ops[cell.serves]
    device = _torch_device(context, cell.device) if cell.arrays == "torch" else None
    return bridge(function, cell.arrays, device, (lambda *call: _result_dtype(op, *call)) if op.result_dtype else None)


def _result_dtype(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Give the dtype that a call asks its result to have."""
    from rung.arguments import given

    said = given(op, args, kwargs)[op.result_dtype]
    return said if isinstance(said, str) else ""


def _torch_device(context: Context, device: str) -> str:
    """Give what torch calls a device: with the card's index where the platform is about one card."""
    name = context.table.devices[device].torch
    card = context.card if device == context.device else None
    return name if name == "cpu" or card is None or card.index is None else f"{name}:{card.index}"


class Buildable(Protocol):
    """What a component is built from; `rung.ComponentSpec` is one."""

    @property
    def kind(self) -> str:
        """The component kind."""

    @property
    def factory(self) -> Callable[[Any], Any]:
        """The builder of last resort, called with the instance."""


class KernelTable(_KernelDict):
    """The kernels of one platform: `kernels["op"]`, `kernels.op`, `kernels.get(op, variant)`.

    A dict of what has been resolved so far, filled at the first use of each op. The values are the
    implementations themselves, wrapped only where arguments must be bridged, and where arguments decide which
    implementation serves: see `rung.guard`.

    Note [What a resolved call costs]: a look into a dict, and no question. A policy has a table of its own, so none is
    asked for; `__getattr__` would make each attribute dearer, found or not, so ops are attributes of a class that
    comes with the `Table`; and `get` looks into a dict per variant, which is cheaper than making a pair to look up.
    """

    __slots__ = ("__dict__", "_bound", "_context", "_found", "_required", "_said", "_sources")

    __copy__ = __deepcopy__ = _itself
    __reduce_ex__ = _stays

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._found: dict[str, dict[str, Any]] = {}
        self._required: dict[str, dict[str, Any]] = {}
        self._sources: dict[tuple[str, str], str] = {}
        self._bound: dict[str, Any] = {}
        self._said: set[tuple[str, str, bool, str]] = set()

    @classmethod
    def of(cls, context: Context) -> KernelTable:
        """Make one whose attributes are the ops of the context's table."""
        made: type[KernelTable] | None = context.table.memo.get(cls)
        if made is None:
            made = type(cls.__name__, (cls, context.table.attributes), {"__slots__": ()})
            made = context.table.memo.setdefault(cls, made)
        return made(context)

    if TYPE_CHECKING:

        def __getattr__(self, op: str) -> Any:
            """Give the kernel for an op's default."""

    def __missing__(self, op: str) -> Any:
        return self._resolve(op, DEFAULT)

    def get(self, op: str, variant: str = DEFAULT) -> Any:  # type: ignore[override]
        """Give the kernel for an op and variant; an unserved variant falls, and says so. Raise UnknownOp."""
        try:
            return self._found[variant][op]
        except (KeyError, TypeError):
            pass
        return self._resolve(op, variant)

    def require(self, op: str, variant: str = DEFAULT) -> Any:
        """Give exactly this variant (for `default`, its chain) without any fall, or raise FallError."""
        try:
            return self._required[variant][op]
        except (KeyError, TypeError):
            pass
        return self._resolve(op, variant, required=True)

    def specialize(self, op: str, variant: str = DEFAULT, /, **arguments: Any) -> Any:
        """Give the function that serves calls like this one, for hot loops over fixed shapes: no guard, no wrapper.

        The arguments are those of a call, by name, arrays or examples of them (`rung.Example`, or a text such as
        `"bfloat16[2,8,128,64]"`); those that no condition asks about need not be given. What is given to the function
        later is not looked at: it must be as the examples are. Raise TypeError where an argument that decides is
        missing, FallError where the profile forbids what would serve.
        """
        from rung.arguments import UNSAID, examples, given, places, split

        context = self._context
        contract = context.table.op(op)
        values = given(contract, (), examples(contract, arguments), partly=True)
        _refuse_foreign(context, op)
        outcome, bound = walk(context, op, variant, bind=self._bind, eager=False, arguments=values)
        if outcome.cell is None:
            raise FallError(_refusal(outcome, context.table.kernels[op]))
        if bound is None:
            asked = dict.fromkeys(split(place)[0] for c in outcome.cell.accepts for place in places(c))
            missing = ", ".join(f"`{name}`" for name in asked if values[name] is UNSAID)
            raise TypeError(f"{op}: whether {outcome.cell.id} serves depends on {missing}: give an example of it")
        self._say(outcome, required=False)
        return bound

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

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Give the names of all ops, resolved or not."""
        return self._context.table.ops.keys()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("kernels come from manifests; rung.register_kernel adds one")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = copy = items = pop = popitem = setdefault = update = values = _refuse

    def __dir__(self) -> list[str]:
        # Without the ops: who looks at all attributes of an object would resolve, import and bind them.
        return dir(KernelTable)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        context = self._context
        return f"<KernelTable of {context.device}.{context.arch}: {len(self)} ops>"

    def _bind(self, cell: Cell) -> Any:
        """Bind a cell; whatever request leads to it, it is one function."""
        found = self._bound.get(cell.id)
        return found if found is not None else self._bound.setdefault(cell.id, _bind_kernel(self._context, cell))

    def _resolve(self, op: str, variant: str, *, required: bool = False) -> Any:
        if not isinstance(variant, str):
            raise TypeError(f"a variant is a name, not {variant!r}; unlike a dict's, this `get` takes no default")
        context = self._context
        context.table.op(op)
        op, variant = intern(str.__str__(op)), intern(str.__str__(variant))  # as literals are: a hit compares no text
        _refuse_foreign(context, op)
        if required:
            context = context.under(replace(context.profile, name="strict", fall=context.table.profile("strict").fall))
        outcome, bound = walk(context, op, variant, required=required, bind=self._bind, eager=False)
        if outcome.cell is None:
            raise FallError(_refusal(outcome, context.table.kernels[op]))
        if bound is None or outcome.live[0].cell.accepts:
            bound = self._guard(context, outcome, required=required)
        with _lock:
            of_variant = (self._required if required else self._found).setdefault(variant, {})
            mine = op not in of_variant
            found = of_variant.setdefault(op, bound)
            if not required:
                self._sources.setdefault((op, variant), outcome.cell.id)
                if variant == DEFAULT:
                    dict.setdefault(self, op, found)
        if mine:
            self._say(outcome, required=required)
        return found

    def _guard(self, context: Context, outcome: Resolution, *, required: bool) -> Any:
        """Make the function that chooses among the live rungs of a resolution by the arguments of each call."""
        from rung.arguments import given
        from rung.guard import Guard

        op = context.table.ops[outcome.request]
        variant = outcome.variant

        def reach(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Cell, Any, list[Cell]]:
            values = given(op, args, kwargs)
            chosen, bound = walk(context, op.name, variant, required=required, bind=self._bind, arguments=values)
            if chosen.cell is None:
                raise FallError(_refusal(chosen, context.table.kernels[op.name]))
            self._say(chosen, required=required)
            return chosen.cell, bound, [rung.cell for rung in chosen.rungs if rung.verdict == BROKEN]

        request = op.name if variant == DEFAULT else f"{op.name} ({variant})"
        title = f"{request} on {context.device}.{context.arch} with {context.arrays} arrays"
        cells = [rung.cell for rung in outcome.live]
        return Guard(op, cells, context.arrays, title, reach).function

    def _say(self, outcome: Resolution, *, required: bool) -> None:
        """Announce what serves a request, and what it fell on; once, also where calls decide which cell does."""
        assert outcome.cell is not None
        key = (outcome.request, outcome.variant, required, outcome.cell.id)
        with _lock:
            is_said = key in self._said
            self._said.add(key)
        if not is_said:
            _announce(outcome)


def _refuse_foreign(context: Context, name: str) -> None:
    if not context.facts.live:
        origin = context.facts.origin
        raise ForeignFactsError(
            f"the facts of this platform were recorded elsewhere ({origin}): "
            f"it can resolve and explain `{name}`, not bind it"
        )


def _blame(outcome: Resolution, falls: Iterable[Fall]) -> str:
    """Say what to do about the rungs these falls are about, else which rung was passed over first, where and why."""
    about = {fall.cell for fall in falls}
    blamed = [rung for rung in outcome.passed if rung.cell.id in about]
    text = ""
    if not blamed and outcome.passed:
        blamed = [outcome.passed[0]]
        words = {"unknown": "could not tell: ", "broken": "broken: "}.get(blamed[0].verdict, "")
        text = f"; passed over {blamed[0].cell.id} ({blamed[0].where}): {words}{blamed[0].reason}"
    hints = dict.fromkeys(rung.hint for rung in blamed if rung.hint)
    return text + (f"; hint: {' / '.join(hints)}" if hints else "")


def _refusal(outcome: Resolution, cells: Iterable[Cell]) -> str:
    """Word the error for a walk that ended without a cell; the whole ladder is in it."""
    if outcome.refused is not None:
        axis, reason = outcome.refused.axis, outcome.refused.reason
        head = f"{outcome.request}: profile {outcome.profile} forbids a fall on {axis}: {reason}"
        return f"{printable(head + _blame(outcome, [outcome.refused]))}\n{outcome}"
    head = f"{outcome.request}: nothing serves variant `{outcome.variant}` here"
    same = [f"{cell.id} ({cell.where})" for cell in cells if cell.variant == outcome.variant]
    declared = f"; declared are {', '.join(same)}" if same and not outcome.rungs else ""
    return f"{printable(head + declared + _blame(outcome, outcome.falls))}\n{outcome}"


def _announce(outcome: Resolution) -> None:
    """Log the resolution in one line, with the falls to be noted, and warn once of those to be warned of."""

    def reasons(level: str) -> str:
        return "; ".join(f"{fall.axis}: {fall.reason}" for fall in outcome.falls if fall.level == level)

    noted, warned = reasons("note"), reasons("warn")
    log(printable(f"resolved {outcome.summary()}" + (f"; {noted}" if noted else "")))
    if warned:
        blame = _blame(outcome, (fall for fall in outcome.falls if fall.level == "warn"))
        warn(f"{outcome.summary()}; {warned}{blame}", FallbackWarning)


class Platform:
    """The chosen (device, arch, arrays, facts) with its policy. Make one with `detect` or `of`.

    Two platforms made alike from live facts are one object, so that a fall is said once per process.
    """

    __slots__ = ("__weakref__", "_announced", "_context", "kernels")

    __copy__ = __deepcopy__ = _itself
    __reduce_ex__ = _stays

    def __init__(self, context: Context) -> None:
        self._context = context
        self.kernels = KernelTable.of(context)
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
    def card(self) -> DeviceFact | None:
        """The card that was detected, None where none was or which is the first is not known."""
        return self._context.card

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
    def torch_device(self) -> str:
        """What torch calls the device, such as `cuda:0`; the index is there when one card was detected."""
        return _torch_device(self._context, self.device)

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
        policy = _profile_of(table, profile)
        return cls._made(table, device, lattice.read_arch(record, arch), arrays, facts, policy, None)

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
        Raise DeviceNotFound when no such device or card is there.
        """
        table = table or default_table()
        facts = facts or live_facts_of(table)
        policy = _profile_of(table, profile)
        if device is not None and table.device(device).detect is None:
            raise DeviceNotFound(f"{device} is never detected; name it: Platform.of({device!r}, ARCH)")
        for name in (device,) if device is not None else policy.devices:
            cards = facts.devices(name)
            if isinstance(cards, Unknown):
                if device is None:
                    _could_not_tell(policy, facts, name, cards.why)
                cards = ()
            if uuid is not None:
                cards = _named(cards, uuid, name)
            if not cards and (uuid is not None or name != _CPU):
                continue
            if not facts.live:
                _check_archs(table, name, facts, cards)
            arch, why = own_arch(table, name, facts, cards)
            if why and cards:
                advice = ". Name a card with uuid=" if len(cards) > 1 else ""
                warn(f"{why}; only portable code is offered{advice}", FallbackWarning)
            if uuid is not None and cards and cards[0].index is None and cards[0].note:
                warn(f"{name} card {cards[0].uuid}: {cards[0].note}", FallbackWarning)
            first = next((card for card in cards if card.index == 0), cards[0] if cards else None)
            return cls._made(table, name, arch, arrays, facts, policy, None if why else first)
        raise DeviceNotFound(_nothing_found(facts, device, uuid, policy))

    @classmethod
    def _made(
        cls,
        table: Table,
        device: str,
        arch: str,
        arrays: str | None,
        facts: Facts,
        policy: Profile,
        card: DeviceFact | None,
    ) -> Platform:
        globs = disabled_globs(table, facts)
        arrays = arrays or _arrays_of(table, device, facts)
        if arrays not in ARRAYS:
            raise UnknownArrays(f"unknown arrays `{arrays}`: {did_you_mean(arrays, ARRAYS)}")
        made = cls(Context(table, device, arch, arrays, facts, policy, globs, card=card))
        if facts is not table.memo.get(Facts):
            return made
        # What predicates see of the environment is part of what a platform is: another value, another platform.
        environment = tuple(str(facts.env(name)) for name in table.wanted.env)
        key = (cls, device, arch, arrays, policy.name, card, globs, environment)
        kept: Platform = table.memo.setdefault(key, made)
        return kept

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
        self,
        op: str,
        variant: str = DEFAULT,
        *,
        bind: bool = False,
        settled: Mapping[str, str] | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Resolution:
        """Give the same resolution, to be printed. `bind=True` also imports until a rung really binds.

        `settled` takes predicates as answered (`{"torch_cuda": "no"}`), for asking what would happen. `arguments` are
        examples of a call's, by name: arrays, `rung.Example`, or texts such as `bfloat16[2,8,128,64]`. Rungs that do
        not accept them are passed over. An argument that has no default and is not given leaves open what depends on
        it.
        """
        context = self._settled(settled)
        values = None
        if arguments is not None:
            from rung.arguments import examples, given

            contract = context.table.op(op)
            values = given(contract, (), examples(contract, arguments), partly=True)
        if bind:
            _refuse_foreign(context, op)
        binder = (lambda cell: _bind_kernel(context, cell)) if bind else None
        return walk(context, op, variant, bind=binder, arguments=values)[0]

    def resolve_kernel(self, op: str, variant: str = DEFAULT) -> Any:
        """Give `kernels.get(op, variant)`."""
        return self.kernels.get(op, variant)

    def resolve_component(
        self, kind: str, variant: str = DEFAULT, *, bind: bool = False, settled: Mapping[str, str] | None = None
    ) -> Resolution:
        """Give the resolution of a component kind, like `explain` for ops. The last rung is `spec.factory`."""
        context = self._settled(settled)
        if bind:
            _refuse_foreign(context, kind)
        roots = self.table.roots

        def binder(cell: Cell) -> Any:
            return rung_bind(cell.impl, roots) if cell.impl else None

        return walk(context, kind, variant, component=True, bind=binder if bind else None)[0]

    def _settled(self, settled: Mapping[str, str] | None) -> Context:
        for name, answer in (settled or {}).items():
            if name not in self.table.named:
                raise UnknownPredicate(f"unknown predicate `{name}`: {did_you_mean(name, self.table.named)}")
            if answer not in (YES, NO, UNKNOWN):
                raise RungError(f"predicate `{name}` cannot be {answer!r}: the answer is yes, no or unknown")
        return self._context.settle(dict(settled)) if settled else self._context

    def build_component(self, spec: Buildable, instance: Any, variant: str = DEFAULT) -> Any:
        """Build a component with the builder that serves its kind here, else with `spec.factory(instance)`.

        Builders are called `(spec, instance, platform)`. Falls are said as for kernels; raise FallError
        where the profile forbids one. What a builder raises passes through.
        """
        context = self._context
        _refuse_foreign(context, spec.kind)

        def builder(cell: Cell) -> Callable[[], Any]:
            if not cell.impl:
                return lambda: spec.factory(instance)
            build = rung_bind(cell.impl, context.table.roots)
            return lambda: build(spec, instance, self)

        outcome, build = walk(context, spec.kind, variant, component=True, bind=builder)
        if outcome.cell is None:
            raise FallError(_refusal(outcome, context.table.components[spec.kind]))
        key = (spec.kind, variant)
        with _lock:
            mine = key not in self._announced
            self._announced.add(key)
        if mine:
            _announce(outcome)
        return build()


def _could_not_tell(policy: Profile, facts: Facts, device: str, why: str) -> None:
    """Say that a device was passed over because nobody could tell whether it is there.

    On this machine a probe failed, and the program ends up on another device: that is a fall on the device axis.
    Facts recorded elsewhere may just not say.
    """
    axis = "device" if facts.live else "unknown"
    message = f"could not tell whether there is a {device} device: {why}"
    level = policy.fall[axis]
    if level == "error":
        raise FallError(f"profile {policy.name} forbids a fall on {axis}: {message}")
    if level == "warn":
        warn(message, FallbackWarning)
    elif level == "note":
        log(message)


def _check_archs(table: Table, device: str, facts: Facts, cards: Iterable[DeviceFact]) -> None:
    """Refuse an arch in recorded facts that nobody can read: a slip for its author to mend.

    What a driver of this machine answers is another matter: it must not keep a program from starting.
    """
    for card in cards:
        try:
            lattice.read_arch(table.device(device), card.arch)
        except UnknownArch as error:
            raise UnknownArch(f"{facts.origin}: {error}") from None


def _named(cards: tuple[DeviceFact, ...], text: str, device: str) -> tuple[DeviceFact, ...]:
    """Give the card with this UUID or PCI id, else the only one whose UUID or PCI id starts with it."""
    wanted = text.strip().casefold()
    if not wanted:
        raise DeviceNotFound("an empty text names no card")
    exact = tuple(card for card in cards if wanted in (card.uuid.casefold(), card.pci.casefold()))
    near = exact or tuple(
        c for c in cards if c.uuid.casefold().startswith(wanted) or c.pci.casefold().startswith(wanted)
    )
    if len(near) > 1:
        shown = ", ".join(card.uuid or card.pci for card in near)
        raise DeviceNotFound(f"`{text}` fits several {device} cards: {shown}")
    return near


def _nothing_found(facts: Facts, device: str | None, uuid: str | None, policy: Profile) -> str:
    what = f"{device} " if device else ""
    card = f"no {what}card is `{uuid}`" if uuid else f"no {what}device was found"
    names = (device,) if device else policy.devices
    if device and isinstance(facts.devices(device), Unknown):
        card = f"could not tell whether there is a {device} device"
    seen = []
    for name in names:
        cards = facts.devices(name)
        if isinstance(cards, Unknown):
            seen.append(f"{name}: could not tell ({cards.why})")
        else:
            seen += [f"{name}: {c.name or c.arch} {c.uuid or c.pci}".rstrip() for c in cards]
    return f"{card}; {'; '.join(seen) if seen else 'the probes found nothing'}"


def _profile_of(table: Table, profile: str | None) -> Profile:
    """Give the named profile, else RUNG_PROFILE's: the caller's policy, whatever machine the facts are of."""
    return table.profile(profile or os.environ.get("RUNG_PROFILE") or DEFAULT)


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
