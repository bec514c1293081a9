from __future__ import annotations

import pytest

from rung.diagnostics import Edit, Problems, Where
from rung.repairs import apply, as_number, quoted, renamed, split_lines, without_repetition
from rung.source import Document, read


def document(text: str) -> Document:
    out = read(text.encode(), "x", Problems())
    assert out is not None
    return out


def edit(line: int, column: int, end_line: int, end_column: int, text: str) -> Edit:
    return Edit(Where("x", line, column, end_line, end_column), text, "")


@pytest.mark.parametrize(
    ("text", "number", "whole"),
    [
        (".5", "0.5", None),
        ("5.", "5.0", None),
        ("-.5", "-0.5", None),
        ("+1.5", "1.5", None),
        ("1e-3", "1.0e-3", None),
        ("1E5", "1.0e+5", None),
        ("5.e3", "5.0e+3", None),
        ("1_000.5", "1000.5", None),
        ("1_000", "1000", "1000"),
        ("+5", "5", "5"),
        ("010", None, None),
        ("0x10", None, None),
        ("12:30", None, None),
        ("1__0", None, None),
        ("1_", None, None),
        (".", None, None),
        ("+-1", None, None),
        (".inf", None, None),
        ("1e999", None, None),
        ("no", None, None),
    ],
)
def test_numbers_are_rewritten_where_they_can_be_read_in_one_way(
    text: str, number: str | None, whole: str | None
) -> None:
    assert (as_number(text, whole=False), as_number(text, whole=True)) == (number, whole)


@pytest.mark.parametrize(
    ("text", "loc", "after"),
    [
        ("a: [x, y, x]\n", ("a", 2), "a: [x, y]\n"),
        ("a: [x,x , y]\n", ("a", 1), "a: [x , y]\n"),
        ("a: [\n  x,\n  x,\n]\n", ("a", 1), "a: [\n  x,\n]\n"),
        ("a:\n- x\n- y\n- x\nb: 1\n", ("a", 2), "a:\n- x\n- y\nb: 1\n"),
        ("a:\n  - x\n  # why\n  - x\n", ("a", 1), "a:\n  - x\n  # why\n"),
        ("a:\n  - x\n  - x", ("a", 1), "a:\n  - x"),
        ("a:\n  - x\n  -   'x'  \n", ("a", 1), "a:\n  - x\n"),
        ("a:\n  - x\n  - x # once more\n", ("a", 1), None),
        ("a: [x, # first\n  x]\n", ("a", 1), None),
        ("a: [{b: c}, {b: c}]\n", ("a", 1), None),
        ("a: [x, x]\n", ("a", 0), None),
        ("a: [x, x]\n", ("a", 2), None),
        ("a: x\n", ("a", 1), None),
    ],
)
def test_a_repetition_leaves_with_its_comma_or_line(text: str, loc: tuple[str | int, ...], after: str | None) -> None:
    found = without_repetition(document(text), loc)
    assert (apply(text.encode(), [found])[0].decode() if found is not None else None) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [("a: no\n", 'a: "no"\n'), ("a: [1.10] # c\n", 'a: ["1.10"] # c\n'), ("a: 'no'\n", None), ('a: n"o\n', None)],
)
def test_plain_text_is_quoted(text: str, after: str | None) -> None:
    node = document(text).node(("a", 0))
    found = quoted(document(text), node)
    assert (apply(text.encode(), [found])[0].decode() if found is not None else None) == after


@pytest.mark.parametrize(
    ("text", "after"), [("a: 1\n", "b: 1\n"), ("'a' : 1\n", "'b' : 1\n"), ('{"a": 1}', '{"b": 1}')]
)
def test_a_key_is_renamed_within_its_quotes(text: str, after: str) -> None:
    read_text = document(text)
    key = read_text.node(("a",)).key
    assert key is not None
    found = renamed(read_text, key, "b")
    assert found is not None
    assert apply(text.encode(), [found])[0].decode() == after


@pytest.mark.parametrize(
    ("data", "edits", "after", "places"),
    [
        (b"abc\n", [edit(1, 2, 1, 3, "XX")], b"aXXc\n", [(1, 2, 1, 4)]),
        (b"a\r\nc\r\n", [edit(1, 1, 1, 2, "B"), edit(2, 1, 2, 2, "C")], b"B\r\nC\r\n", [(1, 1, 1, 2), (2, 1, 2, 2)]),
        (b"a b c", [edit(1, 1, 1, 2, "AA"), edit(1, 5, 1, 6, "C")], b"AA b C", [(1, 1, 1, 3), (1, 6, 1, 7)]),
        (b"a\rb\rc", [edit(2, 1, 3, 1, "")], b"a\rc", [(2, 1, 2, 1)]),
        (b"\xef\xbb\xbfa\n", [edit(1, 1, 1, 2, "b")], b"\xef\xbb\xbfb\n", [(1, 1, 1, 2)]),
        ("é: a\n".encode(), [edit(1, 4, 1, 5, "ü")], "é: ü\n".encode(), [(1, 4, 1, 5)]),
        (b"a\r\nb", [edit(1, 1, 1, 1, "# x\n")], b"# x\r\na\r\nb", [(1, 1, 2, 1)]),
        (b"a", [edit(1, 2, 1, 2, "\n")], b"a\n", [(1, 2, 2, 1)]),
        (b"", [edit(1, 1, 1, 1, "x")], b"x", [(1, 1, 1, 2)]),
        (b"a\n", [edit(2, 1, 2, 1, "b")], b"a\nb", [(2, 1, 2, 2)]),
    ],
)  # fmt: skip
def test_edits_touch_their_places_alone(
    data: bytes, edits: list[Edit], after: bytes, places: list[tuple[int, ...]]
) -> None:
    out, found = apply(data, edits)
    assert out == after
    assert [(w.line, w.column, w.end_line, w.end_column) for w in found] == places


@pytest.mark.parametrize(
    "edits",
    [
        [edit(3, 1, 3, 2, "x")],
        [edit(1, 9, 1, 10, "x")],
        [edit(1, 0, 1, 1, "x")],
        [edit(1, 2, 1, 1, "x")],
        [edit(1, 1, 1, 3, "x"), edit(1, 2, 1, 3, "y")],
    ],
    ids=["no-such-line", "no-such-column", "before-the-line", "backwards", "overlap"],
)
def test_a_place_that_is_none_is_an_error(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match=r"the file has no line|edits overlap"):
        apply(b"abc\nd\n", edits)


def test_lines_keep_their_ends() -> None:
    assert split_lines("a\r\nb\rc\n\nd\x0b\u2028e") == ["a\r\n", "b\r", "c\n", "\n", "d\x0b\u2028e"]
    assert split_lines("") == []
