"""What is installed beside rung: versions of modules, and plugins.

Owns the questions put to `importlib.metadata`, and the file that keeps their answers.

Note [Asked once per environment]: `importlib.metadata` takes several times as long to import as Python to start, and
reads a file for every distribution. So answers are kept in the user's cache, together with what they depend on: the
metadata in the directories of `sys.path`, and the file an answer was read from. Where a finder of distributions looks
elsewhere, nothing is kept. A directory is listed again only when the time of its last change is another one, and one
without metadata, such as where a script lies, changes no answer. What was changed just now may be changed again within
the same tick of the clock: of that nothing is kept. Where a plugin's directory is, which an import would find, is
looked up each time.
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
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.metadata import Distribution, EntryPoint
    from typing import Any, Final

__all__ = ["ENTRY_POINT_GROUP", "Plugin", "plugins", "version_of"]

ENTRY_POINT_GROUP: Final = "rung.manifests"
_FORM: Final = 1
"""The version of the form in which answers are kept."""
_METADATA: Final = (".dist-info", ".egg-info", ".egg", ".egg-link")
_BODY: Final = b'",\n'
_SETTLED: Final = 2_000_000_000
"""Nanoseconds after which something is taken not to change again within the tick its time shows."""
_ENVIRONMENTS: Final = 8
"""Environments of one interpreter of which answers are kept."""
_PLACES: Final = 64
"""Directories whose listings are kept."""


@record
class Plugin:
    """An entry point: the distribution it is of, the directory of its manifests, the packages they may bind.

    There is no `directory` where the one that is named, `value`, does not exist.
    """

    owner: str
    value: str
    directory: str | None
    roots: tuple[str, ...]


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
    question = f"version {name} {dist}"
    version = answers.get(question)
    if not isinstance(version, str) or (not version and not answers.is_listed_now()):
        version, source = _version(name, dist)
        answers.learn(question, version, [source] if source else [])
    return version or found


def plugins() -> list[Plugin]:
    """Give the installed plugins, sorted, without importing any of them.

    An entry point in the group `rung.manifests` names `package:directory`. What it may bind is its own
    distribution's top-level packages.
    """
    answers = _Answers()
    known = answers.get("plugins")
    if not isinstance(known, list):
        found = list(_points())
        known = [[owner, value, site, roots] for owner, value, site, roots, _ in found]
        answers.learn("plugins", known, sorted({source for *_, source in found if source}))
    return [Plugin(owner, value, _directory_of(value, site), tuple(roots)) for owner, value, site, roots in known]


class _Answers:
    """The answers kept for the environment as it is now; see Note [Asked once per environment].

    Their file starts with a digest of the rest: one that was written by anybody else, or in part, says nothing.
    """

    def __init__(self) -> None:
        said = f"{_FORM} {VERSION} {sys.version} {sys.prefix}"
        self._name = f"installed-{digest(said.encode())[:32]}.json"
        places, environments = _parsed(kept(self._name) or b"")
        self._listed = places
        self._places = {place: _shown(place, places.get(place)) for place in _search_path()}
        self._is_usual = all(map(_finds_in_places, sys.meta_path))
        self._environment = [[place, shown[1]] for place, shown in self._places.items() if shown[1]]
        self._others = [pair for pair in environments if pair[:1] != [self._environment]]
        mine = [pair[1] for pair in environments if pair[:1] == [self._environment]]
        self._answers: dict[str, Any] = dict(mine[0]) if mine else {}

    def get(self, question: str) -> Any:
        """Give the answer that was kept, None for none, or where a file that it was read from has changed."""
        answer, sources = self._answers.get(question, (None, ()))
        return answer if self._is_usual and all(_time_of(path) == time for path, time in sources) else None

    def is_listed_now(self) -> bool:
        """Say whether all metadata is as it was, looked at again: what no file says depends on every one."""
        return all(_shown(place) == shown for place, shown in self._places.items())

    def learn(self, question: str, answer: Any, sources: Iterable[str]) -> None:
        """Keep an answer that was read from these files."""
        from json import dumps
        from time import time_ns

        now = time_ns()
        read = [(path, _time_of(path)) for path in sources]
        inner = [time for shown in self._places.values() for _, time in shown[1]]
        outer = [shown[0] for shown in self._places.values() if shown[1]]
        times = (*outer, *inner, *(time for _, time in read))
        if not self._is_usual or not all(_is_settled(time, now) for time in times):
            return
        self._answers[question] = (answer, read)
        fresh = {place: shown for place, shown in self._places.items() if _is_settled(shown[0], now)}
        places = {**{place: shown for place, shown in self._listed.items() if place not in fresh}, **fresh}
        environments = [[self._environment, self._answers], *self._others]
        data = {
            "places": dict([*places.items()][-_PLACES:]),
            "environments": environments[:_ENVIRONMENTS],
        }
        text = dumps(data, separators=(",", ":")).encode() + b"]"
        keep(self._name, b'["' + digest(text).encode() + _BODY + text)


def _search_path() -> list[str]:
    """Give the places that are searched for distributions, each once."""
    found = []
    for place in sys.path:
        try:
            found.append(os.path.abspath(place))
        except OSError:  # the working directory is gone
            continue
    return list(dict.fromkeys(found))


_last: list[tuple[bytes, tuple[dict[str, Any], list[Any]]]] = [(b"", ({}, []))]


def _parsed(data: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Give the listings and the environments of a file; none where it is not as it was written. The last is known."""
    known, found = _last[0]
    if data != known:
        head, _, text = data.partition(_BODY)
        found = ({}, [])
        try:
            if head[2:] == digest(text).encode():
                plain = loads(text[:-1].decode())
                found = dict(plain["places"]), list(plain["environments"])
        except (ValueError, TypeError, LookupError, RecursionError):
            pass
        _last[0] = (data, found)
    return found


def _finds_in_places(finder: object) -> bool:
    """Say whether a finder knows no distributions but those in places of `sys.path`, whose metadata can be listed."""
    home = getattr(finder, "__module__", "") or ""
    return not hasattr(finder, "find_distributions") or home.startswith(("_frozen_importlib", "importlib"))


def _is_settled(time: Sequence[int] | None, now: int) -> bool:
    """Say whether something is certain to show another time once it changes. One that is yet to come is as good."""
    return time is None or abs(now - time[0]) > _SETTLED


def _shown(place: str, known: Any = None) -> list[Any]:
    """Give when a place last changed, and the metadata in it: names, with their times. `known` is what it showed."""
    time = _time_of(place)
    if known and known[0] == time:
        return known  # type: ignore[no-any-return]
    try:
        names = sorted(name for name in os.listdir(place) if _is_metadata(name)) if time is not None else []
    except NotADirectoryError:
        return [time, [["", time]]]
    except OSError:
        names = []
    return [time, [[name, _time_of(os.path.join(place, name))] for name in names]]


def _is_metadata(name: str) -> bool:
    lower = name.lower()
    return lower.endswith(_METADATA) or lower == "egg-info"


def _time_of(path: str) -> list[int] | None:
    """Give when a directory or file last changed, in nanoseconds; None where there is none.

    The first time can be set by whoever makes an image, and the second cannot.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return [found.st_mtime_ns, found.st_ctime_ns]


def _version(name: str, dist: str) -> tuple[str, str]:
    """Give the version of a module's distribution, "" where there is none, and the file that says it."""
    from importlib import metadata

    for candidate in _candidates(name, dist):
        try:
            found = metadata.distribution(candidate)
            version: str | None = metadata.version(candidate)
        except metadata.PackageNotFoundError:
            continue
        return (version, _file_of(found, "METADATA", "PKG-INFO")) if version else ("", "")
    return "", ""


def _candidates(name: str, dist: str) -> Iterator[str]:
    """Give the names of distributions that may have a module, the likeliest first."""
    yield dist or name
    if not dist:
        from importlib.metadata import packages_distributions

        yield from packages_distributions().get(name, [])


def _file_of(found: Distribution, *names: str) -> str:
    """Give the first file of these that a distribution's metadata has, "" where it lies in no directory."""
    folder = getattr(found, "_path", None)  # a Path, where there is one
    paths = [os.path.join(str(folder), name) for name in names] if folder is not None else []
    paths += [str(folder)] if paths else []  # an old `.egg-info` is a file itself
    return next((path for path in paths if os.path.isfile(path)), "")


def _points() -> Iterator[tuple[str, str, str, list[str], str]]:
    """Give each entry point: its distribution, value, where that is installed, what it may bind, the file it is in."""
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_point_key):
        if point.dist is None:
            yield point.name, point.value, "", sorted(_packages_of(point)), ""
        else:
            site, source = str(point.dist.locate_file("")), _file_of(point.dist, "entry_points.txt")
            yield point.dist.name, point.value, site, sorted(_packages_of(point)), source


def _point_key(point: EntryPoint) -> tuple[str, str, str]:
    return (point.dist.name if point.dist is not None else "", point.name, point.value)


def _directory_of(value: str, site: str) -> str | None:
    """Find `package:directory` by path, in what the distribution installed in `site`; nothing is imported.

    An editable installation ships no files: only there is the top-level package looked up as an import would.
    """
    package, _, directory = value.partition(":")
    top, *inner = package.strip().split(".")
    places = [os.path.join(site, top)] if site else []
    if not any(map(os.path.isdir, places)):
        try:
            spec = spec_of(top)
        except (ImportError, ValueError):
            return None
        places = list((spec.submodule_search_locations if spec is not None else None) or ())
    for place in places:
        base = os.path.realpath(os.path.join(place, *inner))
        path = os.path.realpath(os.path.join(base, directory.strip()))
        if os.path.isdir(path) and (path == base or path.startswith(os.path.join(base, ""))):
            return path
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
