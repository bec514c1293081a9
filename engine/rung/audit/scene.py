"""What an audit looks at: the merged manifests, where modules are looked for, and what is not to be judged again.

Owns the answer to "was this reported already?", so that no audit reports a consequence beside its cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rung.manifest import CellEntry, Manifests
    from rung.source import Document

__all__ = ["Scene"]

Loc = tuple[str | int, ...]


@dataclass
class Scene:
    """Manifests that `rung.rules` has judged, and what surrounds them.

    `root` is what paths are shown relative to, `path` the directories in which top-level packages are looked for,
    in order. With `imports`, implementations are imported too, in a child process.
    """

    whole: Manifests
    root: Path
    path: tuple[str, ...] = ()
    imports: bool = False
    _sound: dict[tuple[str, Loc], bool] = field(default_factory=dict)

    @cached_property
    def _errors(self) -> dict[str, list[tuple[int, int]]]:
        """Where errors were found, by document."""
        found: dict[str, list[tuple[int, int]]] = {}
        for problem in self.whole.problems.errors:
            if problem.where is not None:
                found.setdefault(problem.where.path, []).append((problem.where.line, problem.where.column))
        return found

    def is_sound(self, document: Document, loc: Loc) -> bool:
        """Say whether no error was found in what stands at `loc`, its key included."""
        errors = self._errors.get(document.path)
        if not errors:
            return True
        key = (document.path, loc)
        known = self._sound.get(key)
        if known is None:
            node = document.node(loc)
            start = document.where(loc, key=True)
            first, last = (start.line, start.column), (node.end_line, node.end_column)
            known = self._sound[key] = not any(place == first or first <= place < last for place in errors)
        return known

    def is_sound_cell(self, cell: CellEntry) -> bool:
        """Say whether a cell means what its author meant: no error in its row, nor in its backend's header."""
        backend = cell.backend
        if not self._errors.get(backend.document.path):
            return True
        header = ("backend", "arrays", "requires")
        if not all(self.is_sound(backend.document, (k,)) for k in header if backend.document.root.child(k)):
            return False
        return cell.is_whole and self.is_sound(backend.document, (cell.section, cell.serves, cell.index))

    @cached_property
    def unsettled(self) -> set[str]:
        """The ops and kinds of which cells may have been lost: some row of theirs has an error."""
        out: set[str] = set()
        for document in self.whole.documents:
            if not self._errors.get(document.path):
                continue
            header_is_sound = all(self.is_sound(document, (k,)) for k in ("backend", "arrays", "requires", "manifest"))
            for name, loc in _served(document):
                if not header_is_sound or not self.is_sound(document, loc):
                    out.add(name)
        return out

    def is_settled(self, serves: str) -> bool:
        """Say whether every cell of an op or kind is known: none was lost to an error, nor to an unreadable file."""
        return not self.whole.is_mentioned(serves) and serves not in self.unsettled


def _served(document: Document) -> Iterator[tuple[str, Loc]]:
    for section in ("kernels", "components"):
        rows = document.root.child(section)
        for name in (rows.values if rows is not None else None) or ():
            yield name, (section, name)
