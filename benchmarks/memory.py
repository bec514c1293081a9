"""What a cell costs in memory, in a table that was compiled and in one that was read from the cache.

Owns how that is counted: in a process of its own, by what Python allocated.
"""

from __future__ import annotations

import gc
import tracemalloc
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from benchmarks.report import Row, Section
from benchmarks.rounds import say

if TYPE_CHECKING:
    from benchmarks.tables import Matrix

__all__ = ["count", "counted", "memory"]

LIMIT: Final = 1024
METHOD: Final = """\
Each way to the table runs in a process of its own, which has made a small table before, so that modules are not
counted. `tracemalloc` counts what Python has allocated and still holds, divided by the matrix's cells: of the table as
it was made, and after every op's cells were looked at. *peak* is the most that was held while the table was made.
"""


def memory(matrix: Matrix, small: Matrix) -> Section:
    """Count the bytes per cell of a matrix's table; `small` is made before, uncounted."""
    matrix.warm_load()
    rows = []
    for way in ("compiled", "warm"):
        say(f"memory: {matrix.cells:,} cells, {way}")
        made, looked_at, peak = counted(matrix, small, way)
        name = f"{way}, {matrix.cells:,} cells"
        rows.append(Row(name, made / matrix.cells, "B", target=LIMIT))
        rows.append(Row(f"{name}, all looked at", looked_at / matrix.cells, "B", target=LIMIT))
        rows.append(Row(f"{name}, peak", peak / matrix.cells, "B"))
    return Section("Memory per cell", METHOD, tuple(rows))


def counted(matrix: Matrix, small: Matrix, way: str) -> tuple[int, int, int]:
    """Count in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(count, (matrix, small, way))


def count(matrix: Matrix, small: Matrix, way: str) -> tuple[int, int, int]:
    """Give the bytes held by the table as made and as looked at, and the peak meanwhile."""
    for one in (small, matrix):
        gc.collect()
        tracemalloc.start()
        table = one.compile() if way == "compiled" else one.warm_load()
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        made, _ = tracemalloc.get_traced_memory()
        for op in table.kernels:
            table.kernels[op]
        gc.collect()
        looked_at, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return made, looked_at, peak
