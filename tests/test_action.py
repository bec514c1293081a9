"""The GitHub action, and the page about CI: their scripts are run here as a runner would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from checkout import copy_to, offline
from rung.cli import CLEAN, FINDINGS, INTERNAL, USAGE, main
from rung.cli.report import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
BASH = shutil.which("bash")

MANIFEST = """\
# yaml-language-server: $schema=https://example.org/manifest.schema.json
manifest: 1
backend: acme
arrays: numpy
kernels:
  flow_match_step:
    - device: cpu
      arch: x86_64_v3
      impl: "acme.kernels:flow_match_step"
"""
TYPO = MANIFEST.replace("x86_64_v3", "x86_64_v33")
UNUSED = MANIFEST + "predicates:\n  acme_idle: {os: linux}\n"
KERNELS = (
    "def flow_match_step(sample, velocity, sigma, sigma_next):\n    return sample + (sigma_next - sigma) * velocity\n"
)
TRAP = 'open(r"{marker}", "w").close()\n'

needs_bash = pytest.mark.skipif(BASH is None, reason="runs scripts with bash")


def loaded(text: str) -> Any:
    """Give YAML as text and nothing but text: `on` is a key, not a truth."""
    return yaml.load(text, Loader=yaml.BaseLoader)


ACTION = loaded((ROOT / "action.yml").read_text(encoding="utf-8"))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill in the expressions of a step."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda match: values[match[1]], text)


@dataclass(frozen=True)
class Ran:
    """How a step ended, what it said, and the outputs it set."""

    code: int
    said: str
    outputs: dict[str, str]


def ran(step: Mapping[str, Any], values: Mapping[str, str], environment: Mapping[str, str], directory: Path) -> Ran:
    """Run the script of a step as a runner does: the script in a file, expressions filled in only outside of it."""
    temporary = Path(environment["RUNNER_TEMP"])
    script = temporary / "script"
    script.write_text(step["run"], encoding="utf-8")
    outputs = temporary / "outputs"
    outputs.write_text("", encoding="utf-8")
    shells = {
        "bash": [BASH or "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        "python3 -I {0}": [sys.executable, "-I", str(script)],
    }
    variables = {name: filled(value, values) for name, value in step.get("env", {}).items()}
    done = subprocess.run(
        shells[step["shell"]], cwd=directory, capture_output=True, text=True, encoding="utf-8", check=False,
        env={**environment, **variables, "GITHUB_OUTPUT": str(outputs)},
    )  # fmt: skip
    lines = outputs.read_text(encoding="utf-8").splitlines()
    return Ran(done.returncode, done.stdout + done.stderr, dict(line.split("=", 1) for line in lines))


class TestActionFile:
    def test_inputs_reach_scripts_as_variables_only(self) -> None:
        assert [step["name"] for step in ACTION["runs"]["steps"] if "${{" in step["run"]] == []

    def test_every_step_names_its_shell(self) -> None:
        assert {step["shell"] for step in ACTION["runs"]["steps"]} == {"bash"}

    def test_every_input_is_described_has_a_default_and_is_used(self) -> None:
        used = {value for step in ACTION["runs"]["steps"] for value in step["env"].values()}
        for name, about in ACTION["inputs"].items():
            assert about.keys() == {"description", "default"}, name
            assert f"${{{{ inputs.{name} }}}}" in used


@dataclass(frozen=True)
class Runner:
    """A runner on which the action's first step was run, in a checkout full of traps."""

    environment: Mapping[str, str]
    workspace: Path
    python: str
    marker: Path

    def check(self, **inputs: str) -> Ran:
        """Run the step that checks."""
        defaults = {name: about["default"] for name, about in ACTION["inputs"].items()}
        values = {f"inputs.{name}": value for name, value in {**defaults, **inputs}.items()}
        (step,) = (step for step in ACTION["runs"]["steps"] if step["id"] == "check")
        return ran(step, {**values, "steps.install.outputs.python": self.python}, self.environment, self.workspace)


def trapped(directory: Path, marker: Path) -> None:
    """Write modules into a checkout that whoever imports from the working directory would run."""
    for name in ("ensurepip", "json", "pip", "sitecustomize", "venv", "yaml"):
        (directory / f"{name}.py").write_text(TRAP.format(marker=marker), encoding="utf-8")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    home = tmp_path_factory.mktemp("runner")
    marker, workspace = home / "trapped", home / "workspace"
    (home / "temp").mkdir()
    workspace.mkdir()
    trapped(workspace, marker)
    action = copy_to(home / "action")
    environment = {
        **offline(home),
        "GITHUB_ACTION_PATH": str(action),
        "GITHUB_WORKSPACE": str(workspace),
        "PYTHONPATH": str(workspace),
        "RUNNER_TEMP": str(home / "temp"),
        "RUNG_PLUGINS": "off",
    }
    (step,) = (step for step in ACTION["runs"]["steps"] if step["id"] == "install")
    done = ran(step, {"inputs.python": sys.executable}, environment, workspace)
    assert done.code == 0, done.said
    return Runner(environment, workspace, done.outputs["python"], marker)


@pytest.fixture
def runner(installed: Runner) -> Iterator[Runner]:
    """Give the runner with a checkout whose manifest is in order; afterwards nothing in it was run."""
    for name, text in (("manifests/acme.yaml", MANIFEST), ("acme/__init__.py", ""), ("acme/kernels.py", KERNELS)):
        (installed.workspace / name).parent.mkdir(exist_ok=True)
        (installed.workspace / name).write_text(text, encoding="utf-8")
    yield installed
    assert not installed.marker.exists()


def written(runner: Runner, text: str) -> None:
    (runner.workspace / "manifests/acme.yaml").write_text(text, encoding="utf-8")


@needs_bash
class TestAction:
    def test_a_checkout_in_order_passes(self, runner: Runner) -> None:
        done = runner.check(paths="manifests", allow="acme")
        assert (done.code, done.outputs) == (0, {"exit-code": "0"}), done.said
        assert "0 errors, 0 warnings" in done.said

    def test_a_mistake_is_an_annotation_and_fails(self, runner: Runner) -> None:
        written(runner, TYPO)
        done = runner.check(paths="manifests", allow="acme")
        assert (done.code, done.outputs) == (1, {"exit-code": "1"}), done.said
        assert "::error file=manifests/acme.yaml,line=8," in done.said

    def test_the_configuration_names_what_no_input_names(self, runner: Runner, tmp_path: Path) -> None:
        root = tmp_path / "root"
        (root / "manifests").mkdir(parents=True)
        (root / "manifests/acme.yaml").write_text(TYPO, encoding="utf-8")
        (root / "pyproject.toml").write_text('[tool.rung]\nmanifests = ["manifests"]\n', encoding="utf-8")
        done = runner.check(root=str(root))
        assert done.code == 1, done.said
        assert "x86_64_v33" in done.said

    @pytest.mark.parametrize(("strict", "code"), [("false", 0), ("true", 1), ("yes", 2)])
    def test_strict_decides_about_warnings(self, runner: Runner, strict: str, code: int) -> None:
        written(runner, UNUSED)
        done = runner.check(paths="manifests", allow="acme", strict=strict)
        assert done.code == code, done.said

    def test_lists_have_an_entry_a_line(self, runner: Runner) -> None:
        written(runner, UNUSED)
        done = runner.check(
            paths="manifests/acme.yaml\n\n  manifests  \n", allow="other\nacme\n", ignore="RG603\nRG508", strict="true"
        )
        assert done.code == 0, done.said

    def test_a_report_goes_to_a_file(self, runner: Runner) -> None:
        written(runner, TYPO)
        done = runner.check(paths="manifests", format="sarif", output="out.sarif")
        assert done.code == 1, done.said
        log = json.loads((runner.workspace / "out.sarif").read_text(encoding="utf-8"))
        assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["RG301"]

    @pytest.mark.parametrize(
        "inputs",
        [
            pytest.param({}, id="nothing names a manifest"),
            pytest.param({"paths": "nowhere"}, id="no such path"),
            pytest.param({"paths": "--imports"}, id="a flag as a path"),
            pytest.param({"paths": '$(touch "{marker}")'}, id="a command as a path"),
            pytest.param({"paths": 'x"; touch "{marker}"; "'}, id="quotes in a path"),
            pytest.param({"paths": "manifests", "format": "github --imports"}, id="flags in a format"),
            pytest.param({"paths": "manifests", "root": '`touch "{marker}"`'}, id="a command as a root"),
            pytest.param({"paths": "manifests", "ignore": "$(echo RG301)"}, id="a command as a code"),
            pytest.param({"paths": "manifests", "strict": 'true) touch "{marker}" ;;'}, id="a command as a flag"),
        ],
    )
    def test_what_is_no_usage_is_refused(self, runner: Runner, inputs: dict[str, str]) -> None:
        done = runner.check(**{name: text.replace("{marker}", str(runner.marker)) for name, text in inputs.items()})
        assert done.code == 2, done.said


BLOCKS = [loaded(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]
WORKFLOWS = {block["name"]: block for block in BLOCKS if "jobs" in block}
JOBS = [
    pytest.param(workflow, job, id=f"{workflow['name']}, {name}")
    for workflow in WORKFLOWS.values()
    for name, job in workflow["jobs"].items()
]
REPORT = WORKFLOWS["Manifest report"]["jobs"]["report"]


def named(job: Mapping[str, Any], start: str) -> list[Any]:
    """Give the steps that use an action."""
    return [step for step in job["steps"] if step.get("uses", "").startswith(start)]


def permissions(workflow: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """Give what a job's token may do."""
    given: dict[str, str] = job.get("permissions", workflow["permissions"])
    return given


class TestPage:
    """docs/ci.md."""

    @pytest.mark.parametrize(("workflow", "job"), JOBS)
    def test_a_job_that_has_the_change_has_a_token_that_may_only_read(self, workflow: Any, job: Any) -> None:
        checkouts = named(job, "actions/checkout")
        if not checkouts:
            return
        assert permissions(workflow, job) == {"contents": "read"}
        assert {step["with"]["persist-credentials"] for step in checkouts} == {"false"}

    @pytest.mark.parametrize(("workflow", "job"), JOBS)
    def test_no_script_holds_an_expression(self, workflow: Any, job: Any) -> None:
        assert [step["run"] for step in job["steps"] if "${{" in step.get("run", "")] == []

    @pytest.mark.parametrize(("workflow", "job"), JOBS)
    def test_no_workflow_gives_a_pull_request_a_token(self, workflow: Any, job: Any) -> None:
        events = workflow["on"]
        assert "pull_request_target" not in events
        if "workflow_run" in events:
            assert not named(job, "actions/checkout")
            assert not named(job, "OWNER/rung")
            assert "write" not in workflow["permissions"]
        assert "secrets." not in json.dumps(workflow)

    def test_the_job_with_the_token_has_what_it_needs_and_no_more(self) -> None:
        expected = {"actions": "read", "contents": "read", "pull-requests": "read", "security-events": "write"}
        assert REPORT["permissions"] == expected

    def test_the_second_workflow_waits_for_the_first_and_takes_its_artifact(self) -> None:
        scan = WORKFLOWS["Manifest scan"]
        assert WORKFLOWS["Manifest report"]["on"]["workflow_run"]["workflows"] == [scan["name"]]
        (upload,) = named(scan["jobs"]["check"], "actions/upload-artifact")
        (check,) = named(scan["jobs"]["check"], "OWNER/rung")
        (download,) = named(REPORT, "actions/download-artifact")
        assert upload["with"]["name"] == download["with"]["name"]
        assert upload["with"]["path"] == check["with"]["output"]

    def test_only_a_report_of_this_run_is_uploaded(self) -> None:
        job = WORKFLOWS["Manifest scan"]["jobs"]["check"]
        (upload,), (check,) = named(job, "actions/upload-artifact"), named(job, "OWNER/rung")
        assert check["with"]["output"].startswith("${{ runner.temp }}/")
        (codes,) = re.findall(
            rf"contains\(fromJSON\('(.*)'\), steps\.{check['id']}\.outputs\.exit-code\)", upload["if"]
        )
        assert json.loads(codes) == [str(CLEAN), str(FINDINGS)]

    @pytest.mark.parametrize(("workflow", "job"), JOBS)
    def test_the_action_has_the_inputs_that_are_given(self, workflow: Any, job: Any) -> None:
        for step in named(job, "OWNER/rung"):
            assert step["with"].keys() <= ACTION["inputs"].keys()

    def test_the_hook_that_is_named_exists(self) -> None:
        (shown,) = (block for block in BLOCKS if "repos" in block)
        hooks = loaded((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
        assert {hook["id"] for hook in shown["repos"][0]["hooks"]} <= {hook["id"] for hook in hooks}

    @pytest.mark.parametrize(
        ("header", "names"),
        [
            pytest.param("exit code", [str(code) for code in (CLEAN, FINDINGS, USAGE, INTERNAL)], id="exit codes"),
            pytest.param("`--format`", [f"`{name}`" for name in FORMATS], id="formats"),
            pytest.param("input", [f"`{name}`" for name in ACTION["inputs"]], id="inputs"),
        ],
    )
    def test_a_table_lists_all_there_are(self, header: str, names: list[str]) -> None:
        (table,) = re.findall(rf"^\| {header} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.M)
        assert [line.split("|")[1].strip() for line in table.splitlines()] == names

    @pytest.mark.parametrize("block", re.findall(r"^\$ rung (.*)$", PAGE, re.M))
    def test_the_commands_shown_are_commands(self, block: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(ROOT)
        assert main(block.split()) == 0


def sarif(**changes: Any) -> str:
    run = {"tool": {"driver": {"name": "rung"}}, "results": [], **changes}
    return json.dumps({"version": "2.1.0", "runs": [run]})


class TestReport:
    """The scripts of the job that has the token."""

    (take,) = (step for step in REPORT["steps"] if step.get("name") == "Take the report as data")
    (ask,) = (step for step in REPORT["steps"] if step.get("id") == "pull")

    @pytest.fixture
    def environment(self, tmp_path: Path) -> dict[str, str]:
        (tmp_path / "temp").mkdir()
        (tmp_path / "job" / "artifact").mkdir(parents=True)
        return {**os.environ, "RUNNER_TEMP": str(tmp_path / "temp"), "PYTHONPATH": str(tmp_path / "job" / "artifact")}

    def test_a_report_of_rung_is_taken(
        self, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "acme.yaml").write_text(TYPO, encoding="utf-8")
        report = tmp_path / "job/artifact/rung.sarif"
        assert main(["check", "acme.yaml", "--format", "sarif", "--output", str(report)]) == FINDINGS
        done = ran(self.take, {}, environment, tmp_path / "job")
        assert done.code == 0, done.said
        taken = json.loads((tmp_path / "job/rung.sarif").read_text(encoding="utf-8"))
        assert taken == json.loads(report.read_text(encoding="utf-8"))

    @pytest.mark.parametrize(
        "files",
        [
            pytest.param({}, id="nothing"),
            pytest.param({"other.sarif": sarif()}, id="another name"),
            pytest.param({"rung.sarif": sarif(), "json.py": TRAP}, id="more than the report"),
            pytest.param({"rung.sarif/inner": ""}, id="a directory"),
            pytest.param({"rung.sarif": "\xff"}, id="no JSON"),
            pytest.param({"rung.sarif": "[" * 200_000}, id="deep JSON"),
            pytest.param({"rung.sarif": "[]"}, id="no log"),
            pytest.param({"rung.sarif": '{"version": "2.1.0", "runs": []}'}, id="no run"),
            pytest.param({"rung.sarif": sarif(tool={"driver": {"name": "CodeQL"}})}, id="another tool"),
            pytest.param({"rung.sarif": sarif(tool=None)}, id="no tool"),
            pytest.param({"rung.sarif": sarif(automationDetails={"id": "codeql/"})}, id="another analysis"),
            pytest.param({"rung.sarif": sarif(results=[" " * 10_000_000])}, id="too large"),
        ],
    )
    def test_anything_else_is_refused(self, environment: dict[str, str], tmp_path: Path, files: dict[str, str]) -> None:
        marker = tmp_path / "trapped"
        for name, text in files.items():
            (tmp_path / "job/artifact" / name).parent.mkdir(exist_ok=True)
            (tmp_path / "job/artifact" / name).write_text(text.replace("{marker}", str(marker)), encoding="utf-8")
        done = ran(self.take, {}, environment, tmp_path / "job")
        assert done.code == 1
        assert "Traceback" not in done.said
        assert not (tmp_path / "job/rung.sarif").exists()
        assert not marker.exists()

    def test_a_link_is_refused(self, environment: dict[str, str], tmp_path: Path) -> None:
        (tmp_path / "secret").write_text(sarif(), encoding="utf-8")
        try:
            (tmp_path / "job/artifact/rung.sarif").symlink_to(tmp_path / "secret")
        except OSError:
            pytest.skip("this system lets nobody make links")
        assert ran(self.take, {}, environment, tmp_path / "job").code == 1

    @needs_bash
    @pytest.mark.parametrize(
        ("answer", "number"), [("7", "7"), ("7\n9", "7"), ("", "")], ids=["one", "several", "none"]
    )
    def test_the_pull_request_is_the_one_that_github_names(
        self, environment: dict[str, str], tmp_path: Path, answer: str, number: str
    ) -> None:
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "gh").write_text(f"#!{BASH}\nprintf '%s\\n' \"$@\" > asked\necho '{answer}'\n", encoding="utf-8")
        (tools / "gh").chmod(0o755)
        values = {
            "github.token": "token",
            "github.repository": "acme/kernels",
            "github.event.workflow_run.head_repository.owner.login": "stranger",
            "github.event.workflow_run.head_branch": "$(touch asked-too)",
            "github.event.workflow_run.head_sha": "0" * 40,
        }
        environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"
        done = ran(self.ask, values, environment, tmp_path / "job")
        assert (done.code, done.outputs) == (0, {"number": number}), done.said
        asked = (tmp_path / "job/asked").read_text(encoding="utf-8").splitlines()
        assert "repos/acme/kernels/pulls" in asked
        assert "head=stranger:$(touch asked-too)" in asked
        assert not (tmp_path / "job/asked-too").exists()
