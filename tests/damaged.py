"""Hypothesis strategies for manifests that somebody, or something, has damaged."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import strategies as st

from rung.resources import data_dir

if TYPE_CHECKING:
    from collections.abc import Callable

SHIPPED = sorted(data_dir("manifests").rglob("*.yaml"))
BAD = sorted((Path(__file__).parent / "bad_manifests").glob("*/bad.yaml"))

# What is thrown into a text: indicators, broken syntax, ambiguous scalars, characters that must not pass.
FRAGMENTS = [
    *"{}[],:#&*!|>@`%?-'\"\\\t\n\r",
    *("- ", ": ", "? ", "<<: ", "---\n", "...\n", "%YAML 1.3\n---\n", "&a ", "*a", "!!str ", "!x ", "manifest: 2\n"),
    *("~", "null", "on", "010", "1e3", "2020-01-01", "9" * 30, "x" * 5000, "[" * 20, "\r\n", "\n\n  "),
    *("\x00", "\x1b[0m", "\u2028", "\u202e", "\ufeff", "\u00e9", "\U0001f600", '"\\ud800"', '"\\UFFFFFFFF"'),
    *("{a: ,}", "[a:]", "{?", "|#", "|2\n", "# rung: ignore[RG403] x\n", "# rung: ignore[\n", "\u0430", "\uff10"),
]
KEYS = sorted({word for path in SHIPPED for word in re.findall(r"[a-z_]+(?=:)", path.read_text(encoding="utf-8"))})
NUMBERS = [0, -1, 1.5, 10**30, float("inf")]
COLLECTIONS: list[Any] = [[], {}, ["x"], [[]], {"x": 1}, {"all": []}, {"not": "x"}, [1, None], {"": ""}, {"a b": [""]}]
TEXTS = [
    "",
    "x",
    "on",
    "1.10",
    "sm_9O",
    "cuda",
    "default",
    "torch >=2",
    "\x07",
    "\u00e9",
    "x" * 5000,
    "a\nb",
    "`",
    "$(",
]
PATHS = [
    "a.b:c",
    "a.b:_c",
    "os:x.y",
    "rung:_closest",
    "rung_backends.torch.solver:flow_match_step",
    "..:x",
    "a.__b__:c",
]
# Lists in which several items have a fault, and one item several.
MIXED: list[Any] = [
    ["x86_64", "q", None],
    [None, "q", ["on"]],
    ["cpu", 3, [None, 3]],
    [{"os": 3}, None, {"use": 3, "q": 1}],
]
VALUES: list[Any] = [None, True, *NUMBERS, *COLLECTIONS, *MIXED, *TEXTS, *PATHS]


@st.composite
def texts(draw: Callable[..., Any]) -> bytes:
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


@cache
def _shipped(index: int) -> Any:
    return yaml.safe_load(SHIPPED[index].read_bytes())


def _changed(draw: Callable[..., Any], value: Any) -> Any:
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
            middle = [_changed(draw, value[at])]
        elif choice == "add":
            middle = [draw(other), *middle]
        return [*value[:at], *({"repeat": 2 * middle, "remove": []}.get(choice, middle)), *value[at + 1 :]]
    key = draw(st.sampled_from(sorted(value))) if choice != "add" else draw(st.sampled_from(KEYS))
    rest = {k: v for k, v in value.items() if k != key}
    if choice == "descend":
        return {**rest, key: _changed(draw, value[key])}
    if choice == "add":
        return {**rest, key: draw(other)}
    return {**rest, draw(st.sampled_from(KEYS)): value[key]} if choice == "rename" else rest


@st.composite
def shapes(draw: Callable[..., Any]) -> bytes:
    """A shipped manifest as well-formed YAML, with keys, values and items changed."""
    value = _shipped(draw(st.sampled_from(range(len(SHIPPED)))))
    for _ in range(draw(st.integers(1, 4))):
        value = _changed(draw, value)
    text: str = yaml.safe_dump(value, default_flow_style=draw(st.booleans()), allow_unicode=True, sort_keys=False)
    return text.encode()
