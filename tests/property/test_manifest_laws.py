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
from rung.records import fields
from rung.source import PureLoader, is_plain, read
from rung.units import Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def as_data(table: Table) -> dict[str, object]:
    return {name: getattr(table, name) for name in fields(table)}


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
