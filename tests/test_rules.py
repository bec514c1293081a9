from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from judging import BUILTIN, concise
from rung import rules
from rung.manifest import merge
from rung.rules import check, references
from rung.rules.predicates import MAX_LEVELS, MAX_NODES
from rung.rules.table import _signature_faults
from rung.units import Unit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Judge = Callable[..., list[str]]

HEAD = "manifest: 1\n"
BACKEND = HEAD + "backend: acme\narrays: numpy\nkernels:\n"
DEVICE = HEAD + "devices:\n  npu:\n    summary: s\n    arrays: [numpy]\n"


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Check one text after the built-in manifests and give its findings as `LINE:COLUMN CODE message`."""

    def found(text: str, *, roots: frozenset[str] | None = None, builtin: bool = True) -> list[str]:
        (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
        whole = merge([*([BUILTIN] if builtin else []), Unit(tmp_path / "a.yaml", "a.yaml", roots, "these")])
        check(whole)
        return concise(whole)

    return found


# Texts whose every reference is at fault in one way, and where the findings point.
PLACES = [
    pytest.param(
        HEAD + "predicates:\n  p:\n    all:\n      - torch_presnt\n      - not: torch_presnt\n"
        "      - any: [use: torch_presnt]\n",
        ["5:9 RG304", "6:14 RG304", "7:20 RG304"],
        id="a-predicate-in-each-form",
    ),
    pytest.param(HEAD + "predicates: {p: torch_presnt}\n", ["2:17 RG304"], id="a-predicate-that-is-a-name"),
    pytest.param(
        HEAD + "predicates: {p: [os: linux, torch_presnt]}\n",
        ["2:29 RG304"],
        id="a-predicate-that-is-a-list",
    ),
    pytest.param(HEAD + "backend: a\nrequires: torch_presnt\n", ["3:11 RG304"], id="requires"),
    pytest.param(HEAD + "backend: a\nrequires: [torch_presnt]\n", ["3:12 RG304"], id="requires-list"),
    pytest.param(
        BACKEND + "  flow_match_step:\n    - device: cpu\n      when:\n        - torch_presnt\n"
        "        - {arch: sm_9O}\n      impl: a:b\n",
        ["8:11 RG304", "9:18 RG301"],
        id="when",
    ),
    pytest.param(
        HEAD + "predicates: {p: [device: cudda, driver: cudda >=1, runtime: {name: cudda, version: '>=1'}]}\n",
        ["2:26 RG305", "2:41 RG305", "2:68 RG305"],
        id="devices-of-atoms",
    ),
    pytest.param(
        HEAD + "predicates: {p: [module: torch 2, driver: cuda 2, python: '2', module: {name: a, version: '2'}]}\n",
        ["2:26 RG202", "2:43 RG202", "2:59 RG202", "2:91 RG202"],
        id="versions",
    ),
    pytest.param(
        HEAD + "predicates: {p: [module: {name: a, has: b/c}, module: {name: a, has: a/../b}, "
        "module: {name: a, has: a}]}\n",
        ["2:41 RG202", "2:70 RG202", "2:102 RG202"],
        id="files",
    ),
    pytest.param(
        DEVICE + "    archs: {n1: {runs: [n2, n3]}, n2: {}}\n"
        "    targets: {n1a: {only: n4}, n1f: {family: [n1, n5]}}\n    aliases: {x: n6}\n",
        ["6:29 RG301", "7:27 RG301", "7:51 RG301", "8:18 RG301"],
        id="edges-of-a-device",
    ),
    pytest.param(DEVICE + "    falls_back_to: npu\n", ["6:20 RG303"], id="a-device-that-falls-to-itself"),
    pytest.param(
        DEVICE + "    pattern: v\n    archs: {v1: {runs: [v1]}}\n",
        ["7:25 RG307"],
        id="an-arch-that-runs-itself",
    ),
    pytest.param(
        DEVICE + "    pattern: {prefix: v, digits: hex}\n    archs: {v10: {runs: [v1a]}, v1a: {}}\n",
        [], id="hex-numbers-have-no-order"
    ),
    pytest.param(DEVICE + "    archs: {x: {}}\n    aliases: {X: x}\n", [], id="an-alias-may-be-another-spelling"),
    pytest.param(DEVICE + "    archs: {x: {}, generic: {}}\n", ["6:20 RG309"], id="generic-is-implied"),
    pytest.param(DEVICE + "    portable: [torch, torch]\n", ["6:23 RG309"], id="portable-twice"),
    pytest.param(
        DEVICE + "    archs: {x: {}}\n    targets: {x: {only: x}, X_: {only: x}}\n",
        ["7:15 RG309", "7:29 RG309"],
        id="targets-like-archs",
    ),
    pytest.param(
        BACKEND + "  flow_match_step:\n    - {device: cudda, impl: a:b}\n"
        "    - {device: [cpu, cudda], variant: v, impl: a:b}\n",
        ["6:16 RG305", "7:22 RG305"],
        id="devices-of-rows",
    ),
    pytest.param(
        BACKEND + "  flow_match_step:\n    - {device: cuda, arch: sm_9O, impl: a:b}\n"
        "    - {device: cuda, arch: [sm_90, sm_9O], variant: v, impl: a:b}\n",
        ["6:28 RG301", "7:36 RG301"],
        id="archs-of-rows",
    ),
    pytest.param(
        BACKEND + "  flow_match_step:\n    - {device: cuda, arch: sm_80, artifact: python, impl: a:b}\n"
        "    - {device: xpu, arch: spir64, artifact: native, impl: a:b}\n"
        "    - {device: [cpu, cuda], arch: [generic], artifact: ptx, variant: v, impl: a:b}\n",
        ["7:45 RG204", "8:56 RG204"],
        id="artifacts",
    ),
    pytest.param(
        HEAD + "profiles: {p: {chains: {nope: [default], flow_match_step: [nix, default], dit: {default: [nix]}}}}\n",
        ["2:25 RG302", "2:60 RG308", "2:91 RG308"],
        id="chains-of-a-profile",
    ),
    pytest.param(HEAD + "profiles: {p: {extends: p}}\n", ["2:25 RG303"], id="a-profile-that-extends-itself"),
    pytest.param(
        HEAD + "profiles: {p: {devices: [cpu, cudda], only: nope}}\n",
        ["2:31 RG305", "2:45 RG302"],
        id="a-profile",
    ),
    pytest.param(HEAD + "predicates: {p: {not: {all: [p]}}}\n", ["2:30 RG303"], id="a-predicate-that-uses-itself"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PLACES)
def test_places(text: str, expected: list[str], judge: Judge) -> None:
    assert [line.rsplit(" ", len(line.split()) - 2)[0] for line in judge(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            HEAD + "profiles: {p: {extends: default}, q: {extends: strict}}\n", id="default-and-strict-always-exist"
        ),
        pytest.param(HEAD + "profiles: {p: {only: reference}}\n", id="the-reference-is-a-backend"),
        pytest.param(
            HEAD + "predicates: {p: {why: w, module: {name: a, has: a/b.so, build: [cu, rocm]}}}\n", id="module"
        ),
        pytest.param(
            HEAD + "predicates: {p: [env: A, env: {A: x}, cpu: avx2, cpu: [a, b], os: [linux]]}\n", id="short-and-long"
        ),
        pytest.param(
            DEVICE + "    archs: {n1: {}}\n    aliases: {one: n1}\npredicates: {p: [arch: n1, arch: one]}\n",
            id="an-alias-of-an-arch",
        ),
    ],
)
def test_what_is_legal(text: str, judge: Judge) -> None:
    assert judge(text, builtin=False) == []


@pytest.mark.parametrize(
    ("arch", "hint"),
    [
        ("amd46", "did you mean `amd64`?"),
        ("sm_9O", "did you mean `sm_90`?"),
        ("quantum", "write a target of some device, or an alias it declares"),
    ],
)
def test_an_unknown_arch_of_a_predicate_has_a_short_hint(arch: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + f"predicates: {{p: {{arch: {arch}}}}}\n", encoding="utf-8")
    whole = merge([BUILTIN, Unit(tmp_path / "a.yaml", "a.yaml", None, "these")])
    check(whole)
    assert [(p.code, p.hint) for p in whole.problems] == [("RG301", hint)]


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        (DEVICE + "    archs: {npu_v2: {}, NPU_V2: {}}\npredicates: {p: {arch: npu_v3}}\n", ["did you mean `npu_v2`?"]),
        (DEVICE + "    archs: {npu_v2: {}, NPU_V2: {}, npu_v9: {runs: [npu_v3]}}\n", ["did you mean `npu_v2`?"]),
        (
            DEVICE + "    archs: {npu_v2: {}}\n    targets: {NPU_V2: {only: npu_v2}}\n"
            "backend: acme\narrays: numpy\nkernels: {o: [{device: npu, arch: npu_v3, impl: a:b}]}\n"
            "ops: {o: {summary: s, signature: () -> array, reference: a:b}}\n",
            ["did you mean `npu_v2`?"],
        ),
        (
            HEAD + "kinds: {Vae: {summary: s}}\nbackend: acme\narrays: numpy\n"
            "components: {vae_2: [{device: cpu, impl: a:b}]}\n",
            ["declare it under `kinds:`; none is declared", "known: none"],
        ),
    ],
    ids=["atom", "runs", "row", "kind"],
)
def test_what_was_rejected_is_not_suggested(text: str, hints: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    whole = merge([Unit(tmp_path / "a.yaml", "a.yaml", None, "these")])
    check(whole)
    said = [p.hint for p in whole.problems if p.code in ("RG301", "RG302")]
    assert said[0] == hints[0]
    assert not any("NPU_V2" in hint or "Vae" in hint for hint in said)


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("requires: {module: {name: cuda, dist: cuda-python}}\n", 0),
        ("requires: {module: npu}\nkernels: {flow_match_step: [{device: cpu, impl: 'npu.k:f'}]}\n", 0),
        ("requires: {module: npu}\n", 1),
        ("requires: {module: acme}\n", 0),
    ],
    ids=["named-with-its-distribution", "bound-too", "a-device", "no-device"],
)
def test_a_module_of_the_name_of_a_device(text: str, findings: int, judge: Judge) -> None:
    found = judge(DEVICE + "backend: acme\narrays: numpy\n" + text)
    assert [line.split()[1] for line in found] == ["RG205"] * findings


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("ACME_HOME", True),
        ("ProgramFiles(x86)", True),
        ("acme.home", True),
        ("A B", False),
        ("A,B", False),
        ("$A", False),
    ],
)
def test_names_of_variables(name: str, legal: bool, judge: Judge) -> None:
    found = judge(HEAD + f'predicates: {{p: {{env: "{name}"}}}}\n')
    assert [line.split()[1] for line in found] == ([] if legal else ["RG205"])


@pytest.mark.parametrize(
    ("signature", "fault"),
    [
        ("()  -> array", ""),
        ("(x: array) -> array", ""),
        ("(x: array, /, y: int = 3, *, mask: array | None = None, scale: float = -1.5) -> tuple[array, array]", ""),
        ("(xs: tuple[array, ...], name: str = 'a', flag: bool = True) -> array | None", ""),
        ("(x: array, x: array) -> array", "two arguments are named `x`"),
        ("(x: array, /, *, x: int = 3) -> array", "two arguments are named `x`"),
        ("(x: array)", "the result has no type"),
        ("(x) -> array", "`x` has no type"),
        ("(x: Tensor) -> array", "`x` has illegal type `Tensor`"),
        ("(x: array) -> list", "the result has illegal type `list`"),
        ("(x: array[int]) -> array", "`x` has a type that no signature may use"),
        ("(x: 'array') -> array", "`x` has a type that no signature may use"),
        ("(x: array & None) -> array", "`x` has a type that no signature may use"),
        ("(x: (lambda: array)) -> array", "`x` has a type that no signature may use"),
        ("(*x: array) -> array", "`*args` and `**kwargs` are not allowed"),
        ("(**x: array) -> array", "`*args` and `**kwargs` are not allowed"),
        ("(x: array = f()) -> array", "`x`: a default is a number, a text, True, False or None"),
        ("2(x: array) -> array", "not a Python signature"),
        ("(x: array) -> array: ...\ndef f()", "not a Python signature"),
        ("(x: array) -> array: #", "not a Python signature"),
        ("(x: array = '\\d') -> array", ""),
        ("(x: array, y: int = None) -> array", "the default of `y` is no `int`"),
        ("(x: array, *, y: int = 1.5) -> array", "the default of `y` is no `int`"),
        ("(x: array, y: float = 1, *, z: float = -1) -> array", ""),
        ("(x: array, y: str = 1) -> array", "the default of `y` is no `str`"),
        ("(x: array, y: bool = 1) -> array", "the default of `y` is no `bool`"),
        ("(x: array, y: int = True) -> array", "the default of `y` is no `int`"),
        ("(x: array, y: int | None | str = 'a', z: None | int = None) -> array", ""),
        ("(x: array, y: tuple[int, int] = 1) -> array", "the default of `y` is no `tuple[int, int]`"),
        ("(x: array, y: tuple[int, int] | None = None) -> array", ""),
        ("(x: array = None) -> array", "the default of `x` is no `array`"),
        ("(x: array = b'') -> array", "`x`: a default is a number, a text, True, False or None"),
        ("(x: array, y: float = -'a') -> array", "`y`: a default is a number, a text, True, False or None"),
        ("(x: array, y: bool = not True) -> array", "`y`: a default is a number, a text, True, False or None"),
        ("(x: array = 1if 1else 0) -> array", "`x`: a default is a number, a text, True, False or None"),
        ("(x: " + "array | " * 500 + "None) -> array", ""),
    ],
)
def test_signatures(signature: str, fault: str) -> None:
    assert list(_signature_faults(signature)) == ([fault] if fault else [])


def test_every_fault_of_a_signature_is_found() -> None:
    found = list(_signature_faults("(x: Tensor, y, x: array, *, z: int = None, w: str = []) -> list"))
    assert found == [
        "`x` has illegal type `Tensor`",
        "`y` has no type",
        "two arguments are named `x`",
        "the default of `z` is no `int`",
        "`w`: a default is a number, a text, True, False or None",
        "the result has illegal type `list`",
    ]


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        ("x: array -> array", "expected"),
        ("(x: array, y: int = 1, z: array) -> array", "default"),
        ("(" * 1000, ""),
        ("\0", "null bytes"),
    ],
)
def test_what_python_says_of_a_signature_is_passed_on(signature: str, reason: str) -> None:
    (fault,) = _signature_faults(signature)
    assert fault.startswith("not ")
    assert reason in fault


@pytest.mark.parametrize(
    ("edges", "cycles"),
    [
        ({}, []),
        ({"a": ["b"], "b": ["c"]}, []),
        ({"a": ["a"]}, [["a", "a"]]),
        ({"b": ["a"], "a": ["b"]}, [["a", "b", "a"]]),
        ({"c": ["a"], "a": ["b"], "b": ["c"], "d": ["a", "e"], "e": ["d"]}, [["a", "b", "c", "a"], ["d", "e", "d"]]),
        ({"a": ["b", "b"], "b": ["c", "c"], "c": []}, []),
        ({"a": ["nowhere"]}, []),
    ],
)
def test_cycles(edges: dict[str, list[str]], cycles: list[list[str]]) -> None:
    assert list(references._cycles(edges)) == cycles


@pytest.mark.parametrize(
    "edges",
    [
        pytest.param({f"n{i}": [f"n{i + 1}"] * 2 for i in range(5000)}, id="doubling"),
        pytest.param({f"n{i}": [f"n{(i + 1) % 5000}"] for i in range(5000)}, id="one-long-cycle"),
        pytest.param({f"n{i}": [f"n{j}" for j in range(200)] for i in range(200)}, id="everything-to-everything"),
    ],
)
def test_cycles_are_found_in_linear_time(edges: dict[str, list[str]]) -> None:
    found = list(references._cycles(edges))
    members = [name for path in found for name in path[:-1]]
    assert len(members) == len(set(members))


class TestPredicateSize:
    def use(self, count: int, term: str) -> str:
        lines = [f"  p{i}: {term.format(i + 1)}\n" for i in range(count)]
        return HEAD + "predicates:\n" + "".join(lines) + f"  p{count}: {{os: linux}}\n"

    def test_what_doubles(self, judge: Judge) -> None:
        assert judge(self.use(8, "[p{0}, p{0}]")) == []
        found = judge(self.use(40, "[p{0}, p{0}]"))
        assert {line.split()[1] for line in found} == {"RG004"}
        assert f"the limit is {MAX_NODES}" in found[0]

    def test_what_nests(self, judge: Judge) -> None:
        assert judge(self.use(30, "p{0}")) == []
        (finding,) = judge(self.use(MAX_LEVELS, "p{0}"))
        assert finding.endswith(f"has {MAX_LEVELS + 1} levels with all it uses; the limit is {MAX_LEVELS}")

    def test_a_long_chain_is_no_recursion(self, judge: Judge) -> None:
        assert {line.split()[1] for line in judge(self.use(3000, "p{0}"))} == {"RG004"}

    def test_cycles_do_not_confuse_it(self, judge: Judge) -> None:
        found = judge(HEAD + "predicates: {a: [b, b], b: [a, c], c: {os: linux}}\n")
        assert [line.split()[1] for line in found] == ["RG303"]


class TestSafety:
    TEXT = (
        HEAD
        + "devices: {npu: {summary: s, arrays: [numpy], detect: 'other.d:f'}}\n"
        + "ops: {o: {summary: s, signature: '() -> array', reference: 'other.r:f', cases: 'other.c:f'}}\n"
        + "backend: acme\narrays: numpy\nrequires: {probe: 'other.p:f'}\n"
        + "kernels: {o: [{device: cpu, impl: 'other.k:f', when: {not: {probe: 'other.q:f'}}}]}\n"
        + "components: {dit: [{device: cpu, impl: 'other.b:f'}]}\n"
    )

    def test_every_path_is_judged(self, judge: Judge) -> None:
        found = judge(self.TEXT, roots=frozenset({"acme"}))
        assert [line.split()[0] for line in found] == ["2:54", "3:60", "3:80", "6:19", "7:35", "7:68", "8:40"]
        assert all(line.endswith("RG801 package `other` may not be bound by these") for line in found)

    @pytest.mark.parametrize("roots", [None, frozenset({"other"})], ids=["any", "allowed"])
    def test_what_is_allowed(self, judge: Judge, roots: frozenset[str] | None) -> None:
        assert judge(self.TEXT, roots=roots) == []

    def test_a_prefix_is_not_the_package(self, judge: Judge) -> None:
        assert len(judge(self.TEXT, roots=frozenset({"oth", "other.k", "othe"}))) == 7


def test_one_rule_reports_no_more_than_a_limit(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_FINDINGS", 5)
    rows = "".join(f"  op_{i}: [{{device: nope, impl: a:b}}]\n" for i in range(20))
    found = judge(BACKEND + rows)
    assert sorted(line.split()[1] for line in found) == ["RG004"] * 2 + ["RG302"] * 5 + ["RG305"] * 5
    assert sum("more than 5 findings of one rule" in line for line in found) == 2


def test_nobody_asks_for_a_place_in_manifests_without_a_fault() -> None:
    # Each place in a document that was read for its data alone costs reading it again.
    whole = merge([BUILTIN])
    check(whole)
    assert not whole.problems.found
    assert [document.path for document in whole.documents if document.whole] == []
