"""`rung check`: read and judge manifests without importing what they bind.

Owns which manifests are judged and which findings are wanted; `rung.cli.report` lays them out.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from rung.cli.common import colored, common_flags, config_of, write
from rung.cli.report import FORMATS, render
from rung.diagnostics import RungError, did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rung.manifest import Manifests

__all__ = ["add", "judged", "path_flags", "run"]


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
    command.add_argument("--max-diagnostics", metavar="N", type=int, default=200, help="show at most N (default 200)")
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
    select, ignore = _codes(arguments.select), _codes(arguments.ignore)
    whole = judged(arguments, imports=arguments.imports)
    problems = [p for p in whole.problems if _wanted(p.code, select, ignore)]
    shown = problems[: max(0, arguments.max_diagnostics)]
    write(arguments, render(arguments.format, shown, whole.documents, config_of(arguments).root, colored(arguments)))
    errors = sum(p.severity == "error" for p in problems)
    warnings = len(problems) - errors
    if len(shown) < len(problems):
        print(f"{len(problems) - len(shown)} more not shown (--max-diagnostics)", file=sys.stderr)
    print(_summary(whole, errors, warnings), file=sys.stderr)
    return 1 if errors or (warnings and arguments.strict) else 0


def judged(arguments: argparse.Namespace, *, imports: bool = False) -> Manifests:
    """Merge, check and audit the manifests that the flags or the configuration name, with the built-in ones.

    Raise RungError when that is none.
    """
    from rung.audit import audit
    from rung.audit.scene import Scene
    from rung.load import BUILTIN_ROOTS, builtin_unit, units_of
    from rung.manifest import merge
    from rung.rules import check

    config = config_of(arguments)
    paths = arguments.paths or [str(config.root / path) for path in config.manifests]
    if not paths:
        raise RungError("no manifest: name a directory, or set [tool.rung] manifests in pyproject.toml")
    allow = {*arguments.allow, *config.allow}
    units = units_of(paths, BUILTIN_ROOTS | allow if allow else None, config.root)
    own = builtin_unit(config.root)
    if not any(unit.path.resolve() == own.path.resolve() for unit in units):
        units.insert(0, own)
    whole = merge(units)
    check(whole)
    root = config.root.resolve()
    audit(Scene(whole, root, (str(root), *sys.path), imports))
    return whole


def _codes(written: Sequence[str]) -> list[str]:
    """Give the rule codes that are meant, a group by its first digits; raise RungError for one that is none."""
    from rung.rulebook import rulebook

    out: list[str] = []
    for given in (code for text in written for code in text.split(",")):
        found = [code for code in rulebook() if re.fullmatch(r"RG\d*", given) and code.startswith(given)]
        if not found:
            hint = did_you_mean(given, rulebook()) if re.fullmatch(r"RG\d+", given) else "codes are RG and three digits"
            raise RungError(f"no rule is called `{given}`: {hint}")
        out += found
    return out


def _wanted(code: str, select: Sequence[str], ignore: Sequence[str]) -> bool:
    return (not select or code in select) and code not in ignore


def _summary(whole: Manifests, errors: int, warnings: int) -> str:
    from rung.bind import root_of
    from rung.rules.safety import paths

    counts = f"{len(whole.documents)} files, {len(whole.cells)} cells: {errors} errors, {warnings} warnings"
    free = sorted({root_of(path) for path, _, unit in paths(whole) if unit.roots is None})
    return counts + (f"; packages they bind: {', '.join(free)} (name them with --allow)" if free else "")
