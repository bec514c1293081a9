"""The report: tables in markdown, for the terminal and for docs/benchmarks.md, and two plots.

Owns the shape of a result and how it is shown. Says nothing of the machine but its processor, system and versions.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.peers import installed, version_of, versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.rounds import Ratio

__all__ = ["Row", "Section", "draw_calls", "draw_load", "markdown", "table_of"]

CALLS: Final = "benchmarks-calls.svg"
LOAD: Final = "benchmarks-load.svg"
INTRODUCTION: Final = """\
# Benchmarks

What rung costs, in ratios to what it is compared with. `make bench` measures all of it in one run and writes this page;
`.venv/bin/python -m benchmarks --help` says how to run parts of it. Absolute times are this machine's; the ratios are
what to compare.

Competitors take turns: each round measures every one of them once, and a ratio is taken within a round. The tables give
the median over the rounds, and between what the middle half of the ratios lies. A target is met when the median ratio
is not above it. A peer that is not installed is said to be missing.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table. `value` is in seconds or in bytes; what could not be measured says why in `note`.

    The target is for the ratio, and where there is none for the value. `is_same` says of what is to be the very object
    it is compared with whether it is; no ratio can say that.
    """

    what: str
    value: float | None = None
    unit: str = "s"
    ratio: Ratio | None = None
    against: str = ""
    target: float | None = None
    note: str = ""
    is_same: bool | None = None

    @property
    def is_met(self) -> bool | None:
        """Say whether the target is met; None where there is none, or nothing was measured."""
        if self.is_same is not None:
            return self.is_same
        measured = self.ratio.median if self.ratio is not None else self.value
        return None if self.target is None or measured is None else measured <= self.target


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its heading, and how its numbers were measured."""

    title: str
    method: str
    rows: tuple[Row, ...]
    plot: str = ""


def table_of(rows: Iterable[Row]) -> str:
    """Give the rows as a markdown table whose columns are aligned."""
    head = ("", "median", "ratio", "middle half", "to", "target", "met")
    lines = [head, *map(_columns, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    rule = ["-" * (width - right) + ":" * right for width, right in zip(map(_at_least_3, widths), _RIGHT, strict=True)]
    return "\n".join(_line(line, widths) for line in (head, rule, *lines[1:]))


_RIGHT: Final = (0, 1, 1, 1, 0, 1, 0)


def _at_least_3(width: int) -> int:
    return max(width, 3)


def _line(columns: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        text.rjust(_at_least_3(width)) if right else text.ljust(_at_least_3(width))
        for text, width, right in zip(columns, widths, _RIGHT, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def _columns(row: Row) -> tuple[str, ...]:
    met = {None: "", True: "yes", False: "**no**"}[row.is_met]
    target = "" if row.target is None else f"≤ {row.target:.1f}" if row.unit == "s" else f"≤ {_amount(row.target)}"
    target = target if row.is_same is None else "the same object"
    what = f"{row.what} ({row.note})" if row.note else row.what
    if row.value is None:
        return (what, "not measured", "", "", row.against, target, met)
    if row.ratio is None:
        return (what, _amount(row.value, row.unit), "", "", row.against, target, met)
    middle = f"{row.ratio.low:.2f} to {row.ratio.high:.2f}"
    return (what, _amount(row.value, row.unit), f"{row.ratio.median:.2f}", middle, row.against, target, met)


def _amount(value: float, unit: str = "B") -> str:
    if unit == "B":
        return f"{value:,.0f} B"
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {name}" if value < 1000 * scale else f"{value / scale:,.0f} {name}"
    return f"{value / 1e-9:.3g} ns"


def markdown(sections: Iterable[Section], plots: Iterable[str]) -> str:
    """Give the whole page; `plots` are the files that were drawn."""
    parts = [INTRODUCTION, _machine()]
    for section in sections:
        parts.append(f"## {section.title}\n\n{section.method.strip()}\n\n{table_of(section.rows)}\n")
        if section.plot in plots:
            parts.append(f"![{section.title}]({section.plot})\n")
    return "\n".join(parts)


def _machine() -> str:
    peers = ", ".join(f"{name} {found}" for name, found in versions().items())
    python = f"{platform.python_implementation()} {platform.python_version()}"
    day = datetime.now(UTC).date().isoformat()
    system = f"{platform.system()} on {platform.machine()}"
    return f"Measured on {day}: rung {version_of('rung')}, {python}, {system}, {_processor()}; {peers}.\n"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor()) or "a processor that names no model"


def draw_calls(rows: Sequence[Row], directory: Path) -> str:
    """Draw each call's ratio to a direct call; give the file's name, "" without matplotlib."""
    measured = [row for row in rows if row.ratio is not None][::-1]
    pyplot = _pyplot()
    if pyplot is None or not measured:
        return ""
    figure, axes = pyplot.subplots(figsize=(9, 0.8 + 0.34 * len(measured)), layout="constrained")
    ratios = [row.ratio.median for row in measured if row.ratio is not None]
    colours = ["#c44e52" if row.is_same is not None or "kernels" in row.what else "#8c8c8c" for row in measured]
    bars = axes.barh([_label(row) for row in measured], ratios, color=colours)
    axes.bar_label(bars, labels=[f"{ratio:.2g}" for ratio in ratios], padding=3)
    axes.set_xlim(0, max(ratios) * 1.1)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("time of a call / time of a direct call; rung in red")
    return _save(figure, directory, CALLS)


def _label(row: Row) -> str:
    what = row.what.replace("`", "")
    return f"{row.note.replace('`', '')}: {what}" if row.note else what


def draw_load(times: Mapping[str, Mapping[int, float]], directory: Path) -> str:
    """Draw the seconds each way to a table takes against cells; give the file's name, "" without matplotlib."""
    pyplot = _pyplot()
    if pyplot is None or not times:
        return ""
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, seconds in times.items():
        sizes = sorted(seconds)
        axes.plot(sizes, [seconds[size] for size in sizes], marker="o", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("cells")
    axes.set_ylabel("seconds")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    return _save(figure, directory, LOAD)


def _pyplot() -> Any:
    matplotlib = installed("matplotlib")
    if matplotlib is None:
        return None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "rung"  # the same numbers give the same file
    return installed("matplotlib.pyplot")


def _save(figure: Any, directory: Path, name: str) -> str:
    figure.savefig(directory / name, metadata={"Date": None})
    return name
