"""`Table` and its records: names with suggestions, device chains, and what predicates ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import rung
from rung.entries import Expression

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = rung.load()


@pytest.mark.parametrize(
    ("look", "error", "said"),
    [
        (TABLE.op, rung.UnknownOp, "unknown op `flow_mach_step`: did you mean `flow_match_step`?"),
        (TABLE.kind, rung.UnknownKind, "unknown component kind `dti`: did you mean `dit`?"),
        (TABLE.device, rung.UnknownDevice, "unknown device `cudda`: did you mean `cuda`?"),
        (TABLE.profile, rung.UnknownProfile, "unknown profile `stric`: did you mean `strict`?"),
    ],
    ids=["op", "kind", "device", "profile"],
)
def test_an_unknown_name_is_a_key_error_with_a_suggestion(
    look: Callable[[str], object], error: type[KeyError], said: str
) -> None:
    with pytest.raises(error) as caught:
        look(said.split("`")[1])
    assert str(caught.value) == said
    assert isinstance(caught.value, KeyError)


def test_known_names() -> None:
    assert TABLE.op("flow_match_step").name == "flow_match_step"
    assert TABLE.kind("dit").name == "dit"
    assert TABLE.device("cuda").name == "cuda"
    assert TABLE.profile("strict").fall["device"] == "error"


@pytest.mark.parametrize(
    ("device", "chain"),
    [("cpu", ("cpu",)), ("cuda", ("cuda", "cpu")), ("accel", ("accel", "cpu")), ("mps", ("mps", "cpu"))],
)
def test_what_a_device_falls_back_to(device: str, chain: tuple[str, ...]) -> None:
    assert TABLE.chain(device) == chain


def test_cells_are_all_cells() -> None:
    cells = list(TABLE.cells())
    assert len(cells) == len({cell.id for cell in cells})
    assert len(cells) == sum(map(len, TABLE.kernels.values())) + sum(map(len, TABLE.components.values()))
    assert {cell.id for cell in cells if cell.is_reference} == {cells[0].id for cells in _references()}


def _references() -> list[list[Any]]:
    return [[cell for cell in cells if cell.backend == "reference"] for cells in TABLE.kernels.values()]


def test_what_predicates_ask_for_and_nothing_else() -> None:
    wanted = TABLE.wanted
    assert wanted.devices == tuple(sorted(TABLE.devices))
    assert ("torch", "") in wanted.modules
    assert ("numpy", "") in wanted.modules
    assert "torch/lib/libtorch_cuda.so" in wanted.files
    assert wanted.env == ("RUNG_DISABLE", "TRITON_INTERPRET")
    assert wanted.probes == ("rung.probes.toolchain:has_cpp_compiler",)


def test_an_expressions_arguments_and_atoms() -> None:
    torch = Expression("module", args=(("name", "torch"), ("build", ("cu", "rocm"))))
    linux = Expression("os", args=(("name", "linux"),))
    assert (torch.get("name"), torch.get("version"), torch.get("build")) == ("torch", "", "")
    assert (torch.items("build"), torch.items("name"), torch.items("has")) == (("cu", "rocm"), ("torch",), ())
    tree = Expression("all", (torch, Expression("not", (Expression("any", (linux, torch)),))))
    assert list(tree.atoms()) == [torch, linux, torch]
    assert list(linux.atoms()) == [linux]
