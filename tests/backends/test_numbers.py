"""Arguments that are numbers: what an op's contract refuses, every backend refuses, in the same words."""

from __future__ import annotations

import importlib
import importlib.util
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import rung
from aside import Aside
from catalogue import to_torch
from rung.load import default_table

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERPRETED = Aside(TRITON_INTERPRET="1")
X = np.ones((2, 4), np.float32)
Q = X[None, None]
STEP: dict[str, Any] = {"sigma": 0.5, "sigma_next": 0.4}
USUAL: dict[str, dict[str, Any]] = {
    "attention": {"q": Q, "k": Q, "v": Q, "scale": 0.5},
    "cfg_combine": {"cond": X, "uncond": X, "guidance_scale": 3.0, "rescale": 0.5},
    "cfg_flow_match_step": {"sample": X, "cond": X, "uncond": X, "guidance_scale": 3.0, **STEP},
    "flow_match_step": {"sample": X, "velocity": X, **STEP},
    "flow_sde_step": {"sample": X, "velocity": X, "noise": X, "noise_scale": 0.7, **STEP},
    "group_norm": {"x": X, "groups": 2, "eps": 1e-5},
    "layer_norm": {"x": X, "eps": 1e-5},
    "rms_norm": {"x": X, "eps": 1e-5},
}
NUMBERS = [(op, name) for op, usual in USUAL.items() for name, value in usual.items() if isinstance(value, float)]

NONE: list[tuple[str, Any, type[Exception], str]] = [
    ("text", "0.5", TypeError, "{name} must be a number, got '0.5'"),
    ("bytes", b"0.5", TypeError, "{name} must be a number, got b'0.5'"),
    ("list", [0.5], TypeError, "{name} must be a number, got list"),
    ("complex", 0.5j, TypeError, "{name} must be a number, got complex"),
    ("beyond float64", 10**400, ValueError, "{name} must be within float64's range"),
]
NO_LIMIT: list[tuple[str, Any, type[Exception], str]] = [
    ("nan", math.nan, ValueError, "{says}"),
    ("numpy's nan", np.float32(np.nan), ValueError, "{says}"),
    ("infinite", math.inf, ValueError, "{says}"),
    ("minus infinite", -math.inf, ValueError, "{says}"),
]
NOT_NEGATIVE = "{name} must be finite and not negative, got -"
BAD: list[tuple[str, str, str, Any, type[Exception], str]] = [
    *((op, name, *row) for op, name in NUMBERS for row in (*NONE, *NO_LIMIT)),
    *((op, name, "none", None, TypeError, "{name} must be a number, got NoneType")
      for op, name in NUMBERS if name != "scale"),
    *((op, "eps", "negative", -1, ValueError, NOT_NEGATIVE) for op in USUAL if op.endswith("norm")),
    ("flow_sde_step", "noise_scale", "negative", -0.1, ValueError, NOT_NEGATIVE),
    ("cfg_combine", "rescale", "above 1", 2.0, ValueError, "rescale must be finite and in [0, 1], got 2.0"),
    ("cfg_combine", "rescale", "negative", -0.1, ValueError, "rescale must be finite and in [0, 1], got -0.1"),
    *((op, "sigma_next", "up", 0.6, ValueError, "got sigma=0.5, sigma_next=0.6") for op in USUAL if "step" in op),
    *((op, "sigma_next", "negative", -0.1, ValueError, "sigma_next=-0.1") for op in USUAL if "step" in op),
    *((op, "sigma", "above 1", 1.5, ValueError, "got sigma=1.5") for op in USUAL if "step" in op),
    *(("group_norm", "groups", what, value, TypeError, "groups must be an integer, got")
      for what, value in (("text", "2"), ("none", None), ("list", [2]), ("float", 2.0))),
    *(("group_norm", "groups", what, value, ValueError, "groups must be 1 or more and divide x's 4 channels")
      for what, value in (("zero", 0), ("negative", -2), ("indivisible", 3))),
]  # fmt: skip


def implementations(op: str) -> list[str]:
    """Give the dotted paths of all that serves an op."""
    return sorted({cell.impl for cell in default_table().kernels[op]})


def call(path: str, given: dict[str, Any]) -> Any:
    """Call an implementation with numpy arrays or, where it takes those, the tensors that they make."""
    backend = path.split(".")[1]
    if backend in ("reference", "accel"):
        module, _, name = path.partition(":")
        return getattr(importlib.import_module(module), name)(**given)
    pytest.importorskip("torch")
    given = {name: to_torch(value) for name, value in given.items()}
    if backend == "triton":
        if importlib.util.find_spec("triton") is None:
            pytest.skip("triton is not installed")
        return INTERPRETED.call(path, **given)
    if backend == "torch_compile":
        can = rung.detect(device="cpu").facts.probe("rung.probes.toolchain:has_cpp_compiler")
        if can is not True:
            pytest.skip("no C++ compiler, or no headers of Python")
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)(**given)


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    INTERPRETED.close()


@pytest.mark.parametrize(
    ("path", "op", "name", "value", "error", "says"),
    [
        pytest.param(path, op, name, value, error, says, id=f"{path.partition('.')[2]}, {name} {what}")
        for op, name, what, value, error, says in BAD
        for path in implementations(op)
    ],
)
def test_a_number_that_is_none_or_out_of_range_is_refused(
    path: str, op: str, name: str, value: Any, error: type[Exception], says: str
) -> None:
    limit = "0 <= sigma_next <= sigma <= 1" if "sigma" in name else f"{name} must be finite"
    with pytest.raises(error) as caught:
        call(path, {**USUAL[op], name: value})
    assert says.format(name=name, says=limit) in str(caught.value)


@pytest.mark.parametrize(
    ("path", "op", "name"),
    [
        pytest.param(path, op, name, id=f"{path.partition('.')[2]}, {name}")
        for op, name in NUMBERS
        for path in implementations(op)
    ],
)
@pytest.mark.parametrize(
    "value", [0.5, np.float32(0.5), np.float64(0.5), np.array(0.5)], ids=["float", "float32", "float64", "0-d"]
)
def test_numbers_of_every_kind_are_taken(path: str, op: str, name: str, value: Any) -> None:
    result = call(path, {**USUAL[op], name: value})
    for one in result if isinstance(result, tuple) else (result,):
        assert np.isfinite(np.asarray(one)).all()
