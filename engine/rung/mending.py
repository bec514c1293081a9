"""Taking the faults out of a document, so that what is sound around them is judged in the same run.

Owns what of an entry may leave and what must stand in for it. A stand-in satisfies the shape and is no use to anybody:
whatever a rule could say of it is a consequence, and the places in `lost` tell the rules so. Nothing that was mended is
ever compiled, for its fault was reported.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["HEADER", "NOBODY", "NO_PATH", "ROWS", "SECTIONS", "Mended", "mend"]

Loc = tuple[str | int, ...]

SECTIONS: Final = ("devices", "predicates", "ops", "kinds", "profiles", "platforms")
ROWS: Final = ("kernels", "components")
HEADER: Final = ("backend", "arrays", "requires", "hint")

NO_PATH: Final = "rung:none"
"""Stands where a dotted path with a fault was written."""
NOBODY: Final = "rung_nobody"
"""Stands where a name with a fault was written; no manifest declares it."""
_TERM: Final = {"env": "RUNG_DISABLE"}
_STAND_INS: Final[dict[str, dict[str, Any]]] = {
    "devices": {"summary": "-", "arrays": ["numpy"]},
    "ops": {"summary": "-", "signature": "() -> array", "reference": NO_PATH},
    "kinds": {"summary": "-"},
    "platforms": {"summary": "-", "device": NOBODY, "arch": "generic"},
    "kernels": {"device": NOBODY, "impl": NO_PATH},
    "components": {"device": NOBODY, "impl": NO_PATH},
}
"""What entries of a section cannot be without."""
_MAPPINGS: Final = {
    ("devices", "archs"), ("devices", "targets"), ("devices", "aliases"), ("ops", "tolerance"), ("ops", "variants"),
    ("profiles", "fall"), ("profiles", "chains"), ("ops", "dtypes"), ("kernels", "accepts"),
}  # fmt: skip
"""The keys whose values are entries of their own, each of which may leave alone."""
_LISTS: Final = {(section, key) for section in ROWS for key in ("device", "arch", "variant", "exclude")}
"""The keys whose lists are sets: an item may leave alone, and places are found by value."""
_NAMES: Final = {
    ("devices", "archs"), ("devices", "targets"), ("devices", "portable"), ("ops", "variants"),
    ("profiles", "devices"), ("profiles", "chains"),
}  # fmt: skip
"""The keys below which lists are of names, in which the others keep their positions."""


@dataclass(slots=True)
class Mended:
    """A document without its faults: the data, the places of what was taken out, the original positions of rows."""

    data: dict[str, Any]
    lost: set[Loc] = field(default_factory=set)
    rows: dict[Loc, list[int]] = field(default_factory=dict)


def mend(data: dict[str, Any], places: Iterable[Loc], hopeless: Iterable[Loc] = ()) -> Mended:
    """Copy a document without what is faulty at `places`; the entries at `hopeless` leave as a whole."""
    out = Mended({"manifest": 1})
    faults: dict[Loc, list[Loc]] = {}
    for place in places:
        if len(place) < 2 and (not place or (place[0] in (*SECTIONS, *ROWS) and isinstance(data[str(place[0])], dict))):
            continue  # what is at fault is a key that never came in
        size = _size(data, place)
        faults.setdefault(place[:size], []).append(place[size:])
    for place in hopeless:
        faults[place] = [()]
        out.lost.add(place)
    for section, entries in data.items():
        if section == "manifest":
            continue
        if section not in (*SECTIONS, *ROWS):
            _header(out, section, entries, faults.get((section,), []))
        elif (section,) not in faults:
            entries = {name: _Entry(out, section, (section, name), faults).mended(e) for name, e in entries.items()}
            out.data[section] = {name: entry for name, entry in entries.items() if entry not in (None, [])}
    return out


def _size(data: dict[str, Any], place: Loc) -> int:
    """Give how much of a place leads to the entry, row or key that it lies in."""
    section = place[0] if place else ""
    if section not in data or not isinstance(data[str(section)], dict):
        return 1
    return min(len(place), 3 if section in ROWS else 2 if section in SECTIONS else 1) if len(place) > 1 else 1


def _header(out: Mended, key: str, value: Any, faults: Sequence[Loc]) -> None:
    if faults:
        out.lost.add((key,))
        inner = _without_terms(value, faults) if key == "requires" else None
        if inner is not None:
            out.data[key] = inner
    else:
        out.data[key] = value


def _without_terms(expression: Any, faults: Iterable[Loc]) -> Any:
    """Put a stand-in for each faulty term of an expression; None where a fault lies in no list of terms."""
    out = deepcopy(expression)
    for fault in faults:
        parent = _at(out, fault[:-1]) if fault else None
        if isinstance(parent, dict) and len(parent.keys() - {"why", fault[-1]}) > 0 and isinstance(fault[-1], str):
            parent.pop(fault[-1], None)  # a key beside the one that says what is asked
            continue
        place = _term(expression, fault)
        if place is None:
            return None
        parent = out
        for part in place[:-1]:
            parent = parent[part]
            if parent == _TERM:
                break
        else:
            parent[place[-1]] = dict(_TERM)
    return out


def _at(data: Any, place: Loc) -> Any:
    """Give what stands at a place, None where nothing does."""
    for part in place:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def _term(expression: Any, fault: Loc) -> Loc | None:
    """Give the place of the innermost term of a list that a fault lies in."""
    node = expression
    place: Loc = ()
    found: Loc | None = None
    for part in fault:
        if isinstance(node, list) and isinstance(part, int):
            place = found = (*place, part)
        elif isinstance(node, dict) and part in ("all", "any", "not") and part in node:
            place = (*place, part)
        else:
            break
        node = node[part]
    return found


class _Entry:
    """One entry of a section, or the rows of one op or kind."""

    def __init__(self, out: Mended, section: str, loc: Loc, faults: dict[Loc, list[Loc]]) -> None:
        self.out = out
        self.section = section
        self.loc = loc
        self.faults = faults

    def mended(self, entry: Any) -> Any:
        """Give the entry without its faults, None where nothing of it can stay."""
        here = self.faults.get(self.loc, ())
        if self.section not in ROWS:
            return self.without(entry, here) if here else entry
        if here or not isinstance(entry, list):
            return None
        rows = [_Entry(self.out, self.section, (*self.loc, i), self.faults).row(row) for i, row in enumerate(entry)]
        self.out.rows[self.loc] = [i for i, row in enumerate(rows) if row is not None]
        return [row for row in rows if row is not None]

    def row(self, row: Any) -> Any:
        here = self.faults.get(self.loc, ())
        return self.without(row, here) if here else row

    def without(self, entry: Any, faults: Sequence[Loc]) -> Any:
        if self.section == "predicates":
            self.out.lost.add(self.loc)
            return _without_terms(entry, faults)
        if not isinstance(entry, dict) or self.loc in self.out.lost:
            return None
        entry = deepcopy(entry)
        if "when" in entry:
            self.conditions(entry, [fault for fault in faults if fault[:1] == ("when",)])
        # From the last item of a list to the first, so that what leaves does not move what has still to leave; an item
        # leaves once, however much is wrong in it.
        places = {fault[:2] if (self.section, *fault[:1]) in _LISTS else fault for fault in faults}
        for fault in sorted((f for f in places if f[:1] != ("when",)), key=_items_last, reverse=True):
            self.take(entry, fault)
        return entry

    def conditions(self, row: dict[str, Any], faults: Sequence[Loc]) -> None:
        if faults:
            self.out.lost.add((*self.loc, "when"))
            row["when"] = _without_terms(row["when"], [fault[1:] for fault in faults])
            if row["when"] is None:
                del row["when"]

    def take(self, entry: dict[str, Any], fault: Loc) -> None:
        stand_ins = _STAND_INS.get(self.section, {})
        if not fault:  # a key is missing
            for key in stand_ins.keys() - entry.keys():
                entry[key] = stand_ins[key]
                self.out.lost.add((*self.loc, key))
            return
        names = _at(entry, fault[:-1]) if (self.section, fault[0]) in _NAMES and isinstance(fault[-1], int) else None
        if isinstance(names, list):
            names[int(fault[-1])] = NOBODY
            self.out.lost.add((*self.loc, *fault))
            return
        key, value = str(fault[0]), entry.get(str(fault[0]))
        self.out.lost.add((*self.loc, *fault[:2]) if (self.section, key) in _MAPPINGS else (*self.loc, key))
        inner = fault[1] if len(fault) > 1 else None
        if (self.section, key) in _MAPPINGS and isinstance(value, dict) and inner is not None:
            value.pop(inner, None)
        elif (self.section, key) in _LISTS and isinstance(value, list) and len(value) > 1 and isinstance(inner, int):
            del value[inner]
        elif key in stand_ins:
            entry[key] = stand_ins[key]
        else:
            entry.pop(key, None)


def _items_last(fault: Loc) -> tuple[str, int, str]:
    item = fault[1] if len(fault) > 1 and isinstance(fault[1], int) else -1
    return str(fault[0]) if fault else "", item, str(fault)
