"""Walking the predicates of a whole set of manifests, each node with its place.

Owns the mapping between the short forms of an expression and where its parts stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rung.diagnostics import Where
    from rung.manifest import Manifests
    from rung.models import ExpressionModel
    from rung.source import Document
    from rung.units import Unit

__all__ = ["Placed", "atoms", "expressions", "nodes"]

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """An expression node, the document it stands in, its place there, and the unit of that document."""

    model: ExpressionModel
    document: Document
    loc: Loc
    unit: Unit

    @property
    def key(self) -> str:
        """The node's one key: `all`, `any`, `not` or an atom."""
        return next(key for key in self.model.model_fields_set if key != "why").rstrip("_")

    @property
    def where(self) -> Where:
        """The place of the node's value."""
        node = self.document.node(self.loc)
        return self.document.where((*self.loc, self.key) if node.values is not None else self.loc)

    def part(self, key: str) -> Where:
        """Give the place of a part of an atom's long form, of the whole atom where it is written short."""
        return self.document.where((*self.loc, self.key, key))

    def terms(self) -> Iterator[Placed]:
        """Give the nodes directly below."""
        model = self.model
        if model.all is None and model.any is None and model.not_ is None:
            return
        node = self.document.node(self.loc)
        inner = (*self.loc, self.key) if node.values is not None else self.loc
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
