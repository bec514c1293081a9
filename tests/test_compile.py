from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from judging import BUILTIN
from rung.compile import compile_units, expression_of
from rung.diagnostics import ManifestError, Where
from rung.entries import Condition, Expression, LocalRow
from rung.models import ExpressionModel
from rung.records import fields
from rung.units import Unit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rung.entries import Cell
    from rung.table import Table

    Compile = Callable[..., Table]

HEAD = "manifest: 1\n"
BACKEND = HEAD + "backend: acme\narrays: numpy\nhint: install acme\nkernels:\n  flow_match_step:\n"


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile texts, each a unit of its own, after the built-in manifests."""

    def table(*texts: str, builtin: bool = True) -> Table:
        units = [BUILTIN] if builtin else []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.yaml"
            path.write_text(text, encoding="utf-8")
            units.append(Unit(path, path.name, frozenset({"acme", f"extra{number}"})))
        return compile_units(units)

    return table


def cells(table: Table, backend: str = "acme") -> dict[str, Cell]:
    return {cell.id: cell for cell in table.cells() if cell.backend == backend}


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [
        ({"module": "torch"}, Expression("module", args=(("name", "torch"),))),
        ({"module": "torch >=2.4,<3"}, Expression("module", args=(("name", "torch"), ("version", ">=2.4,<3")))),
        ({"module": " torch>=2.4 "}, Expression("module", args=(("name", "torch"), ("version", ">=2.4")))),
        (
            {"module": {"name": "cv2", "dist": "opencv-python", "has": "cv2/x.so", "build": "cu"}},
            Expression(
                "module",
                args=(("name", "cv2"), ("dist", "opencv-python"), ("has", "cv2/x.so"), ("build", ("cu",))),
            ),
        ),
        ({"device": "cuda", "why": "w"}, Expression("device", args=(("name", "cuda"),), why="w")),
        ({"arch": "sm_90"}, Expression("arch", args=(("name", "sm_90"),))),
        ({"driver": "cuda >=525"}, Expression("driver", args=(("name", "cuda"), ("version", ">=525")))),
        (
            {"runtime": {"name": "cuda", "version": ">=12"}},
            Expression("runtime", args=(("name", "cuda"), ("version", ">=12"))),
        ),
        ({"cpu": "avx2"}, Expression("cpu", args=(("name", ("avx2",)),))),
        ({"cpu": ["avx2", "fma"]}, Expression("cpu", args=(("name", ("avx2", "fma")),))),
        ({"os": "linux"}, Expression("os", args=(("name", ("linux",)),))),
        ({"machine": ["arm64", "aarch64"]}, Expression("machine", args=(("name", ("arm64", "aarch64")),))),
        ({"python": ">=3.11"}, Expression("python", args=(("name", ">=3.11"),))),
        ({"env": "NAME"}, Expression("env", args=(("name", "NAME"),))),
        ({"env": {"NAME": ""}}, Expression("env", args=(("name", "NAME"), ("value", "")))),
        ({"use": "p"}, Expression("use", args=(("name", "p"),))),
        ({"probe": "a.b:c"}, Expression("probe", args=(("name", "a.b:c"),))),
        (
            {"all": ["p", ["q"], {"not": "r"}, {"any": [{"os": "linux"}]}]},
            Expression(
                "all",
                terms=(
                    Expression("use", args=(("name", "p"),)),
                    Expression("all", terms=(Expression("use", args=(("name", "q"),)),)),
                    Expression("not", terms=(Expression("use", args=(("name", "r"),)),)),
                    Expression("any", terms=(Expression("os", args=(("name", ("linux",)),)),)),
                ),
            ),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_every_atom_has_a_runtime_form(yaml: dict[str, object], expected: Expression) -> None:
    assert expression_of(ExpressionModel.model_validate(yaml)) == expected


@pytest.mark.parametrize(
    ("where", "artifact"),
    [
        ("{device: cuda, arch: sm_90,", "native"),
        ("{device: cuda, arch: sm_90a,", "native"),
        ("{device: cuda, arch: compute_80,", "ptx"),
        ("{device: cuda, arch: triton, variant: mine,", "python"),
        ("{device: cuda,", "python"),
        ("{device: xpu, arch: spir64,", "ptx"),
        ("{device: cpu, arch: amd64,", "native"),
        ("{device: cpu, arch: x86_64, artifact: source,", "source"),
    ],
)
def test_artifacts_default_by_target(where: str, artifact: str, compiled: Compile) -> None:
    (cell,) = cells(compiled(f"{BACKEND}    - {where} impl: 'acme.k:f'}}\n")).values()
    assert cell.artifact == artifact


def test_a_cell_has_everything_its_row_and_file_say(compiled: Compile) -> None:
    text = (
        HEAD
        + "backend: acme\narrays: torch\nrequires: torch_present\nhint: install acme\nkernels:\n  flow_match_step:\n"
        "    - device: cuda\n      arch: sm_120\n      variant: quick\n      impl: 'acme.k:f'\n      arrays: numpy\n"
        "      when: {not: {module: triton}}\n      exclude: [sm_121]\n      degraded: slow\n"
        "      workspace_bytes: 64\n"
        "      accepts: {sample.rank: {max: 4, min: 2}, sigma: 0.5, velocity.dtype: [float32], sample.size: 8}\n"
        "    - {device: cuda, impl: 'acme.k:g', when: torch_present, hint: ask}\n"
    )
    table = compiled(text)
    quick, generic = (cells(table)[f"acme/flow_match_step@cuda.{tail}"] for tail in ("sm_120#quick", "generic#default"))
    assert {name: getattr(quick, name) for name in fields(quick)} == {
        "id": "acme/flow_match_step@cuda.sm_120#quick",
        "backend": "acme",
        "serves": "flow_match_step",
        "device": "cuda",
        "arch": "sm_120",
        "variant": "quick",
        "arrays": "numpy",
        "impl": "acme.k:f",
        "artifact": "native",
        "where": Where("0.yaml", 8, 7, 8, 19),
        "needs": ("torch_present", "not module triton"),
        "exclude": ("sm_121",),
        "degraded": "slow",
        "hint": "install acme",
        "workspace_bytes": 64,
        "accepts": (
            Condition("sigma", "in", (0.5,)),
            Condition("velocity.dtype", "in", ("float32",)),
            Condition("sample.rank", "min", 2),
            Condition("sample.rank", "max", 4),
            Condition("sample.size", "in", (8,)),
        ),
    }
    assert (generic.arrays, generic.needs, generic.hint) == ("torch", ("torch_present",), "ask")
    assert table.predicates["not module triton"].key == "not"
    assert "not module triton" not in table.named
    assert table.backends["acme"].hint == "install acme"


def test_the_reference_of_an_op_is_a_cell(compiled: Compile) -> None:
    table = compiled(HEAD + "ops: {o: {summary: s, signature: '() -> array', reference: 'acme.r:f'}}\n", builtin=False)
    (cell,) = table.kernels["o"]
    assert (cell.id, cell.arrays, cell.impl, cell.needs) == ("reference/o@cpu.numpy#default", "numpy", "acme.r:f", ())
    assert cell.is_reference
    assert str(cell.where) == "0.yaml:2"


def test_tolerances_and_chains(compiled: Compile) -> None:
    table = compiled(
        HEAD + "ops:\n  o:\n    summary: s\n    signature: '() -> array'\n    reference: 'acme.r:f'\n"
        "    tolerance: {float64: exact, float32: {rtol: 1.0e-6}, float16: {atol: 1}}\n"
        "    variants: {default: [quick, default], x: [default]}\n"
        "backend: acme\narrays: numpy\nkernels: {o: [{device: cpu, variant: quick, impl: 'acme.k:f'}]}\n"
    )
    op = table.op("o")
    assert op.tolerance == {"float64": {}, "float32": {"rtol": 1e-6, "atol": 0.0}, "float16": {"rtol": 0.0, "atol": 1}}
    assert op.variants == {"default": ("quick", "default"), "x": ("default",)}


class TestProfiles:
    def test_two_exist_without_any_manifest(self, compiled: Compile) -> None:
        table = compiled(
            HEAD + "devices: {npu: {summary: s, arrays: [numpy]}, cpu: {summary: s, arrays: [numpy]}}\n", builtin=False
        )
        assert table.profile("default").devices == ("npu", "cpu")
        assert table.profile("default").fall["device"] == "warn"
        assert table.profile("strict").fall["device"] == "error"

    def test_what_extends_takes_over_and_replaces(self, compiled: Compile) -> None:
        table = compiled(
            HEAD + "profiles:\n"
            "  c: {extends: b, fall: {device: error}}\n"
            "  b: {extends: a, devices: [cpu], chains: {flow_match_step: {fused: [default]}}}\n"
            "  a:\n    extends: default\n    fall: {device: note, arch: warn}\n    only: torch\n"
            "    chains: {flow_match_step: [fused, default]}\n"
            "  z: {}\n"
        )
        profile = table.profile("c")
        assert (profile.devices, profile.only) == (("cpu",), "torch")
        assert (profile.fall["device"], profile.fall["arch"], profile.fall["broken"]) == ("error", "warn", "warn")
        assert profile.chains == {"flow_match_step": {"default": ("fused", "default"), "fused": ("default",)}}
        assert table.profile("a").devices == table.profile("default").devices
        assert table.profile("z").fall == table.profile("default").fall

    def test_a_long_line_of_profiles_is_no_recursion(self, compiled: Compile) -> None:
        lines = "".join(f"  p{i}: {{extends: p{i + 1}}}\n" for i in range(2000))
        table = compiled(HEAD + "profiles:\n" + lines + "  p2000: {only: torch}\n")
        assert table.profile("p0").only == "torch"


def test_inline_conditions_that_read_the_same_are_kept_apart(compiled: Compile) -> None:
    rows = [f"    - {{device: {d}, impl: 'acme.k:f', when: {{os: linux, why: {d}}}}}\n" for d in ("cuda", "mps", "xpu")]
    table = compiled(BACKEND + "".join(rows))
    needs = {cell.device: cell.needs for cell in cells(table).values()}
    assert {device: table.predicates[names[0]].why for device, names in needs.items()} == {
        d: d for d in ("cuda", "mps", "xpu")
    }
    turned = compiled(BACKEND + "".join(reversed(rows)))
    assert {cell.device: cell.needs for cell in cells(turned).values()} == needs


def test_roots_are_what_units_may_bind(compiled: Compile) -> None:
    assert compiled(HEAD, HEAD).roots == {"rung", "rung_backends", "acme", "extra0", "extra1"}


def test_unrestricted_units_allow_what_they_name(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(HEAD + "ops: {o: {summary: s, signature: '() -> array', reference: 'free.r:f'}}\n")
    assert compile_units([Unit(path, "a.yaml", None)]).roots == {"free"}


def test_errors_come_together_in_report_order(compiled: Compile) -> None:
    with pytest.raises(ManifestError) as caught:
        compiled(HEAD + "kinds: {K: {summary: s}, k: {}}\n", HEAD + "nope: 1\n")
    assert [p.code for p in caught.value.problems] == ["RG205", "RG203", "RG201"]
    assert str(caught.value).splitlines()[0] == "3 problems in the manifests:"
    assert "0.yaml:2:9: RG205 `K` is no legal name" in str(caught.value)


def test_local_rows_become_cells() -> None:
    here = Where("app.py", 3)
    row = LocalRow(
        "kernels", "flow_match_step", {"device": ["mps"], "impl": "local:f", "when": {"probe": "local:p"}}, here
    )
    table = compile_units([BUILTIN], [row])
    cell = cells(table, "local")["local/flow_match_step@mps.generic#default"]
    assert (cell.where, cell.needs, cell.impl) == (here, ("probe local:p",), "local:f")
    assert "local" in table.roots
