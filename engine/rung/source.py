"""The strict YAML reader: bytes to plain data in which every node knows its place.

Owns the scalar grammar, the limits on input and the codes RG001 to RG004, RG101 to RG108 (but RG103) and RG805.
Knows no manifest key.

Note [The pure loader decides]: libyaml reads five times as fast as PyYAML's own parser, and the two do not accept the
same texts. So libyaml is trusted only where it could read everything: a text that it gave up, or with one of the few
things that the two read differently, is read by the pure parser, and codes and lines do not depend on how PyYAML was
built. Above `MAX_REREAD` characters libyaml's answer stands, for the sake of time.

Note [Read for data, read for places]: most texts have no fault, and nobody asks where their scalars stand. So
`rung.outline` reads a text first. It keeps the places of the upper levels alone, takes only what `_Builder` would take,
with the same events and the same `value_of`, and gives up at the first thing that it would have to report or to mark.
Then, or when somebody asks for a place further down, `_Builder` reads the text: all that is reported comes from it.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from rung.diagnostics import Problems, Where, shorten
from rung.nodes import (
    AMBIGUOUS,
    CONTROL,
    DOUBTFUL,
    END_OF_MAPPING,
    END_OF_SEQUENCE,
    FAST,
    FLOAT,
    LEVELS,
    MAPPING,
    MAX_DEPTH,
    MAX_REREAD,
    MAX_SCALAR,
    MAX_VALUES,
    NO_VALUE,
    NOWHERE,
    NULL,
    SCALAR,
    SEQUENCE,
    SUSPECT_START,
    Node,
    PureLoader,
    value_of,
)  # fmt: skip
from rung.outline import outlined
from rung.records import maker

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

__all__ = [
    "LEVELS",
    "MAX_DEPTH",
    "MAX_FILE_BYTES",
    "MAX_FINDINGS",
    "MAX_SCALAR",
    "NOWHERE",
    "Document",
    "Node",
    "PureLoader",
    "is_plain",
    "lookalike",
    "read",
    "read_path",
]

MAX_FILE_BYTES: Final = 32 * 1024 * 1024
MAX_FINDINGS: Final = 1000
"""Findings reported of one file, or by one rule: beyond them hostile input would only cost memory."""
MAX_DIRECTIVES: Final = 16
"""Lines that start with `%`, of which each parser compares every one with all before it."""

_COLLECTIONS = (dict, list)
_where = maker(Where)
_TOO_MANY = (f"more than {MAX_FINDINGS} findings in this file", "the rest of it was not read: repair these first")
_TOO_DEEP = (f"nesting deeper than the limit of {MAX_DEPTH}", "flatten the document")
_DIRECTIVE = ("a YAML directive", "remove the line that starts with `%`")
_NO_VALUE = "write a value behind the colon, or remove the key"
_EMPTY_HINT = "a file starts with its kind and version, such as `manifest: 1`"
_SYNTAX_HINT = "quote text that contains `: ` or ` #`, or starts with one of []{},&*!|>'\"%@`"
_SYNTAX_HINTS = {
    "mapping values are not allowed": (
        "check the indentation, put a space behind each colon of a key, and quote text that has `: ` in it"
    ),
    "expected ',' or": "close the bracket or the quote before it, or quote text that contains one of ,[]{}?",
    "expected <block end>": (
        "check the indentation: what belongs together starts in the same column; and that each quote is closed"
    ),
    "escape": "in double quotes a backslash is written `\\\\`; in single quotes it stands as it is",
    "could not find expected ':'": "write `key: value`, and check the indentation",
    "cannot start any token": "indent with spaces, not tabs; quote text that starts with one of @`%",
    "end of stream": "close the quote or bracket",
}
_AFTER_TEXT = "`: ` ends a text: quote the text that has it, or remove the blank behind the colon"
_AFTER_QUOTE = 'text goes on behind its closing quote: inside \'\' write two of them for one, inside "" write `\\"`'
_AFTER_BRACKET = "put a comma behind the bracket, or quote text that contains one of ,[]{}?"
_INSTEAD = " instead"
_OPENED = {
    "while scanning a quoted scalar": "quote",
    "while parsing a flow mapping": "bracket",
    "while parsing a flow sequence": "bracket",
}
_GLUED = re.compile(r"[ ]*-[{\[\"'A-Za-z]")
# Escapes of double quotes, and the characters of those that do not give a number.
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "v": "\v",
    "f": "\f",
    "N": "\x85",
    "L": "\u2028",
    "P": "\u2029",
}
# Characters that look like one of ASCII, but that Unicode does not call its twin.
_TWINS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2039\u203a", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    "\u2044": "/", "\u2236": ":", "\u3001": ",", "\u3002": ".",
}  # fmt: skip


@dataclass(slots=True)
class Document:
    """One file that was read: its shown path, its nodes, the hash of its bytes, its text by lines, its size.

    Not `usable` when its text could not be parsed: it then has lines to show, and an empty root. Not `whole` as long
    as the `outline` lacks what lies below the upper levels; see Note [Read for data, read for places].
    """

    path: str
    outline: Node
    digest: str
    lines: list[str]
    usable: bool = True
    size: int = 0
    whole: bool = True

    @property
    def data(self) -> Any:
        """What the file says, as plain data."""
        return self.outline.data

    @property
    def root(self) -> Node:
        """The root of all nodes. Where the outline is not whole the text is read again, and its data made anew."""
        if not self.whole:
            read_again = _parse("\n".join(self.lines), self.path, Problems(), FAST)
            assert read_again is not None
            self.outline, self.whole = read_again, True
        return self.outline

    def node(self, loc: Iterable[str | int]) -> Node:
        """Give the node at `loc`, or its nearest ancestor that exists."""
        return _below(self.root, loc)

    def at(self, loc: Iterable[str | int]) -> Any:
        """Give what the file says at `loc`, None where it says nothing."""
        found = self.data
        for part in loc:
            try:
                found = found[part]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    def where(self, loc: Iterable[str | int] = (), *, key: bool = False) -> Where:
        """Give the place of the value at `loc`, or with `key` of the mapping key that leads to it."""
        path = tuple(loc)
        known = self.outline if self.whole or len(path) <= LEVELS else self.root
        if key and path and isinstance(path[-1], str):
            found = (_below(known, path[:-1]).values or {}).get(path[-1])
            if found is not None and found.key is not None:
                return self.place(found.key)
        return self.place(_below(known, path))

    def place(self, node: Node) -> Where:
        """Give the place of a node. A collection of several lines is shown by its first line alone."""
        start, end = node.start, node.end
        line = start.line + 1
        if end.line == start.line:
            return _where(self.path, line, start.column + 1, line, end.column + 1)
        if node.data.__class__ in _COLLECTIONS:
            text = self.lines[start.line] if line <= len(self.lines) else ""
            return _where(self.path, line, start.column + 1, line, len(text) + 1)
        return _where(self.path, line, start.column + 1, end.line + 1, end.column + 1)

    def places(self, loc: Iterable[str | int]) -> list[Where]:
        """Give the place of each item of the list at `loc`."""
        path = tuple(loc)
        known = self.outline if self.whole or len(path) < LEVELS else self.root
        return [self.place(item) for item in _below(known, path).items or ()]


def _below(node: Node, loc: Iterable[str | int]) -> Node:
    """Give the node at `loc` below another, or its nearest ancestor that exists."""
    for part in loc:
        inner: Any = node.values if part.__class__ is str else node.items
        try:
            node = inner[part]
        except (TypeError, KeyError, IndexError):
            break
    return node


def read_path(path: str | PathLike[str], shown: str, problems: Problems) -> Document | None:
    """Read a file and report it as `shown`; None when it cannot be opened or is too large."""
    try:
        with Path(path).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            data = b"" if size > MAX_FILE_BYTES else stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        problems.add("RG001", Where(shown), f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return None
    if size > MAX_FILE_BYTES:
        _too_large(size, shown, problems)
        return None
    return read(data, shown, problems)


def read(data: bytes, path: str, problems: Problems, *, events: Any = None) -> Document | None:
    """Read one YAML document from bytes and report everything wrong with it; None when there are too many.

    `events` replaces the event source (a PyYAML loader class), for comparing the two; then all nodes are made at once.
    """
    if len(data) > MAX_FILE_BYTES:
        _too_large(len(data), path, problems)
        return None
    raw = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = raw.decode(errors="replace")
    empty = Node({}, NOWHERE, NOWHERE)
    document = Document(path, empty, hashlib.sha256(data).hexdigest(), text.split("\n"), False, len(data))
    if _is_text(raw, document, problems):
        outline = outlined(text) if events is None else None
        root = outline or _parse(text, path, problems, events or FAST)
        if root is not None:
            document.outline, document.usable, document.whole = root, True, outline is None
    return document


def _too_large(size: int, path: str, problems: Problems) -> None:
    message = f"a file of {size} bytes exceeds the limit of {MAX_FILE_BYTES}"
    problems.add("RG004", Where(path), message, hint="split it into several files")


def _is_text(raw: bytes, document: Document, problems: Problems) -> bool:
    """Report what is not UTF-8, and the first control character of each line."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        row, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        where = Where(document.path, row, column, row, column + 1)
        problems.add("RG001", where, f"not UTF-8: {error.reason} at byte {error.start}", hint="save the file as UTF-8")
        return False
    if all(map(str.isprintable, document.lines)):
        return True
    found = 0
    for row, line in enumerate(document.lines, 1):
        match = None if line.isprintable() else CONTROL.search(line)
        if match is None:
            continue
        if found == MAX_FINDINGS:
            problems.add("RG004", Where(document.path, row), _TOO_MANY[0], hint=_TOO_MANY[1])
            break
        found += 1
        where = Where(document.path, row, match.start() + 1, row, match.start() + 2)
        problems.add("RG805", where, f"control character {_code_point(match.group())}", hint="remove it")
    return not found


def _parse(text: str, path: str, problems: Problems, loader: Any) -> Node | None:
    """Read text as YAML; see Note [The pure loader decides]."""
    if text.count("\n%") > MAX_DIRECTIVES:
        row = text.count("\n", 0, text.index("\n%")) + 2 if not text.startswith("%") else 1
        problems.add("RG104", Where(path, row, 1, row, 2), _DIRECTIVE[0], hint=_DIRECTIVE[1])
        return None
    reread = len(text) <= MAX_REREAD
    if reread and DOUBTFUL.search(text):
        loader = PureLoader
    builder = _Builder(path)
    builder.run(loader, text)
    if (builder.root is None or builder.doubtful) and reread and loader is not PureLoader:
        builder = _Builder(path)
        builder.run(PureLoader, text)
    problems.found += builder.problems.found
    return builder.root


class _Frame:
    """A collection that is being read, and in a mapping the key whose value comes next."""

    __slots__ = ("data", "flow", "items", "key", "node", "values")

    def __init__(self, node: Node, flow: bool) -> None:
        self.node = node
        self.data: Any = node.data
        self.items = node.items
        self.values: Any = node.values
        self.flow = flow
        self.key: Node | None = None


class _StopReading(Exception):
    """A limit was reached, and the rest of the file is not to be read."""


class _Builder:
    """Turns events into nodes with a stack of its own, so that no input can make it recurse.

    `root` stays None when the text is of no use.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems = Problems()
        self.stack: list[_Frame] = []
        self.root: Node | None = None
        self.doubtful = False
        self.text = ""

    def run(self, loader: Any, text: str) -> None:
        self.text = text
        source = loader(text)
        try:
            self.build(iter(source.get_event, None))
        except _StopReading:
            self.root = None
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # escapes beyond Unicode raise the latter two
            self.root = None
            self.syntax(error, source)

    def syntax(self, error: Exception, source: Any) -> None:
        text = self.text
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None) or source.get_mark()
        what = shorten(getattr(error, "problem", None) or "an escape stands for no character", 72)
        if self.is_told(mark.line + 1):
            return
        hint = next((hint for part, hint in _SYNTAX_HINTS.items() if part in what), _SYNTAX_HINT)
        start = getattr(error, "context_mark", None)
        begun, broken = (_line(text, at.line) if at is not None else "" for at in (start, mark))
        hint = _blank(begun) or _blank(broken) or hint
        above = _line(text, mark.line - 1) if mark.line else ""
        if "mapping values" in what and any(_GLUED.match(line) for line in (broken, above)):
            hint = "put a blank behind the dash that starts an item"
        if "expected ',' or" in what:
            hint = _where_it_broke(broken, mark.column) or hint
        opened = _OPENED.get(getattr(error, "context", None) or "")
        last = text.count("\n"), len(text) - text.rfind("\n") - 1
        if opened is not None and start is not None and (mark.line, mark.column) >= last:
            mark, what, hint = start, f"this {opened} is never closed", f"close the {opened}"
        related: tuple[tuple[Where, str], ...] = ()
        if start is not None and start.line != mark.line and getattr(error, "context", None):
            related = ((Where(self.path, start.line + 1, start.column + 1), str(error.context)),)  # type: ignore[attr-defined]
        where = Where(self.path, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)
        if "nesting depth" in what:  # libyaml's own limit, met while it looks ahead
            self.problems.add("RG004", where, _TOO_DEEP[0], hint=_TOO_DEEP[1])
        else:
            self.problems.add("RG002", where, f"YAML syntax: {what}", hint=hint, related=related)

    def is_told(self, row: int) -> bool:
        """Say whether a character that stands for one of YAML's own was reported in a line: what follows is of it."""
        return any(
            p.code == "RG107" and p.where is not None and p.where.line == row and p.hint.endswith(_INSTEAD)
            for p in self.problems
        )

    def report(self, code: str, what: Any, message: str, hint: str, **more: Any) -> None:
        """Add a finding at a node or event."""
        if isinstance(what, Node):
            where = Where(self.path, what.line, what.column, what.end_line, what.end_column)
        else:
            start, end = what.start_mark, what.end_mark
            where = Where(self.path, start.line + 1, start.column + 1, end.line + 1, end.column + 1)
        if len(self.problems) >= MAX_FINDINGS:
            self.problems.add("RG004", where, _TOO_MANY[0], hint=_TOO_MANY[1])
            raise _StopReading
        self.problems.add(code, where, message, hint=hint, **more)

    def build(self, events: Iterable[Any]) -> None:
        documents = 0
        for count, event in enumerate(events):
            if count == MAX_VALUES:
                self.report("RG004", event, f"more than {MAX_VALUES} values in one file", "split it into several files")
                raise _StopReading
            kind = event.__class__
            if kind is SCALAR:
                self.attach(self.scalar(event))
            elif kind is MAPPING or kind is SEQUENCE:
                self.open(event, {} if kind is MAPPING else [])
            elif kind is END_OF_MAPPING or kind is END_OF_SEQUENCE:
                self.stack.pop().node.end = event.end_mark
            elif kind is yaml.AliasEvent:
                node = Node("", event.start_mark, event.end_mark)
                node.bad = True
                if not self.merges():
                    self.report("RG105", event, f"alias `*{shorten(event.anchor)}`", "write the value out")
                self.attach(node)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    self.report("RG003", event, "a second document starts here", "one file holds one document")
                    break
                if event.version or event.tags:
                    self.report("RG104", event, *_DIRECTIVE)
        if self.root is None or self.root.data is None:
            self.root = None
            if documents < 2:
                self.problems.add("RG003", Where(self.path), "the file is empty", hint=_EMPTY_HINT)

    def merges(self) -> bool:
        """Say whether the value about to come belongs to a merge key, which is reported already."""
        key = self.stack[-1].key if self.stack else None
        return key is not None and key.data == "<<" and key.bad

    def decorated(self, event: Any, node: Node) -> None:
        """Reject anchors and tags; the value behind them is read as if they were not there."""
        if event.anchor is not None:
            hint = "remove it, and write the value where it is needed"
            self.report("RG105", event, f"anchor `&{shorten(event.anchor)}`", hint)
        if event.tag is not None:
            hint = "remove it: the field says what a value is"
            shown = shorten(event.tag.replace("tag:yaml.org,2002:", "!!", 1))
            self.report("RG104", event, f"tag `{shown}`", hint)
            node.bad = self.doubtful = True

    def open(self, event: Any, data: dict[str, Any] | list[Any]) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self.report("RG004", event, *_TOO_DEEP)
            raise _StopReading
        node = Node(data, event.start_mark, event.end_mark)
        if isinstance(data, dict):
            node.values = {}
        else:
            node.items = []
        if event.anchor is not None or event.tag is not None:
            self.decorated(event, node)
        self.attach(node)
        self.stack.append(_Frame(node, bool(event.flow_style)))

    def attach(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if frame.items is not None:
            frame.items.append(node)
            frame.data.append(node.data)
            return
        key = frame.key
        if key is None:
            frame.key = node
            return
        frame.key = None
        name = key.data
        if name.__class__ is str and name not in frame.values and name.isascii():
            node.key = key
            node.bad = node.bad or key.bad
            frame.values[name] = node
            frame.data[name] = node.data
        else:
            self.put(frame.node, key, node)

    def put(self, parent: Node, key: Node, node: Node) -> None:
        """Add a key that something is wrong with: it keeps its name, but its value counts as reported too."""
        assert parent.values is not None
        name = key.data
        if not isinstance(name, str):
            if not key.bad:
                self.report("RG106", key, f"key `{_shown(name)}` is not text", "quote it, or name it differently")
            parent.bad = True
            return
        if not name.isascii():
            if name[0].isspace():
                self.take_back(parent, key)
            if not key.bad:  # else a character that may stand nowhere was reported
                self.report("RG107", key, f"name `{shorten(name)}` has characters outside ASCII", lookalike(name))
            key.bad = True
        elif name in parent.values:
            first = parent.values[name].key or parent
            place = Where(self.path, first.line, first.column, first.end_line, first.end_column)
            message = f"key `{shorten(name)}` is set twice"
            self.report("RG101", key, message, "keep one of them", related=((place, "first set"),))
            return
        node.key, node.bad = key, True
        parent.values[name] = node
        parent.data[name] = node.data  # type: ignore[index]

    def take_back(self, parent: Node, key: Node) -> None:
        """Forget that the last key before another one lacks a value: the other one was to be indented below it."""
        node = parent
        while node.values:
            node = next(reversed(node.values.values()))
        lacking = node.key
        if node.data is not None or lacking is None or lacking.end_line >= key.line:
            return
        at = (lacking.line, lacking.column)
        found = self.problems.found
        found[:] = [p for p in found if p.code != "RG108" or p.where is None or (p.where.line, p.where.column) != at]

    def scalar(self, event: Any) -> Node:
        text: str = event.value
        plain = not event.style
        node = Node(text, event.start_mark, event.end_mark, plain)
        if event.anchor is not None or event.tag is not None:
            self.decorated(event, node)
        if len(text) > MAX_SCALAR:
            message = f"text of {len(text)} characters exceeds the limit of {MAX_SCALAR}"
            self.report("RG004", event, message, "shorten it")
            node.data, node.bad = "", True
        elif not plain:
            control = None if text.isprintable() else CONTROL.search(text)
            if control:
                hint = self.written_as(control.group(), event)
                self.report("RG805", event, f"control character {_code_point(control.group())} in text", hint)
                node.data, node.bad = text.encode(errors="replace").decode(), True  # a surrogate is no text to anybody
        elif not text or text[0] in SUSPECT_START:
            self.resolve(node, text, event)
        if plain and "?" in text and self.stack and self.stack[-1].flow:
            self.doubtful = True
        return node

    def written_as(self, character: str, event: Any) -> str:
        """Name the escape that stands for a character, for a text may have many."""
        raw = self.text[event.start_mark.index : event.end_mark.index]
        for escape in _ESCAPE.findall(raw):
            number = escape[2:] if escape[1] in "xuU" else ""
            if (chr(int(number, 16)) if number else _ESCAPED.get(escape[1])) == character:
                return f"remove the escape `{escape}`"
        return "remove it"

    def resolve(self, node: Node, text: str, event: Any) -> None:
        """Give a plain scalar its value, or reject it: what stays text here is text to every YAML reader."""
        value = value_of(text)
        if value is not NO_VALUE:
            node.data = value
        elif text == "<<":
            self.report("RG105", event, "merge key `<<`", "write the keys out")
            node.bad = True
        elif text in NULL:
            self.null(node, text, event)
        else:
            shown = shorten(text)
            hint = f'write "{shown}" if it is text, or true, false, 12 or 1.5 if it is not'
            self.report("RG102", event, f"`{shown}` is read differently by YAML 1.1 and 1.2", hint)
            node.bad = True

    def null(self, node: Node, text: str, event: Any) -> None:
        """Report a missing value, at the key that lacks it where there is one."""
        node.data, node.bad = None, True
        if not self.stack:
            return
        frame = self.stack[-1]
        key = frame.key
        if text:
            hint = f'write "{text}" if it is text, or remove the key'
            self.report("RG108", event, f"null: `{text}` is no value", hint)
        elif key is None:
            what = "a key" if frame.node.items is None else "an item"
            self.report("RG108", event, f"null: {what} is missing here", "write it, or remove the line or comma")
        else:
            node.start = node.end = key.end  # the parsers differ in where nothing stands
            # Where the value would stand: right behind the key when there is no colon.
            at = (event.start_mark.line + 1, event.start_mark.column + 1)
            comma = frame.flow and at == (key.end_line, key.end_column)
            hint = "a comma inside {} ends a value: quote the text" if comma else _NO_VALUE
            if frame.flow and isinstance(key.data, str) and ":" in key.data:
                hint = f"put a blank behind the colon: `{shorten(key.data.replace(':', ': ', 1))}`"
            foreign = isinstance(key.data, str) and not key.data.isascii()  # which is reported, and the cause of both
            if not key.bad and not foreign:
                self.report("RG108", key, f"null: key `{_shown(key.data)}` has no value", hint)


def is_plain(text: str) -> bool:
    """Say whether a text may stand unquoted and is still read as that text, here and by any YAML reader."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*", text) is None or re.fullmatch(r"[0-9.]+", text):
        return False
    special = text in ("true", "false") or text in NULL or AMBIGUOUS.fullmatch(text) is not None
    return not special and FLOAT.fullmatch(text) is None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "{...}" if isinstance(value, dict) else "[...]" if isinstance(value, list) else shorten(str(value))


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def lookalike(name: str) -> str:
    """Point at the first character that is not ASCII, by number, for it may look like one that is."""
    odd = next(c for c in name if not c.isascii())
    start = f"character {name.index(odd) + 1} is {_code_point(odd)}"
    twin = _twin(odd)
    if twin == " ":
        return f"{start}, a blank of another kind: write a plain one{_INSTEAD}"
    if twin in ("'", '"'):
        return f"{start}: quote text with `{twin}`{_INSTEAD}"
    return f"{start}: write `{twin}`{_INSTEAD}" if twin else f"{start}; names are ASCII"


def _twin(character: str) -> str:
    """Give the blank or punctuation of ASCII that a character looks like, "" when it looks like none."""
    found = _TWINS.get(character) or unicodedata.normalize("NFKC", character)
    if character.isspace():
        return " "
    return found if len(found) == 1 and found.isascii() and not found.isalnum() else ""


def _line(text: str, row: int) -> str:
    """Give a line of a text, counted from 0, "" behind the last one."""
    return text.split("\n", row + 1)[row] if row <= text.count("\n") else ""


def _blank(line: str) -> str:
    """Point at a blank in a line's indentation that YAML takes for text."""
    indentation = line[: len(line) - len(line.lstrip())]
    odd = next((c for c in indentation if not c.isascii()), None)
    return "" if odd is None else lookalike(indentation)


def _where_it_broke(line: str, column: int) -> str:
    """Say why a collection in brackets does not go on where it should."""
    before = line[:column].rstrip()[-1:]
    if line[column : column + 1] == ":":
        return _AFTER_TEXT
    if before in ("'", '"'):
        return _AFTER_QUOTE
    return _AFTER_BRACKET if before in ("]", "}") else ""
