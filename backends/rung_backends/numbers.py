"""What every backend asks of the numbers it is given, each question once, with its wording.

Owns the checks and their messages, so that a call is refused alike whichever backend serves it. Must not see an array.
"""

from __future__ import annotations

import math
import operator

__all__ = ["check_finite", "check_integer", "check_not_negative", "check_number", "check_sigmas"]


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
