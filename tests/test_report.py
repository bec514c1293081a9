"""The formats of a report: what each promises to its reader, and that none of them changes what is found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pytest
from sarif_pydantic import Sarif  # type: ignore[import-untyped]

from calling import rung
from rung.cli.findings import Report
from rung.cli.report import FORMATS, render
from rung.diagnostics import Problem, Where
from rung.records import replace
from rung.rulebook import rulebook

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

    from conftest import Write

    Git = Callable[..., str]

CLEAN = """\
manifest: 1
backend: acme
arrays: numpy
kernels:
  flow_match_step:
    - {device: cpu, arch: numpy, impl: "acme.kernels:step"}
"""
WARNED = CLEAN + "    # rung: ignore[RG403] it never was\n"
BROKEN = CLEAN.replace("flow_match_step", "flow_mach_step") + "  flow_match_stepp: []\n"
ONLY: Final = ("--select", "RG206,RG302,RG903")
"""What these manifests are made to have, whatever else may be found in them."""


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GITHUB_WORKSPACE", "GITHUB_BASE_REF", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def problem(path: str = "m/acme.yaml", line: int = 5, **more: Any) -> Problem:
    made = Problem("RG301", Where(path, line, 20, line, 25), "unknown arch `sm_9O`", "did you mean `sm_90`?")
    return replace(made, **more)


def printed(form: str, *problems: Problem, root: Path = Path(), limit: int = 200) -> str:
    return render(form, Report(problems, root=root), limit)


class TestEveryFormat:
    @pytest.mark.parametrize("form", FORMATS)
    @pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
    @pytest.mark.parametrize(
        ("text", "codes"),
        [(CLEAN, (0, 0)), (WARNED, (0, 1)), (BROKEN, (1, 1)), (None, (2, 2))],
        ids=["clean", "warned", "broken", "absent"],
    )
    def test_gives_the_same_exit_code(
        self, write: Write, capsys: pytest.CaptureFixture[str], form: str, strict: bool, text: str | None,
        codes: tuple[int, int],
    ) -> None:  # fmt: skip
        write({"m/acme.yaml": text} if text else {"m/readme.txt": ""})
        flags = (*ONLY, "--format", form, *(["--strict"] if strict else []))
        assert rung(capsys, "check", "m", *flags)[0] == codes[strict]

    @pytest.mark.parametrize("form", FORMATS)
    @pytest.mark.parametrize(("limit", "shown"), [(0, 0), (1, 1), (2, 2), (3, 2)])
    def test_shows_as_many_findings_as_it_may(
        self, write: Write, capsys: pytest.CaptureFixture[str], form: str, limit: int, shown: int
    ) -> None:
        write({"m/acme.yaml": BROKEN})
        code, out, err = rung(capsys, "check", "m", *ONLY, "--format", form, "--max-diagnostics", str(limit))
        assert code == 1
        counted = {
            "full": lambda: out.count("error["),
            "concise": lambda: len(out.splitlines()),
            "json": lambda: len(json.loads(out)["diagnostics"]),
            "github": lambda: out.count("::error "),
            "sarif": lambda: len(json.loads(out)["runs"][0]["results"]),
        }
        assert counted[form]() == shown
        assert (f"{2 - shown} more not shown (--max-diagnostics)" in err) == (shown < 2)
        assert "2 errors, 0 warnings" in err
        if form == "json":
            assert json.loads(out).get("not_shown", 0) == 2 - shown
        if form == "sarif":
            assert json.loads(out)["runs"][0]["properties"] == {"notShown": 2 - shown}

    @pytest.mark.parametrize("form", FORMATS)
    def test_goes_to_a_file_when_it_is_told_to(
        self, write: Write, capsys: pytest.CaptureFixture[str], form: str
    ) -> None:
        write({"m/acme.yaml": BROKEN})
        _, out, _ = rung(capsys, "check", "m", *ONLY, "--format", form)
        code, nothing, err = rung(capsys, "check", "m", *ONLY, "--format", form, "--output", "report")
        assert (code, nothing) == (1, "")
        assert "2 errors" in err
        assert Path("report").read_bytes() == out.encode()

    @pytest.mark.parametrize("form", FORMATS)
    def test_is_the_same_every_time(self, write: Write, capsys: pytest.CaptureFixture[str], form: str) -> None:
        write({"m/acme.yaml": BROKEN, "m/other.yaml": BROKEN.replace("acme", "other")})
        first = rung(capsys, "check", "m", "--format", form)
        assert rung(capsys, "check", "m", "--format", form) == first

    @pytest.mark.parametrize("form", FORMATS)
    def test_lets_no_control_character_through(self, form: str) -> None:
        bad = problem(message="unknown \x1b[31m\u202e", hint="\x07 \x9b", related=((Where("m/b\x1b.yaml"), "\x00"),))
        assert printed(form, bad).replace("\n", "").isprintable()


@pytest.mark.parametrize("given", ["-1", "x", "1.5", ""])
def test_a_limit_that_is_no_count_is_a_usage_error(capsys: pytest.CaptureFixture[str], given: str) -> None:
    code, out, err = rung(capsys, "check", f"--max-diagnostics={given}")
    assert (code, out) == (2, "")
    assert f"must be 0 or more, not {given}" in err


@pytest.mark.parametrize(
    ("flags", "environment", "terminal", "colored"),
    [
        ([], {}, True, True),
        ([], {}, False, False),
        (["--no-color"], {}, True, False),
        ([], {"NO_COLOR": "1"}, True, False),
        ([], {"NO_COLOR": ""}, True, True),
        (["--output", "report"], {}, True, False),
    ],
    ids=["terminal", "pipe", "flag", "NO_COLOR", "empty NO_COLOR", "file"],
)
def test_colours_are_for_terminals_that_want_them(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flags: list[str],
    environment: dict[str, str], terminal: bool, colored: bool,
) -> None:  # fmt: skip
    write({"m/acme.yaml": BROKEN})
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    _, out, _ = rung(capsys, "check", "m", *ONLY, *flags)
    text = out or Path("report").read_text(encoding="utf-8")
    assert ("\x1b[1;31merror[RG302]" in text) == colored
    assert "error[RG302]" in text


class TestAPipe:
    MANY = CLEAN + "".join(f"  unknown_op_{n}: []\n" for n in range(900))

    @pytest.mark.skipif(os.name == "nt", reason="needs a shell with pipes")
    @pytest.mark.parametrize("streams", ["", "2>&1"], ids=["report", "both"])
    def test_whose_reader_has_seen_enough_is_no_error(self, write: Write, streams: str) -> None:
        write({"m/acme.yaml": self.MANY})
        check = f"{sys.executable} -m rung check m {' '.join(ONLY)} --max-diagnostics 9999 {streams}"
        command = f"{check} | head -n 1; echo ${{PIPESTATUS[0]}} >&2"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert done.stdout.startswith("error[RG")
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr
        assert done.stderr.splitlines()[-1] == "1"

    def test_that_cannot_show_a_character_gets_its_escape(self, write: Write) -> None:
        write({"m/acme.yaml": CLEAN.replace("cpu", '"größe"')})
        command = [sys.executable, "-m", "rung", "check", "m", "--format", "concise"]
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 1
        assert r"gr\xf6\xdfe" in done.stdout


def read_command(line: str) -> tuple[str, dict[str, str], str]:
    """Read a workflow command as GitHub's runner does."""

    def plain(text: str, *more: tuple[str, str]) -> str:
        for token, character in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
            text = text.replace(token, character)
        return text

    assert line.startswith("::")
    info, _, data = line[2:].partition("::")
    name, _, given = info.partition(" ")
    pairs = (pair.split("=", 1) for pair in given.split(",") if pair)
    return name, {key: plain(value, ("%3A", ":"), ("%2C", ",")) for key, value in pairs}, plain(data)


class TestGithub:
    def test_a_finding_is_a_command(self) -> None:
        assert printed("github", problem()) == (
            "::error file=m/acme.yaml,line=5,endLine=5,col=20,endColumn=25,title=RG301::"
            "unknown arch `sm_9O`%0Ahelp: did you mean `sm_90`?"
        )

    def test_a_warning_is_another(self) -> None:
        assert read_command(printed("github", problem(code="RG403")))[0] == "warning"

    @pytest.mark.parametrize(
        ("where", "place"),
        [
            (None, {}),
            (Where("a.yaml"), {"line": "1"}),
            (Where("a.yaml", 3, 2, 3, 4), {"line": "3", "endLine": "3", "col": "2", "endColumn": "4"}),
            (Where("a.yaml", 3, 1, 3, 1), {"line": "3", "endLine": "3", "col": "1", "endColumn": "1"}),
            (Where("a.yaml", 3, 2, 5, 4), {"line": "3", "endLine": "5"}),
            (Where("a.yaml", 3, 2, 5, 1), {"line": "3", "endLine": "4"}),
            (Where("a.yaml", 3, 2, 4, 1), {"line": "3", "endLine": "3", "col": "2"}),
        ],
        ids=["no place", "whole file", "one line", "empty", "lines", "up to a line", "to the end of the line"],
    )
    def test_columns_are_given_for_one_line_only(self, where: Where | None, place: dict[str, str]) -> None:
        _, given, _ = read_command(printed("github", problem(where=where)))
        assert given == {**({"file": "a.yaml"} if where else {}), **place, "title": "RG301"}

    @pytest.mark.parametrize("text", ["100%", "%25", "%0A::error::", "a:b,c::d", "`x`: y"])
    def test_what_a_command_is_made_of_is_escaped(self, text: str) -> None:
        line = printed("github", problem(f"m/{text}.yaml", message=text, hint=text))
        assert "\n" not in line
        _, given, message = read_command(line)
        assert given["file"] == f"m/{text}.yaml"
        assert message == f"{text}\nhelp: {text}"

    def test_further_places_are_in_the_message(self) -> None:
        related = ((Where("m/b.yaml", 7), "declared here too"),)
        _, _, message = read_command(printed("github", problem(related=related)))
        assert message.splitlines()[1] == "note: declared here too at m/b.yaml:7"

    @pytest.mark.parametrize(
        ("workspace", "shown"),
        [(None, "m/acme.yaml"), ("repo", "sub/m/acme.yaml"), ("repo/sub", "m/acme.yaml"), ("else", "m/acme.yaml")],
        ids=["no workspace", "below it", "at it", "elsewhere"],
    )
    def test_paths_are_those_of_the_repository(
        self, write: Write, monkeypatch: pytest.MonkeyPatch, workspace: str | None, shown: str
    ) -> None:
        home = write({"repo/sub/m/acme.yaml": "", "else/x": ""})
        if workspace:
            monkeypatch.setenv("GITHUB_WORKSPACE", str(home / workspace))
        _, given, _ = read_command(printed("github", problem(), root=home / "repo/sub"))
        assert given["file"] == shown

    def test_files_outside_the_root_are_found_from_where_the_command_was_called(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = write({"repo/sub/x": "", "repo/m/acme.yaml": ""})
        monkeypatch.chdir(home / "repo/sub")
        _, given, _ = read_command(printed("github", problem("../m/acme.yaml")))
        assert given["file"] == (home / "repo/m/acme.yaml").resolve().as_posix()
        monkeypatch.setenv("GITHUB_WORKSPACE", str(home / "repo"))
        _, given, _ = read_command(printed("github", problem("../m/acme.yaml")))
        assert given["file"] == "m/acme.yaml"

    def test_ten_are_commands_and_the_rest_is_in_the_log(self) -> None:
        lines = printed("github", *(problem(line=n) for n in range(1, 14))).splitlines()
        assert [read_command(line)[1]["line"] for line in lines[:10]] == [str(n) for n in range(1, 11)]
        assert lines[10:] == [
            "3 more, not shown in the code:",
            *(f"m/acme.yaml:{n}:20: RG301 unknown arch `sm_9O`" for n in (11, 12, 13)),
        ]

    @pytest.mark.parametrize("path", ["::add-mask::x", " ::add-mask::x", "a##[add-mask]x"])
    def test_a_line_of_the_log_is_no_command(self, path: str) -> None:
        rest = printed("github", *[problem()] * 10, problem(path, message=f"unknown {path}")).splitlines()[11]
        assert rest.endswith("x")
        assert not rest.lstrip().startswith("::")
        assert "##[" not in rest

    def test_a_long_file_name_is_no_reason_to_fail(self) -> None:
        assert "file=" + "x" * 999 in printed("github", problem("x" * 999))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
class TestChangedLinesFirst:
    @pytest.fixture
    def git(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
        """Call git in a repository of one commit: `m/acme.yaml` has ten lines, 1 to 10."""
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        for role in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{role}_NAME", "A")
            monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")

        def call(*arguments: str) -> str:
            command = ["git", "-c", "commit.gpgSign=false", *arguments]
            return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

        call("init", "--quiet", "--initial-branch=main")
        self.write(tmp_path, range(1, 11))
        self.commit(call)
        return call

    def write(self, home: Path, lines: Sequence[object], name: str = "m/acme.yaml") -> None:
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def commit(self, git: Git) -> None:
        git("add", "-A")
        git("commit", "--quiet", "-m", "x")

    def order(self, *problems: Problem, root: Path = Path()) -> list[str]:
        lines = printed("github", *problems, root=root).splitlines()
        return [read_command(line)[1].get("line", "-") for line in lines]

    def test_since_the_commit_before(self, git: Git, tmp_path: Path) -> None:
        self.write(tmp_path, [1, 2, 3, 4, 5, 6, "new", 8, 9, 10])
        self.commit(git)
        assert self.order(*(problem(line=n) for n in (2, 6, 7, 8))) == ["7", "2", "6", "8"]

    def test_in_the_working_tree_too(self, git: Git, tmp_path: Path) -> None:
        self.write(tmp_path, range(1, 12))
        self.commit(git)
        self.write(tmp_path, [0, *range(1, 12)])
        assert self.order(*(problem(line=n) for n in (2, 1, 12))) == ["1", "12", "2"]

    def test_since_the_branch_was_left(self, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        git("checkout", "--quiet", "-b", "topic")
        for line in (3, 8):
            self.write(tmp_path, [n if n not in (3, line) else "new" for n in range(1, 11)])
            self.commit(git)
        problems = [problem(line=n) for n in (1, 3, 8)]
        assert self.order(*problems) == ["8", "1", "3"]
        monkeypatch.setenv("GITHUB_BASE_REF", "main")
        assert self.order(*problems) == ["3", "8", "1"]
        git("update-ref", "refs/remotes/origin/main", "topic^1")
        assert self.order(*problems) == ["8", "1", "3"]
        monkeypatch.setenv("GITHUB_BASE_REF", "--output=nothing")
        assert self.order(*problems) == ["8", "1", "3"]

    def test_places_of_several_lines_and_whole_files(self, git: Git, tmp_path: Path) -> None:
        self.write(tmp_path, [1, 2, 3, 4, "new", 6, 7, 8, 9, 10])
        self.commit(git)
        at = Where("m/acme.yaml", 2, 1, 5, 1), Where("m/acme.yaml", 3, 1, 5, 2), Where("m/acme.yaml"), None
        assert self.order(*(problem(where=where) for where in at)) == ["3", "1", "2", "-"]

    @pytest.mark.parametrize(
        "configured",
        ["diff.noprefix=true", "diff.mnemonicPrefix=true", "diff.relative=true", "diff.interHunkContext=9",
         "color.ui=always", "diff.external=false", "core.quotePath=true"],
    )  # fmt: skip
    def test_however_git_is_configured(self, git: Git, tmp_path: Path, configured: str) -> None:
        git("config", *configured.split("="))
        self.write(tmp_path, [1, 2, "new", 4, 5, "new", 7, 8, 9, 10])
        self.commit(git)
        assert self.order(*(problem("acme.yaml", line=n) for n in (4, 3, 6)), root=tmp_path / "m") == ["3", "6", "4"]

    @pytest.mark.parametrize("name", ["a b.yaml", "größe.yaml", 'a"b.yaml', "a\\b.yaml", "b/c.yaml"])
    def test_whatever_a_file_is_called(self, git: Git, tmp_path: Path, name: str) -> None:
        if os.name == "nt" and set(name) & set('"\\'):
            pytest.skip("no name of a file there")
        self.write(tmp_path, range(1, 4), name)
        self.commit(git)
        assert self.order(problem(line=1), problem(name, 2)) == ["2", "1"]

    def test_whatever_a_changed_line_says(self, git: Git, tmp_path: Path) -> None:
        self.write(tmp_path, ["++ b/m/other.yaml", "@@ -1 +1 @@", *range(3, 11)])
        self.write(tmp_path, [1, 2], "m/other.yaml")
        git("add", "m/acme.yaml")
        git("commit", "--quiet", "-m", "x")
        assert self.order(problem(line=9), problem("m/other.yaml", 1), problem(line=2)) == ["2", "9", "1"]

    def test_before_the_rest_is_cut_off(self, git: Git, tmp_path: Path) -> None:
        self.write(tmp_path, [*range(1, 10), "new"])
        self.commit(git)
        line = printed("github", *(problem(line=n) for n in range(1, 11)), limit=1)
        assert read_command(line)[1]["line"] == "10"

    def test_in_report_order_when_there_is_nothing_to_compare_with(self, git: Git) -> None:
        assert self.order(*(problem(line=n) for n in (3, 1, 2))) == ["3", "1", "2"]

    def test_in_report_order_without_git(self, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.write(tmp_path, [*range(1, 10), "new"])
        self.commit(git)
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        assert self.order(*(problem(line=n) for n in (3, 10))) == ["3", "10"]

    def test_in_report_order_outside_a_repository(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        assert self.order(*(problem(line=n) for n in (3, 10))) == ["3", "10"]


class TestSarif:
    def read(self, *problems: Problem, root: Path = Path()) -> tuple[Sarif, dict[str, Any]]:
        text = printed("sarif", *problems, root=root)
        return Sarif.model_validate_json(text), json.loads(text)["runs"][0]

    def results(self, *problems: Problem, root: Path = Path()) -> list[Any]:
        return list(self.read(*problems, root=root)[0].runs[0].results or ())

    def test_a_reader_knows_every_key_of_it(self) -> None:
        def extras(model: BaseModel) -> set[str]:
            found = set(model.model_extra or ())
            for value in vars(model).values():
                for item in value if isinstance(value, list) else [value]:
                    found |= extras(item) if hasattr(item, "model_extra") else set()
            return found

        found, run = self.read(problem(cell="acme/x@cuda.sm_90#default", related=((Where("b.yaml", 2, 3), "here"),)))
        assert found.version == "2.1.0"
        assert extras(found) == {"columnKind"}  # which it keeps without a name for it
        assert run["columnKind"] == "unicodeCodePoints"

    @pytest.mark.parametrize("problems", [(), (problem(),)], ids=["clean", "one finding"])
    def test_every_rule_is_declared_whether_it_fired_or_not(self, problems: tuple[Problem, ...]) -> None:
        found, _ = self.read(*problems)
        rules = found.runs[0].tool.driver.rules or []
        assert [rule.id for rule in rules] == list(rulebook())
        for declared, rule in zip(rules, rulebook().values(), strict=True):
            assert declared.short_description is not None
            assert declared.full_description is not None
            assert declared.help is not None
            assert declared.default_configuration is not None
            assert declared.short_description.text == rule.title
            assert declared.full_description.text == rule.summary
            assert declared.help.markdown == rule.page
            assert declared.default_configuration.level == rule.severity
            assert (declared.name or "").isalnum()
        assert len(found.runs[0].results or ()) == len(problems)

    @pytest.mark.parametrize(
        "given",
        [
            problem(),
            problem("m/größe 100%.yaml"),
            problem("a:b/?x#y.yaml"),
            problem(code="RG403", cell="acme/flow_match_step@cuda.sm_90#default"),
            problem(where=Where("m/acme.yaml")),
            problem(where=Where("m/acme.yaml", 2, 3, 9, 1)),
            problem(related=((Where("m/b.yaml", 4, 5, 4, 9), "first here"), (Where("m/c.yaml", 1, 1), "and here"))),
            problem(hint=""),
        ],
        ids=["plain", "not ASCII", "URI", "cell", "file", "lines", "related", "no hint"],
    )
    def test_what_was_found_can_be_read_back(self, given: Problem) -> None:
        (result,) = self.results(given)

        def place(location: Any) -> Where:
            artifact, region = location.physical_location.artifact_location, location.physical_location.region
            assert artifact.uri_base_id == "SRCROOT"
            assert artifact.uri.isascii()
            lines = region.start_line, region.start_column, region.end_line or 0, region.end_column or 0
            return Where(unquote(artifact.uri), *lines)

        (location,) = result.locations
        assert list(rulebook())[result.rule_index] == result.rule_id == given.code
        assert result.level.value == given.severity
        assert result.message.text == "\n".join(filter(None, (given.message, given.hint)))
        assert place(location) == given.where
        assert [n.fully_qualified_name for n in location.logical_locations or ()] == (
            [given.cell] if given.cell else []
        )
        related = result.related_locations or ()
        assert tuple((place(r), r.message.text) for r in related) == given.related

    def test_a_finding_without_a_place_has_no_location(self) -> None:
        (result,) = self.results(problem(where=None))
        assert result.locations == []

    def test_paths_are_those_of_the_repository(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        home = write({"sub/m/acme.yaml": "", "sub/m/other.yaml": ""})
        monkeypatch.setenv("GITHUB_WORKSPACE", str(home))
        (result,) = self.results(problem(), root=home / "sub")
        assert result.locations[0].physical_location.artifact_location.uri == "sub/m/acme.yaml"

    def test_a_file_outside_the_root_has_its_whole_address(self, write: Write) -> None:
        home = write({"root/x": "", "m/a b.yaml": ""}).resolve()
        (result,) = self.results(problem((home / "m/a b.yaml").as_posix()), root=home / "root")
        artifact = result.locations[0].physical_location.artifact_location
        assert (artifact.uri, artifact.uri_base_id) == ((home / "m/a b.yaml").as_uri(), None)

    def test_no_path_of_this_machine_is_in_it(self, tmp_path: Path) -> None:
        assert str(tmp_path) not in printed("sarif", problem(), root=tmp_path)

    def test_a_message_makes_no_link(self) -> None:
        (result,) = self.results(problem(message="unknown `[x](http://example.org)`"))
        assert "](" not in result.message.text

    def test_a_message_has_no_placeholder(self) -> None:
        related = ((Where("m/b.yaml", 7), "as {1}"),)
        (result,) = self.results(problem(message="unknown `{0}`", hint="write {x: 1}", related=related))
        assert result.message.text == "unknown `{{0}}`\nwrite {{x: 1}}"
        assert result.related_locations[0].message.text == "as {{1}}"

    def marks(self, *problems: Problem) -> list[str]:
        return [result.partial_fingerprints["rung/v1"] for result in self.results(*problems)]

    @pytest.mark.parametrize(
        ("change", "same"),
        [
            ({"where": Where("m/acme.yaml", 9, 1, 9, 2)}, True),
            ({"hint": "another"}, True),
            ({"code": "RG302"}, False),
            ({"message": "another"}, False),
            ({"where": Where("m/other.yaml", 5, 20, 5, 25)}, False),
            ({"where": None}, False),
            ({"cell": "acme/x@cuda.sm_90#default"}, False),
        ],
        ids=["line", "hint", "code", "message", "file", "no place", "cell"],
    )
    def test_a_finding_is_known_again_without_its_line(self, change: dict[str, Any], same: bool) -> None:
        assert (self.marks(problem()) == self.marks(problem(**change))) == same

    @pytest.mark.parametrize(
        ("change", "same"),
        [
            ({"message": "another"}, True),
            ({"where": Where("m/other.yaml", 1, 1)}, True),
            ({"code": "RG402"}, False),
            ({"cell": "acme/y@cuda.sm_90#default"}, False),
        ],
        ids=["message", "file", "code", "cell"],
    )
    def test_a_finding_about_a_cell_is_known_by_the_cell(self, change: dict[str, Any], same: bool) -> None:
        about = problem(code="RG403", cell="acme/x@cuda.sm_90#default")
        assert (self.marks(about) == self.marks(replace(about, **change))) == same

    def test_findings_that_would_be_mistaken_are_counted(self) -> None:
        twice = self.marks(problem(line=1), problem(line=2), problem(line=3, message="another"))
        assert len(set(twice)) == 3
        assert self.marks(problem(line=7)) == twice[:1]
        assert self.marks(problem(line=7), problem(line=8)) == twice[:2]
