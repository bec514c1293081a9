"""`rung rule`: print what the rulebook says about a code, a group of codes, or all of them.

Owns the layout of the whole rulebook as one document, which is `docs/rules.md`; `rung.rulebook` owns the pages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rung.cli.common import common_flags, rows, write, write_json
from rung.diagnostics import RungError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from rung.rulebook import Rule

__all__ = ["add", "document", "run"]

_HEAD = """\
# Rules

What `rung check` finds, a page for each rule: what it is for, a bad example and a good one, and how to silence it.
`rung rule CODE` prints one page, `rung rule --all` this file.

Errors make `rung check` fail, warnings do with `--strict`. A code is never used for another rule.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "rule",
        help="explain what a finding means",
        description="Print what a rule is for, a bad and a good example, and how to silence it.",
        epilog="Without a code, the rules are listed.",
    )
    command.add_argument("codes", metavar="CODE", nargs="*", help="a rule (RG301), or a group of rules (RG3)")
    command.add_argument("--all", action="store_true", dest="whole", help="print every page as one Markdown document")
    common_flags(command, ("full", "json"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the pages, the document or the list."""
    from rung.rulebook import rulebook, selected

    if arguments.codes and arguments.whole:
        raise RungError("name rules or give --all, not both")
    rules = [rulebook()[code] for code in selected(arguments.codes)] or list(rulebook().values())
    if arguments.format == "json":
        write_json(arguments, {"format_version": 1, "rules": [_as_dict(rule) for rule in rules]})
    elif arguments.whole:
        write(arguments, document(rules))
    elif arguments.codes:
        write(arguments, "\n".join(rule.page for rule in rules))
    else:
        write(arguments, rows(("Code", "Severity", "Finds"), ((r.code, r.severity, r.title) for r in rules)))
    return 0


def document(rules: Sequence[Rule]) -> str:
    """Give rules as one Markdown document: a table of contents by group, then the pages."""
    from rung.rulebook import GROUPS

    lines = [_HEAD]
    for digit, group in GROUPS.items():
        listed = [f"- {_link(rule)}, {rule.severity}" for rule in rules if rule.code[2] == digit]
        if listed:
            lines += [f"**{group.capitalize()}**\n", *listed, ""]
    pages = ("\n".join(_lowered(rule.page.splitlines())) for rule in rules)
    return "\n".join(lines) + "\n" + "\n\n".join(pages) + "\n"


def _link(rule: Rule) -> str:
    """Give a link to the heading of a rule, whose anchor is made as Markdown viewers make it."""
    heading = f"{rule.code}: {rule.title}"
    anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return f"[{heading}](#{anchor})"


def _lowered(lines: Iterable[str]) -> Iterator[str]:
    """Give the lines of a page with its headings one level lower; what is fenced has comments, not headings."""
    fenced = False
    for line in lines:
        fenced ^= line.startswith("```")
        yield f"#{line}" if line.startswith("#") and not fenced else line


def _as_dict(rule: Rule) -> dict[str, str]:
    return {
        "code": rule.code,
        "title": rule.title,
        "severity": rule.severity,
        "summary": rule.summary,
        "page": rule.page,
    }
