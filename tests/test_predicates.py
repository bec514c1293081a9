"""Predicates: each atom's three answers, the three-valued tables, and reasons in words."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import rung
from rung.entries import Expression
from rung.facts import Facts
from rung.predicates import ATOMS, NO, UNKNOWN, YES, Scope, Verdict, describe, evaluate, version_fits

DEVICES = rung.load().devices

MACHINE: dict[str, object] = {
    "facts": 1,
    "os": "linux",
    "machine": "x86_64",
    "python": "3.12.1",
    "cpu": {"flags": ["avx2", "fma"]},
    "modules": {
        "torch": "2.13.0+cu130",
        "early": "2.4.0rc1",
        "odd": "unknown",
        "bare": True,
        "gone": False,
        "flash": "3.0.0",
    },
    "files": {"flash/lib/fast.so": True, "flash/lib/slow.so": False},
    "devices": {
        "cuda": [{"arch": "sm_90", "name": "H200", "driver": "580.159", "runtime": "13.0"}],
        "rocm": [],
        "xpu": [{"arch": "dg2", "driver": "not a version"}],
    },
    "env": {"SET": "1", "EMPTY": ""},
    "probes": {"acme.probes:yes": True, "acme.probes:no": False},
}


def atom(key: str, **args: str | tuple[str, ...]) -> Expression:
    return Expression(key, args=tuple(args.items()))


def ask(expression: Expression, *, device: str = "cuda", arch: str = "sm_90", **scope: Any) -> Verdict:
    return evaluate(expression, Scope(Facts.of(MACHINE), DEVICES[device], arch, scope.pop("predicates", {}), **scope))


class TestAtoms:
    @pytest.mark.parametrize(
        ("expression", "answer", "reason"),
        [
            (atom("module", name="torch"), YES, "`torch` 2.13.0+cu130 is installed"),
            (atom("module", name="torch", version=">=2.4"), YES, "`torch` 2.13.0+cu130 is installed"),
            (atom("module", name="torch", version=">=3"), NO, "`torch` 2.13.0+cu130 is not >=3"),
            (atom("module", name="gone"), NO, "`gone` is not installed"),
            (atom("module", name="other"), UNKNOWN, "whether `other` is installed is not recorded in these facts"),
            (atom("module", name="early", version=">=2.4.0a0"), YES, "`early` 2.4.0rc1 is installed"),
            (atom("module", name="early", version=">=2.4"), NO, "`early` 2.4.0rc1 is not >=2.4"),
            (atom("module", name="bare"), YES, "`bare` is installed"),
            (atom("module", name="bare", version=">=1"), UNKNOWN, "`bare` has no version that can be compared"),
            (atom("module", name="odd", version=">=1"), UNKNOWN, "`odd` unknown has no version that can be compared"),
            (atom("module", name="torch", build="cu"), YES, "`torch` 2.13.0+cu130 is labelled as a build for cu130"),
            (atom("module", name="torch", build=("cpu", "rocm")), NO, "is not labelled as a build for cpu or rocm"),
            (atom("module", name="flash", build="cu"), NO, "is not labelled as a build for cu"),
            (atom("module", name="bare", build="cu"), UNKNOWN, "no version that says what it was built for"),
            (atom("module", name="flash", has="flash/lib/fast.so"), YES, "has the file flash/lib/fast.so"),
            (atom("module", name="flash", has="flash/lib/slow.so"), NO, "has no file flash/lib/slow.so"),
            (atom("module", name="flash", has="flash/lib/new.so"), UNKNOWN, "`flash/lib/new.so` exists is not record"),
            (atom("module", name="gone", has="gone/x.so"), NO, "`gone` is not installed"),
            (atom("device", name="cuda"), YES, "H200 was found"),
            (atom("device", name="xpu"), YES, "dg2 was found"),
            (atom("device", name="rocm"), NO, "no rocm device was found"),
            (atom("device", name="mps"), UNKNOWN, "which `mps` devices there are is not recorded"),
            (atom("arch", name="sm_90a"), YES, "sm_90a code is specific to sm_90"),
            (atom("arch", name="sm_100"), NO, "sm_100 is newer than sm_90"),
            (atom("arch", name="gfx942"), NO, "`gfx942` is no target of cuda"),
            (atom("driver", name="cuda", version=">=525"), YES, "the cuda driver is 580.159"),
            (atom("driver", name="cuda", version=">=600"), NO, "the cuda driver is 580.159, not >=600"),
            (atom("driver", name="rocm", version=">=6"), NO, "no rocm device was found"),
            (atom("driver", name="mps", version=">=1"), UNKNOWN, "which `mps` devices there are"),
            (atom("driver", name="xpu", version=">=1"), UNKNOWN, "is not a version, which cannot be compared with >=1"),
            (atom("runtime", name="cuda", version=">=12.4,<14"), YES, "the cuda runtime is 13.0"),
            (atom("runtime", name="cuda", version="<13"), NO, "the cuda runtime is 13.0, not <13"),
            (atom("runtime", name="xpu", version=">=1"), UNKNOWN, "the version of the xpu runtime is not known"),
            (atom("cpu", name=("avx2", "fma")), YES, "the CPU has avx2, fma"),
            (atom("cpu", name="avx2"), YES, "the CPU has avx2"),
            (atom("cpu", name=("avx2", "amx_tile")), NO, "the CPU has no amx_tile"),
            (atom("os", name="linux"), YES, "the operating system is linux"),
            (atom("os", name=("linux", "darwin")), YES, "the operating system is linux"),
            (atom("os", name=("darwin", "windows")), NO, "the operating system is linux, not darwin or windows"),
            (atom("machine", name="x86_64"), YES, "the machine is x86_64"),
            (atom("machine", name="arm64"), NO, "the machine is x86_64, not arm64"),
            (atom("python", name=">=3.11"), YES, "Python is 3.12.1"),
            (atom("python", name="<3.12"), NO, "Python is 3.12.1, not <3.12"),
            (atom("env", name="SET"), YES, "SET is set"),
            (atom("env", name="EMPTY"), NO, "EMPTY is empty"),
            (atom("env", name="OTHER"), UNKNOWN, "the variable OTHER is not recorded"),
            (atom("env", name="SET", value="1"), YES, "SET is '1'"),
            (atom("env", name="SET", value="2"), NO, "SET is '1', not '2'"),
            (atom("env", name="EMPTY", value="1"), NO, "EMPTY is empty"),
            (atom("env", name="EMPTY", value=""), YES, "EMPTY is empty"),
            (atom("probe", name="acme.probes:yes"), YES, "`acme.probes:yes` says yes"),
            (atom("probe", name="acme.probes:no"), NO, "`acme.probes:no` says no"),
            (atom("probe", name="acme.probes:other"), UNKNOWN, "the probe `acme.probes:other` is not recorded"),
        ],
        ids=lambda value: describe(value) if isinstance(value, Expression) else "",
    )
    def test_answers(self, expression: Expression, answer: str, reason: str) -> None:
        verdict = ask(expression)
        assert verdict.answer == answer
        assert reason in verdict.reason

    @pytest.mark.parametrize("key", ["cpu", "os", "machine", "python"])
    def test_what_is_not_recorded_is_unknown(self, key: str) -> None:
        expression = atom(key, name="linux", version=">=3", flags="avx2")
        verdict = evaluate(expression, Scope(Facts.of({"facts": 1}), DEVICES["cpu"], "generic", {}))
        assert verdict.answer == UNKNOWN
        assert "is not recorded in these facts" in verdict.reason

    def test_a_python_that_has_no_proper_version(self) -> None:
        facts = Facts.of({"facts": 1, "python": "3.12.1-embedded"})
        verdict = evaluate(atom("python", name=">=3.11"), Scope(facts, DEVICES["cpu"], "generic", {}))
        assert verdict == Verdict(UNKNOWN, "Python is 3.12.1-embedded, which cannot be compared with >=3.11")

    @pytest.mark.parametrize(
        ("target", "answer"), [("sm_90", UNKNOWN), ("compute_50", UNKNOWN), ("triton", YES), ("generic", YES)]
    )
    def test_an_arch_that_is_not_known_is_neither_yes_nor_no(self, target: str, answer: str) -> None:
        assert ask(atom("arch", name=target), arch="generic").answer == answer

    @pytest.mark.parametrize(
        ("device", "arch", "target", "answer"),
        [
            ("cuda", "sm_130", "compute_90", YES),
            ("cuda", "sm_130", "sm_90", NO),
            ("cpu", "x86_64_v4", "x86_64_v3", YES),
            ("cpu", "x86_64_v3", "x86_64_v4", NO),
            ("cpu", "x86_64_v3", "amd64", YES),
            ("cpu", "x86_64_v3", "arm64", NO),
            ("cuda", "sm_90", "amd64", NO),
            ("mps", "apple9", "metal3", YES),
        ],
    )
    def test_arch_is_judged_by_the_lattice_of_the_cells_device(
        self, device: str, arch: str, target: str, answer: str
    ) -> None:
        assert ask(atom("arch", name=target), device=device, arch=arch).answer == answer

    def test_use_follows_names(self) -> None:
        predicates = {"outer": atom("use", name="inner"), "inner": atom("os", name="linux")}
        assert ask(atom("use", name="outer"), predicates=predicates).answer == YES

    @pytest.mark.parametrize("answer", [YES, NO, UNKNOWN])
    def test_an_answer_settled_by_hand_holds_wherever_the_name_is_used(self, answer: str) -> None:
        predicates = {"outer": atom("use", name="inner"), "inner": atom("os", name="linux")}
        verdict = ask(atom("use", name="outer"), predicates=predicates, settled={"inner": answer})
        assert verdict == Verdict(answer, f"inner was set to {answer} by hand")

    def test_an_unset_variable_of_this_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ACME_TURBO", raising=False)
        scope = Scope(rung.Platform.cpu().facts, DEVICES["cpu"], "generic", {})
        assert evaluate(atom("env", name="ACME_TURBO"), scope) == Verdict(NO, "ACME_TURBO is not set")
        assert evaluate(atom("env", name="ACME_TURBO", value=""), scope).answer == YES
        monkeypatch.setenv("ACME_TURBO", "on")
        assert evaluate(atom("env", name="ACME_TURBO"), scope) == Verdict(YES, "ACME_TURBO is set")

    def test_every_atom_of_the_manifests_has_a_meaning(self) -> None:
        from rung.models import ExpressionModel

        shapes = {name.rstrip("_") for name in ExpressionModel.model_fields} - {"all", "any", "not", "why"}
        assert shapes == set(ATOMS)


# Atoms with a known answer, to build tables from.
P = {YES: atom("os", name="linux"), NO: atom("os", name="darwin"), UNKNOWN: atom("env", name="OTHER")}
RANK = [NO, UNKNOWN, YES]


class TestLogic:
    @pytest.mark.parametrize(("inner", "answer"), [(YES, NO), (NO, YES), (UNKNOWN, UNKNOWN)])
    def test_not(self, inner: str, answer: str) -> None:
        assert ask(Expression("not", (P[inner],))).answer == answer

    @pytest.mark.parametrize("answers", [*product(RANK, repeat=2), *product(RANK, repeat=3)], ids=" ".join)
    def test_all_is_the_minimum_and_any_the_maximum(self, answers: tuple[str, ...]) -> None:
        terms = tuple(P[answer] for answer in answers)
        assert ask(Expression("all", terms)).answer == min(answers, key=RANK.index)
        assert ask(Expression("any", terms)).answer == max(answers, key=RANK.index)

    @pytest.mark.parametrize(
        ("expression", "reason"),
        [
            # The reason is the fact itself, whichever way the answer turns it.
            (Expression("not", (P[YES],)), "the operating system is linux"),
            (Expression("not", (P[NO],)), "the operating system is linux, not darwin"),
            # What decides is what is said: the no of an `all`, the yes of an `any`, and all noes of an `any`.
            (Expression("all", (P[YES], P[UNKNOWN], P[NO])), "the operating system is linux, not darwin"),
            (Expression("any", (P[NO], P[UNKNOWN], P[YES])), "the operating system is linux"),
            (
                Expression("any", (P[NO], atom("device", name="rocm"))),
                "the operating system is linux, not darwin; no rocm device was found",
            ),
            (Expression("any", (P[NO], P[NO])), "the operating system is linux, not darwin"),
            (Expression("any", (P[NO], P[UNKNOWN])), "the variable OTHER is not recorded in these facts"),
            (Expression("all", (P[YES], P[UNKNOWN])), "the variable OTHER is not recorded in these facts"),
        ],
        ids=lambda value: describe(value) if isinstance(value, Expression) else "",
    )
    def test_reasons(self, expression: Expression, reason: str) -> None:
        assert ask(expression).reason == reason

    def test_terms_are_asked_only_as_far_as_they_matter(self) -> None:
        missing = atom("use", name="not_there")
        assert ask(Expression("all", (P[NO], missing))).answer == NO
        assert ask(Expression("any", (P[YES], missing))).answer == YES


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.13.0+cu130", ">=2.4", True),
        ("2.13.0+cpu", "==2.13.0", True),
        ("2.4.0rc1", ">=2.4", False),
        ("2.5.0.dev20260101", ">=2.4", True),
        ("3.0", "~=2.4", False),
        ("13.0", ">=12.4,!=12.9", True),
        ("580.159", ">=525", True),
        ("575.64.05", ">=575.64.5", True),
        ("", ">=1", None),
        ("git-1234", ">=1", None),
    ],
)
def test_version_fits(version: str, wanted: str, fits: bool | None) -> None:
    assert version_fits(version, wanted) is fits


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (atom("module", name="torch"), "module torch"),
        (atom("module", name="torch", version=">=2.4"), "module name=torch, version=>=2.4"),
        (atom("cpu", name=("avx2", "fma")), "cpu avx2 fma"),
        (Expression("not", (P[YES],)), "not os linux"),
        (Expression("all", (P[YES], Expression("any", (P[NO], P[YES])))), "all(os linux, any(os darwin, os linux))"),
    ],
)
def test_describe(expression: Expression, text: str) -> None:
    assert describe(expression) == text
