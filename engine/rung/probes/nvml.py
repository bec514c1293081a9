"""NVML, the NVIDIA driver's own interface, which needs no CUDA: one session with it.

Owns the calls and what their codes mean. Imported only where there are signs of a driver, for `ctypes` is not free.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from rung.facts import DeviceFact
from rung.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from rung.probes.host import Host

__all__ = ["Nvml", "pci"]

_NVML: Final = {
    "linux": ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"),
    "windows": ("nvml.dll", r"C:\Program Files\NVIDIA Corporation\NVSMI\nvml.dll"),
}
# NVML's return codes.
_INVALID_ARGUMENT: Final = 2
_NOT_FOUND: Final = 6
_DRIVER_NOT_LOADED: Final = 9
_LIBRARY_NOT_FOUND: Final = 12
_WORDS: Final = {
    3: "not supported",
    4: "no permission",
    15: "the GPU is lost",
    17: "blocked by the operating system",
    18: "the driver and its library are of different versions",
}


class Nvml:
    """One session with NVML; every method raises OSError with what went wrong."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @classmethod
    def open(cls, host: Host) -> Nvml | None:
        """Start a session; None when there is no NVML or no NVIDIA driver behind it."""
        try:
            library = host.library(*_NVML.get(host.system, ()))
        except FileNotFoundError:
            return None
        nvml = cls(library)
        code = library.nvmlInit_v2()
        if code in (_DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND):
            return None
        nvml._check("nvmlInit_v2", code)
        return nvml

    def close(self) -> None:
        """End the session."""
        self._library.nvmlShutdown()

    def cards(self) -> list[DeviceFact]:
        """Give every card of the machine in bus order."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if not count.value:
            return []
        driver = self._text("nvmlSystemGetDriverVersion")
        number = ctypes.c_int()  # 13020 is 13.2, the newest CUDA this driver serves
        self._call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(number))
        runtime = f"{number.value // 1000}.{number.value % 1000 // 10}"
        found: list[DeviceFact] = []
        failures: list[OSError] = []
        for index in range(count.value):
            try:
                found.append(self._card(index, driver, runtime))
            except OSError as error:  # one lost card must not hide the others
                failures.append(error)
        if failures and not found:
            raise failures[0]
        note = f"{len(failures)} more cards do not answer: {failures[0]}" if failures else ""
        return sorted((replace(card, note=note) for card in found), key=lambda card: card.pci)

    def parent(self, instance: str) -> str | None:
        """Give the UUID of the card a MIG instance is part of; None when there is no such instance."""
        handle, card = ctypes.c_void_p(), ctypes.c_void_p()
        code = self._function("nvmlDeviceGetHandleByUUID")(instance.encode(), ctypes.byref(handle))
        if code in (_INVALID_ARGUMENT, _NOT_FOUND):
            return None
        self._check("nvmlDeviceGetHandleByUUID", code)
        self._call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle, ctypes.byref(card))
        return self._text("nvmlDeviceGetUUID", card)

    def _card(self, index: int, driver: str, runtime: str) -> DeviceFact:
        card = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(card))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvmlDeviceGetCudaComputeCapability", card, ctypes.byref(major), ctypes.byref(minor))
        place = _PciInfo()
        self._call("nvmlDeviceGetPciInfo_v3", card, ctypes.byref(place))
        return DeviceFact(
            f"sm_{major.value}{minor.value}",
            name=self._text("nvmlDeviceGetName", card),
            uuid=self._text("nvmlDeviceGetUUID", card),
            pci=pci(place.busId.decode()),
            driver=driver,
            runtime=runtime,
        )

    def _text(self, name: str, *before: object) -> str:
        buffer = ctypes.create_string_buffer(96)
        self._call(name, *before, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode(errors="replace")

    def _call(self, name: str, *arguments: object) -> None:
        self._check(name, self._function(name)(*arguments))

    def _function(self, name: str) -> Callable[..., int]:
        try:
            function: Callable[..., int] = getattr(self._library, name)
        except AttributeError as error:
            raise OSError(f"the NVIDIA driver is too old: its NVML has no {name}") from error
        return function

    def _check(self, name: str, code: int) -> None:
        if code:
            raise OSError(f"{name} failed with {code}" + (f": {_WORDS[code]}" if code in _WORDS else ""))


class _PciInfo(ctypes.Structure):
    """NVML's nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    )


def pci(bus_id: str) -> str:
    """Write a PCI address the way sysfs does: NVML pads the domain to eight digits."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"
