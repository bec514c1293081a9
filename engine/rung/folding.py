"""Lists whose items are written alike: each form is read by YAML once, and the others are filled in.

Owns how a text is folded and what must hold for that. Knows no YAML but what the note says, and judges nothing: what is
not as it expects raises `Unfoldable`, and the text is read as it stands.

Note [Words are alike to YAML]: a run of ASCII letters, digits and `_` is content wherever it stands, for no indicator
of YAML is among these characters; so is one of ` .:/-`, or ` >=`, between two of them. And no column depends on how
long such a run is, for what starts a block on a line has only blanks and dashes before it. So two items that are the
same but for such runs have the same structure, and a scalar that is what stands in the text in one is it in the other.
This does not hold for the heads of block texts (`|2`), for escapes, for tags and anchors, and for keys beyond YAML's
limit of 1024 characters: items with any of these are not folded. What a plain scalar means the reader decides of each.
Blank lines mean something at the end of a block text that keeps them (`|+`) alone: a text with one is not folded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Anchor", "Folded", "Item", "Layout", "Run", "Unfoldable", "fold"]

MAX_ITEM: Final = 1000
"""Characters of an item that is folded: keys on one line have fewer than 1024."""

MIN_ITEMS: Final = 8
"""Items of a list that is folded."""
MAX_FORMS: Final = 64
"""Forms up to which a list is folded of which less than half leaves: they may be met again in the next one."""

_WORDS = re.compile(r"([A-Za-z0-9_]+(?:(?:[ .:/-]| >=)[A-Za-z0-9_]+)*)")
_SHAPES = bytes(ord("w") if (chr(c).isalnum() and c < 128) or c == ord("_") else c for c in range(256))
_DASH = re.compile(r"^( {0,60})- ", re.MULTILINE)
_UNFIT = re.compile(r"[\\&*!|%@`?\t]|''|>[-+0-9]*[ ]*(?:#.*)?$|[^\n -~]", re.MULTILINE)
_KEEPS_BLANKS = re.compile(r"[|>][0-9]*\+")


Anchor = tuple[int, int]
"""A place in an item that has another in each layout: so many characters behind the end of so many words."""


class Unfoldable(Exception):
    """A text that has to be read as it stands."""


class Layout:
    """Where the words of an item stand, which many items have in common that are of one form.

    The `form` is the number of what stands between the words, among those met in a text. `cut` takes the words out of
    an item's text. Of an item that is not `fit` for folding nothing is known: its text is its form.
    """

    __slots__ = ("cut", "ends", "form", "is_fit", "lines", "spans")

    def __init__(self, text: str, forms: dict[tuple[str, ...], int]) -> None:
        self.is_fit = len(text) <= MAX_ITEM and _UNFIT.search(text) is None
        self.spans = [found.span() for found in _WORDS.finditer(text)] if self.is_fit else []
        self.ends = [0, *(end for _, end in self.spans)]
        self.form = forms.setdefault(tuple(_WORDS.split(text)[::2]) if self.is_fit else (text,), len(forms))
        self.lines = text.count("\n")
        self.cut: Callable[[str], tuple[str, ...]] = _cutter([slice(*span) for span in self.spans])

    def place(self, anchor: Anchor) -> int:
        """Give the place so far behind the end of so many words."""
        words, distance = anchor
        return self.ends[words] + distance


def _cutter(slices: list[slice]) -> Any:
    if len(slices) > 1:
        return itemgetter(*slices)
    return lambda text: tuple(text[each] for each in slices)


class Item:
    """An item of a list: its line, counted from 0, its text and how that is laid out.

    `start` is where it stands in the folded text, -1 where it was taken out.
    """

    __slots__ = ("layout", "line", "start", "text")

    def __init__(self, line: int, text: str, layout: Layout, start: int) -> None:
        self.line = line
        self.text = text
        self.layout = layout
        self.start = start

    def word_at(self, start: int, end: int) -> int:
        """Give the number of the word that stands between two places of the folded text, -1 where it is no one word."""
        span = (start - self.start, end - self.start)
        return self.layout.spans.index(span) if span in self.layout.spans else -1

    def anchor(self, place: int) -> Anchor:
        """Give how many words end before a place of the folded text, and how far behind the last of them it is."""
        place -= self.start
        words = bisect_right(self.layout.ends, place) - 1
        if words < len(self.layout.spans) and self.layout.spans[words][0] < place:
            raise Unfoldable  # within a word
        return words, place - self.layout.ends[words]

    def between(self, start: Anchor, end: Anchor) -> str:
        """Give the text between two places."""
        return self.text[self.layout.place(start) : self.layout.place(end)]


class Run:
    """The items of one list, in order, and the column of its dashes."""

    __slots__ = ("column", "items")

    def __init__(self, column: int, items: list[Item]) -> None:
        self.column = column
        self.items = items


class Folded:
    """A text in which blank lines stand for items that are written as one before them, and its lists by line."""

    __slots__ = ("runs", "text")

    def __init__(self, text: str, runs: dict[int, Run]) -> None:
        self.text = text
        self.runs = runs


def fold(text: str) -> Folded | None:
    """Take out of lists in block style the items that are written like one before them, also in another such list.

    Give None where there is none.
    """
    if "+" in text and _KEEPS_BLANKS.search(text):
        return None
    shape = text.encode("ascii", "replace").translate(_SHAPES)
    layouts: dict[bytes, Layout] = {}
    forms: dict[tuple[str, ...], int] = {}
    met: dict[int, set[int]] = {}  # the forms in lists that start in a column, of which one is left
    out: list[str] = []
    runs: dict[int, Run] = {}
    done = line = size = 0
    while (dash := _DASH.search(text, done)) is not None:
        start = dash.start()
        line += text.count("\n", done, start)
        out.append(text[done:start])
        size += start - done
        run, first, done = Run(len(dash[1]), []), line, start
        known = met.get(run.column, set[int]())
        left, length, kept = [], size, set[int]()
        item = _item(run.column).match
        while (found := item(text, done)) is not None:
            written, key = found[0], shape[done : found.end()]
            layout = layouts.get(key)
            if layout is None:
                layout = layouts[key] = Layout(written, forms)
            # The first item stays: without any there is no list.
            is_known = layout.is_fit and (layout.form in kept or (layout.form in known and bool(run.items)))
            if not is_known:
                kept.add(layout.form)
            run.items.append(Item(line, written, layout, -1 if is_known else length))
            lines = layout.lines
            left.append("\n" * lines if is_known else written)
            length += lines if is_known else len(written)
            line += lines
            done = found.end()
        if not run.items:  # the last line, without an end
            break
        is_gain = 2 * len(kept) <= len(run.items) or len(known | kept) <= MAX_FORMS
        if len(run.items) < MIN_ITEMS or not is_gain:
            left, length = [text[start:done]], size + done - start
        else:
            runs[first] = run
            met[run.column] = known | kept
        out += left
        size = length
    out.append(text[done:])
    return Folded("".join(out), runs) if runs else None


@lru_cache(maxsize=64)
def _item(column: int) -> re.Pattern[str]:
    """Give what an item looks like whose dash stands in a column: its line, and those below that are further in."""
    return re.compile(rf" {{{column}}}- .*\n(?: {{{column + 1}}}.*\n| *(?:#.*)?\n)*")
