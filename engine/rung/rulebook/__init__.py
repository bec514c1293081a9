"""The rulebook: one page per rule code, in Markdown, beside this module.

Owns where the pages are, how one is read, how a code is named, and which findings a comment may silence. `rung rule`
prints them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from rung.diagnostics import RungError, closest, severity_of, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["GROUPS", "SILENCEABLE", "Rule", "rulebook", "selected"]

GROUPS: Final = {
    "0": "reading", "1": "text", "2": "shape", "3": "references", "4": "table", "5": "bindings",
    "6": "predicates", "7": "effects", "8": "safety", "9": "hygiene",
}  # fmt: skip
"""What the first digit of a code stands for."""

SILENCEABLE: Final = frozenset({
    "RG402", "RG403", "RG406", "RG501", "RG502", "RG503", "RG504", "RG505", "RG508",
    "RG603", "RG604", "RG606", "RG902", "RG905",
})  # fmt: skip
"""The codes a comment may silence: those of findings with which a manifest still loads."""

_SILENCE: Final = """\
## How to silence it

With a reason, at the end of the line or alone on the line above: `# rung: ignore[{code}] the reason`. For a whole run:
`rung check --ignore {code}`. For a whole project: `ignore = ["{code}"]` under `[tool.rung]` in pyproject.toml.
"""
_FIRM: Final = """\
## How to silence it

It cannot be silenced by a comment: {why}.
`rung check --ignore {code}` leaves it out of one report, `ignore = ["{code}"]` under `[tool.rung]` in pyproject.toml
out of every one.
"""
_WHY_FIRM: Final = {
    "RG803": "it is about safety",
    "RG901": "it is about a generated file",
    "RG903": "it is about such comments",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its code, its name in a few words, one sentence on what it finds, and its page in Markdown."""

    code: str
    title: str
    summary: str
    page: str

    @property
    def severity(self) -> Literal["error", "warning"]:
        """Whether its findings are errors or warnings."""
        return severity_of(self.code)


@cache
def rulebook() -> Mapping[str, Rule]:
    """Give every rule by code, in order of code."""
    return {path.stem: _read(path) for path in sorted(Path(__file__).parent.glob("RG???.md"))}


def selected(written: Iterable[str]) -> list[str]:
    """Give the codes that are meant by what somebody wrote: codes and groups (RG3), with commas between them.

    Each once, in the order they were named. Raise RungError for a name that is none.
    """
    out: dict[str, None] = {}
    for name in (part.strip() for text in written for part in text.split(",")):
        found = [code for code in rulebook() if code.startswith(name)] if re.fullmatch(r"RG\d*", name) else []
        if not found:
            near = closest(name, rulebook())
            hint = f"did you mean `{near}`?" if near else "`rung rule` lists them"
            raise RungError(f"no rule is called `{shorten(name)}`: {hint}")
        out |= dict.fromkeys(found)
    return list(out)


def _read(path: Path) -> Rule:
    """Read a page: a heading `# CODE: title`, a paragraph that says what is found, then sections."""
    text = path.read_text(encoding="utf-8")
    heading, _, rest = text.partition("\n")
    code, _, title = heading.removeprefix("# ").partition(": ")
    summary = " ".join(rest.strip().partition("\n\n")[0].split())
    why = _WHY_FIRM.get(code, "a manifest that has it does not load")
    silence = (_SILENCE if code in SILENCEABLE else _FIRM).format(code=code, why=why)
    head = f"{heading}\n\n*{severity_of(code)}*\n"
    return Rule(code, title, summary, f"{head}{rest.rstrip()}\n\n{silence}")
