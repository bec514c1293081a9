"""Rules RG501 to RG504, RG803 and RG508: what manifests bind, and what they forgot to bind.

Owns the question whether a function was meant for a manifest and forgotten. Only what has exactly the parameters of an
op that its own module serves is asked about, and whatever else may use it keeps the rule quiet. What is wrong with a
path is for `rung.audit.uses`. Imports nothing of a backend.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rung.audit.modules import MAX_SOURCE, Module, is_file, read_names
from rung.audit.signatures import names_of, stub
from rung.audit.uses import Bindings
from rung.bind import root_of
from rung.diagnostics import Problem, closest, shorten
from rung.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rung.audit.modules import Function
    from rung.audit.scene import Scene
    from rung.audit.uses import Use
    from rung.manifest import Manifests

__all__ = ["RULES"]

_MANY: Final = 2000
"""Files of a package that are searched for uses of a function, and wrong names that it may be meant by."""
_PATH: Final = re.compile(r"(?<!\w)[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)+", re.ASCII)
_STAR: Final = re.compile(rb"\bimport\s*\*")


class _Spare(NamedTuple):
    """A function that nothing in its module uses, and the first place that binds the module."""

    use: Use
    module: Module
    name: str
    function: Function


def bindings(scene: Scene) -> Iterator[Problem]:
    """A path that leads to no module, no name, no allowed code, no function, or one with other parameters."""
    for use, fault, others in Bindings.of(scene).faults():
        more = f" ({others} other place{'s' * (others > 1)} too)" if others else ""
        yield Problem(fault.code, use.where, fault.message, fault.repair + more, use.cell(scene.whole), fault.related)


def rg508(scene: Scene) -> Iterator[Problem]:
    """A function with the parameters of an op that its module serves, which no manifest names."""
    whole = scene.whole
    if whole.mentioned is None:
        return
    known = Bindings.of(scene)
    found = [*_unnamed(known)]
    if not found or _has_row_without_path(whole):
        return
    meant = _rejected_names(whole, {group.first.path for group in known.groups})
    used = _used_elsewhere(known, found)
    for use, module, name, function in found:
        if name in meant or (module.name, name) in used or module.source is None:
            continue
        message = f"no cell binds `{shorten(f'{module.name}:{name}', 50)}`"
        related = ((known.place(module.source, function.line), "defined"),)
        hint = "add a row for it, or start its name with an underscore"
        yield Problem("RG508", use.where, message, hint, use.cell(whole), related)


def _unnamed(known: Bindings) -> Iterator[_Spare]:
    """Give the functions that look like implementations and are neither bound nor used in their module."""
    served: dict[str, dict[str, Use]] = {}  # by module, the first place of each call that is made of it
    doubtful: set[tuple[str, str]] = set()  # a path with a fault may mean any function that takes its call
    misspelt: set[str] = set()
    named: set[tuple[str, str]] = set()
    for use in (group.first for group in known.groups):
        name, _, attribute = use.path.partition(":")
        module = known.modules.find(name)
        answers = known.modules.resolve(module, attribute) if isinstance(module, Module) else ()
        named.update((found.module, found.name) for found in answers)
        if known.fault(use) is not None:
            misspelt.add(attribute)
            doubtful.update((found, use.call) for found in (name, *(answer.module for answer in answers)))
            continue
        for found in answers if use.row is not None and use.call else ():
            if root_of(found.module) in known.roots(use.unit):
                served.setdefault(found.module, {}).setdefault(use.call, use)
    for name, calls in served.items():
        module = known.modules.find(name)
        if isinstance(module, Module):
            shapes = {names_of(stub(call)) for call in calls if (name, call) not in doubtful}
            first = min(calls.values(), key=lambda use: use.where)
            for spare, function in _spare_functions(known, module, shapes):
                is_meant = len(misspelt) > _MANY or any(closest(wrong, [spare]) for wrong in misspelt)
                if (name, spare) not in named and not is_meant:
                    yield _Spare(first, module, spare, function)


def _spare_functions(known: Bindings, module: Module, shapes: set[tuple[str, ...]]) -> Iterator[tuple[str, Function]]:
    for name, function in module.names.functions():
        is_alike = names_of(function.signature) in shapes and not function.is_generator
        if is_alike and name not in module.names.loaded and known.is_transparent(module, function):
            yield name, function


def _has_row_without_path(whole: Manifests) -> bool:
    """Say whether a row has lost the path it was to have: it may be any."""
    for document in whole.documents:
        data = document.data
        for section in ("kernels", "components"):
            served = data.get(section) if isinstance(data, dict) else None
            for rows in served.values() if isinstance(served, dict) else ():
                for row in rows if isinstance(rows, list) else ():
                    if not isinstance(row, dict) or not isinstance(row.get("impl"), str):
                        return True
    return False


def _rejected_names(whole: Manifests, paths: set[str]) -> set[str]:
    """Give the last part of everything in the files that looks like a path, and is none that was taken."""
    out: set[str] = set()
    for document in whole.documents:
        for line in document.lines:
            if "." in line or ":" in line:
                found = (path for path in _PATH.findall(line) if path not in paths)
                out.update(re.split(r"[.:]", path)[-1].lstrip("_") for path in found)
    return out


def _used_elsewhere(known: Bindings, spares: Iterable[_Spare]) -> set[tuple[str, str]]:
    """Say which functions another file of their package takes: they are helpers, or served by other means."""
    wanted: dict[str, list[tuple[Module, str]]] = {}
    for _, module, name, _ in spares:
        wanted.setdefault(root_of(module.name), []).append((module, name))
    used: set[tuple[str, str]] = set()
    for root, functions in wanted.items():
        package = known.modules.find(root)
        for path in _python_files(package.directories if isinstance(package, Module) else None):
            left = [(module, name) for module, name in functions if (module.name, name) not in used]
            if not left:
                break
            if not _spells(path, [name for _, name in left]):
                continue
            names = read_names(known.modules.sources, path, root, is_package=True)
            for module, name in left:
                if path != module.source and names.may_take(name):
                    used.add((module.name, name))
    return used


def _spells(path: Path, names: Iterable[str]) -> bool:
    """Say whether one of some names, or a star that may stand for them, is in a file; so it is in one not read."""
    try:
        raw = read_regular(path, MAX_SOURCE)
    except OSError:
        return True
    return _STAR.search(raw) is not None or any(name.encode() in raw for name in names)


def _python_files(directories: Iterable[str] | None) -> Iterator[Path]:
    count = 0
    for directory in directories or ():
        for folder, inner, files in os.walk(directory):
            inner[:] = sorted(name for name in inner if name.isidentifier() and name != "__pycache__")
            for name in sorted(files):
                count += name.endswith(".py")
                if count > _MANY:
                    return
                if name.endswith(".py") and is_file(Path(folder, name)):
                    yield Path(folder) / name


RULES: tuple[Callable[[Scene], Iterator[Problem]], ...] = (bindings, rg508)
