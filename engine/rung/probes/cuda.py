"""The cuda probe: NVIDIA GPUs by NVML, and their order by CUDA where it matters.

Owns the NVML session, the reading of CUDA_VISIBLE_DEVICES, and the question put to CUDA. Never calls cuInit
in this process: that would break every child the process forks later.

Note [Whose order is it]: NVML lists every card in bus order and knows no environment. CUDA numbers the
fastest card first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, and only CUDA knows which that is. Among cards of one
arch the numbers change nothing. Among unlike cards they decide what every kernel meets, so a child process
asks CUDA itself, in this process's environment. Where it cannot be asked, every card is listed, the hidden
ones too, and none gets an `index`.
"""

from __future__ import annotations

import ctypes
import json
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rung.facts import DeviceFact
from rung.probes.visible import by_name, by_number, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rung.probes.host import Host

__all__ = ["Nvml", "ask_cuda", "detect", "order_is_known", "visible"]

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_NVML: Final = {
    "linux": ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"),
    "windows": ("nvml.dll", r"C:\Program Files\NVIDIA Corporation\NVSMI\nvml.dll"),
}
_CUDA: Final = {
    "linux": ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"),
    "windows": ("nvcuda.dll",),
}
# Signs of a card without NVML: containers given only the compute capability, and Jetsons.
_NODES: Final = ("/dev/nvidia[0-9]*", "/dev/nvhost-gpu", "/dev/nvgpu", "/usr/lib/wsl/lib/libcuda.so.1")

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


def detect(host: Host) -> Sequence[DeviceFact]:
    """Give the cards this process may use, in CUDA's order where it is known; () without a driver or a card.

    Raises OSError when there is a driver and it does not load or does not answer.
    """
    nvml = Nvml.open(host)
    if nvml is None:
        return _numbered(ask_cuda(host)) if any(host.glob(sign) for sign in _NODES) else ()
    with closing(nvml):
        found = nvml.cards()
        left = visible(found, host.env.get(_VISIBLE), nvml.parent)
    if not left or order_is_known(found, host.env):
        return _numbered(left)
    # Note [Whose order is it]
    try:
        asked = ask_cuda(host)
    except OSError as error:
        note = f"which of these cards CUDA numbers 0 is not known: {error}"
        return tuple(replace(card, note=note) for card in found)
    physical = {card.uuid for card in found}
    return _numbered(
        replace(
            card,
            uuid=card.uuid if card.uuid in physical else card.uuid.replace("GPU-", "MIG-", 1),
            driver=found[0].driver,
            runtime=found[0].runtime,
        )
        for card in asked
    )


def visible(found: Sequence[DeviceFact], listed: str | None, parent: Callable[[str], str | None]) -> list[DeviceFact]:
    """Give the cards that CUDA_VISIBLE_DEVICES leaves of `found`, in its order; all when it is not set.

    The first entry settles whether the list is one of numbers, of GPU UUIDs or of MIG UUIDs; an entry of
    another form, or that names no card, ends it. Of MIG instances CUDA uses one; `parent` gives the UUID of
    its card, None when there is no such instance.
    """
    if listed is None:
        return list(found)
    uuids = [card.uuid for card in found]
    if listed.strip().startswith("MIG-"):
        instance = listed.partition(",")[0].strip()
        old = instance.startswith("MIG-GPU-")  # MIG-<the card's UUID>/<gpu instance>/<compute instance>
        uuid = instance[4:].partition("/")[0] if old else parent(instance)
        if uuid not in uuids:
            return []
        return [replace(found[uuids.index(uuid)], uuid=instance, note=f"a MIG instance of {uuid}")]
    by_uuid = listed.strip().startswith("GPU-")

    def find(entry: str) -> int | None:
        if by_uuid:
            return by_name(entry, uuids) if entry.startswith("GPU-") else None
        return by_number(entry, len(found))

    return [found[i] for i in chosen(listed, find, repeats_hide_all=True)]


def order_is_known(found: Sequence[DeviceFact], env: Mapping[str, str]) -> bool:
    """Say whether the order `visible` gives is CUDA's, or as good as CUDA's."""
    return (
        len({card.arch for card in found}) < 2
        or env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        or env.get(_VISIBLE, "").strip().startswith(("GPU-", "MIG-"))
    )


def ask_cuda(host: Host) -> list[DeviceFact]:
    """Give what CUDA itself enumerates, asked in a child process; raise OSError when it cannot be asked."""
    names = _CUDA.get(host.system, ())
    if not (names and sys.executable):
        raise OSError("there is no CUDA, or no Python, to start a child process with")
    answer = host.run([sys.executable, "-I", "-S", "-c", _QUESTION, *names])
    try:
        return [DeviceFact(**{**card, "pci": _pci(card["pci"])}) for card in json.loads(answer)]
    except (TypeError, ValueError, KeyError) as error:
        raise OSError(f"CUDA's answer from a child process was not understood: {answer[:80]!r}") from error


def _numbered(cards: Iterable[DeviceFact]) -> tuple[DeviceFact, ...]:
    return tuple(replace(card, index=index) for index, card in enumerate(cards))


def _pci(bus_id: str) -> str:
    """Write a PCI address the way sysfs does: NVML pads the domain to eight digits."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


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
            pci=_pci(place.busId.decode()),
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


# The child's program: the names of CUDA's library are its arguments, a JSON list of cards is its answer. CUDA
# answers 100 when no card is there or visible. Attributes 75 and 76 are the parts of the compute capability.
# Of several failures it tells the first of a library that is there, judged as `Host.library` does.
_QUESTION: Final = """
import ctypes, errno, json, os, sys

failures = []
for name in sys.argv[1:]:
    try:
        cuda = ctypes.CDLL(name)
        break
    except OSError as error:
        absent = f" {name}: " in f" {error}" and str(error).endswith(os.strerror(errno.ENOENT))
        failures.append((absent, str(error)))
else:
    sys.exit(min(failures, key=lambda failure: failure[0])[1])

def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        sys.exit(f"{name} failed with {code}")

def number(name, *arguments):
    value = ctypes.c_int()
    call(name, ctypes.byref(value), *arguments)
    return value.value

def text(name, card):
    buffer = ctypes.create_string_buffer(96)
    call(name, buffer, len(buffer), card)
    return buffer.value.decode(errors="replace")

def describe(card):
    raw = (ctypes.c_ubyte * 16)()
    call("cuDeviceGetUuid_v2" if hasattr(cuda, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid", raw, card)
    h = bytes(raw).hex()
    return {
        "arch": "sm_" + "".join(str(number("cuDeviceGetAttribute", a, card)) for a in (75, 76)),
        "name": text("cuDeviceGetName", card),
        "uuid": f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}",
        "pci": text("cuDeviceGetPCIBusId", card),
        "runtime": "%d.%d" % (version // 1000, version % 1000 // 10),
    }

code = cuda.cuInit(0)
if code == 100:
    print("[]")
elif code:
    sys.exit(f"cuInit failed with {code}")
else:
    version = number("cuDriverGetVersion")
    print(json.dumps([describe(number("cuDeviceGet", i)) for i in range(number("cuDeviceGetCount"))]))
"""
