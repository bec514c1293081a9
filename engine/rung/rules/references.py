"""Rules RG301 to RG311: every name used is declared, and edges lead somewhere sensible."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rung import lattice
from rung.diagnostics import Problem, UnknownArch, did_you_mean, shorten
from rung.entries import DEFAULT, GENERIC, REFERENCE
from rung.mending import NOBODY
from rung.repairs import without_repetition
from rung.rules import suggestions
from rung.rules.expressions import Placed, judged, nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rung.diagnostics import Where
    from rung.entries import Device
    from rung.manifest import BackendEntry, Entry, Manifests
    from rung.models import DeviceModel, KernelModel, OpModel, PlatformModel, ProfileModel

__all__ = ["RULES"]

_CPU = "cpu"
Loc = tuple[str | int, ...]


def _unknown(
    code: str, what: str, name: str, where: Where, legal: Iterable[str], context: str = "", *, hint: str = ""
) -> Problem:
    message = f"unknown {what} `{shorten(name)}`" + (f" in `{context}`" if context else "")
    return Problem(code, where, message, hint or did_you_mean(name, legal))


def _places(backend: BackendEntry, *loc: str | int) -> dict[str, Where]:
    """Give the place of each member of a key that holds one or several."""
    items = backend.document.node(loc).items
    if items is None:
        return {str(backend.document.node(loc).data): backend.at(*loc)}
    return {str(item.data): backend.at(*loc, index) for index, item in reversed([*enumerate(items)])}


def rg301(whole: Manifests) -> Iterator[Problem]:
    """An arch or target that its device does not declare."""
    for entry in whole.devices.values():
        yield from _device_archs(whole, entry)
    sound: set[tuple[str | None, ...]] = set()
    for backend in whole.backends.values():
        for op, index, row in backend.kernels:
            meant = (*row.device, None, *row.arch, None, *row.exclude)
            if meant not in sound:
                sound.add(meant)
                for fault in _row_archs(whole, backend, op, index, row):
                    sound.discard(meant)
                    yield fault
    for platform in whole.platforms.values():
        yield from _platform_archs(whole, platform)
    if whole.open_devices or whole.names("devices") - set(whole.devices):
        return  # a predicate may mean an arch of a device that was rejected
    legal = {t for device in whole.device_records.values() for t in (*lattice.targets(device), *device.aliases)}
    legal |= {t for device in whole.devices for key in ("archs", "targets") for t in whole.names(f"{key} of {device}")}

    def asked(node: Placed) -> Iterator[Problem]:
        if node.model.arch is not None and whole.is_unknown(node.model.arch, legal):
            hint = suggestions.for_asked(whole, node.model.arch)
            yield _unknown("RG301", "arch", node.model.arch, node.where, legal, hint=hint)

    yield from judged(whole, asked, "arch")


def _device_archs(whole: Manifests, entry: Entry[DeviceModel]) -> Iterator[Problem]:
    model, archs = entry.model, entry.model.archs
    used: list[tuple[str, Loc]] = []
    for name, arch in model.archs.items():
        used += [(target, ("archs", name, "runs", index)) for index, target in enumerate(arch.runs)]
    for name, beyond in model.targets.items():
        if beyond.only is not None:
            used.append((beyond.only, ("targets", name, "only")))
        used += [(member, ("targets", name, "family", index)) for index, member in enumerate(beyond.family or ())]
    used += [(name, ("aliases", alias)) for alias, name in model.aliases.items()]
    for name, loc in used:
        if name not in archs and not whole.is_lost(entry.name, name):
            context = str(loc[0] if len(loc) == 2 else loc[2])
            yield _unknown("RG301", "arch", name, entry.at(*loc), suggestions.sound_archs(model), context)


def _row_archs(whole: Manifests, backend: BackendEntry, op: str, index: int, row: KernelModel) -> Iterator[Problem]:
    """Judge the product of a row's devices and archs: an arch is reported once, with the devices that lack it."""
    devices = [whole.device_records[d] for d in dict.fromkeys(row.device) if d in whole.device_records]
    places: dict[str, Where] | None = None
    for name in dict.fromkeys(row.arch):
        lacking = [
            d for d in devices
            if not lattice.is_target(d, whole.target(d.name, name)) and not whole.is_lost(d.name, name)
        ]  # fmt: skip
        if lacking:
            places = places or _places(backend, "kernels", op, index, "arch")
            of = ", ".join(f"`{device.name}`" for device in lacking)
            hint = suggestions.for_target(whole, devices, name)
            yield Problem("RG301", places[name], f"unknown arch `{shorten(name, 24)}` of device {of}", hint)
    if not row.exclude or len(devices) < len(set(row.device)):
        return  # what is excluded may be an arch of a device that was rejected
    legal = {arch for device in devices for arch in device.archs}
    places = None
    for name in dict.fromkeys(row.exclude):
        known = (whole.target(d.name, name) in d.archs or whole.is_lost(d.name, name) for d in devices)
        if not any(known):
            places = places or _places(backend, "kernels", op, index, "exclude")
            yield _unknown("RG301", "arch", name, places[name], legal, "exclude")


def _platform_archs(whole: Manifests, platform: Entry[PlatformModel]) -> Iterator[Problem]:
    """Judge what a platform's hardware is said to be; where no more is known it is `generic`."""
    for name, key, arch in ((platform.model.device, "arch", platform.model.arch), (_CPU, "cpu", platform.model.cpu)):
        device = whole.device_records.get(name)
        if device is None or arch is None or whole.is_lost(name, arch):
            continue
        if arch != GENERIC and arch not in device.archs and arch not in device.aliases and not _is_new(device, arch):
            message = f"unknown arch `{shorten(arch, 24)}` of device `{shorten(name, 24)}`"
            yield Problem("RG301", platform.at(key), message, _hardware_hint(whole, device, arch))


def _is_new(device: Device, arch: str) -> bool:
    """Say whether an arch is one that nobody declared yet and the device's pattern reads."""
    try:
        return lattice.number(device.pattern, arch) is not None and lattice.read_arch(device, arch) == arch
    except UnknownArch:
        return False


def _hardware_hint(whole: Manifests, device: Device, written: str) -> str:
    """Say which arch was meant: by another spelling, by a target for it, by a product."""
    archs = whole.devices[device.name].model.archs
    legal = suggestions.sound_archs(whole.devices[device.name].model)
    if len(archs) > suggestions.LOOKED_AT:
        return did_you_mean(written, legal)
    sold = (arch for arch, model in archs.items() if lattice.spell(written) in map(lattice.spell, model.products))
    try:
        meant = next(sold, None) or lattice.read_arch(device, written)
    except UnknownArch:
        return did_you_mean(written, legal)
    return f"did you mean `{meant}`?" if meant in archs else did_you_mean(written, legal)


def rg302(whole: Manifests) -> Iterator[Problem]:
    """An op, kind or backend that no manifest declares."""
    ops, kinds = whole.names("ops"), whole.names("kinds")
    for backend in whole.backends.values():
        for section, what, legal, rows in (
            ("kernels", "op", ops, backend.kernels),
            ("components", "component kind", kinds, backend.components),
        ):
            for name in dict.fromkeys(name for name, _, _ in rows):
                if whole.is_unknown(name, legal):
                    hint = suggestions.for_served(whole, name, legal, section)
                    yield _unknown("RG302", what, name, backend.at(section, name, key=True), legal, hint=hint)
    backends = {*whole.names("backends"), REFERENCE}
    for profile in whole.profiles.values():
        only = profile.model.only
        if only is not None and whole.is_unknown(only, backends):
            yield _unknown("RG302", "backend", only, profile.at("only"), backends)
        for op in profile.model.chains:
            if whole.is_unknown(op, ops | kinds):
                yield _unknown("RG302", "op or kind", op, profile.at("chains", op, key=True), ops | kinds)


def _cycles(edges: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Give cycles that have no member in common, each from its smallest member back to it. Linear, no recursion."""
    done: set[str] = set()
    told: set[str] = set()
    for start in sorted(edges):
        stack = [(start, iter(edges[start]))] if start not in done else []
        depth = {start: 0}  # of the names on the stack
        while stack:
            node, rest = stack[-1]
            following = next((name for name in rest if name in edges and name not in done), None)
            if following is None:
                done.add(node)
                del depth[node]
                stack.pop()
            elif following not in depth:
                depth[following] = len(stack)
                stack.append((following, iter(edges[following])))
            elif following not in told:
                members = [name for name, _ in stack[depth[following] :]]
                told.update(members)
                turn = members.index(min(members))
                yield [*members[turn:], *members[: turn + 1]]


def rg303(whole: Manifests) -> Iterator[Problem]:
    """A cycle: devices falling back, archs running each other, predicates using each other, profiles extending."""
    falls = {n: [e.model.falls_back_to] for n, e in whole.devices.items() if e.model.falls_back_to}
    for path in _cycles(falls):
        yield _cycle("device", path, whole.devices[path[0]].at("falls_back_to"))
    for device in whole.devices.values():
        for path in _cycles({n: a.runs for n, a in device.model.archs.items()}):
            if None in {_order(whole, device.name, arch) for arch in path}:  # else RG307 reports one of its edges
                yield _cycle("arch", path, device.at("archs", path[0], "runs"))
    uses = {
        name: {node.model.use: node for node in nodes(Placed(e.model, e.document, e.loc, e.unit)) if node.model.use}
        for name, e in whole.predicates.items()
    }
    for path in _cycles(uses):
        yield _cycle("predicate", path, uses[path[0]][path[1]].where)
    extends = {n: [e.model.extends] for n, e in whole.profiles.items() if e.model.extends}
    for path in _cycles(extends):
        yield _cycle("profile", path, whole.profiles[path[0]].at("extends"))


def _cycle(what: str, path: list[str], where: Where) -> Problem:
    shown = path if len(path) <= 6 else [*path[:4], "...", path[-1]]
    message = f"{what} cycle: {' -> '.join(shown)}"
    return Problem("RG303", where, message, "remove one of these edges")


def rg304(whole: Manifests) -> Iterator[Problem]:
    """A predicate, or an extended profile, that no manifest declares."""
    names = whole.names("predicates")

    def used(node: Placed) -> Iterator[Problem]:
        if node.model.use is not None and whole.is_unknown(node.model.use, names):
            hint = suggestions.for_predicate(whole, node.model.use, names)
            yield _unknown("RG304", "predicate", node.model.use, node.where, names, hint=hint)

    yield from judged(whole, used, "use")
    profiles = {*whole.names("profiles"), DEFAULT, "strict"}
    for profile in whole.profiles.values():
        base = profile.model.extends
        if base is not None and whole.is_unknown(base, profiles):
            yield _unknown("RG304", "profile", base, profile.at("extends"), profiles)


def rg305(whole: Manifests) -> Iterator[Problem]:
    """A device that no manifest declares."""
    names = whole.names("devices")

    def unknown(name: str | None, place: Callable[[], Where]) -> Iterator[Problem]:
        if name is not None and whole.is_unknown(name, names):
            hint = suggestions.for_device(whole, name, names)
            yield _unknown("RG305", "device", name, place(), names, hint=hint)

    def asked(node: Placed) -> Iterator[Problem]:
        versioned = node.model.driver or node.model.runtime
        return unknown(versioned.name if versioned is not None else node.model.device, partial(node.part, "name"))

    for device in whole.devices.values():
        yield from unknown(device.model.falls_back_to, partial(device.at, "falls_back_to"))
    for backend in whole.backends.values():
        for section, rows in (("kernels", backend.kernels), ("components", backend.components)):
            for name, index, row in rows:
                if not names.issuperset(row.device):
                    places = _places(backend, section, name, index, "device")
                    for written in places:
                        if written in row.device:
                            yield from unknown(written, partial(places.__getitem__, written))
    yield from judged(whole, asked, "driver", "runtime", "device")
    for profile in whole.profiles.values():
        for index, name in enumerate(profile.model.devices or ()):
            yield from unknown(name, partial(profile.at, "devices", index))
    for platform in whole.platforms.values():
        if platform.has("device"):
            yield from unknown(platform.model.device, partial(platform.at, "device"))


def _order(whole: Manifests, device: str, arch: str) -> int | None:
    """Give the number by which archs of a device are older or newer, None where numbers say nothing of that."""
    pattern = whole.device_records[device].pattern
    return None if pattern is None or pattern.hex else lattice.number(pattern, arch)


def rg307(whole: Manifests) -> Iterator[Problem]:
    """A `runs` edge from an arch to a newer one, or to itself."""
    for entry in whole.devices.values():
        for name, arch in entry.model.archs.items():
            mine = _order(whole, entry.name, name)
            for index, target in enumerate(arch.runs):
                theirs = _order(whole, entry.name, target)
                if mine is not None and theirs is not None and theirs >= mine and target in entry.model.archs:
                    where = entry.at("archs", name, "runs", index)
                    message = f"`{name}` cannot run `{target}`, which is not older"
                    yield Problem("RG307", where, message, "list older archs only, nearest first")


def _chains(whole: Manifests) -> Iterator[tuple[str, list[str], Entry[OpModel] | Entry[ProfileModel], Loc]]:
    """Give every declared chain with its op or kind, its entry and its place in it."""
    for op in whole.ops.values():
        for variant, chain in op.model.variants.items():
            yield op.name, chain, op, ("variants", variant)
    for profile in whole.profiles.values():
        for name, chains in profile.model.chains.items():
            for variant, chain in chains.items():
                short = not isinstance(profile.document.at((*profile.loc, "chains", name)), dict)
                yield name, chain, profile, ("chains", name) if short else ("chains", name, variant)


def rg308(whole: Manifests) -> Iterator[Problem]:
    """A chain member that no cell has."""
    for op, chain, entry, loc in _chains(whole):
        legal = whole.names(f"variants of {op}") | {DEFAULT}
        declared = op in whole.ops or op in whole.kinds
        for index, member in enumerate(chain):
            if declared and member not in chain[:index] and whole.is_unknown(member, legal):
                yield _unknown("RG308", "variant", member, entry.at(*loc, index), legal, op)


def rg309(whole: Manifests) -> Iterator[Problem]:
    """Two names of one device that read the same."""
    for device in whole.devices.values():
        model = device.model
        named: list[tuple[str, Loc]] = [(name, ("archs", name)) for name in model.archs]
        named += [(name, ("targets", name)) for name in model.targets]
        named += [(name, ("portable", index)) for index, name in enumerate(model.portable) if name != NOBODY]
        first = {lattice.spell(GENERIC): GENERIC}
        for name, loc in named:
            spelled = lattice.spell(name)
            if spelled in first:
                yield _same(name, first[spelled], device, loc)
            first.setdefault(spelled, name)
        for alias, name in model.aliases.items():
            meant = first.get(lattice.spell(alias), name)
            if meant != name and name in model.archs:
                yield _same(alias, meant, device, ("aliases", alias))


def _same(name: str, first: str, device: Entry[DeviceModel], loc: Loc) -> Problem:
    message, hint = f"`{name}` reads like `{first}`", "name it differently: case, `_` and `-` do not count"
    if name == first:
        message, hint = f"`{name}` is a target of `{device.name}` already", "remove it, or name it differently"
    return Problem("RG309", device.at(*loc, key=True), message, hint)


def rg310(whole: Manifests) -> Iterator[Problem]:
    """A chain that lists a variant twice."""
    for _, chain, entry, loc in _chains(whole):
        for index, member in enumerate(chain):
            if member in chain[:index] and member != NOBODY:
                where = entry.at(*loc, index)
                edit = without_repetition(entry.document, (*entry.loc, *loc, index))
                message = f"variant `{shorten(member)}` is listed twice"
                yield Problem("RG310", where, message, "remove one of them", edit=edit)


RULES = (rg301, rg302, rg303, rg304, rg305, rg307, rg308, rg309, rg310)
