"""`rung schema`: write, or verify, the JSON Schemas that editors use.

Owns where they are written, and that a file is replaced only when it changes; `rung.schemas` makes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rung.cli.check import units_for
from rung.cli.common import common_flags, config_of, tell, write, write_json
from rung.diagnostics import RungError
from rung.files import read_regular, replace_file

if TYPE_CHECKING:
    import argparse

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
    command.set_defaults(run=run, allow=[])


def run(arguments: argparse.Namespace) -> int:
    """Write the schemas, or say which are not as they would be written."""
    from rung.manifest import merge
    from rung.rules import check
    from rung.schemas import command_for, texts

    root = config_of(arguments).root
    directory = Path(arguments.directory) if arguments.directory else root / "schemas"
    along, named = units_for(arguments, anything=True)
    whole = merge([*along, *named])
    check(whole)
    if directory.exists() and not directory.is_dir():
        raise RungError(f"not a directory: {directory}")
    wanted = {directory / name: text for name, text in texts(whole, named, directory).items()}
    states = {path: _state(path, text) for path, text in wanted.items()}
    for path, state in states.items():
        if state != "unchanged" and not arguments.check:
            replace_file(path, wanted[path].encode())
            states[path] = "written"
    if arguments.format == "json":
        files = [{"path": path.as_posix(), "state": state} for path, state in states.items()]
        write_json(arguments, {"format_version": 1, "schemas": files})
    else:
        write(arguments, "\n".join(f"{state}: {path.as_posix()}" for path, state in states.items()))
    errors = len(whole.problems.errors)
    if errors:
        tell(f"errors in the manifests: {errors}; until they are repaired (`rung check`), names may be missing")
    if not {"stale", "missing"} & {*states.values()}:
        return 0
    tell(f"repair: {command_for([unit.path for unit in named], directory, root)}")
    return 1


def _state(path: Path, text: str) -> str:
    """Say whether a file has a text, whatever its line ends; raise RungError for what is no file."""
    from rung.schemas import MAX_BYTES

    try:
        found = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        return "missing"
    except OSError:
        if not path.is_file():
            raise RungError(f"not a regular file: {path}") from None
        return "stale"
    return "unchanged" if found.replace(b"\r\n", b"\n") == text.encode() else "stale"
