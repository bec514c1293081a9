"""Classifier-free guidance on the stand-in accelerator's vector unit.

Owns its form of the contract of `rung_backends.reference.guidance`. Computes halves in float32 and rounds once. Must
not import the reference, nor change an argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rung_backends.accel.checks import Array, check_alike, check_floats, descent
from rung_backends.accel.floats import as_ieee_says, centred, mean_square, widened
from rung_backends.numbers import check_finite

__all__ = ["cfg_combine", "cfg_flow_match_step"]


@as_ieee_says
def cfg_combine(cond: Array, uncond: Array, guidance_scale: float, *, rescale: float = 0.0) -> Array:
    """Guide a prediction: ``out = uncond + guidance_scale * (cond - uncond)``, its deviation brought back by `rescale`.

    With phi = rescale, ``phi * out * std(cond) / std(out) + (1 - phi) * out``. Source, shapes, dtypes, ranges and
    errors: `rung_backends.reference.guidance.cfg_combine`.
    """
    wide = check_floats(cond=cond, uncond=uncond)
    check_alike(cond=cond, uncond=uncond)
    most = float(np.finfo(wide).max)
    guidance_scale = check_finite(
        "guidance_scale", check_finite("guidance_scale", guidance_scale), within=(-most, most)
    )
    rescale = check_finite("rescale", rescale, within=(0.0, 1.0))
    guided = _guided(cond, uncond, guidance_scale, wide)
    if rescale and guidance_scale != 1.0 and guided.size:
        samples = guided.reshape(len(guided), -1)  # a view
        wanted, found = (_deviation(rows) for rows in (widened(cond, wide).reshape(samples.shape), samples))
        flat = found == 0.0
        samples *= 1.0 - rescale + rescale * np.where(flat, 1.0, wanted / np.where(flat, 1.0, found))
    return guided.astype(cond.dtype, copy=False)


@as_ieee_says
def cfg_flow_match_step(
    sample: Array, cond: Array, uncond: Array, guidance_scale: float, sigma: float, sigma_next: float
) -> Array:
    """Take the Euler step along a guided velocity, in one: nothing is rounded between the two.

    ``sample + (sigma_next - sigma) * (uncond + guidance_scale * (cond - uncond))``. Source, shapes, dtypes, ranges and
    errors: `rung_backends.reference.guidance.cfg_flow_match_step`.
    """
    wide = check_floats(sample=sample, cond=cond, uncond=uncond)
    check_alike(sample=sample, cond=cond, uncond=uncond)
    most = float(np.finfo(wide).max)
    guidance_scale = check_finite(
        "guidance_scale", check_finite("guidance_scale", guidance_scale), within=(-most, most)
    )
    result = _guided(cond, uncond, guidance_scale, wide)
    result *= -descent(sigma, sigma_next)
    result += sample
    return result.astype(sample.dtype, copy=False)


def _guided(cond: Array, uncond: Array, guidance_scale: float, wide: np.dtype[np.floating[Any]]) -> Array:
    guided = widened(cond, wide)
    guided -= uncond
    guided *= guidance_scale
    guided += uncond
    return guided


def _deviation(rows: Array) -> Array:
    return np.asarray(np.sqrt(mean_square(centred(rows))))
