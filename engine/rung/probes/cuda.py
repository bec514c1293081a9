"""The cuda probe: NVIDIA GPUs by NVML, and their order by CUDA where it matters.

Owns the signs of a driver, the reading of CUDA_VISIBLE_DEVICES, and the question put to CUDA. Never calls cuInit
in this process: that would break every child the process forks later.

Note [Whose order is it]: NVML lists every card in bus order and knows no environment. CUDA numbers the
fastest card first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, and only CUDA knows which that is. Among cards of one
arch the numbers change nothing. Among unlike cards they decide what every kernel meets, so a child process
asks CUDA itself, in this process's environment. Where it cannot be asked, every card is listed, the hidden
ones too, and none gets an `index`.
"""

from __future__ import annotations

import sys

from rung.facts import DeviceFact
from rung.probes.visible import by_name, by_number, chosen
from rung.records import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Final

    from rung.probes.host import Host

__all__ = ["ask_cuda", "detect", "order_is_known", "visible"]

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_CUDA: Final = {
    "linux": ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"),
    "windows": ("nvcuda.dll",),
}
_WSL: Final = "/usr/lib/wsl/lib/libcuda.so.1"
_JETSON: Final = ("/dev/nvhost-gpu", "/dev/nvgpu")
_DRIVER: Final = ("/dev/nvidiactl", "/proc/driver/nvidia", "/sys/module/nvidia", "/dev/dxg", "/usr/bin/nvidia-modprobe")
"""Signs of a driver on Linux, without which no library is looked for: that takes longer than all else here."""


def detect(host: Host) -> Sequence[DeviceFact]:
    """Give the cards this process may use, in CUDA's order where it is known; () without a driver or a card.

    Raises OSError when there is a driver and it does not load or does not answer.
    """
    has_card = any(map(host.exists, (_WSL, *_JETSON))) or any(map(_is_card, host.listed("/dev")))
    if host.system == "linux" and not has_card and not any(map(host.exists, _DRIVER)):
        return ()
    from rung.probes.nvml import Nvml

    nvml = Nvml.open(host)
    if nvml is None:  # as in containers given only the compute capability, and on a Jetson
        return _numbered(ask_cuda(host)) if has_card else ()
    try:
        found = nvml.cards()
        left = visible(found, host.env.get(_VISIBLE), nvml.parent)
    finally:
        nvml.close()
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
    import json

    from rung.probes.nvml import pci

    try:
        return [DeviceFact(**{**card, "pci": pci(card["pci"])}) for card in json.loads(answer)]
    except (TypeError, ValueError, KeyError) as error:
        raise OSError(f"CUDA's answer from a child process was not understood: {answer[:80]!r}") from error


def _is_card(node: str) -> bool:
    return node.startswith("nvidia") and node[6:7].isdigit()


def _numbered(cards: Iterable[DeviceFact]) -> tuple[DeviceFact, ...]:
    return tuple(replace(card, index=index) for index, card in enumerate(cards))


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
