"""Documents to one validated whole: finding files, validating each, merging them, and the JSON Schemas.

Owns what a unit is (a directory of manifests and the packages it may bind), and the merged declarations with their
places. Judges nothing across entries except that a name is declared once: that is for `rung.rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from yaml import Mark

from rung import lattice
from rung.bind import LOCAL
from rung.diagnostics import Problems, Where, did_you_mean
from rung.entries import Arch, Device, Jit, LocalRow, Pattern, Target
from rung.models import (
    ComponentModel,
    DeviceModel,
    ExpressionModel,
    FactsFile,
    KernelModel,
    KindModel,
    ManifestFile,
    OpModel,
    ProfileModel,
)
from rung.shape import bad_places, validate
from rung.source import Document, Node, read_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

__all__ = [
    "BackendEntry",
    "CellEntry",
    "Entry",
    "Manifests",
    "Unit",
    "manifest_files",
    "merge",
    "schemas",
]

_NOWHERE: Final = Mark("", 0, 0, 0, "", 0)
MAX_FILES: Final = 1024
MAX_TOTAL_BYTES: Final = 64 * 1024 * 1024
MAX_CELLS: Final = 200_000

T = TypeVar("T")
Loc = tuple[str | int, ...]


@dataclass(frozen=True)
class Unit:
    """A directory (or single file) of manifests, how it is shown, and the top-level packages it may bind.

    `roots` of None means any: only for a check that imports nothing.
    """

    path: Path
    shown: str
    roots: frozenset[str] | None
    label: str = ""


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One declaration: its name, its model and where it stands."""

    name: str
    model: T
    document: Document
    loc: Loc
    unit: Unit

    @property
    def where(self) -> Where:
        """The place of the entry's key."""
        return self.document.where(self.loc, key=True)

    def at(self, *loc: str | int, key: bool = False) -> Where:
        """Give the place of something inside the entry."""
        return self.document.where((*self.loc, *loc), key=key)


@dataclass(frozen=True)
class BackendEntry:
    """One backend file: its header and its cells, each with its original position in the file."""

    name: str
    file: ManifestFile
    document: Document
    unit: Unit
    kernels: tuple[tuple[str, int, KernelModel], ...]
    components: tuple[tuple[str, int, ComponentModel], ...]

    @property
    def where(self) -> Where:
        """The place of `backend:`."""
        return self.document.where(("backend",))

    def at(self, *loc: str | int, key: bool = False) -> Where:
        """Give the place of something in the file."""
        return self.document.where(loc, key=key)


@dataclass(frozen=True, slots=True)
class CellEntry:
    """One cell of the product a manifest row stands for. `arch` is None for a component."""

    id: str
    backend: BackendEntry
    serves: str
    index: int
    device: str
    arch: str | None
    variant: str
    model: KernelModel | ComponentModel

    @property
    def section(self) -> str:
        """`kernels` or `components`."""
        return "components" if self.arch is None else "kernels"

    @property
    def key(self) -> tuple[str | None, ...]:
        """What may be served once only."""
        return (self.section, self.serves, self.device, self.arch, self.variant)

    @property
    def where(self) -> Where:
        """The place of the row."""
        return self.backend.at(self.section, self.serves, self.index)

    def at(self, key: str, value: str) -> Where:
        """Give the place of one value of a key that holds one or several."""
        loc: Loc = (self.section, self.serves, self.index, key)
        node = self.backend.document.node(loc)
        for position, item in enumerate(node.items or ()):
            if item.data == value:
                return self.backend.document.where((*loc, position))
        return self.backend.document.where(loc)


@dataclass
class Manifests:
    """Everything declared, merged.

    `known` also has names whose entries were rejected, so that one fault is not reported again wherever the
    name is used.
    """

    units: tuple[Unit, ...] = ()
    documents: list[Document] = field(default_factory=list)
    devices: dict[str, Entry[DeviceModel]] = field(default_factory=dict)
    predicates: dict[str, Entry[ExpressionModel]] = field(default_factory=dict)
    ops: dict[str, Entry[OpModel]] = field(default_factory=dict)
    kinds: dict[str, Entry[KindModel]] = field(default_factory=dict)
    profiles: dict[str, Entry[ProfileModel]] = field(default_factory=dict)
    backends: dict[str, BackendEntry] = field(default_factory=dict)
    known: dict[str, set[str]] = field(default_factory=dict)
    replaced: set[Loc] = field(default_factory=set)
    problems: Problems = field(default_factory=Problems)

    def names(self, section: str) -> set[str]:
        """Give the names of a section, rejected entries included."""
        return self.known.setdefault(section, set())

    @cached_property
    def device_records(self) -> dict[str, Device]:
        """The devices as the runtime sees them."""
        return {name: device_record(entry) for name, entry in sorted(self.devices.items())}

    @cached_property
    def cells(self) -> tuple[CellEntry, ...]:
        """Every cell: rows expanded over device, arch and variant, arch aliases resolved."""
        out: list[CellEntry] = []
        for backend in self.backends.values():
            for op, index, kernel in backend.kernels:
                for device in kernel.device:
                    record = self.device_records.get(device)
                    for written in kernel.arch:
                        arch = record.aliases.get(written, written) if record is not None else written
                        for variant in kernel.variant:
                            cell_id = f"{backend.name}/{op}@{device}.{arch}#{variant}"
                            out.append(CellEntry(cell_id, backend, op, index, device, arch, variant, kernel))
            for kind, index, component in backend.components:
                for device in component.device:
                    for variant in component.variant:
                        cell_id = f"{backend.name}/{kind}@{device}#{variant}"
                        out.append(CellEntry(cell_id, backend, kind, index, device, None, variant, component))
        if not self.replaced:
            return tuple(out)
        winners = {c.key for c in out if c.backend.name == LOCAL and (c.section, c.serves, c.index) in self.replaced}
        return tuple(c for c in out if c.backend.name == LOCAL or c.key not in winners)


def device_record(entry: Entry[DeviceModel]) -> Device:
    """Make the runtime's record of a device."""
    model = entry.model
    pattern = Pattern(model.pattern.prefix, model.pattern.digits == "hex") if model.pattern else None
    return Device(
        name=entry.name,
        summary=model.summary,
        where=entry.where,
        detect=model.detect,
        falls_back_to=model.falls_back_to,
        arrays=tuple(model.arrays),
        pattern=pattern,
        aliases=dict(sorted(model.aliases.items())),
        archs={name: Arch(name, tuple(arch.runs)) for name, arch in sorted(model.archs.items())},
        targets={
            name: Target(name, target.only, tuple(target.family or ()))
            for name, target in sorted(model.targets.items())
        },
        jit=Jit(model.jit.prefix, model.jit.rule) if model.jit else None,
        portable=tuple(model.portable),
    )


def manifest_files(unit: Unit) -> list[tuple[Path, str]]:
    """Give a unit's files with how each is shown, sorted. Links are followed only to plain files below it."""
    if unit.path.is_file():
        return [(unit.path, unit.shown)]
    base = unit.path.resolve()
    found: list[tuple[Path, str]] = []
    for path in unit.path.rglob("*"):
        if path.suffix in (".yaml", ".yml") and path.is_file() and path.resolve().is_relative_to(base):
            inner = path.relative_to(unit.path).as_posix()
            found.append((path, f"{unit.shown.rstrip('/')}/{inner}" if unit.shown else inner))
    return sorted(found, key=lambda pair: pair[1])


@dataclass(slots=True)
class _LocalDocument(Document):
    """The rows registered from Python as one document, in which every row keeps its caller's place."""

    places: dict[Loc, Where] = field(default_factory=dict)

    def where(self, loc: Iterable[str | int] = (), *, key: bool = False) -> Where:
        path = tuple(loc)[:3]
        return next(place for row, place in reversed(self.places.items()) if row[: len(path)] == path)


def _add_local(whole: Manifests, rows: Iterable[LocalRow]) -> None:
    data: dict[str, Any] = {
        "manifest": 1,
        "backend": LOCAL,
        "arrays": "numpy",
        "kernels": {},
        "components": {},
    }
    places: dict[Loc, Where] = {}
    for row in rows:
        listed = data[row.section].setdefault(row.serves, [])
        places[row.section, row.serves, len(listed)] = row.where
        if row.replaces:
            whole.replaced.add((row.section, row.serves, len(listed)))
        listed.append(dict(row.row))
    if places:
        document = _LocalDocument("", _bare(data), "", [], places)
        _add_document(whole, document, Unit(Path(), "", frozenset({LOCAL}), "this process"))


def merge(units: Iterable[Unit], local: Iterable[LocalRow] = ()) -> Manifests:
    """Read, validate and merge units. Every finding is in `problems`; what is sound is in the sections."""
    whole = Manifests(units=tuple(units))
    total = count = 0
    for unit in whole.units:
        for path, shown in manifest_files(unit):
            count += 1
            total += path.stat().st_size
            if count > MAX_FILES or total > MAX_TOTAL_BYTES:
                limit = f"{MAX_FILES} files" if count > MAX_FILES else f"{MAX_TOTAL_BYTES} bytes in all"
                whole.problems.add("RG004", Where(shown), f"the manifests exceed the limit of {limit}")
                return whole
            document = read_path(path, shown, whole.problems)
            if document is not None:
                whole.documents.append(document)
                _add_document(whole, document, unit)
    _add_local(whole, local)
    if len(whole.cells) > MAX_CELLS:
        message = f"{len(whole.cells)} cells exceed the limit of {MAX_CELLS}"
        whole.problems.add("RG004", whole.cells[MAX_CELLS].where, message)
    return whole


def _add_document(whole: Manifests, document: Document, unit: Unit) -> None:
    problems = whole.problems
    data = document.root.data
    if not isinstance(data, dict):
        problems.add("RG202", document.where(), "a manifest is a mapping that starts with `manifest: 1`")
        return
    version = data.get("manifest")
    if "manifest" in data and (version.__class__ is not int or version != 1):
        if not document.node(("manifest",)).bad:
            hint = "this rung reads `manifest: 1`"
            problems.add("RG005", document.where(("manifest",)), f"unsupported manifest version `{version}`", hint=hint)
        return
    _remember_names(whole, data)
    # Bad nodes hold placeholders: their entries leave before and after the models see the document.
    places = list(bad_places(document.root))
    outcome = validate(ManifestFile, document, problems)
    indices: dict[Loc, list[int]] = {}
    if isinstance(outcome, list) or places:
        places += outcome if isinstance(outcome, list) else []
        pruned = _pruned(data, places, indices)
        outcome = validate(ManifestFile, Document(document.path, _bare(pruned), "", []), Problems())
        if isinstance(outcome, list):  # a fault of the file as a whole, such as no `manifest:`
            return
    _add_file(whole, outcome, document, unit, indices)


_SECTIONS = ("devices", "predicates", "ops", "kinds", "profiles")


def _remember_names(whole: Manifests, data: dict[str, Any]) -> None:
    for section in _SECTIONS:
        names = data.get(section)
        if isinstance(names, dict):
            whole.names(section).update(names)


def _pruned(data: dict[str, Any], places: Iterable[Loc], indices: dict[Loc, list[int]]) -> dict[str, Any]:
    """Copy a document without the entries that hold a fault, noting where remaining cells stood."""
    drop: set[Loc] = set()
    for place in places:
        if place[:1] in (("kernels",), ("components",)):
            drop.add(place[:3])
        elif place[:1] and place[0] in _SECTIONS:
            drop.add(place[:2])
        else:
            drop.add(place[:1])
    out: dict[str, Any] = {}
    for section, entries in data.items():
        if (section,) in drop:
            continue
        if not isinstance(entries, dict) or section not in (*_SECTIONS, "kernels", "components"):
            out[section] = entries
            continue
        kept: dict[str, Any] = {}
        for name, entry in entries.items():
            if (section, name) in drop:
                continue
            if isinstance(entry, list):
                positions = [i for i in range(len(entry)) if (section, name, i) not in drop]
                if positions:
                    kept[name] = [entry[i] for i in positions]
                    indices[section, name] = positions
            else:
                kept[name] = entry
        out[section] = kept
    if ("backend",) in drop or ("arrays",) in drop or ("requires",) in drop:
        for key in ("kernels", "components"):
            out.pop(key, None)
    return out


def _bare(data: dict[str, Any]) -> Node:
    """Give data as a node without a place of its own."""
    return Node(data, _NOWHERE, _NOWHERE)


def _add_file(
    whole: Manifests, file: ManifestFile, document: Document, unit: Unit, indices: dict[Loc, list[int]]
) -> None:
    for section in _SECTIONS:
        entries: dict[str, Entry[Any]] = getattr(whole, section)
        for name, model in getattr(file, section).items():
            entry = Entry(name, model, document, (section, name), unit)
            if name in entries:
                _declared_twice(whole, f"{section[:-1]} `{name}`", entry.where, entries[name].where)
            else:
                entries[name] = entry
    has_cells = bool(file.kernels or file.components)
    if file.backend is None:
        for key in ("kernels", "components", "requires", "hint", "arrays"):
            if key in file.model_fields_set and "backend" not in document.root.data:  # type: ignore[operator]
                hint = "add `backend: NAME`; one backend is one file"
                where = document.where((key,), key=True)
                whole.problems.add("RG203", where, f"`{key}` belongs to a backend, and none is named", hint=hint)
                break
        return
    if file.arrays is None and has_cells:
        whole.problems.add(
            "RG203", document.where(("backend",)), f"backend `{file.backend}` has no `arrays`",
            hint="add `arrays: numpy` or `arrays: torch`: what its functions take and give",
        )  # fmt: skip
        return

    def placed(section: str, rows: dict[str, list[Any]]) -> tuple[tuple[str, int, Any], ...]:
        return tuple(
            (name, indices.get((section, name), range(len(cells)))[i], cell)
            for name, cells in rows.items()
            for i, cell in enumerate(cells)
        )

    backend = BackendEntry(
        file.backend,
        file,
        document,
        unit,
        placed("kernels", file.kernels),
        placed("components", file.components),
    )
    whole.names("backends").add(file.backend)
    if file.backend in whole.backends:
        first = whole.backends[file.backend].where
        _declared_twice(whole, f"backend `{file.backend}`", backend.where, first)
        return
    whole.backends[file.backend] = backend


def _declared_twice(whole: Manifests, what: str, where: Where, first: Where) -> None:
    message = f"{what} is declared twice"
    whole.problems.add("RG309", where, message, hint="keep one of them", related=((first, "first declared"),))


def unknown_arch(whole: Manifests, device: str, arch: str) -> str | None:
    """Give a hint when `arch` is no legal target of `device`, None when it is one."""
    record = whole.device_records[device]
    arch = record.aliases.get(arch, arch)
    if lattice.is_target(record, arch):
        return None
    return did_you_mean(arch, lattice.targets(record))


def schemas() -> dict[str, dict[str, Any]]:
    """Give the JSON Schemas by file name."""
    out: dict[str, dict[str, Any]] = {}
    titles: dict[str, tuple[type[BaseModel], str]] = {
        "manifest.schema.json": (ManifestFile, "rung manifest"),
        "facts.schema.json": (FactsFile, "rung facts"),
    }
    for name, (model, title) in titles.items():
        schema = model.model_json_schema(by_alias=True)
        out[name] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
    return out
