"""What an audit looks at: the merged manifests, where modules are looked for, and what is not to be judged again.

Owns the answer to "was this reported already?", so that no audit reports a consequence beside its cause.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from rung.audit.ignores import Ignores
from rung.rulebook import SILENCEABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rung.diagnostics import Problem
    from rung.manifest import CellEntry, Manifests
    from rung.source import Document
    from rung.units import Unit

__all__ = ["Scene"]

Loc = tuple[str | int, ...]

_OF_IMPORTS = frozenset({"RG502", "RG503", "RG504", "RG505", "RG606"})
_OF_ONE_PLACE = frozenset({"RG501", "RG502", "RG503", "RG504", "RG505", "RG606", "RG902"})
"""What a row, or a file, is enough to tell."""


@dataclass
class Scene:
    """Manifests that `rung.rules` has judged, and what surrounds them.

    `root` is what paths are shown relative to, `path` the directories in which top-level packages are looked for,
    in order. With `imports`, implementations are imported too, in a child process. `along` are the units that came
    along without being asked about, as rung's own manifests do. `table` is where the compiled table should lie, with
    the units it is made from. A scene is `partial` when more manifests belong together than those that are here.
    """

    whole: Manifests
    root: Path
    path: tuple[str, ...] = ()
    imports: bool = False
    along: tuple[Unit, ...] = ()
    table: tuple[Path, tuple[Unit, ...]] | None = None
    partial: bool = False
    _sound: dict[tuple[str, Loc, str], bool] = field(default_factory=dict)

    @cached_property
    def _errors(self) -> dict[str, list[tuple[int, int, str]]]:
        """Where errors of which code were found, by document and in order."""
        found: dict[str, list[tuple[int, int, str]]] = {}
        for problem in self.whole.problems.errors:
            if problem.where is not None:
                place = (problem.where.line, problem.where.column, problem.code)
                found.setdefault(problem.where.path, []).append(place)
        return found

    @cached_property
    def ignores(self) -> Ignores:
        """The comments that silence findings. An audit that reports a cause once asks them for each of its places."""
        return Ignores(self.whole.documents)

    def would_tell(self, document: Document, code: str) -> bool:
        """Say whether the rule of a code would have spoken in a document; see Note [Unused is a verdict]."""
        if not document.usable or (code in _OF_IMPORTS and not self.imports):
            return False
        if code in _OF_ONE_PLACE:
            return True
        return not self.partial and all(problem.code in SILENCEABLE for problem in self.whole.problems.errors)

    def is_asked_about(self, problem: Problem) -> bool:
        """Say whether a finding is one for the caller: not in a file that came along, but for a platform's hole."""
        path = problem.where.path if problem.where is not None else ""
        holders = [unit for unit in self.whole.units if unit.shown in (path, ".") or path.startswith(f"{unit.shown}/")]
        return problem.code == "RG406" or not holders or any(unit not in self.along for unit in holders)

    def is_sound(self, document: Document, loc: Loc, *, besides: str = "") -> bool:
        """Say whether no error was found in what stands at `loc`, its key included; none `besides` that code."""
        errors = self._errors.get(document.path)
        if not errors:
            return True
        key = (document.path, loc, besides)
        known = self._sound.get(key)
        if known is None:
            node = document.node(loc)
            start = document.where(loc, key=True)
            first, last = (start.line, start.column), (node.end_line, node.end_column)
            near = range(bisect_left(errors, first), len(errors))
            inside = takewhile(lambda at: errors[at][:2] == first or errors[at][:2] < last, near)
            known = self._sound[key] = all(errors[at][2] == besides for at in inside)
        return known

    def is_sound_cell(self, cell: CellEntry) -> bool:
        """Say whether a cell means what its author meant: no error in its row, nor in its backend's header."""
        backend = cell.backend
        if not self._errors.get(backend.document.path):
            return True
        if not self._has_sound_header(backend.document):
            return False
        return cell.is_whole and self.is_sound(backend.document, (cell.section, cell.serves, cell.index))

    def _has_sound_header(self, document: Document) -> bool:
        """Say whether a backend's cells are what they seem. A predicate that is not declared is one nobody knows."""
        keys = [key for key in ("manifest", "backend", "arrays", "requires") if document.root.child(key) is not None]
        return all(self.is_sound(document, (key,), besides="RG304") for key in keys)

    @cached_property
    def unsettled(self) -> set[str]:
        """The ops and kinds of which cells may have been lost: some row of theirs has an error."""
        out: set[str] = set()
        for document in self.whole.documents:
            if not self._errors.get(document.path):
                continue
            header_is_sound = self._has_sound_header(document)
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
