"""Edits: what can be repaired in a manifest's text without guessing, and how edits are applied to bytes.

Owns how a repair is written so that comments and everything outside it survive. Whether one is wanted, and whether the
manifests are better for it, is for others to say.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from math import isinf
from typing import TYPE_CHECKING, Final

from rung.diagnostics import Edit, Where, shorten
from rung.source import is_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rung.source import Document, Node

__all__ = ["apply", "as_number", "quoted", "renamed", "split_lines", "without_repetition", "written"]

Loc = tuple[str | int, ...]

_BOM: Final = b"\xef\xbb\xbf"
_END: Final = re.compile(r"\r\n|\r|\n")
_DECIMAL: Final = re.compile(r"\+?(-?)([0-9][0-9_]*)?(?:(\.)([0-9_]*))?(?:[eE]([-+]?)([0-9]+))?")


def written(document: Document, node: Node) -> str:
    """Give the text of a node of one line as it stands in the file."""
    return document.lines[node.line - 1][node.column - 1 : node.end_column - 1]


def quoted(document: Document, node: Node) -> Edit | None:
    """Give the edit that quotes a plain scalar; None where its text does not stand on one line."""
    text = written(document, node)
    if node.end_line != node.line or not node.plain or re.search(r'["\\]', text):
        return None
    return Edit(document.place(node), f'"{text}"', f"quoted `{shorten(text)}`")


def renamed(document: Document, key: Node, name: str) -> Edit | None:
    """Give the edit that writes another name for a key; None where the key does not stand on one line."""
    text = written(document, key)
    if key.end_line != key.line or not is_plain(name):
        return None
    quote = text[:1] if text[:1] in ("'", '"') else ""
    return Edit(document.place(key), f"{quote}{name}{quote}", f"renamed `{shorten(str(key.data))}` to `{name}`")


def as_number(text: str, *, whole: bool) -> str | None:
    """Write a decimal number as manifests have it: `.5` is `0.5`, `1e-3` is `1.0e-3`, `1_000` is `1000`.

    None where it may be read as another number (`010` may be octal), or is none.
    """
    found = _DECIMAL.fullmatch(text)
    if found is None or re.search(r"_(_|$|\D)|(^|\D)_", text) or text.startswith("+-"):
        return None
    sign, digits, point, fraction, exponent_sign, exponent = found.groups()
    digits, fraction = (digits or "").replace("_", ""), (fraction or "").replace("_", "")
    if (not digits and not fraction) or (len(digits) > 1 and digits.startswith("0")):
        return None
    if point is None and exponent is None:
        return sign + digits
    if whole:
        return None
    number = f"{sign}{digits or '0'}.{fraction or '0'}" + (f"e{exponent_sign or '+'}{exponent}" if exponent else "")
    return None if isinf(float(number)) else number


def without_repetition(document: Document, loc: Loc) -> Edit | None:
    """Give the edit that takes an item out of a list that has it earlier already; None where a comment would go too."""
    *path, index = loc
    items = document.node(path).items or []
    if not isinstance(index, int) or not 0 < index < len(items):
        return None
    before, item = items[index - 1], items[index]
    if item.items is not None or item.values is not None or item.line != item.end_line:
        return None
    what = f"removed the repeated `{shorten(str(item.data))}`"
    line = document.lines[item.line - 1]
    head, tail = line[: item.column - 1], line[item.end_column - 1 :]
    if head.strip() == "-":
        if tail.strip():
            return None
        if item.line < len(document.lines):
            return Edit(Where(document.path, item.line, 1, item.line + 1, 1), "", what)
        last = len(document.lines[item.line - 2]) + 1
        return Edit(Where(document.path, item.line - 1, last, item.line, item.end_column), "", what)
    where = Where(document.path, before.end_line, before.end_column, item.line, item.end_column)
    return Edit(where, "", what) if between(document, where, item).strip() == "," else None


def between(document: Document, where: Where, item: Node) -> str:
    """Give the text from the start of a place to the start of a node."""
    if where.line == item.line:
        return document.lines[where.line - 1][where.column - 1 : item.column - 1]
    first, last = document.lines[where.line - 1][where.column - 1 :], document.lines[item.line - 1][: item.column - 1]
    return "\n".join([first, *document.lines[where.line : item.line - 1], last])


def split_lines(text: str) -> list[str]:
    """Split a text into lines as manifests are read, each with its own end."""
    starts = [0, *(match.end() for match in _END.finditer(text)), len(text)]
    return [text[a:b] for a, b in pairwise(starts) if a < b]


def apply(data: bytes, edits: Sequence[Edit]) -> tuple[bytes, list[Where]]:
    """Apply edits, in order and apart from each other, to the bytes of a file, and say where each came to lie.

    Everything outside them stays as it is, a byte order mark and line ends included; lines that an edit adds end as
    the file's first line does. Raise ValueError for a place that the text does not have.
    """
    mark = _BOM if data.startswith(_BOM) else b""
    text = data[len(mark) :].decode()
    starts = _starts(text)
    end = _END.search(text)
    out: list[str] = []
    spans: list[tuple[int, int]] = []
    done = length = 0
    for edit in edits:
        where = edit.where
        first, last = (
            _offset(text, starts, line, column)
            for line, column in ((where.line, where.column), (where.end_line, where.end_column))
        )
        if not done <= first <= last:
            raise ValueError("edits overlap")
        added = edit.text.replace("\n", end.group() if end else "\n")
        out += [text[done:first], added]
        length += first - done
        spans.append((length, length + len(added)))
        length += len(added)
        done = last
    out.append(text[done:])
    changed = "".join(out)
    starts = _starts(changed)
    places = [
        Where(edit.where.path, *_place(starts, first), *_place(starts, last))
        for edit, (first, last) in zip(edits, spans, strict=True)
    ]
    return mark + changed.encode(), places


def _starts(text: str) -> list[int]:
    """Give where each line starts; behind a last line end starts one more."""
    return [0, *(match.end() for match in _END.finditer(text))]


def _offset(text: str, starts: Sequence[int], line: int, column: int) -> int:
    if 0 < line <= len(starts) and column > 0:
        limit = starts[line] if line < len(starts) else len(text)
        if starts[line - 1] + column - 1 <= limit:
            return starts[line - 1] + column - 1
    raise ValueError(f"the file has no line {line}, column {column}")


def _place(starts: Sequence[int], offset: int) -> tuple[int, int]:
    row = bisect_right(starts, offset)
    return row, offset - starts[row - 1] + 1
