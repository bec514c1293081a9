"""The recorded machines are ones the probes could have found and the manifests know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rung.facts import DeviceFact
from rung.probes import cpu

ROOT = Path(__file__).resolve().parents[2]
FACTS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "tests/facts").glob("*.yaml"))
}
DEVICES: dict[str, dict[str, Any]] = {
    name: device
    for path in sorted((ROOT / "manifests/devices").glob("*.yaml"))
    for name, device in yaml.safe_load(path.read_text(encoding="utf-8"))["devices"].items()
}


@pytest.mark.parametrize("name", FACTS)
class TestRecordedFacts:
    def test_every_detectable_device_is_answered(self, name: str) -> None:
        assert set(FACTS[name]["devices"]) == {d for d, device in DEVICES.items() if "detect" in device}

    def test_cards_are_of_declared_archs(self, name: str) -> None:
        for device, cards in FACTS[name]["devices"].items():
            for card in cards:
                assert DeviceFact(**card).as_dict() == card
                assert card["arch"] in DEVICES[device]["archs"]

    def test_the_processors_level_is_that_of_its_flags(self, name: str) -> None:
        facts = FACTS[name]
        (processor,) = facts["devices"]["cpu"]
        assert processor["arch"] == cpu.level(facts["machine"], facts["cpu"]["flags"])

    def test_cards_are_numbered_or_say_why_not(self, name: str) -> None:
        for cards in FACTS[name]["devices"].values():
            numbers = [card.get("index") for card in cards]
            assert numbers == list(range(len(cards))) or (
                set(numbers) == {None} and all(card["note"] for card in cards)
            )
