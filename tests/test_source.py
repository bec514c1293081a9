from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rung import outline, source
from rung.diagnostics import Problems
from rung.source import Document, PureLoader, is_plain, read, read_path

if TYPE_CHECKING:
    from pathlib import Path

needs_libyaml = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")
LOADERS = [
    pytest.param(None, id="default"),
    pytest.param(PureLoader, id="pure"),
]


def found(data: bytes | str, events: Any = None) -> list[str]:
    """Read a text and give its findings as `LINE:COLUMN CODE message`."""
    problems = Problems()
    read(data if isinstance(data, bytes) else data.encode(), "x", problems, events=events)
    return [p.concise().removeprefix("x:").replace(": ", " ", 1) for p in problems]


def codes(data: bytes | str, events: Any = None) -> list[str]:
    """Read a text and give its findings as `LINE CODE`."""
    return [f"{line.partition(':')[0]} {line.split()[1]}" for line in found(data, events)]


def document(text: str) -> Document:
    problems = Problems()
    out = read(text.encode(), "x", problems)
    assert not problems.found
    assert out is not None
    return out


DISPUTED = [
    *(
        "y",
        "Y",
        "n",
        "N",
        "yes",
        "Yes",
        "YES",
        "no",
        "No",
        "NO",
        "on",
        "On",
        "ON",
        "off",
        "Off",
        "OFF",
        "True",
        "FALSE",
    ),
    *(
        "010",
        "00",
        "-01",
        "+1",
        "1_000",
        "0b11",
        "0o17",
        "0x1F",
        "1234567890123456789012",
        "12:30",
        "190:20:30.15",
        "=",
    ),
    *("1e3", "1.5e3", "1.5E-3", ".5", "5.", "1_0.5", "1.0e+999", ".inf", "-.INF", ".NaN"),
    *("2020-01-02", "2020-1-2T01:02:03"),
]


class TestScalars:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("true", True),
            ("false", False),
            ("0", 0),
            ("-7", -7),
            ("999999999999999999", 10**18 - 1),
            ("1.5", 1.5),
            ("-0.25", -0.25),
            ("1.0e-6", 1.0e-6),
            ("2.0e+3", 2000.0),
            ("1.10", 1.1),
            ("sm_90", "sm_90"),
            ("2.4.1", "2.4.1"),
            ("torch >=2.4", "torch >=2.4"),
            ("nope", "nope"),
            ("truth", "truth"),
            ("1x", "1x"),
            ("é", "é"),
            ('"on"', "on"),
            ("'1.10'", "1.10"),
            ('""', ""),
            ('"null"', "null"),
            ('"a\\tb"', "a\tb"),
        ],
    )
    def test_values(self, text: str, value: object) -> None:
        root = document(f"- {text}\n").root
        assert root.data == [value]
        assert [type(item) for item in root.data] == [type(value)]

    @pytest.mark.parametrize("text", DISPUTED)
    def test_what_readers_disagree_on_is_quoted(self, text: str) -> None:
        assert codes(f"- {text}\n") == ["1 RG102"]
        assert document(f"- '{text}'\n").root.data == [text]

    @pytest.mark.parametrize("text", ["~", "null", "Null", "NULL"])
    def test_null_words(self, text: str) -> None:
        assert found(f"a: {text}\n") == [f"1:4 RG108 null: `{text}` is no value"]

    @pytest.mark.parametrize("text", ["sm_90", "a-b", "1.2.3x", "x86_64", "a/b.c", "1-2"])
    def test_plain_texts_stay_texts(self, text: str) -> None:
        assert is_plain(text)
        assert document(f"- {text}\n").root.data == [text]
        assert yaml.safe_load(text) == text

    @pytest.mark.parametrize(
        "text", ["", "1", "1.5", "1.2.3", "true", "on", "~", "a b", "-a", "1e3", "12:30", "é", "a\n"]
    )
    def test_what_is_not_plain(self, text: str) -> None:
        assert not is_plain(text)


# Every kind of fault with its place. The last of each file shows that reading went on.
FAULTS = [
    pytest.param("a: 1\nb: {c, d: 2}\n", ["2:5 RG108 null: key `c` has no value"], id="comma-in-braces"),
    pytest.param("a: 1\nb:\nc: 2\n", ["2:1 RG108 null: key `b` has no value"], id="no-value"),
    pytest.param("a: {b: , c: 1}\n", ["1:5 RG108 null: key `b` has no value"], id="no-value-in-braces"),
    pytest.param("a:\n  -\n  - 1\n", ["2:4 RG108 null: an item is missing here"], id="no-item"),
    pytest.param("? \n: 1\n", ["1:2 RG108 null: a key is missing here"], id="no-key"),
    pytest.param("{: 1}\n", ["1:2 RG002"], id="no-key-in-braces"),
    pytest.param(
        "a: 1\na: 2\na: 3\n", ["2:1 RG101 key `a` is set twice", "3:1 RG101 key `a` is set twice"], id="twice"
    ),
    pytest.param("a: on\nb: 010\n", ["1:4 RG102 `on`", "2:4 RG102 `010`"], id="ambiguous"),
    pytest.param("on: 1\n", ["1:1 RG102 `on`"], id="ambiguous-key"),
    pytest.param("a: !x b\nb: !!str c\n", ["1:4 RG104 tag `!x`", "2:4 RG104 tag `!!str`"], id="tags"),
    pytest.param("%YAML 1.1\n---\na: 1\n", ["1:1 RG104 a YAML directive"], id="directive"),
    pytest.param("%YAML 1.3\n---\na: 1\n", ["1:1 RG104 a YAML directive"], id="directive-libyaml-refuses"),
    pytest.param("a: &b\n  c: 1\nd: *b\n", ["1:4 RG105 anchor `&b`", "3:4 RG105 alias `*b`"], id="anchor-and-alias"),
    pytest.param("a: *b\n", ["1:4 RG105 alias `*b`"], id="alias-of-nothing"),
    pytest.param("a: {<<: *b, c: 1}\n", ["1:5 RG105 merge key `<<`"], id="merge-key-is-one-cause"),
    pytest.param("1: a\ntrue: b\n", ["1:1 RG106 key `1` is not text", "2:1 RG106 key `true`"], id="keys-not-text"),
    pytest.param("{a: 1}: b\n[a]: c\n", ["1:1 RG106 key `{...}`", "2:1 RG106 key `[...]`"], id="collections-as-keys"),
    pytest.param("d\u0435vice: a\n", ["1:1 RG107 name `d\u0435vice` has characters outside ASCII"], id="lookalike"),
    pytest.param("a: 1\n---\nb: 2\n", ["2:1 RG003 a second document"], id="two-documents"),
    pytest.param("", ["1:1 RG003 the file is empty"], id="nothing"),
    pytest.param("# note\n", ["1:1 RG003 the file is empty"], id="comment-alone"),
    pytest.param("---\n", ["1:1 RG003 the file is empty"], id="marker-alone"),
    pytest.param("~\n", ["1:1 RG003 the file is empty"], id="null-alone"),
    pytest.param("---\n---\na: 1\n", ["2:1 RG003 a second document"], id="empty-then-full"),
    pytest.param('a: "b\\x07"\nc: "\\u202e"\n', ["1:4 RG805 control character U+0007", "2:4 RG805"], id="escapes"),
    pytest.param('a: "\\ud800"\n', ["1:4 RG805 control character U+D800"], id="lone-surrogate"),
    pytest.param('a: "\\UFFFFFFFF"\n', ["1:"], id="escape-beyond-unicode"),
    pytest.param("a: b\x00\nc: \x1b[0m\x1b\n# \u202e\n", ["1:5 RG805", "2:4 RG805", "3:3 RG805"], id="controls"),
    pytest.param("a: b\u2028c: 1\n", ["1:5 RG805 control character U+2028"], id="line-separator"),
    pytest.param("a:\tb\n", ["1:3 RG002"], id="tab-after-colon"),
    pytest.param("\ta: b\n", ["1:1 RG002"], id="tab-indentation"),
    pytest.param("a: {b: is it? yes}\n", ["1:"], id="question-mark-in-braces"),
    pytest.param("a: |#x\n  b\n", ["1:"], id="comment-glued-to-block-head"),
    pytest.param("a: [b\nc: 1\n", ["2:"], id="open-bracket"),
    pytest.param("a: b: c\n", ["1:5 RG002"], id="colon-in-text"),
    pytest.param('a: "b\n', ["1:4 RG002 YAML syntax: this quote is never closed"], id="open-quote"),
    pytest.param("a: 'b\nc: d", ["1:4 RG002 YAML syntax: this quote is never closed"], id="open-quote-over-lines"),
    pytest.param("a: {b: c\n# d\n", ["1:4 RG002 YAML syntax: this bracket is never closed"], id="open-to-the-end"),
    pytest.param("a: @b\n", ["1:4 RG002"], id="reserved-character"),
    pytest.param("a: on\nb: [c\n", ["1:4 RG102", "2:4 RG002"], id="what-came-before-a-syntax-error"),
]


@pytest.mark.parametrize("events", LOADERS)
@pytest.mark.parametrize(("text", "expected"), FAULTS)
def test_faults_have_places(text: str, expected: list[str], events: Any) -> None:
    lines = found(text, events)
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(("text", "expected"), FAULTS)
def test_both_loaders_say_the_same(text: str, expected: list[str]) -> None:
    assert found(text) == found(text, PureLoader)


@needs_libyaml
@pytest.mark.parametrize("text", ["a: on\nb: ~\nb: 1\n", "a: [b\n", "[" * 5000, '"\\UFFFFFFFF"', "a:\tb\n"])
def test_large_texts_are_left_to_libyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    both = codes(text, PureLoader)
    for module in (source, outline):
        monkeypatch.setattr(module, "MAX_REREAD", -1)
    assert codes(text) == both if "\t" not in text else codes(text) == []


class TestText:
    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["no-bom", "bom"])
    def test_line_ends_and_bom(self, end: bytes, mark: bytes) -> None:
        data = mark + end.join([b"a: 1", b"b: on", b"c: 2", b""])
        assert found(data) == ["2:4 RG102 `on` is read differently by YAML 1.1 and 1.2"]
        problems = Problems()
        out = read(data, "x", problems)
        assert out is not None
        assert out.lines == ["a: 1", "b: on", "c: 2", ""]

    @pytest.mark.parametrize(
        ("data", "place"),
        [
            (b"a: \xff\n", "1:4"),
            (b"a: 1\nb: caf\xe9\n", "2:7"),
            ("a: é\nbé: ".encode() + b"\x80", "2:5"),
            (b"\xff\xfea\0", "1:1"),
        ],
        ids=["first-line", "latin-1", "columns-are-characters", "utf-16"],
    )
    def test_not_utf8(self, data: bytes, place: str) -> None:
        (line,) = found(data)
        assert line.startswith(f"{place} RG001 not UTF-8: ")

    def test_what_cannot_be_parsed_still_has_lines_to_show(self) -> None:
        problems = Problems()
        out = read(b"a: [b\n", "x", problems)
        assert out is not None
        assert not out.usable
        assert out.lines[0] == "a: [b"
        assert out.root.data == {}

    def test_the_digest_is_of_the_bytes(self) -> None:
        one, other = (read(data, "x", Problems()) for data in (b"a: 1\n", b"a: 1\r\n"))
        assert one is not None
        assert other is not None
        assert one.root.data == other.root.data
        assert one.digest != other.digest


class TestLimits:
    @pytest.mark.parametrize("events", LOADERS)
    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("[" * 16 + "]" * 16, None),
            ("[" * 17 + "]" * 17, "1 RG004"),
            ("{a: " * 17 + "1" + "}" * 17, "1 RG004"),
            ("- " * 17 + "a", "1 RG004"),
            ("[" * 100_000, "1 RG004"),
            ("? " * 100_000, "1 RG004"),
        ],
        ids=["16-deep", "17-deep", "17-mappings", "17-dashes", "open-brackets", "complex-keys"],
    )
    def test_depth(self, text: str, code: str | None, events: Any) -> None:
        assert codes(text, events) == ([code] if code else [])

    @pytest.mark.parametrize(
        "shape", ["a: {}\nb: 1\n", "a: '{}'\nb: 1\n", "{}: a\nb: 1\n"], ids=["plain", "quoted", "key"]
    )
    def test_scalar(self, shape: str) -> None:
        assert codes(shape.replace("{}", "x" * 4096)) == (["1 RG002"] if shape.startswith("{}") else [])
        assert codes(shape.replace("{}", "x" * 4097))[0] in ("1 RG004", "1 RG002")

    def test_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(source, "MAX_FILE_BYTES", 8)
        assert found("a: 12345") == []
        assert found("a: 123456") == ["1:1 RG004 a file of 9 bytes exceeds the limit of 8"]

    def test_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (source, outline):
            monkeypatch.setattr(module, "MAX_VALUES", 10)
        assert codes("[1, 2, 3, 4]\n") == []
        assert codes("[1, 2, 3,\n 4, 5, 6, 7, 8]\n") == ["2 RG004"]

    @pytest.mark.parametrize("line", ["- ~\n", "- &a x\n", "\x01\n", "1: 1\n"])
    def test_findings(self, line: str) -> None:
        found_codes = codes(line * 1500)
        assert len(found_codes) == source.MAX_FINDINGS + 1
        assert found_codes[-1] == "1001 RG004"


class TestPlaces:
    TEXT = "a:\n  b: {c: [1, 22]}\n  d:\n    - e: f\n      g: 1\nh: [\n  1,\n  2]\n"

    @pytest.mark.parametrize(
        ("loc", "key", "place"),
        [
            ((), False, (1, 1, 1, 3)),
            (("a",), True, (1, 1, 1, 2)),
            (("a",), False, (2, 3, 2, 18)),
            (("a", "b"), False, (2, 6, 2, 18)),
            (("a", "b", "c", 1), False, (2, 14, 2, 16)),
            (("a", "b", "c"), True, (2, 7, 2, 8)),
            (("a", "d", 0), False, (4, 7, 4, 11)),
            (("a", "d", 0, "g"), True, (5, 7, 5, 8)),
            (("a", "d", 0, "missing"), False, (4, 7, 4, 11)),
            (("a", "b", "c", 7), False, (2, 10, 2, 17)),
            (("a", "nowhere", "x"), True, (2, 3, 2, 18)),
            (("h",), False, (6, 4, 6, 5)),
            ((0,), False, (1, 1, 1, 3)),
        ],
    )
    def test_where(self, loc: tuple[str | int, ...], key: bool, place: tuple[int, ...]) -> None:
        where = document(self.TEXT).where(loc, key=key)
        assert (where.line, where.column, where.end_line, where.end_column) == place


class TestPaths:
    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_bytes(b"a: 1\n")
        problems = Problems()
        out = read_path(tmp_path / "a.yaml", "shown.yaml", problems)
        assert out is not None
        assert (out.path, out.root.data, len(problems)) == ("shown.yaml", {"a": 1}, 0)

    @pytest.mark.parametrize("name", ["missing", "folder", "loop", "nowhere", "nul\0byte"])
    def test_what_cannot_be_read(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "loop").symlink_to("loop")
        (tmp_path / "nowhere").symlink_to("missing")
        problems = Problems()
        assert read_path(tmp_path / name, "shown.yaml", problems) is None
        (problem,) = problems
        assert problem.concise().startswith("shown.yaml:1:1: RG001 cannot be read: ")

    def test_a_device_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(source, "MAX_FILE_BYTES", 1000)
        problems = Problems()
        assert read_path("/dev/zero", "shown.yaml", problems) is None
        assert [p.code for p in problems] == ["RG004"]


@pytest.mark.parametrize("events", LOADERS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: {b: \u201cx, y\u201d}\n", ["1 RG107"]),
        ("a: {b\uff1a {c: d}}\n", ["1 RG107"]),
        ("a:\n\u00a0 b: c\n", ["2 RG107"]),
        ("a:\n  b:\n\u00a0   c: yes\n", ["3 RG107", "3 RG102"]),
        ("a:\nb:\n\u00a0 c: d\n", ["1 RG108", "3 RG107"]),
        ("a: b\n\u00a0 c: d\n", ["2 RG107"]),
        ("\u00e9: 1\na: {b: [}\n", ["1 RG107", "2 RG002"]),
        ("\u00e9:\n", ["1 RG107"]),
    ],
)
def test_a_character_of_another_kind_is_reported_once(text: str, expected: list[str], events: Any) -> None:
    assert codes(text, events) == expected


@pytest.mark.parametrize("events", LOADERS)
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (r'a: "x\u202ey"', r"remove the escape `\u202e`"),
        (r'a: "\\ \t\0 \x00"', r"remove the escape `\0`"),
        (r'a: "\U0000202e"', r"remove the escape `\U0000202e`"),
        (r'a: "\N"', r"remove the escape `\N`"),
        ('# \u00e9\na: "\u00e9 \\e"', r"remove the escape `\e`"),
    ],
)
def test_the_escape_of_a_control_character_is_named(text: str, hint: str, events: Any) -> None:
    problems = Problems()
    read(text.encode(), "x", problems, events=events)
    assert [(p.code, p.hint) for p in problems] == [("RG805", hint)]


@pytest.mark.parametrize("events", LOADERS)
@pytest.mark.parametrize(
    ("text", "part"),
    [
        (r'a: "C:\data"', "a backslash is written"),
        (r'a: "C:\users"', "a backslash is written"),
        (r'a: "\UFFFFFFFF"', "a backslash is written"),
        ("a: {b: c: d}\n", "or remove the blank behind the colon"),
        ("a: {b: 'it's'}\n", "behind its closing quote"),
        ("a: {b: {c: d} e: f}\n", "put a comma"),
        ("a: [b c [d]]\n", "close the bracket or the quote before it"),
        ("a:\n  b: c\n\u00a0 d\n", "a blank of another kind"),
        ("a: {b: c", "close the bracket"),
    ],
)
def test_what_broke_the_syntax_is_said(text: str, part: str, events: Any) -> None:
    problems = Problems()
    read(text.encode(), "x", problems, events=events)
    assert [(p.code, part in p.hint) for p in problems] == [("RG002", True)], problems.found[0].full()
