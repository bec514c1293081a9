"""The `rung` command.

Owns the parser, the exit codes and the last line of defence. Each command is one module with `add` and `run`.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from rung.cli import cache, check, explain, facts, fix, ladder, matrix, new, parity, rule, schema
from rung.cli import compile as compile_
from rung.cli.common import tell
from rung.diagnostics import RungError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CLEAN", "FINDINGS", "INTERNAL", "USAGE", "main"]

CLEAN, FINDINGS, USAGE, INTERNAL = range(4)

_COMMANDS = (check, fix, new, explain, ladder, matrix, facts, parity, rule, schema, compile_, cache)


class _Parser(argparse.ArgumentParser):
    """A parser whose messages, which quote arguments, are as harmless as all others."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            tell(printable(message.rstrip("\n")))
        sys.exit(status)


class _Notes(logging.Handler):
    """Shows what the engine logs, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(printable(f"rung: note: {record.getMessage()}"))


def parser() -> argparse.ArgumentParser:
    """Give the argument parser of all commands."""
    import rung

    top = _Parser(
        prog="rung",
        description="Dispatch for ML kernels from validated manifests: check them, and see what resolves to what.",
        epilog="Exit: 0 clean, 1 findings, 2 usage or configuration, 3 a bug in rung.",
    )
    top.add_argument("--version", action="version", version=f"rung {rung.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add(commands)
    return top


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning to somebody at a terminal, who has no use for our source line."""
    tell(f"rung: warning: {message}")


@contextmanager
def _spoken() -> Iterator[None]:
    """Show what the engine warns of and logs on standard error, a line each."""
    notes = _Notes()
    logger = logging.getLogger("rung")
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code."""
    arguments = parser().parse_args(argv)
    try:
        with _spoken():
            code: int = arguments.run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (RungError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader of a pipe has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return CLEAN
        if arguments.debug:
            raise
        tell(f"rung: {error}")
        return USAGE
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if arguments.debug:
            raise
        what = printable(f"{type(error).__name__}: {error}")
        tell(f"rung: internal error: {what} (run with --debug and report this)")
        return INTERNAL
    return code
