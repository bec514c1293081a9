"""The forms in which findings are printed: for a person, a terminal line, a program, and code review.

Owns which formats there are, the layout of the plain ones, and which path a file is shown by; decides nothing about
which findings there are. `rung.cli.github` and `rung.cli.sarif` lay out the two that have rules of their own.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rung.diagnostics import Problem
    from rung.source import Document

__all__ = ["FORMATS", "Report", "render"]


@dataclass(frozen=True, slots=True)
class Report:
    """Findings in the order in which they are printed, the documents they are about, and what paths start from."""

    problems: Sequence[Problem]
    documents: Sequence[Document] = ()
    root: Path = Path()
    color: bool = False

    def locate(self, path: str) -> Path:
        """Give the file that findings call `path`: below the root, or where the command was called."""
        places = (self.root.resolve() / path, Path.cwd() / path)
        found = next((place for place in places if _exists(place)), places[0])
        return found.parent.resolve() / found.name

    def seen(self, path: str) -> str:
        """Give the path by which a reviewer knows a file.

        Relative to the checkout that GITHUB_WORKSPACE names where the root lies in it, else to the root; absolute for
        a file outside.
        """
        file, root = self.locate(path), self.root.resolve()
        checkout = os.environ.get("GITHUB_WORKSPACE")
        base = Path(checkout).resolve() if checkout else root
        base = base if root.is_relative_to(base) else root
        return (file.relative_to(base) if file.is_relative_to(base) else file).as_posix()


def render(name: str, report: Report, limit: int) -> str:
    """Lay out the first `limit` findings in one of `FORMATS`; those on changed lines are the first for a review."""
    problems = report.problems
    if name == "github":
        from rung.cli.github import changed_first

        problems = changed_first(report)
    return FORMATS[name](replace(report, problems=problems[:limit]))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name of a file, with what is unprintable in it escaped, may be too long for one
        return False


def _full(report: Report) -> str:
    lines = {document.path: document.lines for document in report.documents}
    texts = []
    for problem in report.problems:
        text = problem.full(lines.get(problem.where.path) if problem.where else None)
        texts.append(_colored(text, problem) if report.color else text)
    return "\n\n".join(texts)


def _colored(text: str, problem: Problem) -> str:
    head, newline, rest = text.partition("\n")
    return f"\x1b[1;{31 if problem.severity == 'error' else 33}m{head}\x1b[0m{newline}{rest}"


def _concise(report: Report) -> str:
    return "\n".join(problem.concise() for problem in report.problems)


def _json(report: Report) -> str:
    return json.dumps({"format_version": 1, "diagnostics": [_as_dict(p) for p in report.problems]}, indent=2)


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


def _github(report: Report) -> str:
    from rung.cli.github import commands

    return commands(report)


def _sarif(report: Report) -> str:
    from rung.cli.sarif import log

    return json.dumps(log(report), indent=2)


FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "full": _full, "concise": _concise, "json": _json, "github": _github, "sarif": _sarif,
}  # fmt: skip
