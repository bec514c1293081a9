"""What commands share: common flags, the configuration in pyproject.toml, which table, and output.

Owns no command. Reads configuration; decides nothing about manifests.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from errno import EINVAL, EPIPE
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rung.diagnostics import RungError, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from rung.facts import Facts
    from rung.table import Table

__all__ = [
    "Config",
    "common_flags",
    "config_of",
    "count",
    "facts_flag",
    "facts_of",
    "rows",
    "table_flags",
    "table_of",
    "tell",
    "write",
    "write_json",
]


@dataclass(frozen=True)
class Config:
    """`[tool.rung]` of the root's pyproject.toml: manifest directories and packages they may bind."""

    root: Path
    manifests: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


def common_flags(command: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """Add the flags every command has. The first format is the default."""
    command.add_argument("--format", choices=formats, default=formats[0], help=f"default: {formats[0]}")
    command.add_argument("--output", metavar="FILE", help="write the report to a file instead of standard output")
    command.add_argument("--root", metavar="DIR", default=".", help="where pyproject.toml is; first on the import path")
    command.add_argument("--no-color", action="store_true", help="no colours; so does NO_COLOR")
    command.add_argument("--debug", action="store_true", help="show a traceback instead of one line")


def count(text: str) -> int:
    """Read a flag that counts something; argparse reports what is no count."""
    from argparse import ArgumentTypeError

    if not text.isdecimal():
        raise ArgumentTypeError(f"must be 0 or more, not {text}")
    return int(text)


def table_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that say which manifests to judge by."""
    command.add_argument(
        "--manifests", metavar="PATH", action="append", default=[],
        help="a directory or file of manifests, besides the built-in ones; repeatable",
    )  # fmt: skip
    command.add_argument(
        "--allow", metavar="PACKAGE", action="append", default=[],
        help="a top-level package those manifests may bind, looked for in --root first; repeatable",
    )  # fmt: skip


def facts_flag(command: argparse.ArgumentParser) -> None:
    """Add the flag that answers for another machine."""
    command.add_argument("--facts", metavar="FILE", help="answer for the machine recorded there, not for this one")


def config_of(arguments: argparse.Namespace) -> Config:
    """Read `[tool.rung]`; raise RungError when it is not as it should be."""
    import tomllib

    root = Path(arguments.root)
    if not root.is_dir():
        raise RungError(f"no such directory: {arguments.root}")
    file = root / "pyproject.toml"
    if not file.is_file():
        return Config(root)
    try:
        section: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RungError(f"{file}: {error}") from None
    for name in ("tool", "tool.rung"):
        section = section.get(name.removeprefix("tool."), {})
        if not isinstance(section, dict):
            raise RungError(f"{file}: `{name}` must be a table, written [{name}]")
    for key, value in section.items():
        if key not in ("manifests", "allow"):
            raise RungError(f"{file}: [tool.rung] has no key `{key}`; it has `manifests` and `allow`")
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise RungError(f"{file}: [tool.rung] {key} must be a list of text")
    return Config(root, tuple(section.get("manifests", ())), tuple(section.get("allow", ())))


def table_of(arguments: argparse.Namespace) -> Table:
    """Give the table of --manifests, else of the configuration, else the default one with plugins."""
    from rung.load import default_table, load

    config = config_of(arguments)
    paths = arguments.manifests or [str(config.root / path) for path in config.manifests]
    allow = {*arguments.allow, *config.allow}
    if not paths:
        return default_table()
    root = str(config.root.resolve())
    if allow and root not in sys.path:
        sys.path.insert(0, root)
    return load(paths, allow=allow)


def facts_of(arguments: argparse.Namespace) -> Facts | None:
    """Give the recorded facts that --facts names, None for this machine."""
    from rung.facts import Facts

    return Facts.load(arguments.facts) if arguments.facts else None


def write(arguments: argparse.Namespace, text: str) -> None:
    """Write a report where --output says."""
    text = text if text.endswith("\n") or not text else text + "\n"
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8", newline="\n")
    else:
        _send(text, sys.stdout)


def tell(text: str) -> None:
    """Print progress or a summary, which is no part of the report."""
    _send(text + "\n", sys.stderr)


def _send(text: str, stream: TextIO) -> None:
    """Write to a stream. A reader that has seen enough changes no exit code, nor does a character it cannot show."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        if error.errno not in (EPIPE, EINVAL):  # the latter on Windows
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_json(arguments: argparse.Namespace, value: Any) -> None:
    """Write a JSON report."""
    write(arguments, json.dumps(value, indent=2, ensure_ascii=True))


def colored(arguments: argparse.Namespace) -> bool:
    """Say whether the report may have colours."""
    return not (arguments.no_color or arguments.output or os.environ.get("NO_COLOR")) and sys.stdout.isatty()


def rows(header: Sequence[str], body: Iterable[Sequence[str]], *, markdown: bool = False) -> str:
    """Lay out a table as aligned text, or as Markdown."""
    cells = [[printable(str(cell)) for cell in line] for line in body]
    if markdown:
        lines = [list(header), ["---"] * len(header), *([_escape(c) for c in line] for line in cells)]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    lines = [list(header), ["-" * width for width in widths], *cells]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _escape(text: str) -> str:
    for character in "\\|`*_<>[]":
        text = text.replace(character, "\\" + character)
    return text
