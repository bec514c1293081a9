"""`rung compile`: write, or verify, the compiled table.

Owns where the table of a project lies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rung.cli.check import path_flags, units_for
from rung.cli.common import config_of, output_file, root_flags, tell
from rung.diagnostics import ManifestError, RungError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "compile",
        help="write the compiled table, or verify it",
        description="Compile the manifests, with the built-in ones, into the table file that [tool.rung] table names. "
        "A program that loads these manifests then reads it instead of YAML, as long as no manifest changes.",
        epilog="Exit: 0 written or fresh, 1 stale or manifests with errors, 2 usage.",
    )
    path_flags(command)
    command.add_argument("--check", action="store_true", help="write nothing; exit 1 when it is missing or stale")
    command.add_argument(
        "--output", metavar="FILE", type=output_file, help="the table file; default: [tool.rung] table"
    )
    root_flags(command)
    command.set_defaults(run=run)


def table_file(arguments: argparse.Namespace) -> Path:
    """Give the path of the table file; raise RungError when nothing names one."""
    from pathlib import Path

    config = config_of(arguments)
    if arguments.output == "":
        raise RungError("--output names no file")
    if arguments.output:
        return Path(arguments.output)
    if arguments.paths and config.table:
        raise RungError("[tool.rung] table is that of the configured manifests: name a file for these with --output")
    if not config.table:
        raise RungError("no table file: name one with --output, or set [tool.rung] table in pyproject.toml")
    return config.root / config.table


def run(arguments: argparse.Namespace) -> int:
    """Write or verify, and give the exit code."""
    from rung.compile import compile_units
    from rung.compiled import fault, text_of, write
    from rung.units import stamp

    path = table_file(arguments)
    along, units = units_for(arguments)
    used = [*along, *units]
    texts: dict[str, bytes] = {}
    before = stamp(used, texts)
    try:
        table = compile_units(used, texts=texts)
    except ManifestError as error:
        tell(str(error))
        return 1
    if stamp(used) != before:
        raise RungError("a manifest changed while it was compiled: run it again")
    if arguments.check:
        why = fault(path, used, table)
        tell(f"{path} {why}: run `rung compile`" if why else f"{path} is fresh")
        return 1 if why else 0
    write(path, text_of(table, used, before))
    tell(f"wrote {path}")
    return 0
