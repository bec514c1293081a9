"""`rung.testing`: a backend from outside gets its parity tests, hand-written ones are short, arguments can be drawn."""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
import unittest
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.errors import NoSuchExample

import rung
import rung.cli.common
import rung.compile  # a session in a session forgets what it imports, and this half takes a second to import
import rung.probes.cpu
import rung.testing
import rung.testing.reports
from outside import FILES, manifest
from rung.cli import main
from rung.cli.junit import as_junit
from rung.parity import parity

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Write

    Outside = Callable[..., Callable[..., pytest.RunResult]]

pytest_plugins = ["pytester"]

# Where this tree is installed pytest finds the plugin by itself.
PLUGIN = () if entry_points(group="pytest11", name="rung") else ("-p", "rung.testing.plugin")
ONE_LINE = '[tool.pytest.ini_options]\nrung_backend = ["acme"]\n'
MANIFESTS = '[tool.rung]\nmanifests = ["m"]\nallow = ["acme"]\n'
CELL = "acme/norm@cpu.torch#good"


@pytest.fixture
def outside(pytester: pytest.Pytester) -> Outside:
    """Write a repository with a backend, and give what runs pytest there."""

    def made(*names: str, settings: str = MANIFESTS + ONE_LINE, **more: str) -> Callable[..., pytest.RunResult]:
        accepts = more.pop("accepts", "")
        files = {**FILES, "m/acme.yaml": manifest(*names, accepts=accepts), "pyproject.toml": settings, **more}
        for name, text in files.items():
            path = pytester.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return lambda *flags: pytester.runpytest_inprocess(*PLUGIN, *flags)

    return made


class TestPlugin:
    def test_one_line_of_configuration(self, outside: Outside) -> None:
        run = outside("good", settings=MANIFESTS + ONE_LINE + 'filterwarnings = ["error"]\n')
        result = run("-v")
        assert result.ret == 0
        result.assert_outcomes(passed=4)
        labels = ("float64", "float32", "bfloat16", "gradient")
        result.stdout.re_match_lines([re.escape(f"rung::{CELL}[{label}] PASSED") for label in labels], consecutive=True)

    def test_one_line_beside_an_installed_backend(
        self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = {f"site/{name}": text for name, text in FILES.items()} | {
            "site/acme/manifests/acme.yaml": manifest("good", "sign"),
            "site/acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
            "site/acme-1.0.dist-info/RECORD": "acme/__init__.py,,\nacme/manifests/acme.yaml,,\n",
            "site/acme-1.0.dist-info/entry_points.txt": "[rung.manifests]\nacme = acme:manifests\n",
            "tests/pyproject.toml": ONE_LINE,
        }
        for name, text in files.items():
            (pytester.path / name).parent.mkdir(parents=True, exist_ok=True)
            (pytester.path / name).write_text(text, encoding="utf-8")
        pytester.syspathinsert(pytester.path / "site")
        monkeypatch.setenv("RUNG_PLUGINS", "on")
        monkeypatch.setattr(
            sys.modules["rung.load"], "_default", None
        )  # as in a process that has asked for no table yet
        monkeypatch.chdir(pytester.path / "tests")
        result = pytester.runpytest_inprocess(*PLUGIN, "-k", "float32")
        result.assert_outcomes(failed=1, passed=1, deselected=6)
        result.stdout.fnmatch_lines([
            "case 1: element [[]1, 2[]] is *",
            "  again: rung parity --cell 'acme/norm@cpu.torch#sign' --dtype float32 --what result --case 1",
        ])  # fmt: skip

    @pytest.mark.parametrize(
        ("kernel", "label", "said"),
        [
            pytest.param("sign", "float32", "case 1: element [[]1, 2[]] is *, reference *: off by *", id="a sign"),
            pytest.param(
                "narrow", "float64", "case 0: element [[]0[]] is * is not within rtol 1e-12*", id="float32 sum"
            ),
            pytest.param("cut", "gradient", "case 0: the result does not require grad*cuts the graph*", id="cut"),
            pytest.param("flipped", "gradient", "case 1: gradient of `x`: element [[]1, 2[]] is *", id="a gradient"),
        ],
    )
    def test_a_failure_points_at_the_element(self, outside: Outside, kernel: str, label: str, said: str) -> None:
        result = outside(kernel)("-k", label)
        result.assert_outcomes(failed=1, deselected=3)
        result.stdout.fnmatch_lines([
            f"*_ acme/norm@cpu.torch#{kernel} [[]{label}[]] _*",
            said,
            f"  cell: acme/norm@cpu.torch#{kernel} float* declared at m/acme.yaml:17",
            "  arguments: x=float*",
            f"  again: rung parity --cell 'acme/norm@cpu.torch#{kernel}' --dtype float* --case ?",
        ], consecutive=True)  # fmt: skip
        result.stdout.no_fnmatch_line("*parity.py*")
        result.stdout.no_fnmatch_line("*Traceback*")

    def test_manifests_on_the_command_line(self, outside: Outside) -> None:
        run = outside("good", "sign", settings="")
        flags = ("--rung-backend", "acme", "--rung-manifests", "m", "--rung-allow", "acme")
        result = run(*flags, "-k", "float64")
        result.assert_outcomes(passed=1, failed=1, deselected=6)
        result.stdout.fnmatch_lines(["  again: rung parity --manifests m --allow acme --cell *"])

    def test_manifests_in_the_configuration_are_relative_to_it(
        self, outside: Outside, pytester: pytest.Pytester
    ) -> None:
        lines = 'rung_manifests = ["m"]\nrung_allow = ["acme"]\nrung_op = ["norm"]\n'
        run = outside("good", settings=ONE_LINE + lines)
        below = pytester.mkdir("below")
        os.chdir(below)
        run("-k", "float32").assert_outcomes(passed=1, deselected=3)

    @pytest.mark.parametrize("settings", [
        pytest.param(ONE_LINE + 'rung_manifests = ["m"]\nrung_allow = ["acme"]\n', id="of pytest"),
        pytest.param(MANIFESTS + ONE_LINE, id="of rung"),
    ])  # fmt: skip
    def test_from_below_the_root_it_can_be_done_again(
        self, outside: Outside, pytester: pytest.Pytester, settings: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run = outside("sign", settings=settings)
        os.chdir(pytester.mkdir("below"))
        (line,) = {line for line in run("-k", "float32").outlines if line.startswith("  again: ")}
        assert main(shlex.split(line)[2:]) == 1
        assert "element [1, 2]" in capsys.readouterr().out

    @pytest.mark.parametrize("flags", [(), ("-n", "1")], ids=["here", "in a worker"])
    def test_only_what_was_typed_is_asked_for(self, outside: Outside, flags: tuple[str, ...]) -> None:
        run = outside("good", settings=MANIFESTS + ONE_LINE + 'testpaths = ["test_one.py"]\n',
                      **{"test_one.py": "def test_one(): pass\n"})  # fmt: skip
        run(*flags, "-p", "no:cacheprovider").assert_outcomes(passed=5)
        run(*flags, "test_one.py").assert_outcomes(passed=1)

    def test_only_some(self, outside: Outside) -> None:
        run = outside("good", "cut")
        result = run("--collect-only", "-q", "-k", "gradient")
        assert "2/8 tests collected (6 deselected)" in result.outlines[-1]
        assert result.outlines[:2] == ["rung::acme/norm@cpu.torch#cut[gradient]", f"rung::{CELL}[gradient]"]
        run("-m", "rung", "--strict-markers").assert_outcomes(passed=7, failed=1)
        run("--last-failed").assert_outcomes(failed=1, deselected=7)
        result = run("--deselect", "rung::acme/norm@cpu.torch#cut[gradient]", "-k", "gradient")
        result.assert_outcomes(passed=1, deselected=7)
        run("--rung-op", "flow_match_step", "-k", "float32").assert_outcomes(deselected=0)

    def test_the_order_is_always_the_same(self, outside: Outside) -> None:
        run = outside("good", "sign", "cut")
        first, second = (run("--collect-only", "-q").outlines for _ in range(2))
        assert first[:12] == second[:12]
        assert all(line.startswith("rung::") for line in first[:12])

    def test_beside_other_tests(self, outside: Outside) -> None:
        run = outside("good", **{"test_other.py": "def test_other():\n    pass\n"})
        run().assert_outcomes(passed=5)
        run("test_other.py").assert_outcomes(passed=1)
        run("test_other.py::test_other").assert_outcomes(passed=1)
        run("test_other.py", "--rung-backend", "acme").assert_outcomes(passed=5)

    def test_skips_have_reasons(self, outside: Outside) -> None:
        result = outside("good", accepts="{x.dtype: float32}")("-rs")
        result.assert_outcomes(passed=2, skipped=2)  # the gradient is compared in float32
        result.stdout.fnmatch_lines(["SKIPPED * accepts none of 5 cases: `x.dtype` is float64, not float32"])
        words = ("-rs", "--rung-backend", "accel", "--rung-backend", "torch", "--rung-op", "flow_match_step")
        result = outside("good")(*words, "-k", "bfloat16 and (accel or mps)")
        assert result.ret == 0
        result.stdout.fnmatch_lines(["SKIPPED * numpy has no bfloat16", "SKIPPED * no mps device was found"])

    def test_junit(self, outside: Outside, pytester: pytest.Pytester) -> None:
        outside("good", "sign")("--junitxml=report.xml", "-k", "float32")
        suite = ElementTree.parse(pytester.path / "report.xml").getroot()[0]
        assert [(case.get("classname"), case.get("name")) for case in suite] == [
            ("rung", "acme/norm@cpu.torch#good[float32]"), ("rung", "acme/norm@cpu.torch#sign[float32]")
        ]  # fmt: skip
        assert "element [1, 2]" in str(suite[1][0].text)

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            pytest.param(["--rung-backend", "acne"], "unknown backend `acne`: did you mean `acme`?", id="backend"),
            pytest.param(["--rung-op", "nrm"], "unknown op `nrm`: did you mean `norm`?", id="op"),
            pytest.param(["--rung-manifests", "none"], "no such file or directory: *none", id="manifests"),
        ],
    )
    def test_a_mistake_is_a_usage_error(self, outside: Outside, flags: list[str], said: str) -> None:
        result = outside("good")(*flags)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert result.errlines[0].startswith("ERROR: rung: ")
        result.stderr.fnmatch_lines([f"*{said}*"])

    def test_without_a_name_it_does_nothing(self, outside: Outside) -> None:
        result = outside("sign", settings=MANIFESTS, **{"test_other.py": "def test_other():\n    pass\n"})()
        result.assert_outcomes(passed=1)

    def test_loading_it_imports_nothing_heavy(self) -> None:
        script = (
            "import sys, pytest\nbefore = set(sys.modules)\nimport rung.testing.plugin\n"
            "print(*sorted(set(sys.modules) - before))"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        found = set(done.stdout.split())
        assert {name for name in found if name.partition(".")[0] != "rung"} <= {"_blake2", "_json", "types"}
        assert not found & {"rung.parity", "rung.parity.compare", "rung.parity.gradients", "rung.cli", "rung.models"}


class TestAssertions:
    @pytest.mark.parametrize(
        ("result", "dtype", "tolerance"),
        [
            pytest.param(np.array([1, 2], np.float32), "float32", "exact", id="exact"),
            pytest.param(torch.tensor([1.0, 2.0078125], dtype=torch.bfloat16), "bfloat16", {"ulp": 1}, id="ulp"),
            pytest.param(np.array([1.0, 2.0001]), "float64", {"rtol": 1e-4}, id="rtol"),
            pytest.param(np.array([1, 2.01], np.float16), "float16", {"cosine": 0.999}, id="cosine"),
        ],
    )
    def test_what_is_close(self, result: Any, dtype: str, tolerance: Any) -> None:
        rung.testing.assert_close(result, np.array([1.0, 2.0]), dtype, tolerance)
        rung.testing.assert_close(result, torch.tensor([1.0, 2.0]), dtype, tolerance)
        with pytest.raises(AssertionError, match=r"element \[1\] is "):
            rung.testing.assert_close(result, np.array([1.0, -2.0]), dtype, tolerance)

    @pytest.mark.parametrize(
        ("dtype", "tolerance", "said"),
        [
            pytest.param("float23", "exact", "unknown dtype `float23`: did you mean `float32`", id="dtype"),
            pytest.param("float32", "exactly", "`exactly` is no tolerance: write", id="word"),
            pytest.param("float32", {"relative": 1.0}, "`{'relative': 1.0}` is no tolerance: write", id="key"),
            pytest.param("float32", {}, "`{}` is no tolerance: write", id="none"),
            pytest.param("float32", None, "`None` is no tolerance: write", id="nothing"),
            pytest.param("float32", {"ulp": 1, "rtol": 1e9}, "is no tolerance: write", id="two kinds"),
            pytest.param("float32", {"ulp": math.nan}, "`ulp` of a tolerance is a whole number from 0 on, not `nan`",
                         id="ulp of nan"),
            pytest.param("float32", {"ulp": "3"}, "is a whole number from 0 on, not `'3'`", id="text"),
            pytest.param("float32", {"ulp": True}, "is a whole number from 0 on, not `True`", id="flag"),
            pytest.param("float32", {"ulp": -1}, "is a whole number from 0 on, not `-1`", id="negative ulp"),
            pytest.param("float32", {"cosine": 2}, "`cosine` of a tolerance is a number above 0, 1 at most, not `2`",
                         id="cosine"),
            pytest.param("float32", {"cosine": 0.0}, "is a number above 0, 1 at most, not `0.0`", id="no cosine"),
            pytest.param("float32", {"rtol": 1e-6, "atol": -1.0}, "`atol` of a tolerance is a finite number from 0 on",
                         id="negative"),
            pytest.param("float32", {"rtol": math.inf}, "is a finite number from 0 on, not `inf`", id="infinite"),
        ],
    )  # fmt: skip
    def test_what_is_no_tolerance(self, dtype: str, tolerance: Any, said: str) -> None:
        with pytest.raises(ValueError, match=re.escape(said)):
            rung.testing.assert_close(np.ones(2), np.ones(2), dtype, tolerance)

    def test_every_mapping_is_a_tolerance(self) -> None:
        rung.testing.assert_close(np.ones(2), np.ones(2), "float64", MappingProxyType({"ulp": 2}))

    @pytest.fixture
    def table(self, write: Write) -> rung.Table:
        return rung.load([write({"m/acme.yaml": manifest("good", "sign"), **FILES}) / "m"], allow=["acme"])

    def test_a_cell(self, table: rung.Table) -> None:
        found = rung.testing.assert_parity(CELL, table=table)
        assert [outcome.label for outcome in found] == ["float64", "float32", "bfloat16", "float64 gradient"]
        with pytest.raises(AssertionError, match=r"case 1: element \[1, 2\] is (.|\n)*again: rung parity"):
            rung.testing.assert_parity("acme/norm@cpu.torch#sign", table=table)
        with pytest.raises(KeyError, match=r"did you mean `acme/norm@cpu\.torch#good`"):
            rung.testing.assert_parity("acme/norm@cpu.torch#god", table=table)

    def test_a_function(self, table: rung.Table) -> None:
        from acme.kernels import good, sign  # type: ignore[import-not-found]

        found = rung.testing.assert_parity(good, "norm", arrays="torch", table=table, dtypes=["float64"])
        assert [(o.label, o.status) for o in found] == [("float64", "passed"), ("float64 gradient", "passed")]
        found = rung.testing.assert_parity(good, "norm", arrays="torch", table=table, gradients=False)
        assert [o.label for o in found] == ["float64", "float32", "bfloat16"]
        with pytest.raises(AssertionError) as caught:
            rung.testing.assert_parity(sign, "norm", arrays="torch", table=table, dtypes=["float32"])
        first, about, arguments, *rest = str(caught.value).split("\n")
        assert first.startswith("case 1: element [1, 2] is ")
        assert (about, arguments) == ("  cell: local/norm@cpu.generic#default float32", "  arguments: x=float32[3, 7]")
        assert not any("again:" in line for line in rest)

    def test_a_test_that_compares_nothing_does_not_pass(self, table: rung.Table) -> None:
        from rung_backends.reference.solver import flow_match_step

        with pytest.raises(unittest.SkipTest, match="numpy has no bfloat16"):
            rung.testing.assert_parity(flow_match_step, "flow_match_step", dtypes=["bfloat16"])
        with pytest.raises(TypeError, match="a function serves no op by itself"):
            rung.testing.assert_parity(flow_match_step)
        with pytest.raises(rung.UnknownOp, match="flow_match_step"):
            rung.testing.assert_parity(flow_match_step, "flow_match_stop")

    @pytest.mark.parametrize(
        ("named", "kind", "said"),
        [
            pytest.param({"dtypes": ["flaot32"]}, ValueError, "unknown dtype `flaot32`: did you mean `float32`?",
                         id="dtype"),
            pytest.param({"dtypes": "flaot32"}, ValueError, "unknown dtype `flaot32`: did you mean `float32`?",
                         id="one dtype"),
            pytest.param({"arrays": "nunpy"}, rung.UnknownArrays, "unknown arrays `nunpy`: did you mean `numpy`?",
                         id="arrays"),
            pytest.param({"device": "cqu"}, rung.UnknownDevice, "unknown device `cqu`: did you mean `cpu`?",
                         id="device"),
            pytest.param({"dtypes": ["float16"]}, unittest.SkipTest, "the op has a tolerance in none of the dtypes",
                         id="no tolerance"),
        ],
    )  # fmt: skip
    def test_mistakes(self, table: rung.Table, named: dict[str, Any], kind: type[Exception], said: str) -> None:
        from acme.kernels import good

        with pytest.raises(kind, match=re.escape(said)):
            rung.testing.assert_parity(good, "norm", table=table, **{"arrays": "torch", **named})

    def test_gradients_are_compared_in_the_dtypes_that_are_named(self, table: rung.Table) -> None:
        from acme.kernels import good

        def single(x: Any, weight: Any = None, *, eps: float = 1e-6) -> Any:
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            return good(x, weight, eps=eps)

        found = rung.testing.assert_parity(single, "norm", arrays="torch", table=table, dtypes="float32")
        assert [(o.label, o.status) for o in found] == [("float32", "passed"), ("float32 gradient", "passed")]

    def test_where_it_cannot_run_it_is_skipped(self, table: rung.Table, monkeypatch: pytest.MonkeyPatch) -> None:
        from acme.kernels import good

        with pytest.raises(unittest.SkipTest, match="no mps device was found"):
            rung.testing.assert_parity(good, "norm", arrays="torch", device="mps", table=table)
        monkeypatch.setattr("rung.testing.assertions.find_spec", lambda name: None)
        with pytest.raises(unittest.SkipTest, match="`torch` is not installed"):
            rung.testing.assert_parity(good, "norm", arrays="torch", table=table)

    def test_one_dtype_needs_no_list(self, table: rung.Table) -> None:
        from acme.kernels import good

        found = rung.testing.assert_parity(good, "norm", arrays="torch", table=table, dtypes="bfloat16")
        assert [outcome.label for outcome in found] == ["bfloat16"]

    def test_a_kernel_that_exits_fails(self, table: rung.Table) -> None:
        def leave(x: Any, weight: Any = None, *, eps: float = 1e-6) -> Any:
            raise SystemExit(0)

        with pytest.raises(AssertionError, match="case 0: raised SystemExit: 0"):
            rung.testing.assert_parity(leave, "norm", table=table)

    def test_there_is_nothing_else(self) -> None:
        assert {*dir(rung.testing)} >= {"arguments", "assert_close", "assert_parity"}
        with pytest.raises(AttributeError, match=r"`rung\.testing` has no `assert_near`"):
            _ = rung.testing.assert_near


def size(call: Any) -> int:
    return int(np.prod(call[0][0].shape))


class TestArguments:
    @given(rung.testing.arguments("flow_match_step", dtype="float64"))
    @settings(max_examples=30)
    def test_they_are_the_ops(self, call: Any) -> None:
        from rung_backends.reference.solver import flow_match_step

        args, kwargs = call
        assert args[0].dtype == args[1].dtype == np.float64
        assert flow_match_step(*args, **kwargs).shape == args[0].shape == args[1].shape

    @given(rung.testing.arguments("flow_match_step", dtype="bfloat16", cell="torch/flow_match_step@cpu.torch#default"))
    @settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])  # the first example imports torch's parts
    def test_a_cell_gets_its_arrays(self, call: Any) -> None:
        assert {value.dtype for value in call[0][:2]} == {torch.bfloat16}
        assert call[0][0].shape == call[0][1].shape

    @pytest.mark.parametrize("cell", [None, "torch/flow_match_step@cpu.torch#default"], ids=["numpy", "torch"])
    def test_what_is_varied(self, cell: str | None) -> None:
        def drawn(condition: Callable[[Any], bool], most: int = 500, **more: Any) -> Any:
            calls = rung.testing.arguments("flow_match_step", cell=cell, **more)
            wanted = settings(max_examples=most, database=None, phases=[Phase.generate])  # any will do, no least one
            return find(calls, condition, settings=wanted)

        def has_gaps(call: Any) -> bool:
            array = call[0][0]
            stride = array.strides[-1] // 4 if cell is None else array.stride(-1)
            return bool(array.shape == (131, 137) and stride == 2)

        def has_nan(call: Any) -> bool:
            return size(call) > 1 and sum(math.isnan(v) for v in np.asarray(call[0][1]).ravel()) == 1

        assert has_gaps(drawn(has_gaps))
        assert has_nan(drawn(has_nan, special=(math.nan,)))
        large = drawn(lambda call: size(call) > 0 and bool(abs(call[0][0]).max() > 1000), scales=(1.0, 2.0**12))
        assert large[0][2] <= 1.0
        with pytest.raises(NoSuchExample):
            drawn(has_gaps, most=100, layouts=False)

    def test_shapes_that_depend_on_the_seed(self, write: Write) -> None:
        """Of twenty cases one in 32 is accepted: of half of the seeds none."""
        reference = FILES["acme/reference.py"].partition("def cases")
        cases = """def cases(dtype, rng):
    for _ in range(20):
        yield (rng.standard_normal((2, rng.integers(1, 65))).astype(dtype),), {}
"""
        accepts = '{"x.shape[-1]": {multiple_of: 32}}'
        files = {**FILES, "acme/reference.py": reference[0] + cases}
        table = rung.load([write({"m/acme.yaml": manifest("good", accepts=accepts), **files}) / "m"], allow=["acme"])
        seen = set()

        @given(rung.testing.arguments("norm", cell=CELL, table=table))
        @settings(max_examples=60)
        def check(call: Any) -> None:
            seen.add(call[0][0].shape[-1])

        check()
        assert seen == {32, 64}

    def test_only_what_the_cell_accepts(self, write: Write) -> None:
        accepts = '{"x.shape[-1]": {multiple_of: 7}, x.contiguous: true}'
        root = write({"m/acme.yaml": manifest("good", accepts=accepts), **FILES})
        table = rung.load([root / "m"], allow=["acme"])

        @given(rung.testing.arguments("norm", cell=CELL, table=table))
        @settings(max_examples=30)
        def check(call: Any) -> None:
            assert call[0][0].shape[-1] == 7
            assert call[0][0].is_contiguous()

        check()
        other = manifest("good", accepts="{x.dtype: float64}")
        table = rung.load([write({"n/acme.yaml": other}) / "n"], allow=["acme"])
        with pytest.raises(ValueError, match=r"#good` accepts no case in bfloat16: `x\.dtype` is bfloat16"):
            rung.testing.arguments("norm", cell=CELL, table=table, dtype="bfloat16")

    @pytest.mark.parametrize(
        ("given_", "kind", "said"),
        [
            pytest.param({"op": "flow_match_stop"}, rung.UnknownOp, "did you mean `flow_match_step`", id="op"),
            pytest.param({"dtype": "float23"}, ValueError, "did you mean `float32`", id="dtype"),
            pytest.param({"cell": "torch/x"}, KeyError, "no cell of `flow_match_step` is called `torch/x`", id="cell"),
            pytest.param({"cell": "accel/flow_match_step@accel.generic#default", "dtype": "bfloat16"}, ValueError,
                         "accepts no case in bfloat16: numpy has no bfloat16", id="dtype of a cell"),
        ],
    )  # fmt: skip
    def test_mistakes(self, given_: dict[str, str], kind: type[Exception], said: str) -> None:
        with pytest.raises(kind, match=said):
            rung.testing.arguments(**{"op": "flow_match_step", **given_})  # type: ignore[arg-type]

    def test_without_hypothesis(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "hypothesis", None)
        with pytest.raises(rung.RungError, match=r"pip install 'rung\[testing\]'"):
            rung.testing.arguments("flow_match_step")


def test_junit_of_the_command_is_what_pytest_writes(write: Write) -> None:
    table = rung.load([write({"m/acme.yaml": manifest("good", "sign"), **FILES}) / "m"], allow=["acme"])
    found = list(parity(backend="acme", dtype="float32", what="result", table=table))
    suites = ElementTree.fromstring(as_junit([(outcome, "some\x1b text") for outcome in found]))
    (suite,) = suites
    counts = {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")}
    assert counts == {"name": "rung parity", "tests": "2", "failures": "1", "errors": "0", "skipped": "0"}
    good, sign = suite
    assert (good.get("classname"), good.get("name")) == ("acme.norm", f"{CELL}[float32]")
    assert float(good.get("time", "")) >= 0
    (failure,) = sign
    assert "element [1, 2]" in str(failure.get("message"))
    assert failure.text == r"some\x1b text"
