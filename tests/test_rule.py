"""`rung rule`, and the document it writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rung.cli import main
from rung.cli.rule import document
from rung.rulebook import rulebook

DOCUMENT = Path(__file__).parents[1] / "docs/rules.md"
REPAIR = "rung rule --all --output docs/rules.md"


def rule(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["rule", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_committed_document_is_the_rulebook(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = rule(capsys, "--all")
    assert (code, err) == (0, "")
    assert DOCUMENT.read_bytes() == out.encode(), f"docs/rules.md is stale; this writes it: {REPAIR}"


def test_the_document_names_the_command_that_writes_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "`rung rule --all`" in DOCUMENT.read_text(encoding="utf-8")
    again = tmp_path / "rules.md"
    assert rule(capsys, "--all", "--output", str(again)) == (0, "", "")
    assert again.read_bytes() == DOCUMENT.read_bytes(), f"docs/rules.md is stale; this writes it: {REPAIR}"


def test_its_contents_lead_to_a_heading_of_every_rule() -> None:
    text = re.sub(r"^```.*?^```$", "", document(list(rulebook().values())), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^## (RG\d+: .+)$", text, re.MULTILINE)
    links = re.findall(r"^- \[(.+)\]\(#(.+)\), (error|warning)$", text, re.MULTILINE)
    assert [link[0] for link in links] == headings
    assert [heading[:5] for heading in headings] == list(rulebook())
    assert [severity for *_, severity in links] == [r.severity for r in rulebook().values()]
    anchors = [anchor for _, anchor, _ in links]
    assert all(re.fullmatch(r"rg\d{3}-[\w-]+", anchor) for anchor in anchors)
    assert text.count("\n# ") == 0
    assert text.count("\n### Why\n") == len(headings)


def test_what_is_fenced_in_a_page_is_not_changed() -> None:
    fences = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    pages = "".join(r.page for r in rulebook().values())
    assert fences.findall(document(list(rulebook().values()))) == fences.findall(pages)


@pytest.mark.parametrize(
    ("written", "codes"),
    [
        (["RG403"], ["RG403"]),
        (["RG403", "RG201"], ["RG403", "RG201"]),
        (["RG403,RG201"], ["RG403", "RG201"]),
        (["RG40", "RG403"], ["RG401", "RG402", "RG403", "RG406", "RG408"]),
    ],
    ids=["one", "two", "comma", "group"],
)
def test_pages_are_printed(capsys: pytest.CaptureFixture[str], written: list[str], codes: list[str]) -> None:
    code, out, err = rule(capsys, *written)
    assert (code, err) == (0, "")
    assert out == "\n".join(rulebook()[code].page for code in codes)
    assert out.startswith(f"# {codes[0]}: ")


@pytest.mark.parametrize("written", [["RG403", "RG3"], []], ids=["some", "all"])
def test_the_json_form(capsys: pytest.CaptureFixture[str], written: list[str]) -> None:
    code, out, _ = rule(capsys, *written, "--format", "json")
    told = json.loads(out)
    assert (code, told["format_version"]) == (0, 1)
    for entry in told["rules"]:
        known = rulebook()[entry["code"]]
        assert entry == {
            "code": known.code,
            "title": known.title,
            "severity": known.severity,
            "summary": known.summary,
            "page": known.page,
        }
    expected = ["RG403", *(c for c in rulebook() if c.startswith("RG3"))] if written else list(rulebook())
    assert [entry["code"] for entry in told["rules"]] == expected


def test_without_a_code_the_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = rule(capsys)
    assert (code, err) == (0, "")
    lines = [line.split(maxsplit=2) for line in out.splitlines()[2:]]
    assert lines == [[r.code, r.severity, r.title] for r in rulebook().values()]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (["RG30l"], "no rule is called `RG30l`: did you mean `RG301`?"),
        (["RG403", "nothing"], "no rule is called `nothing`: `rung rule` lists them"),
        (["RG403", "--all"], "name rules or give --all, not both"),
    ],
    ids=["slip", "word", "both"],
)
def test_what_is_no_rule_is_a_usage_error(capsys: pytest.CaptureFixture[str], written: list[str], said: str) -> None:
    assert rule(capsys, *written) == (2, "", f"rung: {said}\n")
