"""The numbers that steps and guidance take: what the contract refuses, every backend refuses, in the same words."""

from __future__ import annotations

import importlib
import importlib.util
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from aside import Aside
from catalogue import to_torch

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERPRETED = Aside(TRITON_INTERPRET="1")
X = np.ones((2, 3), np.float32)

# Where each backend has its form of an op; the compiled ones are in modules of their own.
FORMS = {
    "flow_match_step": {
        "reference": "solver:flow_match_step",
        "torch": "solver:flow_match_step",
        "accel": "solver:flow_match_step",
        "triton": "solver:flow_match_step",
        "torch_compile": "flow_match_step:flow_match_step",
    },
    "flow_sde_step": {
        "reference": "solver:flow_sde_step",
        "torch": "solver:flow_sde_step",
        "accel": "solver:flow_sde_step",
    },
    "cfg_combine": {
        "reference": "guidance:cfg_combine",
        "torch": "guidance:cfg_combine",
        "accel": "guidance:cfg_combine",
        "triton": "guidance:cfg_combine",
        "torch_compile": "cfg_combine:cfg_combine",
    },
    "cfg_flow_match_step": {
        "reference": "guidance:cfg_flow_match_step",
        "torch": "guidance:cfg_flow_match_step",
        "accel": "guidance:cfg_flow_match_step",
        "triton": "solver:cfg_flow_match_step",
        "torch_compile": "cfg_flow_match_step:cfg_flow_match_step",
    },
    "attention": {"reference": "attention:attention", "torch": "attention:attention", "accel": "attention:attention"},
}
USUAL: dict[str, dict[str, Any]] = {
    "flow_match_step": {"sample": X, "velocity": X, "sigma": 0.5, "sigma_next": 0.4},
    "flow_sde_step": {"sample": X, "velocity": X, "sigma": 0.5, "sigma_next": 0.4, "noise": X, "noise_scale": 0.7},
    "cfg_combine": {"cond": X, "uncond": X, "guidance_scale": 3.0, "rescale": 0.5},
    "cfg_flow_match_step": {
        "sample": X, "cond": X, "uncond": X, "guidance_scale": 3.0, "sigma": 0.5, "sigma_next": 0.4,
    },
    "attention": {"q": X[None, None], "k": X[None, None], "v": X[None, None], "scale": 0.5},
}  # fmt: skip

NUMBERS: list[tuple[str, Any, type[Exception], str]] = [
    ("nan", math.nan, ValueError, "{name} must be finite"),
    ("infinite", math.inf, ValueError, "{name} must be finite"),
    ("beyond float64", 10**400, ValueError, "{name} must be within float64's range"),
    ("text", "0.5", TypeError, "{name} must be a number, got '0.5'"),
    ("bytes", b"0.5", TypeError, "{name} must be a number, got b'0.5'"),
    ("none", None, TypeError, "{name} must be a number, got NoneType"),
    ("list", [0.5], TypeError, "{name} must be a number, got list"),
]
STEPS: list[tuple[str, Any, type[Exception], str]] = [
    ("nan", math.nan, ValueError, "0 <= sigma_next <= sigma <= 1"),
    ("infinite", math.inf, ValueError, "0 <= sigma_next <= sigma <= 1"),
    *NUMBERS[2:],
]
BAD: list[tuple[str, str, str, Any, type[Exception], str]] = [
    *(("cfg_combine", "guidance_scale", *row) for row in NUMBERS),
    *(("cfg_combine", "rescale", *row) for row in NUMBERS),
    ("cfg_combine", "rescale", "above 1", 2.0, ValueError, r"rescale must be finite and in \[0, 1\], got 2.0"),
    ("cfg_combine", "rescale", "below 0", -0.1, ValueError, r"rescale must be finite and in \[0, 1\], got -0.1"),
    *(("cfg_flow_match_step", "guidance_scale", *row) for row in NUMBERS),
    *((op, name, *row) for op in FORMS if "sigma" in USUAL[op] for name in ("sigma", "sigma_next") for row in STEPS),
    *((op, "sigma_next", "up", 0.6, ValueError, "got sigma=0.5, sigma_next=0.6") for op in FORMS if "step" in op),
    *((op, "sigma_next", "below 0", -0.1, ValueError, "sigma_next=-0.1") for op in FORMS if "step" in op),
    *((op, "sigma", "above 1", 1.5, ValueError, "got sigma=1.5") for op in FORMS if "step" in op),
    *(("flow_sde_step", "noise_scale", *row) for row in NUMBERS),
    ("flow_sde_step", "noise_scale", "below 0", -0.1, ValueError, "noise_scale must be finite and not negative"),
    *(("attention", "scale", *row) for row in NUMBERS if row[0] != "none"),
]
ALL = [
    pytest.param(backend, op, {name: value}, error, says.format(name=name), id=f"{backend}, {op}, {name} {what}")
    for op, name, what, value, error, says in BAD
    for backend in FORMS[op]
]


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    INTERPRETED.close()


@pytest.mark.parametrize(("backend", "op", "changes", "error", "says"), ALL)
def test_a_number_that_is_none_or_out_of_range_is_refused(
    backend: str, op: str, changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    given = {**USUAL[op], **changes}
    module, _, function = FORMS[op][backend].partition(":")
    path = f"rung_backends.{backend}.{module}"
    if backend not in ("reference", "accel"):
        pytest.importorskip("torch")
        given = {name: to_torch(value) for name, value in given.items()}
    if backend == "triton":
        if importlib.util.find_spec("triton") is None:
            pytest.skip("triton is not installed")
        with pytest.raises(error, match=says):
            INTERPRETED.call(f"{path}:{function}", **given)
    else:
        form = getattr(importlib.import_module(path), function)
        with pytest.raises(error, match=says):
            form(**given)
