"""Rules RG901, RG902 and RG905: editor modelines, and generated files that are stale.

Owns what counts as a modeline, which is what the YAML language server reads: a comment above the first content.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rung.compiled import fault
from rung.diagnostics import Edit, Problem, Where, shorten
from rung.schemas import FACTS, MANIFEST, WORKSPACE, command_for, read_schema, relative, sources, texts
from rung.units import manifest_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.audit.scene import Scene
    from rung.schemas import Written
    from rung.source import Document
    from rung.units import Unit

__all__ = ["RULES"]

_MODELINE: Final = re.compile(r"#\s+(?:yaml-language-server\s*:|\$schema:)")
_TARGET: Final = re.compile(r"\$schema(?:=|:[^\S\r\n]*)(\S+)")
_NEARLY: Final = re.compile(r"\s*#\s*yaml-language-server\b.*\$schema")
_HEAD: Final = "# yaml-language-server: $schema="


@dataclass(frozen=True, slots=True)
class _Modeline:
    """The schema a manifest names, where, and the file that is meant; no file where it is an address, or `none`."""

    target: str
    where: Where
    file: Path | None


def _named(scene: Scene) -> list[Unit]:
    """Give the units that a caller named."""
    return [unit for unit in scene.whole.units if unit not in scene.along]


def _manifests(scene: Scene) -> Iterator[tuple[Document, Path]]:
    """Give the documents that a caller named, each with its file, in the order of reports."""
    files = {shown: Path(path) for unit in _named(scene) for path, shown in manifest_files(unit)}
    for document in sorted(scene.whole.documents, key=lambda document: document.path):
        if document.usable and document.path in files:
            yield document, files[document.path]


def _modeline(document: Document, path: Path) -> _Modeline | None:
    """Give the modeline as the language server reads it: the first comment above the content that is one."""
    for row, line in enumerate(document.lines, 1):
        text = line.strip()
        if text and not text.startswith(("#", "%", "---")):
            return None
        if not _MODELINE.match(text):
            continue
        found = _TARGET.search(line)
        if found is None:
            return None
        target = found.group(1)
        where = Where(document.path, row, found.start(1) + 1, row, found.end(1) + 1)
        if target.startswith(("file:", "http")) or target.lower() == "none":
            return _Modeline(target, where, None)
        name = target.split("#", 1)[0] if target.find("#") > 0 else target
        return _Modeline(target, where, Path(os.path.normpath(path.parent / name)))
    return None


def rg902(scene: Scene) -> Iterator[Problem]:
    """A manifest that names no schema an editor could find."""
    directory = scene.root / "schemas"
    workspace = read_schema(directory / WORKSPACE)
    command = command_for([unit.path for unit in _named(scene)], directory, scene.root)
    first = f"run `{command}`, which writes the schemas"
    for document, path in _manifests(scene):
        found = _modeline(document, path)
        if found is not None and (found.file is None or _is_file(found.file)):
            continue
        right = _right_schema(directory, workspace, path)
        target = "" if right is None else relative(right, path.parent)
        target = "" if re.search(r"\s", target) else target  # what a modeline cannot say
        if found is None:
            yield _missing(document, target, first)
        else:
            fault = "is no file" if found.file is not None and _exists(found.file) else "does not exist"
            message = f"the modeline's schema `{shorten(found.target)}` {fault}"
            edit = Edit(found.where, target, "named the schema that exists") if target else None
            hint = f"write `{target}`" if target else first
            yield Problem("RG902", found.where, message, hint, edit=edit)


def _missing(document: Document, target: str, first: str) -> Problem:
    row = next((row for row, line in enumerate(document.lines, 1) if _NEARLY.match(line)), 0)
    if row:
        where = Where(document.path, row, 1, row, len(document.lines[row - 1]) + 1)
        text = document.lines[row - 1].strip()
        hint = f"write it above the first key, as `{_HEAD}{target or 'PATH'}`"
        if _MODELINE.match(text) and _TARGET.search(text):
            hint = "move it above the first key"
        return Problem("RG902", where, "editors do not read this modeline", hint)
    keys = list(document.data)[:1] if isinstance(document.data, dict) else []
    where = document.where(keys, key=True)  # where a comment can silence it
    top = Where(document.path, 1, 1, 1, 1)
    edit = Edit(top, f"{_HEAD}{target}\n", "named the schema for editors") if target else None
    hint = f"start the file with `{_HEAD}{target}`" if target else f"{first}; then name one in the first line"
    return Problem("RG902", where, "no modeline tells an editor the schema of this file", hint, edit=edit)


def _right_schema(directory: Path, workspace: Written | None, path: Path) -> Path | None:
    """Give the schema that fits a manifest: the workspace's where it was made from it, else that of all manifests."""
    if workspace is not None and workspace.is_marked and workspace.covers(path):
        return directory / WORKSPACE
    manifest = directory / MANIFEST
    return manifest if _is_file(manifest) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no file can have such a name
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def rg905(scene: Scene) -> Iterator[Problem]:
    """A schema that `rung schema` wrote, and would write differently now."""
    users: dict[Path, list[tuple[Path, Where]]] = {}
    for document, path in _manifests(scene):
        found = _modeline(document, path)
        if found is not None and found.file is not None:
            users.setdefault(found.file, []).append((path, found.where))
    for file, named_by in users.items():
        schema = read_schema(file)
        if schema is None:
            continue
        fault, where = _fault(scene, file, schema), named_by[0][1]
        if not fault and file.name == WORKSPACE and schema.is_marked:
            strange = [place for path, place in named_by if not schema.covers(path)]
            fault, where = ("was not made from this manifest", strange[0]) if strange else ("", where)
        if fault:
            name = shorten(relative(file, scene.root))
            yield Problem("RG905", where, f"schema `{name}` {fault}", _repair(scene, file, schema))


def _fault(scene: Scene, file: Path, schema: Written) -> str:
    """Say what is wrong with a schema, whoever names it, as far as that can be known here."""
    if not schema.is_json:
        return "is no JSON"
    if not schema.is_marked:
        return ""
    named = _named(scene)
    if file.name == WORKSPACE:
        others = schema.sources is not None and list(schema.sources) != sources(named, file.parent)
        if others or scene.whole.problems.errors:
            return ""
    return "is stale" if schema.text != texts(scene.whole, named, file.parent).get(file.name, schema.text) else ""


def _repair(scene: Scene, file: Path, schema: Written) -> str:
    """Say which command writes the schema anew, for all it was made from, and nothing outside the root."""
    root = scene.root.resolve()
    paths = [unit.path for unit in _named(scene)]
    resolved = [path.resolve() for path in paths]
    paths += [
        source for source in schema.made_from
        if source.exists() and source.is_relative_to(root) and not {source, *source.parents} & {*resolved}
    ]  # fmt: skip
    if file.resolve().is_relative_to(root) and file.name in (MANIFEST, FACTS, WORKSPACE):
        return f"run `{command_for(paths, file.parent, scene.root)}`"
    return f"run `{command_for(paths, scene.root / 'schemas', scene.root)}` and name what it writes"


def rg901(scene: Scene) -> Iterator[Problem]:
    """A compiled table that is not what these manifests compile to; it says nothing while they have errors."""
    if scene.table is None or scene.whole.problems.errors:
        return
    path, units = scene.table
    from rung.compile import compile_manifests

    why = fault(path, units, compile_manifests(scene.whole))
    if why:
        yield Problem("RG901", Where(relative(path, scene.root)), f"the compiled table {why}", "run `rung compile`")


RULES: tuple[Callable[[Scene], Iterator[Problem]], ...] = (rg901, rg902, rg905)
