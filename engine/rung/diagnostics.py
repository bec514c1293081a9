"""Problems and exceptions: what every message of rung is made of.

Owns `Where`, `Problem`, which codes are warnings, the collector, name suggestions and the exception classes. Knows
nothing of manifests, devices or ops, and prints nothing.
"""

from __future__ import annotations

import sys

from rung.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import FrameType
    from typing import Final, Literal

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
    "log",
    "printable",
    "severity_of",
    "shorten",
    "warn",
]


_WARNINGS: Final = frozenset({"RG402", "RG403", "RG508", "RG603", "RG901", "RG902", "RG903", "RG905"})
"""The codes that leave a manifest usable."""
_WIDTH: Final = 160
"""Characters of a source line that a report shows at most."""


@record
class Where:
    """A place in a text file: 1-based lines and columns, the end exclusive; no end where a whole file is meant."""

    path: str
    line: int = 1
    column: int = 1
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{printable(self.path)}:{self.line}"

    def __lt__(self, other: object) -> bool:
        return self.in_order < other.in_order if isinstance(other, Where) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.in_order <= other.in_order if isinstance(other, Where) else NotImplemented

    @property
    def in_order(self) -> tuple[str, int, int, int, int]:
        """File, line, column and end, by which places compare."""
        return (self.path, self.line, self.column, self.end_line, self.end_column)


@record
class Edit:
    """A repair of a text: what lies at `where` becomes `text`. `what` says in words what it does."""

    where: Where
    text: str
    what: str


def severity_of(code: str) -> Literal["error", "warning"]:
    """Say whether findings of a code are errors or warnings."""
    return "warning" if code in _WARNINGS else "error"


@record
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


class Problems:
    """A collector: every phase adds to it and goes on, so that one run reports everything."""

    __slots__ = ("found",)

    def __init__(self, found: list[Problem] | None = None) -> None:
        self.found = [] if found is None else found

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
    import warnings

    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
        level += 1
    shown = "\n".join(printable(line) for line in message.split("\n"))
    warnings.warn(shown, category, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    """Say whether a frame is of this package, or of a function that `rung.guard` made, which has no module."""
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package == "rung" or frame.f_code.co_filename.startswith("<rung guard ")


def log(message: str) -> None:
    """Log a line at INFO. Where nobody has imported logging, nobody has asked for such lines, and there is none."""
    if "logging" in sys.modules:
        import logging  # which waits where another thread is just importing it

        logging.getLogger("rung").info(message, stacklevel=2)


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


def closest(name: str, legal: Iterable[str]) -> str | None:
    """Give the legal name most like `name`, None when none is; see `rung.names`, which few programs need."""
    from rung.names import closest

    return closest(name, legal)


def did_you_mean(name: str, legal: Iterable[str]) -> str:
    """Give a hint: the closest legal name, else up to eight legal ones; see `rung.names`."""
    from rung.names import did_you_mean

    return did_you_mean(name, legal)
