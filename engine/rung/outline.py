"""Reading YAML for its data: texts without a fault, whose places hardly anybody asks for.

Owns the quick reading of Note [Read for data, read for places], in `rung.source`. Takes what the strict reader there
takes, with the same events and the same values, and gives up at the first thing that it would have to report: this
module reports nothing.
"""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import yaml

from rung.folding import Unfoldable, fold
from rung.nodes import (
    CONTROL,
    DOUBTFUL,
    END_OF_MAPPING,
    END_OF_SEQUENCE,
    FAST,
    LEVELS,
    MAPPING,
    MAX_DEPTH,
    MAX_REREAD,
    MAX_SCALAR,
    MAX_VALUES,
    NO_VALUE,
    NOWHERE,
    SCALAR,
    SEQUENCE,
    SUSPECT_START,
    Node,
    value_of,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable

    from rung.folding import Anchor, Folded, Item, Run

__all__ = ["outlined"]


class _Unusual(Exception):
    """Something was met that only the strict reader can judge."""


def outlined(text: str) -> Node | None:
    """Read text that has no fault; None when it may have one. See Note [Read for data, read for places]."""
    if text.startswith("%") or "\n%" in text or (len(text) <= MAX_REREAD and ("?" in text or DOUBTFUL.search(text))):
        return None
    folded = fold(text)
    try:
        if folded is not None:
            try:
                return _Outliner(FAST(folded.text), folded).document()
            except Unfoldable:
                pass
        return _Outliner(FAST(text)).document()
    except (_Unusual, StopIteration, yaml.YAMLError, ValueError, OverflowError):
        return None


class _Outliner:
    """Turns events into data, and into nodes as far as the upper levels go.

    It recurses, but no deeper than `MAX_DEPTH`. `folded` is what the text was made from, where it was folded.
    """

    def __init__(self, source: Any, folded: Folded | None = None) -> None:
        self.events: Any = islice(iter(source.get_event, None), MAX_VALUES)
        self.names: set[str] = set()  # the plain keys met so far
        self.end: Any = NOWHERE  # of the collection read last
        self.runs = folded.runs if folded is not None else {}
        self.left = MAX_VALUES - (len(folded.text) if folded is not None else 0)  # a value has at least one character
        self.forms: dict[tuple[int, int], dict[int, _Form]] = {}
        self.plain = _Plain()

    def document(self) -> Node:
        next(self.events)
        start = next(self.events)
        if start.__class__ is not yaml.DocumentStartEvent or start.version or start.tags:
            raise _Unusual
        root = self.node(next(self.events), 0)
        next(self.events)
        if next(self.events).__class__ is not yaml.StreamEndEvent:
            raise _Unusual
        if self.runs or self.left < 0:
            raise Unfoldable
        return root

    def node(self, event: Any, level: int) -> Node:
        """Read a value with its place, and with the places of what is inside as far as the upper levels go."""
        start = event.start_mark
        if event.__class__ is SCALAR:
            return Node(self.scalar(event), start, event.end_mark, not event.style)
        if level == LEVELS:
            data = self.collection(event, level)
            return Node(data, start, self.end)
        self.undecorated(event)
        if event.__class__ is MAPPING:
            return self.mapping_of_nodes(start, level + 1)
        if event.__class__ is SEQUENCE:
            return self.sequence_of_nodes(start, level + 1)
        raise _Unusual

    def mapping_of_nodes(self, start: Any, level: int) -> Node:
        values: dict[str, Node] = {}
        event = next(self.events)
        while event.__class__ is not END_OF_MAPPING:
            name = self.name(event)
            if name in values:
                raise _Unusual
            values[name] = self.node(next(self.events), level)
            values[name].key = Node(name, event.start_mark, event.end_mark, not event.style)
            event = next(self.events)
        node = Node({name: value.data for name, value in values.items()}, start, event.end_mark)
        node.values = values
        return node

    def sequence_of_nodes(self, start: Any, level: int) -> Node:
        items: list[Node] = []
        event = next(self.events)
        while event.__class__ is not END_OF_SEQUENCE:
            run = self.runs.pop(event.start_mark.line, None)
            if run is not None:
                items += self.unfolded(event, run, start.column, level)
            else:
                items.append(self.node(event, level))
            event = next(self.events)
        node = Node([item.data for item in items], start, event.end_mark)
        node.items = items
        return node

    def collection(self, event: Any, level: int) -> dict[str, Any] | list[Any]:
        """Read what a collection holds whose first event is given."""
        self.undecorated(event)
        if level == MAX_DEPTH:
            raise _Unusual
        if event.__class__ is MAPPING:
            return self.mapping(level + 1)
        if event.__class__ is SEQUENCE:
            return self.sequence(level + 1, event.start_mark.column)
        raise _Unusual

    def mapping(self, level: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        names, events = self.names, self.events
        for event in events:
            if event.__class__ is END_OF_MAPPING:
                self.end = event.end_mark
                return data
            is_met = event.__class__ is SCALAR and event.value in names and event.anchor is None and event.tag is None
            name = event.value if is_met else self.name(event)
            if name in data:
                raise _Unusual
            value = next(events)
            data[name] = self.scalar(value) if value.__class__ is SCALAR else self.collection(value, level)
        raise _Unusual

    def sequence(self, level: int, column: int) -> list[Any]:
        data: list[Any] = []
        for event in self.events:
            if event.__class__ is END_OF_SEQUENCE:
                self.end = event.end_mark
                return data
            run = self.runs.pop(event.start_mark.line, None)
            if run is not None:
                data += [node.data for node in self.unfolded(event, run, column, level)]
                continue
            data.append(self.scalar(event) if event.__class__ is SCALAR else self.collection(event, level))
        raise _Unusual

    def unfolded(self, event: Any, run: Run, column: int, level: int) -> list[Node]:
        """Give the items of a folded list, of which the first event is given; what is in them has no places."""
        nodes: list[Node] = []
        forms = self.forms.setdefault((column, level), {})
        if run.column != column or level < LEVELS:
            raise Unfoldable
        for item in run.items:
            if item.start >= 0:
                event = event or next(self.events)
                if event.__class__ is END_OF_SEQUENCE or event.start_mark.line != item.line:
                    raise Unfoldable
                known = forms.get(item.layout.form)
                if known is None or not item.layout.is_fit:
                    forms[item.layout.form] = _Form(self, event, item, level)
                else:
                    for _ in range(known.events - 1):
                        next(self.events)
                event = None
            layout = item.layout
            form = forms.get(layout.form)
            if form is None:  # it was met in a list of another level
                raise Unfoldable
            self.left -= form.values
            end = _BELOW if form.end is None else _Mark(item.line, layout.place(form.end))
            data = self.filled(form.shape, item, layout.cut(item.text))
            nodes.append(Node(data, _Mark(item.line, form.column), end))
        return nodes

    def filled(self, shape: _Shape, item: Item, words: tuple[str, ...]) -> Any:
        """Give the value of an item, or of a part of it, by its shape and the words of its text."""
        if shape.keys is not None:
            names = shape.names(words) if shape.names else tuple(key.written(item, words) for key in shape.keys)
            if names not in shape.sound:
                self.check_names(shape, names)
            plain, data = self.plain, {}
            for name, inner in zip(names, shape.items, strict=True):
                at = inner.at
                if at >= 0:
                    data[name] = plain[words[at]] if inner.is_plain else words[at]
                else:
                    data[name] = self.filled(inner, item, words)
            return data
        if shape.is_list:
            return [self.filled(inner, item, words) for inner in shape.items]
        text = shape.written(item, words)
        return self.plain[text] if shape.is_plain else text

    def check_names(self, shape: _Shape, names: tuple[str, ...]) -> None:
        for name, key in zip(names, shape.keys or (), strict=True):
            if key.is_plain and self.plain[name].__class__ is not str:
                raise _Unusual
        if len({*names}) < len(names):
            raise _Unusual
        shape.sound.add(names)

    def undecorated(self, event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            raise _Unusual

    def name(self, event: Any) -> str:
        """Read a key, which is text of ASCII."""
        name = self.scalar(event) if event.__class__ is SCALAR else None
        if name.__class__ is not str or not name.isascii():
            raise _Unusual
        if not event.style:
            self.names.add(name)
        return name

    def scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.anchor is not None or event.tag is not None or len(text) > MAX_SCALAR:
            raise _Unusual
        if event.style:
            if not text.isprintable() and CONTROL.search(text):
                raise _Unusual
            return text
        if text and text[0] not in SUSPECT_START:
            return text
        value = value_of(text)
        if value is NO_VALUE:
            raise _Unusual
        return value


class _Plain(dict[str, Any]):
    """The values of plain scalars, each found out once."""

    def __missing__(self, text: str) -> Any:
        value = value_of(text) if text[0] in SUSPECT_START else text
        if value is NO_VALUE:
            raise _Unusual
        self[text] = value
        return value


class _Mark:
    """A place in an unfolded text, as far as `Document.place` asks."""

    __slots__ = ("column", "line")

    def __init__(self, line: int, column: int) -> None:
        self.line = line
        self.column = column


_BELOW = _Mark(-1, 0)
"""Where an item of several lines ends."""


class _Shape:
    """What a part of a folded item is.

    Of a scalar it is the word `at` a place among the item's words, or what stands between two anchors, or a fixed
    `text` where no other item has the form. A mapping has `keys`, and with a list it has `items` in common.
    """

    __slots__ = ("at", "between", "is_list", "is_plain", "items", "keys", "names", "sound", "text")

    def __init__(self) -> None:
        self.at = -1
        self.between: tuple[Anchor, Anchor] | None = None
        self.text = ""
        self.is_plain = False
        self.is_list = False
        self.items: list[_Shape] = []
        self.keys: list[_Shape] | None = None
        self.names: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None
        self.sound: set[tuple[str, ...]] = set()

    def written(self, item: Item, words: tuple[str, ...]) -> str:
        """Give the text of a scalar."""
        if self.at >= 0:
            return words[self.at]
        return self.text if self.between is None else item.between(*self.between)


class _Form:
    """What the items of a folded list that are written alike have in common; see `rung.folding`."""

    def __init__(self, outliner: _Outliner, event: Any, item: Item, level: int) -> None:
        self.outliner = outliner
        self.item = item
        self.values = 0
        self.events = 1
        self.column: int = event.start_mark.column
        self.last: Any = None  # where what was read last ends, as far as that is known
        self.shape = self.read(event, level)
        last: Any = self.last
        self.end: Anchor | None = item.anchor(last.index) if last is not None and last.line == item.line else None
        if self.end is None and self.shape.keys is None and not self.shape.is_list:
            raise Unfoldable  # a text of several lines

    def read(self, event: Any, level: int) -> _Shape:
        if event.__class__ is SCALAR:
            self.outliner.scalar(event)
            return self.scalar(event)
        self.outliner.undecorated(event)
        self.check_inside(event.start_mark)
        if level == MAX_DEPTH:
            raise _Unusual
        shape = _Shape()
        if event.__class__ is MAPPING:
            shape.keys = []
        shape.is_list = shape.keys is None
        last = END_OF_SEQUENCE if shape.keys is None else END_OF_MAPPING
        inner = self.following()
        while inner.__class__ is not last:
            if shape.keys is not None:
                self.outliner.name(inner)
                shape.keys.append(self.scalar(inner))
                inner = self.following()
            shape.items.append(self.read(inner, level + 1))
            inner = self.following()
        places = [key.at for key in shape.keys or ()]
        if len(places) > 1 and -1 not in places:
            shape.names = itemgetter(*places)
        self.values += 2
        self.last = None
        if event.flow_style:
            self.last = inner.end_mark
            self.check_inside(inner.end_mark)
        return shape

    def following(self) -> Any:
        self.events += 1
        return next(self.outliner.events)

    def scalar(self, event: Any) -> _Shape:
        self.values += 1
        self.last = event.end_mark
        shape = _Shape()
        shape.text = event.value
        shape.is_plain = not event.style
        self.check_inside(event.start_mark)
        if event.style in ("|", ">"):
            return shape  # ends where the next line is further out
        self.check_inside(event.end_mark)
        item, quote = self.item, 1 if event.style else 0
        if item.layout.is_fit:
            start, end = event.start_mark.index + quote, event.end_mark.index - quote
            shape.at = item.word_at(start, end)
            if shape.at < 0:
                shape.between = item.anchor(start), item.anchor(end)
                if item.between(*shape.between) != event.value:
                    raise Unfoldable  # it stands on several lines
        return shape

    def check_inside(self, mark: Any) -> None:
        if not 0 <= mark.index - self.item.start <= len(self.item.text):
            raise Unfoldable
