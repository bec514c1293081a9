from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from probes.fakes import FakeHost
from rung.probes import mps

if TYPE_CHECKING:
    from collections.abc import Sequence


def mac(brand: str) -> FakeHost:
    def child(command: Sequence[str]) -> str:
        assert list(command) == ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        return brand + "\n"

    return FakeHost(system="darwin", machine="arm64", child=child)


@pytest.mark.parametrize(
    ("brand", "arch"),
    [
        ("Apple M1", "apple7"),
        ("Apple M1 Ultra", "apple7"),
        ("Apple M2 Max", "apple8"),
        ("Apple M3 Pro", "apple9"),
        ("Apple M4", "apple9"),
        ("Apple M5 Max", "apple10"),
    ],
)
def test_families(brand: str, arch: str) -> None:
    (card,) = mps.detect(mac(brand))
    assert (card.arch, card.name, card.index, card.note) == (arch, brand, 0, "")


@pytest.mark.parametrize("brand", ["Apple M6", "Apple M10", "Apple A18 Pro", ""])
def test_a_chip_the_table_does_not_have_is_generic(brand: str) -> None:
    (card,) = mps.detect(mac(brand))
    assert card.arch == "generic"
    assert "not known" in card.note


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_nothing_off_macos(system: str) -> None:
    assert mps.detect(FakeHost(system=system)) == ()


def test_an_intel_python_cannot_tell() -> None:
    with pytest.raises(OSError, match="x86_64 Python on macOS"):
        mps.detect(FakeHost(system="darwin", machine="x86_64"))
