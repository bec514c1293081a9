from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rung import shape
from rung.diagnostics import Problems
from rung.models import BackendFile, ManifestFile, OpModel
from rung.shape import bad_places, fields_at, may_stand_for, validate
from rung.source import Document, read

if TYPE_CHECKING:
    from pydantic import BaseModel

ROW = "backend: b\narrays: numpy\nkernels:\n  op:\n"
OP = 'ops:\n  o:\n    summary: s\n    signature: "()"\n    reference: "a:b"\n'


def document(text: str) -> tuple[Document, Problems]:
    problems = Problems()
    out = read(text.encode(), "x", problems)
    assert out is not None
    return out, problems


def found(text: str) -> list[str]:
    """Validate a manifest, `manifest: 1` put before it, and give the findings as `LINE:COLUMN CODE message`."""
    read_text, problems = document(text if text.startswith("manif") else "manifest: 1\n" + text)
    validate(ManifestFile, read_text, problems)
    return [p.concise().removeprefix("x:").replace(": ", " ", 1) for p in problems]


# Lines count the `manifest: 1` put before each text.
FAULTS = [
    pytest.param("nope: 1\n", ["2:1 RG201 unknown key `nope`"], id="unknown-section"),
    pytest.param("ops: [o]\n", ["2:6 RG202 `ops` must be a mapping, not a list"], id="section-a-list"),
    pytest.param("ops: 3\n", ["2:6 RG202 `ops` must be a mapping, not `3`"], id="section-a-number"),
    pytest.param("ops:\n  o: text\n", ["3:6 RG202 `o` must be a mapping, not `text`"], id="entry-a-text"),
    pytest.param("ops:\n  o: {summary: s, reference: 'a:b'}\n", ["3:3 RG203 `o` has no `signature`"], id="missing"),
    pytest.param("ops:\n  o: {}\n", ["3:3 RG203 `o` has no `reference`", "3:3 RG203", "3:3 RG203"], id="all-missing"),
    pytest.param(
        "kinds: {k: {sumary: s}}\n", ["2:13 RG201 unknown key `sumary` in `k`"], id="misspelt-not-missing-too"
    ),
    pytest.param("kinds: {k: {on: s}}\n", ["2:13 RG102 `on`"], id="rejected-key-not-missing-too"),
    pytest.param("kinds: {k: {1: s}}\n", ["2:13 RG106 key `1`"], id="number-key-not-missing-too"),
    pytest.param("kinds: {k: {summary: on}}\n", ["2:22 RG102 `on`"], id="rejected-value-once"),
    pytest.param("kinds: {k: {summary: !!int 5}}\n", ["2:22 RG104"], id="tagged-value-once"),
    pytest.param("kinds: {k: {summary: true}}\n", ["2:22 RG202 `summary` must be text, not `true`"], id="boolean"),
    pytest.param("kinds: {k: {summary: ''}}\n", ["2:22 RG202 `summary` is empty"], id="empty-text"),
    pytest.param("kinds: {Kind: {summary: s}}\n", ["2:9 RG205 `Kind` is no legal name"], id="key-grammar"),
    pytest.param(f"kinds: {{{'k' * 65}: {{summary: s}}}}\n", ["2:9 RG205 `kkk"], id="key-too-long"),
    pytest.param(f"{OP}    variants: {{a: []}}\n", ["7:19 RG206 `a` is empty"], id="empty-chain"),
    pytest.param(f"{OP}    variants: {{a: [{'b, ' * 17}]}}\n", ["7:19 RG408 a chain of 17 variants"], id="long-chain"),
    pytest.param(f"{OP}    variants: {{a: [b, 1]}}\n", ["7:23 RG103 `1` is a number"], id="number-in-list"),
    pytest.param(f"{OP}    variants: {{a: [b, [c]]}}\n", ["7:23 RG202 an item of `a` must be text"], id="list-in-list"),
    pytest.param(f"{OP}    tolerance: {{float32: {{rtol: x}}}}\n", ["7:33 RG202 `rtol` must be a number"], id="number"),
    pytest.param(
        f"{OP}    tolerance: {{float8: exact}}\n", ["7:17 RG204 `float8` is not legal in `tolerance`"], id="key"
    ),
    pytest.param(
        f"{OP}    tolerance: {{float32: []}}\n", ["7:26 RG202 `float32` must be a mapping"], id="tolerance-list"
    ),
    pytest.param(
        f"{OP}    tolerance: {{float32: {{exact: false}}}}\n",
        ["7:34 RG204 `false` is not legal in `exact`"],
        id="literal",
    ),
    pytest.param(f"{ROW}    device: cpu\n", ["5:3 RG202 `op` must be a list"], id="row-without-dash"),
    pytest.param(f"{ROW}    - cpu\n", ["6:7 RG202 an item of `op` must be a mapping"], id="row-a-text"),
    pytest.param(f"{ROW}    - device: cpu\n", ["6:7 RG203 an item of `op` has no `impl`"], id="row-lacks"),
    pytest.param(f"{ROW}    - {{device: Cpu, impl: 'a:b'}}\n", ["6:16 RG205 `Cpu`"], id="one-of-one-or-more"),
    pytest.param(f"{ROW}    - {{device: [cpu, Cpu], impl: 'a:b'}}\n", ["6:22 RG205 `Cpu`"], id="item-of-one-or-more"),
    pytest.param(
        f"{ROW}    - {{device: {{a: 1}}, impl: 'a:b'}}\n", ["6:16 RG202 `device` must be text"], id="map-for-one"
    ),
    pytest.param(
        f"{ROW}    - {{device: [], impl: 'a:b'}}\n", ["6:16 RG206 `device` is empty"], id="none-of-one-or-more"
    ),
    pytest.param(
        f"{ROW}    - {{device: cpu, arch: 90, impl: 'a:b'}}\n", ["6:27 RG103 `90` is a number"], id="number-arch"
    ),
    pytest.param(f"{ROW}    - {{device: cpu, impl: 'a.b'}}\n", ["6:27 RG205 `a.b` is no dotted path"], id="no-colon"),
    pytest.param(f"{ROW}    - {{device: cpu, impl: 'a:b.c'}}\n", ["6:27 RG802"], id="dot-after-colon"),
    pytest.param(f"{ROW}    - {{device: cpu, impl: 'a:_b'}}\n", ["6:27 RG802"], id="private"),
    pytest.param(f"{ROW}    - {{device: cpu, impl: 'a:b:c'}}\n", ["6:27 RG205"], id="two-colons"),
    pytest.param(
        f"{ROW}    - {{device: cpu, impl: 'a:b'}}\n    - x\n    - {{}}\n", ["7:7", "8:7", "8:7"], id="several-rows"
    ),
    pytest.param("arrays: numpi\n", ["2:9 RG311 unknown arrays `numpi`"], id="arrays"),
    pytest.param("requires: {module: torch-x >=1}\n", ["2:20 RG205 `torch-x`"], id="short-form-name"),
    pytest.param("requires: {module: a.b}\n", ["2:20 RG205 `a.b`"], id="dotted-module"),
    pytest.param("requires: {module: {nam: torch}}\n", ["2:21 RG201 unknown key `nam` in `module`"], id="long-form"),
    pytest.param("requires: {module: {name: torch, version: 2.4}}\n", ["2:43 RG103"], id="version-a-number"),
    pytest.param("requires: {python: 3.11}\n", ["2:20 RG103"], id="python-a-number"),
    pytest.param("requires: {driver: cuda}\n", ["2:20 RG203 `cuda` asks for no version"], id="no-version"),
    pytest.param("requires: {driver: {name: cuda}}\n", ["2:12 RG203 `driver` has no `version`"], id="no-version-long"),
    pytest.param("requires: {env: {A: 1}}\n", ["2:21 RG103 `1`"], id="env-number"),
    pytest.param("requires: {env: {A: x, B: z}}\n", ["2:17 RG207 `env` asks for one variable"], id="env-two"),
    pytest.param("requires: {env: {}}\n", ["2:17 RG207"], id="env-none"),
    pytest.param("requires: {env: [A]}\n", ["2:17 RG202 `env` must be a mapping"], id="env-list"),
    pytest.param("requires: {os: Linux}\n", ["2:16 RG205 `Linux`"], id="os-capital"),
    pytest.param("requires: {cpu: []}\n", ["2:17 RG206 `cpu` is empty"], id="no-flags"),
    pytest.param("requires: {}\n", ["2:1 RG203 a predicate has one key besides `why`, here is none"], id="no-atom"),
    pytest.param("requires: {os: linux, device: cuda}\n", ["2:11 RG207 a predicate has one key"], id="two-atoms"),
    pytest.param("requires:\n  os: linux\n  device: cuda\n", ["2:1 RG207"], id="two-atoms-block"),
    pytest.param("requires: [{oss: linux}, {os: 1}]\n", ["2:13 RG201 unknown key `oss`", "2:31 RG103"], id="list-form"),
    pytest.param("requires: []\n", ["2:11 RG206 `requires` is empty"], id="empty-list-form"),
    pytest.param("requires: [[[]]]\n", ["2:13 RG206"], id="nested-empty-list-form"),
    pytest.param(f"requires: [{'a, ' * 17}]\n", ["2:11 RG004 17 entries in `requires`"], id="17-terms"),
    pytest.param("requires: {not: [{all: [{nto: a}]}]}\n", ["2:26 RG201 unknown key `nto`"], id="deep"),
    pytest.param("requires: {any: [{not: Torch}]}\n", ["2:24 RG205 `Torch`"], id="short-name-nested"),
    pytest.param("predicates: {p: 1}\n", ["2:17 RG202 `p` must be a mapping, not `1`"], id="predicate-a-number"),
    pytest.param(
        "devices: {d: {summary: s, arrays: [numpy], targets: {a: {}, b: {only: x, family: [z]}}}}\n",
        ["2:54 RG203 a target says", "2:64 RG207 `only` and `family`"],
        id="targets",
    ),
    pytest.param(
        "profiles: {p: {fall: {device: 1}}}\n", ["2:31 RG204 `1` is not legal in `device`"], id="level-a-number"
    ),
    pytest.param("profiles: {p: {chains: {o: [B]}}}\n", ["2:29 RG205 `B`"], id="chain-short-form"),
    pytest.param("profiles: {p: {chains: {o: {v: [B]}}}}\n", ["2:33 RG205 `B`"], id="chain-long-form"),
    pytest.param("profiles: {p: {chains: {o: v}}}\n", ["2:28 RG202 `o` must be a mapping"], id="chain-a-text"),
    pytest.param("backend: Bé\n", ["2:10 RG107 `Bé` has characters outside ASCII"], id="value-not-ascii"),
    pytest.param("manifest: 1\nmanifest: 1\nops: 1\n", ["2:1 RG101", "3:6 RG202"], id="reader-and-shape"),
    pytest.param("manifst: 1\n", ["1:1 RG201 unknown key `manifst`"], id="misspelt-manifest"),
    pytest.param(
        f"{ROW}    - {{device: cpu, available: P, impl: 'a:b'}}\n",
        ["6:21 RG208 `available` is now called `when`", "6:32 RG205 `P`"],
        id="former-name-and-its-value",
    ),
    pytest.param(
        f"{ROW}    - {{device: cpu, source: 'a:b'}}\n",
        ["6:21 RG208 `source` is now called `impl`"],
        id="former-of-required",
    ),
    pytest.param(
        f"{ROW}    - {{device: cpu, impl: 'a:b', available: p, when: P}}\n",
        ["6:34 RG208 `available` is now called `when`", "6:54 RG205 `P`"],
        id="former-and-new-name",
    ),
    pytest.param("available: p\n", ["2:1 RG208 `available` is now called `requires`"], id="former-name-in-header"),
    pytest.param("kinds: {k: {summary: s, available: p}}\n", ["2:25 RG201 unknown key"], id="no-former-name-here"),
    pytest.param("allow: [a]\n", ["2:1 RG804 `allow`: no manifest allows what it binds"], id="allow"),
    pytest.param("tool: {rung: 1, allow: [a]}\n", ["2:17 RG804 `allow`"], id="allow-in-a-section"),
    pytest.param(f"{ROW}    - {{device: cpu, impl: 'a:b', trust: x}}\n", ["6:34 RG804 `trust`"], id="trust-in-a-row"),
    pytest.param("kinds: {k: {summary: s, roots: [a]}}\n", ["2:25 RG201 unknown key `roots`"], id="roots-of-a-kind"),
    pytest.param(f"{ROW}    - {{device: cpu, function: 'a:b'}}\n", ["6:21 RG201"], id="another-word-not-missing-too"),
]


@pytest.mark.parametrize(("text", "expected"), FAULTS)
def test_faults_have_places(text: str, expected: list[str]) -> None:
    lines = found(text)
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start), line


def test_findings_are_counted_and_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "runs: [" + "1, " * 50 + "]\n"
    monkeypatch.setattr(shape, "MAX_FINDINGS", 10)
    assert len(found("requires: {any: [" + "{x: 1}, " * 16 + "]}\n")) == 10
    monkeypatch.setattr(shape, "MAX_ERRORS", 20)
    device = f"devices: {{d: {{summary: s, arrays: [numpy], archs: {{a: {{{text.strip()}}}}}}}}}\n"
    assert found(device) == ["1:1 RG004 more than 20 findings in this file"]


@pytest.mark.parametrize(
    ("model", "loc", "keys"),
    [
        (ManifestFile, ("kinds", "k"), ["summary"]),
        (ManifestFile, ("kinds",), []),
        (ManifestFile, ("devices", "d", "targets", "t"), ["only", "family"]),
        (ManifestFile, ("devices", "d", "jit"), ["prefix", "rule"]),
        (ManifestFile, ("requires", 0, "any", 1, "module"), ["name", "dist", "version", "has", "build"]),
        (ManifestFile, ("requires", "not", "driver"), ["name", "version"]),
        (BackendFile, ("kernels", "op", 3, "when", "module"), ["name", "dist", "version", "has", "build"]),
        (OpModel, ("tolerance", "float32"), ["exact", "ulp", "rtol", "atol", "cosine"]),
        (OpModel, ("nowhere", 1), []),
        (OpModel, ("summary", "x"), []),
    ],
)
def test_fields_of_a_place(model: type[BaseModel], loc: tuple[str | int, ...], keys: list[str]) -> None:
    assert [*fields_at(model, loc)] == keys


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("backnd: x\n", True),
        ("on: x\n", True),
        ("arrays: x\n", False),
        ("other: x\n", False),
    ],
)
def test_what_may_stand_for_a_missing_key(text: str, expected: bool) -> None:
    root = document(text)[0].root
    assert may_stand_for(root, "backend", BackendFile.model_fields) is expected


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a: 1\n", []),
        ("a: on\nb: [1, ~]\n", [("a",), ("b", 1)]),
        ("on: 1\nb: {1: x}\n", [("b",), ("on",)]),
        ("a: !x {b: 1}\n", [("a",)]),
    ],
)
def test_places_the_reader_rejected(text: str, places: list[tuple[Any, ...]]) -> None:
    assert sorted(bad_places(document(text)[0].root)) == places


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        (f"{ROW}    - {{device: cpu, impl: 'a:b', hint: no}}\n", '"no"'),
        (f"{ROW}    - {{device: cpu, impl: 'a:b', when: {{env: {{on: x}}}}}}\n", '"on"'),
        (f"{ROW}    - {{device: cpu, impl: 'a:b', workspace_bytes: +5}}\n", "5"),
        (f"{ROW}    - {{device: cpu, impl: 'a:b', hint: 1.50}}\n", '"1.50"'),
        (f"{ROW}    - {{device: cpu, impl: 'a:b', available: p}}\n", "when"),
        (f"{OP}    tolerance: {{float32: {{rtol: 1e-6}}}}\n", "1.0e-6"),
        (f"{OP}    tolerance: {{float32: {{exact: YES}}}}\n", "true"),
        (f"{OP}    tolerance: {{float32: {{exact: no}}}}\n", None),
        (f"{ROW}    - {{device: 90, impl: 'a:b'}}\n", None),
        (f"{ROW}    - {{device: cpu, impl: 'a:b', when: yes}}\n", None),
        (f"{ROW}    - {{device: cpu, impl: no}}\n", None),
        (f"{ROW}    - {{device: cpu, impl: 'a:b', when: {{python: 3.11}}}}\n", None),
        ("profiles: {p: {fall: {device: on}}}\n", None),
        ("on: x\n", None),
        ("other: {a: [no]}\n", None),
    ],
)
def test_a_repair_is_offered_where_one_reading_fits(text: str, edit: str | None) -> None:
    read_text, problems = document("manifest: 1\n" + text)
    validate(ManifestFile, read_text, problems)
    assert next((p.edit.text for p in problems if p.edit is not None), None) == edit
    assert any(p.code in ("RG102", "RG103", "RG208") for p in problems)


def test_trying_quotes_leaves_the_numbers_as_they_are() -> None:
    read_text, problems = document(f"manifest: 1\n{ROW}    - {{device: cpu, impl: 'a:b', hint: 5, arch: [9.0]}}\n")
    validate(ManifestFile, read_text, problems)
    assert read_text.root.data["kernels"]["op"][0] == {"device": "cpu", "impl": "a:b", "hint": 5, "arch": [9.0]}  # type: ignore[index]
