"""Activation functions, as the oracle answers them.

Owns the contract of `silu_and_mul` and `gelu`: formulas and conventions are stated here, and every other
implementation follows them. Works in float64 and rounds once, at the end. Must not trade accuracy for speed,
change an argument, or import anything but numpy and the references' helpers.

Both are x times a factor between 0 and 1. Where the factor is tiny it is computed as such and not as what is left
of 1, so an answer far down the negative side is as accurate as any. At -inf that product is -inf * 0, which is
NaN in every array library and therefore here, although the limit is -0.
"""

from __future__ import annotations

import math

import numpy as np

from rung_backends.reference.checks import Array, check_axes, check_floats
from rung_backends.reference.floats import Wide, as_ieee_says, wide

__all__ = ["gelu", "silu_and_mul"]

_erfc = np.frompyfunc(math.erfc, 1, 1)  # numpy has none, and this one is accurate where it is small


@as_ieee_says
def silu_and_mul(x: Array) -> Array:
    """Gate one half of the last axis with the other: ``silu(x[..., :d]) * x[..., d:]``, silu(a) = a / (1 + exp(-a)).

    The SwiGLU of Shazeer, "GLU Variants Improve Transformer", 2020, after its linear layer; silu is from Elfwing,
    Uchibe and Doya, "Sigmoid-Weighted Linear Units for Neural Network Function Approximation in Reinforcement
    Learning", 2017.

    Args:
        x: float16, float32 or float64, shape (..., 2d).

    Returns:
        A new array of shape (..., d) and x's dtype.

    Raises:
        TypeError: x is no numpy array or has another dtype.
        ValueError: x has no axis, or an odd number of elements along the last.

    """
    check_floats(x=x)
    check_axes(x, "2d")
    if x.shape[-1] % 2:
        raise ValueError(f"x's last axis holds two halves and must be even, got shape {x.shape}")
    gate, value = np.split(wide(x), 2, axis=-1)
    return np.asarray(gate * _sigmoid(gate) * value, dtype=x.dtype)


@as_ieee_says
def gelu(x: Array, *, approximate: str = "none") -> Array:
    """Weigh each element with the chance that a standard normal draw is below it: ``x * Phi(x)``.

    Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016. Phi(x) = erfc(-x / sqrt(2)) / 2; their
    approximation, "tanh", takes (1 + tanh(u)) / 2 for it, u = sqrt(2 / pi) * (x + 0.044715 * x**3), which is the
    logistic function of 2u.

    Args:
        x: float16, float32 or float64, any shape, () too.
        approximate: "none" or "tanh".

    Returns:
        A new array of x's shape and dtype.

    Raises:
        TypeError: x is no numpy array or has another dtype.
        ValueError: approximate is another word.

    """
    check_floats(x=x)
    values = wide(x)
    if approximate == "none":
        factor = 0.5 * np.asarray(_erfc(values * -math.sqrt(0.5)), dtype=np.float64)
    elif approximate == "tanh":
        factor = _sigmoid(math.sqrt(8.0 / math.pi) * (values + 0.044715 * values * values * values))
    else:
        raise ValueError(f'approximate must be "none" or "tanh", got {approximate!r}')
    return np.asarray(values * factor, dtype=x.dtype)


def _sigmoid(x: Wide) -> Wide:
    """1 / (1 + exp(-x)), with an exponential that cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0.0, 1.0, small) / (1.0 + small))
