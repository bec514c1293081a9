"""Classifier-free guidance, as the oracle answers it.

Owns the contract of `cfg_combine` and `cfg_flow_match_step`: formulas and conventions are stated here, and every
other implementation follows them. Works in float64 and rounds once, at the end. Must not trade accuracy for speed,
change an argument, or import anything but numpy and the references' helpers.
"""

from __future__ import annotations

import numpy as np

from rung_backends.numbers import check_finite, check_sigmas
from rung_backends.reference.checks import Array, check_floats, check_same_shape
from rung_backends.reference.floats import Wide, as_ieee_says, deviation, wide

__all__ = ["cfg_combine", "cfg_flow_match_step"]


@as_ieee_says
def cfg_combine(cond: Array, uncond: Array, guidance_scale: float, *, rescale: float = 0.0) -> Array:
    """Guide a prediction: ``out = uncond + guidance_scale * (cond - uncond)``, its deviation brought back by `rescale`.

    Ho and Salimans, "Classifier-Free Diffusion Guidance", 2022, in the form where a scale of 0 gives uncond and 1 gives
    cond, but for the rounding of cond - uncond, which loses cond beside a far larger uncond. Large scales make results
    too strong; with phi = rescale, each sample's deviation over all axes but the first is moved towards cond's (Lin et
    al., "Common Diffusion Noise Schedules and Sample Steps are Flawed", 2023, section 3.4)::

        phi * out * std(cond) / std(out) + (1 - phi) * out

    Some places need more than the formula:

    * **Where out is cond**, at a scale of 1, the quotient is 1 and rescaling changes nothing, whatever rounding made of
      the two deviations: a cond of equal elements stays, and is not divided by what cond - uncond left of it.
    * **A sample with std(out) = 0**, whose elements are all equal, is left as it is.
    * **A sample whose deviation guidance cancels** to some roundings of its elements has a quotient of rounding, which
      is another in every dtype and implementation.
    * **A NaN or an infinity** reaches what its element does, and the whole sample if that is rescaled: NaN.

    The answer holds for every finite sample. A kernel squares differences in the type it computes in, float32 for the
    half types, and may lose samples to rescale whose squares leave that type's range: in float32, differences of about
    1e18 and more, and of about 1e-23 and less.

    Args:
        cond: The prediction with the condition: float16, float32 or float64, any shape of at least one axis; the
            first is the batch.
        uncond: The prediction without it; cond's shape, any of those dtypes.
        guidance_scale: Any finite number; above 1 the condition is exaggerated. A kernel may refuse one beyond the
            range of the type it computes in.
        rescale: phi, in [0, 1].

    Returns:
        A new array of cond's shape and dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype, or a number is none.
        ValueError: Shapes differ, there is no batch axis, or a number is out of range.

    """
    check_floats(cond=cond, uncond=uncond)
    check_same_shape(cond=cond, uncond=uncond)
    guidance_scale = check_finite("guidance_scale", guidance_scale)
    rescale = check_finite("rescale", rescale, within=(0.0, 1.0))
    result = _guided(cond, uncond, guidance_scale)
    if rescale and guidance_scale != 1.0 and cond.size:
        found = _deviation_of_samples(result)
        flat = found == 0.0
        factor = np.where(flat, 1.0, _deviation_of_samples(cond) / np.where(flat, 1.0, found))
        result = (rescale * factor + (1.0 - rescale)) * result
    return np.asarray(result, dtype=cond.dtype)


@as_ieee_says
def cfg_flow_match_step(
    sample: Array, cond: Array, uncond: Array, guidance_scale: float, sigma: float, sigma_next: float
) -> Array:
    """Take the Euler step along a guided velocity, in one: nothing is rounded between the two.

    ``sample + (sigma_next - sigma) * (uncond + guidance_scale * (cond - uncond))``, which is `flow_match_step` of
    the velocity that `cfg_combine` gives; sources there. A NaN or an infinity reaches its own element alone, as the
    formula has it: NaN where an infinity meets 0 or one of the other sign.

    Args:
        sample: float16, float32 or float64, any shape of at least one axis; the first is the batch.
        cond: The velocity with the condition; sample's shape, any of those dtypes.
        uncond: The velocity without it; as cond.
        guidance_scale: As `cfg_combine` takes it.
        sigma: Noise level of `sample`, in [0, 1].
        sigma_next: Noise level after the step, in [0, sigma].

    Returns:
        A new array of sample's shape and dtype.

    Raises:
        TypeError: An array is no numpy array or has another dtype, or a number is none.
        ValueError: Shapes differ, there is no batch axis, or a number is out of range.

    """
    check_floats(sample=sample, cond=cond, uncond=uncond)
    check_same_shape(sample=sample, cond=cond, uncond=uncond)
    guidance_scale = check_finite("guidance_scale", guidance_scale)
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    result = wide(sample) + (sigma_next - sigma) * _guided(cond, uncond, guidance_scale)
    return np.asarray(result, dtype=sample.dtype)


def _guided(cond: Array, uncond: Array, guidance_scale: float) -> Wide:
    base = wide(uncond)
    return np.asarray(base + guidance_scale * (wide(cond) - base))


def _deviation_of_samples(array: Array) -> Wide:
    """Give each sample's standard deviation, in a shape that broadcasts against the array."""
    return deviation(wide(array).reshape(array.shape[0], -1)).reshape(-1, *(1,) * (array.ndim - 1))
