"""`rung schema`: write, or verify, the JSON Schemas that editors use.

Owns where they are written, and that a file is replaced whole and only when it changes; `rung.schemas` makes them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rung.cli.check import paths_of
from rung.cli.common import common_flags, config_of, tell, write, write_json
from rung.diagnostics import RungError

if TYPE_CHECKING:
    import argparse

    from rung.manifest import Manifests

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "schema",
        help="write the JSON Schemas that editors use",
        description="Write the schemas of manifests and facts files, and one that knows the names these manifests "
        "declare, so that an editor completes them.",
        epilog="A manifest names its schema in its first line: # yaml-language-server: "
        "$schema=../schemas/workspace.schema.json",
    )
    command.add_argument(
        "paths", metavar="PATH", nargs="*", help="directories or files; default: [tool.rung] manifests"
    )
    command.add_argument("--check", action="store_true", help="write nothing; fail when a file is missing or stale")
    command.add_argument("--directory", metavar="DIR", help="where they belong; default: schemas, in --root")
    common_flags(command, ("text", "json"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the schemas, or say which are not as they would be written."""
    from rung.schemas import command_for, texts

    root = config_of(arguments).root
    directory = Path(arguments.directory) if arguments.directory else root / "schemas"
    whole = _merged(arguments)
    if directory.exists() and not directory.is_dir():
        raise RungError(f"not a directory: {directory}")
    states: dict[str, str] = {}
    for name, text in texts(whole, directory).items():
        path = directory / name
        state = _state(path, text)
        if state != "unchanged" and not arguments.check:
            _replace(path, text)
            state = "written"
        states[path.as_posix()] = state
    if arguments.format == "json":
        files = [{"path": path, "state": state} for path, state in states.items()]
        write_json(arguments, {"format_version": 1, "schemas": files})
    else:
        write(arguments, "\n".join(f"{state}: {path}" for path, state in states.items()))
    errors = len(whole.problems.errors)
    if errors:
        tell(f"errors in the manifests: {errors}; until they are repaired (`rung check`), names may be missing")
    if not {"stale", "missing"} & {*states.values()}:
        return 0
    tell(f"repair: {command_for(whole.units, directory, root)}")
    return 1


def _merged(arguments: argparse.Namespace) -> Manifests:
    """Merge and check the manifests that are named, with the built-in ones."""
    from rung.load import builtin_unit, units_of
    from rung.manifest import merge
    from rung.rules import check

    root = config_of(arguments).root
    units = units_of(paths_of(arguments), None, root)
    own = builtin_unit(root)
    if not any(unit.path.resolve() == own.path.resolve() for unit in units):
        units.insert(0, own)
    whole = merge(units)
    check(whole)
    return whole


def _state(path: Path, text: str) -> str:
    """Say whether a file has a text, whatever its line ends."""
    try:
        found = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "missing"
    except UnicodeDecodeError:
        return "stale"
    return "unchanged" if found == text else "stale"


def _replace(path: Path, text: str) -> None:
    """Put a text in the place of a file: a reader finds all of the old one or all of the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    made = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        made.chmod(path.stat().st_mode if path.exists() else 0o666 & ~_umask())
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Give the process's mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
