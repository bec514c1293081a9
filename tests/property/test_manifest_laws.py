"""Laws of reading and merging: whatever the bytes, an answer; whatever the order of files, the same table."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from judging import judged, report
from rung.compile import compile_manifests, compile_units
from rung.diagnostics import Problems
from rung.load import BUILTIN_ROOTS
from rung.manifest import Unit
from rung.resources import data_dir
from rung.source import PureLoader, is_plain, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rung.table import Table

LAWS = settings(derandomize=True, max_examples=400, deadline=None, database=None)
FEW = settings(LAWS, max_examples=200)

SHIPPED = sorted(data_dir("manifests").rglob("*.yaml"))
BAD = sorted((Path(__file__).parents[1] / "bad_manifests").glob("*/bad.yaml"))
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

# What is thrown into a text: indicators, broken syntax, ambiguous scalars, characters that must not pass.
FRAGMENTS = [
    *"{}[],:#&*!|>@`%?-'\"\\\t\n\r",
    *("- ", ": ", "? ", "<<: ", "---\n", "...\n", "%YAML 1.3\n---\n", "&a ", "*a", "!!str ", "!x ", "manifest: 2\n"),
    *("~", "null", "on", "010", "1e3", "2020-01-01", "9" * 30, "x" * 5000, "[" * 20, "\r\n", "\n\n  "),
    *("\x00", "\x1b[0m", "\u2028", "\u202e", "\ufeff", "\u00e9", "\U0001f600", '"\\ud800"', '"\\UFFFFFFFF"'),
    *("{a: ,}", "[a:]", "{?", "|#", "|2\n"),
]
KEYS = sorted({word for path in SHIPPED for word in re.findall(r"[a-z_]+(?=:)", path.read_text(encoding="utf-8"))})
VALUES: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        1.5,
        10**30,
        float("inf"),
        [],
        {},
        ["x"],
        [[]],
        {"x": 1},
        {"all": []},
        {"not": "x"},
        [1, None],
    ),
    *("", "x", "on", "1.10", "sm_9O", "cuda", "default", "a.b:c", "a.b:_c", "os:x.y", "torch >=2"),
    *("\x07", "\u00e9", "x" * 5000),
]


@st.composite
def damaged_texts(draw: Callable[..., Any]) -> bytes:
    """A shipped or a bad manifest, or some lines of it, with fragments put in and pieces taken out."""
    data: bytes = draw(st.sampled_from([*SHIPPED, *BAD])).read_bytes()
    lines = data.split(b"\n")
    start = draw(st.integers(0, len(lines) - 1))
    data = b"\n".join(lines[start : start + draw(st.integers(1, 25))])
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 8))
        put = draw(st.one_of(st.sampled_from(FRAGMENTS).map(str.encode), st.binary(max_size=3)))
        data = data[:at] + put + data[at + (length if draw(st.booleans()) else 0) :]
    return data


def found(data: bytes, events: Any = None) -> list[tuple[str, str]]:
    problems = Problems()
    read(data, "x.yaml", problems, events=events)
    return [(p.code, str(p.where)) for p in problems]


def judge(data: bytes) -> None:
    """Check a file after the built-in manifests and render what is found; compile it when nothing is."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.yaml"
        path.write_bytes(data)
        whole = judged(path)
    assert all(len(p.message) <= 120 for p in whole.problems)
    assert all(line.isprintable() for line in report(whole).split("\n"))
    if not whole.problems.errors:
        compile_manifests(whole)


@LAWS
@given(damaged_texts())
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
@given(st.one_of(damaged_texts(), st.binary(max_size=200)))
def test_no_bytes_make_a_check_fail(data: bytes) -> None:
    judge(data)


@cache
def shipped_data() -> list[Any]:
    return [yaml.safe_load(path.read_bytes()) for path in SHIPPED]


def changed(draw: Callable[..., Any], value: Any) -> Any:
    """Give some data with one thing changed somewhere in it."""
    choices = ["replace"]
    if isinstance(value, dict):
        choices = ["descend", "descend", "add", "rename", "remove"] if value else ["add"]
    elif isinstance(value, list):
        choices = ["descend", "descend", "add", "repeat", "remove"] if value else ["add"]
    choice = draw(st.sampled_from(choices))
    other = st.sampled_from(VALUES)
    if choice == "replace":
        return draw(other)
    if isinstance(value, list):
        at = draw(st.integers(0, max(0, len(value) - 1)))
        middle = value[at : at + 1]
        if choice == "descend":
            middle = [changed(draw, value[at])]
        elif choice == "add":
            middle = [draw(other), *middle]
        return [*value[:at], *({"repeat": 2 * middle, "remove": []}.get(choice, middle)), *value[at + 1 :]]
    key = draw(st.sampled_from(sorted(value))) if choice != "add" else draw(st.sampled_from(KEYS))
    rest = {k: v for k, v in value.items() if k != key}
    if choice == "descend":
        return {**rest, key: changed(draw, value[key])}
    if choice == "add":
        return {**rest, key: draw(other)}
    return {**rest, draw(st.sampled_from(KEYS)): value[key]} if choice == "rename" else rest


@st.composite
def damaged_data(draw: Callable[..., Any]) -> bytes:
    """A shipped manifest as well-formed YAML, with keys, values and items changed."""
    value = draw(st.sampled_from(range(len(SHIPPED))).map(lambda index: shipped_data()[index]))
    for _ in range(draw(st.integers(1, 4))):
        value = changed(draw, value)
    text: str = yaml.safe_dump(value, default_flow_style=draw(st.booleans()), allow_unicode=True, sort_keys=False)
    return text.encode()


@FEW
@given(damaged_data())
def test_no_shape_makes_a_check_fail(data: bytes) -> None:
    judge(data)
    assert found(data) == found(data, PureLoader)


def as_data(table: Table) -> dict[str, object]:
    return {field.name: getattr(table, field.name) for field in dataclasses.fields(table)}


@cache
def parts() -> tuple[Unit, ...]:
    """The built-in manifests and a few more, each file a unit of its own."""
    directory = Path(tempfile.mkdtemp())
    extra = []
    for number, text in enumerate(EXTRA):
        extra.append(directory / f"extra{number}.yaml")
        extra[-1].write_text(text, encoding="utf-8")
    return tuple(Unit(path, path.name, BUILTIN_ROOTS) for path in [*SHIPPED, *extra])


@cache
def expected() -> dict[str, object]:
    return as_data(compile_units(parts()))


@settings(LAWS, max_examples=30)
@given(st.permutations(range(len(SHIPPED) + len(EXTRA))))
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
