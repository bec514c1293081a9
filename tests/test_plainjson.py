"""JSON without `json`: what is read is what `json` reads, and nothing else is."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rung import plainjson
from rung.plainjson import loads

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
ALMOST = st.text(alphabet='[]{}:,"\\ \n\t0123456789.eE+-abcdfnlrstuNaIy\x00\ud800é', max_size=12)
BLANKS = " \t\n\r"


@pytest.fixture
def fallback(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Give the function as it is in a Python without the scanner in C."""
    monkeypatch.setitem(sys.modules, "_json", None)
    spec = importlib.util.spec_from_file_location("plain_without_a_scanner", plainjson.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module._scan is None
    found: Callable[[str], Any] = module.loads
    return found


def outcome(read: Callable[[str], Any], text: str) -> str:
    """Say what reading a text gives: the value as Python writes it, or that it is refused."""
    try:
        return repr(read(text))  # tells 1 from 1.0 and True, and shows what is not a number
    except ValueError:
        return "refused"


@given(value=VALUES, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 2))
def test_what_is_written_is_read(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert repr(loads(text)) == repr(value)


@given(ALMOST)
def test_any_text_means_what_it_means_to_json(text: str) -> None:
    assume(text == text.strip(BLANKS))
    assert outcome(loads, text) == outcome(json.loads, text)


@pytest.mark.parametrize(
    "text",
    [
        "0", "-0", "-0.0", "1e400", "-1e400", "1E+2", "NaN", "Infinity", "-Infinity", "1234567890" * 3,
        '""', '"\\u00e9\\ud83d\\ude00"', '"\\ud800"', '"\x7f"', "[]", "{}", '{"a":1,"a":2}', "[ 1 ,\n2 ]",
        '{ "a" : [] }',
        "[" * 500 + "]" * 500,
    ],
    ids=[
        "zero", "minus zero", "minus zero as a float", "too large", "too small", "exponent", "no number", "infinite",
        "minus infinite", "long", "empty text", "a pair of escapes", "half a pair", "a control character", "empty list",
        "empty mapping", "a key twice", "blanks in a list", "blanks in a mapping", "nested",
    ],
)  # fmt: skip
def test_it_reads_what_json_reads(text: str, fallback: Callable[[str], Any]) -> None:
    assert outcome(loads, text) == outcome(json.loads, text) == outcome(fallback, text) != "refused"


REFUSED = [
    "", "nul", "True", "'a'", "01", "+1", ".5", "1.", "0x1", "- 1", '"a', '"\n"', '"\\x41"', '"\\u12"', "[", "[1,]",
    "[,1]", "[1 2]", "]", "{", '{"a"}', '{"a" 1}', '{"a":}', '{"a":1,}', "{1:2}", "{'a':1}", "1 2", "[]x", "[]\x00",
    "\ufeff1", "// 1", "9" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    REFUSED,
    ids=[
        "nothing", "half a word", "Python's word", "single quotes", "leading zero", "plus", "no digit before",
        "no digit behind", "hexadecimal", "a blank in a number", "an open text", "a line end in a text",
        "an unknown escape", "a short escape", "an open list", "a comma too many", "a comma first", "no comma",
        "only an end", "an open mapping", "no value", "no colon", "an empty value", "a comma behind the last",
        "a number for a key", "keys in single quotes", "two values", "something behind", "a null byte behind",
        "a byte order mark", "a comment", "more digits than Python reads",
    ],
)  # fmt: skip
def test_what_json_refuses_is_refused(text: str, fallback: Callable[[str], Any]) -> None:
    for read in (json.loads, loads, fallback):
        with pytest.raises(ValueError, match=r"."):
            read(text)


@pytest.mark.parametrize("text", [" 1", "1 ", "\n[]", "{}\n", "\t1\r\n", " ", "1\u00a0"])
def test_blanks_around_a_document_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no JSON|behind the JSON"):
        loads(text)


@pytest.mark.parametrize("text", [" 1", "1 ", "\n[]", "{}\n", "\t1\r\n"])
def test_so_they_are_without_a_scanner(text: str, fallback: Callable[[str], Any]) -> None:
    assert outcome(fallback, text) == "refused"


@given(VALUES)
def test_json_does_it_where_there_is_no_scanner(value: object) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plainjson, "_scan", None)
        assert repr(loads(json.dumps(value))) == repr(value)


REFUSE = """\
import ast, sys
from rung.plainjson import loads
for text in ast.literal_eval(sys.stdin.read()):
    assert "json.decoder" not in sys.modules
    try:
        loads(text)
    except ValueError:
        pass
"""


def test_it_is_refused_alike_where_nobody_has_imported_json() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REFUSE], input=ascii(REFUSED), capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_too_deep_a_document_is_said_as_json_says_it() -> None:
    text = "[" * 100_000
    for read in (json.loads, loads):
        with pytest.raises(RecursionError):
            read(text)
