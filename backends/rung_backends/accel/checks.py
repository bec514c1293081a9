"""What the stand-in's kernels ask of their arguments, and the dtype the answers mean for the vector unit.

Owns the checks of arrays that several ops share. Must not compute, change or convert an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rung_backends.numbers import check_sigmas

__all__ = [
    "Array",
    "check_alike",
    "check_broadcast",
    "check_floats",
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


def descent(sigma: float, sigma_next: float) -> float:
    """Give sigma - sigma_next; raise ValueError for a step that leaves [0, 1] or goes up."""
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    return sigma - sigma_next
