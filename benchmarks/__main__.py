"""The command: `python -m benchmarks` measures everything and writes docs/benchmarks.md with its plots."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from benchmarks.calls import calls
from benchmarks.first import first
from benchmarks.guards import guards
from benchmarks.load import load
from benchmarks.memory import memory
from benchmarks.report import draw_calls, draw_load, markdown, table_of
from benchmarks.rounds import say
from benchmarks.start import ROOT, start
from benchmarks.tables import Matrix, environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.report import Section

__all__ = ["FULL", "QUICK", "Effort", "main", "measure"]

SECTIONS: Final = ("calls", "guards", "load", "start", "first", "memory")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: the rounds of each part, those of `load` by the matrices' cells."""

    calls: int
    load: dict[int, int]
    start: int
    first: int


FULL: Final = Effort(calls=301, load={100: 41, 1_000: 21, 10_000: 11, 100_000: 5}, start=61, first=21)
QUICK: Final = Effort(calls=21, load={100: 5, 1_000: 3}, start=7, first=5)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write what was measured; give 0 whatever the numbers are."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    only = f"measure only these of {', '.join(SECTIONS)}; writes nothing"
    parser.add_argument("--quick", action="store_true", help="small matrices, few rounds, for trying; writes nothing")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, metavar="PART", help=only)
    parser.add_argument("--output", type=Path, metavar="DIR", help="write there; default: docs, for a whole full run")
    options = parser.parse_args(arguments)
    output: Path | None = options.output
    if output is None and not options.quick and set(options.only) == set(SECTIONS):
        output = ROOT / "docs"
    measure(QUICK if options.quick else FULL, options.only, output)
    return 0


def measure(effort: Effort, parts: Sequence[str], output: Path | None) -> list[Section]:
    """Measure these parts and print a table of each; write the page and the plots where `output` says."""
    found: dict[str, Section] = {}
    times: dict[str, dict[int, float]] = {}
    with TemporaryDirectory() as directory, environment():
        say(f"matrices of {', '.join(f'{cells:,}' for cells in effort.load)} cells")
        matrices = [Matrix(Path(directory, str(cells)), cells) for cells in sorted(effort.load)]
        small, large = matrices[0], matrices[-1]
        # What starts processes comes before what fills this one's memory.
        if "start" in parts:
            found["start"] = start(effort.start)
        if "calls" in parts:
            found["calls"] = calls(small, large, effort.calls)
        if "guards" in parts:
            found["guards"] = guards(Path(directory, "guards"), effort.calls)
        if "load" in parts:
            found["load"], times = load(matrices, effort.load)
        if "first" in parts:
            found["first"] = first(small, large, effort.first)
        if "memory" in parts:
            found["memory"] = memory(large, small)
    sections = [found[part] for part in SECTIONS if part in found]
    for section in sections:
        print(f"\n{section.title}\n\n{table_of(section.rows)}")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        drawn = [draw_calls(found["calls"].rows, output) if "calls" in found else "", draw_load(times, output)]
        plots = [name for name in drawn if name]
        (output / "benchmarks.md").write_text(markdown(sections, plots), encoding="utf-8")
        say(f"wrote benchmarks.md{''.join(f', {name}' for name in plots)}")
    return sections


if __name__ == "__main__":
    sys.exit(main())
