"""The `Facts` value: what a machine is, observed lazily or read from a file.

Owns the facts, their overrides and their file form. Observes nothing itself: a live `Facts` is given an
observer (`rung.probes` makes one), so this module imports no probe and touches no hardware.
"""

from __future__ import annotations

from rung.records import fields, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from os import PathLike
    from typing import Any, Protocol, TypeVar

    T = TypeVar("T")
else:
    Protocol = object

__all__ = ["DeviceFact", "Facts", "Observer", "Unknown", "is_unknown"]


@record
class Unknown:
    """A fact that could not be observed, and why. Never to be read as absence."""

    why: str

    def __bool__(self) -> bool:
        raise TypeError("an unknown fact is neither true nor false; test it with is_unknown()")


def is_unknown(value: object) -> bool:
    """Say whether a fact is unknown (spelled out, because `Unknown` has no truth value)."""
    return isinstance(value, Unknown)


@record
class DeviceFact:
    """One card of one device family.

    `arch` is the hardware's arch name. `index` is the position in the runtime's own order (the CUDA
    ordinal), None where only the bus order is known. `driver` and `runtime` are versions as the vendor
    writes them. `note` is anything a person should know, such as an arch override in force.
    """

    arch: str
    name: str = ""
    uuid: str = ""
    pci: str = ""
    driver: str = ""
    runtime: str = ""
    index: int | None = None
    note: str = ""

    def as_dict(self) -> dict[str, object]:
        """Give the file form: what is empty is left out."""
        values = {name: getattr(self, name) for name in fields(self)}
        return {k: v for k, v in values.items() if v not in ("", None)}


class Observer(Protocol):
    """Where a live `Facts` gets what it was not told. Methods never raise; they may be slow."""

    def os(self) -> str | Unknown:
        """Give `linux`, `darwin` or `windows`."""

    def machine(self) -> str | Unknown:
        """Give the instruction set name, such as `x86_64`."""

    def python(self) -> str | Unknown:
        """Give the interpreter's version."""

    def cpu(self) -> frozenset[str] | Unknown:
        """Give the CPU's feature flags as the kernel names them."""

    def module(self, name: str, dist: str) -> str | bool | Unknown:
        """Give the version of a module, True when found without one, False when not installed."""

    def file(self, path: str) -> bool | Unknown:
        """Say whether `package/inner/path` exists inside an installed package."""

    def devices(self, name: str) -> tuple[DeviceFact, ...] | Unknown:
        """Give the visible cards of a device, () when there are none."""

    def env(self, name: str) -> str | None:
        """Give an environment variable."""

    def probe(self, path: str, facts: Facts) -> bool | Unknown:
        """Call a `module:function` probe."""


class Facts:
    """What a machine is: recorded values first, then what the observer sees, each asked for once.

    A `Facts` without observer answers only what it was told; everything else is `Unknown`. All methods
    may be called from several threads: the first answer published is the one everybody gets.
    """

    __slots__ = ("_asking", "_observer", "_recorded", "_seen", "origin")

    def __init__(
        self,
        recorded: Mapping[str, object] | None = None,
        *,
        observer: Observer | None = None,
        origin: str = "these facts",
    ) -> None:
        self._recorded: dict[str, object] = _copied(recorded or {})
        self._observer = observer
        self._seen: dict[tuple[str, str], Any] = {}
        self._asking: frozenset[str] = frozenset()
        self.origin = origin

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Facts:
        """Read a facts file, as `rung facts` writes it; raise FactsError naming every fault."""
        from rung.recorded import read

        return cls(read(path), origin=str(path))

    @classmethod
    def of(cls, recorded: Mapping[str, object], origin: str = "these facts") -> Facts:
        """Make recorded facts from plain data in the file form; raise FactsError if it does not fit."""
        from rung.recorded import checked

        return cls(checked(recorded, origin), origin=origin)

    @property
    def live(self) -> bool:
        """Whether these facts are (apart from overrides) about the machine this process runs on."""
        return self._observer is not None

    def override(self, recorded: Mapping[str, object]) -> Facts:
        """Give new facts in which `recorded` (the file form) wins, section by section and name by name."""
        given = Facts.of({"facts": 1, **recorded}, "the override")._recorded
        merged = dict(self._recorded)
        for key, value in given.items():
            old = merged.get(key)
            merged[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        return Facts(merged, observer=self._observer, origin=self.origin)

    def __repr__(self) -> str:
        return f"<Facts {'live' if self.live else self.origin}>"

    def _section(self, section: str) -> dict[str, object]:
        value = self._recorded.get(section)
        return value if isinstance(value, dict) else {}

    def _missing(self, what: str) -> Unknown:
        return Unknown(f"{what} is not recorded in {'the override' if self.live else self.origin}")

    def _observed(self, section: str, name: str, observe: Callable[[], T]) -> T:
        # Several threads may observe at once: no lock is held meanwhile, and the first to answer is believed.
        key = (section, name)
        seen: T | None = self._seen.get(key)
        if seen is None:
            seen = self._seen.setdefault(key, observe())
        return seen

    def _text(self, key: str, observe: Callable[[Observer], str | Unknown]) -> str | Unknown:
        value = self._recorded.get(key)
        if isinstance(value, str):
            return value
        observer = self._observer
        return self._missing(f"`{key}`") if observer is None else self._observed(key, "", lambda: observe(observer))

    def os(self) -> str | Unknown:
        """Give `linux`, `darwin` or `windows`."""
        return self._text("os", lambda observer: observer.os())

    def machine(self) -> str | Unknown:
        """Give the instruction set name, such as `x86_64`."""
        return self._text("machine", lambda observer: observer.machine())

    def python(self) -> str | Unknown:
        """Give the interpreter's version."""
        return self._text("python", lambda observer: observer.python())

    def cpu(self) -> frozenset[str] | Unknown:
        """Give the CPU's feature flags."""
        flags = self._section("cpu").get("flags")
        if isinstance(flags, list):
            return frozenset(flags)
        if self._observer is None:
            return self._missing("what flags the CPU has")
        return self._observed("cpu", "", self._observer.cpu)

    def module(self, name: str, dist: str = "") -> str | bool | Unknown:
        """Give a module's version; True when found without a version, False when not installed."""
        modules = self._section("modules")
        value = modules.get(name, False if modules.get("*") is False else None)
        if isinstance(value, str | bool):
            return value
        observer = self._observer
        if observer is None:
            return self._missing(f"whether `{name}` is installed")
        return self._observed("module", f"{name} {dist}", lambda: observer.module(name, dist))

    def file(self, path: str) -> bool | Unknown:
        """Say whether `package/inner/path` exists inside an installed package."""
        value = self._section("files").get(path)
        if isinstance(value, bool):
            return value
        package = path.partition("/")[0]
        modules = self._section("modules")
        observer = self._observer
        # What a recorded package holds must not be looked up in the one that is installed here.
        if observer is None or package in modules or modules.get("*") is False:
            return False if self.module(package) is False else self._missing(f"whether the file `{path}` exists")
        return self._observed("file", path, lambda: observer.file(path))

    def devices(self, name: str) -> tuple[DeviceFact, ...] | Unknown:
        """Give the visible cards of device `name`, in the runtime's order; () when there are none."""
        value = self._section("devices").get(name)
        if isinstance(value, list):
            return tuple(DeviceFact(**card) for card in value)
        observer = self._observer
        if observer is None:
            return self._missing(f"which `{name}` devices there are")
        return self._observed("devices", name, lambda: observer.devices(name))

    def env(self, name: str) -> str | Unknown | None:
        """Give an environment variable, None when it is not set. Read anew each time on live facts."""
        value = self._section("env").get(name)
        if isinstance(value, str):
            return value
        if self._observer is None:
            return self._missing(f"the variable {name}")
        return self._observer.env(name)

    def probe(self, path: str) -> bool | Unknown:
        """Give the answer of a `module:function` probe, called at most once."""
        value = self._section("probes").get(path)
        if isinstance(value, bool):
            return value
        observer = self._observer
        if observer is None:
            return self._missing(f"the answer of the probe `{path}`")
        if path in self._asking:
            return Unknown(f"the probe `{path}` asks for its own answer")
        return self._observed("probe", path, lambda: observer.probe(path, self._as_seen_by(path)))

    def _as_seen_by(self, path: str) -> Facts:
        """Give these facts for a probe to ask, which may ask for everything but its own answer."""
        inner = Facts(observer=self._observer, origin=self.origin)
        inner._recorded, inner._seen, inner._asking = self._recorded, self._seen, self._asking | {path}
        return inner

    def snapshot(
        self,
        *,
        devices: Iterable[str],
        modules: Iterable[tuple[str, str]] = (),
        files: Iterable[str] = (),
        env: Iterable[str] = (),
        probes: Iterable[str] = (),
    ) -> dict[str, object]:
        """Give the file form of the named facts, observing what has not been; the unknown is left out.

        Only what is named is written, so a snapshot carries no other environment variable; one that is not set
        is written as empty. `modules` are (import name, distribution name or "") pairs.
        """
        texts = {"os": self.os(), "machine": self.machine(), "python": self.python()}
        out: dict[str, object] = {"facts": 1, **{key: text for key, text in texts.items() if isinstance(text, str)}}
        flags = self.cpu()
        if isinstance(flags, frozenset):
            out["cpu"] = {"flags": sorted(flags)}
        cards = {d: self.devices(d) for d in sorted(set(devices))}
        sections: dict[str, dict[str, object]] = {
            "modules": {name: self.module(name, dist) for name, dist in sorted(set(modules))},
            "files": {path: self.file(path) for path in sorted(set(files))},
            "devices": {d: [c.as_dict() for c in found] for d, found in cards.items() if isinstance(found, tuple)},
            "env": {name: self.env(name) for name in sorted(set(env))},
            "probes": {path: self.probe(path) for path in sorted(set(probes))},
        }
        for section, values in sections.items():
            known = {k: "" if v is None else v for k, v in values.items() if not is_unknown(v)}
            if known:
                out[section] = known
        return out


def _copied(data: Any) -> Any:
    """Give plain data that nobody else holds."""
    if isinstance(data, list | tuple):
        return [_copied(inner) for inner in data]
    return {key: _copied(inner) for key, inner in data.items()} if hasattr(data, "items") else data
