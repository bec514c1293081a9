"""What the references ask of their arguments, each question once, with its wording.

Owns the checks that several ops share. Must not compute, change or convert an array.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "check_axes",
    "check_broadcast",
    "check_finite",
    "check_floats",
    "check_integer",
    "check_lengths",
    "check_not_negative",
    "check_number",
    "check_plain",
    "check_same_shape",
    "check_sigmas",
    "given",
]

Array = NDArray[np.floating[Any]]


def given(**arrays: Array | None) -> dict[str, Array]:
    """Give the optional arguments that are there, by name."""
    return {name: array for name, array in arrays.items() if array is not None}


def check_plain(name: str, array: NDArray[Any]) -> None:
    """Raise TypeError for what is no numpy array, and for a masked one, whose mask would have no say."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, got {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain numpy array, got a MaskedArray: fill it, {name}.filled(...)")


def check_floats(**arrays: Array) -> None:
    """Raise TypeError for what is no numpy array of float16, float32 or float64."""
    for name, array in arrays.items():
        check_plain(name, array)
        if array.dtype.type not in (np.float16, np.float32, np.float64):
            raise TypeError(f"{name} must be float16, float32 or float64, got {array.dtype}")


def check_same_shape(**arrays: Array) -> None:
    """Raise ValueError for shapes unlike the first array's, and for a first array without a batch axis."""
    (model, first), *others = arrays.items()
    for name, array in others:
        if array.shape != first.shape:
            raise ValueError(f"{name} must have {model}'s shape {first.shape}, got {array.shape}")
    if first.ndim == 0:
        raise ValueError(f"{model} needs a batch axis: its shape is (), use {model}[None]")


def check_axes(array: Array, *axes: str, name: str = "x") -> None:
    """Raise ValueError for an array that lacks one of the named axes."""
    if array.ndim < len(axes):
        raise ValueError(f"{name} must have the axes (..., {', '.join(axes)}), got shape {array.shape}")


def check_broadcast(shape: tuple[int, ...], what: str, **arrays: NDArray[Any]) -> None:
    """Raise ValueError for an array that does not broadcast to `shape`, which `what` describes."""
    for name, array in arrays.items():
        fits = array.ndim <= len(shape) and all(
            mine in (1, theirs) for mine, theirs in zip(reversed(array.shape), reversed(shape), strict=False)
        )
        if not fits:
            raise ValueError(f"{name} must broadcast to {what} {shape}, got {array.shape}")


def check_lengths(length: int, what: str, **arrays: Array) -> None:
    """Raise ValueError for an array that is no vector of `length`, one element for each of `what`."""
    for name, array in arrays.items():
        if array.shape != (length,):
            raise ValueError(f"{name} must have shape ({length},), one for each of {what}, got {array.shape}")


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


def check_integer(name: str, value: int) -> int:
    """Give the integer as Python's own; raise TypeError for what is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


def check_finite(name: str, value: float, *, within: tuple[float, float] = (-math.inf, math.inf)) -> float:
    """Give the number as a float; raise ValueError if it is not finite or outside of `within`."""
    value = check_number(name, value)
    low, high = within
    if not (-math.inf < value < math.inf and low <= value <= high):
        limits = "" if low == -math.inf else f" and in [{low:g}, {high:g}]"
        raise ValueError(f"{name} must be finite{limits}, got {value}")
    return value


def check_not_negative(name: str, value: float) -> float:
    """Give the number as a float; raise ValueError if it is negative or not finite."""
    value = check_number(name, value)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return value


def check_sigmas(sigma: float, sigma_next: float) -> tuple[float, float]:
    """Give both as floats; raise ValueError unless 0 <= sigma_next <= sigma <= 1."""
    sigma, sigma_next = check_number("sigma", sigma), check_number("sigma_next", sigma_next)
    if not 0.0 <= sigma_next <= sigma <= 1.0:
        raise ValueError(
            f"a step goes down within [0, 1]: need 0 <= sigma_next <= sigma <= 1, "
            f"got sigma={sigma}, sigma_next={sigma_next}"
        )
    return sigma, sigma_next
