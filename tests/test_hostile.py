"""Input that means harm: each limit answers with its own code, and no input costs more than its size.

Nothing here is timed. Where an algorithm could be more than linear, the test is large enough not to end if it were.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from judging import codes, concise, judged, only_pure, report
from rung import manifest, source
from rung.cli import main
from rung.diagnostics import Problems, closest, did_you_mean
from rung.source import PureLoader, read

if TYPE_CHECKING:
    from collections.abc import Callable

needs_libyaml = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")
HEAD = "manifest: 1\n"
ROWS = "manifest: 1\nbackend: acme\narrays: torch\nkernels:\n  flow_match_step:\n"
DEVICE = "manifest: 1\ndevices:\n  npu:\n    summary: s\n    arrays: [numpy]\n"


def written(directory: Path, text: str | bytes, name: str = "x.yaml") -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def found(text: str | bytes, events: Any = None) -> list[str]:
    """Read a text and give its findings as `LINE CODE`."""
    problems = Problems()
    read(text if isinstance(text, bytes) else text.encode(), "x", problems, events=events)
    return [f"{p.where.line if p.where else 0} {p.code}" for p in problems]


def row(**lists: int) -> str:
    """Give a row whose lists have so many items."""
    names = {"device": "cpu", "arch": "numpy", "variant": "v"}
    inner = ", ".join(f"{key}: [{', '.join([names[key]] * count)}]" for key, count in lists.items())
    return f'{ROWS}    - {{{inner}, impl: "acme.k:f"}}\n'


def chain(count: int) -> str:
    names = ", ".join(f"v{i}" for i in range(count))
    cells = "".join(f'    - {{device: cpu, variant: v{i}, impl: "acme.k:f"}}\n' for i in range(count))
    return f"{ROWS}{cells}profiles: {{mine: {{chains: {{flow_match_step: [{names}]}}}}}}\n"


def terms(count: int) -> str:
    return f"{HEAD}predicates: {{acme: [{', '.join(f'{{env: A{i}}}' for i in range(count))}]}}\n"


def levels(count: int) -> str:
    """Give predicates of which the first has so many levels with all it uses."""
    used = "".join(f"  p{i}: p{i + 1}\n" for i in range(1, count))
    return f"{HEAD}predicates:\n{used}  p{count}: {{os: linux}}\n"


def uses(count: int) -> str:
    """Give a condition that uses one predicate of 125 terms so many times."""
    text = f"{HEAD}predicates:\n  p0: {{os: linux}}\n" + "".join(f"  p{i}: [p{i - 1}, p{i - 1}]\n" for i in range(1, 6))
    listed = ", ".join(["p5"] * count)
    return f'{text}{ROWS.removeprefix(HEAD)}    - {{device: cpu, impl: "acme.k:f", when: [{listed}]}}\n'


def depth(count: int) -> str:
    return f"{HEAD}x: {'[' * (count - 1)}{']' * (count - 1)}\n"


# Each limit with a text that is just within it and one just beyond: the code, the line, and what the message says.
LIMITS = [
    pytest.param(depth, 16, ("RG004", 2, "nesting deeper than the limit of 16"), id="depth"),
    pytest.param(
        lambda n: f"{HEAD}kinds: {{k: {{summary: {'x' * n}}}}}\n",
        4096,
        ("RG004", 2, "text of 4097 characters exceeds the limit of 4096"),
        id="scalar",
    ),
    pytest.param(
        lambda n: row(device=n, arch=400, variant=2),
        250,
        ("RG004", 6, "200800 cells exceed the limit of 200000"),
        id="cells",
    ),
    pytest.param(chain, 16, ("RG408", 23, "a chain of 17 variants exceeds the limit of 16"), id="chain"),
    pytest.param(uses, 8, ("RG004", 13, "`when` has 1135 terms with all it uses; the limit is 1024"), id="uses"),
    pytest.param(terms, 16, ("RG004", 2, "17 entries in `acme` exceed the limit of 16"), id="terms"),
    pytest.param(
        levels, 64, ("RG004", 3, "predicate `p1` has 65 levels with all it uses; the limit is 64"), id="levels"
    ),
]


@pytest.mark.parametrize(("make", "limit", "expected"), LIMITS)
def test_a_limit_admits_what_reaches_it_and_not_one_more(
    make: Callable[[int], str], limit: int, expected: tuple[str, int, str], tmp_path: Path
) -> None:
    code = expected[0]
    within = judged(written(tmp_path, make(limit)), builtin=False)
    assert code not in codes(within.problems)
    (problem,) = [p for p in judged(written(tmp_path, make(limit + 1)), builtin=False).problems if p.code == code]
    assert problem.where is not None
    assert (problem.code, problem.where.line, problem.message) == expected
    assert problem.hint


class TestSizes:
    def test_one_file(self, tmp_path: Path) -> None:
        """Its size is asked for and nothing of it is read: a sparse file holds no data."""
        path = written(tmp_path, HEAD)
        os.truncate(path, source.MAX_FILE_BYTES + 1)
        message = f"a file of {source.MAX_FILE_BYTES + 1} bytes exceeds the limit of {source.MAX_FILE_BYTES}"
        assert concise(judged(path, builtin=False)) == [f"1:1 RG004 {message}"]

    def test_all_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Line ends count too."""
        written(tmp_path, HEAD, "a.yaml")
        written(tmp_path, HEAD + "\n" * 8, "b.yaml")
        monkeypatch.setattr(manifest, "MAX_TOTAL_BYTES", 32)
        assert concise(judged(tmp_path, builtin=False)) == []
        monkeypatch.setattr(manifest, "MAX_TOTAL_BYTES", 31)
        (problem,) = judged(tmp_path, builtin=False).problems
        assert problem.concise() == (
            f"{tmp_path.name}/b.yaml:1:1: RG004 manifests of 32 bytes in all exceed the limit of 31"
        )

    def test_number_of_files(self, tmp_path: Path) -> None:
        for number in range(manifest.MAX_FILES):
            written(tmp_path, HEAD, f"{number:04}.yaml")
        assert concise(judged(tmp_path, builtin=False)) == []
        written(tmp_path, HEAD, "more.yaml")
        assert concise(judged(tmp_path, builtin=False)) == ["1:1 RG004 1025 manifest files exceed the limit of 1024"]


class TestPlaces:
    """What stands in a directory beside honest files."""

    @pytest.fixture
    def unit(self, tmp_path: Path) -> Path:
        directory = tmp_path / "unit"
        directory.mkdir()
        written(directory, HEAD, "good.yaml")
        return directory

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
    def test_a_pipe_is_not_waited_for(self, unit: Path) -> None:
        os.mkfifo(unit / "pipe.yaml")
        (unit / "link.yaml").symlink_to("pipe.yaml")
        assert concise(judged(unit, builtin=False)) == ["1:1 RG001 not a regular file"] * 2

    @pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
    def test_a_link_to_a_device_is_not_read(self, unit: Path) -> None:
        (unit / "zero.yaml").symlink_to("/dev/zero")
        assert concise(judged(unit, builtin=False)) == ["1:1 RG001 not a regular file"]

    @pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no sockets with a path")
    def test_a_socket(self, unit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(unit)  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("server.yaml")
            assert concise(judged(unit, builtin=False)) == ["1:1 RG001 not a regular file"]

    def test_directories_that_lead_back_are_not_followed(self, unit: Path) -> None:
        (unit / "back").symlink_to(".")
        (unit / "out").symlink_to("..")
        (unit / "folder.yaml").mkdir()
        whole = judged(unit, builtin=False)
        assert [document.path for document in whole.documents] == ["unit/good.yaml"]
        assert concise(whole) == []


# Texts that make a naive reader run out of time, memory or stack, with the findings that a careful one has: each as
# `LINE CODE`, several alike as `CODE x COUNT`.
READER = {
    "aliases-that-double": (
        "a0: &a0 x\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)),
        ["RG105 x 118"],
    ),
    "open-brackets": ("[" * 200_000, ["1 RG004"]),
    "open-braces": ("{a: " * 100_000, ["1 RG004"]),
    "dashes": ("- " * 100_000, ["1 RG004"]),
    "complex-keys": ("? " * 100_000, ["1 RG004"]),
    "nested-keys": ("".join(f"{' ' * i}a:\n" for i in range(500)), ["17 RG004"]),
    "one-plain-text": (f"a: {'x' * 10**6}\n", ["1 RG004"]),
    "one-quoted-text": (f'a: "{"x" * 10**6}"\n', ["1 RG004"]),
    "one-escaped-text": (f'a: "{chr(92)}x41' + f"{chr(92)}x41" * 10**5 + '"\n', ["1 RG004"]),
    "one-block-text": ("a: |\n" + "  x\n" * 10**5, ["1 RG004"]),
    "open-quote": (f'a: "{"x" * 10**6}', ["1 RG002"]),
    "blank-lines": (HEAD + "\n" * 10**6, []),
    "keys": ("".join(f"k{i}: 1\n" for i in range(20_000)), []),
    "keys-alike": ("".join(f"{'k' * 60}{i}: 1\n" for i in range(20_000)), []),
    "keys-twice": ("k: 1\n" * 10**5, ["RG101 x 1000", "1002 RG004"]),
    "keys-twice-on-one-line": ("{" + "k: 1, " * 10**5 + "}\n", ["RG101 x 1000", "1 RG004"]),
    "nulls": ("- ~\n" * 10**5, ["RG108 x 1000", "1001 RG004"]),
    "lookalikes": ("".join(f"cud\u0430{i}: 1\n" for i in range(10**5)), ["RG107 x 1000", "1001 RG004"]),
    "controls": ("k: \x01\n" * 10**5, ["RG805 x 1000", "1001 RG004"]),
    "bidirectional": ("# \u202e\n" * 2, ["1 RG805", "2 RG805"]),
    "byte-order-marks": ("a: \ufeffb\n\ufeff", ["1 RG805", "2 RG805"]),
    "nothing-but-nul": ("\0" * 10**5, ["1 RG805"]),
    "utf-16": ((HEAD * 1000).encode("utf-16"), ["1 RG001"]),
    "directives": ("%TAG !a! b\n" * 10**5 + "---\na: 1\n", ["1 RG104"]),
    "directives-that-differ": ("".join(f"%TAG !a{i}! b\n" for i in range(10**5)) + "---\na: 1\n", ["1 RG104"]),
    "documents": ("---\n" * 10**5, ["2 RG003"]),
    "tag-that-runs-code": ("a: !!python/object/apply:os.system [ls]\n", ["1 RG104"]),
    "tag-of-percent-signs": (f"a: !{'%41' * 10**5} b\n", ["1 RG104"]),
    "digits": (f"a: {'1' * 4000}\nb: 1{':1' * 2000}x\nc: 1.{'_' * 4000}x\n", ["1 RG102"]),
}


def counted(lines: list[str]) -> list[str]:
    """Write findings of one code that are many as `CODE x COUNT`."""
    out: list[str] = []
    for line in lines:
        code = line.split()[1]
        same = sum(other.split()[1] == code for other in lines)
        text = line if same < 5 else f"{code} x {same}"
        out += [] if text in out else [text]
    return out


@pytest.mark.parametrize("events", [pytest.param(None, id="default"), pytest.param(PureLoader, id="pure")])
@pytest.mark.parametrize(("text", "expected"), READER.values(), ids=READER)
def test_the_reader_answers_hostile_text(text: str | bytes, expected: list[str], events: Any) -> None:
    if events is PureLoader:  # of which a tenth is enough, for it is slow
        lines = text.splitlines(keepends=True)
        if len(lines) > 20_000:
            text = text[:0].join([*lines[:9_000], *lines[-1:]])
    assert counted(found(text, events)) == expected


def many(form: str, count: int = 3000) -> str:
    return "".join(form.format(i, i + 1) for i in range(count))


ARCHS = f"{DEVICE}    pattern: n_\n    archs:\n"
# Manifests that a rule which compares each with each would not be done with, and the codes of what is found.
RULES = {
    "rows-with-a-key-too-many": (ROWS + many('    - {{device: cpu, variant: v{0}, impl: "a:f", x{0}: 1}}\n'), "RG201"),
    "rows-with-a-number": (ROWS + many('    - {{device: cpu, variant: v{0}, impl: "acme.k:f", hint: 1}}\n'), "RG103"),
    "rows-with-an-old-key": (ROWS + many('    - {{device: cpu, variant: v{0}, source: "acme.k:f"}}\n'), "RG208"),
    "entries-with-a-number": (
        f"{HEAD}platforms:\n" + many("  p{0}: {{summary: s, device: cuda, arch: sm_90, machine: 1}}\n"),
        "RG103",
    ),
    "parts-with-a-number": (ARCHS + many("      n_{0}: {{runs: 1}}\n"), "RG202"),
    "one-row-of-one-device": (row(device=100_000), "RG401"),
    "one-row-of-unknown-archs": (
        f'{ROWS}    - {{device: cuda, impl: "acme.k:f", arch: [{many("x{0}, ", 20_000)}]}}\n',
        "RG301",
    ),
    "one-row-that-excludes-unknown-archs": (
        f'{ROWS}    - {{device: cuda, impl: "acme.k:f", exclude: [{many("x{0}, ", 20_000)}]}}\n',
        "RG301",
    ),
    "a-chain-of-devices": (
        f"{HEAD}devices:\n" + many("  d{0}: {{summary: s, arrays: [numpy], falls_back_to: d{1}}}\n"),
        "RG305",
    ),
    "a-cycle-of-devices": (
        f"{HEAD}devices:\n  d3000: {{summary: s, arrays: [numpy], falls_back_to: d0}}\n"
        + many("  d{0}: {{summary: s, arrays: [numpy], falls_back_to: d{1}}}\n"),
        "RG303",
    ),
    "a-cycle-of-predicates": (f"{HEAD}predicates:\n  p3000: p0\n" + many("  p{0}: p{1}\n"), "RG303"),
    "predicates-that-double": (f"{HEAD}predicates:\n  p3000: {{os: x}}\n" + many("  p{0}: [p{1}, p{1}]\n"), "RG004"),
    "a-cycle-of-profiles": (
        f"{HEAD}profiles:\n  p3000: {{extends: p0}}\n" + many("  p{0}: {{extends: p{1}}}\n"),
        "RG303",
    ),
    "a-chain-of-archs": (f"{ARCHS}      n_4000: {{}}\n" + many("      n_{1}: {{runs: [n_{0}]}}\n"), "RG301"),
    "platforms-with-an-unknown-arch": (
        f"{DEVICE}    archs:\n" + many("      a{0}: {{}}\n") + "platforms:\n"
        + many("  p{0}: {{summary: s, device: npu, arch: b{0}}}\n"),
        "RG301",
    ),
    "rows-with-an-unknown-arch": (
        f"{DEVICE}    archs:\n" + many("      a{0}: {{}}\n") + ROWS.removeprefix(HEAD)
        + many('    - {{device: npu, arch: b{0}, variant: v{0}, impl: "acme.k:f"}}\n'),
        "RG301",
    ),
    "names-nobody-declared": (
        f"{HEAD}ops:\n"
        + many('  op_{0}: {{summary: s, signature: "() -> array", reference: "acme.k:f"}}\n')
        + "backend: acme\narrays: numpy\nkernels:\n"
        + many('  oq_{0}: [{{device: cpu, impl: "acme.k:f"}}]\n'),
        "RG302",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code"), RULES.values(), ids=RULES)
def test_the_rules_answer_hostile_manifests(text: str, code: str, tmp_path: Path) -> None:
    whole = judged(written(tmp_path, text))
    assert code in codes(whole.problems)
    assert len(whole.problems) < 10_000


@pytest.mark.parametrize("alike", ["{}", "x{}", "a_long_name_that_all_of_them_share_{}", "{}_and_the_same_end"])
def test_a_thousand_names_are_looked_for_among_a_thousand(alike: str) -> None:
    legal = {alike.format(f"p{i}") for i in range(1000)}
    hints = [did_you_mean(alike.format(f"q{i}"), legal) for i in range(1000)]
    assert all(hint.startswith(("did you mean `", "known: `")) for hint in hints)


def test_a_close_name_is_found_among_many() -> None:
    legal = [f"op_{i}_{'fused' if i % 2 else 'split'}" for i in range(1000)]
    assert closest("op_77_fusd", legal) == "op_77_fused"
    assert closest("p_77_fused", legal) == "op_77_fused"
    assert closest("unlike_anything_of_these", legal) is None


# What a path or name may not say, in a manifest whose directory may bind `acme` alone.
TRUST = {
    "another-package": ('"os:system"', "RG801"),
    "the-engine": ('"rung.cli:main"', "RG801"),
    "a-part-of-a-name": ('"acme.k:os.system"', "RG802"),
    "an-underscore": ('"acme.k:_system"', "RG802"),
    "a-class": ('"acme.k:__class__"', "RG802"),
    "builtins": ('"builtins:eval"', "RG801"),
    "no-module": ('":system"', "RG205"),
    "a-relative-module": ('"..acme:f"', "RG205"),
    "a-file": ('"/tmp/acme.py:f"', "RG205"),
    "a-call": ('"acme.k:f()"', "RG205"),
    "a-line-end": ('"acme.k:f\\n"', "RG205"),
    "a-lookalike": ('"\u0430cme.k:f"', "RG107"),
    "a-fullwidth-colon": ('"acme.k\uff1af"', "RG107"),
    "a-zero-width-character": ('"acme.k:f\u200b"', "RG107"),
    "a-control-character": ('"acme.k:f\\x00"', "RG805"),
    "a-bidirectional-character": ('"acme.k:\\u202ef"', "RG805"),
    "a-very-long-path": (f'"{"a." * 2000}k:f"', "RG801"),
    "a-tag": ('!!python/name:os.system ""', "RG104"),
}  # fmt: skip


@pytest.mark.parametrize(("impl", "code"), TRUST.values(), ids=TRUST)
def test_no_path_reaches_beyond_what_is_allowed(impl: str, code: str, tmp_path: Path) -> None:
    whole = judged(written(tmp_path, f"{ROWS}    - {{device: cpu, impl: {impl}}}\n"), roots=frozenset({"acme"}))
    assert codes(whole.problems) == [code]
    assert all(line.isprintable() for line in report(whole).split("\n"))


@pytest.mark.parametrize("form", ["full", "concise", "json", "github", "sarif"])
def test_nothing_of_a_manifest_writes_to_a_terminal(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;x\x07\x9b31m\u202e\n::error::x\r"
    quoted = "".join(f"\\u{ord(c):04x}" for c in evil)
    written(tmp_path, f'{HEAD}"{quoted}": 1\nops: {{"{quoted}": "{quoted}"}}\n', "a\x1b[31m\nb.yaml")
    written(tmp_path, f"{HEAD}x: {evil}\n", "\u202ec.yaml")
    written(
        tmp_path, f'{ROWS}    - {{device: "{quoted}", impl: "{quoted}:f", "{quoted}": 1}}\n', os.fsdecode(b"d\xff.yaml")
    )
    assert main(["check", str(tmp_path), "--root", str(tmp_path), "--format", form]) == 1
    out, err = capsys.readouterr()
    assert all(line.isprintable() for line in [*out.split("\n"), *err.split("\n")])
    assert not any(line.startswith("::error::x") for line in out.split("\n"))


@needs_libyaml
def test_the_whole_says_the_same_whatever_the_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = '    - {device: cpu, impl: "acme.k:f", hint: no}\n'
    path = written(tmp_path, ROWS + many('    - {{device: cpu, variant: v{0}, impl: "acme.k:f"}}\n', 100) + fault)
    both = concise(judged(path))
    assert len(both) == 1
    only_pure(monkeypatch)
    assert concise(judged(path)) == both
