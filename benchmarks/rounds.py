"""How competitors take turns, and what is made of their times.

Owns the one way in which everything here is compared: each round measures every competitor once, each round starts with
another of them, and a ratio is taken within a round, so that a machine which slows down slows both sides of it.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Ratio", "collector_paused", "interleaved", "ratio_of", "say"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the rounds' ratios, and between what the middle half of them lies."""

    median: float
    low: float
    high: float


def interleaved(competitors: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Let each competitor measure itself once a round; give what each measured, in order of rounds."""
    measured: dict[str, list[float]] = {name: [] for name in competitors}
    names = [*competitors]
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            measured[name].append(competitors[name]())
    return measured


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Compare two competitors' rounds."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    low, _, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return Ratio(median(ratios), low, high)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect what there is, and then nothing until the end."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def say(what: str) -> None:
    """Show what is being done to whoever waits."""
    print(f"  {what}", file=sys.stderr, flush=True)
