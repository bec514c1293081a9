"""Bridges: calling a kernel whose arrays are another library's, or on another device, than the caller's.

Owns the conversion of array arguments and results, by what each argument is. Imports an array library only when
an argument of it is met or must be made.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from rung.diagnostics import BridgeError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import torch

__all__ = ["TORCH_DEVICES", "bridge", "is_array", "library_of", "to_numpy", "to_torch"]

TORCH_DEVICES: Final = {"cuda": "cuda", "rocm": "cuda", "mps": "mps", "xpu": "xpu"}
"""What torch calls rung's devices; every other device is the CPU to torch. ROCm answers to `cuda` in torch."""

# dtypes numpy lacks: they cross through float32, which holds all of their values exactly.
_THROUGH_FLOAT32: Final = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def library_of(value: object) -> str | None:
    """Give `numpy` or `torch` when the value is an array of that library, else None. Imports neither."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    return None


def is_array(value: object) -> bool:
    """Say whether a value is an array rung can bridge."""
    return library_of(value) is not None


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Give a tensor as a numpy array: no copy for one on the CPU with a dtype numpy has.

    bfloat16 and float8 become float32. Raise BridgeError for a tensor that requires grad.
    """
    if tensor.requires_grad:
        raise BridgeError(
            "a tensor that requires grad cannot leave torch: the gradient would be lost. "
            "Call under torch.no_grad() with detached tensors, or install a backend that serves torch"
        )
    name = _dtype_name(tensor)
    if name in _THROUGH_FLOAT32:
        tensor = tensor.float()
    try:
        array: np.ndarray[Any, Any] = tensor.detach().cpu().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise BridgeError(f"a {name} tensor cannot become a numpy array: {error}") from error
    return array


def to_torch(array: np.ndarray[Any, Any], device: str) -> torch.Tensor:
    """Give a numpy array as a tensor on torch's device `device`: no copy on the CPU where strides allow it."""
    import torch

    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    try:
        return torch.from_numpy(array).to(device)
    except TypeError as error:
        raise BridgeError(f"a numpy array of {array.dtype} cannot become a tensor: {error}") from error


def _import(value: Any, arrays: str, device: str | None) -> Any:
    """Bring one argument to the cell's library and device; lists, tuples and dicts are searched."""
    library = library_of(value)
    if library is None:
        return _mapped(value, lambda inner: _import(inner, arrays, device))
    if arrays == "numpy":
        return value if library == "numpy" else to_numpy(value)
    if library == "numpy":
        return to_torch(value, device or "cpu")
    return value if device is None else value.to(device)


def _export(value: Any, like: Any) -> Any:
    """Bring one result back to the library, device and (where floating) dtype of the first array argument."""
    library = library_of(value)
    if library is None:
        return _mapped(value, lambda inner: _export(inner, like))
    if library_of(like) == "numpy":
        array = value if library == "numpy" else to_numpy(value.detach())
        floats = array.dtype.kind == "f" and like.dtype.kind == "f"
        return array.astype(like.dtype, copy=False) if floats else array
    tensor = value if library == "torch" else to_torch(value, "cpu")
    floats = tensor.is_floating_point() and like.is_floating_point()
    return tensor.to(like.device, like.dtype) if floats else tensor.to(like.device)


def _mapped(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Apply `convert` inside the containers ops may use, keeping their type."""
    if isinstance(value, tuple):
        items = [convert(inner) for inner in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [convert(inner) for inner in value]
    if isinstance(value, dict):
        return {key: convert(inner) for key, inner in value.items()}
    return value


def _first_array(*values: Any) -> Any:
    for value in values:
        if library_of(value) is not None:
            return value
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        found = _first_array(*inner)
        if found is not None:
            return found
    return None


def bridge(function: Callable[..., Any], arrays: str, device: str | None) -> Callable[..., Any]:
    """Wrap a kernel that takes `arrays` (on torch's `device`; None leaves tensors where they are).

    Each array argument is converted by what it is, without a copy where that is possible. Results go back to
    the library and device of the first array argument, floating ones to its dtype too. Raise BridgeError for
    a tensor that requires grad and would leave torch.
    """

    @functools.wraps(function)
    def bridged(*args: Any, **kwargs: Any) -> Any:
        like = _first_array(*args, *kwargs.values())
        result = function(
            *(_import(value, arrays, device) for value in args),
            **{key: _import(value, arrays, device) for key, value in kwargs.items()},
        )
        return result if like is None else _export(result, like)

    return bridged
