"""The file form of a table: lines of text that together are one JSON document.

Owns how a table is written and read back. Knows no YAML, no path, and nothing of what makes a file stale.

Note [One line each]: a file may hold a hundred thousand cells, and a program resolves a few ops. So every op, with its
cells, and every predicate has a line of its own, which stays text until somebody looks at it. What is read is exactly
what was written (`rung.compiled` compares digests), so lines are told apart by their count and not by parsing.
"""

from __future__ import annotations

from _collections_abc import Mapping
from _thread import allocate_lock
from sys import intern

from rung.diagnostics import Where
from rung.entries import (
    Arch,
    Backend,
    Cell,
    Condition,
    Device,
    Expression,
    Jit,
    Kind,
    Op,
    Pattern,
    Profile,
    Target,
    cell_id,
)
from rung.plainjson import loads
from rung.table import Table, Wanted, attributes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Final, TypeVar

    T = TypeVar("T")
    _Mapping = Mapping[str, Any]
else:
    _Mapping = Mapping

__all__ = ["FORMAT", "lines_of", "restore"]

FORMAT: Final = 3
"""The version of the file form: a file of another one is not read."""
_EACH: Final = ',"each":['
_publish = allocate_lock()


def lines_of(table: Table, places: Mapping[str, tuple[int, str]]) -> Iterator[str]:
    """Give the lines of a table's file form, without line ends.

    `places` says for each file that a record was declared in which unit it belongs to and how it is called there, so
    that a table may be read where its manifests lie elsewhere.
    """
    from json import JSONEncoder

    encode = JSONEncoder(separators=(",", ":"), check_circular=False).encode
    files = sorted(places)
    number = {path: index for index, path in enumerate(files)}

    def where(place: Where) -> list[int]:
        return [number[place.path], place.line, place.column, place.end_line, place.end_column]

    def section(name: str, of: Mapping[str, T], plain: Callable[[T], Any]) -> Iterator[str]:
        yield f'"{name}":{{"names":{encode(list(of))}{_EACH}'
        last = len(of)
        for index, entry in enumerate(of.values(), 1):
            yield encode(plain(entry)) + ("," if index < last else "")

    def cells(found: Iterable[Cell]) -> list[list[Any]]:
        return [_row(cell, where(cell.where)) for cell in found]

    wanted = table.wanted
    entries = {
        "files": [places[path] for path in files],
        "devices": [
            [
                d.name, d.summary, where(d.where), d.detect, d.falls_back_to, d.arrays, d.torch,
                [d.pattern.prefix, d.pattern.hex] if d.pattern else None, dict(d.aliases),
                [[a.name, a.runs] for a in d.archs.values()],
                [[t.name, t.only, t.family] for t in d.targets.values()],
                [d.jit.prefix, d.jit.rule] if d.jit else None, d.portable,
            ]
            for d in table.devices.values()
        ],
        "kinds": [[k.name, k.summary, where(k.where)] for k in table.kinds.values()],
        "backends": [[b.name, b.arrays, where(b.where), b.hint] for b in table.backends.values()],
        "profiles": [
            [p.name, p.devices, dict(p.fall), p.only, {op: dict(chains) for op, chains in p.chains.items()}]
            for p in table.profiles.values()
        ],
        "named": {name: where(place) for name, place in table.named.items()},
        "wanted": [wanted.devices, wanted.modules, wanted.files, wanted.env, wanted.probes],
    }  # fmt: skip
    yield f'{{"entries":{encode(entries)},'
    yield from section("predicates", table.predicates, _plain)
    yield "]},"
    yield from section("ops", table.ops, lambda op: [
        op.summary, op.signature, op.reference, where(op.where), op.cases,
        {dtype: dict(value) for dtype, value in op.tolerance.items()}, dict(op.variants),
        op.differentiable, dict(op.dtypes), op.result_dtype,
    ])  # fmt: skip
    yield "]},"
    yield from section("kernels", table.kernels, cells)
    yield "]},"
    yield from section("components", table.components, cells)
    yield "]}}"


def restore(lines: Sequence[str], units: Sequence[str], roots: frozenset[str]) -> Table:
    """Make a table from its lines; `units` are the units' shown paths, in the order they had.

    What cells may bind, `roots`, is said by the caller and by no file.
    Raise KeyError, IndexError, TypeError or ValueError for what is no file form.
    """
    data = loads(lines[0][len('{"entries":') : -1])
    files = [_joined(units[unit], inner) for unit, inner in data["files"]]

    def where(place: Sequence[int]) -> Where:
        return _where(files, *place)

    at = 1

    def section(name: str, make: Callable[[str, Any], T]) -> Mapping[str, T]:
        nonlocal at
        head = f'"{name}":{{"names":'
        if not (lines[at].startswith(head) and lines[at].endswith(_EACH)):
            raise ValueError(f"no {name}")
        names = map(intern, loads(lines[at][len(head) : -len(_EACH)]))
        held = dict(zip(names, lines[at + 1 :], strict=False))
        at += len(held) + 2
        return _OnDemand(held, make)

    def device(
        name: str, summary: str, place: Sequence[int], detect: str | None, below: str | None, arrays: Sequence[str],
        torch: str, pattern: Sequence[Any] | None, aliases: dict[str, str], archs: Sequence[Any],
        targets: Sequence[Any], jit: Sequence[str] | None, portable: Sequence[str],
    ) -> Device:  # fmt: skip
        return Device(
            name,
            summary,
            where(place),
            detect,
            below,
            tuple(arrays),
            torch,
            Pattern(*pattern) if pattern else None,
            aliases,
            {arch: Arch(arch, tuple(runs)) for arch, runs in archs},
            {target: Target(target, only, tuple(family)) for target, only, family in targets},
            Jit(*jit) if jit else None,
            tuple(portable),
        )

    def op(name: str, plain: Any) -> Op:
        summary, signature, reference, place, cases, tolerance, variants, differentiable, dtypes, result_dtype = plain
        chains = {variant: tuple(chain) for variant, chain in variants.items()}
        return Op(
            name, summary, signature, reference, where(place), cases, tolerance, chains, tuple(differentiable), dtypes,
            result_dtype,
        )  # fmt: skip

    def profile(name: str, order: Sequence[str], fall: dict[str, str], only: str | None, replaced: Any) -> Profile:
        chains = {op: {v: tuple(chain) for v, chain in chains.items()} for op, chains in replaced.items()}
        return Profile(name, tuple(order), fall, only, chains)

    def cells(serves: str, rows: Sequence[Sequence[Any]]) -> tuple[Cell, ...]:
        return tuple(_cell(serves, files, *row) for row in rows)

    devices, modules, wanted_files, env, probes = data["wanted"]
    return Table(
        devices={plain[0]: device(*plain) for plain in data["devices"]},
        kinds={name: Kind(name, summary, where(place)) for name, summary, place in data["kinds"]},
        backends={name: Backend(name, arrays, where(place), hint) for name, arrays, place, hint in data["backends"]},
        profiles={plain[0]: profile(*plain) for plain in data["profiles"]},
        named={name: where(place) for name, place in data["named"].items()},
        wanted=Wanted(
            tuple(devices), tuple((name, dist) for name, dist in modules), tuple(wanted_files), tuple(env),
            tuple(probes),
        ),
        predicates=section("predicates", lambda _, plain: _expression(plain)),
        ops=(ops := section("ops", op)),
        kernels=section("kernels", cells),
        components=section("components", cells),
        attributes=attributes_of(ops),
        roots=roots,
    )  # fmt: skip


def _joined(unit: str, inner: str) -> str:
    return inner if unit in ("", ".") else f"{unit}/{inner}" if inner else unit


class _OnDemand(_Mapping):
    """Entries by name, each of which is text until it is asked for; see Note [One line each]."""

    __slots__ = ("_held", "_make")

    def __init__(self, lines: dict[str, Any], make: Callable[[str, Any], Any]) -> None:
        self._held = lines
        self._make = make

    def __getitem__(self, name: str) -> Any:
        held = self._held[name]
        if held.__class__ is str:
            made = self._make(name, loads(held.removesuffix(",")))
            with _publish:  # of several threads that made it, all get what the first one did
                held = self._held[name]
                if held.__class__ is str:
                    held = self._held[name] = made
        return held

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.items()),)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def _row(cell: Cell, where: list[int]) -> list[Any]:
    """Give a cell as a list, without those last values of it that say nothing."""
    row = [
        cell.backend, cell.device, cell.arch, cell.variant, cell.arrays, cell.impl, cell.artifact, where,
        cell.needs, cell.exclude, cell.degraded, cell.hint, cell.workspace_bytes,
        [[c.place, c.test, c.value] for c in cell.accepts],
    ]  # fmt: skip
    while row[-1] is None or row[-1] in ("", (), []):
        row.pop()
    return row


def _cell(
    serves: str, files: Sequence[str], backend: str, device: str, arch: str | None, variant: str, arrays: str,
    impl: str, artifact: str | None, place: Sequence[int], needs: Sequence[str] = (), exclude: Sequence[str] = (),
    degraded: str = "", hint: str = "", workspace_bytes: int | None = None, accepts: Sequence[Sequence[Any]] = (),
) -> Cell:  # fmt: skip
    # What many cells have in common is one object: a table of a hundred thousand cells is a third smaller for it.
    return Cell(
        cell_id(backend, serves, device, arch, variant), intern(backend), serves, intern(device),
        arch and intern(arch), intern(variant), intern(arrays), impl, artifact and intern(artifact),
        _where(files, *place), tuple(map(intern, needs)), tuple(map(intern, exclude)), degraded,
        intern(hint), workspace_bytes, tuple(_condition(*plain) for plain in accepts),
    )  # fmt: skip


def _condition(place: str, test: str, value: Any) -> Condition:
    return Condition(intern(place), intern(test), tuple(value) if isinstance(value, list) else value)


def _where(files: Sequence[str], file: int, line: int, column: int, end_line: int, end_column: int) -> Where:
    return Where(files[file], line, column, line if end_line == line else end_line, end_column)


def _plain(expression: Expression) -> list[Any]:
    return [expression.key, [_plain(term) for term in expression.terms], expression.args, expression.why]


def _expression(plain: Sequence[Any]) -> Expression:
    key, terms, args, why = plain
    given = tuple((intern(name), value if isinstance(value, str) else tuple(value)) for name, value in args)
    return Expression(intern(key), tuple(_expression(term) for term in terms), given, why)
