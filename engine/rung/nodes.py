"""What reading YAML is made of: the events, the grammar of scalars, and nodes that know their places.

Owns which plain scalar has which value, for whoever reads. Reports nothing and reads nothing.
"""

from __future__ import annotations

import re
from math import isinf
from typing import Any, Final

import yaml

__all__ = [
    "AMBIGUOUS", "CONTROL", "DOUBTFUL", "END_OF_MAPPING", "END_OF_SEQUENCE", "FAST", "FLOAT", "LEVELS", "MAPPING",
    "MAX_DEPTH", "MAX_REREAD", "MAX_SCALAR", "MAX_VALUES", "NOWHERE", "NO_VALUE", "NULL", "SCALAR", "SEQUENCE",
    "SUSPECT_START", "Node", "PureLoader", "value_of",
]  # fmt: skip

MAX_DEPTH: Final = 16
MAX_SCALAR: Final = 4096
MAX_VALUES: Final = 4_000_000
MAX_REREAD: Final = 64 * 1024
LEVELS: Final = 3
"""Levels below the root of which places are kept at first: sections, their entries, and the rows or keys of those."""


class PureLoader(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """PyYAML's own event source, without any constructor: nothing in it can build an object."""

    def __init__(self, stream: str) -> None:
        yaml.reader.Reader.__init__(self, stream)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)


SCALAR: Any = yaml.ScalarEvent
MAPPING: Any = yaml.MappingStartEvent
END_OF_MAPPING: Any = yaml.MappingEndEvent
SEQUENCE: Any = yaml.SequenceStartEvent
END_OF_SEQUENCE: Any = yaml.SequenceEndEvent
FAST: Any = getattr(yaml, "CBaseLoader", PureLoader)

NOWHERE = yaml.Mark("", 0, 0, 0, "", 0)

# Tabs between tokens, `?` where a key may start, a comment glued to the head of a block text; the strict reader sees
# the rest: `?` inside plain text in {} and [], and tags, which may end differently.
DOUBTFUL = re.compile(r"\t|(?:^|[\n\[{,])[ \n]*\?|[|>][-+0-9]*#")
_INT = re.compile(r"-?(0|[1-9][0-9]*)")
FLOAT = re.compile(r"-?[0-9]+\.[0-9]+(e[-+][0-9]+)?")
NO_VALUE = object()
"""Stands for the value of a plain scalar that is not to be written so."""
# What some YAML 1.1 or 1.2 reader takes for a boolean, a number, a date or a special value.
AMBIGUOUS = re.compile(
    r"""(?x)
    [yYnN] | yes|Yes|YES | no|No|NO | on|On|ON | off|Off|OFF | True|TRUE | False|FALSE | =
    | [-+]? [0-9][0-9_]*                                        # octal, leading plus, underscores
    | [-+]? 0[bB][01_]+ | [-+]? 0[oO][0-7_]+ | [-+]? 0[xX][0-9a-fA-F_]+
    | [-+]? [0-9][0-9_]* (:[0-5]?[0-9])+ (\.[0-9_]*)?           # sexagesimal
    | [-+]? (\.[0-9][0-9_]* | [0-9][0-9_]*(\.[0-9_]*)?) ([eE][-+]?[0-9]+)?
    | [-+]? \.(inf|Inf|INF) | \.(nan|NaN|NAN)
    | [0-9]{4}-[0-9][0-9]?-[0-9][0-9]? ([Tt\ \t].*)?
    """
)
NULL = frozenset({"", "~", "null", "Null", "NULL"})
SUSPECT_START = frozenset("0123456789+-.~=<yYnNoOtTfF")
# C0 and C1 controls but tab and line ends, Unicode line separators, bidirectional controls, BOM, surrogates (an escape
# can make one), non-characters.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")


class Node:
    """A value and its place. `values` for a mapping, `items` for a list, neither for a scalar.

    `plain` marks an unquoted scalar, `bad` a node already reported, whose consequences are not to be reported. `key`
    is the mapping key that leads to the value.
    """

    __slots__ = ("bad", "data", "end", "items", "key", "plain", "start", "values")

    def __init__(self, data: object, start: Any, end: Any, plain: bool = False) -> None:
        self.data = data
        self.start = start
        self.end = end
        self.plain = plain
        self.bad = False
        self.key: Node | None = None
        self.items: list[Node] | None = None
        self.values: dict[str, Node] | None = None

    @property
    def line(self) -> int:
        """The line it starts on, from 1."""
        return int(self.start.line) + 1

    @property
    def column(self) -> int:
        """The column it starts in, from 1."""
        return int(self.start.column) + 1

    @property
    def end_line(self) -> int:
        """The line it ends on, from 1."""
        return int(self.end.line) + 1

    @property
    def end_column(self) -> int:
        """The column behind its end, from 1."""
        return int(self.end.column) + 1

    @property
    def keys(self) -> dict[str, Node]:
        """The keys of a mapping by name."""
        return {name: value.key for name, value in (self.values or {}).items() if value.key is not None}

    def child(self, part: str | int) -> Node | None:
        """Give the value under a key, or the item at an index; None when there is none."""
        if self.values is not None and isinstance(part, str):
            return self.values.get(part)
        if self.items is not None and isinstance(part, int) and part < len(self.items):
            return self.items[part]
        return None


def value_of(text: str) -> Any:
    """Give a plain scalar its value; `NO_VALUE` where it has none that every YAML reader agrees on."""
    if text == "true" or text == "false":
        return text == "true"
    if _INT.fullmatch(text) and len(text) < 19:
        return int(text)
    if FLOAT.fullmatch(text) and not isinf(float(text)):
        return float(text)
    return NO_VALUE if text == "<<" or text in NULL or AMBIGUOUS.fullmatch(text) else text
