"""Manifests to a `Table`.

Owns the conversion of models to runtime records and nothing else: everything wrong was said before.
"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rung import lattice
from rung.arguments import parameters, split
from rung.bind import root_of
from rung.diagnostics import ManifestError
from rung.entries import (
    AXES,
    DEFAULT,
    PARTS,
    REFERENCE,
    TESTS,
    Backend,
    Cell,
    Condition,
    Expression,
    Kind,
    LocalRow,
    Op,
    Profile,
    cell_id,
)
from rung.manifest import Manifests, collector_paused, merge
from rung.models import KernelModel
from rung.predicates import describe
from rung.records import maker
from rung.rules import check
from rung.rules.safety import paths
from rung.table import Table, Wanted, attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rung.diagnostics import Where
    from rung.entries import Value
    from rung.manifest import BackendEntry, CellEntry
    from rung.models import ArgumentTest, ExpressionModel, OpModel, Tolerance
    from rung.units import Unit

__all__ = ["compile_manifests", "compile_units"]

Argument: TypeAlias = "tuple[str, Value]"

_make_cell, _make_expression = maker(Cell), maker(Expression)
_CPU = "cpu"
_NUMPY = "numpy"  # both the target and the arrays of a reference
# What a profile that says nothing does; a profile's own `fall` and those it extends come over it.
_LEVELS = {
    "device": "warn", "arch": "allow", "variant": "warn", "arrays": "note",
    "degraded": "warn", "reference": "warn", "broken": "warn", "unknown": "note",
}  # fmt: skip
_STRICT = dict.fromkeys(("device", "variant", "degraded", "reference", "broken", "unknown"), "error")


@collector_paused()
def compile_units(
    units: Iterable[Unit], local: Iterable[LocalRow] = (), texts: Mapping[str, bytes] | None = None
) -> Table:
    """Read, check and compile; raise ManifestError with every error when there is one.

    `local` are rows given from Python, added as the backend `local`. `texts` are taken instead of what files hold.
    """
    known = None if texts is None else {Path(path).resolve(): text for path, text in texts.items()}
    whole = merge(units, local, known)
    check(whole)
    if whole.problems.errors:
        raise ManifestError(whole.problems.errors)
    return compile_manifests(whole)


def compile_manifests(whole: Manifests) -> Table:
    """Turn checked manifests into a table. The order of files does not matter."""
    predicates = {name: expression_of(entry.model) for name, entry in sorted(whole.predicates.items())}
    pool = dict(predicates)
    ops = {name: _op(entry.model, name, whole) for name, entry in sorted(whole.ops.items())}
    kernels: dict[str, list[Cell]] = {name: [_reference(op)] for name, op in ops.items()}
    components: dict[str, list[Cell]] = {name: [] for name in sorted(whole.kinds)}
    cell = _CellMaker(whole, pool).cell
    for entry in sorted(whole.cells, key=attrgetter("id")):
        cells = kernels if entry.arch is not None else components
        cells[entry.serves].append(cell(entry))
    backends = {
        entry.name: Backend(entry.name, entry.file.arrays or "numpy", entry.where, entry.file.hint or "")
        for entry in sorted(whole.backends.values(), key=lambda e: e.name)
    }
    allowed: set[str] = set()
    for unit in (*whole.units, *(entry.unit for entry in whole.backends.values())):
        allowed |= {root_of(path) for path, _, _ in paths(whole)} if unit.roots is None else unit.roots
    return Table(
        devices=whole.device_records,
        ops=ops,
        kinds={name: Kind(name, e.model.summary, e.where) for name, e in sorted(whole.kinds.items())},
        backends=backends,
        profiles=_profiles(whole),
        predicates=pool,
        named={name: entry.where for name, entry in sorted(whole.predicates.items())},
        kernels={name: tuple(sorted(cells, key=attrgetter("id"))) for name, cells in kernels.items()},
        components={name: tuple(sorted(cells, key=attrgetter("id"))) for name, cells in components.items()},
        wanted=Wanted.by(whole.device_records.values(), pool.values()),
        attributes=attributes_of(ops),
        roots=frozenset(allowed),
    )


def expression_of(model: ExpressionModel, kept: dict[Argument, Argument] | None = None) -> Expression:
    """Give the runtime form of a predicate; `kept` are the arguments of others, of which equal ones are one."""
    key = model.key
    why = model.why or ""
    value: Any = model.not_ if key == "not" else getattr(model, key)
    if key in ("all", "any"):
        return _make_expression(key, tuple(expression_of(term, kept) for term in value), (), why)
    if key == "not":
        return _make_expression(key, (expression_of(value, kept),), (), why)
    if isinstance(value, str):
        args: list[Argument] = [("name", value)]
    elif isinstance(value, list):
        args = [("name", tuple(value))]
    elif isinstance(value, dict):  # an environment variable, and what it must equal
        ((name, wanted),) = value.items()
        args = [("name", name)] if wanted is None else [("name", name), ("value", wanted)]
    else:
        args = [(k, tuple(v) if isinstance(v, list) else v) for k, v in vars(value).items() if v is not None]
    if kept is not None:
        args = [kept.setdefault(arg, arg) for arg in args]
    return _make_expression(key, (), tuple(args), why)


def _tolerance(model: Tolerance) -> dict[str, float | int]:
    if model.exact:
        return {}
    if model.ulp is not None:
        return {"ulp": model.ulp}
    if model.cosine is not None:
        return {"cosine": model.cosine}
    return {"rtol": model.rtol or 0.0, "atol": model.atol or 0.0}


def conditions_of(accepts: Mapping[str, ArgumentTest], signature: str) -> tuple[Condition, ...]:
    """Give the conditions of a cell in the order they are asked: what costs nothing first.

    `none` and `given` mean presence where the argument may be None, and are values elsewhere.
    """
    optional = {p.name for p in parameters(signature) if p.is_optional}
    out: list[Condition] = []
    for place, test in accepts.items():
        values = None if test.one_of is None else tuple(test.one_of)
        if values is not None:
            is_presence = place in optional and values in (("none",), ("given",))
            out.append(Condition(place, "is", values[0]) if is_presence else Condition(place, "in", values))
        compared = ((name, getattr(test, name)) for name in TESTS)
        out += [Condition(place, name, value) for name, value in compared if value is not None]
    return tuple(sorted(out, key=lambda c: ("", *PARTS).index(split(c.place)[1])))


def _op(model: OpModel, name: str, whole: Manifests) -> Op:
    return Op(
        name=name,
        summary=model.summary,
        signature=model.signature,
        reference=model.reference,
        where=whole.ops[name].at("reference"),
        cases=model.cases,
        tolerance={dtype: _tolerance(value) for dtype, value in model.tolerance.items()},
        variants={variant: tuple(chain) for variant, chain in sorted(model.variants.items())},
        differentiable=tuple(model.differentiable),
        dtypes=dict(model.dtypes),
        result_dtype=model.result_dtype or "",
    )


def _reference(op: Op) -> Cell:
    return Cell(
        id=cell_id(REFERENCE, op.name, _CPU, _NUMPY, DEFAULT),
        backend=REFERENCE,
        serves=op.name,
        device=_CPU,
        arch=_NUMPY,
        variant=DEFAULT,
        arrays=_NUMPY,
        impl=op.reference,
        artifact="python",
        where=op.where,
    )


class _CellMaker:
    """Makes cells, and what many of them have in common once.

    A condition has the name of its predicate; an inline one is pooled under its text, so equal ones are one.
    """

    def __init__(self, whole: Manifests, pool: dict[str, Expression]) -> None:
        self.whole = whole
        self.pool = pool
        self.texts: dict[str, str] = {}
        self.arguments: dict[Argument, Argument] = {}
        self.artifacts: dict[tuple[str, str], str] = {}
        self.named: dict[int, str] = {}  # see Note [Conditions that are alike]
        self.places: dict[tuple[str, str, bool], list[Where]] = {}

    def cell(self, entry: CellEntry) -> Cell:
        """Make the cell of an entry. Texts that many cells share are kept once."""
        same = self.texts.setdefault
        model, backend, arch = entry.model, entry.backend, entry.arch
        file = backend.file
        artifact: str | None = None
        exclude: tuple[str, ...] = ()
        workspace_bytes: int | None = None
        accepts: tuple[Condition, ...] = ()
        if isinstance(model, KernelModel) and arch is not None:
            arch, artifact, workspace_bytes = same(arch, arch), model.artifact, model.workspace_bytes
            artifact = artifact or self.default_artifact(entry.device, arch)
            if model.exclude:
                exclude = tuple(self.whole.target(entry.device, name) for name in model.exclude)
            if model.accepts:
                accepts = conditions_of(model.accepts, self.whole.ops[entry.serves].model.signature)
        hint = model.hint or file.hint or ""
        try:
            places = self.places[backend.name, entry.serves, arch is None]
        except KeyError:
            places = self.places_of(entry)
        return _make_cell(
            entry.id,
            backend.name,
            entry.serves,
            same(entry.device, entry.device),
            arch,
            same(entry.variant, entry.variant),
            model.arrays or file.arrays or _NUMPY,
            same(model.impl, model.impl),
            artifact,
            places[entry.index],
            self.needs(backend, model.when),
            exclude,
            model.degraded or "",
            same(hint, hint),
            workspace_bytes,
            accepts,
        )

    def places_of(self, entry: CellEntry) -> list[Where]:
        """Give the places of all rows of an entry's list."""
        found = entry.backend.document.places((entry.section, entry.serves))
        self.places[entry.backend.name, entry.serves, entry.arch is None] = found
        return found

    def default_artifact(self, device: str, arch: str) -> str:
        found = self.artifacts.get((device, arch))
        if found is None:
            found = lattice.default_artifact(self.whole.device_records[device], arch)
            self.artifacts[device, arch] = found
        return found

    def needs(self, backend: BackendEntry, when: ExpressionModel | None) -> tuple[str, ...]:
        """Give the names of what a backend requires and a row asks, each once."""
        requires = backend.file.requires
        if requires is None:
            return () if when is None else (self.need(when),)
        asked = (self.need(requires),) if when is None else (self.need(requires), self.need(when))
        return tuple(dict.fromkeys(asked))

    def need(self, model: ExpressionModel) -> str:
        if model.use is not None:
            return model.use
        name = self.named.get(id(model))
        if name is None:
            expression = expression_of(model, self.arguments)
            name = describe(expression)
            while (found := self.pool.setdefault(name, expression)) is not expression and found != expression:
                name += "'"
            self.named[id(model)] = name
        return name


def _profiles(whole: Manifests) -> dict[str, Profile]:
    """Resolve `extends`; `default` and `strict` exist even where no manifest declares them."""
    everywhere = tuple(sorted(whole.devices, key=lambda d: (d == _CPU, d)))
    out: dict[str, Profile] = {}

    def made(name: str) -> Profile:
        entry = whole.profiles.get(name)
        if entry is None:
            return Profile(name, everywhere, {**_LEVELS, **(_STRICT if name == "strict" else {})})
        model = entry.model
        parent = out[model.extends] if model.extends is not None else Profile("", everywhere, _LEVELS)
        chains = dict(parent.chains)
        for op, replaced in model.chains.items():
            chains[op] = {**chains.get(op, {}), **{v: tuple(chain) for v, chain in replaced.items()}}
        return Profile(
            name=name,
            devices=tuple(model.devices or parent.devices),
            fall={axis: str(model.fall.get(axis, parent.fall[axis])) for axis in AXES},
            only=model.only or parent.only,
            chains=chains,
        )

    for name in sorted({*whole.profiles, DEFAULT, "strict"}):
        line = [name]
        while (
            line[-1] not in out
            and (entry := whole.profiles.get(line[-1])) is not None
            and entry.model.extends is not None
        ):
            line.append(entry.model.extends)
        for ancestor in reversed(line):
            if ancestor not in out:
                out[ancestor] = made(ancestor)
    return dict(sorted(out.items()))
