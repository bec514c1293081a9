"""Whatever bytes a manifest holds, each command answers: by its exit codes, with no traceback and nothing raw."""

from __future__ import annotations

import importlib
import io
import json
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import damaged
from rung.cli import CLEAN, FINDINGS, USAGE, main
from rung.cli.report import FORMATS
from rung.load import BUILTIN_ROOTS
from rung.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

FUZZ = settings(derandomize=True, max_examples=150, deadline=None, database=None)
FACTS = str(Path(__file__).parents[1] / "facts" / "h200.yaml")

COMMANDS = {
    **{f"check-{name}": ["check", "--format", name, "{}"] for name in FORMATS},
    "check-allowed": ["check", "--strict", "--allow", "rung_backends", "{}"],
    "fix": ["fix", "--diff", "{}"],
    "fix-json": ["fix", "--diff", "--format", "json", "{}"],
    "explain": ["explain", "flow_match_step", "--allow", "acme", "--facts", FACTS, "--manifests", "{}"],
    "explain-json": ["explain", "dit", "--format", "json", "--facts", FACTS, "--manifests", "{}"],
    "matrix": ["matrix", "--facts", FACTS, "--manifests", "{}"],
    "ladder": ["ladder", "cuda", "sm_90", "--manifests", "{}"],
    "schema": ["schema", "--check", "{}"],
}
JSON = ("json", "sarif")
NAMES = ["x.yaml", "\x1b[31m.yaml", "\u202ee\u0301.yml", "a%0Ab,c=d.yaml", "a\nb.yaml", "\udcff.yaml"]
# Enough for what the manifests refer to. The shipped ones as a whole take long to judge, and are not what is damaged.
OWN = """\
manifest: 1
devices:
  cpu: {summary: The CPU., arrays: [numpy, torch], archs: {x86_64: {}}, portable: [numpy, torch]}
  cuda:
    summary: NVIDIA GPUs.
    falls_back_to: cpu
    arrays: [torch, numpy]
    pattern: sm_
    archs: {sm_80: {products: [A100]}, sm_90: {runs: [sm_80], products: [H200]}}
    targets: {sm_90a: {only: sm_90}}
    jit: {prefix: compute_, rule: at_least}
    portable: [triton, torch]
predicates:
  torch_present: {module: torch >=2.4}
  torch_cuda: [torch_present, {device: cuda}]
ops:
  flow_match_step:
    summary: One step.
    signature: "(sample: array, velocity: array, sigma: float, sigma_next: float) -> array"
    reference: "rung_backends.reference.solver:flow_match_step"
kinds: {dit: {summary: A transformer.}, vae: {summary: A codec.}}
platforms: {h200: {summary: A server., device: cuda, arch: sm_90, os: linux, cpu: x86_64}}
"""


@pytest.fixture(scope="module", autouse=True)
def small_builtin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let few manifests be rung's own."""
    directory = tmp_path_factory.mktemp("own")
    (directory / "own.yaml").write_text(OWN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            importlib.import_module("rung.load"),
            "builtin_unit",
            lambda *_: Unit(directory, "manifests", BUILTIN_ROOTS, "own"),
        )
        yield


def answer(argv: list[str]) -> tuple[int, str, str]:
    """Run a command and give its exit code, its report and what it said besides."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(argv)
    return code, out.getvalue(), err.getvalue()


def judge(command: str, files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name, data in files.items():
            Path(directory, name).write_bytes(data)
        argv = [part.replace("{}", directory) for part in COMMANDS[command]]
        code, out, err = answer([*argv, "--root", directory, "--no-color"])
        left = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
    assert code in (CLEAN, FINDINGS, USAGE), err
    assert left == files
    assert all(line.isprintable() for line in [*out.split("\n"), *err.split("\n")])
    if command.endswith(JSON):
        assert out == "" if code == USAGE else isinstance(json.loads(out), dict)


@FUZZ
@given(
    st.sampled_from(sorted(COMMANDS)),
    st.dictionaries(
        st.sampled_from(NAMES),
        st.one_of(damaged.texts(), damaged.shapes(), st.binary(max_size=200)),
        min_size=1,
        max_size=2,
    ),
)
@example("check-full", {"x.yaml": b"a: \x1b[31m\n"})
@example("check-github", {"a\nb.yaml": b"manifest: 1\nops: {'::error ::x': 1}\n"})
def test_no_manifest_makes_a_command_fail(command: str, files: dict[str, bytes]) -> None:
    judge(command, files)
