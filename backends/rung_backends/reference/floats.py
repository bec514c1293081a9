"""The float64 arithmetic that references share: widening, the rules of IEEE 754, and moments of rows.

Two things go wrong with moments. Squares leave float64's range long before the elements do, so a row is first
scaled by a power of two, which rounds nothing. A mean of squares less the square of a mean cancels, so rows are
centred first, and on the element nearest their mean before their mean: a row of equal elements has deviation 0 then,
and not what rounding the mean has left. Must not know any op, nor round to another dtype.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from rung_backends.reference.checks import Array

__all__ = ["Wide", "as_ieee_says", "deviation", "normalised", "wide"]

Wide = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")


def as_ieee_says(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function answer infinity, NaN or 0 without a warning, as every array library but numpy does."""

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return quiet


def wide(array: Array) -> Wide:
    """Give it in float64 and row after row, so that a sum does not depend on where its elements lay.

    A subclass of numpy's array is left behind; an array that is float64 and in order already is given itself.
    """
    return np.asarray(array, dtype=np.float64, order="C")


def normalised(rows: Wide, eps: float, *, centre: bool) -> Wide:
    """Divide rows, the last axis, by ``sqrt(mean(rows**2) + eps)``; by `centre` take their mean away before.

    Any finite row has its answer. A NaN makes a row NaN; an infinity turns the rest of its row to 0 and is NaN
    itself, and leaves NaN alone where a mean is taken away.
    """
    exponent = _exponent(rows)
    scaled = np.ldexp(rows, -exponent)
    if centre:
        scaled = _centred(scaled)
    return np.asarray(scaled / np.hypot(_root_mean_square(scaled), np.ldexp(math.sqrt(eps), -exponent)))


def deviation(rows: Wide) -> Wide:
    """Give each row's standard deviation, ``sqrt(mean((rows - mean(rows))**2))``, in shape (..., 1)."""
    exponent = _exponent(rows)
    return np.asarray(np.ldexp(_root_mean_square(_centred(np.ldexp(rows, -exponent))), exponent))


def _exponent(rows: Wide) -> NDArray[np.intc]:
    """Give e such that a row's largest element is about 2**e, held where 2**-e and sqrt(eps) * 2**-e are floats."""
    largest = np.max(np.abs(rows), axis=-1, keepdims=True)
    _, exponent = np.frexp(np.where(np.isfinite(largest), largest, 0.0))
    return np.clip(exponent, -600, 530)


def _centred(rows: Wide) -> Wide:
    # The nearest, for another element may be so far away that the differences from it are rounded at its size.
    distance = np.abs(rows - np.mean(rows, axis=-1, keepdims=True))
    shifted = rows - np.take_along_axis(rows, np.argmin(distance, axis=-1, keepdims=True), axis=-1)
    return np.asarray(shifted - np.mean(shifted, axis=-1, keepdims=True))


def _root_mean_square(rows: Wide) -> Wide:
    return np.asarray(np.sqrt(np.mean(np.square(rows), axis=-1, keepdims=True)))
