"""The user's cache directory: where it is, and files in it that may vanish at any time.

Owns the platforms' conventions and the two variables that change them. What a file means is for whoever keeps it; a
cache that cannot be read or written costs time and nothing else, so nothing here raises.
"""

from __future__ import annotations

import os
import sys

from rung.diagnostics import log
from rung.files import read_regular, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["OFF", "ON", "directory", "forget", "is_off", "keep", "kept", "listed"]

MAX_BYTES: Final = 1 << 30
OFF: Final = ("off", "0", "false", "no")
ON: Final = ("on", "1", "true", "yes")
_OURS: Final = r"(installed|table)-[0-9a-f]{32}\.json|\.(installed|table)-[0-9a-f]{32}\.json\.\w+\.tmp"
"""How rung names files here, and nobody else: others may have theirs in the same directory."""
_OLD: Final = 90 * 24 * 3600
"""Seconds after which a file is written anew, if it is still used."""


def is_off(variable: str) -> bool:
    """Say whether an environment variable switches off what it is about."""
    return os.environ.get(variable, "").strip().lower() in OFF


def directory() -> str | None:
    """Give the directory, whether it exists or not; None where there is to be none.

    RUNG_CACHE_DIR names it, and RUNG_CACHE=off says there is none. By default it is `rung` in $XDG_CACHE_HOME or
    ~/.cache, in ~/Library/Caches on macOS, and in %LOCALAPPDATA% on Windows (`rung/Cache` there).
    """
    if is_off("RUNG_CACHE"):
        return None
    named = os.environ.get("RUNG_CACHE_DIR", "").strip()
    if named:
        try:
            return os.path.abspath(os.path.expanduser(named))
        except OSError:  # relative to a working directory that is gone
            return None
    if sys.platform == "win32":
        base, name = os.environ.get("LOCALAPPDATA") or "~/AppData/Local", "rung/Cache"
    elif sys.platform == "darwin":
        base, name = "~/Library/Caches", "rung"
    else:
        base, name = os.environ.get("XDG_CACHE_HOME", ""), "rung"
        base = base if os.path.isabs(base) else "~/.cache"  # as the XDG specification asks
    whole = os.path.join(os.path.expanduser(base), *name.split("/"))
    is_known = os.path.isabs(whole) and not (base.startswith("~") and os.environ.get("HOME") == "")
    return whole if is_known else None  # nobody knows this user's home


def kept(name: str) -> bytes | None:
    """Give what a file of the cache holds, None where there is none that can be read."""
    folder = directory()
    if folder is None:
        return None
    try:
        return read_regular(os.path.join(folder, name), MAX_BYTES)
    except OSError:
        return None


def keep(name: str, data: bytes) -> None:
    """Put data into a file of the cache, as a whole or not at all."""
    folder = directory()
    if folder is None:
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace_file(os.path.join(folder, name), data, durable=False, private=True)
    except (OSError, ValueError, RecursionError) as error:
        log(f"{folder} cannot be written, so what is compiled is not kept: {error}")
    else:
        _tidy(folder)


def _tidy(folder: str) -> None:
    """Remove what nobody has written for a long time: tables of manifests that are gone, what was never finished."""
    from time import time

    for name, _ in listed():
        try:
            if time() - os.stat(os.path.join(folder, name)).st_mtime > _OLD:
                os.unlink(os.path.join(folder, name))
        except OSError:
            continue


def listed() -> list[tuple[str, int]]:
    """Give the names of the cache's files with their sizes in bytes, sorted; those that nobody finished, too."""
    import re

    folder = directory()
    try:
        found = list(os.scandir(folder)) if folder is not None else []
    except OSError:
        return []
    ours = []
    for entry in found:
        try:
            if re.fullmatch(_OURS, entry.name) and entry.is_file(follow_symlinks=False):
                ours.append((entry.name, entry.stat(follow_symlinks=False).st_size))
        except OSError:  # it has just vanished
            continue
    return sorted(ours)


def forget(name: str) -> bool:
    """Remove a file of the cache, and say whether it is gone."""
    folder = directory()
    try:
        if folder is not None:
            os.unlink(os.path.join(folder, name))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return folder is not None
