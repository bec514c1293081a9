"""Probes: the code that observes this machine, one file per device.

Owns the live observer and the rule under which every probe runs: in a daemon thread, for at most two seconds,
and whatever it raises becomes "could not tell". No probe imports a framework or initialises a GPU here.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, start_new_thread

from rung.bind import bind, spec_of
from rung.facts import DeviceFact, Facts, Unknown
from rung.installed import version_of
from rung.probes.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Final, TypeVar

    T = TypeVar("T")

__all__ = ["LIMIT", "LiveObserver", "live_facts", "run_limited"]

LIMIT: Final = 2.0
"""Seconds a probe may take."""


def run_limited(work: Callable[[], T], what: str, limit: float = LIMIT) -> T | Unknown:
    """Run `work` in a daemon thread and give its result; Unknown when it raises or takes longer than `limit` s."""
    outcome: list[T | Unknown] = []
    working = allocate_lock()
    working.acquire()

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(Unknown(f"{what} raised {type(error).__name__}: {_text(error)}"))
        finally:
            working.release()

    try:
        start_new_thread(body, ())  # a daemon: the interpreter does not wait for it
    except RuntimeError as error:  # no more threads, or the interpreter is shutting down
        return Unknown(f"{what} could not be started: {error}")
    working.acquire(timeout=limit)
    return outcome[0] if outcome else Unknown(f"{what} took longer than {limit:g} s")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "an error that cannot be shown"


class LiveObserver:
    """Observes the machine this process runs on. `detectors` maps a device to its `module:function`."""

    def __init__(
        self,
        detectors: Mapping[str, str],
        roots: Collection[str],
        host: Host | None = None,
        limit: float = LIMIT,
    ) -> None:
        self.detectors = dict(detectors)
        self.roots = frozenset(roots)
        self.host = host or Host()
        self.limit = limit

    def os(self) -> str | Unknown:
        """Give `linux`, `darwin` or `windows`."""
        return self.host.system

    def machine(self) -> str | Unknown:
        """Give the instruction set name as Linux or macOS writes it, such as `x86_64`."""
        name = self.host.machine.lower()
        return "x86_64" if name == "amd64" else name

    def python(self) -> str | Unknown:
        """Give the interpreter's version."""
        return sys.version.split()[0].removesuffix("+")  # a build from between two releases

    def cpu(self) -> frozenset[str] | Unknown:
        """Give the CPU's feature flags."""
        from rung.probes import cpu

        return run_limited(lambda: cpu.flags(self.host), "reading the CPU's flags", self.limit)

    def module(self, name: str, dist: str) -> str | bool | Unknown:
        """Look for a top-level module without importing it, then for its distribution's version."""
        return run_limited(lambda: version_of(name, dist), f"looking for `{name}`", self.limit)

    def file(self, path: str) -> bool | Unknown:
        """Look for a file inside an installed package, without importing it."""
        return run_limited(lambda: _has_file(path), f"looking for {path}", self.limit)

    def devices(self, name: str) -> tuple[DeviceFact, ...] | Unknown:
        """Run the device's detect function; a device without one is never detected."""
        path = self.detectors.get(name)
        if path is None:
            return ()
        return run_limited(lambda: self._detect(path), f"the {name} probe", self.limit)

    def _detect(self, path: str) -> tuple[DeviceFact, ...]:
        found = tuple(bind(path, self.roots)(self.host))
        for card in found:
            if not isinstance(card, DeviceFact):
                raise TypeError(f"`{path}` gave {type(card).__name__}, not rung.DeviceFact")
        return found

    def env(self, name: str) -> str | None:
        """Give an environment variable."""
        return self.host.env.get(name)

    def probe(self, path: str, facts: Facts) -> bool | Unknown:
        """Call a probe of a manifest's `probe` atom: it answers True, False or None."""
        answer = run_limited(lambda: bind(path, self.roots)(facts), f"the probe `{path}`", self.limit)
        if answer is None:
            return Unknown(f"the probe `{path}` could not tell")
        if isinstance(answer, bool | Unknown):
            return answer
        return Unknown(f"the probe `{path}` answered {answer!r}, not True, False or None")


def live_facts(detectors: Mapping[str, str], roots: Collection[str], host: Host | None = None) -> Facts:
    """Give facts that observe this machine, each once and only when asked for."""
    return Facts(observer=LiveObserver(detectors, roots, host), origin="this machine")


def _has_file(path: str) -> bool:
    package, _, inner = path.partition("/")
    spec = spec_of(package)
    places = spec.submodule_search_locations if spec is not None else None
    return any(os.path.exists(os.path.join(place, inner)) for place in places or ())
