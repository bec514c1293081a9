"""The parity oracle: it passes what agrees and points at what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rung
from rung.load import default_table
from rung.parity import parity

if TYPE_CHECKING:
    from conftest import Load

MANIFEST = """\
manifest: 1
backend: acme
arrays: {arrays}
kernels:
  flow_match_step:
    - {{device: cpu, arch: numpy, variant: acme, impl: "acme.kernels:step"}}
"""
GOOD = "def step(sample, velocity, sigma, sigma_next):\n    return sample + (sigma_next - sigma) * velocity\n"


def test_every_usable_cell_agrees_with_the_reference() -> None:
    outcomes = list(parity())
    assert [o for o in outcomes if o.status == "failed"] == []
    passed = {(o.cell.partition("/")[0], o.op) for o in outcomes if o.status == "passed"}
    assert passed >= {(b, op) for b in ("accel", "torch") for op in ("flow_match_step", "flow_sde_step")}


def test_cells_that_are_not_usable_are_skipped_with_the_reason() -> None:
    without_a_card = {"devices": {"cuda": []}, "modules": {"torch": "2.13.0+cu130"}}
    facts = rung.detect(device="cpu").facts.override(without_a_card)
    outcomes = [o for o in parity(backend="torch", facts=facts) if "@cuda" in o.cell]
    ops = default_table().kernels
    assert {o.cell for o in outcomes} == {f"torch/{op}@cuda.torch#default" for op in ops}
    assert all(o.status == "skipped" for o in outcomes)
    assert {o.detail for o in outcomes} == {"no cuda device was found"}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (GOOD.replace("+ (", "- ("), "element ["),
        ("def step(sample, velocity, sigma, sigma_next):\n    return (sample * 1).astype('f4')\n", "dtype float32"),
        ("def step(sample, velocity, sigma, sigma_next):\n    return sample.reshape(-1)[:0]\n", "shape (0,)"),
        ("def step(sample, velocity, sigma, sigma_next):\n    raise ValueError('bad')\n", "raised ValueError: bad"),
        ("def step(sample, velocity, sigma, sigma_next):\n    return None\n", "an array expected, got NoneType"),
        ("raise OSError('broken')\n", "broken: importing `acme.kernels` raised OSError"),
    ],
    ids=["sign", "dtype", "shape", "raises", "nothing", "broken"],
)
def test_a_kernel_that_disagrees_fails(load: Load, body: str, fault: str) -> None:
    table = load(MANIFEST.format(arrays="numpy"), acme__kernels=body)
    outcomes = [o for o in parity(backend="acme", table=table) if o.status == "failed"]
    assert outcomes
    assert fault in outcomes[0].detail


def test_one_wrong_element_is_named(load: Load) -> None:
    wrong = """\
def step(sample, velocity, sigma, sigma_next):
    result = sample + (sigma_next - sigma) * velocity
    if result.shape == (3, 7):
        result[1, 2] += 1
    return result
"""
    table = load(MANIFEST.format(arrays="numpy"), acme__kernels=wrong)
    failed = [o for o in parity(backend="acme", table=table) if o.status == "failed"]
    assert failed
    assert all("element [1, 2] is " in o.detail for o in failed)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("sample += (sigma_next - sigma) * velocity\n    return sample", "argument 0 was changed"),
        (
            "result = sample + (sigma_next - sigma) * velocity\n    velocity[...] = 0\n    return result",
            "argument 1 was",
        ),
    ],
    ids=["in-place", "scratch"],
)
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_a_kernel_that_overwrites_an_argument_fails(load: Load, arrays: str, change: str, fault: str) -> None:
    body = f"def step(sample, velocity, sigma, sigma_next):\n    {change}\n"
    table = load(MANIFEST.format(arrays=arrays), acme__kernels=body)
    outcomes = [o for o in parity(backend="acme", table=table) if o.status != "skipped"]
    assert outcomes
    assert all(o.status == "failed" and fault in o.detail for o in outcomes)


def test_a_keyword_that_is_overwritten_is_named(load: Load) -> None:
    text = MANIFEST.format(arrays="numpy").replace("flow_match_step", "flow_sde_step")
    body = """\
def step(*args, **kwargs):
    from rung_backends.reference.solver import flow_sde_step
    result = flow_sde_step(*args, **kwargs)
    for value in kwargs.values():
        if hasattr(value, "fill"):
            value.fill(7)
    return result
"""
    table = load(text, acme__kernels=body)
    outcomes = [o for o in parity(backend="acme", table=table) if o.status != "skipped"]
    assert outcomes
    assert all(o.status == "failed" and "argument `noise` was changed" in o.detail for o in outcomes)


def test_an_honest_kernel_passes(load: Load) -> None:
    table = load(MANIFEST.format(arrays="numpy"), acme__kernels=GOOD)
    outcomes = {o.dtype: o.status for o in parity(backend="acme", table=table)}
    assert outcomes["float64"] == outcomes["float32"] == "passed"
    assert outcomes["bfloat16"] == "skipped"


def test_an_unknown_backend_has_a_suggestion() -> None:
    with pytest.raises(KeyError, match="did you mean `torch`"):
        list(parity(backend="toch"))
