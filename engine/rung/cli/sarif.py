"""Findings as a SARIF 2.1.0 log, which code scanning services read.

Owns what a finding is in SARIF and how it is known again in a later log. The same findings always make the same log:
there is no time in it, and no path of the machine that made it for files under the root.

Note [Known again]: a fingerprint is made of the code and of the cell the finding is about, and where it is about no
cell of the code, the file and the message. A line is no part of it, so that a finding is not new because a comment was
written above it. Findings that would share one are told apart by a count, in report order.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from rung.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rung.cli.findings import Report
    from rung.diagnostics import Problem, Where
    from rung.rulebook import Rule

__all__ = ["log"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT: Final = "rung/v1"


def log(report: Report) -> dict[str, Any]:
    """Give the log of a report as plain data; every rule is declared in it."""
    import rung
    from rung.rulebook import rulebook

    rules = rulebook()
    driver = {"name": "rung", "version": rung.__version__, "rules": [_rule(rule) for rule in rules.values()]}
    root = {"description": _text("The root of the checked files.")}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": root},
        "results": list(_results(report, {code: index for index, code in enumerate(rules)})),
        "properties": {"notShown": report.not_shown},
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    words = re.findall(r"[A-Za-z0-9]+", rule.title)
    return {
        "id": rule.code,
        "name": "".join(word[0].upper() + word[1:] for word in words),
        "shortDescription": _text(rule.title),
        "fullDescription": _text(rule.summary),
        "help": {"text": rule.page, "markdown": rule.page},
        "defaultConfiguration": {"level": rule.severity},
    }


def _results(report: Report, indices: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    met: dict[str, int] = {}
    for problem in report.problems:
        mark = _fingerprint(problem)
        met[mark] = met.get(mark, 0) + 1
        place = _location(problem.where, report) if problem.where else {}
        if problem.cell:
            place["logicalLocations"] = [{"fullyQualifiedName": problem.cell}]
        result: dict[str, Any] = {
            "ruleId": problem.code,
            "ruleIndex": indices[problem.code],
            "level": problem.severity,
            "message": _message(f"{problem.message}\n{problem.hint}" if problem.hint else problem.message),
            "locations": [place] if place else [],
            "partialFingerprints": {_FINGERPRINT: f"{mark}:{met[mark]}"},
        }
        if problem.related:
            result["relatedLocations"] = [
                {"id": number, **_location(where, report), "message": _message(remark)}
                for number, (where, remark) in enumerate(problem.related, 1)
            ]
        yield result


def _fingerprint(problem: Problem) -> str:
    """Give what a finding is known again by; see Note [Known again]."""
    path = problem.where.path if problem.where else ""
    parts = (problem.code, problem.cell) if problem.cell else (problem.code, path, problem.message)
    return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]


def _message(text: str) -> dict[str, str]:
    """Give the message of a finding, in which a brace would be that of a placeholder."""
    return _text(text.replace("{", "{{").replace("}", "}}"))


def _text(text: str) -> dict[str, str]:
    """Give a message of plain text: no control characters, and nothing that a reader takes for a link."""
    lines = "\n".join(printable(line) for line in text.split("\n"))
    return {"text": lines.replace("](", "] (")}


def _location(where: Where, report: Report) -> dict[str, Any]:
    region = {"startLine": where.line, "startColumn": where.column}
    if where.end_line:
        region |= {"endLine": where.end_line, "endColumn": where.end_column}
    return {"physicalLocation": {"artifactLocation": _artifact(report.seen(where.path)), "region": region}}


def _artifact(path: str) -> dict[str, str]:
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(os.fsencode(path)), "uriBaseId": "SRCROOT"}
