"""Units: directories of manifests, the files in them, and the stamp by which a compiled table knows its sources.

Owns what counts as a manifest file. Reads bytes and no YAML.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rung.diagnostics import Problems, Where, printable
from rung.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Unit", "manifest_files", "stamp"]

MAX_FILE_BYTES: Final = 32 * 1024 * 1024
"""What one manifest may hold."""
MAX_ENTRIES: Final = 100_000
"""Entries of directories that are looked at in search of manifests."""


@dataclass(frozen=True)
class Unit:
    """A directory (or single file) of manifests, how it is shown, and the top-level packages it may bind.

    `roots` of None means any: only for a check that imports nothing.
    """

    path: Path
    shown: str
    roots: frozenset[str] | None
    label: str = ""


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
    left = MAX_ENTRIES
    folders = [(unit.path, "" if unit.shown in ("", ".") else unit.shown.rstrip("/") + "/")]
    while folders:
        folder, prefix = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(islice(listing, left + 1))
        except OSError as error:
            problems.add("RG001", Where(printable(prefix)), f"cannot be listed: {error.strerror or error}")
            continue
        left -= len(entries)
        if left < 0:
            message = f"more than {MAX_ENTRIES:,} files and directories to look through"
            hint = "name the directories of manifests alone"
            problems.add("RG004", Where(printable(unit.shown) or "."), message, hint=hint)
            break
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


def stamp(units: Iterable[Unit]) -> str:
    """Give the hash of everything a table of these units is made from: names and bytes of files, what may be bound.

    Where a unit lies is not part of it, so that a table may be read where it is installed. "" where something cannot
    be read, for then nobody knows.
    """
    whole = hashlib.sha256()
    problems = Problems()
    for unit in units:
        roots = "*" if unit.roots is None else " ".join(sorted(unit.roots))
        whole.update(f"unit {roots}\n".encode())
        for path, shown in manifest_files(unit, problems):
            try:
                data = read_regular(path, MAX_FILE_BYTES)
            except OSError:
                return ""
            name = shown.removeprefix(unit.shown).lstrip("/")
            whole.update(f"{len(name.encode())} {len(data)} {name}\n".encode())
            whole.update(data)
    return "" if len(problems) else whole.hexdigest()
