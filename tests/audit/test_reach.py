"""What RG402, RG403 and RG406 find, beside the fixtures: tables of small manifests, and laws that the walk confirms."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging import judged
from rung import Facts
from rung.audit import ladders
from rung.audit.reach import reach
from rung.audit.scene import Scene
from rung.compile import compile_manifests
from rung.resolve import Context, walk
from rung.resources import data_dir
from rung.source import Document

if TYPE_CHECKING:
    from rung.diagnostics import Problem
    from rung.manifest import Manifests
    from rung.table import Table

FACTS = Path(__file__).parents[1] / "facts"

# A device that has one of each: an edge, a target for one chip, a family, intermediate code, portable targets.
DEVICES = """\
devices:
  cpu: {summary: The processor., arrays: [numpy, torch], archs: {v1: {}, v2: {runs: [v1]}}, portable: [numpy]}
  gpu:
    summary: A card.
    falls_back_to: cpu
    arrays: [torch, numpy]
    pattern: g
    archs: {g10: {}, g11: {runs: [g10]}, g20: {}}
    targets: {g11a: {only: g11}, g10f: {family: [g10, g11]}}
    jit: {prefix: ir, rule: at_least}
    portable: [fast, slow]
  npu: {summary: A chip., falls_back_to: cpu, arrays: [torch], archs: {n1: {}}}
"""
OP = """\
ops:
  scale: {summary: Scale., signature: "(x: array) -> array", reference: "acme.reference:scale"}
kinds:
  dit: {summary: A model.}
predicates:
  a: {env: A}
  b: {env: B}
  both: [a, b]
"""
BASE = f"manifest: 1\n{DEVICES}{OP}"
HEAD = "manifest: 1\nbackend: one\narrays: torch\nkernels:\n  scale:\n"


def row(text: str) -> str:
    """Write one row: `gpu.g10#v when: a` is device, target and variant, and further keys."""
    key, _, more = text.partition(" ")
    key, _, variant = key.partition("#")
    device, _, target = key.partition(".")
    parts = [f"device: {device}", f"arch: {target}" if target else "", f"variant: {variant}" if variant else "", more]
    return f'    - {{{", ".join(part for part in parts if part)}, impl: "acme.kernels:scale"}}\n'


def rows(*texts: str) -> str:
    return HEAD + "".join(map(row, texts))


def merged(root: Path, *texts: str) -> Manifests:
    for number, text in enumerate((BASE, *texts)):
        (root / f"{number}.yaml").write_text(text, encoding="utf-8")
    return judged(root, builtin=False)


def found(root: Path, *texts: str) -> list[Problem]:
    return list(reach(scene(root, merged(root, *texts))))


def scene(root: Path, whole: Manifests) -> Scene:
    """Give a scene in which all that the manifests bind is there."""
    (root / "acme").mkdir(exist_ok=True)
    for name in ("kernels", "reference"):
        (root / "acme" / f"{name}.py").write_text("def __getattr__(name): ...\n", encoding="utf-8")
    return Scene(whole, root, (str(root),))


def told(root: Path, *texts: str) -> list[str]:
    """Give each finding as code and cell, or what it is about: `RG403 gpu.g10#default`."""
    return [f"{p.code} {p.cell.partition('@')[2] or p.message}" for p in found(root, *texts)]


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        pytest.param(rows("gpu.g11a exclude: [g11]"), "`exclude` leaves no arch that runs `g11a`", 6, id="one-chip"),
        pytest.param(rows("gpu.g10f exclude: [g11, g10]"), "`exclude` leaves no arch that runs `g10f`", 6, id="family"),
        pytest.param(rows("gpu.g11a when: {arch: g10f}"), None, 0, id="an-arch-that-runs-both"),
        pytest.param(
            rows("gpu.g11a when: {arch: g20}"), "`when` fails on every arch on which `g11a` is offered", 6, id="when"
        ),
        pytest.param(
            rows("gpu.g11a when: [a, {not: {arch: g11a}}]"),
            "`when` fails on every arch on which `g11a` is offered",
            6,
            id="not",
        ),
        pytest.param(rows("gpu.g11a when: {any: [{arch: g20}, a]}"), None, 0, id="any-that-may-hold"),
        pytest.param(rows("gpu.g20 when: {not: {arch: g10}}"), None, 0, id="not-that-holds"),
        pytest.param(rows("gpu.g10 exclude: [g10]"), None, 0, id="an-arch-is-left"),
        pytest.param(rows("gpu.fast exclude: [g10, g11, g20]"), None, 0, id="what-nobody-declared-is-left"),
        pytest.param(rows("gpu.ir20 exclude: [g20]"), None, 0, id="what-is-newer-is-left"),
        pytest.param(rows("gpu.g10 when: {arch: nothing_like_it}"), None, 0, id="a-fault-of-its-own"),
        pytest.param(rows("npu.n1 exclude: [n1]"), "`exclude` leaves no arch that runs `n1`", 6, id="without-pattern"),
        pytest.param(
            rows("gpu.g11a").replace("arrays: torch", "arrays: torch\nrequires: {arch: g20}"),
            "`requires` fails on every arch on which `g11a` is offered",
            7,
            id="requires",
        ),
        pytest.param(
            rows("gpu.g20 when: {not: {arch: g20}}").replace("arrays: torch", "arrays: torch\nrequires: {arch: ir20}"),
            "`when` fails on every arch on which `g20` is offered",
            7,
            id="when-beside-requires",
        ),
    ],
)
def test_a_cell_is_unreachable(tmp_path: Path, text: str, message: str | None, line: int) -> None:
    problems = found(tmp_path, text)
    assert [(p.code, p.message) for p in problems] == ([("RG402", message)] if message else [])
    for problem in problems:
        assert problem.where is not None
        assert problem.where.line == line


def test_a_row_is_reported_once(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, rows("gpu.g11a#[x,p,q] exclude: [g11]"))
    assert problem.cell == "one/scale@gpu.g11a#x"
    assert "`one/scale@gpu.g11a#x` and 2 more of its row" in problem.hint


CHAIN = "manifest: 1\nprofiles:\n  {name}: {{chains: {{scale: {chain}}}}}\n"
ALL_PROFILES = "manifest: 1\nprofiles:\n  default: {{chains: {{scale: {0}}}}}\n  strict: {{extends: default}}\n"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([rows("gpu.g10f", "gpu.g10")], ["RG403 gpu.g10#default"], id="family-before-plain"),
        pytest.param([rows("gpu.g11a", "gpu.g10")], [], id="g10-alone-runs-one"),
        pytest.param([rows("gpu.g11a", "gpu.g11")], ["RG403 gpu.g11#default"], id="one-chip-before-plain"),
        pytest.param([rows("gpu.g10f when: a", "gpu.g10")], [], id="a-condition-more"),
        pytest.param([rows("gpu.g10f when: a", "gpu.g10 when: a")], ["RG403 gpu.g10#default"], id="same-condition"),
        pytest.param([rows("gpu.g10f when: a", "gpu.g10 when: b")], [], id="another-condition"),
        pytest.param([rows("gpu.g10f when: a", "gpu.g10 when: [b, a]")], ["RG403 gpu.g10#default"], id="asks-less"),
        pytest.param([rows("gpu.g10f when: both", "gpu.g10 when: a")], [], id="asks-more"),
        pytest.param([rows("gpu.g10f when: {arch: g10}", "gpu.g10")], ["RG403 gpu.g10#default"], id="always-true"),
        pytest.param([rows("gpu.g10f when: {arch: g11}", "gpu.g10")], [], id="true-on-some"),
        pytest.param([rows("gpu.g11", "gpu.g10", "gpu.g10f when: {arch: g20}")], ["RG402 gpu.g10f#default"], id="dead"),
        pytest.param([rows("gpu.g10f", "gpu.g10#x")], [], id="another-variant"),
        pytest.param([rows("gpu.g10f", "gpu.g10 arrays: numpy")], [], id="other-arrays"),
        pytest.param([rows("gpu.fast", "gpu.slow", "gpu")], ["RG403 gpu.slow#default", "RG403 gpu.generic#default"],
                     id="portable"),
        pytest.param([rows("gpu.fast exclude: [g20]", "gpu.slow")], [], id="where-it-is-excluded"),
        pytest.param([rows("gpu.g10", "gpu.g11", "gpu.g20", "gpu.ir20", "gpu.slow")], [], id="unknown-arch"),
        pytest.param([rows("gpu.g10", "gpu.g11", "gpu.g20", "gpu.ir20", "gpu.ir10")], [], id="between-the-declared"),
        pytest.param([rows("gpu.g10", "gpu.g11", "gpu.g20", "gpu.ir10", "gpu.ir10 artifact: source")], [],
                     id="equal-keys-are-another-rule"),
        pytest.param([rows("gpu.g10", "gpu.g10 artifact: source"), rows("gpu.g10f").replace("one", "two")],
                     ["RG403 gpu.g10#default"], id="a-duplicate-beside"),
        pytest.param([rows("gpu.g10f"), rows("gpu.g10").replace("one", "two")], ["RG403 gpu.g10#default"],
                     id="two-backends"),
        pytest.param([rows("gpu.g10f"), rows("gpu.g10").replace("one", "two"),
                      "manifest: 1\nprofiles: {mine: {only: two}}\n"], [], id="a-profile-of-one-backend"),
        pytest.param([rows("gpu.g10f", "gpu.g10"), "manifest: 1\nprofiles: {mine: {only: one}}\n"],
                     ["RG403 gpu.g10#default"], id="a-profile-of-both"),
        pytest.param([rows("gpu.g10#x", "gpu.slow"), CHAIN.format(name="mine", chain="[x, default]")], [],
                     id="another-profile-begins-elsewhere"),
        pytest.param([rows("gpu.slow#x", "gpu.g10"), ALL_PROFILES.format("[x, default]")], ["RG403 gpu.g10#default"],
                     id="an-earlier-variant-under-every-profile"),
        pytest.param([rows("gpu.g10#x", "gpu.slow"), ALL_PROFILES.format("[x, default]")], [], id="on-few-archs"),
        pytest.param([rows("gpu.slow#x", "gpu.g10#z"), ALL_PROFILES.format("{z: [x, z]}")], [], id="require-skips-it"),
        pytest.param([rows("gpu.slow#x", "gpu.g10"), ALL_PROFILES.format("[x, default]"),
                      "manifest: 1\nprofiles: {other: {fall: {device: nonsense}}}\n"], [], id="a-lost-profile"),
        pytest.param([rows("gpu.slow#x", "gpu.g10"), ALL_PROFILES.format("[x, default]"), "scale: [\n"], [],
                     id="a-file-that-may-say-more"),
        pytest.param([rows("gpu.slow#x", "gpu.g10"), ALL_PROFILES.format("[x]")], ["RG402 gpu.g10#default"],
                     id="in-no-chain"),
        pytest.param([rows("gpu.g10f when: lost", "gpu.g10")], [], id="an-unknown-predicate"),
        pytest.param([rows("gpu.g10f arch: g10", "gpu.g10")], [], id="a-faulty-neighbour"),
        pytest.param([rows("gpu.g10f when: c", "gpu.g10 when: c"), "manifest: 1\npredicates: {c: d, d: c}\n"],
                     ["RG403 gpu.g10#default"], id="predicates-in-a-cycle"),
        pytest.param([rows("gpu.g10f when: c", "gpu.g10 when: a"), "manifest: 1\npredicates: {c: [a, lost]}\n"], [],
                     id="a-predicate-of-a-lost-one"),
        pytest.param([rows("gpu.slow", "gpu.generic when: {arch: g11}", "gpu.g10", "gpu.g20 when: {arch: g20}")],
                     ["RG403 gpu.generic#default"], id="never-known-where-the-arch-is-not"),
    ],
)  # fmt: skip
def test_a_cell_is_shadowed(tmp_path: Path, texts: list[str], expected: list[str]) -> None:
    assert told(tmp_path, *texts) == expected


COMPONENTS = "manifest: 1\nbackend: one\narrays: torch\ncomponents:\n  dit:\n"
BOTH = ALL_PROFILES.replace("scale", "dit")


@pytest.mark.parametrize(
    ("rows_of_kind", "chain", "expected"),
    [
        pytest.param(["gpu#x", "gpu"], "[x, default]", ["RG403 gpu#default"], id="earlier-variant"),
        pytest.param(["gpu#x when: a", "gpu"], "[x, default]", [], id="with-a-condition"),
        pytest.param(["gpu#x when: {not: {arch: g10}}", "gpu"], "[x, default]", [], id="on-most-archs"),
        pytest.param(["gpu#x arrays: numpy", "gpu"], "[x, default]", [], id="of-other-arrays"),
        pytest.param(["gpu#x", "gpu#z"], "{z: [x, z]}", ["RG403 gpu#z"], id="nothing-requires-one-variant"),
        pytest.param(["npu when: {arch: n1}", "gpu when: {not: {arch: slow}}"], "[default]", ["RG402 gpu#default"],
                     id="a-condition-no-arch-meets"),
    ],
)  # fmt: skip
def test_components_are_judged_along_their_chains(
    tmp_path: Path, rows_of_kind: list[str], chain: str, expected: list[str]
) -> None:
    assert told(tmp_path, COMPONENTS + "".join(map(row, rows_of_kind)), BOTH.format(chain)) == expected


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        pytest.param("a", "{env: A}", True, id="a-name-written-out"),
        pytest.param("both", "[b, {env: A}]", True, id="order"),
        pytest.param("{all: [a, {all: [b]}]}", "both", True, id="nesting"),
        pytest.param("{any: [a, b, a]}", "{any: [{any: [b, a]}, b]}", True, id="any"),
        pytest.param("{not: {not: a}}", "{why: because, env: A}", True, id="twice-not"),
        pytest.param("{os: [linux, darwin]}", "{os: [darwin, linux, darwin]}", True, id="a-set"),
        pytest.param("{os: linux}", "{os: [linux]}", True, id="one-or-several"),
        pytest.param(
            '{module: "torch >=2.4,<3"}', '{module: {name: torch, version: "<3, >= 2.4"}}', True, id="version"
        ),
        pytest.param("{any: [a, b]}", "both", False, id="any-and-all"),
        pytest.param("{not: a}", "a", False, id="not"),
        pytest.param("{env: {A: x}}", "a", False, id="a-value"),
        pytest.param('{module: "torch >=2.4"}', '{module: "torch >=2.5"}', False, id="another-version"),
    ],
)
def test_conditions_are_the_same(tmp_path: Path, first: str, second: str, same: bool) -> None:
    scene = Scene(merged(tmp_path, rows(f"gpu.g10 when: {first}", f"gpu.g20 when: {second}")), tmp_path)
    assert not scene.whole.problems.errors
    one, two = ladders.Ladders(scene).offers.values()
    assert (one.condition is two.condition) == same


HOLE = "`scale`: only the reference serves on "
PLATFORM = "manifest: 1\nplatforms:\n  box: {summary: A box., device: gpu, arch: g11%s}\n"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([PLATFORM % ""], ["`box`"], id="no-cell"),
        pytest.param([PLATFORM % "", rows("gpu.g10")], [], id="an-older-target"),
        pytest.param([PLATFORM % "", rows("gpu.g20", "npu.n1")], ["`box`"], id="other-hardware"),
        pytest.param([PLATFORM % "", rows("gpu.slow exclude: [g11]")], ["`box`"], id="excluded"),
        pytest.param([PLATFORM % "", rows("gpu.slow when: {arch: g20}")], ["`box`"], id="a-condition-on-the-arch"),
        pytest.param([PLATFORM % "", rows("gpu.slow when: {os: linux}")], [], id="what-is-not-said-counts"),
        pytest.param([PLATFORM % ", os: darwin", rows("gpu.slow when: {os: linux}")], ["`box`"], id="another-os"),
        pytest.param([PLATFORM % ", machine: arm64", rows("gpu.slow when: {machine: x86_64}")], ["`box`"],
                     id="another-machine"),
        pytest.param([PLATFORM % "", rows("gpu.slow when: {device: npu}")], ["`box`"], id="another-device"),
        pytest.param([PLATFORM % "", rows("gpu.slow when: [a, {module: torch}, {device: gpu}]")], [], id="unknown"),
        pytest.param([PLATFORM % "", rows("gpu.slow when: {driver: gpu >=5}")], [], id="an-unknown-driver"),
        pytest.param([PLATFORM % "", rows("cpu.numpy")], [], id="the-processor-serves"),
        pytest.param([PLATFORM % ", cpu: v1", rows("cpu.v2")], ["`box`"], id="not-on-this-processor"),
        pytest.param([PLATFORM % ", cpu: v2", rows("cpu.v2")], [], id="on-this-processor"),
        pytest.param([PLATFORM % "", rows("cpu.v2")], [], id="the-processor-is-not-known"),
        pytest.param([PLATFORM % ", cpu: v2", rows("cpu.v1 when: {not: {arch: v2}}")], ["`box`"], id="its-own-arch"),
        pytest.param([PLATFORM % "", rows("gpu.slow"), "manifest: 1\nprofiles: {mine: {only: reference}}\n"], [],
                     id="a-profile-plays-no-role"),
        pytest.param([(PLATFORM % "").replace("gpu", "cpu").replace("g11", "v1")], [], id="a-cpu"),
        pytest.param([(PLATFORM % "").replace("g11", "g1l")], [], id="a-fault-of-the-platform"),
        pytest.param([PLATFORM % "", rows("gpu.g9O")], [], id="a-row-with-a-fault"),
        pytest.param([PLATFORM % "", "scale: [\n"], [], id="a-file-that-may-have-cells"),
        pytest.param([PLATFORM % "", "other: [\n"], ["`box`"], id="a-file-that-has-none"),
        pytest.param([PLATFORM % "", "manifest: 1\ndevices: {cpu: {}}\n"], ["`box`"], id="a-fault-elsewhere"),
        pytest.param([PLATFORM % "" + "".join(f"  b{n}: {{summary: ., device: npu, arch: n1}}\n" for n in range(9))],
                     ["`box`, `b0`, `b1`, `b2`, `b3` and 5 more"], id="many"),
    ],
)  # fmt: skip
def test_an_op_has_a_hole(tmp_path: Path, texts: list[str], expected: list[str]) -> None:
    holes = [problem.message for problem in found(tmp_path, *texts) if problem.code == "RG406"]
    assert holes == [HOLE + names for names in expected]


PLUS = (
    'manifest: 1\nops:\n  plus: {summary: Add., signature: "(x: array) -> array", reference: "acme.reference:plus"}\n'
)


@pytest.mark.parametrize(
    ("texts", "holes"),
    [
        pytest.param([rows("gpu.slow").replace("scale:", "sclae:")], [], id="a-slip-in-the-rows"),
        pytest.param([rows("gpu.slow").replace("scale:", "Scale:")], [], id="no-legal-name"),
        pytest.param([rows("gpu.slow").replace("scale:", "multiply:")], [], id="another-word-for-the-only-one"),
        pytest.param([rows("gpu.slow").replace("scale:", "multiply:"), PLUS], ["scale", "plus"], id="either-of-two"),
        pytest.param([rows("gpu.slow").replace("scale:", "sclae:"), PLUS], ["plus"], id="one-of-two"),
        pytest.param([rows("npu.n1"), rows("npu.n1").replace("one", "two").replace("scale:", "multiply:")], ["scale"],
                     id="it-has-cells"),
        pytest.param([rows("gpu.slow").replace("kernels:", "kernals:")], [], id="a-slip-in-the-section"),
        pytest.param([rows("gpu.slow").replace("kernels:", "components:")], [], id="the-other-section"),
        pytest.param([rows("gpu.slow").replace("scale:", "dit:")], ["scale"], id="a-kind"),
        pytest.param([COMPONENTS.replace("dit", "dti") + row("gpu")], ["scale"], id="a-slip-of-a-kind"),
        pytest.param([rows("gpu.slow").replace("backend:", "backned:")], [], id="a-slip-in-the-header"),
    ],
)  # fmt: skip
def test_a_hole_is_not_reported_beside_rows_that_may_fill_it(
    tmp_path: Path, texts: list[str], holes: list[str]
) -> None:
    messages = [problem.message for problem in found(tmp_path, PLATFORM % "", *texts) if problem.code == "RG406"]
    assert messages == [f"`{op}`: only the reference serves on `box`" for op in holes]


@pytest.mark.parametrize(
    ("text", "message", "item", "hint"),
    [
        pytest.param(rows("gpu.[g20,g10] when: a", "gpu.g10f when: a"),
                     "`g10` never chosen while `one/scale@gpu.g10f#default` binds", "g10",
                     "take `g10` out of this row's `arch`", id="403-arch"),
        pytest.param(rows("gpu.[g20,g10,g11]", "gpu.[g10f,g11a]"),
                     "`g10`, `g11` never chosen while `one/scale@gpu.g10f#default` binds", "g10",
                     "take `g10`, `g11` out of this row's `arch`", id="403-archs"),
        pytest.param(rows("gpu.[g10,g20]#[x,z]", "gpu.g10f#[z,x]"),
                     "`g10` never chosen while `one/scale@gpu.g10f#x` binds", "g10",
                     "(this is about `one/scale@gpu.g10#x` and 1 more of its row)", id="403-arch-of-all-variants"),
        pytest.param(rows("gpu.g10#[x,z]", "gpu.g10f#z"),
                     "`z` never chosen while `one/scale@gpu.g10f#z` binds", "z",
                     "take `z` out of this row's `variant`", id="403-variant"),
        pytest.param(rows("gpu.[g20,g10]#[x,z]", "gpu.g10f#z"),
                     "`gpu.g10#z` never chosen while `one/scale@gpu.g10f#z` binds", "g10",
                     "take `gpu.g10#z` out of this row, which takes two rows", id="403-one-of-a-product"),
        pytest.param(rows("[gpu,npu].generic", "gpu.slow"),
                     "`gpu` never chosen while `one/scale@gpu.slow#default` binds", "gpu",
                     "take `gpu` out of this row's `device`", id="403-device"),
        pytest.param(rows("gpu.g10#[x,z]", "gpu.g10f#[x,z]"),
                     "never chosen while `one/scale@gpu.g10f#x` can be bound", "", "or remove this row", id="403-all"),
        pytest.param(rows("gpu.g10", "gpu.g10f"),
                     "never chosen while `one/scale@gpu.g10f#default` can be bound", "", "or remove this cell",
                     id="403-one"),
        pytest.param(rows("gpu.[g20,g11a] exclude: [g11]"), "`exclude` leaves no arch that runs `g11a`", "g11a",
                     "take `g11a` out of this row's `arch`", id="402-exclude"),
        pytest.param(rows("gpu.[g20,g11a] when: {arch: g20}"), "`when` fails on every arch on which `g11a` is offered",
                     "g11a", "(this is about `one/scale@gpu.g11a#default`)", id="402-when"),
        pytest.param(rows("gpu.[g10,g20]#[default,x]", "gpu.slow#x"), "", "", "", id="nothing"),
    ],
)  # fmt: skip
def test_of_a_row_that_is_a_product_the_cells_are_named(
    tmp_path: Path, text: str, message: str, item: str, hint: str
) -> None:
    problems = found(tmp_path, text)
    assert [problem.message for problem in problems] == ([message] if message else [])
    for problem in problems:
        assert problem.where is not None
        start, end = problem.where.column, problem.where.end_column
        assert item in ("", text.splitlines()[problem.where.line - 1][start - 1 : end - 1])
        assert hint in problem.hint
        assert len(problem.message) < 80


def test_a_variant_that_no_chain_tries_is_shown_in_its_list(tmp_path: Path) -> None:
    text = rows("gpu.g10#[x,default]")
    (problem,) = found(tmp_path, text, ALL_PROFILES.format("[x]"))
    assert problem.where is not None
    assert text.splitlines()[5][problem.where.column - 1 :].startswith("default]")
    assert "take `default` out of this row's `variant`" in problem.hint


def test_a_cell_that_runs_nowhere_is_the_cause_of_its_hole(tmp_path: Path) -> None:
    assert told(tmp_path, PLATFORM % "", rows("gpu.g11a exclude: [g11]")) == ["RG402 gpu.g11a#default"]


def test_an_op_beside_other_faults_is_judged_and_one_with_a_fault_is_not(tmp_path: Path) -> None:
    text = """\
manifest: 1
ops:
  plus: {summary: Add., signature: "(x: array) -> array", reference: "acme.reference:plus"}
  lost: {summary: Add., signature: "(x: array) -> array"}
  odd: {summary: Add., signature: "x -> array", reference: "acme.reference:odd"}
"""
    codes = told(tmp_path, PLATFORM % "", rows("gpu.slow"), text)
    assert codes == ["RG406 `plus`: only the reference serves on `box`"]


def test_what_cannot_be_judged_in_time_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = rows("gpu.g10f", "gpu.g10")
    assert told(tmp_path, text)
    monkeypatch.setattr(ladders, "STEPS", 0)
    monkeypatch.setattr(ladders, "STEPS_OF_CELL", 0)
    assert told(tmp_path, text) == []


def test_where_a_cell_stands_is_read_only_as_far_as_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = merged(tmp_path, rows(*(f"gpu.g10#v{number}" for number in range(50))))
    asked: list[object] = []
    monkeypatch.setattr(Document, "where", lambda self, loc, key=False: asked.append(loc))
    assert list(reach(scene(tmp_path, whole))) == []
    assert asked == []


@pytest.mark.parametrize(
    ("name", "device", "arch", "record"),
    [
        ("h100", "cuda", "sm_90", "h100_hopper_torch_cu130"),
        ("h200", "cuda", "sm_90", "h200"),
        ("b200", "cuda", "sm_100", None),
        ("rtx_5090", "cuda", "sm_120", None),
        ("gb10", "cuda", "sm_121", "dgx_spark_gb10"),
        ("mi300x", "rocm", "gfx942", "mi300x"),
        ("strix_halo", "rocm", "gfx1151", "strix_halo_gfx1151"),
        ("macbook_m3", "mps", "apple9", "m3_mac"),
        ("arc_b580", "xpu", "bmg_g21", "arc_b580"),
        ("x86_64_v3_cpu", "cpu", "x86_64_v3", "x86_v3_cpu"),
        ("x86_64_v4_cpu", "cpu", "x86_64_v4", None),
        ("arm_server", "cpu", "armv9.0a", "arm_server"),
    ],
)
def test_a_shipped_platform_is_what_was_recorded(name: str, device: str, arch: str, record: str | None) -> None:
    model = judged(data_dir("manifests") / "platforms.yaml", data_dir("manifests")).platforms[name].model
    assert (model.device, model.arch) == (device, arch)
    if record is not None:
        facts = Facts.load(FACTS / f"{record}.yaml")
        cards = facts.devices(device), facts.devices("cpu")
        archs = [found[0].arch for found in cards if isinstance(found, tuple)]
        assert (model.arch, model.cpu or model.arch) == tuple(archs)
        assert (model.os, model.machine) == (facts.os(), facts.machine())


def test_the_shipped_manifests_have_no_hole() -> None:
    whole = judged(data_dir("manifests"), builtin=False)
    assert len(whole.platforms) == 12
    assert list(reach(Scene(whole, Path()))) == []


TARGETS = ["g10", "g11", "g20", "g11a", "g10f", "ir10", "ir11", "ir20", "fast", "slow", "generic"]
CONDITIONS = [
    "",
    "when: a",
    "when: b",
    "when: both",
    "when: [a, {arch: g11}]",
    "when: {arch: ir20}",
    "when: {arch: g10}",
]
VARIANTS = ["default", "x", "z"]
ARCHS = ["g10", "g11", "g12", "g19", "g20", "g40", "generic"]
POLICIES = [
    "",
    ALL_PROFILES.format("[x, default]"),
    ALL_PROFILES.format("{default: [x, default], z: [x, z]}"),
    CHAIN.format(name="mine", chain="[z, x, default]"),
    "manifest: 1\nprofiles: {mine: {only: two}}\n",
]
CELLS = st.lists(
    st.tuples(
        st.sampled_from(TARGETS),
        st.sampled_from(VARIANTS),
        st.sampled_from(CONDITIONS),
        st.sampled_from(["one", "two"]),
        st.sampled_from(["", "exclude: [g11]"]),
    ),
    min_size=2,
    max_size=7,
    unique_by=lambda cell: cell[:2],
)


def chosen(table: Table) -> set[str]:
    """Give the cells that some request gets, on some arch, with some settings, under some profile."""
    out: set[str] = set()
    for settings_made in ({}, {"A": "1"}, {"B": "1"}, {"A": "1", "B": "1"}):
        facts = Facts({"env": {"A": "", "B": "", **settings_made}})
        for arch, profile in product(ARCHS, table.profiles.values()):
            context = Context(table, "gpu", arch, "torch", facts, profile)
            for variant, required in product((*VARIANTS, "unheard_of"), (False, True)):
                cell = walk(context, "scale", variant, required=required)[0].cell
                out.update([cell.id] if cell is not None else [])
    return out


@settings(max_examples=60)
@given(cells=CELLS, policy=st.sampled_from(POLICIES))
def test_a_cell_is_reported_exactly_when_no_request_ever_gets_it(
    cells: list[tuple[str, str, str, str, str]], policy: str
) -> None:
    texts = [
        HEAD.replace("one", backend)
        + "".join(
            row(f"gpu.{target}#{variant} " + ", ".join(filter(None, (condition, exclude))))
            for target, variant, condition, of, exclude in cells
            if of == backend
        )
        for backend in ("one", "two")
        if any(of == backend for _, _, _, of, _ in cells)
    ]
    if "two" in policy and len(texts) < 2:
        policy = ""
    with tempfile.TemporaryDirectory() as root:
        whole = merged(Path(root), *texts, *filter(None, [policy]))
        reported = {problem.cell for problem in reach(scene(Path(root), whole))}
        errors = {problem.code for problem in whole.problems.errors}
        assert errors <= {"RG302", "RG308"}
        if errors:
            return
    served = chosen(compile_manifests(whole))
    assert {cell.id for cell in whole.cells} - served == reported


@pytest.mark.parametrize(
    ("first", "codes"),
    [
        ("def scale(x): ...", ["RG403"]),
        ("scale = 3", []),
        ("def scale(y): ...", []),
        ("def other(x): ...", []),
        ("def scale(", []),
        (None, []),
    ],
    ids=["sound", "no function", "other parameters", "no such name", "broken", "no such module"],
)
def test_a_cell_that_cannot_be_bound_hides_nothing(tmp_path: Path, first: str | None, codes: list[str]) -> None:
    text = rows("gpu.g10f", "gpu.g10").replace("acme.kernels:scale", "acme.first:scale", 1)
    whole = merged(tmp_path, text)
    judging = scene(tmp_path, whole)
    if first is not None:
        (tmp_path / "acme/first.py").write_text(f"{first}\n", encoding="utf-8")
    assert [problem.code for problem in reach(judging) if problem.code == "RG403"] == codes
