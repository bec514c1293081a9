"""The matrix as rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import rung
from rung.facts import Facts

FACTS = Path(__file__).parent / "facts"

LAPTOP = {"cpu": [{"arch": "x86_64_v3"}], "cuda": [], "mps": [], "rocm": [], "xpu": []}


def test_every_cell_is_a_row_with_the_contracts_keys() -> None:
    rows = rung.kernel_matrix()
    keys = {"op", "device", "arch", "variant", "backend", "cell", "impl", "artifact", "available", "reason"}
    assert all(keys <= row.keys() for row in rows)
    assert len(rows) == sum(len(cells) for cells in rung.load().kernels.values())
    assert rows == sorted(rows, key=lambda row: (row["op"], row["cell"]))
    assert all(row["available"] in ("yes", "no", "unknown") for row in rows)


@pytest.mark.parametrize(
    ("torch", "cuda", "available", "reason"),
    [
        ("2.13.0+cpu", [], "no", "no cuda device was found"),
        ("2.13.0+cpu", [{"arch": "sm_90"}], "no", "not labelled as a build for cu"),
        ("2.13.0+cu130", [{"arch": "sm_90"}], "yes", ""),
        ("2.3.0+cu130", [{"arch": "sm_90"}], "no", "is not >=2.4"),
        (False, [{"arch": "sm_90"}], "no", "`torch` is not installed"),
        ("2.13.0", [{"arch": "sm_90"}], "unknown", "is not recorded in these facts"),
    ],
)
def test_cuda_cells_are_listed_everywhere_and_usable_where_real(
    torch: str | bool, cuda: list[dict[str, str]], available: str, reason: str
) -> None:
    facts = Facts.of({"facts": 1, "modules": {"torch": torch}, "devices": {**LAPTOP, "cuda": cuda}})
    (row,) = [r for r in rung.kernel_matrix(facts=facts) if r["cell"] == "torch/flow_match_step@cuda.torch#default"]
    assert row["available"] == available
    assert reason in row["reason"]


def test_a_device_nobody_looked_for_is_unknown() -> None:
    rows = rung.kernel_matrix(facts=Facts.of({"facts": 1}))
    (row,) = [r for r in rows if r["cell"] == "torch/flow_match_step@cuda.torch#default"]
    assert row["available"] == "unknown"


def test_the_reference_and_the_stand_in_are_available_everywhere() -> None:
    for file in sorted(FACTS.glob("*.yaml")):
        rows = rung.kernel_matrix(facts=Facts.load(file))
        assert {r["available"] for r in rows if r["backend"] in ("accel", "reference")} == {"yes"}
