"""The parity oracle: it passes what agrees and points at what does not."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import rung
from calling import rung as command
from outside import FILES, kernels, manifest
from rung.load import default_table
from rung.parity import Outcome, again, checks, parity

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Load, Write

MANIFEST = """\
manifest: 1
backend: acme
arrays: {arrays}
kernels:
  flow_match_step:
    - {{device: cpu, arch: numpy, variant: acme, impl: "acme.kernels:step"}}
"""
GOOD = "def step(sample, velocity, sigma, sigma_next):\n    return sample + (sigma_next - sigma) * velocity\n"


def test_every_usable_cell_agrees_with_the_reference() -> None:
    outcomes = list(parity())
    assert [o for o in outcomes if o.status == "failed"] == []
    passed = {(o.cell.partition("/")[0], o.op) for o in outcomes if o.status == "passed"}
    assert passed >= {(b, op) for b in ("accel", "torch") for op in ("flow_match_step", "flow_sde_step")}


def test_cells_that_are_not_usable_are_skipped_with_the_reason() -> None:
    without_a_card = {"devices": {"cuda": []}, "modules": {"torch": "2.13.0+cu130"}}
    facts = rung.detect(device="cpu").facts.override(without_a_card)
    outcomes = list(parity(cell="torch/*@cuda.*", facts=facts))
    ops = default_table().kernels
    assert {o.cell for o in outcomes} >= {f"torch/{op}@cuda.torch#default" for op in ops}
    assert all(o.status == "skipped" for o in outcomes)
    assert {o.detail for o in outcomes} == {"no cuda device was found"}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (GOOD.replace("+ (", "- ("), "element ["),
        ("def step(sample, velocity, sigma, sigma_next):\n    return (sample * 1).astype('f4')\n", "dtype float32"),
        ("def step(sample, velocity, sigma, sigma_next):\n    return sample.reshape(-1)[:0]\n", "shape (0,)"),
        ("def step(sample, velocity, sigma, sigma_next):\n    raise ValueError('bad')\n", "raised ValueError: bad"),
        ("def step(sample, velocity, sigma, sigma_next):\n    return None\n", "an array expected, got NoneType"),
        ("raise OSError('broken')\n", "broken: importing `acme.kernels` raised OSError"),
        ("def step(sample, velocity, sigma, sigma_next):\n    raise SystemExit(0)\n", "raised SystemExit: 0"),
    ],
    ids=["sign", "dtype", "shape", "raises", "nothing", "broken", "exits"],
)
def test_a_kernel_that_disagrees_fails(load: Load, body: str, fault: str) -> None:
    table = load(MANIFEST.format(arrays="numpy"), acme__kernels=body)
    outcomes = [o for o in parity(backend="acme", table=table) if o.status == "failed"]
    assert outcomes
    assert fault in outcomes[0].detail


@pytest.mark.parametrize(
    ("arrays", "made", "fault"),
    [
        pytest.param("numpy", "torch.from_numpy(result)", "an array of numpy expected, got one of torch", id="tensor"),
        pytest.param("torch", "result.numpy()", "an array of torch expected, got one of numpy", id="array"),
        pytest.param("torch", "result.to('meta')", "a tensor on cpu expected, got one on meta", id="device"),
        pytest.param("torch", "result.to_sparse()", "the result cannot be compared: a float32 tensor", id="sparse"),
    ],
)
def test_a_result_of_another_kind_fails(load: Load, arrays: str, made: str, fault: str) -> None:
    body = GOOD.replace("return ", "result = ") + f"    return {made}\n"
    table = load(MANIFEST.format(arrays=arrays), acme__kernels=f"import torch\n\n\n{body}")
    (outcome,) = parity(backend="acme", table=table, dtype="float32", what="result")
    assert outcome.detail.startswith(f"case 0: {fault}")
    assert outcome.failures == outcome.cases
    assert outcome.arguments.startswith("sample=float32")


def test_one_wrong_element_is_named(load: Load) -> None:
    wrong = """\
def step(sample, velocity, sigma, sigma_next):
    result = sample + (sigma_next - sigma) * velocity
    if result.shape == (3, 7):
        result[1, 2] += 1
    return result
"""
    table = load(MANIFEST.format(arrays="numpy"), acme__kernels=wrong)
    failed = [o for o in parity(backend="acme", table=table) if o.status == "failed"]
    assert failed
    assert all("element [1, 2] is " in o.detail for o in failed)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("sample += (sigma_next - sigma) * velocity\n    return sample", "argument `sample` was changed"),
        (
            "result = sample + (sigma_next - sigma) * velocity\n    velocity[...] = 0\n    return result",
            "argument `velocity` was changed",
        ),
    ],
    ids=["in-place", "scratch"],
)
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_a_kernel_that_overwrites_an_argument_fails(load: Load, arrays: str, change: str, fault: str) -> None:
    body = f"def step(sample, velocity, sigma, sigma_next):\n    {change}\n"
    table = load(MANIFEST.format(arrays=arrays), acme__kernels=body)
    outcomes = [o for o in parity(backend="acme", table=table, what="result") if o.status != "skipped"]
    assert outcomes
    assert all(o.status == "failed" and fault in o.detail for o in outcomes)


def test_a_kernel_that_has_a_gradient_recorded_changes_its_argument(load: Load) -> None:
    body = GOOD.replace("    return", "    velocity.requires_grad_()\n    return")
    table = load(MANIFEST.format(arrays="torch"), acme__kernels=body)
    (outcome,) = parity(backend="acme", table=table, dtype="float32", what="result")
    assert "argument `velocity` was changed" in outcome.detail


def test_a_keyword_that_is_overwritten_is_named(load: Load) -> None:
    text = MANIFEST.format(arrays="numpy").replace("flow_match_step", "flow_sde_step")
    body = """\
def step(*args, **kwargs):
    from rung_backends.reference.solver import flow_sde_step
    result = flow_sde_step(*args, **kwargs)
    for value in kwargs.values():
        if hasattr(value, "fill"):
            value.fill(7)
    return result
"""
    table = load(text, acme__kernels=body)
    outcomes = [o for o in parity(backend="acme", table=table) if o.status != "skipped"]
    assert outcomes
    assert all(o.status == "failed" and "argument `noise` was changed" in o.detail for o in outcomes)


def test_an_honest_kernel_passes(load: Load) -> None:
    table = load(MANIFEST.format(arrays="numpy"), acme__kernels=GOOD)
    outcomes = {o.dtype: o.status for o in parity(backend="acme", table=table)}
    assert outcomes["float64"] == outcomes["float32"] == "passed"
    assert outcomes["bfloat16"] == "skipped"


def test_an_unknown_backend_has_a_suggestion() -> None:
    with pytest.raises(KeyError, match="did you mean `torch`"):
        list(parity(backend="toch"))


@pytest.mark.parametrize("name", ["cell", "variant", "dtype", "op"])
def test_other_names_have_suggestions_too(name: str) -> None:
    known: dict[str, Any] = {"cell": "torch/flow_match_step@cpu.torch#default", "variant": "default"}
    said = {**known, "dtype": "float32", "op": "flow_match_step"}[name]
    with pytest.raises(KeyError, match=f"did you mean `{said}`"):
        list(checks(**{name: said + "x"}))


@pytest.fixture
def outside(write: Write) -> Callable[..., rung.Table]:
    """Give a table with a backend from outside, whose kernels of these names are variants."""

    def table(*names: str, accepts: str = "", files: dict[str, str] = FILES, change: tuple[str, str] = ("", "")) -> Any:
        text = manifest(*names, accepts=accepts).replace(*change)
        root = write({"m/acme.yaml": text, **files})
        return rung.load([root / "m"], allow=["acme"])

    return table


def by_label(table: rung.Table, **chosen: Any) -> dict[str, Outcome]:
    return {o.label: o for o in parity(backend="acme", table=table, **chosen)}


class TestGradients:
    def test_they_agree(self, outside: Callable[..., rung.Table]) -> None:
        found = by_label(outside("good"))
        assert {label: (o.status, o.cases, o.of) for label, o in found.items()} == {
            "float64": ("passed", 5, 5),
            "float32": ("passed", 5, 5),
            "bfloat16": ("passed", 5, 5),
            "float64 gradient": ("passed", 4, 5),
        }
        assert found["float64 gradient"].left_out == 1

    @pytest.mark.parametrize(
        ("kernel", "case", "index", "said"),
        [
            pytest.param("flipped", 1, (1, 2), "gradient of `x`: element [1, 2] is ", id="a sign"),
            pytest.param("narrow", 0, (0,), "gradient of `x`: element [0] is ", id="a narrow sum"),
            pytest.param(
                "cut", 0, (0,), "the result does not require grad, though `x` does: the kernel cuts", id="cut"
            ),
            pytest.param("cut_weight", 3, None, "no gradient reaches `weight`: the kernel cuts the graph", id="half"),
        ],
    )
    def test_a_wrong_one_is_pointed_at(
        self, outside: Callable[..., rung.Table], kernel: str, case: int, index: tuple[int, ...] | None, said: str
    ) -> None:
        found = by_label(outside(kernel))
        wrong = found["float64 gradient"]
        assert (wrong.status, wrong.case) == ("failed", case)
        assert wrong.detail.startswith(f"case {case}: {said}")
        assert "numeric differentiation" in wrong.detail
        assert index in (None, wrong.index)
        assert found["float32"].status == "passed"
        assert found["float64"].status == ("failed" if kernel == "narrow" else "passed")

    def test_what_has_no_gradient_may_be_constant(self, outside: Callable[..., rung.Table]) -> None:
        body = "import torch\n\n\ndef zero(x, weight=None, *, eps=1e-6):\n    return torch.zeros_like(x)\n"
        reference = FILES["acme/reference.py"].replace("    return result.astype(x.dtype)", "    return 0 * x")
        table = outside("zero", files={**kernels(body), "acme/reference.py": reference})
        assert by_label(table)["float64 gradient"].status == "passed"

    def test_results_that_are_cut_are_named(self, outside: Callable[..., rung.Table]) -> None:
        body = "def two(x, weight=None, *, eps=1e-6):\n    return x * 2, (x * 3).detach()\n"
        reference = FILES["acme/reference.py"].replace("    return result.astype(x.dtype)", "    return x * 2, x * 3")
        table = outside("two", files={**kernels(body), "acme/reference.py": reference})
        assert "; of the results, 1 does not require grad" in by_label(table)["float64 gradient"].detail

    def test_a_cell_that_takes_no_gradient_is_skipped(self, outside: Callable[..., rung.Table]) -> None:
        found = by_label(outside("cut", accepts="{x.grad: false}"))
        assert found["float64 gradient"].status == "skipped"
        assert found["float64 gradient"].detail == "accepts none of 4 cases: `x.grad` is true, not false"
        assert found["float64"].status == "passed"

    def test_float32_where_float64_is_not_accepted(self, outside: Callable[..., rung.Table]) -> None:
        found = by_label(outside("flipped", "good", accepts="{x.dtype: float32}"), variant="flipped")
        assert found["float64"].detail == "accepts none of 5 cases: `x.dtype` is float64, not float32"
        assert found["float32 gradient"].status == "failed"
        assert found["float32 gradient"].index == (1, 2)

    def test_only_they_or_only_results(self, outside: Callable[..., rung.Table]) -> None:
        table = outside("good")
        assert [*by_label(table, what="gradient")] == ["float64 gradient"]
        assert [*by_label(table, what="gradient", dtype="float32")] == ["float32 gradient"]
        assert [*by_label(table, what="result")] == ["float64", "float32", "bfloat16"]
        assert [*by_label(table, dtype="bfloat16")] == ["bfloat16"]


class TestAccepts:
    def test_cases_that_are_not_accepted_are_counted(self, outside: Callable[..., rung.Table]) -> None:
        found = by_label(outside("good", accepts='{x.rank: {min: 2}, "x.shape[-1]": {multiple_of: 7}}'))
        outcome = found["float32"]
        assert (outcome.status, outcome.cases, outcome.not_accepted, outcome.of) == ("passed", 2, 3, 5)
        assert outcome.detail == "3 not accepted: `x.rank` is 1, less than 2"

    def test_a_fault_in_what_is_not_accepted_is_none(self, outside: Callable[..., rung.Table]) -> None:
        assert by_label(outside("sign"))["float32"].status == "failed"
        assert by_label(outside("sign", accepts='{"x.shape[-1]": {multiple_of: 4}}'))["float32"].status == "passed"


class TestDtypes:
    """Arguments and results with dtypes of their own, and dtypes that numpy lacks."""

    SCALED = """\
manifest: 1
backend: acme
arrays: torch
ops:
  scaled:
    summary: Twice scaled.
    signature: "(a: array, scale: array, cos: array, *, out: str | None = 'bfloat16') -> array"
    reference: "acme.reference:scaled"
    cases: "acme.reference:cases"
    dtypes: {scale: float32}
    result_dtype: out
    tolerance: {float8_e4m3fn: {ulp: 1}, float8_e5m2: {cosine: 0.99}, float32: exact}
kernels:
  scaled:
    - {device: cpu, arch: torch, impl: "acme.kernels:scaled"}
    - {device: cpu, arch: numpy, arrays: numpy, variant: plain, impl: "acme.kernels:plain"}
"""
    REFERENCE = """\
import numpy as np


def scaled(a, scale, cos, *, out="bfloat16"):
    return (a.astype("f8") * scale * cos).astype("f4")


def cases(dtype, rng):
    a = np.array([0.5, 1.75, -3.0, 448.0], "f4")
    scale = np.full(4, 0.1, "f4")
    yield (a, scale, np.ones(4, "f4")), {"out": "float32"}
    yield (a, scale, np.full(4, 0.3, "f4")), {}
    yield (a, scale, np.ones(4, "f4")), {"out": None}
"""
    KERNELS = """\
import torch

SEEN = set()


def scaled(a, scale, cos, *, out="bfloat16"):
    SEEN.add(tuple(str(t.dtype).removeprefix("torch.") for t in (a, scale, cos)))
    dtype = a.dtype if out is None else getattr(torch, out)
    return (a.float() * scale * cos.float()).to(dtype)


def plain(a, scale, cos, *, out="bfloat16"):
    return a * scale * cos
"""

    @pytest.fixture
    def table(self, write: Write) -> rung.Table:
        files = {"acme/__init__.py": "", "acme/reference.py": self.REFERENCE, "acme/kernels.py": self.KERNELS}
        return rung.load([write({"m/acme.yaml": self.SCALED, **files}) / "m"], allow=["acme"])

    @pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
    def test_float8(self, table: rung.Table, dtype: str) -> None:
        import importlib

        (outcome,) = parity(cell="acme/scaled@cpu.torch*", dtype=dtype, table=table)
        assert (outcome.status, outcome.cases, outcome.detail) == ("passed", 3, "")
        # What float8 does not hold was meant to be float32.
        seen = importlib.import_module("acme.kernels").SEEN
        assert {(dtype, "float32", dtype), (dtype, "float32", "float32")} <= seen

    def test_arrays_of_numpy_hold_no_float8_and_no_bfloat16(self, table: rung.Table) -> None:
        found = {o.dtype: o for o in parity(variant="plain", op="scaled", table=table)}
        assert found["float8_e5m2"].detail == "numpy has no float8_e5m2"
        assert found["float32"].detail == "1 not accepted: numpy has no bfloat16"
        assert (found["float32"].status, found["float32"].cases) == ("passed", 2)

    def test_the_result_has_the_dtype_the_argument_says(self, write: Write) -> None:
        wrong = self.KERNELS.replace("getattr(torch, out)", "torch.float16")
        files = {"acme/__init__.py": "", "acme/reference.py": self.REFERENCE, "acme/kernels.py": wrong}
        table = rung.load([write({"m/acme.yaml": self.SCALED, **files}) / "m"], allow=["acme"])
        (outcome,) = parity(cell="acme/scaled@cpu.torch*", dtype="float8_e5m2", table=table)
        assert outcome.detail == "case 0: dtype float16, expected float32 (2 of 3 cases failed)"


class TestOneCaseAgain:
    def test_the_report_says_which_it_was(self, outside: Callable[..., rung.Table]) -> None:
        (outcome,) = parity(backend="acme", dtype="float32", what="result", seed=3, table=outside("sign"))
        assert (outcome.status, outcome.case, outcome.seed, outcome.failures, outcome.cases) == ("failed", 1, 3, 2, 5)
        assert outcome.index == (1, 2)
        assert outcome.arguments == "x=float32[3, 7]"
        assert "element [1, 2] is " in outcome.detail
        assert "off by " in outcome.detail
        assert outcome.detail.endswith("(2 of 5 cases failed)")
        assert again(outcome) == (
            "rung parity --cell 'acme/norm@cpu.torch#sign' --dtype float32 --what result --case 1 --seed 3"
        )

    def test_it_is_the_same_case(self, outside: Callable[..., rung.Table]) -> None:
        table = outside("sign")
        (whole,) = parity(backend="acme", dtype="float32", what="result", table=table)
        (one,) = parity(backend="acme", dtype="float32", what="result", case=1, table=table)
        assert (one.status, one.case, one.cases, one.index) == ("failed", 1, 1, whole.index)
        assert one.detail == whole.detail.partition(" (2 of")[0]
        (other,) = parity(backend="acme", dtype="float32", what="result", case=0, table=table)
        assert other.status == "passed"

    def test_there_is_no_such_case(self, outside: Callable[..., rung.Table]) -> None:
        (outcome,) = parity(backend="acme", dtype="float32", what="result", case=99, table=outside("good"))
        assert (outcome.status, outcome.detail) == ("skipped", "there is no case 99: the op gives 5 in float32")

    def test_the_command_that_is_shown_repeats_it(
        self, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(write({"m/acme.yaml": manifest("sign", "flipped"), **FILES}))
        code, out, _ = command(capsys, "parity", "--backend", "acme", "--manifests", "m", "--allow", "acme")
        assert code == 1
        shown = [line.partition("again: ")[2] for line in out.splitlines() if "again: " in line]
        assert len(shown) == 5  # the sign in three dtypes and in a gradient, and the flipped gradient
        for line in shown:
            code, out, _ = command(capsys, *shlex.split(line)[1:])
            assert (code, out.count("failed"), out.count("element [1, 2]")) == (1, 1, 1)


class TestWhatIsWrongElsewhere:
    def test_an_exit_ends_no_report(
        self, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        body = FILES["acme/kernels.py"] + "\n\ndef leave(x, weight=None, *, eps=1e-6):\n    raise SystemExit(0)\n"
        monkeypatch.chdir(write({"m/acme.yaml": manifest("leave", "good"), **kernels(body)}))
        code, out, err = command(capsys, "parity", "--backend", "acme", "--manifests", "m", "--allow", "acme")
        assert (code, err.splitlines()[-1]) == (1, "4 passed, 4 failed, 0 skipped")
        assert out.count("raised SystemExit: 0 (") == 4

    def test_an_interrupt_does(self, outside: Callable[..., rung.Table]) -> None:
        body = "def stop(x, weight=None, *, eps=1e-6):\n    raise KeyboardInterrupt\n"
        for what in ("result", "gradient"):
            with pytest.raises(KeyboardInterrupt):
                by_label(outside("stop", files=kernels(body)), what=what)

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            pytest.param("    yield (draw(rng, dtype, (64", "    raise OSError('no')\n    yield (draw(rng, dtype, (64",
                         "case 4: the op's cases raised OSError: no (at reference.py:18) (1 of 5", id="cases"),
            pytest.param("    wide = x", "    raise OSError('no')\n    wide = x",
                         "case 0: the reference raised OSError: no (at reference.py:6) (5 of 5", id="reference"),
            pytest.param("    yield (draw(rng, dtype, (64", "    raise SystemExit(0)\n    yield (draw(rng, dtype, (64",
                         "case 4: the op's cases raised SystemExit: 0 (at reference.py:18) (1", id="cases that exit"),
            pytest.param("    wide = x", "    raise SystemExit(0)\n    wide = x",
                         "case 0: the reference raised SystemExit: 0 (at reference.py:6)", id="reference that exits"),
            pytest.param('{"eps": 0.01}', '{"epsilon": 0.01}',
                         "case 3: the reference raised TypeError: norm() got an unexpected", id="call"),
            pytest.param("    wide = x", "    x += 1\n    wide = x",
                         "case 0: the reference changed its argument `x` (5 of 5 cases failed)", id="a change"),
            pytest.param("(draw(rng, dtype, shape),), {}", "(draw(rng, dtype, (2, 3)),)",
                         "case 0: the op's cases gave (array([[", id="no names"),
            pytest.param("(draw(rng, dtype, shape),), {}", "draw(rng, dtype, (3, 7)), {}",
                         "case 0: the op's cases gave (array([[", id="no tuple"),
            pytest.param("(draw(rng, dtype, shape),), {}", "draw(rng, dtype, (3,))",
                         "case 0: the op's cases gave array([", id="an array"),
        ],
    )  # fmt: skip
    def test_it_is_not_called_the_kernels(
        self, outside: Callable[..., rung.Table], old: str, new: str, said: str
    ) -> None:
        changed = FILES["acme/reference.py"].replace(old, new)
        assert changed != FILES["acme/reference.py"]
        found = by_label(outside("good", files={**FILES, "acme/reference.py": changed}))
        assert re.sub(r"\(at \S*/", "(at ", found["float32"].detail).startswith(said)

    def test_where_a_kernel_raised(self, outside: Callable[..., rung.Table]) -> None:
        body = "import torch\n\n\ndef help(x):\n    return torch.ones(3) @ x[..., :0]\n\n\n"
        body += "def fail(x, weight=None, *, eps=1e-6):\n    return help(x)\n"
        found = by_label(outside("fail", files=kernels(body)))
        assert re.search(r"raised RuntimeError: .* \(at \S*acme/kernels\.py:5\)", found["float32"].detail)
        assert re.search(r"raised RuntimeError: .* \(at \S*acme/kernels\.py:5\)", found["float64 gradient"].detail)

    @pytest.mark.parametrize("arrays", ["numpy", "torch"])
    def test_a_result_that_is_an_argument(self, load: Load, arrays: str) -> None:
        head, _, rest = GOOD.partition("\n")
        body = f"{head}\n    if sigma == sigma_next:\n        return sample[...]\n{rest}"
        found = by_label(load(MANIFEST.format(arrays=arrays), acme__kernels=body))
        said = "the result lies in the memory of argument `sample`; the reference gives a new array"
        assert said in found["float32"].detail

    def test_where_the_reference_gives_a_view_so_may_a_kernel(self, outside: Callable[..., rung.Table]) -> None:
        reference = FILES["acme/reference.py"].replace("    wide = x", "    return x[...]\n    wide = x")
        body = "def view(x, weight=None, *, eps=1e-6):\n    return x[...]\n"
        found = by_label(outside("view", files={**kernels(body), "acme/reference.py": reference}), what="result")
        assert {o.status for o in found.values()} == {"passed"}

    def test_what_has_no_element_proves_nothing(self, outside: Callable[..., rung.Table]) -> None:
        body = "def blank(x, weight=None, *, eps=1e-6):\n    return x + 7\n"
        reference = FILES["acme/reference.py"].replace("(4, 8)", "(0, 8)")
        table = outside("blank", files={**kernels(body), "acme/reference.py": reference},
                        accepts='{x.rank: 2, "x.shape[1]": {multiple_of: 8}}')  # fmt: skip
        found = by_label(table, what="result")
        said = "what was compared is empty: no result has an element; 4 not accepted: `x.rank` is 1, not 2"
        assert {(o.status, o.detail) for o in found.values()} == {("skipped", said)}

    def test_values_that_the_dtype_does_not_hold(self, outside: Callable[..., rung.Table]) -> None:
        plain = FILES["acme/reference.py"].replace("np.uint32(0xFFFF0000)", "np.uint32(0xFFFFFFFF)")
        mixed = "def mixed(x, weight=None, *, eps=1e-6):\n    return x if weight is None else x * weight\n"
        found = by_label(outside("mixed", files={**kernels(mixed), "acme/reference.py": plain}), case=3)
        assert found["bfloat16"].detail == (
            "case 3: dtype float32, expected bfloat16; `weight` came in float32, for the case has values that bfloat16 "
            "does not hold: let the op's cases round them, or name the argument in the op's `dtypes`"
        )
        assert "came in float32" not in found["float32"].detail

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            pytest.param(('    cases: "acme.reference:cases"\n', ""), "the op declares no cases", id="cases"),
            pytest.param((manifest().partition("tolerance:")[2].partition("kernels:")[0], " {}\n"),
                         "the op declares no tolerance", id="tolerance"),
        ],
    )  # fmt: skip
    def test_nothing_to_compare(self, outside: Callable[..., rung.Table], change: tuple[str, str], said: str) -> None:
        (outcome,) = parity(backend="acme", table=outside("good", change=change))
        assert (outcome.status, outcome.label, outcome.detail) == ("skipped", "", said)


def test_the_kernels_in_triton_agree_in_its_interpreter() -> None:
    # In a process of its own: Triton reads the variable when it is imported. Guidance alone takes twenty seconds there.
    ops = [op for op in default_table().ops if any(c.backend == "triton" for c in default_table().kernels[op])]
    wanted = [word for op in ops if op != "cfg_combine" for word in ("--op", op)]
    command = [sys.executable, "-m", "rung", "parity", "--backend", "triton", "--dtype", "float32", *wanted]
    done = subprocess.run(
        [*command, "--format", "json"], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    found = {
        o["op"]: o["status"]
        for o in json.loads(done.stdout)["outcomes"]
        if "@cpu" in o["cell"] and o["what"] == "result"
    }
    assert found == dict.fromkeys((op for op in ops if op != "cfg_combine"), "passed")
    assert done.returncode == 0
