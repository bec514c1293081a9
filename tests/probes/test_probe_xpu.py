from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from probes.fakes import HOSTS, FakeHost
from rung.probes import xpu

MANIFEST = Path(__file__).resolve().parents[2] / "manifests" / "devices" / "xpu.yaml"


def machine(root: Path, *gpus: tuple[str, str, str]) -> FakeHost:
    """Write one DRM card per (vendor, device, driver), in slots 01, 02, ..."""
    for number, (vendor, device, driver) in enumerate(gpus):
        folder = root / f"sys/class/drm/card{number}/device"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"0x{vendor}\n")
        (folder / "device").write_text(f"0x{device}\n")
        (folder / "uevent").write_text(f"DRIVER={driver}\nPCI_SLOT_NAME=0000:0{number + 1}:00.0\n")
    (root / "dev/dri").mkdir(parents=True)
    (root / "dev/dri/renderD128").touch()
    return FakeHost(root=root)


def test_the_table_names_archs_of_the_manifest() -> None:
    archs = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))["devices"]["xpu"]["archs"]
    assert set(xpu.ARCHS.values()) == set(archs) | {"generic"}


def test_a_display_gpu_beside_an_arc_is_not_counted() -> None:
    (card,) = xpu.detect(FakeHost(root=HOSTS / "arc_b580"))
    assert (card.arch, card.pci, card.index, card.note) == ("bmg_g21", "0000:03:00.0", 0, "")
    assert card.name == "Intel Arc B [8086:e20b]"


@pytest.mark.parametrize(
    ("device", "driver", "arch"),
    [
        ("0bd5", "i915", "pvc"),
        ("56a0", "i915", "dg2"),
        ("7d55", "i915", "mtl_h"),
        ("7d51", "xe", "arl_h"),
        ("64a0", "xe", "lnl_m"),
        ("e212", "xe", "bmg_g21"),
        ("e223", "xe", "bmg_g31"),
        ("b080", "xe", "ptl_h"),
        ("7d45", "i915", "generic"),
        ("d750", "xe", "generic"),
    ],
)
def test_ids(device: str, driver: str, arch: str, tmp_path: Path) -> None:
    (card,) = xpu.detect(machine(tmp_path, ("8086", device, driver)))
    assert card.arch == arch


@pytest.mark.parametrize(
    "gpu",
    [
        ("8086", "9bc4", "i915"),
        ("8086", "4680", "i915"),
        ("10de", "2330", "nvidia"),
        ("1002", "744c", "amdgpu"),
    ],
)
def test_what_is_no_xpu(gpu: tuple[str, str, str], tmp_path: Path) -> None:
    assert xpu.detect(machine(tmp_path, gpu)) == ()


@pytest.mark.parametrize(
    ("env", "slots"),
    [
        pytest.param({}, {"3a": 0, "9a": 2}, id="two-tiles-each"),
        pytest.param({"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}, {"3a": 0, "9a": 1}, id="composite"),
        pytest.param({"ZE_AFFINITY_MASK": ""}, {"3a": 0, "9a": 2}, id="empty-mask"),
        pytest.param({"ZE_AFFINITY_MASK": "0"}, {"3a": 0}, id="one-tile"),
        pytest.param({"ZE_AFFINITY_MASK": "1,2"}, {"3a": 0, "9a": 1}, id="a-tile-of-each"),
        pytest.param({"ZE_AFFINITY_MASK": "3"}, {"9a": 0}, id="the-last-tile"),
        pytest.param({"ZE_AFFINITY_MASK": "9"}, {}, id="out-of-range"),
        pytest.param({"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE", "ZE_AFFINITY_MASK": "1.0"}, {"9a": 0}, id="tile-form"),
        pytest.param(
            {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE", "ZE_AFFINITY_MASK": "1,0"},
            {"3a": 0, "9a": 1},
            id="a-mask-does-not-reorder",
        ),
    ],
)
def test_affinity(env: dict[str, str], slots: dict[str, int]) -> None:
    left = xpu.detect(FakeHost(root=HOSTS / "max_1550", env=env))
    assert {card.pci[5:7]: card.index for card in left} == slots


def test_sysfs_is_made_of_links(tmp_path: Path) -> None:
    here = machine(tmp_path, ("8086", "e20b", "xe"))
    drm = tmp_path / "sys/class/drm"
    real = tmp_path / "sys/devices/pci0000:00/0000:03:00.0"
    real.parent.mkdir(parents=True)
    (drm / "card0/device").rename(real)
    (drm / "card0").rename(real / "card0")
    (real / "card0/device").symlink_to(real)
    (drm / "card0").symlink_to(real / "card0")
    (real / "card0/card0-DP-1").mkdir()
    (real / "card0/card0-DP-1/device").symlink_to(real / "card0")
    (drm / "card0-DP-1").symlink_to(real / "card0/card0-DP-1")
    assert [card.arch for card in xpu.detect(here)] == ["bmg_g21"]


def test_tiles_of_the_xe_driver(tmp_path: Path) -> None:
    here = machine(tmp_path, ("8086", "0bd5", "xe"), ("8086", "0bd5", "xe"))
    for tile in ("tile0", "tile1"):
        (tmp_path / "sys/class/drm/card0/device" / tile).mkdir()
    assert [card.index for card in xpu.detect(here)] == [0, 2]


def test_unlike_gpus_have_no_number(tmp_path: Path) -> None:
    here = machine(tmp_path, ("8086", "64a0", "xe"), ("8086", "e20b", "xe"))
    assert [(card.arch, card.index) for card in xpu.detect(here)] == [("lnl_m", None), ("bmg_g21", None)]


def test_a_selector_is_noted() -> None:
    env = {"ONEAPI_DEVICE_SELECTOR": "opencl:*"}
    (card,) = xpu.detect(FakeHost(root=HOSTS / "arc_b580", env=env))
    assert card.note == "ONEAPI_DEVICE_SELECTOR is set and was not read"


def test_without_a_render_node_there_is_none(tmp_path: Path) -> None:
    here = machine(tmp_path, ("8086", "e20b", "xe"))
    (tmp_path / "dev/dri/renderD128").unlink()
    assert xpu.detect(here) == ()
    assert xpu.detect(FakeHost()) == ()


@pytest.mark.parametrize(
    "signs",
    [
        pytest.param(["dev/dxg", "usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1"], id="wsl"),
        pytest.param(["Windows/System32/ze_loader.dll"], id="windows"),
    ],
)
def test_level_zero_without_sysfs_cannot_tell(signs: list[str], tmp_path: Path) -> None:
    for sign in signs:
        (tmp_path / sign).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / sign).touch()
    with pytest.raises(OSError, match="does not list its GPUs"):
        xpu.detect(FakeHost(root=tmp_path))
