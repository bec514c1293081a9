"""Getting a table: the built-in manifests, installed plugins, and directories a caller names.

Owns which manifests make a table and which packages each may bind. The one door from the runtime to the authoring
half, which is imported inside functions only.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from rung import cache
from rung.compiled import fault, read, text_of
from rung.diagnostics import ManifestError, Problem, Problems, closest, did_you_mean, log, printable, warn
from rung.installed import plugins
from rung.resources import VERSION, data_path
from rung.units import Unit, digest, manifest_files, stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from rung.entries import LocalRow
    from rung.facts import Facts
    from rung.table import Table

__all__ = [
    "BUILTIN_ROOTS",
    "VARIABLES",
    "builtin_unit",
    "default_table",
    "disabled_globs",
    "extend_default_table",
    "load",
    "plugin_units",
    "units_of",
]

BUILTIN_ROOTS: Final = frozenset({"rung", "rung_backends"})
SHIPPED: Final = "table.json"
"""The compiled table of the built-in manifests, which lies beside them."""
VARIABLES: Final = ("RUNG_CACHE", "RUNG_CACHE_DIR", "RUNG_DISABLE", "RUNG_PLUGINS", "RUNG_PROFILE")
"""The environment variables rung reads."""

_default: Table | None = None
_units: list[Unit] = []
_publish = allocate_lock()


def builtin_unit(base: str | os.PathLike[str] | None = None) -> Unit:
    """Give the unit of the manifests rung ships, shown relative to `base` (by default the working directory)."""
    path = data_path("manifests")
    return Unit(path, _shown(path, base), BUILTIN_ROOTS, "rung's own manifests")


def _shown(path: str, base: str | os.PathLike[str] | None = None) -> str:
    """Show a path relative to `base`, or the working directory, where it lies below it, `/` between its parts."""
    whole, above = os.path.realpath(path), os.path.realpath(base or os.curdir)
    if os.path.normcase(whole) == os.path.normcase(above):
        return "."
    inside = os.path.normcase(whole).startswith(os.path.normcase(os.path.join(above, "")))
    return (whole[len(os.path.join(above, "")) :] if inside else path).replace(os.sep, "/")


def units_of(
    paths: Iterable[str | os.PathLike[str]],
    roots: frozenset[str] | None,
    base: str | os.PathLike[str] | None = None,
) -> list[Unit]:
    """Give the units of paths a caller names, shown relative to `base` (by default the working directory).

    Raise ManifestError for a path that does not exist or holds no manifest.
    """
    out: list[Unit] = []
    for given in paths:
        path = os.fspath(given) or os.curdir
        if os.pardir not in path.split(os.sep):  # what lies above a link is known to the system alone
            path = os.path.normpath(path)
        if not os.path.exists(path):
            raise ManifestError([Problem("RG001", None, f"no such file or directory: {given}")])
        unit = Unit(path, _shown(path, base), roots, f"the manifests in {_shown(path, base)}")
        problems = Problems()
        if not manifest_files(unit, problems):
            hint = "a manifest is a file ending in .yaml or .yml"
            raise ManifestError([*problems] or [Problem("RG001", None, f"no manifest in {given}", hint)])
        if not any(_is_same(unit, other) for other in out):
            out.append(unit)
    return out


def _is_same(unit: Unit, other: Unit) -> bool:
    return os.path.realpath(unit.place) == os.path.realpath(other.place)


def load(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    *,
    allow: Iterable[str] = (),
    builtin: bool = True,
    compiled: str | os.PathLike[str] | None = None,
) -> Table:
    """Compile the manifests in `paths` (directories or files), with the built-in ones unless `builtin=False`.

    `allow` names the top-level packages these manifests may bind besides rung's own. `compiled` is a file that
    `rung compile` wrote for these paths: it is read instead as long as no manifest changes. Without one, what was
    compiled is kept in the user's cache directory, and read from there as long as no manifest changes. Installed
    plugins are not part of it. Changes no global state. Raise ManifestError with every fault found.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    own = builtin_unit()
    allowed = frozenset([allow] if isinstance(allow, str) else allow)
    units = units_of(named, BUILTIN_ROOTS | allowed)
    if builtin and not any(_is_same(unit, own) for unit in units):
        units.insert(0, own)
    if compiled is None:
        return _table_of(units)
    table = read(compiled, units)
    if table is None:
        log(f"{os.fspath(compiled)} {fault(compiled, units)}: the manifests are compiled again")
    return table or _table_of(units)


def _table_of(units: list[Unit]) -> Table:
    """Give the table of units: as it was shipped or kept if that is fresh, else made anew, and kept."""
    own = data_path("manifests")
    shipped = os.path.join(own, SHIPPED) if [unit.place for unit in units] == [own] else ""
    folder = cache.directory()
    kept = os.path.join(folder, _name_of(units)) if folder is not None else ""
    for path in (shipped, kept):
        table = read(path, units) if path else None
        if table is not None:
            return table
    from rung.compile import compile_units

    texts: dict[str, bytes] = {}
    before = stamp(units, texts)
    table = compile_units(units, texts=texts)
    if kept and before and stamp(units) == before:  # else a file may have been read that was not hashed
        try:
            cache.keep(_name_of(units), text_of(table, units, before).encode())
        except KeyError:  # a manifest has vanished just now
            pass
    return table


def _name_of(units: Iterable[Unit]) -> str:
    """Give the name of a file of the cache: another one for other units, packages they may bind, or another rung."""
    said = [(os.path.abspath(unit.place), unit.roots and sorted(unit.roots)) for unit in units]
    return f"table-{digest(repr((VERSION, said)).encode())[:32]}.json"


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
    shown = printable(unit.shown)
    where = problem.where
    return where is not None and (where.path == shown or where.path.startswith(shown.rstrip("/") + "/"))


def plugin_units() -> list[tuple[str, Unit]]:
    """Give installed plugins as (distribution, unit), sorted, without importing any of them.

    `RUNG_PLUGINS=off` gives none.
    """
    out: list[tuple[str, Unit]] = []
    for plugin in () if cache.is_off("RUNG_PLUGINS") else plugins():
        if plugin.directory is None:
            package, _, inner = plugin.value.partition(":")
            warn(f"the manifests of `{plugin.owner}` are left out: package `{package}` has no directory `{inner}`")
            continue
        shown, label = _shown(plugin.directory), f"the plugin `{plugin.owner}`"
        if not any(unit.place == plugin.directory for _, unit in out):
            out.append((plugin.owner, Unit(plugin.directory, shown, frozenset(plugin.roots), label)))
    return out


_warned: set[str] = set()


def disabled_globs(table: Table, facts: Facts) -> tuple[str, ...]:
    """Give the cell globs of RUNG_DISABLE: what the facts say, and for a recorded machine what the caller says too.

    Warn once of each that matches no cell, and of each `RUNG_` variable nobody reads: it is probably misspelt.
    """
    _warn_unknown_variables(table.wanted.env)
    said = [facts.env("RUNG_DISABLE"), "" if facts.live else os.environ.get("RUNG_DISABLE", "")]
    globs = tuple(dict.fromkeys(g for value in said if isinstance(value, str) for g in value.replace(",", " ").split()))
    _warn_idle_globs(table, globs)
    return globs


def _warn_idle_globs(table: Table, globs: Iterable[str]) -> None:
    globs = [glob for glob in globs if glob not in _warned]
    if not globs:
        return
    from fnmatch import fnmatchcase

    for glob in globs:
        if glob not in _warned and not any(fnmatchcase(c.id, glob) for c in table.cells() if not c.is_reference):
            _warned.add(glob)
            hint = did_you_mean(glob, {f"{cell.backend}/*" for cell in table.cells() if not cell.is_reference})
            warn(f"RUNG_DISABLE={glob} matches no cell; {hint}")


def _warn_unknown_variables(also: Iterable[str]) -> None:
    for name in ("RUNG_CACHE", "RUNG_PLUGINS"):
        said = os.environ.get(name, "").strip().lower()
        if said not in ("", *cache.OFF, *cache.ON) and name not in _warned:
            _warned.add(name)
            where = "; RUNG_CACHE_DIR names the directory" if name == "RUNG_CACHE" else ""
            warn(f"{name} is on or off, and {os.environ[name]!r} is taken for on{where}")
    known = {*VARIABLES, *also}
    for name in sorted(os.environ):
        if name.startswith("RUNG_") and name not in known and name not in _warned:
            _warned.add(name)
            near = closest(name, known)
            hint = f": did you mean {near}?" if near else f"; rung reads {', '.join(sorted(known))}"
            warn(f"the environment variable {name} means nothing to rung{hint}")
