"""Comments that silence a finding, `# rung: ignore[CODE] reason`, and RG903 for those that silence nothing.

Owns the grammar of the comment and what may be silenced. A comment stands at the end of the line of the finding, or
alone on the line above it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rung.diagnostics import Edit, Where, did_you_mean
from rung.rulebook import SILENCEABLE, rulebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rung.audit.scene import Scene
    from rung.source import Document, Node

__all__ = ["apply_ignores"]

_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#\s*rung:\s*ignore\b\s*(?:\[([^\]]*)\])?[ \t:]*([^#]*)")


def apply_ignores(scene: Scene) -> None:
    """Take silenced findings out of the problems, and add RG903 for each comment, or code in one, that does nothing."""
    problems = scene.whole.problems
    at: dict[tuple[str, int], set[str]] = {}
    for problem in problems.found:
        if problem.where is not None:
            at.setdefault((problem.where.path, problem.where.line), set()).add(problem.code)
    silenced: set[tuple[str, int, str]] = set()
    for document in scene.whole.documents:
        for row, match in _comments(document):
            place = Where(document.path, row, match.start() + 1, row, len(match.group().rstrip()) + match.start() + 1)
            line = row + 1 if not document.lines[row - 1][: match.start()].strip() else row
            here = at.get((document.path, line), set())
            useful: set[str] = set()
            for fault, hint, code in _judged(match, here):
                if fault:
                    problems.add("RG903", place, fault, hint=hint, edit=_removal(document, place, match, code))
                else:
                    useful.add(code)
            silenced |= {(document.path, line, code) for code in useful}
    if silenced:
        problems.found = [
            p for p in problems.found if p.where is None or (p.where.path, p.where.line, p.code) not in silenced
        ]


def _comments(document: Document) -> Iterator[tuple[int, re.Match[str]]]:
    """Give the comments that mean to silence something, each with its line."""
    for row, line in enumerate(document.lines, 1):
        match = _COMMENT.search(line) if "rung:" in line else None
        if match is not None and not _in_text(document.root, row, match.start() + 1):
            yield row, match


def _in_text(root: Node, line: int, column: int) -> bool:
    """Say whether a place lies inside a text value, where `#` starts no comment."""
    stack = [root]
    while stack:
        node = stack.pop()
        if not (node.line, node.column) <= (line, column) < (node.end_line, node.end_column):
            continue
        if node.values is None and node.items is None:
            return True
        stack += [*(node.values or {}).values(), *node.keys.values(), *(node.items or ())]
    return False


def _judged(match: re.Match[str], here: set[str]) -> Iterator[tuple[str, str, str]]:
    """Give a fault (or "") with its hint for each code of a comment that meets the codes found `here`."""
    written, reason = match.groups()
    codes = [code.strip() for code in (written or "").split(",") if code.strip()]
    if not codes:
        yield "an ignore comment names no rule", "write `# rung: ignore[CODE] reason`", ""
        return
    for code in codes:
        if code not in rulebook():
            yield f"no rule is called `{code}`", did_you_mean(code, rulebook()), code
        elif code not in SILENCEABLE:
            yield f"{code} cannot be silenced", "repair the finding: a manifest that has it does not load", code
        elif not reason.strip():
            yield f"the ignore of {code} gives no reason", "say behind the bracket why the finding may stand", ""
        elif code not in here:
            yield f"unused ignore: {code} is not found here", "remove the comment", code
        else:
            yield "", "", code


def _removal(document: Document, place: Where, match: re.Match[str], code: str) -> Edit | None:
    """Give the edit that takes a comment of one code out, with the blanks before it."""
    if code not in rulebook() or "," in (match.group(1) or ""):
        return None
    line = document.lines[place.line - 1]
    kept = line[: match.start()].rstrip()
    if kept:
        start, end, end_line = len(kept) + 1, place.end_column, place.line
    else:
        start, end, end_line = 1, 1, place.line + 1
    where = Where(document.path, place.line, start, end_line, end)
    return Edit(where, "", "removed an ignore comment that silenced nothing")
