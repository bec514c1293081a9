"""What the stand-in's kernels ask of their arguments, and the dtype the answers mean for the vector unit.

Owns the checks that several ops share. Must not compute, change or convert an array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "check_alike",
    "check_broadcast",
    "check_eps",
    "check_finite",
    "check_floats",
    "check_number",
    "check_vectors",
    "descent",
    "given",
]

Array = NDArray[np.floating[Any]]


def given(**arrays: Array | None) -> dict[str, Array]:
    """Give the optional arguments that are there, by name."""
    return {name: array for name, array in arrays.items() if array is not None}


def check_floats(**arrays: Array) -> np.dtype[np.floating[Any]]:
    """Give the dtype to compute in, the widest of float32 and the arrays'.

    Raise TypeError for what is no numpy array of float16, float32 or float64.
    """
    wide = np.dtype(np.float32)
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} must be a numpy array, got {type(array).__name__}")
        if array.dtype.type not in (np.float16, np.float32, np.float64):
            raise TypeError(f"{name} must be float16, float32 or float64, got {array.dtype}")
        wide = np.promote_types(wide, array.dtype)
    return wide


def check_alike(**arrays: Array) -> None:
    """Raise ValueError unless all have the first array's shape, and that a batch axis."""
    (model, first), *others = arrays.items()
    if not first.shape:
        raise ValueError(f"{model} needs a batch axis: its shape is (), use {model}[None]")
    for name, array in others:
        if array.shape != first.shape:
            raise ValueError(f"{name} must have {model}'s shape {first.shape}, got {array.shape}")


def check_broadcast(shape: tuple[int, ...], what: str, **arrays: Array | NDArray[np.bool_]) -> None:
    """Raise ValueError for an array that does not broadcast to `shape`, which `what` describes."""
    for name, array in arrays.items():
        padded = (1,) * (len(shape) - array.ndim) + array.shape
        if len(padded) > len(shape) or any(mine not in (1, theirs) for mine, theirs in zip(padded, shape, strict=True)):
            raise ValueError(f"{name} must broadcast to {what} {shape}, got {array.shape}")


def check_vectors(x: Array, **vectors: Array) -> None:
    """Raise ValueError unless x has a last axis and each vector one element for each of it."""
    if not x.shape:
        raise ValueError("x must have the axes (..., D), got shape ()")
    for name, vector in vectors.items():
        if vector.shape != x.shape[-1:]:
            raise ValueError(
                f"{name} must have shape {x.shape[-1:]}, one for each of the elements of x's last axis, "
                f"got {vector.shape}"
            )


def check_number(name: str, value: float) -> float:
    """Give the number as a float; raise TypeError for what is none, text included, ValueError beyond its range."""
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be within float64's range, got an integer beyond it") from None
    except TypeError:
        raise TypeError(f"{name} must be a number, got {type(value).__name__}") from None


def check_finite(name: str, value: float, *, within: tuple[float, float] = (-math.inf, math.inf)) -> float:
    """Give the number as a float; raise ValueError if it is not finite or outside of `within`."""
    value = check_number(name, value)
    low, high = within
    if math.isfinite(value) and low <= value <= high:
        return value
    limits = "" if low == -math.inf else f" and in [{low:g}, {high:g}]"
    raise ValueError(f"{name} must be finite{limits}, got {value}")


def check_eps(eps: float) -> float:
    """Give eps as a float; raise ValueError if it is negative or not finite."""
    eps = check_number("eps", eps)
    if 0.0 <= eps < math.inf:
        return eps
    raise ValueError(f"eps must be finite and not negative, got {eps}")


def descent(sigma: float, sigma_next: float) -> float:
    """Give sigma - sigma_next; raise ValueError for a step that leaves [0, 1] or goes up."""
    sigma, sigma_next = check_number("sigma", sigma), check_number("sigma_next", sigma_next)
    if 0.0 <= sigma_next <= sigma <= 1.0:
        return sigma - sigma_next
    raise ValueError(
        f"a step goes down within [0, 1]: need 0 <= sigma_next <= sigma <= 1, "
        f"got sigma={sigma}, sigma_next={sigma_next}"
    )
