"""The rocm probe: AMD GPUs as the amdgpu driver lists them in the KFD topology, a part of sysfs.

Owns the reading of that topology and of the variables with which ROCr and HIP hide cards. Loads no ROCm
library. The topology is the hardware's, whatever HSA_OVERRIDE_GFX_VERSION makes a runtime pretend, and says
nothing of a process's xnack mode.
"""

from __future__ import annotations

from rung.facts import DeviceFact
from rung.probes.visible import by_name, by_number, chosen
from rung.records import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final

    from rung.probes.host import Host

__all__ = ["arch_of", "cards", "detect", "visible"]

_NODES: Final = "/sys/class/kfd/kfd/topology/nodes"


def detect(host: Host) -> Sequence[DeviceFact]:
    """Give the visible cards in HIP's order, which is that of the topology's nodes; () without /dev/kfd.

    Raises OSError where a HIP runtime is installed but has no such topology (Windows, WSL).
    """
    if not host.exists("/dev/kfd"):
        in_wsl = host.exists("/dev/dxg") and host.exists("/opt/rocm")
        on_windows = any(name.startswith("amdhip64") for name in host.listed("/Windows/System32"))
        if in_wsl or on_windows:
            raise OSError("a HIP runtime is installed, but this system has no KFD topology to list its cards")
        return ()
    return tuple(replace(card, index=i) for i, card in enumerate(visible(cards(host), host.env)))


def cards(host: Host) -> list[DeviceFact]:
    """Give every GPU node, in node order; raise OSError when a driver names no chip for one."""
    try:
        driver = host.read("/sys/module/amdgpu/version").strip()
    except OSError:  # only AMD's own packages of the driver have a version
        driver = ""
    import re

    found = []
    for node in sorted(int(path.rpartition("/")[2]) for path in host.glob(f"{_NODES}/[0-9]*")):
        try:
            text = host.read(f"{_NODES}/{node}/properties")
        except OSError:  # the node belongs to another container
            continue
        values = {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
        if not values.get("simd_count") and not values.get("gfx_target_version"):
            continue  # a processor
        if not values.get("gfx_target_version"):
            raise OSError(f"the amdgpu driver does not say what chip KFD node {node} is")
        found.append(_card(host, node, values, driver))
    return found


def visible(found: Sequence[DeviceFact], env: Mapping[str, str]) -> list[DeviceFact]:
    """Give the cards that ROCr and then HIP leave, in their order.

    HIP_VISIBLE_DEVICES goes before CUDA_VISIBLE_DEVICES. HIP itself takes an empty list for no list; PyTorch
    takes it for no card, and so did whoever set it.
    """
    left = list(found)
    hip = env.get("HIP_VISIBLE_DEVICES", env.get("CUDA_VISIBLE_DEVICES"))
    for listed in (env.get("ROCR_VISIBLE_DEVICES"), hip):
        if listed is not None:
            left = [left[i] for i in chosen(listed, _finder(left))]
    return left


def arch_of(version: int) -> str:
    """Decode a `gfx_target_version`: 90402 is gfx942, 90010 is gfx90a, 110501 is gfx1151."""
    return f"gfx{version // 10000 % 100}{version // 100 % 100}{version % 100:x}"


def _finder(left: Sequence[DeviceFact]) -> Callable[[str], int | None]:
    def find(entry: str) -> int | None:
        if entry.upper().startswith("GPU-"):
            return by_name(entry, [card.uuid for card in left])
        return by_number(entry, len(left))

    return find


def _card(host: Host, node: int, values: Mapping[str, int], driver: str) -> DeviceFact:
    place = values.get("location_id", 0)
    pci = f"{values.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
    arch = arch_of(values["gfx_target_version"])
    unique = values.get("unique_id", 0)
    claim = host.env.get(f"HSA_OVERRIDE_GFX_VERSION_{node}") or host.env.get("HSA_OVERRIDE_GFX_VERSION")
    return DeviceFact(
        arch,
        name=_name(host, pci, node),
        uuid=f"GPU-{unique:016x}" if unique else "",
        pci=pci,
        driver=driver,
        note=f"HSA_OVERRIDE_GFX_VERSION makes the runtime claim {_claimed(claim)}" if claim else "",
    )


def _claimed(version: str) -> str:
    """Read `11.0.0` as gfx1100; anything else is shown as it stands."""
    import re

    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version)
    return f"gfx{match[1]}{match[2]}{int(match[3]):x}" if match else repr(version)


def _name(host: Host, pci: str, node: int) -> str:
    """Give the board's name, else the driver's code name for the chip, else ""."""
    for path in (f"/sys/bus/pci/devices/{pci}/product_name", f"{_NODES}/{node}/name"):
        try:
            name = host.read(path).strip()
        except OSError:
            continue
        if name and name != "ip discovery":
            return name
    return ""
