"""Rules on rows: RG204 and RG205 where a value is illegal at its place, RG309, and RG401."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from rung import lattice
from rung.diagnostics import Problem, did_you_mean
from rung.entries import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rung.manifest import CellEntry, Manifests

__all__ = ["RULES"]

_SIGNATURE_TYPES = frozenset({"array", "bool", "float", "int", "str", "tuple"})


def rg202(whole: Manifests) -> Iterator[Problem]:
    """An op's signature that is no stub over the types signatures may use."""
    for op in whole.ops.values():
        fault = _signature_fault(op.model.signature)
        if fault:
            hint = 'such as "(x: array, *, scale: float | None = None) -> array"'
            yield Problem("RG202", "error", op.at("signature"), f"signature: {fault}", hint)


def _signature_fault(signature: str) -> str:
    try:
        (function,) = ast.parse(f"def op{signature}: ...").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "not a Python signature"
    if not isinstance(function, ast.FunctionDef) or len(function.body) != 1:
        return "not a Python signature"
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        return "`*args` and `**kwargs` are not allowed"
    annotations = [(a.arg, a.annotation) for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    for name, annotation in (*annotations, ("the result", function.returns)):
        if annotation is None:
            return f"{name} has no type"
        used = {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)}
        if not used <= _SIGNATURE_TYPES:
            return f"`{min(used - _SIGNATURE_TYPES)}` is no type a signature may use"
    return ""


def rg204(whole: Manifests) -> Iterator[Problem]:
    """An artifact that code for the target cannot be."""
    for backend in whole.backends.values():
        for op, index, row in backend.kernels:
            if row.artifact is None:
                continue
            for device in row.device:
                record = whole.device_records.get(device)
                for arch in row.arch if record is not None else ():
                    assert record is not None
                    legal = lattice.artifacts(record, arch)
                    if lattice.is_target(record, arch) and row.artifact not in legal:
                        where = backend.at("kernels", op, index, "artifact")
                        message = f"code for `{arch}` of {device} cannot be `{row.artifact}`"
                        yield Problem("RG204", "error", where, message, did_you_mean(row.artifact, legal))


def rg309(whole: Manifests) -> Iterator[Problem]:
    """A backend that takes the reserved name, or two archs of a device that read the same."""
    backend = whole.backends.get(REFERENCE)
    if backend is not None:
        message = "`reference` is the backend made of the ops' references"
        yield Problem("RG309", "error", backend.where, message, "choose another name")
    for device in whole.devices.values():
        spelled: dict[str, str] = {}
        for name in (*device.model.archs, *device.model.targets):
            first = spelled.setdefault(lattice.spell(name), name)
            if first != name:
                section = "archs" if name in device.model.archs else "targets"
                message = f"`{name}` reads like `{first}`: case, `_` and `-` do not count"
                yield Problem("RG309", "error", device.at(section, name, key=True), message, "rename one of them")


def rg401(whole: Manifests) -> Iterator[Problem]:
    """Two cells for one key (op, device, arch, variant) with the same arrays."""
    first: dict[tuple[str | None, ...], CellEntry] = {}
    for cell in whole.cells:
        other = first.setdefault(cell.key, cell)
        if other is not cell:
            at = f"{cell.serves} @{cell.device}" + (f".{cell.arch}" if cell.arch else "") + f" #{cell.variant}"
            message = f"duplicate cell: {at} is served by `{other.backend.name}` too"
            hint = "give one of them another variant"
            yield Problem("RG401", "error", cell.where, message, hint, cell.id, ((other.where, f"first: {other.id}"),))


RULES = (rg202, rg204, rg309, rg401)
