"""`rung check`: read and judge manifests without importing what they bind.

Owns the report of findings and its formats.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from rung.cli.common import colored, common_flags, config_of, write, write_json
from rung.diagnostics import RungError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rung.diagnostics import Problem
    from rung.manifest import Manifests

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "check",
        help="find every mistake in manifests",
        description="Read manifests and judge them together with the built-in ones. Imports no backend code.",
    )
    command.add_argument(
        "paths", metavar="PATH", nargs="*", help="directories or files; default: [tool.rung] manifests"
    )
    command.add_argument("--allow", metavar="PACKAGE", action="append", default=[], help="a package they may bind")
    command.add_argument("--select", metavar="CODE", action="append", default=[], help="report only these codes (RG3)")
    command.add_argument("--ignore", metavar="CODE", action="append", default=[], help="do not report these codes")
    command.add_argument("--max-diagnostics", metavar="N", type=int, default=200, help="show at most N (default 200)")
    command.add_argument("--strict", action="store_true", help="warnings count as findings")
    common_flags(command, ("full", "concise", "json"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check, report, and give the exit code."""
    whole = _judged(arguments)
    problems = [p for p in whole.problems if _wanted(p.code, arguments.select, arguments.ignore)]
    shown = problems[: max(0, arguments.max_diagnostics)]
    if arguments.format == "json":
        write_json(arguments, {"format_version": 1, "diagnostics": [_as_dict(p) for p in shown]})
    else:
        lines = {document.path: document.lines for document in whole.documents}
        texts = [_full(p, lines, arguments) if arguments.format == "full" else p.concise() for p in shown]
        write(arguments, ("\n\n" if arguments.format == "full" else "\n").join(texts))
    errors = sum(p.severity == "error" for p in problems)
    warnings = len(problems) - errors
    if len(shown) < len(problems):
        print(f"{len(problems) - len(shown)} more not shown (--max-diagnostics)", file=sys.stderr)
    print(_summary(whole, errors, warnings), file=sys.stderr)
    return 1 if errors or (warnings and arguments.strict) else 0


def _judged(arguments: argparse.Namespace) -> Manifests:
    from rung.load import BUILTIN_ROOTS, builtin_unit, units_of
    from rung.manifest import merge
    from rung.rules import check

    for code in (*arguments.select, *arguments.ignore):
        if not re.fullmatch(r"RG\d{0,3}", code):
            raise RungError(f"`{code}` is no rule code; codes are RG followed by three digits")
    config = config_of(arguments)
    paths = arguments.paths or [str(config.root / path) for path in config.manifests]
    if not paths:
        raise RungError("no manifest: name a directory, or set [tool.rung] manifests in pyproject.toml")
    allow = {*arguments.allow, *config.allow}
    units = units_of(paths, BUILTIN_ROOTS | allow if allow else None)
    own = builtin_unit()
    if not any(unit.path.resolve() == own.path.resolve() for unit in units):
        units.insert(0, own)
    whole = merge(units)
    check(whole)
    return whole


def _wanted(code: str, select: Sequence[str], ignore: Sequence[str]) -> bool:
    if select and not any(code.startswith(prefix) for prefix in select):
        return False
    return not any(code.startswith(prefix) for prefix in ignore)


def _full(problem: Problem, lines: dict[str, list[str]], arguments: argparse.Namespace) -> str:
    text = problem.full(lines.get(problem.where.path) if problem.where else None)
    if not colored(arguments):
        return text
    head, newline, rest = text.partition("\n")
    return f"\x1b[1;{31 if problem.severity == 'error' else 33}m{head}\x1b[0m{newline}{rest}"


def _as_dict(problem: Problem) -> dict[str, Any]:
    where = problem.where
    return {
        "code": problem.code,
        "severity": problem.severity,
        "path": where.path if where else None,
        "start": [where.line, where.column] if where else None,
        "end": [where.end_line or where.line, where.end_column or where.column] if where else None,
        "message": problem.message,
        "hint": problem.hint or None,
        "cell": problem.cell or None,
        "related": [
            {"path": place.path, "start": [place.line, place.column], "message": remark}
            for place, remark in problem.related
        ],
    }


def _summary(whole: Manifests, errors: int, warnings: int) -> str:
    from rung.bind import root_of
    from rung.rules.safety import paths

    counts = f"{len(whole.documents)} files, {len(whole.cells)} cells: {errors} errors, {warnings} warnings"
    free = sorted({root_of(path) for path, _, unit in paths(whole) if unit.roots is None})
    return counts + (f"; packages they bind: {', '.join(free)} (name them with --allow)" if free else "")
