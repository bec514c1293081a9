"""JSON text to plain data, for files that rung wrote itself.

Owns one function. Anybody else's JSON is read with `json`.

Note [JSON without json]: `json` has its scanner in C and imports `re` beside it, for error messages and indentation,
which takes most of a start that only reads a table. The scanner alone does the same; where this Python has none, or
one that is called otherwise, `json` does it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["loads"]


class _Options:
    """What `json.JSONDecoder` tells the scanner by default."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan: Any = None
try:
    from _json import make_scanner

    options: Any = _Options
    _scan = make_scanner(options)
except (ImportError, AttributeError, TypeError):
    pass


def loads(text: str) -> Any:
    """Give what `json.loads` gives for a document without blanks around it; raise ValueError for anything else."""
    if _scan is None:
        import json

        if text != text.strip():
            raise ValueError("blanks stand around the JSON")
        return json.loads(text)
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # the latter where it looks for its own error in `json`, which is not there
        raise ValueError("no JSON") from None
    if end != len(text):
        raise ValueError("something stands behind the JSON")
    return value
