"""`rung check`: read and judge manifests without importing what they bind.

Owns which manifests are judged and which findings are wanted; `rung.cli.report` lays them out.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rung.cli.common import colored, common_flags, config_of, count, tell, write
from rung.cli.report import FORMATS, Report, render
from rung.diagnostics import RungError
from rung.rulebook import selected

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rung.manifest import Manifests

__all__ = ["add", "judged", "path_flags", "paths_of", "run", "wanted"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "check",
        help="find every mistake in manifests",
        description="Read manifests and judge them together with the built-in ones. Imports no backend code.",
        epilog="`rung rule CODE` explains a finding, `rung fix` repairs what can be repaired without guessing.",
    )
    path_flags(command)
    command.add_argument("--imports", action="store_true", help="also import what they bind, in a child process")
    command.add_argument("--select", metavar="CODE", action="append", default=[], help="report only these codes (RG3)")
    command.add_argument("--ignore", metavar="CODE", action="append", default=[], help="do not report these codes")
    command.add_argument("--max-diagnostics", metavar="N", type=count, default=200, help="show at most N (default 200)")
    command.add_argument("--strict", action="store_true", help="warnings count as findings")
    common_flags(command, tuple(FORMATS))
    command.set_defaults(run=run)


def path_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that say which manifests to judge."""
    command.add_argument(
        "paths", metavar="PATH", nargs="*", help="directories or files; default: [tool.rung] manifests"
    )
    command.add_argument(
        "--allow", metavar="PACKAGE", action="append", default=[],
        help="a top-level package they may bind, looked for in --root first; repeatable",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Check, report, and give the exit code."""
    select, ignore = selected(arguments.select), selected(arguments.ignore)
    whole = judged(arguments, imports=arguments.imports)
    problems = [p for p in whole.problems if wanted(p.code, select, ignore)]
    limit = arguments.max_diagnostics
    report = Report(problems, whole.documents, config_of(arguments).root, colored(arguments))
    write(arguments, render(arguments.format, report, limit))
    errors = sum(p.severity == "error" for p in problems)
    warnings = len(problems) - errors
    if limit < len(problems):
        tell(f"{len(problems) - limit} more not shown (--max-diagnostics)")
    tell(_summary(whole, errors, warnings))
    return 1 if errors or (warnings and arguments.strict) else 0


def paths_of(arguments: argparse.Namespace) -> list[str]:
    """Give the paths that the flags or the configuration name; raise RungError when that is none."""
    config = config_of(arguments)
    paths = arguments.paths or [str(config.root / path) for path in config.manifests]
    if not paths:
        raise RungError("no manifest: name a directory, or set [tool.rung] manifests in pyproject.toml")
    return list(paths)


def judged(
    arguments: argparse.Namespace, *, imports: bool = False, texts: Mapping[Path, bytes] | None = None
) -> Manifests:
    """Merge, check and audit the manifests that the flags or the configuration name, with the built-in ones.

    `texts` are taken instead of what files hold, by resolved path. Raise RungError when no manifest is named.
    """
    from rung.audit import audit
    from rung.audit.scene import Scene
    from rung.load import BUILTIN_ROOTS, builtin_unit, units_of
    from rung.manifest import collector_paused, merge
    from rung.rules import check

    config = config_of(arguments)
    allow = {*arguments.allow, *config.allow}
    units = units_of(paths_of(arguments), BUILTIN_ROOTS | allow if allow else None, config.root)
    own = builtin_unit(config.root)
    along = () if any(unit.path.resolve() == own.path.resolve() for unit in units) else (own,)
    with collector_paused():
        whole = merge([*along, *units], texts=texts)
        check(whole)
        root = config.root.resolve()
        audit(Scene(whole, root, (str(root), *sys.path), imports, along))
    return whole


def wanted(code: str, select: Sequence[str], ignore: Sequence[str]) -> bool:
    """Say whether findings of a code were asked for."""
    return (not select or code in select) and code not in ignore


def _summary(whole: Manifests, errors: int, warnings: int) -> str:
    from rung.bind import root_of
    from rung.rules.safety import paths

    counts = f"{len(whole.documents)} files, {len(whole.cells)} cells: {errors} errors, {warnings} warnings"
    free = sorted({root_of(path) for path, _, unit in paths(whole) if unit.roots is None})
    return counts + (f"; packages they bind: {', '.join(free)} (name them with --allow)" if free else "")
