"""The arithmetic that the vector unit's kernels share.

Owns how arrays are laid out for it, how rows are centred, and what is answered beyond a dtype's range. Must not know
any op.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from rung_backends.accel.checks import Array

__all__ = ["as_ieee_says", "centred", "mean_square", "widened"]

P = ParamSpec("P")
R = TypeVar("R")


def as_ieee_says(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that may answer infinity or NaN: an answer like any other, but numpy would warn.

    Each call has a context of its own: before numpy 2 a shared one carries a thread's settings into another.
    """

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return quiet


def widened(array: Array, dtype: np.dtype[np.floating[Any]]) -> Array:
    """Give a copy to work in, row after row, so that a sum does not depend on where its elements lay."""
    return array.astype(dtype, order="C")


def centred(rows: Array) -> Array:
    """Take its mean away from each row, the last axis.

    Its first element goes before: of a row of equal elements nothing is left then, where rounding the mean would
    leave something that eps cannot hide.
    """
    shifted = rows - rows[..., :1]
    return np.asarray(shifted - shifted.mean(axis=-1, keepdims=True))


def mean_square(rows: Array) -> Array:
    """Give the mean of each row's squares, in shape (..., 1)."""
    return np.asarray(np.square(rows).mean(axis=-1, keepdims=True))
