"""Arguments that are numbers: every backend that has an op refuses the same ones, in the same class of errors."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from aside import Aside
from catalogue import MODULES, to_torch
from rung.probes.toolchain import has_cpp_compiler

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERPRETED = Aside(TRITON_INTERPRET="1")


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    INTERPRETED.close()


class Facts:
    """What the probe for a compiler asks of facts."""

    def os(self) -> str:
        return {"win32": "windows"}.get(sys.platform, sys.platform)

    def env(self, name: str) -> str | None:
        return os.environ.get(name)


BACKENDS = {
    "rms_norm": ["reference", "torch", "triton", "torch_compile"],
    "layer_norm": ["reference", "torch", "triton", "accel"],
    "group_norm": ["reference", "torch"],
}
X = np.ones((2, 4), "float32")
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "rms_norm": ((X,), {"eps": 1e-5}),
    "layer_norm": ((X,), {"eps": 1e-5}),
    "group_norm": ((X,), {"groups": 2, "eps": 1e-5}),
}

NO_NUMBERS: list[tuple[str, Any]] = [
    ("text", "0.5"),
    ("bytes", b"0.5"),
    ("nothing", None),
    ("list", [0.5]),
    ("complex", 0.5j),
]
NOT_USABLE: list[tuple[str, Any]] = [
    ("nan", math.nan),
    ("inf", math.inf),
    ("minus inf", -math.inf),
    ("negative", -1.0),
    ("negative integer", -1),
    ("numpy's nan", np.float32(np.nan)),
    ("beyond float64", 10**400),
]
NO_INTEGERS: list[tuple[str, Any]] = [*NO_NUMBERS, ("float", 2.0)]
NO_GROUPS: list[tuple[str, Any]] = [("none", 0), ("negative", -2), ("indivisible", 3)]

REFUSED: list[tuple[str, str, type[Exception], list[tuple[str, Any]]]] = [
    ("rms_norm", "eps", TypeError, NO_NUMBERS),
    ("rms_norm", "eps", ValueError, NOT_USABLE),
    ("layer_norm", "eps", TypeError, NO_NUMBERS),
    ("layer_norm", "eps", ValueError, NOT_USABLE),
    ("group_norm", "eps", TypeError, NO_NUMBERS),
    ("group_norm", "eps", ValueError, NOT_USABLE),
    ("group_norm", "groups", TypeError, NO_INTEGERS),
    ("group_norm", "groups", ValueError, NO_GROUPS),
]


def call(backend: str, op: str, *args: Any, **kwargs: Any) -> Any:
    """Call a backend's op with numpy arrays or, where it takes those, the tensors that they make."""
    if backend in ("reference", "accel"):
        return getattr(importlib.import_module(f"rung_backends.{backend}.{MODULES[op]}"), op)(*args, **kwargs)
    pytest.importorskip("torch")
    args, kwargs = tuple(map(to_torch, args)), {name: to_torch(value) for name, value in kwargs.items()}
    if backend == "triton":
        if importlib.util.find_spec("triton") is None:
            pytest.skip("triton is not installed")
        return INTERPRETED.call(f"rung_backends.triton.{MODULES[op]}:{op}", *args, **kwargs)
    if backend == "torch_compile" and not has_cpp_compiler(Facts()):
        pytest.skip("no C++ compiler, or no headers of Python")
    module = op if backend == "torch_compile" else MODULES[op]
    return getattr(importlib.import_module(f"rung_backends.{backend}.{module}"), op)(*args, **kwargs)


@pytest.mark.parametrize(
    ("backend", "op", "name", "error", "value"),
    [
        pytest.param(backend, op, name, error, value, id=f"{backend}, {op}, {name} {what}")
        for op, name, error, values in REFUSED
        for backend in BACKENDS[op]
        for what, value in values
    ],
)
def test_refused_alike(backend: str, op: str, name: str, error: type[Exception], value: Any) -> None:
    args, kwargs = CALLS[op]
    with pytest.raises(error, match=f"^{name} must be "):
        call(backend, op, *args, **kwargs | {name: value})


@pytest.mark.parametrize(
    ("backend", "op"), [pytest.param(b, op, id=f"{b}, {op}") for op, served in BACKENDS.items() for b in served]
)
@pytest.mark.parametrize(
    "eps", [0.5, np.float32(0.5), np.float64(0.5), np.array(0.5)], ids=["float", "float32", "float64", "0-d"]
)
def test_numbers_of_every_kind_are_taken(backend: str, op: str, eps: Any) -> None:
    args, kwargs = CALLS[op]
    result = call(backend, op, *args, **kwargs | {"eps": eps})
    assert np.asarray(result).shape == X.shape
