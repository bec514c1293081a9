"""Documents to one validated whole: finding files, validating each, merging them.

Owns what a unit is (a directory of manifests and the packages it may bind), and the merged declarations with their
places. Judges nothing across entries except that a name is declared once: that is for `rung.rules`.
"""

from __future__ import annotations

import gc
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import ValidationError

from rung.bind import LOCAL
from rung.diagnostics import Problems, Where, printable, shorten
from rung.entries import Arch, Device, Jit, LocalRow, Pattern, Target
from rung.models import (
    ComponentModel,
    DeviceModel,
    ExpressionModel,
    KernelModel,
    KindModel,
    ManifestFile,
    OpModel,
    PlatformModel,
    ProfileModel,
)
from rung.shape import bad_places, may_stand_for, validate
from rung.source import NOWHERE, Document, Node, read, read_path

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

__all__ = [
    "BackendEntry",
    "CellEntry",
    "Entry",
    "Manifests",
    "Unit",
    "collector_paused",
    "manifest_files",
    "merge",
]

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
    """One backend file: its header and its cells, each with its original position in the file.

    `lost` are the places of keys with a fault, taken out so that what is sound around them is judged all the same.
    """

    name: str
    file: ManifestFile
    document: Document
    unit: Unit
    kernels: tuple[tuple[str, int, KernelModel], ...]
    components: tuple[tuple[str, int, ComponentModel], ...]
    lost: frozenset[Loc] = frozenset()

    @property
    def where(self) -> Where:
        """The place of `backend:`."""
        return self.document.where(("backend",))

    def at(self, *loc: str | int, key: bool = False) -> Where:
        """Give the place of something in the file."""
        return self.document.where(loc, key=key)

    @property
    def is_named(self) -> bool:
        """Whether the header says whose rows these are, and what they take."""
        return self.file.backend is not None and self.file.arrays is not None

    def is_whole(self, *loc: str | int) -> bool:
        """Say whether nothing was taken out of a row, or of anything else in the file."""
        return not self.lost or loc not in self._damaged

    @cached_property
    def _damaged(self) -> set[Loc]:
        return {lost[:size] for lost in self.lost for size in range(len(lost) + 1)}


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
    def is_whole(self) -> bool:
        """Whether the row is all that was written: no key of it was taken out for a fault."""
        return self.backend.is_whole(self.section, self.serves, self.index)

    @property
    def where(self) -> Where:
        """The place of the row."""
        return self.backend.at(self.section, self.serves, self.index)


@dataclass
class Manifests:
    """Everything declared, merged.

    `known` also has names whose entries were rejected, `mentioned` every word of files that could not be read (None
    when not even that is known): so that one fault is not reported again wherever a name is used. `memo` is for what
    the rules have in common and is found once.
    """

    units: tuple[Unit, ...] = ()
    documents: list[Document] = field(default_factory=list)
    devices: dict[str, Entry[DeviceModel]] = field(default_factory=dict)
    predicates: dict[str, Entry[ExpressionModel]] = field(default_factory=dict)
    ops: dict[str, Entry[OpModel]] = field(default_factory=dict)
    kinds: dict[str, Entry[KindModel]] = field(default_factory=dict)
    profiles: dict[str, Entry[ProfileModel]] = field(default_factory=dict)
    platforms: dict[str, Entry[PlatformModel]] = field(default_factory=dict)
    backends: dict[str, BackendEntry] = field(default_factory=dict)
    known: dict[str, set[str]] = field(default_factory=dict)
    mentioned: set[str] | None = field(default_factory=set)
    replaced: set[Loc] = field(default_factory=set)
    problems: Problems = field(default_factory=Problems)
    memo: dict[str, Any] = field(default_factory=dict)

    def names(self, section: str) -> set[str]:
        """Give the names of a section, of `variants of OP`, of `archs of DEVICE`; those of rejected ones included."""
        return self.known.setdefault(section, set())

    def is_unknown(self, name: str, legal: Container[str]) -> bool:
        """Say whether a name is certainly not declared: not even in a file that could not be read."""
        return name not in legal and not self.is_mentioned(name)

    def is_mentioned(self, name: str) -> bool:
        """Say whether a file that could not be read may say something of a name."""
        return self.mentioned is None or name in self.mentioned

    def is_lost(self, device: str, name: str) -> bool:
        """Say whether an arch, target or alias of a device was rejected, so that nothing can be said of its use."""
        model = self.devices[device].model
        return any(
            name in self.names(f"{key} of {device}") and name not in getattr(model, key)
            for key in ("archs", "targets", "aliases")
        )

    @cached_property
    def device_records(self) -> dict[str, Device]:
        """The devices as the runtime sees them."""
        return {name: device_record(entry) for name, entry in sorted(self.devices.items())}

    def target(self, device: str, written: str) -> str:
        """Give the target or arch a manifest means, aliases of the device resolved."""
        record = self.device_records.get(device)
        return written if record is None else record.aliases.get(written, written)

    @cached_property
    def cells(self) -> tuple[CellEntry, ...]:
        """Every cell: rows expanded over device, arch and variant, arch aliases resolved."""
        out: list[CellEntry] = []
        for backend in self.backends.values():
            for op, index, kernel in backend.kernels:
                for device, written, variant in product(kernel.device, kernel.arch, kernel.variant):
                    arch = self.target(device, written)
                    cell_id = f"{backend.name}/{op}@{device}.{arch}#{variant}"
                    out.append(CellEntry(cell_id, backend, op, index, device, arch, variant, kernel))
            for kind, index, component in backend.components:
                for device, variant in product(component.device, component.variant):
                    cell_id = f"{backend.name}/{kind}@{device}#{variant}"
                    out.append(CellEntry(cell_id, backend, kind, index, device, None, variant, component))
        if not self.replaced:
            return tuple(out)
        # Registered rows are in the order of registration: one that replaces takes the key from all before it.
        since = {
            c.key: c.index for c in out if c.backend.name == LOCAL and (c.section, c.serves, c.index) in self.replaced
        }
        return tuple(c for c in out if c.key not in since or (c.backend.name == LOCAL and c.index >= since[c.key]))


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
        torch=model.torch,
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


def manifest_files(unit: Unit, problems: Problems | None = None) -> list[tuple[Path, str]]:
    """Give a unit's files with how each is shown, sorted; report what looks like one and cannot be taken.

    Names that start with a dot are passed over. A link counts when it leads to a file inside the unit.
    """
    problems = problems if problems is not None else Problems()
    try:
        if unit.path.is_file():
            return [(unit.path, printable(unit.shown))]
        base = unit.path.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links is the latter up to Python 3.12
        problems.add("RG001", Where(printable(unit.shown)), f"cannot be read: {error}")
        return []
    found: list[tuple[Path, str]] = []
    folders = [(unit.path, "" if unit.shown in ("", ".") else unit.shown.rstrip("/") + "/")]
    while folders:
        folder, prefix = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            problems.add("RG001", Where(printable(prefix)), f"cannot be listed: {error.strerror or error}")
            continue
        for entry in entries:
            shown = prefix + entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append((folder / entry.name, shown + "/"))
            elif entry.name.endswith((".yaml", ".yml")):
                fault = _link_fault(entry, base) if entry.is_symlink() else ""
                if fault:
                    problems.add("RG001", Where(printable(shown)), fault, hint="remove it, or name its target instead")
                elif entry.is_file():
                    found.append((folder / entry.name, printable(shown)))
                elif not entry.is_dir():
                    hint = "remove it, or name it differently"
                    problems.add("RG001", Where(printable(shown)), "not a regular file", hint=hint)
    return sorted(found, key=lambda pair: pair[1])


def _link_fault(link: os.DirEntry[str], base: Path) -> str:
    try:
        target = Path(link.path).resolve(strict=True)
    except (OSError, RuntimeError):
        return "a link that leads nowhere"
    return "" if target.is_relative_to(base) or not target.is_file() else "a link that leads out of its directory"


@dataclass(slots=True)
class _LocalDocument(Document):
    """The rows registered from Python as one document, in which every row keeps its caller's place."""

    places: dict[Loc, Where] = field(default_factory=dict)

    def where(self, loc: Iterable[str | int] = (), *, key: bool = False) -> Where:
        path = tuple(loc)[:3]
        places = (place for row, place in reversed(self.places.items()) if row[: len(path)] == path)
        return next(places, next(iter(self.places.values())))


def _add_local(whole: Manifests, rows: Iterable[LocalRow]) -> None:
    data: dict[str, Any] = {"manifest": 1, "backend": LOCAL, "arrays": "numpy", "kernels": {}, "components": {}}
    places: dict[Loc, Where] = {}
    for row in rows:
        listed = data[row.section].setdefault(row.serves, [])
        places[row.section, row.serves, len(listed)] = row.where
        if row.replaces:
            whole.replaced.add((row.section, row.serves, len(listed)))
        listed.append(dict(row.row))
    if places:
        document = _LocalDocument("", _tree(data), "", [], places=places)
        _add_document(whole, document, Unit(Path(), "", frozenset({LOCAL}), "this process"), len(whole.problems))


def _tree(data: Any) -> Node:
    """Give data as nodes without places of their own."""
    node = Node(data, NOWHERE, NOWHERE)
    if isinstance(data, dict):
        node.values = {key: _tree(value) for key, value in data.items()}
    elif isinstance(data, list):
        node.items = [_tree(item) for item in data]
    return node


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: manifests are many objects without cycles, and walking them takes half the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@collector_paused()
def merge(
    units: Iterable[Unit], local: Iterable[LocalRow] = (), texts: Mapping[Path, bytes] | None = None
) -> Manifests:
    """Read, validate and merge units. Every finding is in `problems`; what is sound is in the sections.

    A file that several units hold belongs to the first of them. `texts` are taken instead of what files hold, by
    resolved path.
    """
    whole = Manifests(units=tuple(units))
    taken: set[Path] = set()
    total = 0
    for unit in whole.units:
        faults = len(whole.problems)
        listed = manifest_files(unit, whole.problems)
        if len(whole.problems) > faults:
            whole.mentioned = None
        fresh: dict[Path, tuple[Path, str]] = {}
        for path, shown in listed:
            resolved = path.resolve()
            if resolved not in taken:
                fresh.setdefault(resolved, (path, shown))
        count = len(taken) + len(fresh)
        for resolved, (path, shown) in fresh.items():
            taken.add(resolved)
            before = len(whole.problems)
            text = texts.get(resolved) if texts is not None else None
            document = read(text, shown, whole.problems) if text is not None else read_path(path, shown, whole.problems)
            total += document.size if document is not None else 0
            if len(taken) > MAX_FILES or total > MAX_TOTAL_BYTES:
                message = f"{count} manifest files exceed the limit of {MAX_FILES}"
                if len(taken) <= MAX_FILES:
                    message = f"manifests of {total} bytes in all exceed the limit of {MAX_TOTAL_BYTES}"
                whole.problems.add("RG004", Where(shown), message, hint="name fewer directories")
                whole.mentioned = None
                return whole
            if document is None:
                whole.mentioned = None
            else:
                whole.documents.append(document)
                _add_document(whole, document, unit, before)
    _add_local(whole, local)
    _limit_cells(whole)
    return whole


def _limit_cells(whole: Manifests) -> None:
    """Count cells before they are made: a row of three lists stands for their product."""
    total = 0
    where: Where | None = None
    for backend in whole.backends.values():
        for section, rows in (("kernels", backend.kernels), ("components", backend.components)):
            for name, index, row in rows:
                total += len(row.device) * len(row.variant) * len(getattr(row, "arch", ("",)))
                if total > MAX_CELLS and where is None:
                    where = backend.at(section, name, index)
    if where is not None:
        message = f"{total} cells exceed the limit of {MAX_CELLS}"
        whole.problems.add("RG004", where, message, hint="shorten this row's lists")
        whole.backends.clear()


def _add_document(whole: Manifests, document: Document, unit: Unit, faults: int) -> None:
    """Validate a document and add what is sound of it; `faults` were found before it was read."""
    problems = whole.problems
    data = document.root.data
    if not document.usable or not isinstance(data, dict):
        if whole.mentioned is not None:
            whole.mentioned.update(word for line in document.lines for word in _WORD.findall(line))
        if document.usable and not document.root.bad:
            hint = "start with `manifest: 1`, then `ops:`, `backend:` and so on"
            problems.add("RG202", document.where(), "a manifest is a mapping", hint=hint)
        return
    _remember_names(whole, data)
    version = data.get("manifest", 1)
    if version.__class__ is not int or version != 1:
        if not document.node(("manifest",)).bad:
            hint = "this rung reads `manifest: 1`"
            shown = f'"{version}"' if isinstance(version, str) else str(version)
            message = f"unsupported manifest version `{shorten(shown)}`"
            problems.add("RG005", document.where(("manifest",)), message, hint=hint)
        return
    places = [*bad_places(document.root)] if len(problems) > faults else []
    outcome = validate(ManifestFile, document, problems)
    if not isinstance(outcome, list) and not places:
        _add_file(whole, outcome, document, unit, _Pruning(data))
        return
    if outcome == []:
        return
    # Entries with a fault leave, and the rest of the file is taken as if they had not been there.
    pruning = _Pruning(data)
    places += outcome if isinstance(outcome, list) else []
    try:
        file = ManifestFile.model_validate(pruning.without(places, parts=True))
    except ValidationError:  # something else did depend on a part that left
        file = ManifestFile.model_validate(pruning.without(places, parts=False))
    _add_file(whole, file, document, unit, pruning)


_SECTIONS = ("devices", "predicates", "ops", "kinds", "profiles", "platforms")
_ROWS = ("kernels", "components")
# What may leave an entry by itself: nothing else in the entry means something else without it.
_LOOSE_KEYS = {
    ("devices", "detect"), ("ops", "cases"), ("profiles", "devices"), ("profiles", "only"),
    ("platforms", "os"), ("platforms", "machine"), ("platforms", "cpu"),
}  # fmt: skip
_LOOSE_ENTRIES = {
    ("devices", "archs"), ("devices", "targets"), ("devices", "aliases"),
    ("ops", "tolerance"), ("ops", "variants"), ("profiles", "fall"), ("profiles", "chains"),
}  # fmt: skip
_HEADER = ("backend", "arrays", "requires", "hint")
_NO_PATH = "rung:none"  # stands where a path with a fault was written
_WORD = re.compile(r"[A-Za-z0-9_.\-]+")


def _remember_names(whole: Manifests, data: dict[str, Any]) -> None:
    """Note what a document declares before anything of it is rejected."""
    for section, entries in data.items():
        if section in _SECTIONS and isinstance(entries, dict):
            whole.names(section).update(entries)
            for device, entry in entries.items() if section == "devices" else ():
                for key in ("archs", "targets", "aliases") if isinstance(entry, dict) else ():
                    whole.names(f"{key} of {device}").update(name for name, _ in _items(entry.get(key)))
        elif section == "backend" and isinstance(entries, str):
            whole.names("backends").add(entries)
        elif section not in ManifestFile.model_fields and whole.mentioned is not None:
            whole.mentioned.update(_texts(entries))  # a misspelt section
    for section in _ROWS:
        for name, rows in _items(data.get(section)):
            for row in rows if isinstance(rows, list) else ():
                variants = row.get("variant") if isinstance(row, dict) else None
                listed = variants if isinstance(variants, list) else [variants]
                whole.names(f"variants of {name}").update(v for v in listed if isinstance(v, str))


def _texts(value: Any) -> Iterator[str]:
    """Give every key and text in some data."""
    if isinstance(value, str):
        yield value
    for key, inner in _items(value):
        yield key
        yield from _texts(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _texts(inner)


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()


class _Pruning:
    """Takes what holds a fault out of a document: a part of an entry or cell, else all of it, else a key.

    `indices` has the original positions of the cells that stay, where some leave; `lost` the keys taken out of a
    backend's header and its cells.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.indices: dict[Loc, list[int]] = {}
        self.lost: set[Loc] = set()

    def without(self, places: Iterable[Loc], *, parts: bool) -> dict[str, Any]:
        """Copy the document without what holds a fault; with `parts`, entries keep what can stand without it."""
        drop: set[Loc] = set()
        for place in places:
            section = place[0] if place else ""
            depth = 1
            if section in _ROWS:
                depth = self.row_depth(place)
            elif section in _SECTIONS:
                depth = self.part_depth(place) if parts else 2
            if depth > 1 and len(place) == 1 and isinstance(self.data[str(section)], dict):
                continue  # what is at fault is a key that never came in
            drop.add(place[:depth])
        self.lost = {place for place in drop if len(place) == 4 or (len(place) == 1 and place[0] in _HEADER)}
        out: dict[str, Any] = {"manifest": 1}
        for section, entries in self.data.items():
            if (section,) in drop or section == "manifest":
                continue
            if section in _ROWS:
                out[section] = {name: rows for name, rows in self.rows(section, entries, drop) if rows}
            elif section in _SECTIONS:
                out[section] = {
                    name: self.entry((section, name), entry, drop)
                    for name, entry in entries.items()
                    if (section, name) not in drop
                }
            else:
                out[section] = entries
        return out

    def part_depth(self, place: Loc) -> int:
        """Give how much of a place in an entry leaves: a key, or one of its values, that nothing else depends on."""
        key = place[2] if len(place) > 2 else None
        if (place[0], key) in _LOOSE_KEYS:
            return 3
        return 4 if (place[0], key) in _LOOSE_ENTRIES and len(place) > 3 else 2

    def entry(self, loc: Loc, entry: Any, drop: set[Loc]) -> Any:
        if not isinstance(entry, dict):
            return entry
        kept = {key: value for key, value in entry.items() if (*loc, key) not in drop}
        for key, value in kept.items():
            if (loc[0], key) in _LOOSE_ENTRIES and isinstance(value, dict):
                kept[key] = {name: inner for name, inner in value.items() if (*loc, key, name) not in drop}
        return kept

    def row_depth(self, place: Loc) -> int:
        """Give how much of a place in a row leaves: one key, as long as what is left says its device."""
        if len(place) < 4 or place[3] == "device":
            return 3
        row = self.data[str(place[0])][place[1]][place[2]]
        return 4 if "device" in row and "impl" in row else 3

    def rows(self, section: str, entries: dict[str, Any], drop: set[Loc]) -> Iterator[tuple[str, list[Any]]]:
        for name, entry in entries.items():
            if (section, name) in drop:
                continue
            positions = [i for i in range(len(entry)) if (section, name, i) not in drop]
            self.indices[section, name] = positions
            yield name, [self.row((section, name, i), entry[i]) for i in positions]

    def row(self, loc: Loc, row: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in row.items() if (*loc, key) not in self.lost}
        return {"impl": _NO_PATH, **kept} if "impl" in row and "impl" not in kept else kept


def _add_file(whole: Manifests, file: ManifestFile, document: Document, unit: Unit, pruning: _Pruning) -> None:
    for section in _SECTIONS:
        entries: dict[str, Entry[Any]] = getattr(whole, section)
        for name, model in getattr(file, section).items():
            entry = Entry(name, model, document, (section, name), unit)
            if name in entries:
                _declared_twice(whole, f"{section[:-1]} `{name}`", entry.where, entries[name].where)
            else:
                entries[name] = entry
    name = file.backend
    if name is None or (file.arrays is None and (file.kernels or file.components)):
        _incomplete_backend(whole, file, document)
        if not file.kernels and not file.components:
            return
        written = pruning.data.get("backend")
        name = name or (written if isinstance(written, str) else f"backend of {document.path}")

    def placed(section: str, rows: dict[str, list[Any]]) -> tuple[tuple[str, int, Any], ...]:
        indices = pruning.indices
        return tuple(
            (op, indices.get((section, op), range(len(cells)))[i], cell)
            for op, cells in rows.items()
            for i, cell in enumerate(cells)
        )

    kernels, components = placed("kernels", file.kernels), placed("components", file.components)
    backend = BackendEntry(name, file, document, unit, kernels, components, frozenset(pruning.lost))
    if name in whole.backends:
        _declared_twice(whole, f"backend `{name}`", backend.where, whole.backends[name].where)
        return
    whole.backends[name] = backend


def _incomplete_backend(whole: Manifests, file: ManifestFile, document: Document) -> None:
    """Report cells that lack `backend` or `arrays`, unless what is written in their place was reported already."""
    key = "backend" if file.backend is None else "arrays"
    parts = ("kernels", "components", "requires", "hint", "arrays")
    first = next((part for part in parts if part in file.model_fields_set), None)
    if first is None or document.root.child(key) or may_stand_for(document.root, key, ManifestFile.model_fields):
        return
    where, message = document.where((first,), key=True), f"`{first}` belongs to a backend, and none is named"
    hint = "add `backend: NAME`; one file is one backend"
    if key == "arrays":
        where, message = document.where(("backend",), key=True), f"backend `{file.backend}` has no `arrays`"
        hint = "add `arrays: numpy` or `arrays: torch`: what its functions take and give"
    whole.problems.add("RG203", where, message, hint=hint)


def _declared_twice(whole: Manifests, what: str, where: Where, first: Where) -> None:
    message = f"{what} is declared twice"
    whole.problems.add("RG309", where, message, hint="keep one of them", related=((first, "first declared"),))
