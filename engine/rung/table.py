"""The `Table`: everything the runtime needs to know of the manifests, compiled.

Owns the record and the questions that need nothing but it. Knows no YAML; the authoring half makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rung.diagnostics import UnknownDevice, UnknownKind, UnknownOp, UnknownProfile, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rung.diagnostics import Where
    from rung.entries import Backend, Cell, Device, Expression, Kind, Op, Profile

__all__ = ["Table", "Wanted"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The names predicates ask facts for, so that a snapshot of a machine can hold exactly those."""

    devices: tuple[str, ...]
    modules: tuple[tuple[str, str], ...]
    files: tuple[str, ...]
    env: tuple[str, ...]
    probes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """All declared entries. `kernels` and `components` hold the cells of each op and kind, sorted by id.

    `predicates` holds named ones and, under their text, inline ones; `named` are the declared names.
    `roots` are the top-level packages cells may bind. `failures` are the paths that could not be bound in this
    process, with the cause; `memo` is for upper layers, to keep what they derive from this table as long as it.
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
    roots: frozenset[str] = field(default_factory=frozenset)
    failures: dict[str, str] = field(default_factory=dict, repr=False)
    memo: dict[object, Any] = field(default_factory=dict, repr=False)

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

    def wanted(self) -> Wanted:
        """Give every name some predicate asks facts for."""
        atoms = [atom for expression in self.predicates.values() for atom in expression.atoms()]
        return Wanted(
            devices=tuple(sorted(self.devices)),
            modules=tuple(
                sorted(
                    {(a.get("name"), a.get("dist")) for a in atoms if a.key == "module"}
                    | {(name, "") for device in self.devices.values() for name in device.arrays}
                )
            ),
            files=tuple(sorted({a.get("has") for a in atoms if a.key == "module" and a.get("has")})),
            env=tuple(sorted({"RUNG_DISABLE"} | {a.get("name") for a in atoms if a.key == "env"})),
            probes=tuple(sorted({a.get("name") for a in atoms if a.key == "probe"})),
        )
