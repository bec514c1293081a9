"""Rule RG801: a manifest binds only the packages its unit may bind."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rung.bind import root_of
from rung.diagnostics import Problem, closest, shorten
from rung.rules.expressions import atoms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.diagnostics import Where
    from rung.manifest import Manifests
    from rung.units import Unit

__all__ = ["RULES", "paths"]


def paths(whole: Manifests) -> Iterator[tuple[str, Callable[[], Where], Unit]]:
    """Give every dotted path of the manifests with a function that gives its place, and its unit."""
    for device in whole.devices.values():
        if device.model.detect is not None:
            yield device.model.detect, partial(device.at, "detect"), device.unit
    for op in whole.ops.values():
        if op.has("reference"):
            yield op.model.reference, partial(op.at, "reference"), op.unit
        if op.model.cases is not None:
            yield op.model.cases, partial(op.at, "cases"), op.unit
    for backend in whole.backends.values():
        for section, rows in (("kernels", backend.kernels), ("components", backend.components)):
            for name, index, row in rows:
                if not backend.lost or (section, name, index, "impl") not in backend.lost:
                    yield row.impl, partial(backend.at, section, name, index, "impl"), backend.unit
    for node in atoms(whole, "probe"):
        if node.model.probe is not None:
            yield node.model.probe, partial(getattr, node, "where"), node.unit


def rg801(whole: Manifests) -> Iterator[Problem]:
    """A dotted path into a package that the caller, or the distribution, does not allow."""
    for path, place, unit in paths(whole):
        root = root_of(path)
        if unit.roots is not None and root not in unit.roots:
            message = f"package `{root}` may not be bound by {unit.label or unit.shown}"
            near = closest(root, unit.roots)
            hint = f"allow it where the manifests are loaded: allow=[{root!r}], or --allow {root}"
            if near is not None:
                hint = f"did you mean `{shorten(near)}`? If not, {hint}"
            yield Problem("RG801", place(), message, hint)


RULES = (rg801,)
