"""Laws of reading and merging: whatever the loader, the same findings; whatever the order of files, the same table."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

import damaged
from rung.compile import compile_units
from rung.diagnostics import Problems
from rung.load import BUILTIN_ROOTS
from rung.nodes import FAST, LEVELS
from rung.records import fields
from rung.source import PureLoader, is_plain, read
from rung.table import PER_PROCESS
from rung.units import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rung.diagnostics import Where
    from rung.source import Document
    from rung.table import Table


LAWS = settings(derandomize=True, max_examples=400, deadline=None, database=None)
FEW = settings(LAWS, max_examples=200)

EXTRA = [
    "manifest: 1\nkinds: {codec: {summary: s}}\nprofiles: {a: {extends: b, only: torch}, b: {fall: {device: error}}}\n",
    """\
manifest: 1
backend: one
arrays: numpy
kernels:
  flow_match_step:
    - {device: [cuda, mps], impl: "rung_backends.one:f", when: {os: linux, why: one}}
""",
    """\
manifest: 1
backend: two
arrays: torch
requires: [torch_present, {os: linux, why: two}]
components:
  codec: [{device: cuda, variant: [quick, default], impl: "rung_backends.two:f"}]
""",
]


def found(data: bytes, events: Any = None) -> list[tuple[str, str]]:
    problems = Problems()
    read(data, "x.yaml", problems, events=events)
    return [(p.code, str(p.where)) for p in problems]


@LAWS
@given(damaged.texts())
def test_no_text_makes_the_reader_fail_and_both_loaders_agree(data: bytes) -> None:
    assert found(data) == found(data, PureLoader)


@LAWS
@given(st.text(alphabet=st.sampled_from([*"ab:- {}[],#&*!|>'\"%@`?\t\n\\~0123.x"]), max_size=60))
@example("a: |2# b\n")
@example("{?\n}")
@example("- !<x,> y")
def test_the_loaders_agree_on_any_yaml(text: str) -> None:
    assert found(text.encode()) == found(text.encode(), PureLoader)


@FEW
@given(damaged.shapes())
def test_the_loaders_agree_on_any_shape(data: bytes) -> None:
    assert found(data) == found(data, PureLoader)


# Rows as authors write them, and as they do not: what is between the words is what folding goes by.
ROWS = [
    "- {{a: {0}, b: {1}}}\n",
    "- {{a: {0}, {1}: x}}  # {0}\n",
    '- {{a: "{0}", b: [{1}, {0}]}}\n',
    "- a: {0}\n  b: {1}\n",
    "- a: {0}\n\n  # {1}\n  b: {{c: {1}}}\n",
    "- {0}\n",
    "- {0}: {1}\n",
    '- {{a: "{0}, it is ({1})", "q[-1].{0}": "", c: {1}; {0}}}\n',
    "- |\n  {0}\n",
    "- a: |+\n    {0}\n",
    "- a: |-\n    {0}\n  b: {1}\n",
    "- '{0}' # {1}\n",
    "- - {0}\n  - {1}\n",
    "- a: '{0}\n    {1}'\n",
    "- a: {0}\n    {1}\n",
    "- a: |\n    {0}\n    - {1}\n",
    "- a: {0}>{1}\n",
    "- a: >{1}\n    {0}\n",
    "- [{0},\n  {1}]\n",
    "# {0}\n",
    " # {1}\n",
    "\n",
]
WORDS = [
    "x",
    "abc",
    "true",
    "no",
    "12",
    "0x1",
    "1.5",
    "a.b:c",
    "a b",
    "p >=2.4",
    "a-1/b",
    "",
    "_",
    "1_0",
    "null",
    "a_b",
]
WORDS += ["a: b", "a #b", "&a", "*a", "!a", "é", "'", '"', "\\\\", "- x", "[", "}", "? a", "|", ">2", "a,b", "x" * 1020]


@st.composite
def lists(draw: Callable[..., Any]) -> bytes:
    """A text of several lists whose items are mostly written alike."""
    few = draw(st.lists(st.sampled_from(ROWS), min_size=1, max_size=3))
    usual = draw(st.lists(st.sampled_from(WORDS[:11]), min_size=2, max_size=5))
    out = []
    for name in draw(st.sampled_from([["k"], ["k", "l"], ["k", "l", "m"]])):
        indent = draw(st.sampled_from(["", *["  ", "    "] * 3]))
        head = draw(st.sampled_from(["{0}:\n", *["{0}:\n  a:\n"] * 4, "{0}:\n  a:\n    b:\n"])).format(name)
        rows = draw(st.lists(st.sampled_from(few), min_size=2, max_size=5)) * draw(st.sampled_from([1, 4]))
        if draw(st.integers(0, 5)) == 0:
            rows.insert(draw(st.integers(0, len(rows))), draw(st.sampled_from(ROWS)))
        words = st.one_of(st.sampled_from(usual), st.sampled_from(WORDS if draw(st.integers(0, 4)) == 0 else usual))
        texts = [row.format(draw(words), draw(words)) for row in rows]
        if draw(st.integers(0, 9)) == 0:
            texts[-1] = texts[-1].removesuffix("\n")
        out.append(head + "".join(indent + line for text in texts for line in text.splitlines(keepends=True)))
    return "".join(out).encode()


def positions(document: Document) -> Iterator[tuple[tuple[str | int, ...], Where, Where]]:
    """Give where everything in a document stands: values and keys."""
    todo: list[tuple[tuple[str | int, ...], Any]] = [((), document.data)]
    while todo:
        loc, value = todo.pop()
        yield loc, document.where(loc), document.where(loc, key=True)
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        todo += [((*loc, part), below) for part, below in inner]


def reads_the_same(data: bytes) -> bool:
    """Read a text for its data first, and for all places at once; say whether the first was enough."""
    told, all_told = Problems(), Problems()
    quick = read(data, "x.yaml", told)
    thorough = read(data, "x.yaml", all_told, events=FAST)
    assert quick is not None
    assert thorough is not None
    assert [(p.code, p.where, p.message) for p in told] == [(p.code, p.where, p.message) for p in all_told]
    assert (quick.usable, repr(quick.data)) == (thorough.usable, repr(thorough.data))
    is_outline = not quick.whole
    if is_outline:
        assert not told.found
        upper = [place for place in positions(thorough) if len(place[0]) <= LEVELS]
        assert upper == [(loc, quick.where(loc), quick.where(loc, key=True)) for loc, _, _ in upper]
        assert not quick.whole
        assert [*positions(quick)] == [*positions(thorough)]
    return is_outline


@LAWS
@given(damaged.texts())
def test_a_text_read_for_its_data_is_the_same_text(data: bytes) -> None:
    reads_the_same(data)


@LAWS
@given(damaged.shapes())
def test_a_shape_read_for_its_data_is_the_same_shape(data: bytes) -> None:
    reads_the_same(data)


@LAWS
@given(st.text(alphabet=st.sampled_from([*"ab:- {}[],#&*!|>'\"%@`?\t\n\\~0123.x"]), max_size=60))
def test_any_yaml_read_for_its_data_is_the_same(text: str) -> None:
    reads_the_same(text.encode())


EIGHT = "".join(f"    - {{a: x{number}, b: [y, 1]}}\n" for number in range(8))


@settings(LAWS, max_examples=1000)
@given(lists())
@example(f"k:\n  l:\n{EIGHT}    - {{a: x, a: [y, 1]}}\n".encode())
@example(f"k:\n  l:\n{EIGHT}    - {{a: no, b: [y, 1]}}\n".encode())
@example(f"k:\n  l:\n{EIGHT}    - {{on: x, b: [y, 1]}}\n".encode())
@example(f"k:\n  l:\n    - 'a\n{EIGHT}    - b'\n".encode())
@example(f"k:\n  l:\n    - |+\n      a\n{EIGHT}".encode())
@example(f"k: |\n{EIGHT}".encode())
@example(f"k: [a,\n{EIGHT}]\n".encode())
@example(f"k:\n  l:\n{EIGHT}  # c\n{EIGHT}k2:\n{EIGHT}".encode())
def test_lists_of_items_that_are_written_alike_are_what_they_were(data: bytes) -> None:
    reads_the_same(data)


def test_shipped_manifests_are_read_for_their_data_alone() -> None:
    assert all(reads_the_same(path.read_bytes()) for path in damaged.SHIPPED)


def as_data(table: Table) -> dict[str, object]:
    return {name: getattr(table, name) for name in fields(table) if name not in PER_PROCESS}


@cache
def parts() -> tuple[Unit, ...]:
    """The built-in manifests and a few more, each file a unit of its own."""
    directory = Path(tempfile.mkdtemp())
    extra = []
    for number, text in enumerate(EXTRA):
        extra.append(directory / f"extra{number}.yaml")
        extra[-1].write_text(text, encoding="utf-8")
    return tuple(Unit(path, path.name, BUILTIN_ROOTS) for path in [*damaged.SHIPPED, *extra])


@cache
def expected() -> dict[str, object]:
    return as_data(compile_units(parts()))


@settings(LAWS, max_examples=30)
@given(st.permutations(range(len(damaged.SHIPPED) + len(EXTRA))))
def test_the_order_of_files_never_changes_a_table(order: Sequence[int]) -> None:
    assert as_data(compile_units([parts()[index] for index in order])) == expected()


@LAWS
@given(st.text(alphabet=st.sampled_from([*"aeEfnoOxyY0129._+-/:~= "]), max_size=8))
def test_plain_text_is_read_back_as_it_was(text: str) -> None:
    if is_plain(text):
        problems = Problems()
        document = read(f"- {text}\n".encode(), "x", problems)
        assert document is not None
        assert (document.root.data, len(problems)) == ([text], 0)
        assert yaml.safe_load(f"- {text}\n") == [text]
