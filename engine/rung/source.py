"""The strict YAML reader: bytes to plain data in which every node knows its place.

Owns the scalar grammar, the limits on input and the codes RG001 to RG108 and RG805. Knows no manifest key.
Reads libyaml's events where it is present, PyYAML's own otherwise: both give the same data, codes and lines.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, Any, Final

import yaml

from rung.diagnostics import Problem, Problems, Where, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

__all__ = [
    "MAX_DEPTH",
    "MAX_FILE_BYTES",
    "MAX_SCALAR",
    "Document",
    "Node",
    "PureLoader",
    "is_plain",
    "read",
    "read_path",
]

MAX_FILE_BYTES: Final = 32 * 1024 * 1024
MAX_DEPTH: Final = 16
MAX_SCALAR: Final = 4096


class PureLoader(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """PyYAML's own event source, without any constructor: nothing in it can build an object."""

    def __init__(self, stream: str) -> None:
        yaml.reader.Reader.__init__(self, stream)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)


_EVENTS: Any = getattr(yaml, "CBaseLoader", PureLoader)

_INT = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+(e[-+][0-9]+)?")
# What some YAML 1.1 or 1.2 reader takes for a boolean, a number, a date or a special value.
_AMBIGUOUS = re.compile(
    r"""(?x)
    [yYnN] | yes|Yes|YES | no|No|NO | on|On|ON | off|Off|OFF | True|TRUE | False|FALSE | = | <<
    | [-+]? [0-9][0-9_]*                                        # octal, leading plus, underscores
    | [-+]? 0[bB][01_]+ | [-+]? 0[oO][0-7_]+ | [-+]? 0[xX][0-9a-fA-F_]+
    | [-+]? [0-9][0-9_]* (:[0-5]?[0-9])+ (\.[0-9_]*)?           # sexagesimal
    | [-+]? (\.[0-9][0-9_]* | [0-9][0-9_]*(\.[0-9_]*)?) ([eE][-+]?[0-9]+)?
    | [-+]? \.(inf|Inf|INF) | \.(nan|NaN|NAN)
    | [0-9]{4}-[0-9][0-9]?-[0-9][0-9]? ([Tt\ \t].*)?
    """
)
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_SUSPECT_START = frozenset("0123456789+-.~=<yYnNoOtTfF")
# C0 and C1 controls but tab and line ends, Unicode line separators, bidirectional controls, BOM, non-characters.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


class Node:
    """A value and its place. `values` and `keys` for a mapping, `items` for a list, neither for a scalar.

    `plain` marks an unquoted scalar, `bad` one already reported, whose consequences are not to be reported.
    """

    __slots__ = (
        "bad",
        "column",
        "data",
        "end_column",
        "end_line",
        "items",
        "keys",
        "line",
        "plain",
        "values",
    )

    def __init__(self, data: object, start: yaml.Mark, end: yaml.Mark, *, plain: bool = False) -> None:
        self.data = data
        self.line = start.line + 1
        self.column = start.column + 1
        self.end_line = end.line + 1
        self.end_column = end.column + 1
        self.plain = plain
        self.bad = False
        self.items: list[Node] | None = None
        self.values: dict[str, Node] | None = None
        self.keys: dict[str, Node] | None = None


@dataclass(slots=True)
class Document:
    """One file that was read: its shown path, its text by lines, the hash of its bytes, its root node."""

    path: str
    root: Node
    digest: str
    lines: list[str]

    def node(self, loc: Iterable[str | int]) -> Node:
        """Give the node at `loc`, or its nearest ancestor that exists."""
        node = self.root
        for part in loc:
            child = None
            if isinstance(part, str) and node.values is not None:
                child = node.values.get(part)
            elif isinstance(part, int) and node.items is not None and part < len(node.items):
                child = node.items[part]
            if child is None:
                break
            node = child
        return node

    def where(self, loc: Iterable[str | int] = (), *, key: bool = False) -> Where:
        """Give the place of the value at `loc`, or with `key` of the mapping key that leads to it."""
        path = list(loc)
        if key and path and isinstance(path[-1], str):
            found = (self.node(path[:-1]).keys or {}).get(path[-1])
            if found is not None:
                return self.place(found)
        return self.place(self.node(path))

    def place(self, node: Node) -> Where:
        """Give the place of a node. A block collection is shown by its first line alone."""
        if node.end_line != node.line and node.data.__class__ in (dict, list):
            text = self.lines[node.line - 1] if node.line <= len(self.lines) else ""
            return Where(self.path, node.line, node.column, node.line, len(text) + 1)
        return Where(self.path, node.line, node.column, node.end_line, node.end_column)


def read_path(path: str | PathLike[str], shown: str, problems: Problems) -> Document | None:
    """Read a file and report it as `shown`; None when nothing of it can be used."""
    from pathlib import Path

    file = Path(path)
    try:
        size = file.stat().st_size
        if size > MAX_FILE_BYTES:
            message = f"file of {size} bytes exceeds the limit of {MAX_FILE_BYTES}"
            problems.add("RG004", Where(shown), message, hint="split it into several files")
            return None
        data = file.read_bytes()
    except OSError as error:
        problems.add("RG001", Where(shown), f"cannot be read: {error.strerror or error}")
        return None
    return read(data, shown, problems)


def read(data: bytes, path: str, problems: Problems, *, events: Any = None) -> Document | None:
    """Read one YAML document from bytes; None when nothing of it can be used.

    `events` replaces the event source (a PyYAML loader class), for comparing the two.
    """
    if len(data) > MAX_FILE_BYTES:
        problems.add("RG004", Where(path), f"{len(data)} bytes exceed the limit of {MAX_FILE_BYTES}")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add("RG001", Where(path, line), f"not UTF-8: {error.reason} at byte {error.start}")
        return None
    lines = text.splitlines() if "\x0b" in text or "\x0c" in text else text.split("\n")
    if _reject_controls(text, path, problems):
        return None
    builder = _Builder(path, problems)
    try:
        root = builder.build(yaml.parse(text, Loader=events or _EVENTS))
    except yaml.YAMLError as error:
        problems.found.append(_syntax(error, path))
        return None
    if root is None:
        return None
    return Document(path, root, hashlib.sha256(data).hexdigest(), lines)


def _reject_controls(text: str, path: str, problems: Problems) -> bool:
    found = False
    for line, match in _first_per_line(text):
        found = True
        column = match.start() - (text.rfind("\n", 0, match.start()) + 1) + 1
        shown = match.group().encode("unicode_escape").decode()
        message = f"control character `{shown}`"
        problems.add("RG805", Where(path, line, column, line, column + 1), message, hint="remove it")
    return found


def _first_per_line(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    line, start = 1, 0
    match = _CONTROL.search(text)
    while match:
        line += text.count("\n", start, match.start())
        start = match.start()
        yield line, match
        end = text.find("\n", start)
        match = _CONTROL.search(text, end) if end >= 0 else None


def _syntax(error: yaml.YAMLError, path: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = Where(path, mark.line + 1, mark.column + 1) if mark else Where(path)
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    hint = "quote text that has `: `, ` #`, or starts with one of []{},&*!|>'\"%@`"
    return Problem("RG002", "error", where, f"YAML syntax: {printable(str(what))}", hint)


class _Frame:
    __slots__ = ("key", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.key: Node | None = None


class _Builder:
    """Turns events into nodes with a stack of its own, so that no input can make it recurse."""

    def __init__(self, path: str, problems: Problems) -> None:
        self.path = path
        self.problems = problems
        self.stack: list[_Frame] = []
        self.root: Node | None = None

    def report(self, code: str, event: Any, message: str, hint: str = "") -> None:
        start, end = event.start_mark, event.end_mark
        where = Where(self.path, start.line + 1, start.column + 1, end.line + 1, end.column + 1)
        self.problems.add(code, where, message, hint=hint)

    def build(self, events: Iterable[Any]) -> Node | None:
        documents = 0
        for event in events:
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                self.attach(self.scalar(event), event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                if len(self.stack) >= MAX_DEPTH:
                    message = f"nesting deeper than the limit of {MAX_DEPTH}"
                    self.report("RG004", event, message, "flatten the document")
                    return None
                self.open(event, mapping=kind is yaml.MappingStartEvent)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                node = self.stack.pop().node
                node.end_line, node.end_column = event.end_mark.line + 1, event.end_mark.column + 1
            elif kind is yaml.AliasEvent:
                self.report("RG105", event, f"alias `*{event.anchor}`", "write the value out")
                node = Node(None, event.start_mark, event.end_mark)
                node.bad = True
                self.attach(node, event)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    self.report("RG003", event, "a second document", "one file holds one document")
                    return None
                if event.version or event.tags:
                    self.report("RG104", event, "a YAML directive", "remove the line that starts with `%`")
        if self.root is None or (documents == 1 and self.root.data is None and self.root.plain):
            self.problems.found = [
                p for p in self.problems.found if not (p.code == "RG108" and p.where and p.where.path == self.path)
            ]
            self.problems.add("RG003", Where(self.path), "the file is empty", hint="start with `manifest: 1`")
            return None
        return self.root

    def decorated(self, event: Any, node: Node) -> None:
        """Reject anchors and tags; the value behind them is read as if they were not there."""
        if event.anchor is not None:
            self.report("RG105", event, f"anchor `&{event.anchor}`", "write the value where it is needed")
        if event.tag is not None:
            self.report("RG104", event, f"tag `{event.tag}`", "remove it: the field says what a value is")
            node.bad = True

    def open(self, event: Any, *, mapping: bool) -> None:
        node = Node({} if mapping else [], event.start_mark, event.end_mark)
        if mapping:
            node.values, node.keys = {}, {}
        else:
            node.items = []
        if event.anchor is not None or event.tag is not None:
            self.decorated(event, node)
        self.attach(node, event)
        self.stack.append(_Frame(node))

    def attach(self, node: Node, event: Any) -> None:
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        parent = frame.node
        if parent.items is not None:
            parent.items.append(node)
            parent.data.append(node.data)  # type: ignore[attr-defined]
        elif frame.key is None:
            frame.key = node
        else:
            key, frame.key = frame.key, None
            self.put(parent, key, node, event)

    def put(self, parent: Node, key: Node, node: Node, event: Any) -> None:
        assert parent.values is not None
        assert parent.keys is not None
        where = Where(self.path, key.line, key.column, key.end_line, key.end_column)
        if not isinstance(key.data, str):
            if not key.bad:
                self.problems.add("RG106", where, f"key `{_shown(key.data)}` is not text", hint="quote it")
            return
        if key.bad:
            return
        name = key.data
        if not name.isascii():
            self.problems.add("RG107", where, f"name `{name}` has characters outside ASCII", hint=_lookalike(name))
            parent.bad = True
            return
        if name in parent.values:
            first = parent.keys[name]
            place = Where(self.path, first.line, first.column, first.end_line, first.end_column)
            message = f"key `{name}` is set twice"
            self.problems.add("RG101", where, message, hint="keep one of them", related=((place, "first set"),))
            return
        parent.values[name] = node
        parent.keys[name] = key
        parent.data[name] = node.data  # type: ignore[index]

    def scalar(self, event: Any) -> Node:
        text: str = event.value
        plain = not event.style
        node = Node(text, event.start_mark, event.end_mark, plain=plain)
        if event.anchor is not None or event.tag is not None:
            self.decorated(event, node)
        if len(text) > MAX_SCALAR:
            message = f"text of {len(text)} characters exceeds the limit of {MAX_SCALAR}"
            self.report("RG004", event, message, "shorten it")
            node.data, node.bad = "", True
        elif not plain:
            control = _CONTROL.search(text)
            if control:
                shown = control.group().encode("unicode_escape").decode()
                self.report("RG805", event, f"control character `{shown}` in text", "remove it")
                node.bad = True
        elif not text or text[0] in _SUSPECT_START:
            self.resolve(node, text, event)
        return node

    def resolve(self, node: Node, text: str, event: Any) -> None:
        """Give a plain scalar its value; see DESIGN's scalar grammar."""
        if text == "true" or text == "false":
            node.data = text == "true"
        elif _INT.fullmatch(text) and len(text) < 19:
            node.data = int(text)
        elif _FLOAT.fullmatch(text) and not isinf(float(text)):
            node.data = float(text)
        elif text == "<<":
            self.report("RG105", event, "merge key `<<`", "write the keys out")
            node.bad = True
        elif text in _NULL:
            hint = "a stray comma or a missing value; quote it if it is meant as text"
            self.report("RG108", event, "null: a value is missing here", hint)
            node.data, node.bad = None, True
        elif _AMBIGUOUS.fullmatch(text):
            hint = f'write "{text}" if it is text, or true, false, 12 or 1.5 if it is not'
            self.report("RG102", event, f"`{text}` is read differently by YAML 1.1 and 1.2", hint)
            node.bad = True


def is_plain(text: str) -> bool:
    """Say whether a text may stand unquoted and is still read as that text, here and by any YAML reader."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*", text) is None or re.fullmatch(r"[0-9.]+", text):
        return False
    special = text in ("true", "false") or text in _NULL or _AMBIGUOUS.fullmatch(text) is not None
    return not special and _FLOAT.fullmatch(text) is None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "{...}" if isinstance(value, dict) else "[...]" if isinstance(value, list) else str(value)


def _lookalike(name: str) -> str:
    """Point at the first character that is not ASCII, by number, for it may look like one that is."""
    odd = next(c for c in name if not c.isascii())
    return f"character {name.index(odd) + 1} is U+{ord(odd):04X}; names are ASCII"
