"""Findings on their way to a report, and the paths by which their reader knows the files.

Owns what every format is given; lays out nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rung.diagnostics import Problem
    from rung.source import Document

__all__ = ["Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """Findings in the order in which they are printed, the documents they are about, and what paths start from.

    `not_shown` counts the findings that were left out.
    """

    problems: Sequence[Problem]
    documents: Sequence[Document] = ()
    root: Path = Path()
    color: bool = False
    not_shown: int = 0
    _seen: dict[str, str] = field(default_factory=dict)

    def locate(self, path: str) -> Path:
        """Give the file that findings call `path`: below the root, or where the command was called."""
        places = (self.root.resolve() / path, Path.cwd() / path)
        found = next((place for place in places if _exists(place)), places[0])
        return found.parent.resolve() / found.name

    def seen(self, path: str) -> str:
        """Give the path by which a reviewer knows a file.

        Relative to the checkout that GITHUB_WORKSPACE names where the root lies in it, else to the root; absolute for
        a file outside.
        """
        known = self._seen.get(path)
        if known is not None:
            return known
        file, root = self.locate(path), self.root.resolve()
        checkout = os.environ.get("GITHUB_WORKSPACE")
        base = Path(checkout).resolve() if checkout else root
        base = base if root.is_relative_to(base) else root
        shown = (file.relative_to(base) if file.is_relative_to(base) else file).as_posix()
        return self._seen.setdefault(path, shown)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name of a file, with what is unprintable in it escaped, may be too long for one
        return False
