"""Bridges: calling a kernel whose arrays are another library's, or on another device, than the caller's.

Owns the conversion of array arguments and results, by what each argument is. Imports an array library only when
an argument of it is met or must be made.
"""

from __future__ import annotations

import functools
import sys

from rung.diagnostics import BridgeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    import numpy as np
    import torch

__all__ = ["bridge", "is_array", "library_of", "to_numpy", "to_torch"]


def library_of(value: object) -> str | None:
    """Give `numpy` or `torch` when the value is an array of that library, else None. Imports neither."""
    # A library that another thread is just importing has no classes yet, and nobody holds an array of it.
    if isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ())):
        return "numpy"
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        return "torch"
    return None


def is_array(value: object) -> bool:
    """Say whether a value is an array rung can bridge."""
    return library_of(value) is not None


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Give a tensor as a numpy array: no copy for one on the CPU with a dtype numpy has.

    bfloat16 and float8, which numpy lacks, become float32, which holds all of their values. Raise BridgeError
    for a tensor that requires grad, and for one that has no values numpy could hold (meta, sparse, quantised).
    """
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise BridgeError(
            "a tensor that requires grad cannot leave torch, for its gradient would be lost: pass tensor.detach(), "
            "or install a backend that serves torch"
        )
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        if name.startswith(("bfloat16", "float8")):
            tensor = tensor.float()
        array: np.ndarray[Any, Any] = tensor.cpu().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise BridgeError(f"a {name} tensor on {tensor.device} cannot become a numpy array: {error}") from error
    return array


def to_torch(array: np.ndarray[Any, Any], device: str | torch.device) -> torch.Tensor:
    """Give a numpy array as a tensor on torch's device `device`; on the CPU without a copy where torch can share it.

    Torch shares what is writable, of native byte order and with strides of whole elements forwards. Raise
    BridgeError for a dtype torch, or the device, does not have.
    """
    import torch

    size = array.dtype.itemsize or 1
    shared = array.flags.writeable and all(stride >= 0 and stride % size == 0 for stride in array.strides)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    elif not shared:
        array = array.copy()
    try:
        return torch.from_numpy(array).to(device)
    except TypeError as error:
        raise BridgeError(f"a numpy array of {array.dtype} cannot become a tensor on {device}: {error}") from error


def _import(value: Any, arrays: str, device: str | None) -> Any:
    """Bring one argument to the cell's library and device; lists, tuples and dicts are searched."""
    library = library_of(value)
    if library is None:
        return _mapped(value, lambda inner: _import(inner, arrays, device))
    if arrays == "numpy":
        return value if library == "numpy" else to_numpy(value)
    if library == "numpy":
        return to_torch(value, device or "cpu")
    return value if device in (None, value.device.type) else value.to(device)


def _export(value: Any, like: Any, dtype: str = "") -> Any:
    """Bring one result back to the library, device and dtype of the first array argument, or to the dtype given.

    The dtype follows where both are floating or both complex: a mask or an index stays what it is.
    """
    library = library_of(value)
    if library is None:
        if library_of(like) == "torch" and isinstance(value, getattr(sys.modules.get("numpy"), "generic", ())):
            # Numpy's reductions give a scalar where torch's give an array without axes.
            return _export(sys.modules["numpy"].asarray(value), like, dtype)
        return _mapped(value, lambda inner: _export(inner, like, dtype))
    if library_of(like) == "numpy":
        array = value if library == "numpy" else to_numpy(value.detach())
        same = array.dtype.kind == like.dtype.kind and array.dtype.kind in "fc"
        wanted = getattr(sys.modules["numpy"], dtype, array.dtype) if dtype else like.dtype
        return array.astype(wanted, copy=False) if same else array
    tensor = value if library == "torch" else to_torch(value, "cpu")
    same = (tensor.is_floating_point() and like.is_floating_point()) or (tensor.is_complex() and like.is_complex())
    wanted = getattr(sys.modules["torch"], dtype, tensor.dtype) if dtype else like.dtype
    return tensor.to(like.device, wanted) if same else tensor.to(like.device)


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


def _first_array(values: Iterable[Any]) -> Any:
    for value in values:
        if library_of(value) is not None:
            return value
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        found = _first_array(inner)
        if found is not None:
            return found
    return None


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    import inspect

    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # written in C, without a signature
        return ()


def bridge(
    function: Callable[..., Any],
    arrays: str,
    device: str | None,
    dtype_of: Callable[[tuple[Any, ...], dict[str, Any]], str] | None = None,
) -> Callable[..., Any]:
    """Wrap a kernel that takes `arrays` (on torch's `device`; None leaves tensors where they are).

    Each array argument is converted by what it is, without a copy where that is possible. Results go back to
    the library and device of the first array argument in the kernel's own order, floating and complex ones to
    its dtype too, or to the one that `dtype_of` gives for the arguments; without an array argument they stay as they
    are. Raise BridgeError for a tensor that requires grad and would leave torch.
    """
    parameters = _parameters(function)

    @functools.wraps(function)
    def bridged(*args: Any, **kwargs: Any) -> Any:
        named = [kwargs[name] for name in parameters if name in kwargs] if kwargs else ()
        like = _first_array((*args, *named, *kwargs.values()))
        result = function(
            *(_import(value, arrays, device) for value in args),
            **{key: _import(value, arrays, device) for key, value in kwargs.items()},
        )
        if like is None:
            return result
        return _export(result, like, "" if dtype_of is None else dtype_of(args, kwargs))

    return bridged
