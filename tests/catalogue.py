"""The ops on arrays as tests of their implementations see them: names, functions, what gradients reach."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from rung_backends.reference import cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Case = tuple[tuple[Any, ...], dict[str, Any]]

MODULES = {
    "cfg_combine": "guidance",
    "cfg_flow_match_step": "guidance",
    "gelu": "activation",
    "group_norm": "norm",
    "layer_norm": "norm",
    "modulate": "norm",
    "rms_norm": "norm",
    "rotary_embedding": "rotary",
    "silu_and_mul": "activation",
}
OPS = sorted(MODULES)
MANIFESTS = Path(__file__).parents[1] / "manifests" / "ops"


def implementation(backend: str, op: str) -> Callable[..., Any]:
    """Give a backend's function for an op."""
    found: Callable[..., Any] = getattr(importlib.import_module(f"rung_backends.{backend}.{MODULES[op]}"), op)
    return found


def parity_cases(op: str, dtype: str = "float64") -> list[Case]:
    """Give the inputs on which an op's kernels are compared."""
    return list(getattr(cases, op)(dtype, np.random.default_rng(0)))


def tolerance(op: str, dtype: str) -> dict[str, float]:
    """Give an op's tolerance, as numpy takes it."""
    manifest = yaml.safe_load((MANIFESTS / f"{MODULES[op]}.yaml").read_text("utf-8"))
    found: dict[str, float] = manifest["ops"][op]["tolerance"][dtype]
    return found


def to_torch(value: Any, dtype: str | None = None) -> Any:
    """Give an array as a tensor, of the dtype if one is named; anything else as it is."""
    import torch

    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.from_numpy(value if value.flags.writeable else value.copy())
    return tensor if dtype is None else tensor.to(getattr(torch, dtype))


def through_torch(function: Callable[..., Any]) -> Callable[..., NDArray[Any]]:
    """Pass numpy arrays as the tensors that share their memory."""

    def call(*args: Any, **kwargs: Any) -> NDArray[Any]:
        result = function(*map(to_torch, args), **{name: to_torch(value) for name, value in kwargs.items()})
        array: NDArray[Any] = result.numpy()
        return array

    return call
