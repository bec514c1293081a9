"""The forms in which findings are printed: for a person, a terminal line, a program, and code review.

Owns which formats there are and the layout of the plain ones; decides nothing about which findings there are.
`rung.cli.github` and `rung.cli.sarif` lay out the two that have rules of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rung.cli.common import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rung.cli.findings import Report
    from rung.diagnostics import Problem

__all__ = ["FORMATS", "render"]


def render(name: str, report: Report, limit: int) -> str:
    """Lay out the first `limit` findings in one of `FORMATS`; those on changed lines are the first for a review."""
    problems = report.problems
    if name == "github":
        from rung.cli.github import changed_first

        problems = changed_first(report)
    return FORMATS[name](replace(report, problems=problems[:limit], not_shown=max(0, len(problems) - limit)))


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
    out: dict[str, Any] = {"format_version": 1, "diagnostics": [_as_dict(problem) for problem in report.problems]}
    return as_json({**out, "not_shown": report.not_shown} if report.not_shown else out)


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

    return as_json(log(report))


FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "full": _full, "concise": _concise, "json": _json, "github": _github, "sarif": _sarif,
}  # fmt: skip
