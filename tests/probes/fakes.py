"""Machines that are not here: a host with made-up libraries and child processes, and an NVML in Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rung.probes.host import Host

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Mapping, Sequence

HOSTS = Path(__file__).resolve().parent.parent / "hosts"
NOWHERE = HOSTS / "no_such_host"


class FakeHost(Host):
    """A host that loads nothing and starts nothing but what it is given."""

    def __init__(
        self,
        system: str = "linux",
        machine: str = "x86_64",
        env: Mapping[str, str] | None = None,
        root: Path = NOWHERE,
        libraries: Mapping[str, object] | None = None,
        child: Callable[[Sequence[str]], str] | None = None,
    ) -> None:
        super().__init__(system, machine, env or {}, root)
        self.libraries = libraries or {}
        self.child = child

    def library(self, *names: str) -> ctypes.CDLL:
        for name in names:
            if name in self.libraries:
                return cast("ctypes.CDLL", self.libraries[name])
        raise FileNotFoundError(f"{names}: cannot open shared object file")

    def run(self, command: Sequence[str], *, limit: float = 1.5) -> str:
        if self.child is None:
            raise AssertionError(f"nothing may be started here, but this was: {command}")
        return self.child(command)


@dataclass
class Card:
    """A card as the fake NVML knows it."""

    arch: tuple[int, int]
    name: str
    uuid: str
    bus_id: str
    instances: tuple[str, ...] = ()


@dataclass
class FakeNvml:
    """NVML's C functions, called as ctypes would be. `fails` maps a function to the code it returns."""

    cards: Sequence[Card]
    fails: Mapping[str, int] = field(default_factory=dict)
    driver: str = "580.159"
    cuda: int = 13000
    lacks: tuple[str, ...] = ()
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Callable[..., int]:
        body = type(self).__dict__.get(f"_{name}")
        if body is None or name in self.lacks:
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            self.calls.append(name)
            return self.fails.get(name) or body(self, *arguments) or 0

        return function

    @property
    def open_sessions(self) -> int:
        return self.calls.count("nvmlInit_v2") - self.calls.count("nvmlShutdown")

    def _nvmlInit_v2(self) -> None: ...  # noqa: N802 - NVML's names
    def _nvmlShutdown(self) -> None: ...  # noqa: N802

    def _nvmlDeviceGetCount_v2(self, count: Any) -> None:  # noqa: N802
        count._obj.value = len(self.cards)

    def _nvmlSystemGetDriverVersion(self, buffer: Any, size: Any) -> None:  # noqa: N802
        buffer.value = self.driver.encode()

    def _nvmlSystemGetCudaDriverVersion_v2(self, version: Any) -> None:  # noqa: N802
        version._obj.value = self.cuda

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> None:  # noqa: N802
        handle._obj.value = index.value + 1

    def _nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> None:  # noqa: N802
        major._obj.value, minor._obj.value = self._at(handle).arch

    def _nvmlDeviceGetPciInfo_v3(self, handle: Any, info: Any) -> None:  # noqa: N802
        info._obj.busId = self._at(handle).bus_id.encode()

    def _nvmlDeviceGetName(self, handle: Any, buffer: Any, size: Any) -> None:  # noqa: N802
        buffer.value = self._at(handle).name.encode()

    def _nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: Any) -> None:  # noqa: N802
        buffer.value = self._at(handle).uuid.encode()

    def _nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:  # noqa: N802
        for index, card in enumerate(self.cards):
            if uuid.decode() in card.instances:
                handle._obj.value = 100 + index + 1
                return 0
        return 6

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, instance: Any, card: Any) -> None:  # noqa: N802
        card._obj.value = instance.value - 100

    def _at(self, handle: ctypes.c_void_p) -> Card:
        return self.cards[(handle.value or 0) - 1]
