"""The matrix product of scaled float8 matrices, as the oracle answers it.

Owns the contract of `scaled_mm`: formula, shapes and roundings are stated here, and every other implementation
follows them. Works in float64 and rounds once, at the end. Must not trade accuracy for speed, change an
argument, or import anything but numpy and the references' helpers.
"""

from __future__ import annotations

import numpy as np

from rung_backends.reference.checks import Array, check_floats, given
from rung_backends.reference.floats import as_ieee_says, wide
from rung_backends.reference.rounding import rounded

__all__ = ["scaled_mm"]

_OUT_DTYPES = ("bfloat16", "float16", "float32", "float64")


@as_ieee_says
def scaled_mm(
    a: Array,
    b: Array,
    scale_a: Array,
    scale_b: Array,
    *,
    bias: Array | None = None,
    out_dtype: str = "bfloat16",
) -> Array:
    """Multiply two float8 matrices and scale the product back: ``(a @ b) * scale_a * scale_b + bias``.

    A float8 matrix is stored divided by its scale so that its values fill the type's range, one scale for the
    whole matrix or one for each row of `a` and column of `b` (Micikevicius et al., "FP8 Formats for Deep
    Learning", 2022). numpy has no float8: the matrices come as float arrays that hold float8 values, which are
    used as they are.

    The scales of rows and columns may as well be multiplied into the matrices, ``(a * scale_a) @ (b * scale_b)``, as
    long as they are finite. They come after the product here because float8 hardware has them there, and a scale that
    is not finite shows it: an infinite one gives an infinity of the product's sign, NaN where that is 0, and NaN gives
    NaN. A NaN in `a` makes its row NaN, one in `b` its column; an infinity reaches as far, and is NaN where it meets 0
    or an infinity of the other sign. A kernel that scales in float32 loses what leaves that type's range on the way,
    the product times scale_a.

    Args:
        a: (M, K), float16, float32 or float64.
        b: (K, N), any of those dtypes.
        scale_a: One element, in shape (), (1,) or (1, 1), or shape (M, 1); any of those dtypes.
        scale_b: One element likewise, or shape (1, N).
        bias: (N,), any of those dtypes.
        out_dtype: "bfloat16", "float16", "float32" or "float64". numpy has no bfloat16 either: asked for it, the
            result is float32 with values rounded to bfloat16 (to nearest, of two equally near the even one).

    Returns:
        A new array (M, N) of `out_dtype`. Where K = 0 it is the bias, or zeros. What passes the range of
        `out_dtype` is infinite.

    Raises:
        TypeError: An array is no numpy array or has another dtype.
        ValueError: Shapes do not fit, or `out_dtype` is none of the four.

    """
    _check(a, b, scale_a, scale_b, bias, out_dtype)
    total = (wide(a) @ wide(b)) * wide(scale_a) * wide(scale_b)
    if bias is not None:
        total = total + wide(bias)
    if out_dtype == "bfloat16":
        return rounded(total, out_dtype).astype(np.float32)
    return total.astype(out_dtype, copy=False)


def _check(a: Array, b: Array, scale_a: Array, scale_b: Array, bias: Array | None, out_dtype: str) -> None:
    check_floats(a=a, b=b, scale_a=scale_a, scale_b=scale_b, **given(bias=bias))
    if not isinstance(out_dtype, str) or out_dtype not in _OUT_DTYPES:
        raise ValueError(f"out_dtype must be one of {', '.join(_OUT_DTYPES)}, got {out_dtype!r}")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"need a of shape (M, K) and b of shape (K, N), got {a.shape} and {b.shape}")
    rows, columns = a.shape[0], b.shape[1]
    for name, scale, shape in (("scale_a", scale_a, (rows, 1)), ("scale_b", scale_b, (1, columns))):
        if scale.shape not in ((), (1,), (1, 1), shape):
            raise ValueError(f"{name} must have one element or shape {shape}, got {scale.shape}")
    if bias is not None and bias.shape != (columns,):
        raise ValueError(f"bias must have shape {(columns,)}, one element for each column of b, got {bias.shape}")
