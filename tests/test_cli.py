"""The commands: their output contracts and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calling import CODE, GOOD, rung
from outside import FILES, manifest
from rung.cli.bar import line
from rung.facts import Facts

if TYPE_CHECKING:
    from conftest import Write

ROOT = Path(__file__).parents[1]
FACTS = Path(__file__).parent / "facts"

BAD = GOOD.replace("flow_match_step", "flow_mach_step").replace("arrays: numpy", "arays: numpy")


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


class TestCheck:
    def test_the_shipped_manifests_are_clean(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert rung(capsys, "check", "manifests", "--strict")[:2] == (0, "")

    def test_so_is_a_directory_checked_together_with_them(
        self, write: Write, capsys: pytest.CaptureFixture[str]
    ) -> None:
        root = write({"m/acme.yaml": GOOD, **CODE})
        code, out, err = rung(capsys, "check", root / "m", "--root", root)
        assert (code, out) == (0, "")
        assert "packages they bind: acme" in err

    def test_every_finding_in_one_run_with_place_and_hint(
        self, write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = write({"m/acme.yaml": BAD, **CODE})
        monkeypatch.chdir(root)
        code, out, _ = rung(capsys, "check", "m")
        assert code == 1
        assert out.startswith("error[RG201]: unknown key `arays`\n  --> m/acme.yaml:4:1\n")
        assert "did you mean `arrays`?" in out

    def test_the_json_form(
        self, write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(write({"m/acme.yaml": GOOD.replace("flow_match_step", "flow_mach_step"), **CODE}))
        code, out, _ = rung(capsys, "check", "m", "--format", "json")
        assert code == 1
        assert json.loads(out) == {
            "format_version": 1,
            "diagnostics": [
                {
                    "code": "RG302",
                    "severity": "error",
                    "path": "m/acme.yaml",
                    "start": [6, 3],
                    "end": [6, 17],
                    "message": "unknown op `flow_mach_step`",
                    "hint": "did you mean `flow_match_step`?",
                    "cell": None,
                    "related": [],
                }
            ],
        }

    def test_concise_is_one_line_each(
        self, write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(write({"m/acme.yaml": GOOD.replace("flow_match_step", "flow_mach_step"), **CODE}))
        assert rung(capsys, "check", "m", "--format", "concise")[1] == (
            "m/acme.yaml:6:3: RG302 unknown op `flow_mach_step`\n"
        )

    @pytest.mark.parametrize(
        ("flags", "code"),
        [
            (["--ignore", "RG3"], 0),
            (["--select", "RG1"], 0),
            (["--select", "RG302"], 1),
            (["--select", "302"], 2),
            (["--select", "RG999"], 2),
            (["--ignore", "RG306"], 2),
            (["--select", "RG1,RG302"], 1),
            (["--max-diagnostics", "0"], 1),
            (["--allow", "other"], 1),
            (["--format", "nope"], 2),
        ],
        ids=lambda v: " ".join(v) if isinstance(v, list) else str(v),
    )
    def test_flags(self, write: Write, capsys: pytest.CaptureFixture[str], flags: list[str], code: int) -> None:
        root = write({"m/acme.yaml": GOOD.replace("flow_match_step", "flow_mach_step"), **CODE})
        assert rung(capsys, "check", root / "m", "--root", root, *flags)[0] == code

    @pytest.mark.parametrize("what", ["empty", "nowhere"])
    def test_nothing_to_check_is_exit_2(self, write: Write, capsys: pytest.CaptureFixture[str], what: str) -> None:
        root = write({"empty/readme.txt": "none"})
        code, out, err = rung(capsys, "check", root / what)
        assert (code, out) == (2, "")
        assert what in err

    def test_checking_imports_nothing_of_a_backend(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write(
            {
                "m/acme.yaml": GOOD,
                **CODE,
                "acme/__init__.py": "open(__file__ + '.marker', 'w')\n",
            }
        )
        assert rung(capsys, "check", root / "m", "--allow", "acme", "--root", root)[0] == 0
        assert not (root / "acme/__init__.py.marker").exists()

    def test_configuration_names_manifests_and_packages(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write(
            {"m/acme.yaml": GOOD, **CODE, "pyproject.toml": '[tool.rung]\nmanifests = ["m"]\nallow = ["acme"]\n'}
        )
        assert rung(capsys, "check", "--root", root)[0] == 0
        write({"pyproject.toml": '[tool.rung]\nmanifest = ["m"]\n'})
        code, _, err = rung(capsys, "check", "--root", root)
        assert code == 2
        assert "[tool.rung] has no key `manifest`" in err

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("tool = 3\n", "`tool` must be a table, written [tool]"),
            ("[tool]\nrung = 3\n", "`tool.rung` must be a table, written [tool.rung]"),
            ("[[tool.rung]]\n", "`tool.rung` must be a table, written [tool.rung]"),
        ],
        ids=["tool", "rung", "array"],
    )
    def test_a_configuration_that_is_no_table(
        self, write: Write, capsys: pytest.CaptureFixture[str], text: str, said: str
    ) -> None:
        root = write({"pyproject.toml": text})
        code, _, err = rung(capsys, "check", "--root", root)
        assert (code, err) == (2, f"rung: {root / 'pyproject.toml'}: {said}\n")


class TestCompile:
    CONFIG = '[tool.rung]\nmanifests = ["m"]\nallow = ["acme"]\ntable = "m/table.json"\n'

    def test_it_writes_the_table_the_configuration_names(
        self, write: Write, capsys: pytest.CaptureFixture[str]
    ) -> None:
        root = write({"m/acme.yaml": GOOD, **CODE, "pyproject.toml": self.CONFIG})
        assert rung(capsys, "compile", "--check", "--root", root)[0] == 1
        code, out, err = rung(capsys, "compile", "--root", root)
        assert (code, out) == (0, "")
        assert "wrote " in err
        assert rung(capsys, "compile", "--check", "--root", root)[0] == 0

    def test_check_says_when_it_is_stale(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write({"m/acme.yaml": GOOD, **CODE, "pyproject.toml": self.CONFIG})
        line = "m/table.json:1:1: RG901 the compiled table "
        concise = ("check", "--root", root, "--format", "concise")
        assert rung(capsys, *concise)[:2] == (0, f"{line}is missing\n")
        rung(capsys, "compile", "--root", root)
        assert rung(capsys, *concise)[:2] == (0, "")
        write({"m/acme.yaml": GOOD + "# edited\n"})
        assert rung(capsys, *concise, "--strict")[:2] == (1, f"{line}is stale\n")
        assert rung(capsys, *concise, root / "m/acme.yaml")[:2] == (0, ""), "other paths than those it is made from"

    def test_manifests_with_errors_are_not_compiled(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write({"m/acme.yaml": BAD, **CODE, "pyproject.toml": self.CONFIG})
        code, _, err = rung(capsys, "compile", "--root", root)
        assert (code, (root / "m/table.json").exists()) == (1, False)
        assert "unknown key `arays`" in err
        assert "RG901" not in rung(capsys, "check", "--root", root)[1], "it is not stale for want of trying"

    def test_without_a_file_it_is_exit_2(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write({"m/acme.yaml": GOOD, **CODE})
        code, _, err = rung(capsys, "compile", root / "m", "--root", root)
        assert code == 2
        assert "name one with --output" in err
        assert (
            rung(capsys, "compile", root / "m", "--root", root, "--allow", "acme", "--output", root / "t.json")[0] == 0
        )


class TestExplain:
    ARGUMENTS = ("explain", "flow_match_step", "--device", "cuda", "--arch", "sm_90", "--format", "json")

    def test_the_json_contract(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = rung(capsys, *self.ARGUMENTS, "--arrays", "torch", "--facts", FACTS / "x86_v3_cpu.yaml")
        found = json.loads(out)
        assert code == 0
        assert found["format_version"] == 1
        assert found["op"] == "flow_match_step"
        assert found["platform"]["device"] == "cuda"
        assert {"cell", "verdict", "reason", "where", "bridged"} <= found["rungs"][0].keys()
        verdicts = {r["verdict"] for r in found["rungs"]}
        assert verdicts <= {"yes", "no", "unknown", "broken", "not tried"}
        assert found["chosen"] == next(r["cell"] for r in found["rungs"] if r["verdict"] == "yes")
        path, _, line = found["rungs"][0]["where"].rpartition(":")
        assert "flow_match_step" in "".join(Path(path).read_text(encoding="utf-8").splitlines()[int(line) - 1])

    def test_a_recorded_gpu_serves_itself(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = rung(capsys, *self.ARGUMENTS, "--facts", FACTS / "h100_hopper_torch_cu130.yaml")
        assert json.loads(out)["chosen"] == "triton/flow_match_step@cuda.triton#default"

    def test_what_if(self, capsys: pytest.CaptureFixture[str]) -> None:
        given = (*self.ARGUMENTS, "--facts", FACTS / "h100_hopper_torch_cu130.yaml", "--set", "torch_cuda=no")
        found = json.loads(rung(capsys, *given)[1])
        assert found["chosen"] == "torch/flow_match_step@cpu.torch#default"
        assert found["rungs"][0]["reason"].startswith("torch_cuda was set to no by hand")

    def test_refused_is_exit_1_and_chosen_null(self, capsys: pytest.CaptureFixture[str]) -> None:
        given = (*self.ARGUMENTS, "--facts", FACTS / "x86_v3_cpu.yaml", "--profile", "strict")
        code, out, _ = rung(capsys, *given)
        assert (code, json.loads(out)["chosen"]) == (1, None)

    def test_examples_of_arguments_decide_what_serves(self, capsys: pytest.CaptureFixture[str]) -> None:
        place = ("--device", "cuda", "--arch", "sm_90", "--arrays", "torch", "--facts", FACTS / "h200.yaml")
        asked = ("explain", "scaled_mm", "--set", "torch_cuda=yes", "--format", "json", *place)
        sizes = ("--arg", "b=float8_e4m3fn[64,32]", "--arg", "scale_a=float32[]", "--arg", "scale_b=float32[]")
        live = json.loads(rung(capsys, *asked)[1])["live"]
        assert live == ["torch/scaled_mm@cuda.sm_90#fp8", "torch/scaled_mm@cuda.torch#default"]
        for rows, chosen in ((128, live[0]), (0, live[1])):
            found = json.loads(rung(capsys, *asked, *sizes, "--arg", f"a=float8_e4m3fn[{rows},64]")[1])
            assert (found["chosen"], found["live"]) == (chosen, [chosen])
        assert found["rungs"][0]["reason"] == "does not accept the call: `a.shape[0]` is 0, less than 1"

    def test_a_component_kind(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = rung(capsys, "explain", "dit", "--format", "json")
        assert code == 0
        assert json.loads(out)["chosen"] == "factory/dit@any#default"

    @pytest.mark.parametrize(
        "arguments",
        [
            ("explain", "nope"),
            ("explain", "flow_match_step", "--device", "cudda", "--arch", "sm_90"),
            ("explain", "flow_match_step", "--device", "cuda", "--arch", "sm_9O"),
            ("explain", "flow_match_step", "--arch", "sm_90"),
            ("explain", "flow_match_step", "--profile", "nope"),
            ("explain", "flow_match_step", "--facts", "nowhere.yaml"),
            ("explain", "flow_match_step", "--set", "nope=no"),
            ("explain", "flow_match_step", "--set", "torch_cuda=maybe"),
            ("explain", "flow_match_step", "--manifests", "nowhere"),
            ("explain", "flow_match_step", "--arg", "sample"),
            ("explain", "flow_match_step", "--arg", "sampel=float32[2]"),
            ("explain", "flow_match_step", "--arg", "sample=float23[2]"),
            ("explain", "flow_match_step", "--arg", "sigma=1", "--arg", "sigma=0.5"),
            ("explain", "dit", "--arg", "sample=float32[2]"),
        ],
        ids=lambda a: " ".join(a[1:]),
    )
    def test_usage_errors_are_exit_2_and_one_message(
        self, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
    ) -> None:
        code, out, err = rung(capsys, *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("rung: ")
        assert "Traceback" not in err


class TestLadder:
    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (("cuda", "sm_90", "sm_90a"), 0),
            (("cuda", "sm_120", "sm_90"), 1),
            (("cuda", "sm_120", "compute_80"), 0),
            (("cuda", "sm_120", "sm_80", "--artifact", "source"), 0),
            (("cuda", "sm_120", "sm_80", "--artifact", "ptx"), 0),
            (("cuda", "sm_130", "compute_120"), 0),
            (("cuda", "sm_130", "sm_120"), 1),
            (("cuda", "sm_130", "triton"), 0),
            (("cuda", "sm_90", "sm_9O"), 2),
            (("cuda", "sm_9O", "sm_90"), 2),
            (("cudda", "sm_90", "sm_90"), 2),
            (("cuda", "sm_90", "compute_90", "--artifact", "native"), 1),
            (("cpu", "x86-64-v4", "x86_64_v3"), 0),
            (("rocm", "gfx1151", "gfx11-generic"), 0),
            (("rocm", "gfx1103", "gfx1100"), 1),
        ],
        ids=lambda v: " ".join(v) if isinstance(v, tuple) else str(v),
    )
    def test_one_pair_answers_with_the_exit_code_and_one_line(
        self, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int
    ) -> None:
        found, out, err = rung(capsys, "ladder", *arguments)
        assert found == code
        assert len((out or err).splitlines()) == 1

    def test_the_whole_ladder(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = rung(capsys, "ladder", "cuda", "sm_103", "--format", "json")
        assert code == 0
        names = [step["target"] for step in json.loads(out)["ladder"]]
        assert names[:6] == ["sm_103a", "sm_103f", "sm_100f", "sm_103", "sm_100", "compute_103a"]
        assert names[-3:] == ["triton", "torch", "generic"]


class TestMatrix:
    def test_the_json_contract(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = json.loads(rung(capsys, "matrix", "--format", "json")[1])
        assert found.keys() == {"format_version", "kernels", "components"}
        keys = {"op", "device", "arch", "variant", "backend", "cell", "impl", "artifact", "available", "reason"}
        assert all(keys <= row.keys() for row in found["kernels"])

    def test_text_and_markdown(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert rung(capsys, "matrix")[1].startswith("Kernels\n\ncell ")
        text = rung(capsys, "matrix", "--format", "markdown", "--op", "flow_sde_step")[1]
        assert text.startswith("## Kernels\n\n| cell | artifact | available | why |\n| --- |")
        assert "flow\\_match" not in text

    def test_filters(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = json.loads(rung(capsys, "matrix", "--format", "json", "--device", "cuda", "--backend", "torch")[1])
        assert {row["device"] for row in found["kernels"]} == {"cuda"}
        assert rung(capsys, "matrix", "--op", "nope")[0] == 2


class TestFacts:
    def test_what_is_written_is_read_back_and_resolves_alike(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        file = tmp_path / "here.yaml"
        assert rung(capsys, "facts", "--output", file)[0] == 0
        facts = Facts.load(file)
        assert facts.python() == ".".join(map(str, sys.version_info[:3]))
        live = json.loads(rung(capsys, "matrix", "--format", "json")[1])
        recorded = json.loads(rung(capsys, "matrix", "--format", "json", "--facts", file)[1])
        assert [r["available"] for r in recorded["kernels"]] == [r["available"] for r in live["kernels"]]

    def test_no_other_variable_is_written(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_TOKEN", "hunter2")
        assert "hunter2" not in rung(capsys, "facts")[1]


class TestParity:
    def test_a_report_and_exit_0(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = rung(capsys, "parity", "--backend", "accel", "--format", "json")
        assert code == 0
        assert {o["status"] for o in json.loads(out)["outcomes"]} == {"passed", "skipped"}
        assert "0 failed" in err

    def test_a_difference_is_exit_1(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write(
            {
                "m/acme.yaml": GOOD,
                "acme/__init__.py": "",
                "acme/kernels.py": "def step(sample, velocity, sigma, sigma_next):\n    return sample - velocity\n",
            }
        )
        code, out, _ = rung(
            capsys, "parity", "--manifests", root / "m", "--allow", "acme", "--root", root, "--backend", "acme"
        )
        assert code == 1
        assert "element [" in out

    @pytest.fixture
    def outside(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        files = {
            "m/acme.yaml": manifest("sign"),
            "pyproject.toml": '[tool.rung]\nmanifests = ["m"]\nallow = ["acme"]\n',
        }
        monkeypatch.chdir(write({**files, **FILES}))

    ONE = ("parity", "--backend", "acme", "--dtype", "float32", "--what", "result")

    @pytest.mark.usefixtures("outside")
    def test_the_text_says_what_failed_where_and_how_to_run_it_again(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = rung(capsys, *self.ONE)
        head, line, row, empty, about, case, again = out.splitlines()
        assert code == 1
        assert head.split("  ")[0] == "cell"
        assert set(line) == {"-", " "}
        assert row.startswith("acme/norm@cpu.torch#sign  float32  failed  5 ")
        assert "case 1: element [1, 2] is " in row
        assert (empty, about) == ("", "acme/norm@cpu.torch#sign float32")
        assert case == "  case 1: x=float32[3, 7]"
        flags = "--cell 'acme/norm@cpu.torch#sign' --dtype float32 --what result --case 1"
        assert again == f"  again: rung parity {flags}"
        assert err == "0 passed, 1 failed, 0 skipped\n"

    @pytest.mark.usefixtures("outside")
    def test_markdown_json_and_junit_have_the_same(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        _, out, _ = rung(capsys, *self.ONE, "--format", "markdown")
        assert out.startswith("| cell | dtype | status | cases | largest difference | ulp | detail |\n| --- |")
        assert "    again: rung parity --cell " in out
        _, out, _ = rung(capsys, *self.ONE, "--format", "json")
        (outcome,) = json.loads(out)["outcomes"]
        assert outcome.pop("seconds") >= 0
        assert outcome.pop("detail").startswith("case 1: element [1, 2] is ")
        assert outcome.pop("worst") > 0
        assert outcome.pop("ulp") > 1e6
        assert outcome == {
            "cell": "acme/norm@cpu.torch#sign", "op": "norm", "dtype": "float32", "status": "failed", "cases": 5,
            "what": "result", "not_accepted": 0, "left_out": 0, "failures": 2, "case": 1, "seed": 0,
            "arguments": "x=float32[3, 7]", "index": [1, 2],
        }  # fmt: skip
        file = tmp_path / "report.xml"
        assert rung(capsys, *self.ONE, "--format", "junit", "--output", file)[:2] == (1, "")
        assert '<testcase classname="acme.norm" name="acme/norm@cpu.torch#sign[float32]" time="' in file.read_text()

    def test_what_is_not_finite_is_null_in_json(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        root = write({"m/acme.yaml": GOOD, "acme/__init__.py": "",
                      "acme/kernels.py": "def step(sample, *_):\n    return sample[:0]\n"})  # fmt: skip
        flags = ("--manifests", root / "m", "--allow", "acme", "--root", root, "--backend", "acme", "--format", "json")
        code, out, _ = rung(capsys, "parity", *flags)
        assert code == 1
        assert json.loads(out, parse_constant=pytest.fail)["outcomes"][0]["worst"] is None

    def test_one_case_that_there_is_not(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = rung(capsys, "parity", "--op", "flow_match_step", "--dtype", "float32", "--case", "99")
        assert code == 0
        assert "warning: nothing was compared: there is no case 99: the op gives 49 in float32" in err

    @pytest.mark.usefixtures("outside")
    def test_at_a_terminal_a_bar_says_how_far_it_is(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "100")
        _, out, err = rung(capsys, "parity", "--backend", "acme")
        assert "\r\x1b[K[#####...............] 1/4 acme/norm@cpu.torch#sign[float32]\r" in err
        assert err.endswith("\r\x1b[K0 passed, 4 failed, 0 skipped\n")
        assert "\x1b" not in out

    @pytest.mark.parametrize(
        ("step", "columns", "shown"),
        [
            pytest.param((0, 4, "a"), 40, "[....................] 0/4 a", id="first"),
            pytest.param((4, 4, "a"), 40, "[####################] 4/4 a", id="last"),
            pytest.param((0, 0, "a"), 40, "[....................] 0/0 a", id="none"),
            pytest.param((1, 3, "a" * 40), 37, "[######..............] 1/3 aaaaaaa...", id="long"),
            pytest.param((1, 3, "a\n"), 8, "[######.", id="narrow"),
        ],
    )
    def test_the_bar_keeps_to_its_line(self, step: tuple[int, int, str], columns: int, shown: str) -> None:
        assert line(*step, columns) == shown

    @pytest.mark.parametrize(
        "flags",
        [["--op", "nope"], ["--backend", "nope"], ["--dtype", "float12"], ["--cell", "nope"], ["--case", "-1"]],
        ids=lambda flags: flags[0],
    )
    def test_usage(self, capsys: pytest.CaptureFixture[str], flags: list[Any]) -> None:
        assert rung(capsys, "parity", *flags)[0] == 2


class TestCache:
    OURS = (f".table-{'a' * 32}.json.x1.tmp", f"installed-{'b' * 32}.json", f"table-{'a' * 32}.json")
    OTHERS = ("table-results.json", "installed-apps.json", "notes.json", ".notes.tmp", f"table-{'a' * 32}.txt")

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("RUNG_CACHE", "on")
        monkeypatch.setenv("RUNG_CACHE_DIR", str(tmp_path))
        for name in (*self.OURS, *self.OTHERS):
            (tmp_path / name).write_text("{}", encoding="utf-8")
        (tmp_path / f"table-{'c' * 32}.json").mkdir()
        return tmp_path

    def test_it_shows_what_is_kept_and_where(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = rung(capsys, "cache")
        assert code == 0
        assert out.splitlines()[0] == f"{folder}: 3 files, 6 bytes"
        assert [line.split()[0] for line in out.splitlines()[3:]] == [*self.OURS]
        code, out, _ = rung(capsys, "cache", "--format", "json")
        data = json.loads(out)
        assert (data["directory"], len(data["files"])) == (str(folder), 3)

    def test_clearing_removes_what_is_kept_and_nothing_else(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert rung(capsys, "cache", "--clear") == (0, "", f"removed 3 files, 6 bytes from {folder}\n")
        assert {p.name for p in folder.iterdir()} == {*self.OTHERS, f"table-{'c' * 32}.json"}
        assert rung(capsys, "cache")[1] == f"{folder}: 0 files, 0 bytes\n"

    def test_no_directory_is_no_fault(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert rung(capsys, "cache") == (
            0,
            "",
            "nothing is kept: RUNG_CACHE is off, or nobody knows your home directory\n",
        )
        monkeypatch.setenv("RUNG_CACHE", "on")
        monkeypatch.setenv("RUNG_CACHE_DIR", str(tmp_path / "none"))
        assert rung(capsys, "cache")[1] == f"{tmp_path / 'none'}: 0 files, 0 bytes\n"


class TestProgram:
    def test_python_m_rung_is_the_same_program(self) -> None:
        command = [sys.executable, "-m", "rung", "ladder", "cuda", "sm_90", "sm_90a"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert (done.returncode, done.stdout) == (
            0,
            "sm_90a (native) runs on sm_90: sm_90a code is specific to sm_90\n",
        )

    def test_a_reader_that_closes_the_pipe_is_no_error(self) -> None:
        command = f"{sys.executable} -m rung matrix | head -n 1"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=ROOT)
        assert (done.returncode, done.stdout, done.stderr) == (0, "Kernels\n", "")

    def test_help_and_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert rung(capsys, "--help")[0] == 0
        assert rung(capsys, "--version")[1] == "rung 0.1.0\n"
        for command in ("cache", "check", "explain", "ladder", "matrix", "facts", "parity"):
            code, out, _ = rung(capsys, command, "--help")
            assert code == 0
            assert "--format" in out

    def test_a_bug_is_exit_3_and_one_line(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(arguments: object) -> None:
            raise ZeroDivisionError("oops")

        monkeypatch.setattr("rung.cli.matrix.table_of", broken)
        code, out, err = rung(capsys, "matrix")
        assert (code, out) == (3, "")
        assert err.startswith("rung: internal error: ZeroDivisionError: oops")
        with pytest.raises(ZeroDivisionError):
            rung(capsys, "matrix", "--debug")

    def test_warnings_are_one_line_without_our_source(self) -> None:
        facts = str(FACTS / "mixed_cards.yaml")
        command = [sys.executable, "-m", "rung", "explain", "flow_match_step", "--facts", facts]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.stderr.startswith("rung: warning: the cuda cards differ in arch")
        assert len(done.stderr.splitlines()) == 1

    def test_no_colour_where_nobody_looks(self) -> None:
        environment = {**os.environ, "FORCE_COLOR": "1"}
        command = [sys.executable, "-m", "rung", "matrix"]
        done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, env=environment)
        assert b"\x1b" not in done.stdout
