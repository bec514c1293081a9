"""The page about parity: every command on it runs, and so does every example."""

from __future__ import annotations

import re
import shlex
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from rung.cli import main

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[1] / "docs/parity.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.M)
PLUGIN = () if entry_points(group="pytest11", name="rung") else ("-p", "rung.testing.plugin")


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("rung ")])
def test_the_commands_of_rung_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line)[1:]) == 0
    assert [path.name for path in tmp_path.iterdir()] == (["parity.xml"] if "--output" in line else [])


def test_so_does_that_of_pytest(pytester: pytest.Pytester) -> None:
    (line,) = [line for line in COMMANDS if line.startswith("pytest ")]
    result = pytester.runpytest_inprocess(*PLUGIN, *shlex.split(line)[1:])
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] == 2


def test_so_do_the_tests(pytester: pytest.Pytester) -> None:
    (module,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    pytester.makepyfile(module)
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
