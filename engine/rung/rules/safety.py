"""Rule RG801: a manifest binds only the packages its unit may bind."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rung.bind import root_of
from rung.diagnostics import Problem, closest, shorten
from rung.rules.expressions import atoms, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.diagnostics import Where
    from rung.manifest import Manifests
    from rung.rules.expressions import Placed
    from rung.units import Unit

__all__ = ["RULES", "paths"]


def paths(whole: Manifests) -> Iterator[tuple[str, Callable[[], Where], Unit]]:
    """Give every dotted path of the manifests with a function that gives its place, and its unit."""
    yield from _of_entries(whole)
    for backend in whole.backends.values():
        for section, rows in (("kernels", backend.kernels), ("components", backend.components)):
            for name, index, row in rows:
                if (section, name, index, "impl") not in backend.lost:
                    yield row.impl, partial(backend.at, section, name, index, "impl"), backend.unit
    for node in atoms(whole, "probe"):
        if node.model.probe is not None:
            yield node.model.probe, partial(getattr, node, "where"), node.unit


def _of_entries(whole: Manifests) -> Iterator[tuple[str, Callable[[], Where], Unit]]:
    for device in whole.devices.values():
        if device.model.detect is not None:
            yield device.model.detect, partial(device.at, "detect"), device.unit
    for op in whole.ops.values():
        if op.has("reference"):
            yield op.model.reference, partial(op.at, "reference"), op.unit
        if op.model.cases is not None:
            yield op.model.cases, partial(op.at, "cases"), op.unit


def rg801(whole: Manifests) -> Iterator[Problem]:
    """A dotted path into a package that the caller, or the distribution, does not allow."""
    for path, place, unit in _of_entries(whole):
        if not _may_bind(unit, path):
            yield _bound(unit, path, place())
    for backend in whole.backends.values():
        roots = backend.unit.roots
        if roots is None:
            continue
        for section, rows in (("kernels", backend.kernels), ("components", backend.components)):
            for name, index, row in rows:
                if root_of(row.impl) not in roots and (section, name, index, "impl") not in backend.lost:
                    yield _bound(backend.unit, row.impl, backend.at(section, name, index, "impl"))
    yield from judged(whole, _probe, "probe")


def _probe(node: Placed) -> Iterator[Problem]:
    path = node.model.probe or ""
    if not _may_bind(node.unit, path):
        yield _bound(node.unit, path, node.where)


def _may_bind(unit: Unit, path: str) -> bool:
    return unit.roots is None or root_of(path) in unit.roots


def _bound(unit: Unit, path: str, where: Where) -> Problem:
    root = root_of(path)
    message = f"package `{root}` may not be bound by {unit.label or unit.shown}"
    # Every manifest may bind rung's own, and few that are not rung's mean to.
    near = closest(root, (name for name in unit.roots or () if not name.startswith("rung") or root.startswith("rung")))
    hint = f"allow it where the manifests are loaded: allow=[{root!r}], or --allow {root}"
    if near is not None:
        hint = f"did you mean `{shorten(near)}`? If not, {hint}"
    return Problem("RG801", where, message, hint)


RULES = (rg801,)
