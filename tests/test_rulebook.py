"""The rulebook: every code has a page, and what a page says is bad or good is so."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import rung
from judging import BUILTIN, ROOTS, judged
from rung.audit import audit
from rung.audit.scene import Scene
from rung.diagnostics import RungError
from rung.resources import data_dir
from rung.rulebook import GROUPS, SILENCEABLE, Rule, rulebook, selected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rung.diagnostics import Problem

ENGINE: Final = Path(rung.__file__).parent
FIXTURES: Final = Path(__file__).parent / "bad_manifests"
CODES: Final = {
    "0": (1, 2, 3, 4, 5),
    "1": (1, 2, 3, 4, 5, 6, 7, 8),
    "2": (1, 2, 3, 4, 5, 6, 7, 8),
    "3": (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13),
    "4": (1, 2, 3, 6, 8),
    "5": (1, 2, 3, 4, 5, 8),
    "6": (3, 4, 6),
    "8": (1, 2, 3, 4, 5),
    "9": (1, 2, 3, 5),
}
"""The codes there are, by group. None is ever used again."""
WITHOUT_A_MANIFEST: Final[Mapping[str, str]] = {
    "RG001": "bytes that are not UTF-8 cannot stand in a page",
    "RG901": "is about a compiled table",
    "RG905": "is about a generated schema",
}
"""Codes whose bad example is text that cannot be judged, and why."""
ASIDE: Final[Mapping[str, str]] = {
    "RG406": "an op that an example declares need not have kernels",
    "RG902": "an example need not have the modeline of an editor",
}
"""Codes that examples of other rules may have as well, and why."""

PAGES: Final = [pytest.param(rule, id=rule.code) for rule in rulebook().values()]
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OURS: Final = re.compile(r"\b(acme[\w.]*):([A-Za-z]\w*)")


def sections(rule: Rule) -> dict[str, str]:
    """Give the sections of a page by their headings."""
    outside = re.split(r"^## (.+)\n", rule.page, flags=re.MULTILINE)[1:]
    return dict(zip(outside[::2], outside[1::2], strict=True))


def blocks(rule: Rule, section: str, language: str) -> list[str]:
    """Give the examples of a section that are in one language."""
    return [text for name, text in BLOCK.findall(sections(rule)[section]) if name == language]


def found(rule: Rule, section: str, home: Path) -> list[Problem]:
    """Judge the example of a section as `rung check` does, in a directory that has the modules it shows.

    A page that is not about bindings need not show what it binds: that is a function which takes anything.
    """
    manifests = blocks(rule, section, "yaml")
    modules: dict[str, str] = {}
    if rule.code[2] != "5" and rule.code != "RG803":
        for module, name in dict.fromkeys(OURS.findall("".join(manifests))):
            path = f"{module.replace('.', '/')}.py"
            modules[path] = modules.get(path, "") + f"def {name}(*arguments, **options):\n    return arguments\n\n\n"
    for text in blocks(rule, section, "python"):
        modules[text.partition("\n")[0].removeprefix("# ")] = text
    for name, text in modules.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in file.relative_to(home).parents[:-1]:
            (home / folder / "__init__.py").touch()
        file.write_text(text, encoding="utf-8")
    (home / "page").mkdir()
    for number, text in enumerate(manifests):
        (home / f"page/{number}.yaml").write_text(text, encoding="utf-8")
    schemas = home / "schemas"
    schemas.mkdir()
    for file in data_dir("schemas").glob("*.json"):
        text = file.read_text(encoding="utf-8").replace('"../manifests"', '"../manifests", "../page"')
        (schemas / file.name).write_text(text, encoding="utf-8")
    whole = judged(home / "page", roots=ROOTS)
    imports = any(FIXTURES.glob(f"{rule.code}-*-imports"))
    audit(Scene(whole, home, (str(home), *sys.path), imports=imports, along=(BUILTIN,)))
    return [p for p in whole.problems if p.code == rule.code or p.code not in ASIDE]


def test_every_code_has_a_page() -> None:
    assert list(rulebook()) == [f"RG{group}{n:02}" for group, numbers in CODES.items() for n in numbers]


def test_every_code_the_engine_gives_has_a_page() -> None:
    files = ENGINE.rglob("*.py")
    given = {code for path in files for code in re.findall(r'"(RG\d{3})"', path.read_text(encoding="utf-8"))}
    assert given <= rulebook().keys()


def test_every_code_has_a_bad_fixture() -> None:
    assert rulebook().keys() == {path.name[:5] for path in FIXTURES.iterdir()}


def test_what_may_be_silenced_are_rules() -> None:
    assert rulebook().keys() >= SILENCEABLE


def test_every_group_has_a_name() -> None:
    assert {code[2] for code in rulebook()} <= GROUPS.keys()


@pytest.mark.parametrize("rule", PAGES)
def test_a_page_has_the_form_of_a_page(rule: Rule) -> None:
    assert rule.page.startswith(f"# {rule.code}: {rule.title}\n\n*{rule.severity}*\n\n")
    assert rule.title not in ("", "title")
    assert rule.title[-1] not in ".:!"
    assert len(rule.title) <= 50
    assert rule.summary.endswith(".")
    assert not rule.summary.startswith("#")
    names = list(sections(rule))
    assert names[:3] == ["Why", "Bad", "Good"]
    assert names[3:] in (["How to silence it"], ["Also", "How to silence it"])
    assert rule.page.count("\n```") % 2 == 0
    assert rule.page.endswith(".\n")
    for text in (*blocks(rule, "Bad", "python"), *blocks(rule, "Good", "python")):
        assert re.match(r"# [\w/]+\.py\n", text)


@pytest.mark.parametrize("rule", PAGES)
def test_the_bad_example_has_this_fault_and_no_other(rule: Rule, tmp_path: Path) -> None:
    if not blocks(rule, "Bad", "yaml"):
        assert rule.code in WITHOUT_A_MANIFEST
        assert blocks(rule, "Bad", "text")
        return
    assert rule.code not in WITHOUT_A_MANIFEST
    problems = found(rule, "Bad", tmp_path)
    assert {p.code for p in problems} == {rule.code}, "\n".join(p.concise() for p in problems)


@pytest.mark.parametrize("rule", PAGES)
def test_the_good_example_has_no_fault(rule: Rule, tmp_path: Path) -> None:
    if rule.code not in WITHOUT_A_MANIFEST:
        assert blocks(rule, "Good", "yaml")
    assert [p.concise() for p in found(rule, "Good", tmp_path)] == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["RG301"], ["RG301"]),
        (["RG301, RG101", "RG301"], ["RG301", "RG101"]),
        (["RG90"], ["RG901", "RG902", "RG903", "RG905"]),
        (["RG4", "RG401"], ["RG401", "RG402", "RG403", "RG406", "RG408"]),
        (["RG"], list(rulebook())),
        ([], []),
    ],
    ids=["code", "list", "tens", "group", "all", "none"],
)
def test_codes_and_groups_select_rules(written: list[str], meant: list[str]) -> None:
    assert selected(written) == meant


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("RG300", "did you mean `RG30"),
        ("rg301", "did you mean `RG301`?"),
        ("301", "did you mean `RG301`?"),
        ("RG301x", "did you mean `RG301`?"),
        ("", "`rung rule` lists them"),
        ("imports", "`rung rule` lists them"),
        ("RG301,", "`rung rule` lists them"),
        ("x" * 500, "`rung rule` lists them"),
    ],
    ids=["unknown", "lower case", "digits", "longer", "nothing", "word", "comma", "long"],
)
def test_a_code_that_is_none_gets_a_hint(written: str, hint: str) -> None:
    with pytest.raises(RungError, match=re.escape(hint)) as caught:
        selected([written])
    assert len(str(caught.value)) < 120
