"""Rounding to the floating-point formats that numpy lacks.

Owns bfloat16 and the two float8 kinds as sets of values: which there are, and which of them is nearest. Must not
know what the values are for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rung_backends.reference.floats import as_ieee_says

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FORMATS", "Format", "rounded"]


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point format: its precision, its ends, and what lies beyond them.

    `bits` counts significant bits, the implied one included; `lowest` is the exponent of the smallest subnormal
    number; `largest` the largest finite one. What passes it becomes that number if the format `saturates`,
    else infinite.
    """

    bits: int
    lowest: int
    largest: float
    saturates: bool


# Float8: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, table 1. e4m3fn has no infinity; e5m2 has, but
# what is quantised to either is meant to stay finite, so both saturate here.
FORMATS = {
    "bfloat16": Format(8, -133, (2.0 - 2.0**-7) * 2.0**127, saturates=False),
    "float8_e4m3fn": Format(4, -9, 448.0, saturates=True),
    "float8_e5m2": Format(3, -16, 57344.0, saturates=True),
}


@as_ieee_says  # what rounds past float64's range, or below it, has passed the format's
def rounded(values: NDArray[np.floating[Any]], name: str) -> NDArray[np.float64]:
    """Give the nearest values of a format, of two equally near the even one, as a new float64 array.

    Args:
        values: Any floating dtype numpy has, any shape.
        name: A key of `FORMATS`.

    Returns:
        float64, of values' shape. NaN stays NaN and signs of zero are kept; infinities are beyond the largest
        value like any other number there.

    """
    form = FORMATS[name]
    wide = values.astype(np.float64)
    # Where the last significant bit of each value lies, the subnormal numbers' being the lowest. NaN and the
    # infinities have no such place, but stay themselves under any scaling.
    _, exponent = np.frexp(wide)
    step = np.maximum(exponent - form.bits, form.lowest)
    nearest: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(wide, -step)), step)
    beyond = np.abs(nearest) > form.largest
    return np.where(beyond, np.copysign(form.largest if form.saturates else np.inf, nearest), nearest)
