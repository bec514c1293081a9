"""Normalisation and its modulation, as the oracle answers them.

Owns the contract of `rms_norm`, `layer_norm`, `group_norm` and `modulate`: formulas and conventions are stated
here, and every other implementation follows them. Works in float64 and rounds once, at the end. Must not trade
accuracy for speed, change an argument, or import anything but numpy and the references' helpers.

What the three norms share:

* Statistics are over a row: the last axis, or one group of channels. Its deviation divides by its length.
* A row of zeros (of equal elements, where the mean is taken away) gives zeros, and NaN if eps is 0 as well.
* A NaN makes its whole row NaN. An infinity leaves nothing of a row with a mean; without one it is NaN itself,
  inf / inf, and 0 everywhere else.
* The answer holds for every finite row. A kernel squares elements in the type it computes in, float32 for the
  half types, and may lose rows whose sum of squares leaves that type's range: in float32, elements of about 1e18 and
  more, and without eps those of about 1e-23 and less, whose squares are 0 and whose quotients infinite.
"""

from __future__ import annotations

import numpy as np

from rung_backends.numbers import check_integer, check_not_negative
from rung_backends.reference.checks import Array, check_axes, check_broadcast, check_floats, check_lengths, given
from rung_backends.reference.floats import Wide, as_ieee_says, normalised, wide

__all__ = ["group_norm", "layer_norm", "modulate", "rms_norm"]


@as_ieee_says
def rms_norm(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    """Divide each row by its root mean square: ``x / sqrt(mean(x**2) + eps) * weight`` over the last axis.

    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019; eps is added to the mean square.

    Args:
        x: float16, float32 or float64, shape (..., D).
        weight: Shape (D,), any of those dtypes; 1 if not given.
        eps: Finite, not negative.

    Returns:
        A new array of x's shape and dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype, or eps is no number.
        ValueError: x has no axis, weight is no vector of D, or eps is not usable.

    """
    check_floats(x=x, **given(weight=weight))
    check_axes(x, "D")
    check_lengths(x.shape[-1], "the elements of x's last axis", **given(weight=weight))
    eps = check_not_negative("eps", eps)
    if x.size == 0:
        return np.array(x)
    return _affine(normalised(wide(x), eps, centre=False), weight, None).astype(x.dtype)


@as_ieee_says
def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5) -> Array:
    """Centre each row and divide by its deviation: ``(x - mean) / sqrt(var + eps) * weight + bias``, last axis.

    Ba, Kiros and Hinton, "Layer Normalization", 2016. var is the mean of ``(x - mean)**2``.

    Args:
        x: float16, float32 or float64, shape (..., D).
        weight: Shape (D,), any of those dtypes; 1 if not given.
        bias: Shape (D,), any of those dtypes; 0 if not given.
        eps: Finite, not negative.

    Returns:
        A new array of x's shape and dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype, or eps is no number.
        ValueError: x has no axis, weight or bias is no vector of D, or eps is not usable.

    """
    vectors = given(weight=weight, bias=bias)
    check_floats(x=x, **vectors)
    check_axes(x, "D")
    check_lengths(x.shape[-1], "the elements of x's last axis", **vectors)
    eps = check_not_negative("eps", eps)
    if x.size == 0:
        return np.array(x)
    return _affine(normalised(wide(x), eps, centre=True), weight, bias).astype(x.dtype)


@as_ieee_says
def group_norm(
    x: Array, groups: int, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """Normalise groups of channels: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Wu and He, "Group Normalization", 2018. A row is one sample's C / groups neighbouring channels with all the
    axes behind them; weight and bias are the channels'.

    Args:
        x: float16, float32 or float64, shape (N, C, ...): two axes or more.
        groups: How many groups the channels form; divides C.
        weight: Shape (C,), any of those dtypes; 1 if not given.
        bias: Shape (C,), any of those dtypes; 0 if not given.
        eps: Finite, not negative.

    Returns:
        A new array of x's shape and dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype, groups is no integer or eps no number.
        ValueError: x has fewer than two axes, groups does not divide C, weight or bias is no vector of C, or eps
            is not usable.

    """
    vectors = given(weight=weight, bias=bias)
    check_floats(x=x, **vectors)
    groups = check_integer("groups", groups)
    if x.ndim < 2:
        raise ValueError(f"x must have the axes (N, C, ...), got shape {x.shape}")
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise ValueError(f"groups must be 1 or more and divide x's {channels} channels, got {groups}")
    check_lengths(channels, "x's channels", **vectors)
    eps = check_not_negative("eps", eps)
    if x.size == 0:
        return np.array(x)
    rows = normalised(wide(x).reshape(x.shape[0], groups, -1), eps, centre=True)
    return _affine(rows.reshape(x.shape), weight, bias, trailing=x.ndim - 2).astype(x.dtype)


@as_ieee_says
def modulate(x: Array, shift: Array, scale: Array) -> Array:
    """Scale and shift: ``x * (1 + scale) + shift``.

    The adaptive part of adaLN (Peebles and Xie, "Scalable Diffusion Models with Transformers", 2023); zeros leave x
    as it is.

    Args:
        x: float16, float32 or float64, any shape, () too.
        shift: Broadcasts to x's shape by numpy's rules, any of those dtypes.
        scale: As shift.

    Returns:
        A new array of x's shape and dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype.
        ValueError: shift or scale does not broadcast to x's shape.

    """
    check_floats(x=x, shift=shift, scale=scale)
    check_broadcast(x.shape, "x's shape", shift=shift, scale=scale)
    result = wide(x) * (1.0 + wide(scale)) + wide(shift)
    return np.asarray(result, dtype=x.dtype)


def _affine(rows: Wide, weight: Array | None, bias: Array | None, *, trailing: int = 0) -> Wide:
    """Multiply by weight and add bias, vectors along the axis that `trailing` others follow."""
    if weight is not None:
        rows = rows * wide(weight).reshape(-1, *(1,) * trailing)
    if bias is not None:
        rows = rows + wide(bias).reshape(-1, *(1,) * trailing)
    return rows
