"""Activation functions on the stand-in accelerator.

Owns its form of the contract of `rung_backends.reference.activation`: tanh on the vector unit, and erf, which numpy
lacks, on the scalar unit, one element after another in Python. Computes halves in float32 and rounds once. Must not
import the reference, nor change an argument.
"""

from __future__ import annotations

import math

import numpy as np

from rung_backends.accel.checks import Array, check_floats
from rung_backends.accel.floats import as_ieee_says, widened

__all__ = ["gelu"]


@as_ieee_says
def gelu(x: Array, *, approximate: str = "none") -> Array:
    """Weigh each element with the chance that a standard normal draw is below it: ``x * Phi(x)``.

    Source, shapes, dtypes and errors: `rung_backends.reference.activation.gelu`. Takes 1 + erf or 1 + tanh for twice
    that chance, so far down the negative side an answer is as accurate as its dtype is at x, and not at the answer.
    """
    wide = check_floats(x=x)
    values = widened(x, wide)
    if approximate == "none":
        twice = np.array([math.erf(v) for v in (values * math.sqrt(0.5)).flat], dtype=wide).reshape(x.shape)
    elif approximate == "tanh":
        inner = values * values
        inner *= values
        inner *= 0.044715
        inner += values
        inner *= math.sqrt(2.0 / math.pi)
        twice = np.tanh(inner)
    else:
        raise ValueError(f'approximate must be "none" or "tanh", got {approximate!r}')
    twice += 1.0
    twice *= 0.5
    return np.asarray(values * twice, dtype=x.dtype)
