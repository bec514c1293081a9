"""Activation functions, as the oracle answers them.

Owns the contract of `silu_and_mul` and `gelu`: formulas and conventions are stated here, and every other
implementation follows them. Works in float64 and rounds once, at the end. Must not trade accuracy for speed,
change an argument, or import anything but numpy and the references' helpers.

Both are x times a factor between 0 and 1. Where the factor is tiny it is computed as such and not as what is left
of 1, and from an argument that keeps what its rounding has lost, so an answer far down the negative side is as
accurate as any: within 4 units in the last place of float64 (3.3 were measured), unless the factor is below the normal
numbers. At -inf that product is -inf * 0, which is NaN in every array library and therefore here, although the limit
is -0.
"""

from __future__ import annotations

import math

import numpy as np

from rung_backends.reference.checks import Array, check_axes, check_floats
from rung_backends.reference.floats import Wide, as_ieee_says, wide

__all__ = ["gelu", "silu_and_mul"]

_erfc = np.frompyfunc(math.erfc, 1, 1)  # numpy has none, and this one is accurate where it is small

# A number that float64 rounds, and what the rounding has lost: their sum has twice the digits.
Pair = tuple[Wide | float, Wide | float]

_MINUS_ROOT_HALF = (-0.7071067811865476, 4.833646656726457e-17)
_ROOT_8_OVER_PI = (1.5957691216057308, -9.96930880911092e-17)
_CUBIC = (0.044715, 2.1960211427085595e-18)


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
    near: Pair = np.clip(values, -40.0, 40.0), 0.0  # the factor is 0 or 1 from there on
    if approximate == "none":
        y, lost = _times(near, _MINUS_ROOT_HALF)
        # The chance at y + lost, by the slope of erfc.
        factor = 0.5 * np.asarray(_erfc(y), dtype=np.float64) - np.exp(-np.square(y)) / math.sqrt(math.pi) * lost
    elif approximate == "tanh":
        y, lost = _times(_times(near, _ROOT_8_OVER_PI), _one_plus(_times(_CUBIC, _times(near, near))))
        factor = _sigmoid(y)
        factor = factor + factor * (1.0 - factor) * lost
    else:
        raise ValueError(f'approximate must be "none" or "tanh", got {approximate!r}')
    return np.asarray(values * factor, dtype=x.dtype)


def _sigmoid(x: Wide | float) -> Wide:
    """1 / (1 + exp(-x)), with an exponential that cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0.0, 1.0, small) / (1.0 + small))


def _times(a: Pair, b: Pair) -> Pair:
    """Multiply, after Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971."""
    (x, x_lost), (y, y_lost) = a, b
    product = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    lost = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, lost + (x * y_lost + x_lost * y)


def _one_plus(a: Pair) -> Pair:
    """Add 1, after Knuth, "The Art of Computer Programming", volume 2, section 4.2.2."""
    x, x_lost = a
    total = 1.0 + x
    grown = total - 1.0
    return total, (1.0 - (total - grown)) + (x - grown) + x_lost


def _halves(x: Wide | float) -> tuple[Wide, Wide]:
    """Split into two numbers of few enough digits that products of them are exact, or all but exact."""
    high = np.asarray(x, dtype=np.float32).astype(np.float64)
    return high, x - high
