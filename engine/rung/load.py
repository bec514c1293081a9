"""Getting a table: the built-in manifests, installed plugins, and directories a caller names.

Owns which manifests make a table and which packages each may bind. The one door from the runtime to the authoring
half, which is imported inside functions only.
"""

from __future__ import annotations

import os
import threading
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rung.diagnostics import ManifestError, Problem, Problems, closest, did_you_mean, warn
from rung.resources import data_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.metadata import Distribution, EntryPoint

    from rung.entries import LocalRow
    from rung.facts import Facts
    from rung.table import Table
    from rung.units import Unit

__all__ = [
    "BUILTIN_ROOTS",
    "ENTRY_POINT_GROUP",
    "VARIABLES",
    "builtin_unit",
    "default_table",
    "disabled_globs",
    "extend_default_table",
    "load",
    "plugin_units",
    "units_of",
    "warn_idle_globs",
    "warn_unknown_variables",
]

BUILTIN_ROOTS: Final = frozenset({"rung", "rung_backends"})
SHIPPED: Final = "table.json"
"""The compiled table of the built-in manifests, which lies beside them."""
ENTRY_POINT_GROUP: Final = "rung.manifests"
VARIABLES: Final = ("RUNG_DISABLE", "RUNG_PLUGINS", "RUNG_PROFILE")
"""The environment variables rung reads."""

_default: Table | None = None
_units: list[Unit] = []
_publish = threading.Lock()


def builtin_unit(base: Path | None = None) -> Unit:
    """Give the unit of the manifests rung ships, shown relative to `base` (by default the working directory)."""
    from rung.units import Unit

    path = data_dir("manifests")
    shown = _shown(path, base)
    return Unit(path, shown if shown else "manifests", BUILTIN_ROOTS, "rung's own manifests")


def _shown(path: Path, base: Path | None = None) -> str:
    """Show a path relative to `base`, or the working directory, where it lies below it, `/` between its parts."""
    try:
        return path.resolve().relative_to((base or Path.cwd()).resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def units_of(
    paths: Iterable[str | os.PathLike[str]], roots: frozenset[str] | None, base: Path | None = None
) -> list[Unit]:
    """Give the units of paths a caller names, shown relative to `base` (by default the working directory).

    Raise ManifestError for a path that does not exist or holds no manifest.
    """
    from rung.units import Unit, manifest_files

    out: list[Unit] = []
    for given in paths:
        path = Path(given)
        if not path.exists():
            raise ManifestError([Problem("RG001", None, f"no such file or directory: {given}")])
        unit = Unit(path, _shown(path, base), roots, f"the manifests in {_shown(path, base)}")
        problems = Problems()
        if not manifest_files(unit, problems):
            hint = "a manifest is a file ending in .yaml or .yml"
            raise ManifestError([*problems] or [Problem("RG001", None, f"no manifest in {given}", hint)])
        if not any(unit.path.resolve() == other.path.resolve() for other in out):
            out.append(unit)
    return out


def load(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    *,
    allow: Iterable[str] = (),
    builtin: bool = True,
    compiled: str | os.PathLike[str] | None = None,
) -> Table:
    """Compile the manifests in `paths` (directories or files), with the built-in ones unless `builtin=False`.

    `allow` names the top-level packages these manifests may bind besides rung's own. `compiled` is a file that
    `rung compile` wrote for these paths: it is read instead as long as no manifest changes. Installed plugins are not
    part of it. Changes no global state. Raise ManifestError with every fault found.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    own = builtin_unit()
    allowed = frozenset([allow] if isinstance(allow, str) else allow)
    units = units_of(named, BUILTIN_ROOTS | allowed)
    if builtin and not any(unit.path.resolve() == own.path.resolve() for unit in units):
        units.insert(0, own)
    return _table_of(units, None if compiled is None else Path(compiled))


def _table_of(units: list[Unit], compiled: Path | None = None) -> Table:
    """Give the table of units: the one that was compiled before if it is fresh, else made anew."""
    from rung.compiled import fault, read

    own = builtin_unit()
    if compiled is None and [unit.path for unit in units] == [own.path]:
        compiled = own.path / SHIPPED
    table = read(compiled, units) if compiled is not None else None
    if table is not None:
        return table
    if compiled is not None and compiled != own.path / SHIPPED:
        import logging

        logging.getLogger("rung").info("%s %s: the manifests are compiled again", compiled, fault(compiled, units))
    from rung.compile import compile_units

    return compile_units(units)


def default_table() -> Table:
    """Give the process's table: the built-in manifests and installed plugins, compiled at the first call."""
    global _default
    table = _default
    if table is None:
        made, units = _compile_default()
        with _publish:
            if _default is None:
                _default = made
                _units[:] = units
            table = _default
    return table


def extend_default_table(rows: Iterable[LocalRow]) -> None:
    """Replace the process's table by one that also has `rows`. Platforms already made keep theirs.

    Raise ManifestError, changing nothing, when the rows do not pass the checks every manifest passes.
    """
    global _default
    from rung.compile import compile_units

    default_table()
    table = compile_units(_units, rows)
    with _publish:
        _default = table


def _compile_default() -> tuple[Table, list[Unit]]:
    base = [builtin_unit()]
    plugins = plugin_units()
    units = [*base, *(unit for _, unit in plugins)]
    # Leave out as a whole each distribution that owns a fault, until the rest fits together.
    while True:
        try:
            return _table_of(units), units
        except ManifestError as error:
            owners = {owner for owner, unit in plugins if any(_lies_in(problem, unit) for problem in error.problems)}
            if not owners:
                raise
            for owner in sorted(owners):
                faults = [p for p in error.problems if any(o == owner and _lies_in(p, u) for o, u in plugins)]
                warn(f"the manifests of `{owner}` are left out: {ManifestError(faults)}")
            plugins = [(owner, unit) for owner, unit in plugins if owner not in owners]
            units = [*base, *(unit for _, unit in plugins)]


def _lies_in(problem: Problem, unit: Unit) -> bool:
    return problem.where is not None and problem.where.path.startswith(unit.shown.rstrip("/") + "/")


def plugin_units() -> list[tuple[str, Unit]]:
    """Give installed plugins as (distribution, unit), sorted, without importing any of them.

    An entry point in the group `rung.manifests` names `package:directory`. What it may bind is its own
    distribution's top-level packages. `RUNG_PLUGINS=off` gives none.
    """
    if os.environ.get("RUNG_PLUGINS", "").strip().lower() in ("off", "0", "false", "no"):
        return []
    from importlib.metadata import entry_points

    from rung.units import Unit

    out: list[tuple[str, Unit]] = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_point_key):
        owner = point.dist.name if point.dist is not None else point.name
        directory = _directory_of(point)
        if directory is None:
            package, _, inner = point.value.partition(":")
            message = f"the manifests of `{owner}` are left out: package `{package}` has no directory `{inner}`"
            warn(message)
            continue
        unit = Unit(directory, _shown(directory), _packages_of(point), f"the plugin `{owner}`")
        if not any(unit.path == other.path for _, other in out):
            out.append((owner, unit))
    return out


def _point_key(point: EntryPoint) -> tuple[str, str, str]:
    return (point.dist.name if point.dist is not None else "", point.name, point.value)


def _directory_of(point: EntryPoint) -> Path | None:
    """Find `package:directory` by path, in what the distribution installed; nothing is imported.

    An editable installation ships no files: only there is the top-level package looked up as an import would.
    """
    from importlib.util import find_spec

    package, _, directory = point.value.partition(":")
    top, *inner = package.strip().split(".")
    places = [Path(str(point.dist.locate_file(top)))] if point.dist is not None else []
    if not any(place.is_dir() for place in places):
        try:
            spec = find_spec(top)
        except (ImportError, ValueError):
            return None
        places = [Path(place) for place in (spec.submodule_search_locations if spec is not None else None) or ()]
    for place in places:
        base = place.joinpath(*inner).resolve()
        path = base.joinpath(directory.strip()).resolve()
        if path.is_dir() and path.is_relative_to(base):
            return path
    return None


def _packages_of(point: EntryPoint) -> frozenset[str]:
    """Give the top-level packages a plugin's manifests may bind: those its distribution ships."""
    own = {point.value.partition(":")[0].strip().partition(".")[0]}
    return frozenset(own | set(_top_levels(point.dist)))


def _top_levels(dist: Distribution | None) -> Iterator[str]:
    if dist is None:
        return
    yield from (dist.read_text("top_level.txt") or "").split()
    for file in dist.files or ():
        top = file.parts[0]
        if len(file.parts) > 1 and top.isidentifier():
            yield top
        elif len(file.parts) == 1 and file.suffix == ".py":
            yield file.stem


_warned: set[str] = set()


def disabled_globs(facts: Facts) -> tuple[str, ...]:
    """Give the cell globs of RUNG_DISABLE: what the facts say, and for a recorded machine what the caller says too."""
    said = [facts.env("RUNG_DISABLE"), "" if facts.live else os.environ.get("RUNG_DISABLE", "")]
    globs = [glob for value in said if isinstance(value, str) for glob in value.replace(",", " ").split()]
    return tuple(dict.fromkeys(globs))


def warn_idle_globs(table: Table, globs: Iterable[str]) -> None:
    """Warn once about each glob of RUNG_DISABLE that no cell's id matches: it is probably misspelt."""
    for glob in globs:
        if glob not in _warned and not any(fnmatchcase(c.id, glob) for c in table.cells() if not c.is_reference):
            _warned.add(glob)
            hint = did_you_mean(glob, {f"{cell.backend}/*" for cell in table.cells() if not cell.is_reference})
            warn(f"RUNG_DISABLE={glob} matches no cell; {hint}")


def warn_unknown_variables(also: Iterable[str] = ()) -> None:
    """Warn once about each `RUNG_` variable nobody reads; `also` are those predicates name."""
    known = {*VARIABLES, *also}
    for name in sorted(os.environ):
        if name.startswith("RUNG_") and name not in known and name not in _warned:
            _warned.add(name)
            near = closest(name, known)
            hint = f": did you mean {near}?" if near else f"; rung reads {', '.join(sorted(known))}"
            warn(f"the environment variable {name} means nothing to rung{hint}")
