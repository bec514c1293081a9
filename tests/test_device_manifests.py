"""The device manifests as text: names, edges and patterns hang together. What runs where is in test_lattice."""

from __future__ import annotations

import re
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
