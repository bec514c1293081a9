"""A checkout that a stranger made: its configuration, its names and what git finds in it do no harm to a check."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from calling import CODE, GOOD, rung
from rung import units
from rung.cli.common import inert
from rung.cli.report import FORMATS

if TYPE_CHECKING:
    from conftest import Write

COMMAND: Final = re.compile(r"(?:^|[\r\n])\s*::|##\[")
"""What the runner takes for a command."""


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GITHUB_WORKSPACE", "GITHUB_BASE_REF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def linked(link: Path, target: Path) -> None:
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("this system lets nobody make links")


class TestConfiguration:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            pytest.param("a = " + "[" * 100_000, "nested too deeply", id="deep"),
            pytest.param("a = " + "1" * 5000, "digits", id="a long number"),
            pytest.param("#" * 1_100_000, "exceed the limit", id="large"),
            pytest.param("a = [", "Invalid value", id="no TOML"),
            pytest.param(
                '[tool.rung]\n"x\\n::add-mask::y" = 1\n', r"has no key `x\n::add-mask::y`", id="a key of lines"
            ),
            pytest.param('[tool.rung]\nmanifests = ["m\\n::x"]\n', r"control character in `m\n::x`", id="lines"),
            pytest.param(
                '[tool.rung]\nallow = ["a\\u2028::x"]\n', r"control character in `a\u2028::x`", id="a separator"
            ),
            pytest.param('[tool.rung]\nmanifests = ["../m"]\n', "manifests: `../m` leads out", id="above"),
            pytest.param('[tool.rung]\nmanifests = ["m/../.."]\n', "`m/../..` leads out", id="back and above"),
            pytest.param('[tool.rung]\nmanifests = ["/"]\n', "`/` leads out", id="the whole machine"),
            pytest.param('[tool.rung]\ntable = "../t.json"\n', "table: `../t.json` leads out", id="the table"),
            pytest.param('[tool.rung]\nallow = ["fast-cpu"]\n', "`fast-cpu` is no top-level package", id="no package"),
            pytest.param('[tool.rung]\nignore = ["RG999"]\n', "ignore: no rule is called `RG999`", id="no rule"),
            pytest.param('[tool.rung]\nignore = "RG406"\n', "ignore must be a list of text", id="no list"),
        ],
    )
    @pytest.mark.parametrize("command", ["check", "fix", "matrix"])
    def test_that_is_not_as_it_should_be_is_a_usage_error_of_one_line(
        self, write: Write, capsys: pytest.CaptureFixture[str], command: str, text: str, said: str
    ) -> None:
        root = write({"root/m/acme.yaml": GOOD, "root/pyproject.toml": text}) / "root"
        code, out, err = rung(capsys, command, "--root", root)
        assert (code, out) == (2, "")
        assert said in err
        assert len(err.splitlines()) == 1

    def test_that_is_a_pipe_is_not_waited_for(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no pipes among its files")
        root = write({"m/acme.yaml": GOOD})
        os.mkfifo(root / "pyproject.toml")
        code, _, err = rung(capsys, "check", root / "m", "--root", root)
        assert (code, err) == (2, f"rung: {root / 'pyproject.toml'}: cannot be read: not a regular file\n")

    def test_that_is_a_directory_is_said_so(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write({"m/acme.yaml": GOOD, "pyproject.toml/x": ""})
        assert rung(capsys, "check", root / "m", "--root", root)[0] == 2

    def test_leads_out_through_no_link(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        home = write({"home/secret.yaml": "token: x\n", "root/pyproject.toml": '[tool.rung]\nmanifests = ["m"]\n'})
        linked(home / "root/m", home / "home")
        code, out, err = rung(capsys, "check", "--root", home / "root")
        assert (code, out) == (2, "")
        assert "manifests: `m` leads out" in err

    @pytest.mark.parametrize("command", ["check", "fix"])
    def test_leaves_rules_out(self, write: Write, capsys: pytest.CaptureFixture[str], command: str) -> None:
        text = GOOD.replace("arch: numpy", "arch: [numpy, numpy]")
        config = '[tool.rung]\nmanifests = ["m"]\nallow = ["acme"]\n'
        root = write({"m/acme.yaml": text, **CODE, "pyproject.toml": config})
        flags = ("--diff",) if command == "fix" else ()
        assert rung(capsys, command, "--root", root, *flags)[0] == 1
        write({"pyproject.toml": config + 'ignore = ["RG401", "RG208"]\n'})
        assert rung(capsys, command, "--root", root, *flags)[:2] == (0, "")

    def test_of_a_directory_above_is_named(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write({"pyproject.toml": '[tool.rung]\nmanifests = ["m"]\n', "m/acme.yaml": GOOD, "sub/x": ""}).resolve()
        code, _, err = rung(capsys, "check", "--root", root / "sub")
        said = f"rung: no pyproject.toml with [tool.rung] in {root / 'sub'}; give --root {root}\n"
        assert (code, err) == (2, said)


@pytest.mark.parametrize(
    "command", [("explain", "flow_match_step", "--device", "cpu"), ("matrix",)], ids=lambda c: c[0]
)
def test_no_file_of_the_root_stands_in_for_a_module_of_rungs(write: Write, command: tuple[str, ...]) -> None:
    config = '[tool.rung]\nmanifests = ["m"]\nallow = ["acme"]\n'
    root = write({"m/acme.yaml": GOOD, **CODE, "pyproject.toml": config})
    for name in ("annotated_types", "difflib", "gc", "numpy", "pydantic", "tomllib", "yaml"):
        (root / f"{name}.py").write_text("open(__file__ + '.marker', 'w')\n", encoding="utf-8")
    away = root / "away"
    away.mkdir()
    arguments = [sys.executable, "-m", "rung", *command, "--root", str(root)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=away)
    assert done.returncode == 0, done.stderr
    assert "acme" in done.stdout
    assert list(root.glob("*.marker")) == []


class TestCommands:
    """What a runner would take for a command of ours."""

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("::add-mask::x", r"\u003a:add-mask::x"),
            ("a\n  ::x", "a\n  \\u003a:x"),
            ("a\r::x", "a\r\\u003a:x"),
            ("\n\n\u2003::x", "\n\n\u2003\\u003a:x"),
            ("a##[x]", r"a#\u0023[x]"),
            ("####[x]", r"###\u0023[x]"),
            ("a::b # [c] ## [d] :e", "a::b # [c] ## [d] :e"),
            ("", ""),
        ],
    )
    def test_are_made_inert(self, text: str, shown: str) -> None:
        assert inert(text) == shown
        assert inert(shown) == shown

    @pytest.mark.parametrize("form", FORMATS)
    @pytest.mark.parametrize("name", ["::add-mask::x", "a##[add-mask]x"])
    @pytest.mark.skipif(os.name == "nt", reason="no name of a file there")
    def test_are_in_no_report(
        self, write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str, name: str
    ) -> None:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        text = GOOD.replace("flow_match_step", f'"{name}"').replace("numpy\n", f'numpy\n"{name}": 1\n')
        root = write({f"{name}.yaml": text + f"# ::x ##[{name}]\n"})
        monkeypatch.chdir(root)
        code, out, err = rung(capsys, "check", f"{name}.yaml", "--format", form)
        assert code == 1
        ours = "\n".join(line for line in out.splitlines() if not line.startswith(("::error ", "::warning ")))
        for said in (ours, err):
            assert not COMMAND.search(said)
        if form in ("json", "sarif"):
            assert name in json.dumps(json.loads(out))

    @pytest.mark.parametrize(
        "arguments",
        [("check", "::x\n::y"), ("check", "m", "--ignore", "a\n::x"), ("check", "m", "--format", "\n::x"),
         ("rule", "\n ::x"), ("matrix", "--backend", "##[x]\n::y"), ("explain", "\n::x"), ("check", "m", "--x\n::y")],
    )  # fmt: skip
    def test_are_in_no_message(
        self, write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
        arguments: tuple[str, ...],
    ) -> None:  # fmt: skip
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        write({"m/acme.yaml": GOOD})
        code, out, err = rung(capsys, *arguments)
        assert (code, out) == (2, "")
        assert err
        assert not COMMAND.search(err)

    @pytest.mark.filterwarnings("always")
    @pytest.mark.parametrize("level", ["note", "warning"])
    def test_are_in_nothing_the_engine_says(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, level: str
    ) -> None:
        import logging

        from rung.diagnostics import warn

        def speak(arguments: object) -> Any:
            say = warn if level == "warning" else logging.getLogger("rung").info
            say("x\u2028::a\n::b \x1b[31m ##[c]")
            raise OSError("enough")

        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setattr("rung.cli.matrix.table_of", speak)
        code, _, err = rung(capsys, "matrix")
        assert code == 2
        assert f"rung: {level}: x\\u2028::a" in err
        assert "\x1b" not in err
        assert not COMMAND.search(err)


class TestOutput:
    FIXABLE = GOOD.replace("backend: acme", "backend: acme\nhint: no")

    @pytest.mark.parametrize(
        ("given", "said"),
        [("", "names no file"), (".", "is a directory"), ("m", "is a directory"), ("m/acme.yaml/x", "not a directory"),
         ("pipe", "is not a regular file"), ("to-pipe", "is not a regular file"), ("/dev/stdout", "is a device"),
         ("x\0y", "")],
    )  # fmt: skip
    @pytest.mark.parametrize("command", ["fix", "check", "schema"])
    @pytest.mark.skipif(os.name == "nt", reason="makes pipes and links")
    def test_that_cannot_be_written_is_refused_before_anything_is_done(
        self, write: Write, capsys: pytest.CaptureFixture[str], command: str, given: str, said: str
    ) -> None:
        root = write({"m/acme.yaml": self.FIXABLE})
        os.mkfifo(root / "pipe")
        (root / "to-pipe").symlink_to("pipe")
        before = sorted(root.rglob("*"))
        code, out, err = rung(capsys, command, "m", "--output", given)
        assert (code, out) == (2, "")
        assert said in err
        assert (root / "m/acme.yaml").read_text(encoding="utf-8") == self.FIXABLE
        assert sorted(root.rglob("*")) == before

    def test_replaces_a_link_and_does_not_follow_it(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write({"m/acme.yaml": GOOD, "mine.txt": "kept"})
        linked(root / "report.json", root / "mine.txt")
        code, out, _ = rung(capsys, "check", "m", "--format", "json", "--output", "report.json")
        assert (code, out) == (1, "")
        assert (root / "mine.txt").read_text(encoding="utf-8") == "kept"
        assert not (root / "report.json").is_symlink()
        assert json.loads((root / "report.json").read_text(encoding="utf-8"))["format_version"] == 1

    def test_is_left_alone_when_nothing_was_checked(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write({"report": "old"})
        assert rung(capsys, "check", "nowhere", "--output", "report")[0] == 2
        assert (root / "report").read_text(encoding="utf-8") == "old"


class TestUsage:
    @pytest.mark.parametrize("name", ["fast-cpu", "fast_cpu.sub", "", "1a", " "])
    @pytest.mark.parametrize(
        "command", [("check", "m"), ("fix", "m"), ("matrix", "--manifests", "m")], ids=lambda c: c[0]
    )
    def test_what_is_no_package_cannot_be_allowed(
        self, write: Write, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], name: str
    ) -> None:
        write({"m/acme.yaml": GOOD})
        code, _, err = rung(capsys, *command, f"--allow={name}")
        assert code == 2
        assert f"`{name}` is no top-level package" in err

    @pytest.mark.parametrize("command", [("check",), ("fix",), ("matrix", "--manifests")], ids=lambda c: c[0])
    def test_a_file_of_another_kind_is_no_manifest(
        self, write: Write, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
    ) -> None:
        write({"x.py": "import os\n"})
        code, out, err = rung(capsys, *command, "x.py")
        assert (code, out, err) == (2, "", "rung: x.py is no manifest: a manifest ends in .yaml or .yml\n")

    @pytest.mark.parametrize(("number", "end"), [(8, "acme_7 (name"), (12, "acme_7 and 4 more (name")])
    def test_the_summary_names_eight_packages(
        self, write: Write, capsys: pytest.CaptureFixture[str], number: int, end: str
    ) -> None:
        digits = "0123456789ab"
        write({f"m/{d}.yaml": GOOD.replace("acme", f"acme_{d}") for d in digits[:number]})
        _, _, err = rung(capsys, "check", "m")
        assert f"packages they bind: acme_0, acme_1, acme_2, acme_3, acme_4, acme_5, acme_6, {end}" in err


@pytest.mark.parametrize(
    "names", [[f"{n}.txt" for n in range(9)], [f"{n}/x/y.txt" for n in range(3)]], ids=["wide", "deep"]
)
@pytest.mark.parametrize("also", [True, False], ids=["with a manifest", "without one"])
def test_a_search_for_manifests_ends(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, names: list[str], also: bool
) -> None:
    monkeypatch.setattr(units, "MAX_ENTRIES", 8)
    write({f"m/{name}": "" for name in names} | ({"a/acme.yaml": GOOD} if also else {}))
    code, out, err = rung(capsys, "check", "m", *(["a"] if also else []))
    assert code == 2
    assert "more than 8 files and directories to look through" in out + err


@pytest.mark.skipif(shutil.which("git") is None or os.name == "nt", reason="needs git and a shell")
@pytest.mark.parametrize("root", ["evil", "evil/m", "."])
def test_git_takes_no_directory_of_the_checkout_for_a_repository(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    broken = GOOD.replace("flow_match_step", "flow_mach_step") + "  flow_match_stepp: []\n"
    home = write({"evil/m/acme.yaml": broken})
    monitor = home / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {home}/marker\n", encoding="utf-8")
    monitor.chmod(0o755)

    def git(where: Path, *arguments: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false")
        subprocess.run(["git", *identity, *arguments], cwd=where, check=True, capture_output=True)

    git(home / "evil", "init", "--quiet", "other")
    for number in range(2):
        git(home / "evil/other", "commit", "--quiet", "--allow-empty", "-m", str(number))
    for entry in (home / "evil/other/.git").iterdir():
        entry.rename(home / "evil" / entry.name)
    (home / "evil/other/.git").rmdir()
    config = f"[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = {monitor}\n"
    (home / "evil/config").write_text(config, encoding="utf-8")
    code, _, _ = rung(capsys, "check", "evil/m", "--root", root, "--format", "github")
    assert code == 1
    assert not (home / "marker").exists()


@pytest.mark.skipif(os.name == "nt", reason="a script is no program there")
def test_git_is_not_looked_for_in_the_checkout(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = GOOD.replace("flow_match_step", "flow_mach_step") + "  flow_match_stepp: []\n"
    home = write({"m/acme.yaml": broken, ".git/x": "", "git": f"#!/bin/sh\ntouch {Path.cwd()}/marker\n"})
    (home / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{home / 'nothing'}")
    assert rung(capsys, "check", "m", "--format", "github")[0] == 1
    assert not (home / "marker").exists()
