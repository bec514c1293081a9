"""`rung new backend`: what it writes is clean, fails until it is filled in, and never touches what exists."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rung
from rung import records
from rung.cli import main
from rung.cli.scaffold import Plan, files, plan, stub
from rung.entries import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]

SCHEMA = "schemas/workspace.schema.json"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command of rung in a fresh directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # commands add their root to it

    def command(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return command


def tree(root: Path) -> dict[str, str]:
    return {p.relative_to(root).as_posix(): p.read_text("utf-8") if p.is_file() else "" for p in root.rglob("*")}


def tried(root: Path) -> tuple[int, str]:
    """Run the generated tests as their author would."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", "tests"],
        cwd=root,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def fill_in(path: Path, name: str, body: str) -> None:
    """Write a function that was left to be written."""
    text = path.read_text("utf-8")
    refusal = next(
        line for line in text.splitlines() if line.strip().startswith("raise") and line.endswith(f'{name}")')
    )
    path.write_text(text.replace(refusal, f"    {body}"), "utf-8")


class TestWhatIsWritten:
    def test_every_file_is_named_and_the_next_commands_work(self, run: Run, tmp_path: Path) -> None:
        code, out, err = run("new", "backend", "acme")
        written = ["acme/__init__.py", "acme/kernels.py", "acme/manifests/acme.yaml", "tests/test_acme.py", SCHEMA]
        assert (code, err) == (0, "")
        assert out.splitlines()[:5] == [f"wrote {path}" for path in written]
        assert sorted(path for path in tree(tmp_path) if (tmp_path / path).is_file()) == sorted(written)
        check, test, explain = (line.partition("#")[0].split() for line in out.splitlines()[7:])
        assert test == ["python", "-m", "pytest", "tests/test_acme.py"]
        assert run(*check[1:])[:2] == (0, "")
        code, out, _ = run(*explain[1:])
        assert code == 0
        assert "acme/flow_match_step@cpu.numpy#default" in out

    def test_the_json_form(self, run: Run) -> None:
        code, out, _ = run("new", "backend", "acme", "--kind", "vae", "--format", "json")
        report = json.loads(out)
        assert code == 0
        assert report["format_version"] == 1
        assert "acme/components.py" in report["written"]
        assert "acme/kernels.py" not in report["written"]
        assert len(report["next"]) == 3

    @pytest.mark.parametrize(
        "flags",
        [
            "",
            "--arrays torch",
            "--device cuda",
            "--device cuda --arrays numpy",
            "--device cuda --arch sm_90a",
            "--device cuda --arch SM90",
            "--device cuda --arch torch",
            "--device rocm --arch gfx942 --op flow_sde_step",
            "--device mps",
            "--device xpu --kind dit",
            "--device accel",
            "--device accel --arch accel_v1 --op flow_sde_step --kind vae",
            "--op flow_sde_step --op flow_match_step --op flow_sde_step --kind dit --kind vae",
            "--arch x86_64_v3",
            "--arch generic",
        ],
    )
    def test_it_has_no_finding_whatever_is_asked_for(self, run: Run, tmp_path: Path, flags: str) -> None:
        assert run("new", "backend", "acme", *flags.split())[0] == 0
        assert run("check", "--strict", "acme/manifests")[:2] == (0, "")
        assert run("check", "--strict", "--allow", "acme", "acme/manifests")[:2] == (0, "")
        for path, text in tree(tmp_path).items():
            assert path.endswith(".json") or max(map(len, text.splitlines()), default=0) <= 120
            if path.endswith(".py"):
                ast.parse(text)

    @pytest.mark.parametrize(
        ("flags", "lines"),
        [
            ("", ["arrays: numpy", "- device: cpu", "arch: numpy"]),
            ("--arrays torch", ["requires: torch_present", "arch: torch", "variant: acme"]),
            ("--device cuda", ["arch: triton", "when: [torch_cuda, {module: triton}]"]),
            ("--device cuda --arrays numpy", ["arch: generic", "when: {device: cuda}"]),
            ("--device cuda --arch sm_90a", ["arch: sm_90a", "when: torch_cuda"]),
            ("--device cuda --kind vae", ["- device: cuda", "when: torch_cuda"]),
        ],
    )
    def test_a_device_that_may_be_absent_is_asked_for(
        self, run: Run, tmp_path: Path, flags: str, lines: list[str]
    ) -> None:
        run("new", "backend", "acme", *flags.split())
        manifest = (tmp_path / "acme/manifests/acme.yaml").read_text("utf-8")
        written = [line.partition("  #")[0].strip() for line in manifest.splitlines()]
        assert [line for line in lines if line not in written] == []
        assert any(line.startswith("when") for line in written) is ("cuda" in flags)

    def test_a_second_backend_shares_the_schema(self, run: Run, tmp_path: Path) -> None:
        run("new", "backend", "acme")
        code, out, _ = run("new", "backend", "other")
        assert code == 0
        assert "  rung check --strict acme/manifests other/manifests " in out
        assert json.loads((tmp_path / SCHEMA).read_text("utf-8"))["x-manifests"] == [
            "../acme/manifests",
            "../other/manifests",
        ]
        for paths in (["acme/manifests"], ["other/manifests"], ["acme/manifests", "other/manifests"]):
            assert run("check", "--strict", *paths)[:2] == (0, "")

    def test_another_root_is_written_below(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "deep/er").mkdir(parents=True)
        code, out, _ = run("new", "backend", "acme", "--root", "deep/er")
        assert code == 0
        assert "next in deep/er:" in out
        assert {path.partition("/")[0] for path in tree(tmp_path)} == {"deep"}
        assert run("check", "--strict", "--root", "deep/er", "deep/er/acme/manifests")[:2] == (0, "")


OPS = """\
# yaml-language-server: $schema=../schemas/workspace.schema.json
manifest: 1
ops:
  attend:
    summary: Attention.
    signature: "(q: array, k: array) -> array"
    reference: "ours.ops:attend"
    cases: "ours.ops:cases"
    tolerance: {float32: {rtol: 1.0e-5, atol: 1.0e-5}}
"""
OURS = """\
def attend(q, k):
    return q + k


def cases(dtype, rng):
    yield (rng.random(3, dtype), rng.random(3, dtype)), {}
"""


@pytest.fixture
def repository(run: Run, tmp_path: Path) -> Path:
    """Give a directory with an op of its own; its schema is written."""
    for path, text in {"m/ops.yaml": OPS, "ours/__init__.py": "", "ours/ops.py": OURS}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    run("schema", "m")
    return tmp_path


class TestAWorkspaceOfItsOwn:
    @pytest.mark.parametrize(
        ("configured", "flags"),
        [
            ('manifests = ["m"]\nallow = ["ours"]', ""),
            ('manifests = ["m"]', ""),
            ('manifests = ["m", "later"]', ""),
            ("", "--manifests m"),
            ("", "--manifests m/ops.yaml"),
            ('allow = ["ours"]', "--manifests m"),
        ],
        ids=["configured", "nothing allowed", "a directory to come", "named", "a file", "named and allowed"],
    )
    def test_its_ops_are_known_and_the_next_commands_work(
        self, run: Run, repository: Path, configured: str, flags: str
    ) -> None:
        (repository / "pyproject.toml").write_text(f"[tool.rung]\n{configured}\n", "utf-8")
        code, out, err = run("new", "backend", "flashx", "--op", "attend", *flags.split())
        assert (code, err) == (0, "")
        check, _, explain = (line.partition("#")[0].split() for line in out.splitlines() if line.startswith("  "))
        assert run(*check[1:])[:2] == (0, "")
        code, out, err = run(*explain[1:])
        assert (code, "flashx/attend@cpu.numpy#default" in out) == (0, True), out + err
        ast.parse((repository / "tests/test_flashx.py").read_text("utf-8"))

    def test_the_generated_test_knows_it_too(self, run: Run, repository: Path) -> None:
        run("new", "backend", "flashx", "--op", "attend", "--manifests", "m")
        code, out = tried(repository)
        assert code == 1
        assert "NotImplementedError: write flashx.kernels.attend" in out

    def test_one_that_holds_the_new_directory_is_named_alone(self, run: Run, repository: Path) -> None:
        (repository / SCHEMA).unlink()
        code, out, _ = run("new", "backend", "flashx", "--op", "attend", "--manifests", ".")
        assert code == 0
        assert json.loads((repository / SCHEMA).read_text("utf-8"))["x-manifests"] == [".."]
        check = next(line for line in out.splitlines() if "rung check" in line).partition("#")[0].split()
        assert check[1:] == ["check", "--strict", "."]
        assert run(*check[1:])[:2] == (0, "")

    def test_one_with_errors_is_to_be_repaired_first(self, run: Run, repository: Path) -> None:
        (repository / "m/ops.yaml").write_text(OPS.replace("signature", "sgnature"), "utf-8")
        before = tree(repository)
        code, out, err = run("new", "backend", "flashx", "--op", "attend", "--manifests", "m")
        assert (code, out) == (2, "")
        assert "(`rung check m` shows them)" in err
        assert tree(repository) == before


class TestTheGeneratedTest:
    def test_it_fails_until_the_kernel_is_right(self, run: Run, tmp_path: Path) -> None:
        run("new", "backend", "acme")
        code, out = tried(tmp_path)
        assert code == 1
        assert "NotImplementedError: write acme.kernels.flow_match_step" in out
        kernels = tmp_path / "acme/kernels.py"
        fill_in(kernels, "flow_match_step", "return sample - (sigma_next - sigma) * velocity")
        code, out = tried(tmp_path)
        assert code == 1
        assert "element [" in out
        kernels.write_text(kernels.read_text("utf-8").replace("sample - (", "sample + ("), "utf-8")
        code, out = tried(tmp_path)
        assert (code, "1 passed" in out) == (0, True), out

    def test_components_and_a_variant_of_its_own_are_tried_too(self, run: Run, tmp_path: Path) -> None:
        run("new", "backend", "acme", "--op", "flow_match_step", "--kind", "vae", "--device", "accel")
        fill_in(tmp_path / "acme/kernels.py", "flow_match_step", "return sample + (sigma_next - sigma) * velocity")
        code, out = tried(tmp_path)
        assert code == 1
        assert "NotImplementedError: write acme.components.build_vae" in out
        assert "1 failed, 1 passed" in out
        fill_in(tmp_path / "acme/components.py", "build_vae", "return spec.kind, platform.device")
        code, out = tried(tmp_path)
        assert (code, "2 passed" in out) == (0, True), out

    def test_what_cannot_run_here_is_skipped_with_the_reason(self, run: Run, tmp_path: Path) -> None:
        ask = ["--op", "flow_match_step", "--kind", "vae", "--device", "mps" if sys.platform != "darwin" else "rocm"]
        run("new", "backend", "acme", *ask)
        code, out = tried(tmp_path)
        assert (code, "2 skipped" in out) == (0, True), out
        assert "acme/flow_match_step@" in out


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("My-Backend", "did you mean `my_backend`?"),
            ("9lives", "`9lives` is no name"),
            ("a/b", "`a/b` is no name"),
            ("..", "`..` is no name"),
            ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "is no name"),
            ("x" * 65, "has 65 characters: a name has at most 64"),
            ("X" * 3000, "has 3000 characters"),
            *((word, "is no name to YAML") for word in ("on", "off", "true", "false", "null", "no", "yes", "y", "n")),
            ("lambda", "means something else to Python"),
            ("nul", "means something else to Windows"),
            ("com1", "means something else to Windows"),
            ("torch", "a backend is called `torch` already (manifests/backends/torch.yaml:"),
            ("reference", "`reference` is a reserved name"),
            ("local", "`local` is a reserved name"),
            ("tests", "`tests` is a reserved name"),
            ("numpy", "`numpy` is a Python package already"),
            ("json", "`json` is a Python package already"),
            ("rung_backends", "`rung_backends` is a Python package already"),
        ],
    )
    def test_a_name_that_cannot_be_taken(self, run: Run, tmp_path: Path, name: str, said: str) -> None:
        code, out, err = run("new", "backend", name)
        assert (code, out) == (2, "")
        assert said in err.replace(str(Path(rung.__file__).parents[2]) + "/", "")
        assert tree(tmp_path) == {}

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            ("--op flow_mach_step", "did you mean `flow_match_step`?"),
            ("--op vae", "it is a component kind"),
            ("--kind vea", "did you mean `vae`?"),
            ("--device cudo", "did you mean `cuda`?"),
            ("--device cuda --arch sm_9O", "did you mean `sm_90`?"),
            ("--kind vae --arch x86_64", "components have none"),
            ("--device accel --arrays torch", "callers on `accel` hold numpy"),
            ("--arrays jax", "invalid choice"),
            ("--device cuda --device rocm", "`cuda` and `rocm`: a backend starts with one"),
            ("--device cpu --device cuda", "`cpu` and `cuda`: a backend starts with one"),
            ("--arch sm_90 --arch sm_80", "`sm_90` and `sm_80`: a backend starts with one"),
            ("--arrays numpy --arrays torch", "`numpy` and `torch`: a backend starts with one"),
            ("--output .", "is a directory"),
            ("--manifests nowhere", "no such file or directory"),
            ("--root nowhere", "no such directory"),
        ],
    )
    def test_what_nobody_declares(self, run: Run, tmp_path: Path, flags: str, said: str) -> None:
        code, out, err = run("new", "backend", "acme", *flags.split())
        assert (code, out) == (2, "")
        assert said in err
        assert tree(tmp_path) == {}

    @pytest.mark.parametrize(
        "existing", ["acme/kernels.py", "acme/mine.txt", "acme.py", "tests/test_acme.py", "tests", SCHEMA]
    )
    def test_what_exists_is_never_changed_and_nothing_else_is_written(
        self, run: Run, tmp_path: Path, existing: str
    ) -> None:
        path = tmp_path / existing
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine\n", "utf-8")
        before = tree(tmp_path)
        code, out, err = run("new", "backend", "acme")
        assert (code, out) == (2, "")
        assert existing.partition("/")[0] in err
        assert tree(tmp_path) == before

    def test_a_write_that_fails_leaves_nothing(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        opened = Path.open

        def full(self: Path, *arguments: str, **named: str) -> object:
            if self.name == "test_acme.py":
                raise OSError("no space left")
            return opened(self, *arguments, **named)  # type: ignore[call-overload]

        monkeypatch.setattr(Path, "open", full)
        code, _, err = run("new", "backend", "acme")
        monkeypatch.undo()
        assert code == 2
        assert "no space left" in err
        assert tree(tmp_path) == {}

    @pytest.mark.parametrize("linked", ["tests", "schemas", "acme"])
    def test_nothing_is_written_through_a_link_that_leads_out(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: str
    ) -> None:
        for folder in ("in", "out"):
            (tmp_path / folder).mkdir()
        try:
            (tmp_path / "in" / linked).symlink_to(tmp_path / "out", target_is_directory=True)
        except OSError:
            pytest.skip("no links here")
        monkeypatch.chdir(tmp_path / "in")
        code, out, _ = run("new", "backend", "acme")
        assert (code, out) == (2, "")
        assert [*(tmp_path / "out").iterdir()] == []
        assert [path.name for path in (tmp_path / "in").iterdir()] == [linked]

    def test_new_alone_shows_what_there_is(self, run: Run) -> None:
        code, out, _ = run("new")
        assert code == 2
        assert "backend" in out
        code, out, _ = run("new", "backend", "--help")
        assert code == 0
        assert "Example: rung new backend acme --op" in out


def made(**changes: str) -> dict[str, str]:
    """Give the files of a backend for one op, changed as given."""
    table = rung.load()
    op = "flow_match_step"
    record = records.replace(table.op(op), **changes)
    kinds = [Kind("vae", record.summary, record.where)]
    planned: Plan = plan(table, "acme", table.device("cpu"), None, "numpy", [table.op(op)], kinds)
    return dict(files(replace(planned, ops=(record,)), SCHEMA))


class TestStubs:
    @pytest.mark.parametrize(
        "summary", ['Says "so"', 'Ends in """', "A back\\slash", "Two\nlines", "word " * 60], ids=lambda s: s[:12]
    )
    def test_any_summary_makes_a_docstring(self, summary: str) -> None:
        for path, text in made(summary=summary).items():
            if path.endswith(".py"):
                tree = ast.parse(text)
                documented = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and "raise" in ast.unparse(n)]
                for node in documented:
                    said = " ".join((ast.get_docstring(node) or "").split())
                    assert " ".join(summary.replace('"""', "'''").split()) in said

    def test_an_op_named_like_a_keyword_gets_a_function(self) -> None:
        text = made(name="lambda")
        assert "def lambda_(" in text["acme/kernels.py"]
        assert '"acme.kernels:lambda_"' in text["acme/manifests/acme.yaml"]

    @pytest.mark.parametrize(
        "signature",
        [
            "(x: array) -> array",
            "() -> float",
            "(x: array, /, y: float = 1.5, *, text: str = 'a') -> tuple[array, array]",
            "(x: array, /) -> array",
            "(*, mask: array | None = None, scale: float = -1.0) -> array",
            "(one_of_many: array, another_of_them: array, /, third: float = 0.1, *, last: bool = True) -> tuple[array]",
        ],
    )
    @pytest.mark.parametrize("array", ["Tensor", "Array"])
    def test_a_stub_has_the_signature_of_its_op(self, signature: str, array: str) -> None:
        def signature_of(text: str) -> inspect.Signature:
            scope: dict[str, Callable[..., object]] = {}
            exec(f"from __future__ import annotations\n{text} ...\n", scope)
            return inspect.signature(scope["op"])

        head = stub("op", signature, array)
        assert max(map(len, head.splitlines())) <= 100
        wanted = f"def op{signature}:".replace("array", array)
        assert signature_of(head) == signature_of(wanted)
