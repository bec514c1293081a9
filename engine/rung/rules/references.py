"""Rules RG301 to RG311: every name used is declared, and edges lead somewhere sensible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rung import lattice
from rung.diagnostics import Problem, did_you_mean
from rung.entries import DEFAULT, REFERENCE
from rung.manifest import unknown_arch
from rung.rules.expressions import expressions, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rung.diagnostics import Where
    from rung.manifest import Entry, Manifests
    from rung.models import DeviceModel

__all__ = ["RULES"]

Found = "Iterator[Problem]"


def _unknown(code: str, what: str, name: str, where: Where, legal: set[str], context: str = "") -> Problem:
    hint = did_you_mean(name, legal)
    return Problem(code, "error", where, f"unknown {what} `{name}`" + (f" in `{context}`" if context else ""), hint)


def rg301(whole: Manifests) -> Iterator[Problem]:
    """An arch or target that its device does not declare."""
    for entry in whole.devices.values():
        yield from _device_archs(entry)
    for backend in whole.backends.values():
        for op, index, row in backend.kernels:
            devices = [d for d in row.device if d in whole.device_records]
            for name in row.arch:
                for device in devices:
                    hint = unknown_arch(whole, device, name)
                    if hint is not None:
                        where = _listed(backend, ("kernels", op, index, "arch"), name)
                        yield Problem("RG301", "error", where, f"unknown arch `{name}` of device {device}", hint)
            for name in row.exclude:
                legal = {a for d in devices for a in whole.device_records[d].archs}
                if devices and name not in legal:
                    where = _listed(backend, ("kernels", op, index, "exclude"), name)
                    yield _unknown("RG301", "arch", name, where, legal, "exclude")
    legal = {t for device in whole.device_records.values() for t in lattice.targets(device)}
    for placed in expressions(whole):
        for node in nodes(placed):
            if node.model.arch is not None and node.model.arch not in legal:
                yield _unknown("RG301", "arch", node.model.arch, node.where, legal)


def _listed(backend: object, loc: tuple[str | int, ...], value: str) -> Where:
    from rung.manifest import BackendEntry

    assert isinstance(backend, BackendEntry)
    items = backend.document.node(loc).items or []
    for position, item in enumerate(items):
        if item.data == value:
            return backend.at(*loc, position)
    return backend.at(*loc)


def _device_archs(entry: Entry[DeviceModel]) -> Iterator[Problem]:
    archs = set(entry.model.archs)
    for name, arch in entry.model.archs.items():
        for index, target in enumerate(arch.runs):
            if target not in archs:
                yield _unknown("RG301", "arch", target, entry.at("archs", name, "runs", index), archs, "runs")
    for name, beyond in entry.model.targets.items():
        if beyond.only is not None and beyond.only not in archs:
            yield _unknown("RG301", "arch", beyond.only, entry.at("targets", name, "only"), archs, "only")
        for index, member in enumerate(beyond.family or ()):
            if member not in archs:
                yield _unknown("RG301", "arch", member, entry.at("targets", name, "family", index), archs, "family")
    for alias, name in entry.model.aliases.items():
        if name not in archs:
            yield _unknown("RG301", "arch", name, entry.at("aliases", alias), archs, "aliases")


def rg302(whole: Manifests) -> Iterator[Problem]:
    """An op, kind or backend that no manifest declares."""
    ops, kinds = whole.names("ops"), whole.names("kinds")
    for backend in whole.backends.values():
        for op in dict.fromkeys(name for name, _, _ in backend.kernels):
            if op not in ops:
                yield _unknown("RG302", "op", op, backend.at("kernels", op, key=True), ops)
        for kind in dict.fromkeys(name for name, _, _ in backend.components):
            if kind not in kinds:
                yield _unknown("RG302", "component kind", kind, backend.at("components", kind, key=True), kinds)
    backends = {*whole.names("backends"), REFERENCE}
    for profile in whole.profiles.values():
        only = profile.model.only
        if only is not None and only not in backends:
            yield _unknown("RG302", "backend", only, profile.at("only"), backends)
        for op in profile.model.chains:
            if op not in ops and op not in kinds:
                yield _unknown("RG302", "op or kind", op, profile.at("chains", op, key=True), ops | kinds)


def _cycles(edges: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Give each cycle once, from its smallest member, found without recursion."""
    seen: set[frozenset[str]] = set()
    done: set[str] = set()
    for start in sorted(edges):
        path: list[str] = []
        stack: list[tuple[str, int]] = [(start, 0)]
        while stack:
            node, depth = stack.pop()
            del path[depth:]
            if node in path:
                members = path[path.index(node) :]
                if frozenset(members) not in seen:
                    seen.add(frozenset(members))
                    turn = members.index(min(members))
                    yield min(members), [*members[turn:], *members[:turn], min(members)]
                continue
            if node in done:
                continue
            path.append(node)
            following = [n for n in edges.get(node, []) if n in edges]
            stack += [(n, depth + 1) for n in following]
            if not following:
                done.add(node)
        done.update(path)


def rg303(whole: Manifests) -> Iterator[Problem]:
    """A cycle: devices falling back, archs running each other, predicates using each other, profiles extending."""
    falls = {n: [e.model.falls_back_to] for n, e in whole.devices.items() if e.model.falls_back_to}
    for name, path in _cycles(falls):
        where = whole.devices[name].at("falls_back_to")
        yield _cycle("device", path, where)
    for device in whole.devices.values():
        for name, path in _cycles({n: list(a.runs) for n, a in device.model.archs.items()}):
            yield _cycle("arch", path, device.at("archs", name, "runs"))
    uses: dict[str, list[str]] = {}
    for placed in expressions(whole):
        if placed.loc[0] == "predicates":
            uses[str(placed.loc[1])] = [node.model.use for node in nodes(placed) if node.model.use is not None]
    for name, path in _cycles(uses):
        yield _cycle("predicate", path, whole.predicates[name].where)
    extends = {n: [e.model.extends] for n, e in whole.profiles.items() if e.model.extends}
    for name, path in _cycles(extends):
        yield _cycle("profile", path, whole.profiles[name].at("extends"))


def _cycle(what: str, path: list[str], where: Where) -> Problem:
    hint = "remove one of these edges"
    return Problem("RG303", "error", where, f"{what} cycle: {' -> '.join(path)}", hint)


def rg304(whole: Manifests) -> Iterator[Problem]:
    """A predicate, or an extended profile, that no manifest declares."""
    names = whole.names("predicates")
    for placed in expressions(whole):
        for node in nodes(placed):
            if node.model.use is not None and node.model.use not in names:
                yield _unknown("RG304", "predicate", node.model.use, node.where, names)
    profiles = whole.names("profiles")
    for profile in whole.profiles.values():
        base = profile.model.extends
        if base is not None and base not in profiles:
            yield _unknown("RG304", "profile", base, profile.at("extends"), profiles)


def rg305(whole: Manifests) -> Iterator[Problem]:
    """A device that no manifest declares."""
    names = whole.names("devices")
    for device in whole.devices.values():
        target = device.model.falls_back_to
        if target is not None and target not in names:
            yield _unknown("RG305", "device", target, device.at("falls_back_to"), names)
    for backend in whole.backends.values():
        for section, rows in (("kernels", backend.kernels), ("components", backend.components)):
            for name, index, row in rows:
                for value in row.device:
                    if value not in names:
                        where = _listed(backend, (section, name, index, "device"), value)
                        yield _unknown("RG305", "device", value, where, names)
    for placed in expressions(whole):
        for node in nodes(placed):
            versioned = node.model.driver or node.model.runtime
            used = node.model.device or (versioned.name if versioned is not None else None)
            if used is not None and used not in names:
                yield _unknown("RG305", "device", used, node.where, names)
    for profile in whole.profiles.values():
        for index, value in enumerate(profile.model.devices or ()):
            if value not in names:
                yield _unknown("RG305", "device", value, profile.at("devices", index), names)


def rg307(whole: Manifests) -> Iterator[Problem]:
    """A `runs` edge from an arch to a newer one."""
    for entry in whole.devices.values():
        record = whole.device_records[entry.name]
        if record.pattern is None or record.pattern.hex:
            continue
        for name, arch in entry.model.archs.items():
            mine = lattice.number(record.pattern, name)
            for index, target in enumerate(arch.runs):
                theirs = lattice.number(record.pattern, target)
                if mine is not None and theirs is not None and theirs >= mine and target in entry.model.archs:
                    where = entry.at("archs", name, "runs", index)
                    message = f"`{name}` cannot run `{target}`, which is not older"
                    yield Problem("RG307", "error", where, message, "an arch runs older binaries only")


def _chains(whole: Manifests) -> Iterator[tuple[str, list[str], Entry[object], tuple[str | int, ...]]]:
    """Give every declared chain with its op, its entry and its place in it."""
    for op in whole.ops.values():
        for variant, chain in op.model.variants.items():
            yield op.name, chain, op, ("variants", variant)  # type: ignore[misc]
    for profile in whole.profiles.values():
        for name, chains in profile.model.chains.items():
            for variant, chain in chains.items():
                loc: tuple[str | int, ...] = ("chains", name)
                if profile.document.node((*profile.loc, *loc)).values is not None:
                    loc = (*loc, variant)
                yield name, chain, profile, loc  # type: ignore[misc]


def rg308(whole: Manifests) -> Iterator[Problem]:
    """A chain member that no cell has."""
    variants: dict[str, set[str]] = {}
    for cell in whole.cells:
        variants.setdefault(cell.serves, set()).add(cell.variant)
    for op, chain, entry, loc in _chains(whole):
        legal = variants.get(op, set()) | {DEFAULT}
        for index, member in enumerate(chain):
            if member not in legal and (op in whole.ops or op in whole.kinds):
                yield _unknown("RG308", "variant", member, entry.at(*loc, index), legal)


def rg310(whole: Manifests) -> Iterator[Problem]:
    """A chain that lists a variant twice."""
    for _, chain, entry, loc in _chains(whole):
        for index, member in enumerate(chain):
            if member in chain[:index]:
                yield Problem(
                    "RG310",
                    "error",
                    entry.at(*loc, index),
                    f"variant `{member}` is listed twice",
                    "remove it",
                )


RULES = (rg301, rg302, rg303, rg304, rg305, rg307, rg308, rg310)
