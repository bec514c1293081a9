"""`rung cache`: where compiled tables are kept between processes, what is there, and clearing it.

Owns nothing but the wording. Whether a file is fresh is judged by whoever loads what it was made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rung.cli.common import common_flags, rows, tell, write, write_json

if TYPE_CHECKING:
    import argparse

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "cache",
        help="show or clear what is kept between processes",
        description="Show the directory in which compiled tables, and answers about what is installed, are kept "
        "between processes. A file that is stale is never used, so clearing only frees space.",
        epilog="RUNG_CACHE_DIR names another directory, RUNG_CACHE=off keeps nothing. "
        "Exit: 0, 1 where a file could not be removed, 2 usage.",
    )
    command.add_argument("--clear", action="store_true", help="remove the files")
    common_flags(command, ("full", "json"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show or clear, and give the exit code."""
    from rung import cache

    folder = cache.directory()
    if folder is None:
        tell("nothing is kept: RUNG_CACHE is off, or nobody knows your home directory")
    found = cache.listed()
    if arguments.clear:
        gone = [(name, size) for name, size in found if cache.forget(name)]
        tell(f"removed {_counted(gone)}{f' from {folder}' if folder else ''}")
        for name, _ in found:
            if name not in dict(gone):
                tell(f"{name} cannot be removed")
        return 0 if len(gone) == len(found) else 1
    if arguments.format == "json":
        files = [{"name": name, "bytes": size} for name, size in found]
        write_json(arguments, {"format_version": 1, "directory": folder, "files": files})
    elif folder is not None:
        table = rows(("file", "bytes"), [(name, str(size)) for name, size in found]) if found else ""
        write(arguments, f"{folder}: {_counted(found)}\n{table}")
    return 0


def _counted(found: list[tuple[str, int]]) -> str:
    return f"{len(found)} file{'s' * (len(found) != 1)}, {sum(size for _, size in found):,} bytes"
