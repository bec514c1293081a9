"""What only an import tells: `rung check --imports`, in a child process."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

import pytest

from judging import ROOTS, codes, judged
from rung.audit import imports
from rung.audit.imports import Job, run_all
from rung.audit.scene import Scene
from rung.cli import main
from rung.diagnostics import RungError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Write
    from rung.diagnostics import Problem

STEP = "def step(sample, velocity, sigma, sigma_next): ...\n"
CALL = "(sample, velocity, sigma, sigma_next)"
ACME = frozenset({"acme"})
SHOUTS = """\
import contextlib, os
for number in range(20):
    with contextlib.suppress(OSError):
        os.write(number, b"[]\\n")
"""


def manifest(*impls: str, when: str = "", probes: tuple[str, ...] = ()) -> str:
    condition = f", when: {when}" if when else ""
    rows = [
        f'    - {{device: cpu, arch: numpy, variant: v{i}, impl: "{path}"{condition}}}\n'
        for i, path in enumerate(impls)
    ]
    kernels = "".join(["kernels:\n  flow_match_step:\n", *rows]) if rows else ""
    asked = "".join(["predicates:\n", *(f'  p{i}: {{probe: "{path}"}}\n' for i, path in enumerate(probes))])
    return f"manifest: 1\nbackend: acme\narrays: numpy\n{kernels}{asked if probes else ''}"


def found(root: Path, text: str, roots: frozenset[str] | None = ROOTS) -> list[Problem]:
    """Import what one manifest text binds; packages are looked for beside it."""
    path = root / "m.yaml"
    path.write_text(text, encoding="utf-8")
    scene = Scene(judged(path, roots=roots, builtin=False), root, (str(root), *sys.path), imports=True)
    scene.whole.problems.found = []  # the op is declared nowhere: what is asked here is what importing tells
    return sorted(imports.RULES[0](scene), key=lambda problem: problem.sort_key)


def said(problems: list[Problem]) -> list[str]:
    return [f"{p.code} {p.message}" for p in problems]


def outcomes(root: Path, *modules: str, step: float = 30.0, total: float = 60.0) -> list[tuple[str, str, str]]:
    """Import `step` of some modules."""
    jobs = [Job(f"acme.{name}", ACME, {"step": (("kernel", CALL),)}) for name in modules]
    request = {"path": [str(root), *sys.path], "own": {}, "detectors": {}, "all_roots": ["acme"]}
    return [(o.job.module, o.code, o.message) for o in run_all(jobs, request, step=step, total=total)]


class TestOutcomes:
    def test_nothing_is_said_of_what_can_be_imported(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": STEP})
        assert outcomes(tmp_path, "kernels") == []

    def test_what_dies_or_shouts_costs_the_others_nothing(self, write: Write, tmp_path: Path) -> None:
        write(
            {
                "acme/quits.py": f"import os\nos._exit(3)\n{STEP}",
                "acme/leaves.py": f"raise SystemExit(0)\n{STEP}",
                "acme/prints.py": f"import sys\nprint('[1, 2]')\nprint('error', file=sys.stderr)\n{STEP}",
                "acme/shouts.py": SHOUTS + STEP,
                "acme/closes.py": f"import os\nos.closerange(0, 50)\n{STEP}",
                "acme/reads.py": f"import sys\nassert sys.stdin.read() == ''\n{STEP}",
                "acme/last.py": "step = eval('3')\n",
            }
        )
        answers = outcomes(tmp_path, "quits", "leaves", "prints", "shouts", "closes", "reads", "last")
        assert [(module, code) for module, code, _ in answers] == [
            ("acme.quits", "RG505"),
            ("acme.leaves", "RG505"),
            ("acme.closes", "RG505"),
            ("acme.last", "RG504"),
        ]
        assert answers[0][2] == "importing `acme.quits` ended the process with code 3"
        assert answers[1][2] == "importing `acme.leaves` raised SystemExit"
        assert answers[3][2] == "`step` is of type int, not a function"

    @pytest.mark.parametrize(
        "body",
        [
            "import sys\nsys.path.clear()\n",
            "import sys\nsys.path = []\n",
            "import sys\nsys.meta_path.clear()\n",
            "import sys\nsys.path_hooks.clear()\nsys.path_importer_cache.clear()\n",
            "import os, sys\nos.chdir('/')\n",
            "import sys\nsys.setrecursionlimit(60)\n",
            "import sys\nsys.modules['acme.after'] = None\n",
            "import builtins\nbuiltins.__import__ = None\n",
            "import json\njson.dumps = None\n",
        ],
    )
    def test_what_one_spoils_for_the_others_is_not_blamed_on_them(
        self, write: Write, tmp_path: Path, body: str
    ) -> None:
        later = "import os\nassert os.getcwd() != '/'\nfrom .deep import here\n"
        write({"acme/first.py": body + STEP, "acme/after.py": later + STEP, "acme/deep.py": "here = 1\n"})
        assert "acme.after" not in {module for module, *_ in outcomes(tmp_path, "first", "after")}

    def test_what_fails_alone_too_is_reported_once(self, write: Write, tmp_path: Path) -> None:
        names = [f"bad{number}" for number in range(imports.MAX_AGAIN + 2)]
        write({f"acme/{name}.py": "raise ValueError\n" for name in names})
        assert sorted(module for module, *_ in outcomes(tmp_path, *names)) == sorted(f"acme.{name}" for name in names)

    @pytest.mark.parametrize(
        "value",
        [
            "3",
            "Signature([Odd('x', 1)], __validate_parameters__=False)",
            "Signature([Parameter('x' * 300, 1)])",
            "Signature([Parameter('x', 1, default=10 ** 5000)])",
            "Signature([Parameter('x', 1, default='x' * 10 ** 6)])",
            "Signature([Parameter(f'x{n}', 3) for n in range(1000)])",
            "Signature([Parameter('x', 1, default=float('nan'))])",
        ],
    )
    def test_a_signature_may_be_anything(self, write: Write, tmp_path: Path, value: str) -> None:
        odd = "from inspect import Parameter, Signature\nclass Odd(Parameter):\n    kind = 99\n"
        write({"acme/odd.py": f"{odd}{STEP}step.__signature__ = {value}\n", "acme/after.py": "step = eval('3')\n"})
        answers = [(module, code) for module, code, _ in outcomes(tmp_path, "odd", "after")]
        assert answers[-1] == ("acme.after", "RG504")
        assert set(answers[:-1]) <= {("acme.odd", "RG503")}

    def test_an_object_that_raises_whatever_it_is_asked_is_reported(self, write: Write, tmp_path: Path) -> None:
        odd = "class Odd:\n    def __call__(self): ...\n    __class__ = property(lambda self: 1 / 0)\nstep = Odd()\n"
        write({"acme/odd.py": odd, "acme/after.py": STEP})
        assert [(module, code) for module, code, _ in outcomes(tmp_path, "odd", "after")] == [("acme.odd", "RG505")]

    @pytest.mark.skipif(os.name != "posix", reason="reads a request as POSIX lets it")
    def test_what_the_child_says_is_not_believed_where_it_makes_no_sense(self, write: Write, tmp_path: Path) -> None:
        frame = "import sys\nframe = sys._getframe()\nwhile 'say' not in frame.f_locals: frame = frame.f_back\n"
        says = (
            "'over'",
            "'module', 7",
            "'failed', 7, 'a', 'b', 'c'",
            "'found', 0, 'gone', 'RG504', 'x'",
            "'found', 0, 'step', 'RG999', 'x'",
            "'parameters', 0, 'step', [[1]]",
            "'name', 0, 'gone'",
            "[]",
        )
        for number, event in enumerate(says[1:]):
            write({f"acme/says{number}.py": f"{frame}frame.f_locals['say']({event})\n{STEP}"})
        write({"acme/ends.py": f"{frame}frame.f_locals['say']({says[0]})\n{STEP}", "acme/after.py": STEP})
        for number in range(len(says) - 1):
            assert outcomes(tmp_path, f"says{number}", "after") == []
        assert outcomes(tmp_path, "ends", "after") == []

    def test_a_flood_ends_the_process(self, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(imports, "MAX_SAID", 1 << 20)
        flood = "import contextlib, os\nwhile True:\n    for number in range(3, 20):\n"
        flood += "        with contextlib.suppress(OSError):\n            os.write(number, b'x' * 65536)\n"
        write({"acme/flood.py": flood, "acme/after.py": STEP})
        ((module, code, message),) = outcomes(tmp_path, "flood", "after")
        assert (module, code) == ("acme.flood", "RG505")
        assert message == "importing `acme.flood` wrote more than 1 MiB to a stream that is not its own"

    @pytest.mark.skipif(os.name != "posix", reason="signals end processes on POSIX")
    def test_a_signal_is_named(self, write: Write, tmp_path: Path) -> None:
        write({"acme/crash.py": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"})
        ((_, code, message),) = outcomes(tmp_path, "crash")
        assert (code, message) == ("RG505", "importing `acme.crash` ended the process by SIGSEGV")

    def test_what_hangs_is_given_up(self, write: Write, tmp_path: Path) -> None:
        write({"acme/hangs.py": "import threading\nthreading.Event().wait()\n", "acme/after.py": "step = eval('3')\n"})
        answers = outcomes(tmp_path, "hangs", "after", step=1.0)
        assert [(module, code) for module, code, _ in answers] == [("acme.hangs", "RG505"), ("acme.after", "RG504")]
        assert answers[0][2] == "importing `acme.hangs` took longer than 1 s"

    def test_what_is_not_reached_in_time_is_said_to_be(self, write: Write, tmp_path: Path) -> None:
        write({"acme/hangs.py": "import threading\nthreading.Event().wait()\n", "acme/after.py": STEP})
        answers = outcomes(tmp_path, "hangs", "after", total=0.0)
        assert [(module, code) for module, code, _ in answers] == [("acme.hangs", ""), ("acme.after", "")]

    def test_the_child_sees_no_secret_and_writes_no_bytecode(
        self, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ACME_TOKEN", "secret")
        monkeypatch.setenv("PYTHONSTARTUP", "x")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        seen = "import os\nseen = {'ACME_TOKEN', 'PYTHONSTARTUP', 'CUDA_VISIBLE_DEVICES', 'PATH'} & set(os.environ)\n"
        write({"acme/env.py": f"{seen}if seen != {{'CUDA_VISIBLE_DEVICES', 'PATH'}}: raise ValueError(seen)\n{STEP}"})
        assert outcomes(tmp_path, "env") == []
        assert not list(tmp_path.rglob("__pycache__"))


class TestFindings:
    def test_the_real_object_is_judged_where_reading_could_not(self, write: Write, tmp_path: Path) -> None:
        body = "import os\ndef changed(f): return {}\n@changed\n" + STEP
        objects = {
            "fits": "f",
            "other": "lambda a: a",
            "number": "3",
            "system": "os.system",
            "kind": "type('K', (), {})",
            "meta": "type('M', (type,), {'__call__': lambda cls, *a, **k: 3})('K', (), {})",
        }
        write({**{f"acme/{n}.py": body.format(text) for n, text in objects.items()}})
        text = manifest(*(f"acme.{name}:step" for name in objects))
        op = f'ops:\n  flow_match_step:\n    summary: S.\n    signature: "{CALL}"\n    reference: "acme.fits:step"\n'
        problems = found(tmp_path, f"{text}{op}    tolerance: {{float64: exact}}\n")
        assert [s.replace("`nt`", "`posix`") for s in said(problems)] == [
            "RG503 `step` calls parameter 1 `a`, not `sample`",
            "RG504 `step` is of type int, not a function",
            "RG803 `step` is really from `posix`, which is not allowed",
            "RG504 `step` is a class, not a function",
        ]

    def test_a_module_that_fails_is_one_finding_with_what_it_says(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": "raise ValueError('no\\nlicense')\ndef a(): ...\ndef b(): ...\n"})
        (problem,) = found(tmp_path, manifest("acme.kernels:a", "acme.kernels:b"))
        assert (problem.code, problem.message) == ("RG505", "importing `acme.kernels` raised ValueError")
        assert "it says: no license" in problem.hint
        assert "(1 other place too)" in problem.hint

    @pytest.mark.parametrize(
        ("when", "expected"),
        [
            ("", ["RG505"]),
            ("{os: linux}", ["RG505"]),
            ("{module: acme_runtime}", []),
            ("{all: [{os: linux}, {module: acme_runtime >=2}]}", []),
        ],
    )
    def test_a_row_that_asks_for_a_module_need_not_import_without_it(
        self, write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture, when: str, expected: list[str]
    ) -> None:
        write({"acme/kernels.py": f"import acme_runtime\n{STEP}"})
        with caplog.at_level(logging.INFO, "rung"):
            problems = found(tmp_path, manifest("acme.kernels:step", when=when))
        assert codes(problems) == expected
        assert bool(caplog.messages) is not bool(expected)
        assert all("install `acme_runtime`" in problem.hint for problem in problems)

    def test_a_probe_is_asked(self, write: Write, tmp_path: Path) -> None:
        write(
            {
                "acme/probes.py": "import os\nV = {'three': 3, 'yes': True, 'none': None}\n"
                "def yes(facts): return V['yes']\ndef none(facts): return V['none']\n"
                "def three(facts): return V['three']\ndef raises(facts): return V['four']\n"
                "def dies(facts): os._exit(1)\ndef after(facts): return V.get('three')\n"
                "def asks(facts): return facts.os() == 'plan9'\n",
            }
        )
        names = ("yes", "none", "three", "raises", "dies", "after", "asks")
        assert said(found(tmp_path, manifest(probes=tuple(f"acme.probes:{name}" for name in names)))) == [
            "RG606 probe `three` answered 3, not True, False or None",
            "RG606 probe `raises` raised KeyError: 'four'",
            "RG606 probe `dies` ended the process with code 1",
            "RG606 probe `after` answered 3, not True, False or None",
        ]

    def test_what_reading_has_found_at_fault_is_not_imported(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": "open(__file__ + '.marker', 'w')\nstep = 3\n"})
        assert found(tmp_path, manifest("acme.kernels:step")) == []
        assert not (tmp_path / "acme/kernels.py.marker").exists()

    def test_this_program_is_imported_from_where_it_lies(
        self, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write({"rung.py": "", "rung_backends/__init__.py": ""})
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
        assert (
            found(tmp_path, manifest("rung_backends.reference.solver:flow_match_step"), ROOTS | {"rung_backends"}) == []
        )

    def test_what_came_along_is_not_imported(self, write: Write, tmp_path: Path) -> None:
        write({"m.yaml": manifest("acme.kernels:step"), "acme/kernels.py": f"raise ValueError\n{STEP}"})
        whole = judged(tmp_path / "m.yaml", builtin=False)
        whole.problems.found = []
        scene = Scene(whole, tmp_path, (str(tmp_path), *sys.path), imports=True, along=whole.units)
        assert list(imports.RULES[0](scene)) == []

    def test_nothing_is_imported_of_packages_nobody_allowed(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": STEP})
        with pytest.raises(RungError, match="--allow acme"):
            found(tmp_path, manifest("acme.kernels:step"), None)

    def test_nor_by_a_check_without_the_flag(
        self, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write({"m/acme.yaml": manifest("acme.kernels:step"), "acme/kernels.py": f"raise ValueError\n{STEP}"})
        check = ["check", str(tmp_path / "m"), "--root", str(tmp_path), "--format", "concise", "--select", "RG5"]
        assert main([*check, "--allow", "acme"]) == 0
        assert main([*check, "--imports"]) == 2
        assert main([*check, "--imports", "--allow", "acme"]) == 1
        assert "RG505 importing `acme.kernels` raised ValueError" in capsys.readouterr().out
