"""Compiled tables on disk: read one that is fresh, write one that nobody sees half.

Owns the envelope around a table's file form, and what makes a file stale. A file that is not exactly what was written
for exactly these sources is not used at all. No pickle: the file is JSON, and reading it can run nothing. It is trusted
as far as the manifests are: what it may bind is said by whoever loads it.
"""

from __future__ import annotations

import os

from rung.cache import MAX_BYTES
from rung.diagnostics import printable
from rung.files import read_regular, replace_file
from rung.plainjson import loads
from rung.resources import VERSION
from rung.tablefile import FORMAT, lines_of, restore
from rung.units import digest, manifest_files, stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from rung.table import Table
    from rung.units import Unit

__all__ = ["fault", "read", "text_of", "write"]

_BODY: Final = ',\n"table":\n'
"""Stands between the head, which says what the table was made from, and the table."""
_END: Final = "\n}\n"


def text_of(table: Table, units: Sequence[Unit], sources: str) -> str:
    """Give what a file holds of a table that was made from `units` when `stamp` said `sources` of them."""
    places = {shown: _place(unit, number, shown) for number, unit in reversed([*enumerate(units)])
              for _, shown in manifest_files(unit)}  # fmt: skip
    return _signed("\n".join(lines_of(table, places)), sources)


def _signed(body: str, sources: str) -> str:
    head = f'{{"rung": "{VERSION}", "format": {FORMAT}, "sources": "{sources}", "digest": "{digest(body.encode())}"'
    return head + _BODY + body + _END


def write(path: str | os.PathLike[str], text: str) -> None:
    """Put a table in the place of a file, as a whole or not at all.

    Raise OSError, also where it would replace a file of another kind.
    """
    if os.path.exists(path) and not read_regular(path, MAX_BYTES).startswith(b'{"rung": '):
        raise OSError(f"{path} is no compiled table: it is not replaced")
    replace_file(path, text.encode())


def read(path: str | os.PathLike[str], units: Sequence[Unit]) -> Table | None:
    """Give the table in a file, None when there is none that was made from what `units` hold now."""
    found = _open(path, units)
    return None if isinstance(found, str) else found


def fault(path: str | os.PathLike[str], units: Sequence[Unit], table: Table | None = None) -> str:
    """Say why a file cannot be used for these units, "" when it can; with `table`, also why it is not that one."""
    found = _open(path, units)
    if isinstance(found, str) or table is None:
        return found if isinstance(found, str) else ""
    same = read_regular(path, MAX_BYTES).decode() == text_of(table, units, stamp(units))
    return "" if same else "is not what the manifests compile to"


def _open(path: str | os.PathLike[str], units: Sequence[Unit]) -> Table | str:
    try:
        data = read_regular(path, MAX_BYTES)
    except OSError as error:
        return "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
    try:
        written, _, rest = data.partition(_BODY.encode())
        body = rest.removesuffix(_END.encode())
        head = loads(written.decode() + "}")
        if len(body) == len(rest) or head["digest"] != digest(body):
            return "is damaged"
        if (head["rung"], head["format"]) != (VERSION, FORMAT):
            return "is of another version of rung"
        sources = stamp(units)
        if head["sources"] != sources:
            return "is stale" if sources else "says nothing: a manifest cannot be read"
        roots = frozenset(root for unit in units for root in unit.roots or ())
        return restore(body.decode().split("\n"), [printable(unit.shown) for unit in units], roots)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return "is damaged"


def _place(unit: Unit, number: int, shown: str) -> tuple[int, str]:
    """Give the unit a file belongs to and its name there."""
    return number, shown if unit.shown in ("", ".") else shown.removeprefix(printable(unit.shown)).lstrip("/")
