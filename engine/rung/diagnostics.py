"""Problems and exceptions: what every message of rung is made of.

Owns `Where`, `Problem`, which codes are warnings, the collector, name suggestions and the exception classes. Knows
nothing of manifests, devices or ops, and prints nothing.
"""

from __future__ import annotations

import sys
import warnings
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Literal

__all__ = [
    "BindError",
    "BridgeError",
    "DeviceNotFound",
    "Edit",
    "FactsError",
    "FallError",
    "FallbackWarning",
    "ForeignFactsError",
    "ManifestError",
    "Problem",
    "Problems",
    "RungError",
    "RungWarning",
    "UnknownArch",
    "UnknownArrays",
    "UnknownDevice",
    "UnknownKind",
    "UnknownOp",
    "UnknownPredicate",
    "UnknownProfile",
    "UnknownTarget",
    "Where",
    "closest",
    "did_you_mean",
    "printable",
    "severity_of",
    "shorten",
    "warn",
]


_WARNINGS: Final = frozenset({"RG402", "RG403", "RG508", "RG603", "RG901", "RG902", "RG903", "RG905"})
"""The codes that leave a manifest usable."""
_WIDTH: Final = 160
"""Characters of a source line that a report shows at most."""
_MANY: Final = 2000
"""Legal names among which a close one is looked for at most."""
_EACH: Final = 64
"""Legal names that are compared one by one; of more than that, only those that start or end most like the name."""
_COMPARED: Final = 8_000
"""Pairs of characters up to which names are compared by the slower measure."""


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A place in a text file: 1-based lines and columns, the end exclusive; no end where a whole file is meant."""

    path: str
    line: int = 1
    column: int = 1
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{printable(self.path)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Edit:
    """A repair of a text: what lies at `where` becomes `text`. `what` says in words what it does."""

    where: Where
    text: str
    what: str


def severity_of(code: str) -> Literal["error", "warning"]:
    """Say whether findings of a code are errors or warnings."""
    return "warning" if code in _WARNINGS else "error"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: a rule code, a place, what is wrong, and what to do about it.

    `where` is None only for what has no place in a file, such as a path that does not exist.
    `cell` is the id of the cell concerned, `related` are further places with a remark each, and `edit` is the
    repair where there is one that cannot change a meaning.
    """

    code: str
    where: Where | None
    message: str
    hint: str = ""
    cell: str = ""
    related: tuple[tuple[Where, str], ...] = ()
    edit: Edit | None = None

    @property
    def severity(self) -> Literal["error", "warning"]:
        """Whether this is an error or a warning."""
        return severity_of(self.code)

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        """File, line, column, code: the order of every report."""
        where = self.where or Where("", 0, 0)
        return (where.path, where.line, where.column, self.code, self.message)

    def concise(self) -> str:
        """Give the finding on one line: `path:line:column: CODE message`."""
        where = self.where
        place = f"{where}:{where.column}: " if where else ""
        return f"{place}{self.code} {printable(self.message)}"

    def full(self, lines: Sequence[str] | None = None) -> str:
        """Give the finding with its source line and a caret, as far as `lines` has the text."""
        out = [f"{self.severity}[{self.code}]: {printable(self.message)}"]
        where = self.where
        if where is not None:
            out.append(f"  --> {where}:{where.column}")
            if lines is not None and where.end_line and 0 < where.line <= len(lines):
                out += _excerpt(where, lines[where.line - 1])
        out += [f"     = note: {printable(remark)} at {place}" for place, remark in self.related]
        if self.hint:
            out.append(f"     = help: {printable(self.hint)}")
        return "\n".join(out)


def _excerpt(where: Where, line: str) -> Iterator[str]:
    """Give a line and the carets below it; of a long line only what is near the carets."""
    cut = max(0, where.column - 1 - _WIDTH // 2) if len(line) > _WIDTH else 0
    text = line[cut : cut + _WIDTH]
    end = where.end_column if where.end_line == where.line else len(line) + 1
    first, last = where.column - 1 - cut, max(where.column, end) - 1 - cut
    before, marked = ("..." if cut else "") + printable(text[:first]), printable(text[first:last])
    after = printable(text[last:]) + ("..." if cut + _WIDTH < len(line) else "")
    gutter = f"{where.line:>4}"
    yield f"{gutter} | {before}{marked}{after}".rstrip()
    yield f"{' ' * len(gutter)} | {' ' * len(before)}{'^' * max(1, len(marked))}"


@dataclass(slots=True)
class Problems:
    """A collector: every phase adds to it and goes on, so that one run reports everything."""

    found: list[Problem] = field(default_factory=list)

    def add(
        self,
        code: str,
        where: Where | None,
        message: str,
        *,
        hint: str = "",
        cell: str = "",
        related: tuple[tuple[Where, str], ...] = (),
        edit: Edit | None = None,
    ) -> None:
        """Record one finding."""
        self.found.append(Problem(code, where, message, hint, cell, related, edit))

    @property
    def errors(self) -> list[Problem]:
        """The findings that make a manifest unusable, in report order."""
        return [p for p in self if p.severity == "error"]

    def __iter__(self) -> Iterator[Problem]:
        return iter(sorted(self.found, key=lambda p: p.sort_key))

    def __len__(self) -> int:
        return len(self.found)


class RungError(Exception):
    """Base of every error rung raises on purpose."""


class ManifestError(RungError):
    """Manifests that cannot be used; `problems` holds every finding."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines: list[str] = []
        for problem in self.problems:
            lines.append(f"  {problem.concise()}")
            lines += [f"    {printable(remark)}: {place}" for place, remark in problem.related]
            lines += [f"    {printable(problem.hint)}"] if problem.hint else []
        shown, count = "\n".join(lines), len(self.problems)
        super().__init__(f"{count} problem{'s' * (count != 1)} in the manifests:\n{shown}")


class FactsError(RungError):
    """A facts file that cannot be read or does not fit its schema."""


class BindError(RungError):
    """A dotted path that could not be turned into an object; the cause is chained."""


class BridgeError(RungError):
    """An argument that cannot cross to the device or array library of the chosen cell."""


class FallError(RungError):
    """A fall the profile forbids, or a required cell that is not usable; the message has the ladder."""


class ForeignFactsError(RungError):
    """A kernel was asked of a platform whose facts were recorded on another machine."""


class _UnknownName(RungError, KeyError):
    """A name no manifest declares. A KeyError too, so that lookups read naturally."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnknownOp(_UnknownName):
    """No manifest declares this op."""


class UnknownArrays(_UnknownName):
    """No such array library."""


class UnknownPredicate(_UnknownName):
    """No manifest declares this predicate."""


class DeviceNotFound(RungError, LookupError):
    """The device is declared, and this machine has none, or no card of that name."""


class UnknownKind(_UnknownName):
    """No manifest declares this component kind."""


class UnknownDevice(_UnknownName):
    """No manifest declares this device."""


class UnknownArch(_UnknownName):
    """The device has no such arch, and its pattern cannot read it."""


class UnknownTarget(_UnknownName):
    """The device has no such target."""


class UnknownProfile(_UnknownName):
    """No manifest declares this profile."""


class RungWarning(UserWarning):
    """Base of every warning rung emits."""


class FallbackWarning(RungWarning):
    """Something other than the closest rung serves; said once per (platform, op, variant)."""


def warn(message: str, category: type[RungWarning] = RungWarning) -> None:
    """Warn at the first frame outside this package, so that the warning points at the caller's line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "rung":
        frame = frame.f_back
        level += 1
    shown = "\n".join(printable(line) for line in message.split("\n"))
    warnings.warn(shown, category, stacklevel=level)


def printable(text: str) -> str:
    r"""Escape control and bidirectional characters, so that a manifest cannot write to a terminal.

    Tabs become one space; everything else unprintable becomes its `\x..` or `\u....` form.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else " " if c == "\t" else c.encode("unicode_escape").decode("ascii") for c in text
    )


def shorten(text: str, limit: int = 40) -> str:
    """Cut a text that is quoted in a message to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


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
    from difflib import get_close_matches

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
