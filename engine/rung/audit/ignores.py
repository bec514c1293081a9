"""Comments that silence a finding, `# rung: ignore[CODE] reason`, and RG903 for those that silence nothing.

Owns the grammar of the comment and what may be silenced. A comment stands at the end of the line of the finding, or
alone on the line above it.

Note [Unused is a verdict]: an audit says nothing where something else has a fault, where it saw a part of the manifests
only, or where an import would have to tell. A comment there may be needed again tomorrow, so it is called unused only
where the rule it names would have spoken.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rung.diagnostics import Edit, Problem, Where, did_you_mean
from rung.rulebook import SILENCEABLE, rulebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rung.source import Document, Node

__all__ = ["Ignores"]

_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#\s*rung:\s*ignore\b\s*(?:\[([^\]]*)\])?[ \t:]*(.*?)(?=\s#\s*rung:|$)")


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment, the line it is about, the codes it names, and why."""

    document: Document
    place: Where
    line: int
    codes: tuple[str, ...]
    reason: str


class Ignores:
    """The comments of some documents that mean to silence something, and which of them did."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._comments = [comment for document in documents for comment in _comments(document)]
        self._reasoned = {
            (comment.place.path, comment.line, code)
            for comment in self._comments
            for code in comment.codes
            if comment.reason and code in SILENCEABLE
        }
        self._used: set[tuple[str, int, str]] = set()

    def silences(self, where: Where | None, code: str) -> bool:
        """Say whether a finding at a place is silenced, and remember that its comment was of use."""
        if where is None or (where.path, where.line, code) not in self._reasoned:
            return False
        self._used.add((where.path, where.line, code))
        return True

    def useless(self, would_tell: Callable[[Document, str], bool]) -> Iterator[Problem]:
        """Give RG903 for each comment, or code in one, that silenced nothing.

        `would_tell` says whether the rule of a code would have spoken; see Note [Unused is a verdict].
        """
        for comment in self._comments:
            if not comment.codes:
                hint = "write `# rung: ignore[CODE] reason`"
                yield Problem("RG903", comment.place, "an ignore comment names no rule", hint)
            for code in comment.codes:
                unused = (comment.place.path, comment.line, code) not in self._used
                fault = _fault(code, comment.reason, unused=unused and would_tell(comment.document, code))
                if fault is not None:
                    edit = _removal(comment) if unused and fault[0].startswith("unused") else None
                    yield Problem("RG903", comment.place, *fault, edit=edit)


def _fault(code: str, reason: str, *, unused: bool) -> tuple[str, str] | None:
    """Say what is wrong with a code in a comment, with a hint."""
    if code not in rulebook():
        return f"no rule is called `{code}`", did_you_mean(code, rulebook())
    if code not in SILENCEABLE:
        return f"{code} cannot be silenced", f"repair the finding; `rung rule {code}` says why it cannot stand"
    if not reason:
        return f"the ignore of {code} gives no reason", "say behind the bracket why the finding may stand"
    return (f"unused ignore: {code} is not found here", "remove the comment") if unused else None


def _comments(document: Document) -> Iterator[_Comment]:
    """Give the comments that mean to silence something."""
    texts: list[tuple[tuple[int, int], tuple[int, int]]] | None = None
    for row, line in enumerate(document.lines, 1):
        for match in _COMMENT.finditer(line) if "rung:" in line else ():
            texts = sorted(_texts(document.root)) if texts is None else texts
            at = (row, match.start() + 1)
            nearest = bisect_right(texts, (at, (row + 1, 0))) - 1
            if nearest >= 0 and at < texts[nearest][1]:
                continue  # inside a text a `#` starts no comment
            reason = match.group(2).strip()
            end = match.end(2) if reason else len(match.group().rstrip()) + match.start()
            codes = tuple(code.strip() for code in (match.group(1) or "").split(",") if code.strip())
            about = row if line[: match.start()].strip() else row + 1
            yield _Comment(document, Where(document.path, row, match.start() + 1, row, end + 1), about, codes, reason)


def _texts(root: Node) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Give the beginning and end of every scalar; none lies in another."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.values is None and node.items is None:
            yield (node.line, node.column), (node.end_line, node.end_column)
        stack += [*(node.values or {}).values(), *node.keys.values(), *(node.items or ())]


def _removal(comment: _Comment) -> Edit | None:
    """Give the edit that takes a comment of one code out, with the blanks before it."""
    if len(comment.codes) > 1:
        return None
    place = comment.place
    line = comment.document.lines[place.line - 1]
    kept = line[: place.column - 1].rstrip()
    rest = line[place.end_column - 1 :].strip()
    if rest:
        return None  # another comment follows
    if kept:
        where = Where(place.path, place.line, len(kept) + 1, place.line, place.end_column)
    elif place.line < len(comment.document.lines):
        where = Where(place.path, place.line, 1, place.line + 1, 1)
    else:  # the last line, and it does not end
        before = comment.document.lines[place.line - 2] if place.line > 1 else ""
        where = Where(place.path, max(1, place.line - 1), len(before) + 1, place.line, place.end_column)
    return Edit(where, "", "removed an ignore comment that silenced nothing")
