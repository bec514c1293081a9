"""Rules RG603, RG604 and RG606: predicates that nobody uses, that can never hold, that answer nonsense."""

from __future__ import annotations

from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from rung.audit.answers import faulty_probes
from rung.audit.demands import Judge, together
from rung.compile import expression_of
from rung.diagnostics import Problem, closest, shorten
from rung.resources import data_dir
from rung.rules.expressions import Placed, atoms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.audit.demands import Clash
    from rung.audit.scene import Scene
    from rung.manifest import BackendEntry, Manifests
    from rung.models import ComponentModel, KernelModel
    from rung.units import Unit

__all__ = ["RULES"]


def rg603(scene: Scene) -> Iterator[Problem]:
    """A predicate that no cell, backend or other predicate uses.

    Of predicates that only unused ones use, the outermost is reported. Those rung ships are for others to use, so
    they are judged only where nothing else is.
    """
    whole = scene.whole
    used = {str(node.model.use) for node in atoms(whole, "use")}
    unused = [
        entry
        for entry in whole.predicates.values()
        if entry.name not in used and not whole.is_mentioned(entry.name) and not _is_library(whole, entry.unit)
    ]
    if not unused:
        return
    names = whole.names("predicates")
    used |= {closest(name, names) or "" for name in used - names}  # meant, and reported as unknown
    used |= _maybe_used(whole)
    for entry in unused:
        if entry.name not in used:
            hint = "use it in a `when` or `requires`, or remove it"
            yield Problem("RG603", entry.where, f"predicate `{shorten(entry.name)}` is not used", hint)


def _is_library(whole: Manifests, unit: Unit) -> bool:
    return len(whole.units) > 1 and unit.path.resolve() == data_dir("manifests").resolve()


def _maybe_used(whole: Manifests) -> set[str]:
    """Give every text value of the files of which something was left out for a fault: it may have used a predicate."""
    faulty = {problem.where.path for problem in whole.problems.errors if problem.where is not None}
    cut = whole.names("backends") - set(whole.backends)
    found: set[str] = set()
    for document in whole.documents:
        stack: list[object] = [document.data] if document.path in faulty or cut else []
        while stack:
            value = stack.pop()
            if isinstance(value, str):
                found.add(value)
            else:
                stack += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found


def rg604(scene: Scene) -> Iterator[Problem]:
    """An atom and its own negation, or two atoms that no machine has both, where both must hold."""
    whole = scene.whole
    judge = Judge(lambda placed: scene.is_sound(placed.document, placed.loc))
    ordered = _used_first(whole)
    for name in dict.fromkeys([*ordered, *whole.predicates]):
        entry = whole.predicates[name]
        placed = Placed(entry.model, entry.document, entry.loc, entry.unit)
        # Of a name that comes to a cycle nothing is known where it is used.
        for clash in judge.name(name, placed) if name in ordered else judge.demand(placed).clashes:
            yield _contradiction(clash)
    for backend in whole.backends.values():
        yield from _of_backend(judge, backend)


def _used_first(whole: Manifests) -> dict[str, None]:
    """Give the names of predicates, each after those it uses; none that comes to a cycle, which RG303 reports."""
    uses: dict[str, set[str]] = {name: set() for name in whole.predicates}
    for node in atoms(whole, "use"):
        if node.loc[0] == "predicates" and node.model.use in uses:
            uses[str(node.loc[1])].add(node.model.use)
    sorter = TopologicalSorter(uses)
    order: list[str] = []
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        order += ready
        sorter.done(*ready)
    return dict.fromkeys(order)


def _of_backend(judge: Judge, backend: BackendEntry) -> Iterator[Problem]:
    """Judge a backend's `requires`, and with it each different `when` of its rows."""
    needed = []
    if backend.file.requires is not None:
        demand = judge.demand(Placed(backend.file.requires, backend.document, ("requires",), backend.unit))
        for clash in demand.clashes:
            yield _contradiction(clash)
        demand.clashes = []
        needed = [] if demand.dead else [demand]
    clean: set[object] = set()
    for section, rows in (("kernels", backend.kernels), ("components", backend.components)):
        for name, index, row in rows:
            what = None if row.when is None else row.when.use or expression_of(row.when)
            if row.when is None or what in clean:
                continue
            placed = Placed(row.when, backend.document, (section, name, index, "when"), backend.unit)
            clashes = together([*needed, judge.demand(placed)]).clashes
            if not clashes:
                clean.add(what)
            for clash in clashes:
                yield _contradiction(clash, _cell_id(backend, name, row))


def _cell_id(backend: BackendEntry, name: str, row: KernelModel | ComponentModel) -> str:
    """Give the id of the first cell a row stands for."""
    arch = getattr(row, "arch", None)
    place = f"{row.device[0]}.{arch[0]}" if arch else row.device[0]
    return f"{backend.name}/{name}@{place}#{row.variant[0]}"


def _contradiction(clash: Clash, cell: str = "") -> Problem:
    return Problem("RG604", clash.where, clash.message, clash.hint, cell, clash.related)


def rg606(scene: Scene) -> Iterator[Problem]:
    """A probe whose source shows that it raises, or answers something else than True, False or None."""
    for path, fault in faulty_probes(scene).items():
        message = f"probe `{shorten(path, 30)}` {fault.message}"
        yield Problem("RG606", fault.use.where, message, fault.hint, related=fault.related)


RULES: tuple[Callable[[Scene], Iterator[Problem]], ...] = (rg603, rg604, rg606)
