"""The xpu probe: Intel GPUs as the kernel lists them, by PCI id.

Owns the table from PCI id to arch and the reading of ZE_AFFINITY_MASK. Loads neither Level Zero nor SYCL, and
does not read ONEAPI_DEVICE_SELECTOR, which only SYCL obeys; a note says so where it is set.
"""

from __future__ import annotations

from rung.facts import DeviceFact
from rung.records import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from rung.probes.host import Host

__all__ = ["ARCHS", "cards", "detect", "visible"]

# Ids from Linux's pciids.h and Intel's compute-runtime [code]. The last row holds chips that the runtime
# serves and that have no arch of their own in the manifest: Meteor Lake-U, Arrow Lake-U and -S, Panther
# Lake-U, and ids of Panther Lake that no source places.
_IDS: Final = {
    "pvc": "0b69 0b6e 0bd0 0bd4 0bd5 0bd6 0bd7 0bd8 0bd9 0bda 0bdb 0be0 0be1 0be5",
    "dg2": "4f80 4f81 4f82 4f83 4f84 4f85 4f86 4f87 4f88 5690 5691 5692 5693 5694 5695 5696 5697 56a0 56a1"
    " 56a2 56a3 56a4 56a5 56a6 56af 56b0 56b1 56b2 56b3 56ba 56bb 56bc 56bd 56be 56bf 56c0 56c1 56c2",
    "mtl_h": "7d55 7dd5",
    "arl_h": "7d51 7dd1",
    "lnl_m": "6420 64a0 64b0",
    "bmg_g21": "e202 e209 e20b e20c e20d e210 e211 e212 e215 e216",
    "bmg_g31": "e220 e221 e222 e223",
    "ptl_h": "b080 b081 b082 b083 b08f b0a0 b0b0",
    "generic": "7d40 7d45 7d60 7d41 7d67 b640 b084 b085 b086 b087 b090",
}
ARCHS: Final[Mapping[int, str]] = {int(text, 16): arch for arch, ids in _IDS.items() for text in ids.split()}
"""PCI device id -> arch."""

_LABELS: Final = {
    "pvc": "Intel Data Center GPU Max",
    "dg2": "Intel Arc A or Data Center GPU Flex",
    "mtl_h": "Intel Meteor Lake-H",
    "arl_h": "Intel Arrow Lake-H",
    "lnl_m": "Intel Lunar Lake",
    "bmg_g21": "Intel Arc B",
    "bmg_g31": "Intel Arc B",
    "ptl_h": "Intel Panther Lake-H",
}


def detect(host: Host) -> Sequence[DeviceFact]:
    """Give the visible GPUs in PCI order; () without a render node.

    `index` is set only where all are of one arch, for Level Zero's order of unlike GPUs is its own. Raises
    OSError where Level Zero is installed but the kernel lists no cards (Windows, WSL).
    """
    if not any(name.startswith("renderD") for name in host.listed("/dev/dri")):
        in_wsl = host.exists("/dev/dxg") and host.glob("/usr/lib/*/libze_intel_gpu.so*")
        if in_wsl or host.exists("/Windows/System32/ze_loader.dll"):
            raise OSError("Level Zero is installed, but this system does not list its GPUs in sysfs")
        return ()
    return tuple(visible(cards(host), host.env))


def cards(host: Host) -> list[tuple[DeviceFact, int]]:
    """Give every GPU with the number of its tiles, in PCI order."""
    found = []
    for vendor in host.glob("/sys/class/drm/card[0-9]*/device/vendor"):
        device = vendor.removesuffix("/vendor")
        if int(host.read(vendor), 16) != 0x8086:
            continue
        number = int(host.read(f"{device}/device"), 16)
        uevent = dict(line.partition("=")[::2] for line in host.read(f"{device}/uevent").splitlines())
        arch = ARCHS.get(number)
        if arch is None:
            # The xe driver serves what came after this table; an unknown chip of i915 only drives displays.
            if uevent.get("DRIVER") != "xe":
                continue
            arch = "generic"
        name = f"{_LABELS.get(arch, 'Intel GPU')} [8086:{number:04x}]"
        fact = DeviceFact(arch, name=name, pci=uevent.get("PCI_SLOT_NAME", ""))
        found.append((fact, _tiles(host, device) if arch == "pvc" else 1))
    return sorted(found, key=lambda card: card[0].pci)


def visible(found: Sequence[tuple[DeviceFact, int]], env: Mapping[str, str]) -> list[DeviceFact]:
    """Give the cards that ZE_AFFINITY_MASK leaves; an empty or `default` mask leaves all.

    The mask selects and does not reorder. Its numbers count tiles, unless ZE_FLAT_DEVICE_HIERARCHY says
    COMPOSITE, and of `0.1` the card's part counts.
    """
    flat = env.get("ZE_FLAT_DEVICE_HIERARCHY", "FLAT").upper() != "COMPOSITE"
    slots = [position for position, (_, tiles) in enumerate(found) for _ in range(tiles if flat else 1)]
    mask = env.get("ZE_AFFINITY_MASK", "")
    if mask not in ("", "default"):
        kept = {entry.partition(".")[0].strip() for entry in mask.split(",")}
        slots = [position for slot, position in enumerate(slots) if str(slot) in kept]
    left = {position: found[position][0] for position in slots}
    alike = len({card.arch for card in left.values()}) < 2
    note = "ONEAPI_DEVICE_SELECTOR is set and was not read" if env.get("ONEAPI_DEVICE_SELECTOR") else ""
    return [replace(card, index=slots.index(p) if alike else None, note=note) for p, card in left.items()]


def _tiles(host: Host, device: str) -> int:
    """Count a card's tiles, as the xe driver lists them, else the i915 driver."""
    card = device.removesuffix("/device")
    return len(host.glob(f"{device}/tile[0-9]*") or host.glob(f"{card}/gt/gt[0-9]*")) or 1
