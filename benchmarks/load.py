"""What a table costs to make: compile and warm load of matrices of growing size, beside what others do to their bytes.

Owns what is timed and what it is compared with.
"""

from __future__ import annotations

import json
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import yaml

from benchmarks.report import LOAD, Row, Section
from benchmarks.rounds import collector_paused, interleaved, ratio_of, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.tables import Matrix

__all__ = ["load"]

COMPILE: Final = "compile"
COMPOSE: Final = "libyaml compose"
WARM: Final = "warm load"
LOOKED_AT: Final = "warm load and every cell"
JSON: Final = "json.loads"
TARGETED: Final = 10_000
"""The cells for which there are targets."""
COMPARED: Final = (
    (COMPOSE, "", None),
    (COMPILE, COMPOSE, 1.6),
    (JSON, "", None),
    (WARM, JSON, 2.0),
    (LOOKED_AT, JSON, None),
)
"""Each way, what it is compared with, and the target of that ratio."""
METHOD: Final = """\
A matrix has so many cells besides the built-in ones, one cell to a row, each row with an implementation of its own; an
op has 100 cells. *compile* is `rung.load` with the cache off: it reads, checks and compiles all manifests. *libyaml
compose* is `yaml.compose(bytes, yaml.CSafeLoader)` of the bytes of the same manifests, the built-in ones included, in
memory: syntax alone, no check of anything. *warm load* is `rung.load` when the table is in the cache: it reads and
hashes all manifests, reads the table and makes it usable. It leaves the cells of an op as they are until somebody looks
at that op; *warm load and every cell* also looks at all of them, which hardly any program does. *json.loads* is that of
the cached table's bytes, in memory. The collector is paused on every side, and giving the results' memory back is not
timed.
"""


def load(matrices: Sequence[Matrix], rounds: Mapping[int, int]) -> tuple[Section, dict[str, dict[int, float]]]:
    """Time both ways to a table at each size, so many rounds; give the table and the medians by way and cells."""
    rows: list[Row] = []
    medians: dict[str, dict[int, float]] = {COMPILE: {}, COMPOSE: {}, WARM: {}, LOOKED_AT: {}, JSON: {}}
    for matrix in matrices:
        say(f"load: {matrix.cells:,} cells, {rounds[matrix.cells]} rounds")
        times = _times(matrix, rounds[matrix.cells])
        for name, against, target in COMPARED:
            taken = medians[name][matrix.cells] = median(times[name])
            ratio = ratio_of(times[name], times[against]) if against else None
            limit = target if matrix.cells == TARGETED else None
            rows.append(Row(f"{name}, {matrix.cells:,} cells", taken, "s", ratio, against, limit))
    return Section("Load", METHOD, tuple(rows), LOAD), medians


def _times(matrix: Matrix, rounds: int) -> dict[str, list[float]]:
    matrix.compile()
    matrix.warm_load()  # the first one fills the cache
    sources, cached = matrix.sources(), matrix.cached()
    ways: dict[str, Callable[[], object]] = {
        COMPILE: matrix.compile,
        COMPOSE: partial(_compose, sources),
        WARM: matrix.warm_load,
        LOOKED_AT: partial(_look_at_all, matrix),
        JSON: partial(json.loads, cached),
    }
    return interleaved({name: partial(_seconds, way) for name, way in ways.items()}, rounds)


def _compose(sources: Sequence[bytes]) -> list[Any]:
    return [yaml.compose(source, yaml.CSafeLoader) for source in sources]


def _look_at_all(matrix: Matrix) -> object:
    table = matrix.warm_load()
    return table, [table.kernels[op] for op in table.kernels]


def _seconds(way: Callable[[], object]) -> float:
    with collector_paused():
        start = perf_counter()
        made = way()
        took = perf_counter() - start
        del made
    return took
