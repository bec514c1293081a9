"""`rung parity`: every cell usable here against the reference.

Owns the report.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rung.cli.common import common_flags, rows, table_flags, table_of, write, write_json
from rung.diagnostics import RungError

if TYPE_CHECKING:
    import argparse

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "parity",
        help="compare usable cells with the reference",
        description="Run every cell usable here on its op's cases and compare with the numpy reference, in every "
        "dtype the op has a tolerance for. Exit 1 when one differs by more, or changes an argument.",
    )
    command.add_argument("--backend", help="only this backend")
    command.add_argument("--op", help="only this op")
    command.add_argument("--seed", type=int, default=0, help="seed of the cases (default 0)")
    table_flags(command)
    common_flags(command, ("text", "json", "markdown"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare, report, and give the exit code."""
    from rung.parity import FAILED, PASSED, parity

    outcomes = []
    table = table_of(arguments)
    try:
        for outcome in parity(backend=arguments.backend, op=arguments.op, seed=arguments.seed, table=table):
            outcomes.append(outcome)
            if sys.stderr.isatty():
                print(
                    f"\r\x1b[K{len(outcomes)} compared: {outcome.cell} {outcome.dtype}",
                    end="",
                    file=sys.stderr,
                )
    except KeyError as error:
        raise RungError(str(error.args[0])) from None
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
    if arguments.format == "json":
        write_json(arguments, {"format_version": 1, "outcomes": [asdict(o) for o in outcomes]})
    else:
        head = ("cell", "dtype", "status", "cases", "largest difference", "detail")
        body = [(o.cell, o.dtype, o.status, str(o.cases), f"{o.worst:.3g}", o.detail) for o in outcomes]
        write(arguments, rows(head, body, markdown=arguments.format == "markdown"))
    if not any(o.status in (FAILED, PASSED) for o in outcomes):
        print("rung: warning: nothing was compared: no cell is usable here", file=sys.stderr)
    failed = sum(o.status == FAILED for o in outcomes)
    passed = sum(o.status == PASSED for o in outcomes)
    print(f"{passed} passed, {failed} failed, {len(outcomes) - passed - failed} skipped", file=sys.stderr)
    return 1 if failed else 0
