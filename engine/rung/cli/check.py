"""`rung check`: read and judge manifests without importing what they bind.

Owns which manifests are judged and which findings are wanted; `rung.cli.report` lays them out.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from rung.cli.common import colored, common_flags, config_of, count, manifests_in, package, tell, write
from rung.cli.findings import Report
from rung.cli.report import FORMATS, render
from rung.diagnostics import RungError, shorten
from rung.files import read_regular
from rung.rulebook import selected

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rung.manifest import Manifests
    from rung.units import Unit

__all__ = ["add", "judged", "path_flags", "paths_of", "run", "units_for", "wanted"]

_NAMED: Final = 8
"""Packages that the summary names."""


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
        "--allow", metavar="PACKAGE", type=package, action="append", default=[],
        help="a top-level package they may bind, looked for in --root first; repeatable",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Check, report, and give the exit code."""
    config = config_of(arguments)
    select, ignore = selected(arguments.select), [*selected(arguments.ignore), *config.ignore]
    whole = judged(arguments, imports=arguments.imports)
    problems = [p for p in whole.problems if wanted(p.code, select, ignore)]
    limit = arguments.max_diagnostics
    report = Report(problems, whole.documents, config.root, colored(arguments))
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
    paths = manifests_in(config, arguments.paths)
    if not paths:
        above = None if _is_home(config.root) else next(filter(_is_home, config.root.resolve().parents), None)
        if above is not None:
            raise RungError(f"no pyproject.toml with [tool.rung] in {config.root.resolve()}; give --root {above}")
        called = f"as in `rung {arguments.command} PATH`"
        raise RungError(f"no manifest: name a directory, {called}, or set [tool.rung] manifests in pyproject.toml")
    return paths


def _is_home(folder: Path) -> bool:
    """Say whether a directory has a pyproject.toml that seems to have `[tool.rung]`."""
    try:
        return b"[tool.rung]" in read_regular(folder / "pyproject.toml", 1 << 20)
    except OSError:
        return False


def judged(
    arguments: argparse.Namespace, *, imports: bool = False, texts: Mapping[Path, bytes] | None = None
) -> Manifests:
    """Merge, check and audit the manifests that the flags or the configuration name, with the built-in ones.

    `texts` are taken instead of what files hold, by resolved path. Raise RungError when no manifest is named.
    """
    from rung.audit import audit
    from rung.audit.scene import Scene
    from rung.manifest import collector_paused, merge
    from rung.rules import check

    config = config_of(arguments)
    along, units = units_for(arguments, anything=not (arguments.allow or config.allow))
    table, named_all = None, {(config.root / path).resolve() for path in config.manifests}
    partial = any(unit.path.is_file() for unit in units) or not named_all <= {unit.path.resolve() for unit in units}
    if config.table and {unit.path.resolve() for unit in units} == named_all:
        bound, named = units_for(arguments)
        table = config.root / config.table, (*bound, *named)
    with collector_paused():
        whole = merge([*along, *units], texts=texts)
        check(whole)
        root = config.root.resolve()
        audit(Scene(whole, root, (str(root), *sys.path), imports, along, table, partial))
    return whole


def units_for(arguments: argparse.Namespace, *, anything: bool = False) -> tuple[tuple[Unit, ...], list[Unit]]:
    """Give the units that come along, and those the flags or the configuration name.

    They may bind what `--allow` and the configuration allow; with `anything`, which imports nothing, every package.
    """
    from rung.load import BUILTIN_ROOTS, builtin_unit, units_of

    config = config_of(arguments)
    allow = BUILTIN_ROOTS | {*arguments.allow, *config.allow}
    units = units_of(paths_of(arguments), None if anything else allow, config.root)
    own = builtin_unit(config.root)
    return () if any(unit.path.resolve() == own.path.resolve() for unit in units) else (own,), units


def wanted(code: str, select: Sequence[str], ignore: Sequence[str]) -> bool:
    """Say whether findings of a code were asked for."""
    return (not select or code in select) and code not in ignore


def _summary(whole: Manifests, errors: int, warnings: int) -> str:
    from rung.bind import root_of
    from rung.rules.safety import paths

    counts = f"{len(whole.documents)} files, {len(whole.cells)} cells: {errors} errors, {warnings} warnings"
    free = sorted({root_of(path) for path, _, unit in paths(whole) if unit.roots is None})
    more = f" and {len(free) - _NAMED} more" if len(free) > _NAMED else ""
    named = ", ".join(shorten(name) for name in free[:_NAMED])
    return counts + (f"; packages they bind: {named}{more} (name them with --allow)" if free else "")
