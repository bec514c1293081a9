"""The rulebook: one page per rule code, in Markdown, beside this module.

Owns where the pages are, how one is read, and which findings a comment may silence. `rung rule` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from rung.diagnostics import severity_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SILENCEABLE", "Rule", "rulebook"]

SILENCEABLE: Final = frozenset({
    "RG402", "RG403", "RG406", "RG501", "RG502", "RG503", "RG504", "RG505", "RG508",
    "RG603", "RG604", "RG606", "RG901", "RG902", "RG905",
})  # fmt: skip
"""The codes a comment may silence: those of findings with which a manifest still loads."""

_SILENCE: Final = """\
## How to silence it

With a reason, at the end of the line or alone on the line above: `# rung: ignore[{code}] the reason`. For a whole run:
`rung check --ignore {code}`.
"""
_FIRM: Final = """\
## How to silence it

It cannot be silenced by a comment: {why}. `rung check --ignore {code}` leaves it out of one report.
"""


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


def _read(path: Path) -> Rule:
    """Read a page: a heading `# CODE: title`, a paragraph that says what is found, then sections."""
    text = path.read_text(encoding="utf-8")
    heading, _, rest = text.partition("\n")
    code, _, title = heading.removeprefix("# ").partition(": ")
    summary = " ".join(rest.strip().partition("\n\n")[0].split())
    why = "it is about comments that silence" if code == "RG903" else "a manifest that has it does not load"
    silence = (_SILENCE if code in SILENCEABLE else _FIRM).format(code=code, why=why)
    head = f"{heading}\n\n*{severity_of(code)}*\n"
    return Rule(code, title, summary, f"{head}{rest.rstrip()}\n\n{silence}")
