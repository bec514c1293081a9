"""Walking the predicates of a whole set of manifests, each node with its place.

Owns the mapping between the short forms of an expression and where its parts stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rung.diagnostics import Problem, Where
    from rung.manifest import Manifests
    from rung.models import ExpressionModel
    from rung.source import Document
    from rung.units import Unit

__all__ = ["Placed", "alike", "atoms", "judged", "nodes"]

Loc = tuple[str | int, ...]

_OPERATORS = ("all", "any", "not")


class Placed:
    """An expression node, its one key, the document it stands in, its place there, and the unit of that document."""

    __slots__ = ("document", "key", "loc", "model", "unit")

    def __init__(self, model: ExpressionModel, document: Document, loc: Loc, unit: Unit) -> None:
        self.model = model
        self.key = model.key
        self.document = document
        self.loc = loc
        self.unit = unit

    @property
    def has_terms(self) -> bool:
        """Whether there are nodes below."""
        return self.key in _OPERATORS

    @property
    def is_long(self) -> bool:
        """Whether the node is written as a mapping, and not as a name or a list."""
        return isinstance(self.document.at(self.loc), dict)

    @property
    def where(self) -> Where:
        """The place of the node's value."""
        return self.document.where((*self.loc, self.key) if self.is_long else self.loc)

    def part(self, key: str) -> Where:
        """Give the place of a part of an atom's long form, of the whole atom where it is written short."""
        return self.document.where((*self.loc, self.key, key))

    def terms(self) -> Iterator[Placed]:
        """Give the nodes directly below."""
        model = self.model
        if not self.has_terms:
            return
        inner = (*self.loc, self.key) if self.is_long else self.loc
        if model.not_ is not None:
            yield Placed(model.not_, self.document, inner, self.unit)
        for index, term in enumerate(model.all or model.any or ()):
            yield Placed(term, self.document, (*inner, index), self.unit)


def expressions(whole: Manifests) -> list[Placed]:
    """Give every outermost expression: named predicates, `requires`, and each row's `when`; they are found once."""
    found: list[Placed] | None = whole.memo.get("expressions")
    if found is None:
        found = whole.memo["expressions"] = list(_expressions(whole))
    return found


def _expressions(whole: Manifests) -> Iterator[Placed]:
    for entry in whole.predicates.values():
        yield Placed(entry.model, entry.document, entry.loc, entry.unit)
    for backend in whole.backends.values():
        if backend.file.requires is not None:
            yield Placed(backend.file.requires, backend.document, ("requires",), backend.unit)
        for section, rows in (("kernels", backend.kernels), ("components", backend.components)):
            for name, index, row in rows:
                if row.when is not None:
                    yield Placed(row.when, backend.document, (section, name, index, "when"), backend.unit)


def nodes(placed: Placed) -> Iterator[Placed]:
    """Give a node and everything below it."""
    yield placed
    for term in placed.terms():
        yield from nodes(term)


def alike(whole: Manifests) -> Iterable[list[Placed]]:
    """Give the outermost expressions, those of one document together that are one model: see `rung.models`."""
    found: dict[int, list[Placed]] | None = whole.memo.get("alike")
    if found is None:
        found = whole.memo["alike"] = {}
        for placed in expressions(whole):
            found.setdefault(id(placed.model), []).append(placed)
    return found.values()


def judged(whole: Manifests, judge: Callable[[Placed], Iterator[Problem]], *keys: str) -> Iterator[Problem]:
    """Judge every atom of these keys: once what many rows ask alike, and everywhere where it is at fault."""
    found: dict[str, list[tuple[Placed, list[Placed]]]] | None = whole.memo.get("atoms to judge")
    if found is None:
        found = whole.memo["atoms to judge"] = {}
        for outer in alike(whole):
            for node in nodes(outer[0]):
                found.setdefault(node.key, []).append((node, outer))
    for key in keys:
        for node, outer in found.get(key, ()):
            faults = list(judge(node))
            yield from faults
            for other in outer[1:] if faults else ():
                inner = node.loc[len(outer[0].loc) :]
                yield from judge(Placed(node.model, other.document, (*other.loc, *inner), other.unit))


def atoms(whole: Manifests, *keys: str) -> Iterator[Placed]:
    """Give every node of the manifests that is an atom of one of these keys; they are sorted out once."""
    found: dict[str, list[Placed]] | None = whole.memo.get("atoms")
    if found is None:
        found = whole.memo["atoms"] = {}
        for placed in expressions(whole):
            for node in nodes(placed):
                found.setdefault(node.key, []).append(node)
    for key in keys:
        yield from found.get(key, ())
