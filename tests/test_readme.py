"""The README's examples, run as they stand."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

import rung
from rung.cli import main

if TYPE_CHECKING:
    import pytest

    from conftest import Write

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)```", page, re.S | re.M)
    return [re.sub(rf"^{margin}", "", block, flags=re.M) for margin, block in found]


def commands(page: str, about: str) -> list[list[str]]:
    lines = [line.strip() for line in page.splitlines()]
    return [
        line.removeprefix("$ rung ").partition("#")[0].split()
        for line in lines
        if line.startswith("$ rung") and about in line
    ]


def test_the_first_calls_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rung.FallbackWarning)
        for block in blocks("python")[:3]:
            exec(block, names)
    assert callable(names["step"])
    assert callable(names["norm"])
    assert "flow_match_step on " in capsys.readouterr().out


def test_the_first_manifest_works_with_the_commands_below_it(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (manifest,) = blocks("yaml")
    module = blocks("python")[3]
    monkeypatch.chdir(write({"my_manifests/fast_cpu.yaml": manifest, "fast_cpu.py": module}))
    *shown, again = commands(README, "my_manifests")
    assert len(shown) == 3
    assert again == shown[0]
    for command in shown:
        assert main(command) == 0, command
    assert "fast_cpu/flow_match_step@cpu.x86_64_v3#default" in capsys.readouterr().out
    table = rung.load(["my_manifests"], allow=["fast_cpu"])
    facts = rung.Facts.of({"facts": 1, "cpu": {"flags": ["avx2", "fma"]}})
    platform = rung.Platform.of("cpu", "x86_64_v4", arrays="numpy", table=table, facts=facts)
    cell = platform.resolve("flow_match_step").cell
    assert cell is not None
    assert cell.backend == "fast_cpu"


def test_a_backend_in_five_minutes(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (manifest, accepts), (module,) = blocks("yaml", page), blocks("python", page)
    manifest = manifest.replace("      when: torch_cuda", f"{indent(dedent(accepts), ' ' * 6)}      when: torch_cuda")
    assert "accepts:" in manifest
    facts = (ROOT / "tests/facts/h200.yaml").read_text(encoding="utf-8")
    root = write({
        "my_backend/manifests/my_backend.yaml": manifest,
        "my_backend/__init__.py": "",
        "my_backend/solver.py": module,
        "h200.yaml": facts,
    })  # fmt: skip
    monkeypatch.chdir(root)
    shown = commands(page, "my_backend")
    assert [command[0] for command in shown] == ["check", "explain", "explain", "parity"]
    for command in shown:
        assert main(command) == 0, command
    out = capsys.readouterr().out
    assert "-> my_backend/flow_match_step@cuda.sm_90a#default" in out
    assert "my_backend/flow_match_step@cpu.x86_64#default" in out


def test_the_explanation_shown_is_what_explain_prints() -> None:
    shown = next(b for b in blocks("console") if "fall on device" in b).partition("\n")[2]
    facts = rung.Facts.of({
        "facts": 1,
        "modules": {"torch": "2.13.0", "triton": False},
        "files": {f"torch/lib/{name}": True for name in ("libtorch_cuda.so", "torch_cuda.dll")},
        "devices": {"cuda": [], "cpu": [{"arch": "x86_64_v3"}]},
    })  # fmt: skip
    platform = rung.Platform.of("cuda", "sm_90", facts=facts, table=rung.load())
    printed = re.sub(r"\(\S*?manifests/", "(manifests/", str(platform.explain("flow_match_step")))
    assert printed == shown.rstrip("\n")


def test_every_link_leads_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "docs/decisions/README.md", "examples/digits/README.md"):
        page = ROOT / name
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{name}: {target}"


def test_the_finding_is_what_check_prints(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (manifest,) = blocks("yaml")
    files = {
        "my_manifests/fast_cpu.yaml": manifest.replace("x86_64_v3", "x86_64_v33"),
        "fast_cpu.py": blocks("python")[2],
    }
    monkeypatch.chdir(write(files))
    (block,) = (block for block in blocks("console") if block.startswith("$ rung check my_manifests\n"))
    assert main(["check", "my_manifests"]) == 1
    assert block.partition("\n")[2] in capsys.readouterr().out
