"""`rung matrix`: every cell, the unavailable ones too.

Owns the layout of the rows `rung.matrix` makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rung.cli.common import common_flags, facts_flag, facts_of, rows, table_flags, table_of, write, write_json
from rung.diagnostics import RungError, did_you_mean
from rung.entries import REFERENCE

if TYPE_CHECKING:
    import argparse

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "matrix",
        help="list every cell and whether it is available",
        description="List every cell with whether it is available here, and why not. Imports no backend.",
    )
    command.add_argument("--op", help="only this op or component kind")
    command.add_argument("--device", help="only this device")
    command.add_argument("--backend", help="only this backend")
    table_flags(command)
    facts_flag(command)
    common_flags(command, ("text", "json", "markdown"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the cells."""
    from rung.matrix import component_matrix, kernel_matrix

    table, facts = table_of(arguments), facts_of(arguments)
    if arguments.device is not None:
        table.device(arguments.device)
    if arguments.op is not None and arguments.op not in table.kinds:
        table.op(arguments.op)
    if arguments.backend not in (None, REFERENCE, *table.backends):
        raise RungError(f"unknown backend `{arguments.backend}`: {did_you_mean(arguments.backend, table.backends)}")
    wanted = {"op": arguments.op, "device": arguments.device, "backend": arguments.backend}

    def keep(row: dict[str, Any]) -> bool:
        named = {**row, "op": row.get("op") or row.get("kind")}
        return all(value is None or named[key] == value for key, value in wanted.items())

    kernels = [row for row in kernel_matrix(table, facts) if keep(row)]
    components = [row for row in component_matrix(table, facts) if keep(row)]
    if arguments.format == "json":
        write_json(arguments, {"format_version": 1, "kernels": kernels, "components": components})
        return 0
    markdown = arguments.format == "markdown"
    parts = []
    for title, found in (("Kernels", kernels), ("Components", components)):
        if found or not any(wanted.values()):
            body = [(r["cell"], r.get("artifact", r["arrays"]), r["available"], r["reason"]) for r in found]
            head = ("cell", "artifact" if title == "Kernels" else "arrays", "available", "why")
            parts.append(f"{'## ' if markdown else ''}{title}\n\n" + rows(head, body, markdown=markdown))
    write(arguments, "\n\n".join(parts))
    return 0
