"""What commands share: common flags, the configuration in pyproject.toml, which table, and output.

Owns no command. Reads configuration; decides nothing about manifests.

Note [A stranger's configuration]: pyproject.toml comes from the checkout that is judged, which may be anybody's. So its
text is printable, and the paths in it lead nowhere but below the root, also through links.

Note [Nothing but our commands]: GitHub's runner reads every line of a log for commands, in two notations: `::name::` at
the start of a line and `##[name]` anywhere in it. What is printed may quote a manifest, and must not make one. So where
a runner reads along, whatever is printed is made inert; `--format github` escapes for itself. JSON always is inert.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from dataclasses import dataclass
from errno import EINVAL, EPIPE
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from rung.diagnostics import RungError, printable, shorten
from rung.files import read_regular, replace_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from rung.facts import Facts
    from rung.table import Table

__all__ = [
    "Config",
    "as_json",
    "colored",
    "common_flags",
    "config_of",
    "count",
    "facts_flag",
    "facts_of",
    "inert",
    "manifests_in",
    "output_file",
    "package",
    "root_flags",
    "rows",
    "table_flags",
    "table_of",
    "tell",
    "write",
    "write_json",
]

_MAX_CONFIG: Final = 1 << 20
"""Bytes of a pyproject.toml that are read."""
_DEVICES: Final = frozenset({"/dev", "/dev/fd"})
_COMMAND: Final = re.compile(r"(?:\A|(?<=[\r\n]))(\s*):(?=:)|##(?=\[)")


@dataclass(frozen=True)
class Config:
    """`[tool.rung]` of the root's pyproject.toml; see Note [A stranger's configuration].

    Directories of manifests, packages they may bind, the compiled table, and codes that are not to be reported.
    """

    root: Path
    manifests: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    table: str = ""
    ignore: tuple[str, ...] = ()


def common_flags(command: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """Add the flags every command has. The first format is the default."""
    command.add_argument("--format", choices=formats, default=formats[0], help=f"default: {formats[0]}")
    command.add_argument(
        "--output", metavar="FILE", type=output_file, help="write the report to a file instead of standard output"
    )
    command.add_argument("--no-color", action="store_true", help="no colours; so does NO_COLOR")
    root_flags(command)


def root_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of a command that prints no report, too."""
    command.add_argument("--root", metavar="DIR", default=".", help="where pyproject.toml and packages are")
    command.add_argument("--debug", action="store_true", help="show a traceback instead of one line")


def count(text: str) -> int:
    """Read a flag that counts something; argparse reports what is no count."""
    from argparse import ArgumentTypeError

    if not text.isdecimal():
        raise ArgumentTypeError(f"must be 0 or more, not {text}")
    return int(text)


def package(text: str) -> str:
    """Read a flag that names a top-level package; argparse reports what is none."""
    from argparse import ArgumentTypeError

    if not text.isidentifier():
        raise ArgumentTypeError(f"`{text}` is no top-level package: one is called like `acme`")
    return text


def output_file(text: str) -> str:
    """Read a flag that names a file to write, before anything is done; argparse reports what cannot be written."""
    from argparse import ArgumentTypeError

    fault = _write_fault(text)
    if fault:
        raise ArgumentTypeError(f"`{text}` {fault}")
    return text


def _write_fault(text: str) -> str:
    """Say why a file cannot be put there, or replaced; nothing when it can."""
    if not text or "\0" in text:
        return "names no file"
    if text.endswith((".yaml", ".yml", ".toml")) and Path(text).exists():
        return "is there already, and looks like a file to read"
    path = Path(text)
    if path.absolute().parent.as_posix() in _DEVICES:
        return "is a device; without this flag the report goes to standard output"
    try:
        mode = path.stat().st_mode if path.exists() else None
        folder = path.parent
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        if mode is not None and not stat.S_ISREG(mode):
            return "is a directory" if stat.S_ISDIR(mode) else "is not a regular file"
        if not folder.is_dir():
            return f"cannot be made: {folder} is not a directory"
        if not os.access(folder, os.W_OK) or (mode is not None and not os.access(path, os.W_OK)):
            return "cannot be written"
    except (OSError, ValueError) as error:
        return f"cannot be written: {getattr(error, 'strerror', None) or error}"
    return ""


def table_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that say which manifests to judge by."""
    command.add_argument(
        "--manifests", metavar="PATH", action="append", default=[],
        help="a directory or file of manifests, besides the built-in ones; repeatable",
    )  # fmt: skip
    command.add_argument(
        "--allow", metavar="PACKAGE", type=package, action="append", default=[],
        help="a top-level package those manifests may bind, installed or in --root; repeatable",
    )  # fmt: skip


def facts_flag(command: argparse.ArgumentParser) -> None:
    """Add the flag that answers for another machine."""
    command.add_argument("--facts", metavar="FILE", help="answer for the machine recorded there, not for this one")


def config_of(arguments: argparse.Namespace) -> Config:
    """Read `[tool.rung]`; raise RungError when it is not as it should be."""
    root = Path(arguments.root)
    if not root.is_dir():
        raise RungError(f"no such directory: {arguments.root}")
    file = root / "pyproject.toml"
    section: Any = _toml(file)
    for name in ("tool", "tool.rung"):
        section = section.get(name.removeprefix("tool."), {})
        if not isinstance(section, dict):
            raise RungError(f"{file}: `{name}` must be a table, written [{name}]")
    for key, value in section.items():
        fault = _fault(root, key, value)
        if fault:
            raise RungError(f"{file}: [tool.rung] {printable(fault)}")
    ignore = tuple(section.get("ignore", ()))
    if ignore:
        from rung.rulebook import selected

        try:
            ignore = tuple(selected(ignore))
        except RungError as error:
            raise RungError(f"{file}: [tool.rung] ignore: {printable(str(error))}") from None
    return Config(
        root, tuple(section.get("manifests", ())), tuple(section.get("allow", ())), section.get("table", ""), ignore
    )


def _toml(file: Path) -> dict[str, Any]:
    """Read a TOML file, which may be missing; raise RungError when it cannot be read."""
    import tomllib

    if not os.path.lexists(file):
        return {}
    try:
        return tomllib.loads(read_regular(file, _MAX_CONFIG).decode("utf-8"))
    except OSError as error:
        raise RungError(f"{file}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise RungError(f"{file}: nested too deeply") from None
    except ValueError as error:  # no TOML, not UTF-8, or a number of thousands of digits
        raise RungError(f"{file}: {printable(str(error))}") from None


def _fault(root: Path, key: str, value: Any) -> str:
    """Say what is wrong with an entry of `[tool.rung]`, nothing when it is right."""
    if key not in ("manifests", "allow", "table", "ignore"):
        return f"has no key `{shorten(key)}`; it has `allow`, `ignore`, `manifests` and `table`"
    if key == "table":
        if not isinstance(value, str) or not value:
            return "table must be the path of a file"
        if not value.endswith(".json"):
            return f"table: `{shorten(value)}` must end in .json"
    elif not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return f"{key} must be a list of text"
    for item in [value] if key == "table" else value:
        if not item.isprintable():
            return f"{key} has a control character in `{shorten(item)}`"
        if key == "allow" and not item.isidentifier():
            return f"allow: `{shorten(item)}` is no top-level package: one is called like `acme`"
        if key in ("manifests", "table") and not _is_below(root / item, root):
            return f"{key}: `{shorten(item)}` leads out of the directory of that file"
    return ""


def _is_below(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # a loop of links is the latter up to Python 3.12
        return False


def manifests_in(config: Config, named: Sequence[str]) -> list[str]:
    """Give the paths that were named, else those of the configuration; raise RungError for a file of another kind."""
    for path in named:
        if not path.endswith((".yaml", ".yml")) and Path(path).is_file():
            raise RungError(f"{printable(path)} is no manifest: a manifest ends in .yaml or .yml")
    return list(named) or [str(config.root / path) for path in config.manifests]


def table_of(arguments: argparse.Namespace) -> Table:
    """Give the table of --manifests, else of the configuration, else the default one with plugins."""
    from rung.load import default_table, load

    config = config_of(arguments)
    paths = manifests_in(config, arguments.manifests)
    allow = {*arguments.allow, *config.allow}
    if not paths:
        return default_table()
    root = str(config.root.resolve())
    if allow and root not in sys.path:
        sys.path.append(root)  # last: no file of a checkout stands in for a module that rung has yet to import
    return load(paths, allow=allow)


def facts_of(arguments: argparse.Namespace) -> Facts | None:
    """Give the recorded facts that --facts names, None for this machine."""
    from rung.facts import Facts

    return Facts.load(arguments.facts) if arguments.facts else None


def write(arguments: argparse.Namespace, text: str) -> None:
    """Write a report where --output says."""
    text = text if text.endswith("\n") or not text else text + "\n"
    if arguments.output:
        replace_file(Path(arguments.output), text.encode("utf-8", "backslashreplace"))
    else:
        if sys.stdout is not None:  # somebody closed it
            _send(text if arguments.format == "github" else _overheard(text), sys.stdout)


def tell(text: str) -> None:
    """Print progress or a summary, which is no part of the report, without control characters."""
    _send(_overheard("\n".join(printable(line) for line in text.split("\n"))) + "\n", sys.stderr)


def inert(text: str) -> str:
    r"""Give a text in which a runner finds no command: the first character of one becomes `\u....`.

    See Note [Nothing but our commands].
    """
    return _COMMAND.sub(lambda found: r"#\u0023" if found[1] is None else rf"{found[1]}\u003a", text)


def _overheard(text: str) -> str:
    return inert(text) if os.environ.get("GITHUB_ACTIONS") else text


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
    write(arguments, as_json(value))


def as_json(value: Any) -> str:
    """Give plain data as inert JSON; see Note [Nothing but our commands]."""
    return inert(json.dumps(value, indent=2, ensure_ascii=True))


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def colored(arguments: argparse.Namespace) -> bool:
    """Say whether the report may have colours."""
    return not (arguments.no_color or arguments.output or os.environ.get("NO_COLOR")) and _is_terminal(sys.stdout)


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
