from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from probes.fakes import HOSTS, FakeHost
from rung.probes import rocm

if TYPE_CHECKING:
    from pathlib import Path

NODES = "sys/class/kfd/kfd/topology/nodes"
FIRST, SECOND, THIRD = "GPU-21b6d61638a86f8c", "GPU-21b6d616aa10b3e2", "GPU-7c1e0a9d5b63f204"


def write(root: Path, **files: str) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.mark.parametrize(
    ("version", "arch"),
    [
        (90402, "gfx942"),
        (90500, "gfx950"),
        (90010, "gfx90a"),
        (90012, "gfx90c"),
        (90008, "gfx908"),
        (100306, "gfx1036"),
        (110000, "gfx1100"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (120500, "gfx1250"),
    ],
)
def test_decoding(version: int, arch: str) -> None:
    assert rocm.arch_of(version) == arch


def test_mi300x() -> None:
    first, second, third = rocm.detect(FakeHost(root=HOSTS / "mi300x"))
    assert (first.arch, first.uuid, first.pci, first.driver) == ("gfx942", FIRST, "0000:05:00.0", "6.12.12")
    assert (first.name, first.note) == ("", "")
    # Node 10 comes after node 9.
    assert [card.uuid for card in (first, second, third)] == [FIRST, SECOND, THIRD]
    assert [card.index for card in (first, second, third)] == [0, 1, 2]


def test_strix_halo() -> None:
    (card,) = rocm.detect(FakeHost(root=HOSTS / "strix_halo"))
    assert (card.arch, card.name, card.uuid, card.driver) == ("gfx1151", "gfx1151", "", "")
    assert card.pci == "0000:c5:00.0"


def test_the_boards_name_goes_first(tmp_path: Path) -> None:
    properties = "simd_count 1216\ngfx_target_version 90402\nlocation_id 1280\ndomain 2\n"
    write(
        tmp_path,
        **{
            "dev/kfd": "",
            f"{NODES}/1/properties": properties,
            f"{NODES}/1/name": "ip discovery\n",
            "sys/bus/pci/devices/0002:05:00.0/product_name": "AMD Instinct MI300X OAM\n",
        },
    )
    (card,) = rocm.detect(FakeHost(root=tmp_path))
    assert (card.name, card.pci) == ("AMD Instinct MI300X OAM", "0002:05:00.0")


@pytest.mark.parametrize(
    ("env", "uuids"),
    [
        pytest.param({"ROCR_VISIBLE_DEVICES": "1"}, [SECOND], id="rocr"),
        pytest.param({"ROCR_VISIBLE_DEVICES": ""}, [], id="rocr-empty"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "2,0"}, [THIRD, FIRST], id="rocr-reorders"),
        pytest.param({"ROCR_VISIBLE_DEVICES": THIRD.upper()}, [THIRD], id="rocr-uuid"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "GPU-7"}, [THIRD], id="rocr-prefix"),
        pytest.param({"ROCR_VISIBLE_DEVICES": f"0,{THIRD}"}, [FIRST, THIRD], id="rocr-mixes-forms"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "1,1,0"}, [SECOND], id="rocr-repeat-ends-it"),
        pytest.param({"HIP_VISIBLE_DEVICES": "2"}, [THIRD], id="hip"),
        pytest.param({"HIP_VISIBLE_DEVICES": "-1"}, [], id="hip-none"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "1"}, [SECOND], id="cuda-counts-too"),
        pytest.param({"CUDA_VISIBLE_DEVICES": ""}, [], id="cuda-empty"),
        pytest.param({"HIP_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "0"}, [THIRD], id="hip-before-cuda"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "2,1", "HIP_VISIBLE_DEVICES": "0"}, [THIRD], id="hip-after-rocr"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "2"}, [], id="hip-counts-the-rest"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106"}, [], id="another-vendors-uuid"),
    ],
)
def test_visibility(env: dict[str, str], uuids: list[str]) -> None:
    left = rocm.detect(FakeHost(root=HOSTS / "mi300x", env=env))
    assert [card.uuid for card in left] == uuids
    assert [card.index for card in left] == list(range(len(uuids)))


@pytest.mark.parametrize(
    ("env", "claim"),
    [
        ({"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}, "gfx1100"),
        ({"HSA_OVERRIDE_GFX_VERSION": "9.0.10"}, "gfx90a"),
        ({"HSA_OVERRIDE_GFX_VERSION_1": "11.0.2"}, "gfx1102"),
        ({"HSA_OVERRIDE_GFX_VERSION": "eleven"}, "'eleven'"),
    ],
)
def test_a_claimed_arch_is_noted_and_not_believed(env: dict[str, str], claim: str) -> None:
    (card,) = rocm.detect(FakeHost(root=HOSTS / "strix_halo", env=env))
    assert card.arch == "gfx1151"
    assert card.note.endswith(f"claim {claim}")


def test_no_driver_no_card() -> None:
    assert rocm.detect(FakeHost()) == ()


def test_a_container_without_the_device_has_no_card(tmp_path: Path) -> None:
    write(tmp_path, **{f"{NODES}/1/properties": "simd_count 80\ngfx_target_version 110501\n"})
    assert rocm.detect(FakeHost(root=tmp_path)) == ()


def test_a_node_that_may_not_be_read_belongs_to_somebody_else() -> None:
    class Closed(FakeHost):
        def read(self, path: str, limit: int = -1) -> str:
            if "/nodes/9/" in path:
                raise PermissionError(1, "Operation not permitted", path)
            return super().read(path)

    assert [card.uuid for card in rocm.detect(Closed(root=HOSTS / "mi300x"))] == [FIRST, THIRD]


def test_a_driver_that_names_no_chip_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, **{"dev/kfd": "", f"{NODES}/1/properties": "cpu_cores_count 0\nsimd_count 256\n"})
    with pytest.raises(OSError, match="does not say what chip KFD node 1 is"):
        rocm.detect(FakeHost(root=tmp_path))


@pytest.mark.parametrize(
    "signs",
    [
        pytest.param(["dev/dxg", "opt/rocm/lib/libamdhip64.so"], id="wsl"),
        pytest.param(["Windows/System32/amdhip64_6.dll"], id="windows"),
    ],
)
def test_a_hip_without_topology_cannot_tell(signs: list[str], tmp_path: Path) -> None:
    write(tmp_path, **dict.fromkeys(signs, ""))
    with pytest.raises(OSError, match="no KFD topology"):
        rocm.detect(FakeHost(root=tmp_path))
