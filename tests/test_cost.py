"""What a start and a resolved call cost, counted and never timed: modules, calls, bytecode, instructions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import rung
from benchmarks.guards import CALLS, functions
from counting import entered, executed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Load, Write

START = "import rung\nplatform = rung.detect()\nplatform.resolve('flow_match_step')\n"
ALLOWED = {"__future__", "_blake2", "_json", "errno", "itertools"}
"""What a start may import beside rung. `_json` and `_blake2` are the parts of json and hashlib that cost nothing."""
ONE_OP = """
manifest: 1
backend: acme
arrays: numpy
ops:
  double:
    summary: Twice the argument.
    signature: "(a: array, b: array) -> array"
    reference: "acme.kernels:double"
    variants: {fast: [fast, default]}
kernels:
  double:
    - {device: cpu, variant: fast, impl: "acme.kernels:fast"}
"""
KERNELS = "def double(a, b):\n    return a\n\n\ndef fast(a, b):\n    return a\n"


def run(program: str, cache: Path, **more: str) -> list[str]:
    """Give the modules a program imports in a fresh process, beside those Python starts with."""
    script = (
        f"import sys\nbefore = set(sys.modules)\n{program}\n"
        "print(*sorted(name for name in set(sys.modules) - before if name.partition('.')[0] != 'rung'))"
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RUNG_")}
    env = {**kept, "RUNG_CACHE_DIR": str(cache), **more}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=cache, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1].split()


class TestStart:
    """A fresh table is there: what is imported until an op is resolved, bound and called."""

    def test_resolving_imports_next_to_nothing(self, tmp_path: Path) -> None:
        run(START, tmp_path)  # asks what is installed here, and keeps the answers
        assert set(run(START, tmp_path)) <= ALLOWED

    def test_the_shipped_table_needs_no_cache(self, tmp_path: Path) -> None:
        found = run("import rung\nrung.Platform.of('cpu', 'generic', arrays='numpy').resolve('flow_match_step')",
                    tmp_path, RUNG_PLUGINS="off", RUNG_CACHE="off")  # fmt: skip
        assert set(found) <= ALLOWED
        assert list(tmp_path.iterdir()) == []

    def test_calling_imports_the_backend_that_serves_and_no_other(self, tmp_path: Path) -> None:
        call = START + "rung.Platform.cpu().kernels['flow_match_step'](ones, ones, 0.5, 0.25)\n"
        call = f"import numpy\nbefore = set(sys.modules)\nones = numpy.ones(2)\n{call}"
        run(call, tmp_path)
        found = run(call, tmp_path)
        backends = {name for name in found if name.startswith("rung_backends")}
        assert backends >= {"rung_backends", "rung_backends.reference", "rung_backends.reference.solver"}
        shared = {"rung_backends", "rung_backends.numbers"}
        assert all(name.startswith("rung_backends.reference") for name in backends - shared)
        assert {name for name in set(found) - backends if name.partition(".")[0] != "numpy"} <= ALLOWED

    def test_a_kept_table_is_read_without_the_authoring_half(self, tmp_path: Path) -> None:
        manifests = tmp_path / "m"
        manifests.mkdir()
        (manifests / "acme.yaml").write_text(ONE_OP, encoding="utf-8")
        load = (
            f"import rung\ntable = rung.load([{str(manifests)!r}], allow=['acme'])\n"
            "rung.Platform.of('cpu', 'generic', table=table).resolve('double')\n"
        )
        assert "yaml" in run(load, tmp_path)
        assert set(run(load, tmp_path)) <= ALLOWED

    def test_the_older_names_are_imported_when_they_are_asked_for(self, tmp_path: Path) -> None:
        script = "import rung, sys\nassert 'rung.registry' not in sys.modules\nrung.KERNELS, rung.kernel_matrix\n"
        run(script + "assert 'rung.registry' in sys.modules\n", tmp_path)

    def test_every_public_name_is_there(self) -> None:
        assert [name for name in rung.__all__ if not hasattr(rung, name)] == []
        assert set(rung.__all__) <= set(dir(rung))
        with pytest.raises(AttributeError, match="module `rung` has no `kernel_matrx`"):
            rung.kernel_matrx  # noqa: B018


@pytest.fixture
def platform(load: Load) -> rung.Platform:
    table = load(ONE_OP, acme__kernels=KERNELS)
    made = rung.Platform.of("cpu", "generic", arrays="numpy", table=table)
    assert made.kernels["double"] is not made.kernels.get("double", "fast")
    return made


class TestResolvedCall:
    """What a call of a kernel costs once it is resolved: see Note [What a resolved call costs]."""

    @pytest.mark.parametrize("profile", ["default", "strict", "reference"])
    def test_the_kernel_is_the_implementation_whatever_the_policy(self, load: Load, profile: str) -> None:
        table = load(ONE_OP, acme__kernels=KERNELS)
        kernels = rung.Platform.of("cpu", "generic", arrays="numpy", profile=profile, table=table).kernels
        double = sys.modules["acme.kernels"].double if kernels["double"] else None
        assert kernels["double"] is kernels.double is kernels.get("double") is double

    @pytest.mark.parametrize(
        ("call", "enters"),
        [
            pytest.param(lambda k: k["double"](1, 2), ["double"], id="kernels[op]"),
            pytest.param(lambda k: k.double(1, 2), ["double"], id="kernels.op"),
            pytest.param(lambda k: k.get("double")(1, 2), ["get", "double"], id="kernels.get(op)"),
            pytest.param(lambda k: k.get("double", "fast")(1, 2), ["get", "fast"], id="kernels.get(op, variant)"),
            pytest.param(lambda k: k.require("double", "fast")(1, 2), ["require", "fast"], id="kernels.require"),
        ],
    )
    def test_it_enters_nothing_but(
        self, platform: rung.Platform, call: Callable[[Any], object], enters: list[str]
    ) -> None:
        kernels = platform.kernels
        call(kernels)
        assert entered(lambda: call(kernels)) == ["<lambda>", "<lambda>", *enters]

    @pytest.mark.parametrize("name", ["get", "require"])
    def test_get_is_a_handful_of_instructions(self, platform: rung.Platform, name: str) -> None:
        get = getattr(platform.kernels, name)
        get("double", "fast")
        assert executed(lambda: get("double", "fast")) - executed(lambda: None) <= 16

    def test_a_hit_compares_no_text(self, platform: rung.Platform) -> None:
        # Whoever asks first, and with whatever string: what is kept is the one that code spells.
        op, variant = (bytes.decode(word) for word in (b"double", b"fast"))
        assert op is not sys.intern(op)
        assert variant is not sys.intern(variant)
        kernels = rung.Platform.of("cpu", "generic", arrays="numpy", table=platform.table).kernels
        assert kernels[op] is platform.kernels["double"]
        assert kernels.get(op, variant) is kernels.require(op, variant)
        assert [key is sys.intern(op) for key in dict.__iter__(kernels)] == [True]
        for kept in (kernels._found, kernels._required):
            assert [key is sys.intern(variant) for key in kept if key != "default"] == [True]
            assert [key is sys.intern(op) for key in kept["fast"]] == [True]

    def test_nothing_hooks_the_lookup_of_attributes(self, platform: rung.Platform) -> None:
        # A class with `__getattr__` has its methods looked up the slow way, too.
        kind = type(platform.kernels)
        assert not any("__getattr__" in vars(base) for base in kind.__mro__)
        assert "__getitem__" not in vars(kind)
        assert "__getitem__" not in vars(rung.KernelTable)


def matrix(ops: int, cells: int) -> str:
    """Give manifests of some ops with so many cells each."""
    lines = ["manifest: 1\nbackend: acme\narrays: numpy\nops:\n"]
    for op in range(ops):
        text = f'  op{op}: {{summary: x, signature: "(a: array) -> array", reference: "acme.kernels:double"}}\n'
        lines.append(text)
    lines.append("kernels:\n")
    for op in range(ops):
        lines.append(f"  op{op}:\n")
        lines += [f'    - {{device: cpu, variant: v{n}, impl: "acme.kernels:fast"}}\n' for n in range(cells)]
    return "".join(lines)


class TestGrowth:
    """Cost that does not grow with the matrix."""

    @pytest.fixture
    def tables(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[rung.Table]:
        """A small table, the same again, and one with a hundred times its ops, as they are read from the cache."""
        monkeypatch.setenv("RUNG_CACHE", "on")
        monkeypatch.setenv("RUNG_CACHE_DIR", str(tmp_path / "cache"))
        found = []
        for ops in (1, 1, 100):
            path = tmp_path / f"{ops}.yaml"
            path.write_text(matrix(ops, 5), encoding="utf-8")
            found += [rung.load([path], allow=["acme"]) for _ in range(2)][1:]
        return found

    def test_a_first_resolution_executes_as_much_in_a_large_matrix(self, tables: list[rung.Table]) -> None:
        facts = rung.Facts.of({"facts": 1, "devices": {"cpu": [{"arch": "x86_64"}]}, "env": {"RUNG_DISABLE": ""}})

        def count(table: rung.Table) -> int:
            platform = rung.Platform.of("cpu", "generic", arrays="numpy", facts=facts, table=table)
            return executed(lambda: platform.resolve("op0", "v3"))

        _, small, large = map(count, tables)  # the first one also has CPython prepare the code for being traced
        assert small == large

    def test_it_makes_the_cells_of_that_op_alone(self, tables: list[rung.Table]) -> None:
        table = tables[2]
        rung.Platform.of("cpu", "generic", arrays="numpy", table=table).resolve("op7")
        made = [name for name, held in table.kernels._held.items() if not isinstance(held, str)]  # type: ignore[attr-defined]
        assert made == ["op7"]


INSTRUCTIONS = """
import sys
def f(a, b):
    return a
class Kernels(dict):
    pass
import rung
table = rung.load([sys.argv[1]], allow=["acme"])
kernels = rung.Platform.of("cpu", "generic", arrays="numpy", table=table).kernels
f = kernels["double"]
kernels.get("double", "fast")
def empty():
    for _ in range(int(sys.argv[3])):
        pass
def direct():
    for _ in range(int(sys.argv[3])):
        f(1, 2)
def item():
    for _ in range(int(sys.argv[3])):
        kernels["double"](1, 2)
def get():
    for _ in range(int(sys.argv[3])):
        kernels.get("double", "fast")(1, 2)
globals()[sys.argv[2]]()
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind counts instructions, and is not installed")
class TestInstructions:
    """The machine's own instructions, as callgrind counts them."""

    def test_a_resolved_call_against_a_direct_one(self, write: Write) -> None:
        root = write({"m/acme.yaml": ONE_OP, "acme/__init__.py": "", "acme/kernels.py": KERNELS, "p.py": INSTRUCTIONS})

        out, times = root / "callgrind.out", 20_000
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable]
        env = {**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}
        env |= {"RUNG_CACHE": "on", "RUNG_CACHE_DIR": str(root / "cache")}
        subprocess.run([sys.executable, str(root / "p.py"), str(root / "m"), "empty", "1"], env=env, check=True)

        def start(name: str) -> subprocess.Popen[str]:
            command = [*valgrind, str(root / "p.py"), str(root / "m"), name, str(times)]
            return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)

        def count(process: subprocess.Popen[str]) -> int:
            found = re.search(r"Collected : (\d+)", process.communicate()[1])
            assert found is not None
            return int(found[1])

        names = ("empty", "direct", "item", "get")
        each = dict(zip(names, map(count, [start(name) for name in names]), strict=True))
        direct = each["direct"] - each["empty"]
        assert (each["item"] - each["empty"]) / direct <= 2.5
        assert (each["get"] - each["empty"]) / direct <= 4.0


class TestGuards:
    """A choice by arguments, beside the same choice written by hand."""

    @pytest.mark.parametrize("arrays", ["numpy", "torch"])
    @pytest.mark.parametrize("who", CALLS)
    def test_a_guard_executes_little_more_than_the_choice_by_hand(self, arrays: str, who: str, tmp_path: Path) -> None:
        library: Any = np if arrays == "numpy" else torch
        guarded, by_hand = functions(tmp_path / arrays, arrays, library)
        call, dtype = CALLS[who]
        q = library.zeros((1, 4, 8, 64), dtype=getattr(library, dtype))
        code = compile(call, "<call>", "eval")
        ours, theirs = (executed(lambda f=f: eval(code, {"f": f, "q": q})) for f in (guarded, by_hand))  # type: ignore[misc]
        assert ours <= 1.6 * theirs

    @pytest.mark.parametrize("who", CALLS)
    def test_a_guard_enters_the_kernel_and_nothing_else_of_ours(self, who: str, tmp_path: Path) -> None:
        guarded, _ = functions(tmp_path, "numpy", np)
        call, dtype = CALLS[who]
        q = np.zeros((1, 4, 8, 64), dtype)
        code = compile(call, "<call>", "eval")
        names = [
            name for name in entered(lambda: eval(code, {"f": guarded, "q": q})) if name not in ("len", "isinstance")
        ]
        assert names[-2:] == ["attend", "flash"]
