"""A bar of one line on standard error that says how far a command is.

Owns when it is shown: at a terminal, and nowhere else. Must leave nothing behind.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Final

from rung.diagnostics import printable, shorten

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Bar", "line"]

_WIDTH: Final = 20


def line(done: int, total: int, now: str, columns: int) -> str:
    """Give the line for `done` of `total` steps and the step that is made now, in at most `columns` characters."""
    filled = _WIDTH * done // max(total, 1)
    head = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total} "
    return f"{head}{shorten(printable(now), max(columns - len(head), 3))}"[:columns]


class Bar:
    """A bar: `with Bar(total) as bar: bar.show(done, now)`. The line is cleared at the end, also of a failure."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()

    def show(self, done: int, now: str) -> None:
        """Show that `done` steps are made, and `now` is being made."""
        if self._is_shown:
            columns = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{line(done, self._total, now, columns)}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
