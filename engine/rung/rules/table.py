"""Rules on rows: signatures, artifacts, backend names, and RG401."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from rung import lattice
from rung.bind import LOCAL
from rung.diagnostics import Problem, did_you_mean, shorten
from rung.entries import REFERENCE
from rung.repairs import without_repetition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rung.diagnostics import Edit
    from rung.manifest import CellEntry, Manifests

__all__ = ["RULES"]

_TYPES = frozenset({"array", "bool", "float", "int", "str", "tuple"})


def rg202(whole: Manifests) -> Iterator[Problem]:
    """An op's signature that is no stub over the types signatures may use."""
    for op in whole.ops.values():
        fault = _signature_fault(op.model.signature)
        if fault:
            hint = f'such as "(x: array, *, scale: float | None = None) -> array"; types: {", ".join(sorted(_TYPES))}'
            yield Problem("RG202", op.at("signature"), f"`signature`: {fault}", hint)


def _signature_fault(signature: str) -> str:
    """Say what is wrong with a signature, "" when nothing is. It is parsed and never run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of odd literals, which are rejected below anyway
            (function,) = ast.parse(f"def op{signature}: ...").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "not a Python signature"
    if not isinstance(function, ast.FunctionDef) or len(function.body) != 1 or not signature.startswith("("):
        return "not a Python signature"
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        return "`*args` and `**kwargs` are not allowed"
    names: set[str] = set()
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.arg in names:  # which parsing alone does not see
            return f"two arguments are named `{shorten(argument.arg)}`"
        names.add(argument.arg)
        fault = _type_fault(argument.annotation)
        if fault:
            return f"`{shorten(argument.arg)}` {fault}"
    for default in (*arguments.defaults, *arguments.kw_defaults):
        value = default.operand if isinstance(default, ast.UnaryOp) else default
        if not isinstance(value, ast.Constant | None):
            return "a default is a number, a text, True, False or None"
    fault = _type_fault(function.returns)
    return f"the result {fault}" if fault else ""


def _type_fault(annotation: ast.expr | None) -> str:
    if annotation is None:
        return "has no type"
    for node in ast.walk(annotation):
        match node:
            case ast.Name(id=name) if name not in _TYPES:
                return f"has type `{shorten(name)}`, which no signature may use"
            case ast.Subscript(value=ast.Name(id="tuple")) | ast.Name():
                pass
            case ast.Constant(value=value) if value is None or value is ...:
                pass
            case ast.Tuple() | ast.BinOp() | ast.BitOr() | ast.Load():
                pass
            case _:
                return "has a type that no signature may use"
    return ""


def rg204(whole: Manifests) -> Iterator[Problem]:
    """An artifact that code for one of the row's targets cannot be."""
    for backend in whole.backends.values():
        for op, index, row in backend.kernels:
            if row.artifact is None:
                continue
            for device in row.device:
                record = whole.device_records.get(device)
                if record is None:
                    continue
                meant = (whole.target(device, written) for written in row.arch)
                targets = (t for t in meant if lattice.is_target(record, t))
                target = next((t for t in targets if row.artifact not in lattice.artifacts(record, t)), None)
                if target is not None:
                    where = backend.at("kernels", op, index, "artifact")
                    message = f"code for `{target}` of `{device}` cannot be `{row.artifact}`"
                    hint = did_you_mean(row.artifact, lattice.artifacts(record, target))
                    yield Problem("RG204", where, message, hint)
                    break


def rg309(whole: Manifests) -> Iterator[Problem]:
    """A backend that takes a reserved name."""
    for name, what in ((REFERENCE, "the ops' references"), (LOCAL, "what is registered from Python")):
        backend = whole.backends.get(name)
        if backend is not None and backend.document.path:
            hint = f"choose another name: `{name}` holds {what}"
            yield Problem("RG309", backend.where, f"`{name}` is a reserved backend name", hint)


def rg401(whole: Manifests) -> Iterator[Problem]:
    """Two cells for one key (op, device, arch, variant). Rows that collide are reported once, whatever they hold."""
    first: dict[tuple[str | None, ...], CellEntry] = {}
    told: set[tuple[object, ...]] = set()
    for cell in whole.cells:
        if not cell.is_whole:
            continue
        other = first.setdefault(cell.key, cell)
        # A backend that is left out for its header collides with nobody.
        if other.backend is not cell.backend and not (other.backend.is_named and cell.backend.is_named):
            continue
        rows = (cell.section, cell.serves, cell.backend.name, cell.index, other.backend.name, other.index)
        if other is cell or rows in told:
            continue
        told.add(rows)
        if other.backend is cell.backend and other.index == cell.index:
            message, hint = f"one row gives `{cell.id}` twice", "remove the repeated value from its lists"
            yield Problem("RG401", cell.where, message, hint, cell.id, edit=_without_repetition(whole, cell))
        else:
            message, hint = f"duplicate cell `{cell.id}`", "give one of them another variant, or remove it"
            related = ((other.where, f"first `{other.id}`"),)
            yield Problem("RG401", cell.where, message, hint, cell.id, related)


def _without_repetition(whole: Manifests, cell: CellEntry) -> Edit | None:
    """Give the edit that takes the first repeated value out of a row's lists."""
    row, loc = cell.model, (cell.section, cell.serves, cell.index)
    for key, listed in (("device", row.device), ("arch", getattr(row, "arch", ())), ("variant", row.variant)):
        met: set[str] = set()
        for index, name in enumerate(listed):
            meant = whole.target(cell.device, name) if key == "arch" else name
            if meant in met:
                return without_repetition(cell.backend.document, (*loc, key, index))
            met.add(meant)
    return None


RULES = (rg202, rg204, rg309, rg401)
