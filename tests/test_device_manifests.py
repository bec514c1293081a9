"""The device manifests against their evidence: golden cases, PyTorch's own table, the laws of a lattice."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[1] / "manifests" / "devices"
DEVICES: dict[str, dict[str, Any]] = {
    name: device
    for path in sorted(FOLDER.glob("*.yaml"))
    for name, device in yaml.safe_load(path.read_text(encoding="utf-8"))["devices"].items()
}


def admits(device: str, target: str, arch: str) -> bool:
    """Say whether native code for `target` runs on `arch`, by the declared edges alone."""
    lattice = DEVICES[device]
    if target in lattice.get("targets", {}):
        members = lattice["targets"][target]
        return arch in members.get("family", [members.get("only")])
    return target == arch or target in lattice["archs"][arch].get("runs", [])


def compiles(device: str, target: str, arch: str) -> bool:
    """Say whether intermediate code for `target` can be compiled for `arch`, by the device's jit rule."""
    jit = DEVICES[device]["jit"]
    if jit["rule"] == "any":
        return True
    plain = DEVICES[device]["pattern"] + target.removeprefix(jit["prefix"])
    if plain[-1] in "af":
        return admits(device, plain, arch)
    return capability(arch) >= capability(plain)


def capability(arch: str) -> int:
    return int(arch.rpartition("_")[2])


def runs(device: str, target: str, arch: str) -> bool:
    jit = DEVICES[device].get("jit")
    if jit and target.startswith(jit["prefix"]):
        return compiles(device, target, arch)
    return admits(device, target, arch)


@pytest.mark.parametrize(
    ("device", "target", "arch", "answer"),
    [
        ("cuda", "sm_80", "sm_86", True),
        ("cuda", "sm_86", "sm_80", False),
        ("cuda", "sm_80", "sm_90", False),
        ("cuda", "compute_80", "sm_120", True),
        ("cuda", "sm_90", "sm_120", False),
        ("cuda", "sm_90a", "sm_90", True),
        ("cuda", "sm_90a", "sm_100", False),
        ("cuda", "compute_90a", "sm_120", False),
        ("cuda", "sm_100a", "sm_103", False),
        ("cuda", "sm_100f", "sm_103", True),
        ("cuda", "sm_100", "sm_101", False),
        ("cuda", "sm_100f", "sm_120", False),
        ("cuda", "sm_120", "sm_121", True),
        ("rocm", "gfx1100", "gfx1103", False),
        ("rocm", "gfx11-generic", "gfx1151", True),
        ("rocm", "gfx9-4-generic", "gfx950", True),
        ("rocm", "gfx11-generic", "gfx1201", False),
        ("cpu", "x86_64_v4", "x86_64_v3", False),
        ("cpu", "x86_64_v3", "x86_64_v4", True),
        ("mps", "apple9", "apple7", False),
        # Beyond the recorded ones: the traps of number order.
        ("cuda", "sm_80", "sm_87", False),
        ("cuda", "sm_86", "sm_89", True),
        ("cuda", "sm_80", "sm_88", False),
        ("cuda", "sm_101", "sm_110", True),
        ("cuda", "sm_101a", "sm_110", False),
        ("cuda", "sm_100f", "sm_101", False),
        ("cuda", "sm_103f", "sm_100", False),
        ("cuda", "sm_121f", "sm_120", False),
        ("cuda", "compute_100f", "sm_107", True),
        ("cuda", "compute_100f", "sm_110", False),
        ("cuda", "compute_103", "sm_110", True),
        ("cuda", "compute_100", "sm_80", False),
        ("cuda", "compute_87", "sm_89", True),
        ("rocm", "gfx9-generic", "gfx908", False),
        ("rocm", "gfx9-generic", "gfx90a", False),
        ("rocm", "gfx9-generic", "gfx90c", True),
        ("mps", "metal3", "apple10", True),
        ("mps", "metal3", "mac2", False),
        ("xpu", "dg2", "bmg_g21", False),
        ("xpu", "spir64", "bmg_g21", True),
        ("cpu", "aarch64", "armv9.0a", True),
        ("cpu", "aarch64", "x86_64_v4", False),
        ("accel", "accel_v1", "accel_v3", True),
        ("accel", "accel_v2x", "accel_v3", False),
        ("accel", "accel_v2f", "accel_v3", True),
    ],
)
def test_golden_cases(device: str, target: str, arch: str, answer: bool) -> None:
    assert runs(device, target, arch) is answer


def test_every_pair_of_pytorchs_table() -> None:
    """On each pair of chips that torch.cuda judges, the edges say the same. There is no exception."""
    torch_cuda = pytest.importorskip("torch.cuda")
    table = getattr(torch_cuda, "DEVICE_REQUIREMENT", None)
    if table is None:
        pytest.skip("this PyTorch has no compatibility table")
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # its way of saying that it does not know a chip
        for code in table:
            for device in table:
                theirs = torch_cuda._code_compatible_with_device(device, code)
                ours = admits("cuda", f"sm_{code}", f"sm_{device}")
                if theirs != ours:
                    wrong.append(f"code {code} on device {device}: torch says {theirs}, the manifest {ours}")
    assert not wrong
    assert {f"sm_{code}" for code in table} <= set(DEVICES["cuda"]["archs"])


@pytest.mark.parametrize("device", DEVICES)
class TestLattice:
    def test_names_are_declared(self, device: str) -> None:
        lattice = DEVICES[device]
        archs, targets = lattice["archs"], lattice.get("targets", {})
        for name in (*archs, *targets):
            assert re.fullmatch(r"[A-Za-z0-9_.-]+", name), name
        assert not set(archs) & set(targets)
        for name, arch in archs.items():
            assert set(arch.get("runs", ())) <= set(archs) - {name}
        for target in targets.values():
            assert set(target.get("family", [target.get("only")])) <= set(archs)
            assert len(target) == 1
        for other, name in lattice.get("aliases", {}).items():
            assert name in archs
            assert other not in archs

    def test_edges_are_transitive_acyclic_and_nearest_first(self, device: str) -> None:
        archs = {name: arch.get("runs", []) for name, arch in DEVICES[device]["archs"].items()}
        for name, older in archs.items():
            for position, other in enumerate(older):
                assert name not in archs[other], f"{name} and {other} run each other's code"
                assert set(archs[other]) <= set(older[position + 1 :]), (
                    f"{name} runs {other}, which is not nearest first"
                )

    def test_what_it_falls_back_to(self, device: str) -> None:
        seen = [device]
        while (following := DEVICES[seen[-1]].get("falls_back_to")) is not None:
            assert following in DEVICES
            assert following not in seen
            seen.append(following)
        assert seen[-1] == "cpu"

    def test_its_pattern_reads_its_archs(self, device: str) -> None:
        pattern = DEVICES[device].get("pattern")
        if pattern is None:
            return
        prefix, digits = (pattern, "[0-9]+") if isinstance(pattern, str) else (pattern["prefix"], "[0-9a-f]+")
        unread = {name for name in DEVICES[device]["archs"] if not re.fullmatch(prefix + digits, name)}
        assert unread <= {"mac2"}


def test_the_stand_in_is_never_detected() -> None:
    assert {name for name, device in DEVICES.items() if "detect" not in device} == {"accel"}


def test_products_are_not_claimed_twice() -> None:
    for device in DEVICES.values():
        products = [product for arch in device["archs"].values() for product in arch.get("products", ())]
        assert len(products) == len(set(products))
