"""The forms in which findings are printed: for a person, a terminal line, a program, and code review.

Owns the layout of each format; decides nothing about which findings there are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rung.diagnostics import Problem
    from rung.source import Document

    Formatter = Callable[[Sequence[Problem], Sequence[Document], Path, bool], str]

__all__ = ["FORMATS", "render"]


def render(name: str, problems: Sequence[Problem], documents: Sequence[Document], root: Path, color: bool) -> str:
    """Lay out findings, which are in report order, in one of `FORMATS`."""
    return FORMATS[name](problems, documents, root, color)


def _full(problems: Sequence[Problem], documents: Sequence[Document], root: Path, color: bool) -> str:
    lines = {document.path: document.lines for document in documents}
    texts = (p.full(lines.get(p.where.path) if p.where else None) for p in problems)
    return "\n\n".join(_colored(text, p) if color else text for text, p in zip(texts, problems, strict=True))


def _colored(text: str, problem: Problem) -> str:
    head, newline, rest = text.partition("\n")
    return f"\x1b[1;{31 if problem.severity == 'error' else 33}m{head}\x1b[0m{newline}{rest}"


def _concise(problems: Sequence[Problem], documents: Sequence[Document], root: Path, color: bool) -> str:
    return "\n".join(problem.concise() for problem in problems)


def _json(problems: Sequence[Problem], documents: Sequence[Document], root: Path, color: bool) -> str:
    return json.dumps({"format_version": 1, "diagnostics": [_as_dict(p) for p in problems]}, indent=2)


def _as_dict(problem: Problem) -> dict[str, Any]:
    where = problem.where
    return {
        "code": problem.code,
        "severity": problem.severity,
        "path": where.path if where else None,
        "start": [where.line, where.column] if where else None,
        "end": [where.end_line or where.line, where.end_column or where.column] if where else None,
        "message": problem.message,
        "hint": problem.hint or None,
        "cell": problem.cell or None,
        "related": [
            {"path": place.path, "start": [place.line, place.column], "message": remark}
            for place, remark in problem.related
        ],
    }


FORMATS: Final[Mapping[str, Formatter]] = {"full": _full, "concise": _concise, "json": _json}
