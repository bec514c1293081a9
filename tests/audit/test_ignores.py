"""Comments that silence a finding: where they stand, what they may silence, and what becomes of useless ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from judging import concise, judged
from rung.audit.ignores import Ignores
from rung.audit.scene import Scene
from rung.diagnostics import Problem, Problems, Where
from rung.source import read

if TYPE_CHECKING:
    from pathlib import Path

    from rung.manifest import Manifests

HEAD = "manifest: 1\nkinds:\n"


def applied(path: Path, text: str, *found: tuple[int, str], imports: bool = False, partial: bool = False) -> Manifests:
    """Judge a text, add findings at lines, and apply its comments."""
    file = path / "a.yaml"
    file.write_text(text, encoding="utf-8")
    whole = judged(file, builtin=False)
    assert concise(whole) == []
    whole.problems.found += [Problem(code, Where("a.yaml", line, 3), f"found {code}") for line, code in found]
    scene = Scene(whole, path, imports=imports, partial=partial)
    kept = [p for p in whole.problems.found if not scene.ignores.silences(p.where, p.code)]
    whole.problems.found = [*kept, *scene.ignores.useless(scene.would_tell)]
    return whole


@pytest.mark.parametrize(
    "text",
    [
        "  vae: {summary: s}  # rung: ignore[RG403] reason\n",
        "  vae: {summary: s} #rung:ignore[RG403]: reason\n",
        "  vae: {summary: s}  # see below # rung: ignore[RG403] reason\n",
        "  vae: {summary: s}  # rung: ignore[ RG403 , RG402 ] reason\n",
        "  vae: {summary: s}  # rung: ignore[RG403] #123 says so\n",
        "  vae: {summary: s}  # rung: ignore[RG402] one # rung: ignore[RG403] two\n",
    ],
    ids=["at the end", "without blanks", "behind another comment", "with a second code", "a number", "two comments"],
)
def test_a_comment_silences_the_finding_on_its_line(tmp_path: Path, text: str) -> None:
    assert "found RG403" not in str(concise(applied(tmp_path, HEAD + text, (3, "RG403"))))


def test_a_comment_alone_on_a_line_silences_the_next_one(tmp_path: Path) -> None:
    text = HEAD + "  # rung: ignore[RG403] reason\n  vae: {summary: s}\n"
    assert concise(applied(tmp_path, text, (4, "RG403"))) == []
    assert len(concise(applied(tmp_path, text, (3, "RG403")))) == 2


def test_every_finding_of_the_code_on_the_line_is_silenced(tmp_path: Path) -> None:
    text = HEAD + "  vae: {summary: s} # rung: ignore[RG403] reason\n"
    assert concise(applied(tmp_path, text, (3, "RG403"), (3, "RG403"))) == []


def test_other_codes_and_other_lines_stay(tmp_path: Path) -> None:
    text = HEAD + "  vae: {summary: s} # rung: ignore[RG403] reason\n  dit: {summary: s}\n"
    whole = applied(tmp_path, text, (3, "RG403"), (3, "RG402"), (4, "RG403"))
    assert concise(whole) == ["3:3 RG402 found RG402", "4:3 RG403 found RG403"]


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("# rung: ignore[RG403] why", "unused ignore: RG403 is not found here"),
        ("# rung: ignore[RG402]", "the ignore of RG402 gives no reason"),
        ("# rung: ignore[RG402]   ", "the ignore of RG402 gives no reason"),
        ("# rung: ignore[RG999] why", "no rule is called `RG999`"),
        ("# rung: ignore[RG40] why", "no rule is called `RG40`"),
        ("# rung: ignore[RG301] why", "RG301 cannot be silenced"),
        ("# rung: ignore[RG903] why", "RG903 cannot be silenced"),
        ("# rung: ignore[] why", "an ignore comment names no rule"),
        ("# rung: ignore why", "an ignore comment names no rule"),
    ],
    ids=["unused", "no reason", "blank reason", "no such rule", "a group", "firm", "itself", "empty", "no bracket"],
)
def test_a_comment_that_silences_nothing_is_a_finding(tmp_path: Path, comment: str, said: str) -> None:
    text = f"{HEAD}  vae: {{summary: s}} {comment}\n"
    found = concise(applied(tmp_path, text, (3, "RG402")))
    assert found == ["3:3 RG402 found RG402", f"3:21 RG903 {said}"]


@pytest.mark.parametrize(
    "text",
    [
        '  vae: {summary: "# rung: ignore[RG403] why"}\n',
        "  vae:\n    summary: |\n      # rung: ignore[RG403] why\n",
        "  vae: {summary: s} # turning: ignore[RG403] why\n",
        "  vae: {summary: s} # rung ignores nothing here\n",
    ],
    ids=["quoted text", "block text", "another word", "prose"],
)
def test_what_is_no_such_comment_means_nothing(tmp_path: Path, text: str) -> None:
    assert concise(applied(tmp_path, HEAD + text, (3, "RG403"))) == ["3:3 RG403 found RG403"]


def test_only_the_useless_code_of_several_is_reported(tmp_path: Path) -> None:
    text = HEAD + "  vae: {summary: s} # rung: ignore[RG402, RG403] why\n"
    assert concise(applied(tmp_path, text, (3, "RG403"))) == ["3:21 RG903 unused ignore: RG402 is not found here"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("  vae: {summary: s}  # rung: ignore[RG403] why\n", "  vae: {summary: s}\n"),
        ("  # rung: ignore[RG403] why\n  vae: {summary: s}\n", "  vae: {summary: s}\n"),
        ("  vae: {summary: s}\n  # rung: ignore[RG403] why", "  vae: {summary: s}"),
    ],
    ids=["at the end", "alone on its line", "on the last line"],
)
def test_the_edit_takes_the_comment_out(tmp_path: Path, line: str, kept: str) -> None:
    (problem,) = applied(tmp_path, HEAD + line).problems
    assert problem.edit is not None
    where, lines = problem.edit.where, (HEAD + line).split("\n")
    before = "\n".join([*lines[: where.line - 1], lines[where.line - 1][: where.column - 1]])
    after = "\n".join([lines[where.end_line - 1][where.end_column - 1 :], *lines[where.end_line :]])
    assert before + problem.edit.text + after == HEAD + kept


class TestUnusedIsAVerdict:
    TEXT = HEAD + "  vae: {{summary: s}} # rung: ignore[{code}] why\n"

    def unused(self, path: Path, code: str, *found: tuple[int, str], **more: bool) -> bool:
        said = concise(applied(path, self.TEXT.format(code=code), *found, **more))
        return f"3:21 RG903 unused ignore: {code} is not found here" in said

    @pytest.mark.parametrize("code", ["RG402", "RG403", "RG406", "RG508", "RG603", "RG604", "RG905"])
    def test_not_where_something_else_is_broken(self, tmp_path: Path, code: str) -> None:
        assert self.unused(tmp_path, code)
        assert not self.unused(tmp_path, code, (2, "RG201"))
        assert self.unused(tmp_path, code, (2, "RG501")), "which stops no audit"

    @pytest.mark.parametrize("code", ["RG402", "RG403", "RG406", "RG603"])
    def test_not_where_more_manifests_belong_to_it(self, tmp_path: Path, code: str) -> None:
        assert not self.unused(tmp_path, code, partial=True)

    @pytest.mark.parametrize("code", ["RG502", "RG503", "RG504", "RG505", "RG606"])
    def test_not_where_only_an_import_would_tell(self, tmp_path: Path, code: str) -> None:
        assert not self.unused(tmp_path, code)
        assert self.unused(tmp_path, code, imports=True)

    @pytest.mark.parametrize("code", ["RG501", "RG902"])
    def test_but_where_one_place_is_enough(self, tmp_path: Path, code: str) -> None:
        assert self.unused(tmp_path, code, (2, "RG201"), partial=True)

    def test_not_in_a_file_that_could_not_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text(self.TEXT.format(code="RG501") + "}\n", encoding="utf-8")
        whole = judged(tmp_path / "a.yaml", builtin=False)
        scene = Scene(whole, tmp_path)
        assert list(scene.ignores.useless(scene.would_tell)) == []


def test_many_comments_are_as_fast_as_one() -> None:
    lines = [f"  k{n}: {{summary: s}} # rung: ignore[RG403] why" for n in range(2000)]
    document = read("\n".join([HEAD.rstrip(), *lines]).encode(), "a.yaml", Problems())
    assert document is not None
    assert len(list(Ignores([document]).useless(lambda *_: True))) == 2000
