"""Predicates that nobody uses, that can never hold, that answer nonsense, as far as text tells."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rung
from judging import codes, judged
from rung.audit import demands
from rung.audit.demands import Judge
from rung.audit.predicates import rg603, rg604, rg606
from rung.audit.scene import Scene
from rung.compile import expression_of
from rung.diagnostics import Problems
from rung.facts import Facts
from rung.models import ManifestFile
from rung.predicates import YES, Scope, evaluate
from rung.rules.expressions import Placed
from rung.source import read
from rung.units import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from conftest import Write
    from rung.diagnostics import Problem

    Rule = Callable[[Scene], Iterator[Problem]]

DEVICE = rung.load().device("cpu")
ROW = '    - {{device: cuda, arch: sm_90a, variant: v{}, impl: "acme.k:step", when: {}}}\n'


def backend(*whens: str, requires: str = "") -> str:
    """A backend with one row for each condition."""
    head = "manifest: 1\nbackend: acme\narrays: torch\n" + (f"requires: {requires}\n" if requires else "")
    rows = (ROW.format(i, when) for i, when in enumerate(whens))
    return head + "kernels:\n  flow_match_step:\n" + "".join(rows)


def predicates(**named: str) -> str:
    return "predicates:\n" + "".join(f"  {name}: {text}\n" for name, text in named.items())


def found(write: Write, rule: Rule, text: str, files: Mapping[str, str] | None = None) -> list[Problem]:
    root = write({"m/acme.yaml": text, **(files or {})})
    return list(rule(Scene(judged(root / "m"), root, (str(root),))))


def marked(problem: Problem, text: str) -> str:
    """Give the text a finding points at."""
    where = problem.where
    assert where is not None
    return text.splitlines()[where.line - 1][where.column - 1 : where.end_column - 1]


class TestUnused:
    @pytest.mark.parametrize(
        ("text", "unused"),
        [
            ("manifest: 1\n" + predicates(mine="{os: linux}"), ["mine"]),
            (backend("mine") + predicates(mine="{os: linux}"), []),
            (backend("[{not: {any: [mine, {os: linux}]}}]") + predicates(mine="{os: linux}"), []),
            (backend("{os: linux}", requires="mine") + predicates(mine="{os: linux}"), []),
            ("manifest: 1\n" + predicates(outer="inner", inner="{os: linux}"), ["outer"]),
            ("manifest: 1\n" + predicates(one="{os: linux}", two="[one]", three="{not: one}"), ["two", "three"]),
            ("manifest: 1\n" + predicates(first="second", second="first"), []),
            ("manifest: 1\n" + predicates(lonely="{os: linx_}", fine="{device: gpu}"), ["lonely", "fine"]),
        ],
        ids=["alone", "in a row", "deep in a row", "requires", "roots only", "two roots", "cycle", "with faults"],
    )
    def test_the_outermost_unused_predicates_are_named(self, write: Write, text: str, unused: list[str]) -> None:
        problems = found(write, rg603, text)
        assert [marked(p, text) for p in problems] == unused
        assert {p.severity for p in problems} <= {"warning"}

    @pytest.mark.parametrize(
        "use",
        [
            "[mine, {modul: torch}]",  # the row's condition is left out
            "mien",  # an unknown predicate, and the hint names this one
            "mine, exclude: [sm_1]",
        ],
        ids=["rejected condition", "misspelt", "row with a fault"],
    )
    def test_one_that_is_meant_by_what_has_a_fault_is_not(self, write: Write, use: str) -> None:
        assert found(write, rg603, backend(use) + predicates(mine="{os: linux}")) == []

    def test_nor_is_one_that_an_unreadable_file_mentions(self, write: Write) -> None:
        write({"m/other.yaml": "manifest: 1\nbackend: [\nrequires: mine\n"})
        assert found(write, rg603, "manifest: 1\n" + predicates(mine="{os: linux}")) == []

    def test_rungs_own_are_a_library_for_others_and_judged_where_they_are_all_there_is(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = write({"m/own.yaml": "manifest: 1\n" + predicates(mine="{os: linux}"), "n/acme.yaml": "manifest: 1\n"})
        monkeypatch.setattr("rung.audit.predicates.data_dir", lambda name: root / "m")
        assert codes(rg603(Scene(judged(root / "m", builtin=False), root))) == ["RG603"]
        assert codes(rg603(Scene(judged(root / "m", root / "n", builtin=False), root))) == []

    def test_none_of_rungs_own_is_unused(self, tmp_path: Path) -> None:
        assert list(rg603(Scene(judged(), tmp_path))) == []


NEVER = [
    # condition, what is pointed at, message
    ("[{os: linux}, {not: {os: linux}}]", "linux", "`os linux` must hold and must not hold"),
    ("{all: [{all: [{device: cuda}]}, [{not: {device: cuda}}]]}", "cuda", "`device cuda` must hold"),
    ("[{any: [{os: linux}]}, {not: {any: [{os: linux}, {device: cuda}]}}]", "linux", "`os linux` must hold"),
    ("{not: {any: [{env: ACME}, {not: {env: ACME}}]}}", "ACME", "`env ACME` must hold and must not hold"),
    ("{not: {not: [{env: ACME}, {not: {not: {not: {env: ACME}}}}]}}", "ACME", "`env ACME` must hold and must not"),
    ("[{module: torch >=2.4}, {not: {module: {name: torch, version: '>= 2.4'}}}]", None, "`module torch >=2.4` must"),
    ("[{python: '>=3.11,<4'}, {not: {python: '<4,>=3.11'}}]", "'<4,>=3.11'", "`python >=3.11,<4` must hold and"),
    ("[{cpu: [avx2, fma]}, {not: {cpu: [fma, avx2]}}]", "[fma, avx2]", "`cpu avx2, fma` must hold and must not"),
    ("[torch_cuda, {not: torch_cuda}]", "torch_cuda", "`torch_cuda` must hold and must not hold"),
    ("[torch_cuda, {not: torch_present}]", "torch_present", "`torch_present` must hold and must not hold"),
    ("[torch_cuda, {not: {device: cuda}}]", "cuda", "`device cuda` must hold and must not hold"),
    ("[{not: {device: mps}}, torch_mps]", "torch_mps", "`device mps` must hold and must not hold"),
    ("[{os: linux}, {os: [darwin, windows]}]", "[darwin, windows]", "`os linux` and `os darwin, windows` can never"),
    ("[{machine: x86_64}, {machine: arm64}]", "arm64", "`machine x86_64` and `machine arm64` can never both hold"),
    ("[torch_mps, {os: linux}]", "linux", "`os darwin` and `os linux` can never both hold"),
    ("[{os: linux}, {not: {os: [linux, darwin]}}]", "[linux, darwin]", "`os linux` and `not os linux, darwin` can"),
    ("[{cpu: [avx2, fma]}, {not: {cpu: avx2}}]", "avx2", "`cpu avx2, fma` and `not cpu avx2` can never both hold"),
    ("[{env: {ACME: a}}, {env: {ACME: b}}]", "{ACME: b}", "`env ACME a` and `env ACME b` can never both hold"),
    ("[{env: {ACME: a}}, {not: {env: ACME}}]", "ACME", "`env ACME a` and `not env ACME` can never both hold"),
    ("[{driver: cuda >=525}, {not: {device: cuda}}]", "cuda", "`driver cuda >=525` and `not device cuda` can never"),
    ("[{module: torch >=2.4}, {not: {module: torch}}]", "torch", "`module torch >=2.4` and `not module torch` can"),
    ("[torch_present, {any: [{not: torch_present}, {not: {module: torch}}]}]", None, "no branch here can hold beside"),
    ("[{os: linux}, {not: [{os: linux}, {os: linux}]}]", None, "no branch here can hold beside what else must hold"),
    ("{any: [{os: linux}, [{device: cuda}, {not: {device: cuda}}]]}", "cuda", "`device cuda` must hold and must not"),
    ("{not: [{device: cuda}, {not: {device: cuda}}]}", "cuda", "`device cuda` must hold and must not hold"),
    ("[{probe: 'acme.p:f'}, {not: {probe: 'acme.p:f'}}]", "'acme.p:f'", "`probe acme.p:f` must hold and must not"),
    (
        "[{module: {name: torch, build: cu12}}, {module: {name: torch, build: [cpu, rocm]}}]",
        None,
        "`module torch cu12` and `module torch cpu, rocm` can never both hold",
    ),
    ("[{arch: sm_90}, {not: {arch: sm_90}}, {os: linux}]", "sm_90", "`arch sm_90` must hold and must not hold"),
]

MAYBE = [
    "{any: [{os: linux}, {not: {os: linux}}]}",
    "[{os: linux}, {any: [{not: {os: linux}}, {device: cuda}]}]",
    "[{os: [linux, darwin]}, {os: [darwin, windows]}]",
    "[{os: [linux, darwin]}, {not: {os: linux}}]",
    "[{not: {os: linux}}, {not: {os: darwin}}]",
    "[{not: [{os: linux}, {device: cuda}]}, {os: linux}]",
    "[{env: {ACME: ''}}, {not: {env: ACME}}]",
    "[{env: ACME}, {not: {env: {ACME: a}}}]",
    "[{module: torch}, {not: {module: torch >=2.4}}]",
    "[{module: torch >=2.4}, {not: {module: torch >=2.9}}]",
    "[{module: {name: torch, build: cu}}, {module: {name: torch, build: cu12}}]",
    "[{module: {name: torch, has: torch/a.py}}, {not: {module: {name: torch, has: torch/b.py}}}]",
    "[{driver: cuda >=525}, {not: {driver: cuda >=550}}]",
    "[{device: cuda}, {not: {driver: cuda >=550}}]",
    "[{cpu: avx2}, {not: {cpu: [avx2, fma]}}]",
    "[{python: '>=3.11'}, {not: {python: '>=3.12'}}]",
    "[torch_present, torch_cuda, torch_present]",
    "{any: [torch_cuda, torch_rocm, torch_mps]}",
]


class TestContradictions:
    @pytest.mark.parametrize(("when", "at", "message"), NEVER, ids=[n[0] for n in NEVER])
    def test_what_can_never_hold_is_reported_once(self, write: Write, when: str, at: str | None, message: str) -> None:
        text = backend(when)
        (problem,) = found(write, rg604, text)
        assert problem.message.startswith(message)
        assert len(problem.message) < 80
        assert problem.severity == "error"
        assert problem.hint
        assert problem.related
        assert problem.cell == "acme/flow_match_step@cuda.sm_90a#v0"
        if at is not None:
            assert marked(problem, text) == at

    @pytest.mark.parametrize("when", MAYBE)
    def test_what_may_hold_somewhere_is_not(self, write: Write, when: str) -> None:
        assert found(write, rg604, backend(when)) == []

    @pytest.mark.parametrize(
        ("requires", "when", "at", "message"),
        [
            ("torch_present", "{not: torch_present}", "torch_present", "`torch_present` must hold and must not hold"),
            ("{os: linux}", "[{device: cuda}, {os: darwin}]", "darwin", "`os linux` and `os darwin` can never"),
            ("{any: [{os: linux}, {os: darwin}]}", "{os: windows}", "windows", "`os windows` rules out what is left"),
            ("{os: windows}", "{any: [{os: linux}, {os: darwin}]}", "[{os: linux}, {os: darwin}]", "no branch here"),
        ],
        ids=["negation", "systems", "any in requires", "any in when"],
    )
    def test_requires_and_when_must_both_hold(
        self, write: Write, requires: str, when: str, at: str, message: str
    ) -> None:
        text = backend("{device: cuda}", when, requires=requires)
        (problem,) = found(write, rg604, text)
        assert problem.message.startswith(message)
        assert marked(problem, text) == at
        assert {where.line for where, _ in problem.related} == {4}
        assert problem.cell == "acme/flow_match_step@cuda.sm_90a#v1"

    def test_each_row_that_contradicts_is_named(self, write: Write) -> None:
        never = "[{os: linux}, {os: darwin}]"
        problems = found(write, rg604, backend(never, "{os: linux}", never))
        assert [p.where.line for p in problems if p.where] == [6, 8]

    def test_each_contradiction_of_one_expression_is_named(self, write: Write) -> None:
        when = "[{os: linux}, {env: ACME}, {not: {os: linux}}, {all: [{not: {env: ACME}}]}]"
        assert [p.message.split("`")[1] for p in found(write, rg604, backend(when))] == ["os linux", "env ACME"]

    def test_a_named_one_is_reported_where_it_is_declared_and_not_where_it_is_used(self, write: Write) -> None:
        text = backend("never", "[never, {os: linux}]", requires="also") + predicates(
            also="[{device: cuda}, never]", never="[{os: linux}, {not: {os: linux}}]"
        )
        (problem,) = found(write, rg604, text)
        assert problem.where is not None
        assert text.splitlines()[problem.where.line - 1].strip().startswith("never:")
        assert problem.cell == ""

    def test_a_name_that_always_holds_cannot_be_negated(self, write: Write) -> None:
        text = backend("{not: always}") + predicates(always="{any: [{os: linux}, {not: {os: linux}}]}")
        (problem,) = found(write, rg604, text)
        assert problem.message == "`not always` can never hold"

    def test_all_places_that_take_part_are_shown(self, write: Write) -> None:
        text = backend("[mine, {not: {env: ACME}}]") + predicates(mine="{env: ACME}")
        (problem,) = found(write, rg604, text)
        assert [(where.line, remark) for where, remark in problem.related] == [
            (6, "`env ACME` must hold"),
            (8, "`env ACME` is written"),
        ]

    @pytest.mark.parametrize(
        ("named", "count"),
        [
            ({"first": "second", "second": "[first, {os: linux}, {not: {os: linux}}]"}, 1),
            ({"first": "[first, {not: first}]"}, 1),
            ({"first": "nobody", "second": "[nobody, {not: nobody}]"}, 1),
            ({"first": '{python: "3"}', "second": '[{python: "3"}, {not: {python: "3"}}]'}, 0),
            ({"first": '[{module: "torch >=2.4"}, {not: {module: "torch >=2.x"}}]'}, 0),
            ({"first": '[{module: "torch >=2.x"}, {not: {module: "torch >=2.4"}}, {not: {module: torch}}]'}, 0),
            ({"first": '[{driver: "cuda >=x"}, {not: {driver: "cuda >=550"}}]'}, 0),
            ({"first": '[{module: "torch >=2.x"}, {os: linux}, {not: {os: linux}}]'}, 1),
        ],
        ids=["cycle", "itself", "unknown name", "bad version", "negated", "first", "driver", "beside"],
    )
    def test_what_has_another_fault_is_judged_as_far_as_it_is_known(
        self, write: Write, named: dict[str, str], count: int
    ) -> None:
        assert codes(found(write, rg604, "manifest: 1\n" + predicates(**named))) == ["RG604"] * count

    def test_names_that_double_each_other_are_not_written_out(self, write: Write) -> None:
        named = {f"p{i}": f"[p{i - 1}, {{any: [p{i - 1}, {{not: p{i - 1}}}]}}]" for i in range(1, 60)}
        text = "manifest: 1\n" + predicates(p0="{os: linux}", **named)
        root = write({"m/acme.yaml": text})
        whole = judged(root / "m")
        judge = Judge()
        for name in ("p0", *named):
            entry = whole.predicates[name]
            placed = Placed(entry.model, entry.document, entry.loc, entry.unit)
            judge.name(name, placed)
            assert judge.demand(placed).size < 1024
        assert list(rg604(Scene(whole, root))) == []

    def test_what_is_used_a_thousand_times_is_not_written_out_each_time(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copied: list[object] = []
        at = demands.Literal.at

        def counted(literal: demands.Literal, site: Placed) -> demands.Literal:
            copied.append(site)
            return at(literal, site)

        monkeypatch.setattr(demands.Literal, "at", counted)
        atoms = "[" + ", ".join(f"{{env: ACME_{i}}}" for i in range(60)) + "]"
        named = {f"p{i}": "p0" if i % 2 else f"p{i - 1}" for i in range(1, 1000)}
        text = "manifest: 1\n" + predicates(p0=atoms, **named, last="[p1, {not: p1}]")
        assert codes(found(write, rg604, text)) == ["RG604"]
        assert 1000 < len(copied) < 20_000  # of 120,000

    def test_a_long_line_of_names_is_followed_without_recursion(self, write: Write) -> None:
        named = {f"p{i}": f"p{i - 1}" for i in range(1, 3000)}
        text = "manifest: 1\n" + predicates(p0="[{os: linux}, {not: {os: linux}}]", **named)
        assert codes(found(write, rg604, text)) == ["RG604"]

    def test_rungs_own_predicates_have_none(self, tmp_path: Path) -> None:
        assert list(rg604(Scene(judged(), tmp_path))) == []


LEAVES = st.sampled_from([
    {"env": "ACME_A"}, {"env": "ACME_B"}, {"env": {"ACME_A": "x"}}, {"os": "linux"}, {"os": ["linux", "darwin"]},
    {"machine": "arm64"}, {"use": "first"}, {"use": "second"}, {"use": "third"},
])  # fmt: skip
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda term: {"not": term}, inner),
        st.builds(
            lambda key, terms: {key: terms}, st.sampled_from(["all", "any"]), st.lists(inner, min_size=1, max_size=3)
        ),
    ),
    max_leaves=8,
)
WORLDS = [
    {"os": system, "machine": machine, "env": {"ACME_A": a, "ACME_B": b}}
    for system in ("linux", "darwin", "windows")
    for machine in ("arm64", "x86_64")
    for a in ("", "x", "other")
    for b in ("", "1")
]


def without(names: set[str], expression: Any) -> Any:
    """Put an atom in the place of names that may not be used here."""
    if isinstance(expression, list):
        return [without(names, term) for term in expression]
    if not isinstance(expression, dict):
        return expression
    if expression.get("use") in names:
        return {"env": "ACME_A"}
    return {key: without(names, value) for key, value in expression.items()}


@settings(max_examples=300)
@given(st.tuples(EXPRESSIONS, EXPRESSIONS, EXPRESSIONS, EXPRESSIONS))
def test_what_is_said_to_be_a_contradiction_holds_on_no_machine(written: tuple[Any, Any, Any, Any]) -> None:
    order = ("first", "second", "third", "judged")
    named = {name: without({*order[i:]}, text) for i, (name, text) in enumerate(zip(order, written, strict=True))}
    document = read(json.dumps({"manifest": 1, "predicates": named}, indent=1).encode(), "m.yaml", Problems())
    assert document is not None
    models = ManifestFile.model_validate(document.root.data).predicates
    pool = {name: expression_of(model) for name, model in models.items()}
    judge = Judge()
    for name, model in models.items():
        placed = Placed(model, document, ("predicates", name), Unit(Path(), "", None))
        clashes = judge.name(name, placed)
        holds = any(evaluate(pool[name], Scope(Facts(world), DEVICE, "x86_64", pool)).answer == YES for world in WORLDS)
        assert not (judge.demand(placed).dead and holds)
        assert len(set(clashes)) == len(clashes)


def probe(body: str) -> dict[str, str]:
    return {"acme/__init__.py": "", "acme/probes.py": dedent(body)}


WRONG = [
    ("def has(facts):\n    return 1\n", 2, "answers a number"),
    ("def has(facts):\n    return 'yes' if facts.os() == 'linux' else None\n", 2, "answers a text"),
    ("def has(facts):\n    if facts:\n        return f'{facts}'\n    return True\n", 3, "answers a text"),
    ("def has(facts):\n    return [f for f in facts]\n", 2, "answers a list"),
    ("def has(facts):\n    return {}\n", 2, "answers a dict"),
    ("def has(facts):\n    return facts and len(facts.cpu())\n", 2, "answers a number"),
    ("def has(facts):\n    return -1\n", 2, "answers a number"),
    ("import shutil\ndef has(facts):\n    return shutil.which('nvcc')\n", 3, "answers a path"),
    ("from os import environ as e\ndef has(facts):\n    return e.get('ACME')\n", 3, "answers a text"),
    ("def has(facts) -> str:\n    return facts.name\n", 1, "is annotated as a text"),
    ("def has(facts) -> 'list[str]':\n    return facts.name\n", 1, "is annotated as a list"),
    ("def has(facts):\n    '''Not yet.'''\n    raise NotImplementedError\n", 3, "always raises"),
    ("has = lambda facts: 'yes'\n", 1, "answers a text"),
    ("import functools\n@functools.cache\ndef has(facts):\n    return 1\n", 4, "answers a number"),
    ("def has(facts):\n    if False:\n        return True\n    else:\n        return 1\n", 5, "answers a number"),
    ("def has(facts):\n    while True:\n        if facts:\n            break\n    return 1\n", 5, "answers a number"),
    ("def has(facts):\n    for f in facts:\n        return f\n    return 'none'\n", 4, "answers a text"),
    (
        "def has(facts):\n    try:\n        return facts.os()\n    except OSError:\n        return ''\n",
        5,
        "answers a text",
    ),
]

RIGHT = [
    "def has(facts):\n    return True\n",
    "def has(facts, more=1, *rest, other=2):\n    return None\n",
    "def has(*rest):\n    return not rest\n",
    "def has(facts):\n    pass\n",
    "def has(facts):\n    return\n",
    "def has(facts) -> bool | None:\n    return facts.os() == 'linux' and facts.cpu()\n",
    "from typing import Optional\ndef has(facts) -> 'Optional[bool]':\n    return check(facts)\n",
    "def has(facts):\n    def inner():\n        return 1\n    return inner() > 0\n",
    "def has(facts):\n    return any(lambda: 1 for _ in facts)\n",
    "def has(facts):\n    raised = facts\n    raise OSError\n",
    "def has(facts) -> int:\n    return True\n",
    "def has(facts) -> float:\n    return facts.name\n",
    "str = bool\ndef has(facts) -> str:\n    return facts.name\n",
    "def has(facts):\n    if True:\n        return True\n    return 1\n",
    "def has(facts):\n    if facts:\n        return True\n    else:\n        raise OSError\n    return 1\n",
    "def has(facts):\n    if not False:\n        return None\n    return 1\n",
    "def has(facts):\n    while True:\n        return True\n    return 1\n",
    "def has(facts):\n    return True\n    return 1\n",
    "def has(facts):\n    return True if True else 1\n",
    "import re\ndef has(facts):\n    re = facts\n    return re.match('x')\n",
    "import re\ndef has(facts, re=facts):\n    return re.match('x')\n",
    "def has(facts):\n    from acme import check as len\n    return len(facts)\n",
    "def has(facts):\n    for len in facts:\n        pass\n    return len(facts)\n",
    "from acme import *\ndef has(facts):\n    return len(facts)\n",
    "import re\nhas = lambda re: re.match('x')\n",
    "def shutil(facts):\n    return facts\ndef has(facts):\n    return shutil(facts)\n",
    "def len(facts):\n    return True\ndef has(facts):\n    return len(facts)\n",
    "from acme.deco import odd\n@odd\ndef has(facts):\n    return 1\n",
    # These are no functions of the facts, which is another rule's.
    "class has:\n    pass\n",
    "def has():\n    return 1\n",
    "def has(facts):\n    yield 1\n",
    "async def has(facts):\n    return 1\n",
    "def other(facts):\n    return 1\n",
    "def has(facts:\n",
    "def has(facts):\n    return " + " + ".join(["facts"] * 3000) + "\n",
    "if True:\n    def has(facts):\n        return True\n",
]


class TestAnswers:
    @pytest.mark.parametrize(("body", "line", "message"), WRONG, ids=[w[0] for w in WRONG])
    def test_a_probe_that_answers_nonsense_is_reported_at_the_atom(
        self, write: Write, body: str, line: int, message: str
    ) -> None:
        text = backend("[{os: linux}, {not: {probe: acme.probes:has}}]")
        (problem,) = found(write, rg606, text, probe(body))
        assert problem.message == f"probe `acme.probes:has` {message}"
        assert marked(problem, text) == "acme.probes:has"
        assert problem.hint
        assert [(where.path, where.line) for where, _ in problem.related] == [("acme/probes.py", line)]

    @pytest.mark.parametrize("body", RIGHT, ids=[r[:60] for r in RIGHT])
    def test_one_that_may_be_right_is_not(self, write: Write, body: str) -> None:
        assert found(write, rg606, backend("{probe: acme.probes:has}"), probe(body)) == []

    def test_each_is_reported_once_however_often_it_is_asked(self, write: Write) -> None:
        text = backend("{probe: acme.probes:has}", "{probe: acme.probes:has}", requires="{probe: acme.probes:also}")
        files = probe("def has(facts):\n    return 1\ndef also(facts):\n    return ''\n")
        assert sorted(marked(p, text) for p in found(write, rg606, text, files)) == [
            "acme.probes:also",
            "acme.probes:has",
        ]

    def test_one_that_another_module_hands_on_is_followed(self, write: Write) -> None:
        files = {"acme/__init__.py": "from acme.inner import has\n", "acme/inner.py": "def has(facts):\n    return 1\n"}
        (problem,) = found(write, rg606, backend('{probe: "acme:has"}'), files)
        assert problem.related[0][0].path == "acme/inner.py"

    def test_what_may_not_be_bound_is_not_read(self, write: Write) -> None:
        files = {"other/__init__.py": "def has(facts):\n    return 1\n"}
        assert found(write, rg606, backend('{probe: "other:has"}'), files) == []

    def test_nothing_is_imported(self, write: Write) -> None:
        root = write({})
        body = f"open({str(root / 'marker')!r}, 'w')\ndef has(facts):\n    return 1\n"
        assert len(found(write, rg606, backend("{probe: acme.probes:has}"), probe(body))) == 1
        assert not (root / "marker").exists()
