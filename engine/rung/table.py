"""The `Table`: everything the runtime needs to know of the manifests, compiled.

Owns the record and the questions that need nothing but it. Knows no YAML, and no file: the authoring half makes it,
and `rung.tablefile` reads and writes it.
"""

from __future__ import annotations

from rung.diagnostics import UnknownDevice, UnknownKind, UnknownOp, UnknownProfile, Where, did_you_mean
from rung.records import field, fields, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from rung.entries import Backend, Cell, Device, Expression, Kind, Op, Profile

__all__ = ["PER_PROCESS", "Table", "Wanted", "attributes_of"]

PER_PROCESS = ("attributes", "failures", "memo")
"""The fields of a table that each process makes anew, and that are no part of what was compiled."""


@record
class Wanted:
    """The names predicates ask facts for, so that a snapshot of a machine can hold exactly those."""

    devices: tuple[str, ...]
    modules: tuple[tuple[str, str], ...]
    files: tuple[str, ...]
    env: tuple[str, ...]
    probes: tuple[str, ...]

    @classmethod
    def by(cls, devices: Iterable[Device], predicates: Iterable[Expression]) -> Wanted:
        """Give what these predicates ask, and what detecting these devices does."""
        atoms = [atom for expression in predicates for atom in expression.atoms()]
        known = list(devices)
        return cls(
            devices=tuple(sorted(device.name for device in known)),
            modules=tuple(
                sorted(
                    {(a.get("name"), a.get("dist")) for a in atoms if a.key == "module"}
                    | {(name, "") for device in known for name in device.arrays}
                )
            ),
            files=tuple(sorted({a.get("has") for a in atoms if a.key == "module" and a.get("has")})),
            env=tuple(sorted({"RUNG_DISABLE"} | {a.get("name") for a in atoms if a.key == "env"})),
            probes=tuple(sorted({a.get("name") for a in atoms if a.key == "probe"})),
        )


@record
class Table:
    """All declared entries. `kernels` and `components` hold the cells of each op and kind, sorted by id.

    `predicates` holds named ones and, under their text, inline ones; `named` are the declared names.
    `wanted` is what the predicates ask of a machine. `attributes` is a class with an attribute per op. `roots` are the
    top-level packages cells may bind. `failures` are the paths that could not be bound in this process, with the cause;
    `memo` is for upper layers, to keep what they derive from this table as long as it.
    """

    devices: Mapping[str, Device]
    ops: Mapping[str, Op]
    kinds: Mapping[str, Kind]
    backends: Mapping[str, Backend]
    profiles: Mapping[str, Profile]
    predicates: Mapping[str, Expression]
    named: Mapping[str, Where]
    kernels: Mapping[str, tuple[Cell, ...]]
    components: Mapping[str, tuple[Cell, ...]]
    wanted: Wanted
    attributes: type
    roots: frozenset[str] = frozenset()
    failures: dict[str, str] = field(default_factory=dict)
    memo: dict[object, Any] = field(default_factory=dict)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, ({name: getattr(self, name) for name in fields(self) if name not in PER_PROCESS},)

    def __repr__(self) -> str:
        count = sum(1 for _ in self.cells())
        return f"<Table of {len(self.devices)} devices, {len(self.ops)} ops, {len(self.kinds)} kinds, {count} cells>"

    def op(self, name: str) -> Op:
        """Give an op; raise UnknownOp with a suggestion."""
        try:
            return self.ops[name]
        except KeyError:
            hint = "it is a component kind" if name in self.kinds else did_you_mean(name, self.ops)
            raise UnknownOp(f"unknown op `{name}`: {hint}") from None

    def kind(self, name: str) -> Kind:
        """Give a component kind; raise UnknownKind with a suggestion."""
        try:
            return self.kinds[name]
        except KeyError:
            raise UnknownKind(f"unknown component kind `{name}`: {did_you_mean(name, self.kinds)}") from None

    def device(self, name: str) -> Device:
        """Give a device; raise UnknownDevice with a suggestion."""
        try:
            return self.devices[name]
        except KeyError:
            raise UnknownDevice(f"unknown device `{name}`: {did_you_mean(name, self.devices)}") from None

    def profile(self, name: str) -> Profile:
        """Give a profile; raise UnknownProfile with a suggestion."""
        try:
            return self.profiles[name]
        except KeyError:
            raise UnknownProfile(f"unknown profile `{name}`: {did_you_mean(name, self.profiles)}") from None

    def cells(self) -> Iterator[Cell]:
        """Give every kernel cell, then every component cell, in order of id within each op or kind."""
        for cells in self.kernels.values():
            yield from cells
        for cells in self.components.values():
            yield from cells

    def chain(self, device: str) -> tuple[str, ...]:
        """Give a device and what it falls back to, in order."""
        out = [device]
        while (following := self.devices[out[-1]].falls_back_to) is not None:
            out.append(following)
        return tuple(out)


def _restored(data: dict[str, Any]) -> Table:
    return Table(**data, attributes=attributes_of(data["ops"]))


class _Attribute(str):
    """The name of an op as an attribute of whatever gives things by that name: what it gives stands before it then."""

    __slots__ = ()

    def __get__(self, found_in: Any, owner: type) -> Any:
        if found_in is None:
            return self
        name = str(self)
        found = found_in[name]
        setattr(found_in, name, found)  # and not `__dict__`, to be asked for which makes attributes dearer
        return found


def attributes_of(ops: Iterable[str]) -> type:
    """Make a class with an attribute per op, to be derived from: see Note [What a resolved call costs]."""
    names = [*ops]
    return type("Ops", (), {**dict(zip(names, map(_Attribute, names), strict=True)), "__slots__": ()})
