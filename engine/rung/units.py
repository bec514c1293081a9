"""Units: directories of manifests, the files in them, and the stamp by which a compiled table knows its sources.

Owns what counts as a manifest file. Reads bytes and no YAML.
"""

from __future__ import annotations

import os
import stat
from itertools import islice

from rung.diagnostics import Problems, Where, printable
from rung.files import read_regular
from rung.records import fields, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Final

# `hashlib` gives the same one, and loads OpenSSL for others.
try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["Unit", "digest", "manifest_files", "stamp"]

MAX_FILE_BYTES: Final = 32 * 1024 * 1024
"""What one manifest may hold."""
MAX_ENTRIES: Final = 100_000
"""Entries of directories that are looked at in search of manifests."""


@record
class Unit:
    """A directory (or single file) of manifests, how it is shown, and the top-level packages it may bind.

    `roots` of None means any: only for a check that imports nothing.
    """

    place: str
    shown: str
    roots: frozenset[str] | None
    label: str = ""

    def __init__(
        self, place: str | os.PathLike[str], shown: str, roots: frozenset[str] | None, label: str = ""
    ) -> None:
        for name, value in zip(fields(self), (os.fspath(place), shown, roots, label), strict=True):
            object.__setattr__(self, name, value)

    @property
    def path(self) -> Path:
        """The place as a Path."""
        from pathlib import Path

        return Path(self.place)


def manifest_files(unit: Unit, problems: Problems | None = None) -> list[tuple[str, str]]:
    """Give a unit's files with how each is shown, sorted; report what looks like one and cannot be taken.

    Names that start with a dot are passed over. A link counts when it leads to a file inside the unit.
    """
    problems = problems if problems is not None else Problems()
    try:
        if stat.S_ISREG(os.stat(unit.place).st_mode):
            return [(unit.place, printable(unit.shown))]
    except (OSError, ValueError) as error:
        problems.add("RG001", Where(printable(unit.shown)), f"cannot be read: {error}")
        return []
    found: list[tuple[str, str]] = []
    left = MAX_ENTRIES
    folders = [(unit.place, "" if unit.shown in ("", ".") else unit.shown.rstrip("/") + "/")]
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
                folders.append((entry.path, shown + "/"))
            elif entry.name.endswith((".yaml", ".yml")):
                fault = _link_fault(entry.path, unit.place) if entry.is_symlink() else ""
                if fault:
                    problems.add("RG001", Where(printable(shown)), fault, hint="remove it, or name its target instead")
                elif entry.is_file():
                    found.append((entry.path, printable(shown)))
                elif not entry.is_dir():
                    hint = "remove it, or name it differently"
                    problems.add("RG001", Where(printable(shown)), "not a regular file", hint=hint)
    return sorted(found, key=lambda pair: pair[1])


def _link_fault(link: str, base: str) -> str:
    try:
        target = os.path.realpath(link, strict=True)
    except OSError:
        return "a link that leads nowhere"
    inside = target.startswith(os.path.join(os.path.realpath(base), ""))
    return "" if inside or not os.path.isfile(target) else "a link that leads out of its directory"


def stamp(units: Iterable[Unit], texts: dict[str, bytes] | None = None) -> str:
    """Give the hash of everything a table of these units is made from: names and bytes of files, what may be bound.

    Where a unit lies is not part of it, so that a table may be read where it is installed. "" where something cannot
    be read, for then nobody knows. `texts` is given the bytes, by path, so that what is compiled is what was hashed.
    """
    whole = blake2b(digest_size=32)
    problems = Problems()
    for unit in units:
        roots = "*" if unit.roots is None else " ".join(sorted(unit.roots))
        whole.update(f"unit {roots}\n".encode())
        for path, shown in manifest_files(unit, problems):
            try:
                data = read_regular(path, MAX_FILE_BYTES)
            except OSError:
                return ""
            name = shown.removeprefix(printable(unit.shown)).lstrip("/")
            whole.update(f"{len(name.encode())} {len(data)} {name}\n".encode())
            whole.update(data)
            if texts is not None:
                texts[path] = data
    return "" if len(problems) else whole.hexdigest()


def digest(data: bytes) -> str:
    """Give the digest of bytes."""
    return blake2b(data, digest_size=32).hexdigest()
