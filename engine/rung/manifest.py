"""Documents to one validated whole: finding files, validating each, merging them.

Owns the merged declarations with their places. Judges nothing across entries except that a name is declared once: that
is for `rung.rules`.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import ValidationError

from rung.bind import LOCAL
from rung.diagnostics import Problems, Where, closest, shorten
from rung.entries import Arch, Device, Jit, LocalRow, Pattern, Target, cell_id
from rung.mending import NOBODY, ROWS, SECTIONS, Mended, mend
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
from rung.units import Unit, manifest_files

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

__all__ = [
    "BackendEntry",
    "CellEntry",
    "Entry",
    "Manifests",
    "collector_paused",
    "merge",
]

MAX_FILES: Final = 1024
MAX_TOTAL_BYTES: Final = 64 * 1024 * 1024
MAX_CELLS: Final = 200_000

T = TypeVar("T")
Loc = tuple[str | int, ...]


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One declaration: its name, its model and where it stands; `lost` is as of a `BackendEntry`."""

    name: str
    model: T
    document: Document
    loc: Loc
    unit: Unit
    lost: frozenset[Loc] = frozenset()

    @property
    def where(self) -> Where:
        """The place of the entry's key."""
        return self.document.where(self.loc, key=True)

    def at(self, *loc: str | int, key: bool = False) -> Where:
        """Give the place of something inside the entry."""
        return self.document.where((*self.loc, *loc), key=key)

    def has(self, key: str) -> bool:
        """Say whether the value of a key is what was written, and no stand-in for it."""
        return (*self.loc, key) not in self.lost


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
        return self.file.backend is not None and self.file.arrays is not None and ("backend",) not in self.lost

    def is_whole(self, *loc: str | int) -> bool:
        """Say whether nothing was taken out of a row, or of anything else in the file."""
        return not self.lost or loc not in self._damaged

    @cached_property
    def _damaged(self) -> set[Loc]:
        return {lost[:size] for lost in self.lost for size in range(len(lost) + 1)}


class CellEntry:
    """One cell of the product a manifest row stands for. `arch` is None for a component.

    No frozen dataclass: there may be a hundred thousand, and those take several times as long to make.
    """

    __slots__ = ("arch", "backend", "device", "id", "index", "model", "serves", "variant")

    def __init__(
        self, backend: BackendEntry, serves: str, index: int, device: str, arch: str | None, variant: str,
        model: KernelModel | ComponentModel,
    ) -> None:  # fmt: skip
        self.id = cell_id(backend.name, serves, device, arch, variant)
        self.backend = backend
        self.serves = serves
        self.index = index
        self.device = device
        self.arch = arch
        self.variant = variant
        self.model = model

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
    def is_placed(self) -> bool:
        """Whether the cell is where it was written: no key was taken out that may say device, arch or variant."""
        if self.is_whole:
            return True
        row = (self.section, self.serves, self.index)
        return {lost[3] for lost in self.backend.lost if lost[:3] == row and len(lost) > 3} <= _ASIDE

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
        return name not in legal and name != NOBODY and not self.is_mentioned(name)

    def is_mentioned(self, name: str) -> bool:
        """Say whether a file that could not be read may say something of a name."""
        return self.mentioned is None or name in self.mentioned

    def is_lost(self, device: str, name: str) -> bool:
        """Say whether an arch or target of a device may have been rejected, so that nothing can be said of its use."""
        if name == NOBODY or device in self.open_devices:
            return True
        model = self.devices[device].model
        if any(name in self.names(f"{key} of {device}") and name not in getattr(model, key) for key in _NAMING):
            return True
        prefix = _lost_prefix(self.devices[device])
        return prefix is not None and name.startswith(prefix)

    @cached_property
    def open_devices(self) -> set[str]:
        """The devices that lost a key which may have named any target."""
        return {entry.name for entry in self.devices.values() if entry.lost and _is_open(entry)}

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
                    out.append(CellEntry(backend, op, index, device, arch, variant, kernel))
            for kind, index, component in backend.components:
                for device, variant in product(component.device, component.variant):
                    out.append(CellEntry(backend, kind, index, device, None, variant, component))
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


@dataclass(slots=True)
class _LocalDocument(Document):
    """The rows registered from Python as one document, in which every row keeps its caller's place."""

    rows: dict[Loc, Where] = field(default_factory=dict)

    def where(self, loc: Iterable[str | int] = (), *, key: bool = False) -> Where:
        path = tuple(loc)[:3]
        places = (place for row, place in reversed(self.rows.items()) if row[: len(path)] == path)
        return next(places, next(iter(self.rows.values())))

    def places(self, loc: Iterable[str | int]) -> list[Where]:
        path = tuple(loc)
        return [place for row, place in self.rows.items() if row[:-1] == path]


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
        document = _LocalDocument("", _tree(data), "", [], rows=places)
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
            if gc.get_freeze_count() == 0:  # what was made is old at once, so that nobody walks it for being new
                gc.freeze()
                gc.unfreeze()
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
        fresh: dict[Path, tuple[str, str]] = {}
        for path, shown in listed:
            resolved = Path(path).resolve()
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
    data = document.data
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
        _add_file(whole, outcome, document, unit, Mended(data))
        return
    if outcome == []:
        return
    places += outcome if isinstance(outcome, list) else []
    hopeless: set[Loc] = set()
    while True:
        mended = mend(document.data, places, hopeless)
        try:
            file = ManifestFile.model_validate(mended.data)
        except ValidationError as errors:  # something else depends on what was taken out
            before = len(hopeless)
            hopeless |= {_row_of(mended, error["loc"]) for error in errors.errors(include_url=False)}
            if len(hopeless) > before:
                continue
            return
        _add_file(whole, file, document, unit, mended)
        return


_NAMING = ("archs", "targets", "aliases", "portable")


def _lost_keys(entry: Entry[DeviceModel]) -> set[str]:
    return {str(lost[2]) for lost in entry.lost if len(lost) == 3 and lost[:2] == entry.loc}


def _lost_prefix(entry: Entry[DeviceModel]) -> str | None:
    """Give what the targets of intermediate code start with, where the device lost how they are read."""
    if not entry.lost or not _lost_keys(entry) & {"jit", "pattern"}:
        return None
    jit = entry.document.node(entry.loc).data.get("jit")  # type: ignore[attr-defined]
    prefix = jit.get("prefix") if isinstance(jit, dict) else None
    return prefix if isinstance(prefix, str) else ""


def _is_open(entry: Entry[DeviceModel]) -> bool:
    """Say whether a key that left may have named targets which nobody can tell now."""
    written = entry.document.node(entry.loc).data
    for key in _lost_keys(entry):
        if key in DeviceModel.model_fields:
            names = written.get(key)  # type: ignore[attr-defined]
            if key in _NAMING and not isinstance(names, list if key == "portable" else dict):
                return True
        elif closest(key, DeviceModel.model_fields) in (*_NAMING, "jit"):
            return True
    return False


_ASIDE = {"impl", "arrays", "when", "accepts", "degraded", "hint", "artifact", "exclude", "workspace_bytes"}
_WORD = re.compile(r"[A-Za-z0-9_.\-]+")


def _remember_names(whole: Manifests, data: dict[str, Any]) -> None:
    """Note what a document declares before anything of it is rejected."""
    for section, entries in data.items():
        if section in SECTIONS and isinstance(entries, dict):
            whole.names(section).update(entries)
            if whole.mentioned is not None:  # what a name that is no legal one will be called is used elsewhere already
                meant = (re.sub(r"[^a-z0-9_]", "_", name.lower()) for name in entries)
                whole.mentioned.update(name for name in meant if name not in entries)
            for device, entry in entries.items() if section == "devices" else ():
                for key in _NAMING if isinstance(entry, dict) else ():
                    named = entry.get(key)
                    names = named if isinstance(named, dict | list) else ()
                    whole.names(f"{key} of {device}").update(name for name in names if isinstance(name, str))
        elif section == "backend" and isinstance(entries, str):
            whole.names("backends").add(entries)
        elif section not in ManifestFile.model_fields and whole.mentioned is not None:
            whole.mentioned.update(_texts(entries))  # a misspelt section
    for section in ROWS:
        for name, rows in _items(data.get(section)):
            served = whole.names(f"variants of {name}")
            for row in rows if isinstance(rows, list) else ():
                variants = row.get("variant") if isinstance(row, dict) else None
                if isinstance(variants, str):
                    served.add(variants)
                elif isinstance(variants, list):
                    served.update(v for v in variants if isinstance(v, str))


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


def _row_of(mended: Mended, loc: Loc) -> Loc:
    """Give the entry, or the row where it was written, that a fault of what was mended lies in."""
    rows = mended.rows.get(loc[:2]) if len(loc) > 2 else None
    return (*loc[:2], rows[int(loc[2])]) if rows is not None else loc[:2]


def _add_file(whole: Manifests, file: ManifestFile, document: Document, unit: Unit, mended: Mended) -> None:
    lost = frozenset(mended.lost)
    for section in SECTIONS:
        entries: dict[str, Entry[Any]] = getattr(whole, section)
        for name, model in getattr(file, section).items():
            entry = Entry(name, model, document, (section, name), unit, lost)
            if name in entries:
                _declared_twice(whole, f"{section[:-1]} `{name}`", entry.where, entries[name].where)
            else:
                entries[name] = entry
    name = file.backend
    if name is None or (file.arrays is None and (file.kernels or file.components)):
        _incomplete_backend(whole, file, document)
        if not file.kernels and not file.components:
            return
        written = document.data.get("backend")
        name = name or (written if isinstance(written, str) else f"backend of {document.path}")

    def placed(section: str, rows: dict[str, list[Any]]) -> tuple[tuple[str, int, Any], ...]:
        return tuple(
            (op, index, cell)
            for op, cells in rows.items()
            for index, cell in zip(mended.rows.get((section, op), range(len(cells))), cells, strict=True)
        )

    kernels, components = placed("kernels", file.kernels), placed("components", file.components)
    backend = BackendEntry(name, file, document, unit, kernels, components, lost)
    if name in whole.backends:
        _declared_twice(whole, f"backend `{name}`", backend.where, whole.backends[name].where)
        backend = replace(backend, lost=lost | {("backend",)})
        name = f"backend of {document.path}"
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
    whole.problems.add(
        "RG309", where, message, hint="choose another name, or keep one of them", related=((first, "first declared"),)
    )
