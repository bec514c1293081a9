"""Names that are like a name: what was probably meant.

Owns how likeness is measured, and how much of that untrusted input can cost.
"""

from __future__ import annotations

from bisect import bisect_left
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["closest", "did_you_mean"]

_MANY: Final = 2000
"""Legal names among which a close one is looked for at most."""
_EACH: Final = 64
"""Legal names that are compared one by one; of more than that, only those that start or end most like the name."""
_COMPARED: Final = 8_000
"""Pairs of characters up to which names are compared by the slower measure."""


def _distance(a: str, b: str, limit: int) -> int:
    """Optimal string alignment distance (a swap of neighbours counts one), or `limit` + 1 when beyond."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    start = _shared(a, b)
    a, b = a[start:], b[start:]
    end = _shared(a[::-1], b[::-1])
    a, b = a[: len(a) - end], b[: len(b) - end]
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, last, row = row, before, [i] + [limit + 1] * len(b)
        for j in range(max(1, i - limit), min(len(b), i + limit) + 1):  # beyond, it is more than the limit
            y = b[j - 1]
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, last[j - 2] + 1)
            row[j] = cost
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _shared(a: str, b: str) -> int:
    """Count the characters two texts start with in common."""
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def closest(name: str, legal: Iterable[str]) -> str | None:
    """Give the legal name most like `name`: within edit distance 2, else similarity 0.6, else None."""
    names = frozenset(legal)
    return _closest(name, names) if len(names) <= _MANY else None


@lru_cache(maxsize=64)
def _closest(name: str, legal: frozenset[str]) -> str | None:
    folded = name.casefold()
    names = sorted(legal) if len(legal) <= _EACH else _alike(folded, *_in_order(legal))
    limit = min(2, max(1, len(name) // 2))
    # Among equally close names the one that starts alike: `sm_9` was going to be `sm_90`, not `sm_89`.
    ranked = [(_distance(folded, n.casefold(), 2), -_shared(folded, n.casefold()), n) for n in names]
    near = [entry for entry in ranked if entry[0] <= limit]
    if near:
        return min(near)[2]
    if len(name) * sum(map(len, names)) > _COMPARED:
        return None
    found = get_close_matches(name, names, n=1, cutoff=0.6)
    return found[0] if found else None


@lru_cache(maxsize=4)
def _in_order(legal: frozenset[str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Give legal names in the order of their folded texts, and of those texts read backwards."""
    return sorted((n.casefold(), n) for n in legal), sorted((n.casefold()[::-1], n) for n in legal)


def _alike(folded: str, forward: list[tuple[str, str]], backward: list[tuple[str, str]]) -> list[str]:
    """Give, in order, the names that stand around a text in either order."""
    found: set[str] = set()
    for text, ordered in ((folded, forward), (folded[::-1], backward)):
        at = bisect_left(ordered, (text, ""))
        found.update(name for _, name in ordered[max(0, at - _EACH // 8) : at + _EACH // 8])
    return sorted(found)


def did_you_mean(name: str, legal: Iterable[str]) -> str:
    """Give a hint: the closest legal name, else up to eight legal ones."""
    names = frozenset(legal)
    near = closest(name, names)
    if near is not None:
        return f"did you mean `{near}`?"
    if not names:
        return "none is declared"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return "known: " + ", ".join(f"`{n}`" for n in _first(names)) + more


@lru_cache(maxsize=1)
def _first(names: frozenset[str]) -> list[str]:
    return nsmallest(8, names)
