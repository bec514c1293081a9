"""The `Table`: everything the runtime needs to know of the manifests, compiled, and its file form.

Owns the record, the questions that need nothing but it, and how it is written and read back. Knows no YAML; the
authoring half makes it.

Note [Cells are made when asked for]: a file may hold a hundred thousand cells, and a program resolves a few ops. So in
a table that was read from a file the cells of an op stay plain lists until somebody looks at that op.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rung.diagnostics import UnknownDevice, UnknownKind, UnknownOp, UnknownProfile, Where, did_you_mean
from rung.entries import (
    Arch,
    Backend,
    Cell,
    Device,
    Expression,
    Jit,
    Kind,
    Op,
    Pattern,
    Profile,
    Target,
    cell_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FORMAT", "Table", "Wanted", "dump", "restore"]

FORMAT: Final = 1
"""The version of the file form: a file of another one is not read."""


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


def dump(table: Table, places: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """Give the file form of a table as plain data for JSON.

    `places` says for each file that a record was declared in which unit it belongs to and how it is called there, so
    that a table may be read where its manifests lie elsewhere.
    """
    files = sorted(places)
    number = {path: index for index, path in enumerate(files)}

    def where(place: Where) -> list[int]:
        return [number[place.path], place.line, place.column, place.end_line, place.end_column]

    def cells(of: Mapping[str, tuple[Cell, ...]]) -> dict[str, list[list[Any]]]:
        return {
            name: [
                [
                    c.backend, c.device, c.arch, c.variant, c.arrays, c.impl, c.artifact, where(c.where),
                    c.needs, c.exclude, c.degraded, c.hint, c.workspace_bytes,
                ]
                for c in found
            ]
            for name, found in of.items()
        }  # fmt: skip

    return {
        "files": [places[path] for path in files],
        "devices": [
            [
                d.name, d.summary, where(d.where), d.detect, d.falls_back_to, d.arrays, d.torch,
                [d.pattern.prefix, d.pattern.hex] if d.pattern else None, dict(d.aliases),
                [[a.name, a.runs] for a in d.archs.values()],
                [[t.name, t.only, t.family] for t in d.targets.values()],
                [d.jit.prefix, d.jit.rule] if d.jit else None, d.portable,
            ]
            for d in table.devices.values()
        ],
        "ops": [
            [
                o.name, o.summary, o.signature, o.reference, where(o.where), o.cases,
                {dtype: dict(value) for dtype, value in o.tolerance.items()}, dict(o.variants),
            ]
            for o in table.ops.values()
        ],
        "kinds": [[k.name, k.summary, where(k.where)] for k in table.kinds.values()],
        "backends": [[b.name, b.arrays, where(b.where), b.hint] for b in table.backends.values()],
        "profiles": [
            [p.name, p.devices, dict(p.fall), p.only, {op: dict(chains) for op, chains in p.chains.items()}]
            for p in table.profiles.values()
        ],
        "predicates": {name: _plain(expression) for name, expression in table.predicates.items()},
        "named": {name: where(place) for name, place in table.named.items()},
        "kernels": cells(table.kernels),
        "components": cells(table.components),
    }  # fmt: skip


def restore(data: Mapping[str, Any], units: Sequence[str], roots: frozenset[str]) -> Table:
    """Make a table from its file form; `units` are the units' shown paths, in the order they had.

    What cells may bind, `roots`, is said by the caller and by no file.
    Raise KeyError, IndexError, TypeError or ValueError for what is no file form.
    """
    files = [_joined(units[unit], inner) for unit, inner in data["files"]]

    def where(place: Sequence[int]) -> Where:
        return Where(files[place[0]], *place[1:])

    devices = {}
    for name, summary, place, detect, below, arrays, torch, pattern, aliases, archs, targets, jit, portable in data[
        "devices"
    ]:
        devices[name] = Device(
            name,
            summary,
            where(place),
            detect,
            below,
            tuple(arrays),
            torch,
            Pattern(*pattern) if pattern else None,
            aliases,
            {arch: Arch(arch, tuple(runs)) for arch, runs in archs},
            {target: Target(target, only, tuple(family)) for target, only, family in targets},
            Jit(*jit) if jit else None,
            tuple(portable),
        )
    ops = {}
    for name, summary, signature, reference, place, cases, tolerance, variants in data["ops"]:
        chains = {variant: tuple(chain) for variant, chain in variants.items()}
        ops[name] = Op(name, summary, signature, reference, where(place), cases, tolerance, chains)
    profiles = {}
    for name, order, fall, only, replaced in data["profiles"]:
        chains_of = {op: {v: tuple(chain) for v, chain in chains.items()} for op, chains in replaced.items()}
        profiles[name] = Profile(name, tuple(order), fall, only, chains_of)
    return Table(
        devices=devices,
        ops=ops,
        kinds={name: Kind(name, summary, where(place)) for name, summary, place in data["kinds"]},
        backends={name: Backend(name, arrays, where(place), hint) for name, arrays, place, hint in data["backends"]},
        profiles=profiles,
        predicates={name: _expression(plain) for name, plain in data["predicates"].items()},
        named={name: where(place) for name, place in data["named"].items()},
        kernels=_Cells(data["kernels"], files),
        components=_Cells(data["components"], files),
        roots=roots,
    )


def _joined(unit: str, inner: str) -> str:
    return inner if unit in ("", ".") else f"{unit}/{inner}" if inner else unit


class _Cells(Mapping[str, tuple[Cell, ...]]):
    """The cells of each op or kind; see Note [Cells are made when asked for]."""

    __slots__ = ("_files", "_made", "_rows")

    def __init__(self, rows: dict[str, list[list[Any]]], files: Sequence[str]) -> None:
        self._rows = rows
        self._files = files
        self._made: dict[str, tuple[Cell, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Cell, ...]:
        made = self._made.get(name)
        if made is None:  # two threads may make them at once: both get those that were kept first
            made = self._made.setdefault(name, tuple(self._cell(name, *row) for row in self._rows[name]))
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _cell(
        self, serves: str, backend: str, device: str, arch: str | None, variant: str, arrays: str, impl: str,
        artifact: str | None, place: Sequence[int], needs: Sequence[str], exclude: Sequence[str], degraded: str,
        hint: str, workspace_bytes: int | None,
    ) -> Cell:  # fmt: skip
        return Cell(
            cell_id(backend, serves, device, arch, variant), backend, serves, device, arch, variant, arrays, impl,
            artifact, Where(self._files[place[0]], *place[1:]), tuple(needs), tuple(exclude), degraded, hint,
            workspace_bytes,
        )  # fmt: skip


def _plain(expression: Expression) -> list[Any]:
    return [expression.key, [_plain(term) for term in expression.terms], expression.args, expression.why]


def _expression(plain: Sequence[Any]) -> Expression:
    key, terms, args, why = plain
    given = tuple((name, value if isinstance(value, str) else tuple(value)) for name, value in args)
    return Expression(key, tuple(_expression(term) for term in terms), given, why)
