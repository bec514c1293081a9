"""What the references ask of their arguments, each question once, with its wording.

Owns the checks of arrays that several ops share. Must not compute, change or convert an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "check_axes",
    "check_broadcast",
    "check_floats",
    "check_lengths",
    "check_plain",
    "check_same_shape",
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
