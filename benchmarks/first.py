"""What the first resolution of an op costs, in a small matrix and in a large one.

Owns what "first" means: the table was read from the cache a moment ago, nobody has looked at the op's cells, and no
platform has been made of it.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

import rung
from benchmarks.matrix import names_of_ops
from benchmarks.report import Row, Section
from benchmarks.rounds import collector_paused, ratio_of, say

if TYPE_CHECKING:
    from benchmarks.tables import Matrix

__all__ = ["first"]

RECORDED: Final = {
    "facts": 1,
    "os": "linux",
    "machine": "x86_64",
    "python": "3.11.7",
    "cpu": {"flags": ["avx", "avx2", "fma"]},
    "modules": {"numpy": "2.4.6", "torch": "2.13.0+cu130", "triton": "3.7.0", "*": False},
    "devices": {
        "cpu": [{"arch": "x86_64_v3", "index": 0}],
        "cuda": [{"arch": "sm_90", "index": 0, "driver": "580.159", "runtime": "13.0"}],
    },
    "env": {"RUNG_DISABLE": ""},
}
"""A server with one H100, so that the answer is the same on every machine."""
METHOD: Final = """\
The op has 100 cells in every matrix. Each round reads both tables from the cache, and then times
`rung.Platform.of(device, arch, table=table, facts=facts).resolve(op)` on each: the platform is made, the op's cells are
made from the table and the ladder is walked. Nothing is imported and, the facts being recorded ones, nothing is probed.
The collector is paused.
"""


def first(small: Matrix, large: Matrix, rounds: int) -> Section:
    """Time the first resolution in both matrices, on a CPU and on a GPU."""
    rows: list[Row] = []
    for device, arch in (("cpu", "generic"), ("cuda", "sm_90")):
        say(f"first resolution on {device}: {rounds} rounds")
        times: dict[int, list[float]] = {small.cells: [], large.cells: []}
        for number in range(rounds):
            # Both tables are there before either is timed: reading the large one empties the processor's caches.
            tables = [(one, one.warm_load()) for one in (small, large)]
            for one, table in tables[:: -1 if number % 2 else 1]:
                times[one.cells].append(_seconds(table, names_of_ops(one.cells)[0], device, arch))
        rows.append(Row(f"{device}.{arch}, {small.cells:,} cells", median(times[small.cells])))
        ratio = ratio_of(times[large.cells], times[small.cells])
        what, against = f"{device}.{arch}, {large.cells:,} cells", f"{small.cells:,} cells"
        rows.append(Row(what, median(times[large.cells]), "s", ratio, against, 1.2))
    return Section("First resolution", METHOD, tuple(rows))


def _seconds(table: rung.Table, op: str, device: str, arch: str) -> float:
    facts = rung.Facts.of(RECORDED, "a benchmark")
    with collector_paused():
        start = perf_counter()
        rung.Platform.of(device, arch, table=table, facts=facts).resolve(op)
        return perf_counter() - start
