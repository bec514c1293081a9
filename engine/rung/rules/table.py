"""Rules on rows: signatures, artifacts, backend names, and RG401."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from rung import lattice
from rung.bind import LOCAL
from rung.diagnostics import Problem, did_you_mean, shorten
from rung.entries import REFERENCE
from rung.repairs import without_repetition
from rung.source import MAX_FINDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rung.diagnostics import Edit
    from rung.manifest import CellEntry, Manifests

__all__ = ["RULES", "is_sound_signature"]

_TYPES = frozenset({"array", "bool", "float", "int", "str", "tuple"})

_WIDTH = 20
"""Characters of a name in a message that has two of them."""

_NO_SIGNATURE = "not a Python signature"
_NO_REASON = ("invalid syntax", "expected an indented block")
"""What Python says that would tell nobody more: the block is that of the function a signature is put into."""


def rg202(whole: Manifests) -> Iterator[Problem]:
    """An op's signature that is no stub over the types signatures may use."""
    for op in whole.ops.values():
        for fault in _signature_faults(op.model.signature):
            hint = f'such as "(x: array, *, scale: float | None = None) -> array"; types: {", ".join(sorted(_TYPES))}'
            yield Problem("RG202", op.at("signature"), f"`signature`: {fault}", hint)


def is_sound_signature(signature: str) -> bool:
    """Say whether a signature is a stub over the types signatures may use."""
    return not _signature_faults(signature)


@lru_cache(maxsize=1024)
def _signature_faults(signature: str) -> tuple[str, ...]:
    return tuple(islice(_faults(signature), MAX_FINDINGS))


def _faults(signature: str) -> Iterator[str]:
    """Say what is wrong with a signature, one fault for each parameter. It is parsed and never run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of odd literals, which are rejected below anyway
            (function,) = ast.parse(f"def op{signature}: ...").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) and not error.msg.startswith(_NO_REASON) else ""
        yield f"not Python: {shorten(reason, 54)}" if reason else _NO_SIGNATURE
        return
    if not isinstance(function, ast.FunctionDef) or len(function.body) != 1 or not signature.startswith("("):
        yield _NO_SIGNATURE
        return
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        yield "`*args` and `**kwargs` are not allowed"
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
    names: set[str] = set()
    for argument, default in zip((*positional, *arguments.kwonlyargs), defaults, strict=True):
        if argument.arg == "__debug__":
            yield "no argument can be named `__debug__`"
            continue
        if argument.arg in names:  # which parsing alone does not see
            yield f"two arguments are named `{shorten(argument.arg)}`"
            continue
        names.add(argument.arg)
        fault = _type_fault(argument.annotation)
        if fault:
            yield f"`{shorten(argument.arg, _WIDTH)}` {fault}"
        elif default is not None and (fault := _default_fault(argument, default)):
            yield fault
    fault = _type_fault(function.returns)
    if fault:
        yield f"the result {fault}"


def _default_fault(argument: ast.arg, default: ast.expr) -> str:
    """Say why a default is none, or none for its type. A number stands for a `float` too, and anything for an array."""
    value = default
    no_default = f"`{shorten(argument.arg, 12)}`: a default is a number, a text, True, False or None"
    if isinstance(default, ast.UnaryOp) and isinstance(default.op, ast.UAdd | ast.USub):
        value = default.operand
        if not isinstance(value, ast.Constant) or value.value.__class__ not in (int, float):
            return no_default
    if not isinstance(value, ast.Constant) or not isinstance(value.value, bool | int | float | str | None):
        return no_default
    assert argument.annotation is not None
    types: set[str] = set()
    members = [argument.annotation]
    for member in members:
        match member:
            case ast.BinOp(left=left, right=right):
                members += [left, right]
            case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
                types.add(name)
            case ast.Constant():
                types.add("NoneType")
    fits = {"bool": {"bool"}, "int": {"int", "float"}, "float": {"float"}, "str": {"str"}, "NoneType": {"NoneType"}}
    kind = value.value.__class__.__name__
    if fits[kind] & types or (kind != "NoneType" and "array" in types):
        return ""
    written = shorten(ast.unparse(argument.annotation), _WIDTH)
    return f"the default of `{shorten(argument.arg, _WIDTH)}` is no `{written}`"


def _type_fault(annotation: ast.expr | None) -> str:
    if annotation is None:
        return "has no type"
    for node in ast.walk(annotation):
        match node:
            case ast.Name(id=name) if name not in _TYPES:
                return f"has illegal type `{shorten(name, _WIDTH)}`"
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
    sound: set[tuple[object, ...]] = set()
    for backend in whole.backends.values():
        for op, index, row in backend.kernels:
            if row.artifact is None:
                continue
            meant = (row.artifact, tuple(row.device), tuple(row.arch))
            if meant in sound:
                continue
            sound.add(meant)
            for device in row.device:
                record = whole.device_records.get(device)
                if record is None:
                    continue
                named = (whole.target(device, written) for written in row.arch)
                targets = (t for t in named if lattice.is_target(record, t))
                target = next((t for t in targets if row.artifact not in lattice.artifacts(record, t)), None)
                if target is not None:
                    where = backend.at("kernels", op, index, "artifact")
                    message = f"code for `{target}` of `{device}` cannot be `{row.artifact}`"
                    hint = did_you_mean(row.artifact, lattice.artifacts(record, target))
                    yield Problem("RG204", where, message, hint)
                    sound.discard(meant)
                    break


def rg309(whole: Manifests) -> Iterator[Problem]:
    """A backend that takes a reserved name."""
    for name, what in ((REFERENCE, "the ops' references"), (LOCAL, "what is registered from Python")):
        backend = whole.backends.get(name)
        if backend is not None and backend.document.path:
            hint = f"choose another name: `{name}` holds {what}"
            yield Problem("RG309", backend.where, f"`{name}` is a reserved backend name", hint)


def _is_legal(whole: Manifests, cell: CellEntry) -> bool:
    """Say whether a cell's device and target exist: what collides where neither does is a consequence."""
    record = whole.device_records.get(cell.device)
    return record is not None and (cell.arch is None or lattice.is_target(record, cell.arch))


def rg401(whole: Manifests) -> Iterator[Problem]:
    """Two cells for one key (op, device, arch, variant). Rows that collide are reported once, whatever they hold."""
    if len({(cell.serves, cell.device, cell.arch, cell.variant) for cell in whole.cells}) == len(whole.cells):
        return
    first: dict[tuple[str | None, ...], CellEntry] = {}
    told: set[tuple[object, ...]] = set()
    for cell in whole.cells:
        if not (cell.is_placed and _is_legal(whole, cell)):
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
            message, hint = f"one row gives `{shorten(cell.id, 56)}` twice", "remove the repeated value from its lists"
            yield Problem("RG401", cell.where, message, hint, cell.id, edit=_without_repetition(whole, cell))
        else:
            message, hint = f"duplicate cell `{shorten(cell.id, 60)}`", "give one of them another variant, or remove it"
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
