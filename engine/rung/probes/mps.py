"""The mps probe: the GPU family of an Apple chip, read off the chip's name.

Owns the table from chip to family. Metal is not loaded; which version of its language a macOS offers is no
matter of the arch.
"""

from __future__ import annotations

from rung.facts import DeviceFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from rung.probes.host import Host

__all__ = ["FAMILIES", "detect"]

FAMILIES: Final[Mapping[int, str]] = {1: "apple7", 2: "apple8", 3: "apple9", 4: "apple9", 5: "apple10"}
"""The n of "Apple M<n>" -> GPU family. 1 to 4 are Apple's tables [doc], 5 is general knowledge."""


def detect(host: Host) -> Sequence[DeviceFact]:
    """Give the GPU of an Apple chip, `generic` for a chip newer than the table; nothing off macOS.

    On an Intel Mac, and under Rosetta, it raises OSError: only Metal itself knows whether a GPU is usable.
    `rung.Platform.of("mps", "mac2")` names one by hand.
    """
    if host.system != "darwin":
        return ()
    import re

    if host.machine != "arm64":
        raise OSError(f"a {host.machine} Python on macOS is not asked for its GPU")
    brand = host.run(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]).strip()
    match = re.match(r"Apple M(\d+)", brand)
    family = FAMILIES.get(int(match[1])) if match else None
    note = "" if family else "its GPU family is not known here, so only portable code is offered"
    return (DeviceFact(family or "generic", name=brand, index=0, note=note),)
