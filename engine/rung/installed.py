"""What is installed beside rung: versions of modules, and plugins.

Owns the questions put to `importlib.metadata`, and the file that keeps their answers.

Note [Asked once per environment]: `importlib.metadata` takes several times as long to import as Python to start, and
reads a file for every distribution. So answers are kept in the user's cache, together with what they depend on: the
finders, and the metadata in the directories of `sys.path`. A directory is listed again only when the time of its last
change is another one, and one without metadata, such as where a script lies, changes no answer. What was changed just
now may be changed again within the same tick of the clock: of that nothing is kept.
"""

from __future__ import annotations

import os
import sys

from rung.bind import spec_of
from rung.cache import keep, kept
from rung.plainjson import loads
from rung.records import record
from rung.resources import VERSION
from rung.units import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import Distribution, EntryPoint
    from typing import Any, Final

__all__ = ["ENTRY_POINT_GROUP", "Plugin", "plugins", "version_of"]

ENTRY_POINT_GROUP: Final = "rung.manifests"
_METADATA: Final = (".dist-info", ".egg-info", ".egg", ".egg-link")
_BODY: Final = b'",\n'
_SETTLED: Final = 2_000_000_000
"""Nanoseconds after which a directory is taken not to change again within the tick its time shows."""


@record
class Plugin:
    """An entry point: the distribution it is of, the directory of its manifests, the packages they may bind.

    There is no `directory` where the one that is named, `value`, does not exist. `declared` is the file that names it.
    """

    owner: str
    value: str
    directory: str | None
    roots: tuple[str, ...]
    declared: str


def version_of(name: str, dist: str = "") -> str | bool:
    """Give the version of a top-level module's distribution; True where it is found without one, else False.

    `dist` is the distribution, where it is named differently. The module is not imported.
    """
    try:
        spec = spec_of(name)
        if spec is None:
            return False
        # A bare directory of that name on sys.path has a spec too, without an origin; it is no installed module.
        found = spec.origin is not None
    except ValueError:  # already imported, but made by hand without a spec
        found = True
    answers = _Answers()
    version = answers.get(f"version {name} {dist}")
    if version is None:
        version = _version(name, dist)
        answers.learn(f"version {name} {dist}", version)
    return version or found


def plugins() -> list[Plugin]:
    """Give the installed plugins, sorted, without importing any of them.

    An entry point in the group `rung.manifests` names `package:directory`. What it may bind is its own
    distribution's top-level packages.
    """
    answers = _Answers()
    known = answers.get("plugins")
    if known is None or any(_time_of(declared) != time for *_, declared, time in known):
        found = list(_plugins())
        known = [[p.owner, p.value, p.directory, p.roots, p.declared, _time_of(p.declared)] for p in found]
        answers.learn("plugins", known)
    return [Plugin(owner, value, place, tuple(roots), declared) for owner, value, place, roots, declared, _ in known]


class _Answers:
    """The answers kept for the environment as it is now; see Note [Asked once per environment].

    Their file starts with a digest of the rest: one that was written by anybody else, or in part, says nothing.
    """

    def __init__(self) -> None:
        self._name = f"installed-{digest(f'{VERSION} {sys.version} {sys.prefix}'.encode())[:32]}.json"
        head, _, text = (kept(self._name) or b"").partition(_BODY)
        found = loads(text[:-1].decode()) if head[2:] == digest(text).encode() else {}
        places = found.get("places", {})
        self._places = {
            place: places[place] if place in places and places[place][0] == _time_of(place) else _shown(place)
            for place in dict.fromkeys(map(os.path.abspath, sys.path))
        }
        finders = [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path]
        self._environment = [finders, *([place, shown[1]] for place, shown in self._places.items() if shown[1])]
        self._answers = found["answers"] if found.get("environment") == self._environment else {}

    def get(self, question: str) -> Any:
        """Give the answer that was kept, None for none."""
        return self._answers.get(question)

    def learn(self, question: str, answer: Any) -> None:
        """Keep an answer."""
        from json import dumps
        from time import time_ns

        now = time_ns()  # a time that is yet to come is no time of now either: whatever changes next will show
        old = {
            place: shown for place, shown in self._places.items() if shown[0] is None or abs(now - shown[0]) > _SETTLED
        }
        if any(shown[1] for place, shown in self._places.items() if place not in old):
            return
        self._answers[question] = answer
        data = {"environment": self._environment, "places": old, "answers": self._answers}
        text = dumps(data, separators=(",", ":")).encode() + b"]"
        keep(self._name, b'["' + digest(text).encode() + _BODY + text)


def _shown(place: str) -> list[Any]:
    """Give when a place last changed, and the metadata in it: names, with their own times."""
    time = _time_of(place)
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(_METADATA)) if time is not None else []
    except NotADirectoryError:
        return [time, [["", time]]]
    except OSError:
        names = []
    return [time, [[name, _time_of(os.path.join(place, name))] for name in names]]


def _time_of(path: str) -> int | None:
    """Give when a directory or file last changed, in nanoseconds; None where there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return None


def _version(name: str, dist: str) -> str:
    """Give the version of a module's distribution, "" where there is none."""
    from importlib import metadata

    try:
        return metadata.version(dist or name) or ""
    except metadata.PackageNotFoundError:
        pass
    if not dist:
        for candidate in metadata.packages_distributions().get(name, []):
            return metadata.version(candidate) or ""
    return ""


def _plugins() -> Iterator[Plugin]:
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_point_key):
        owner = point.dist.name if point.dist is not None else point.name
        folder = getattr(point.dist, "_path", None)  # a Path, where the distribution lies in a directory
        declared = os.path.join(str(folder), "entry_points.txt") if folder is not None else ""
        yield Plugin(owner, point.value, _directory_of(point), tuple(sorted(_packages_of(point))), declared)


def _point_key(point: EntryPoint) -> tuple[str, str, str]:
    return (point.dist.name if point.dist is not None else "", point.name, point.value)


def _directory_of(point: EntryPoint) -> str | None:
    """Find `package:directory` by path, in what the distribution installed; nothing is imported.

    An editable installation ships no files: only there is the top-level package looked up as an import would.
    """
    from pathlib import Path

    package, _, directory = point.value.partition(":")
    top, *inner = package.strip().split(".")
    places = [Path(str(point.dist.locate_file(top)))] if point.dist is not None else []
    if not any(place.is_dir() for place in places):
        try:
            spec = spec_of(top)
        except (ImportError, ValueError):
            return None
        places = [Path(place) for place in (spec.submodule_search_locations if spec is not None else None) or ()]
    for place in places:
        base = place.joinpath(*inner).resolve()
        path = base.joinpath(directory.strip()).resolve()
        if path.is_dir() and path.is_relative_to(base):
            return str(path)
    return None


def _packages_of(point: EntryPoint) -> set[str]:
    """Give the top-level packages a plugin's manifests may bind: those its distribution ships."""
    own = {point.value.partition(":")[0].strip().partition(".")[0]}
    return own | set(_top_levels(point.dist))


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
