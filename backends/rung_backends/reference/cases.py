"""Inputs on which kernels are compared with the reference: one generator per op.

Owns the choice of inputs: shapes, memory layouts, places on the schedule. Each generator takes a dtype's name
and a `numpy.random.Generator` and yields (args, kwargs) with numpy arrays; the same seed gives the same
cases. Must not decide what is close enough: the op's manifest does.

numpy has no bfloat16. Asked for it, the generators give float32 arrays whose values bfloat16 holds exactly,
so a caller that has the type can cast without loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["flow_match_step", "flow_sde_step"]

Array = NDArray[np.floating[Any]]
Case = tuple[tuple[Any, ...], dict[str, Any]]

_DTYPES = ("float16", "bfloat16", "float32", "float64")

# (sigma, sigma_next): first step, inside the guard near 1, on its edge, ordinary, no step, last.
_STEPS = ((1.0, 0.9), (0.98, 0.88), (0.75, 0.5), (0.5, 0.4), (0.5, 0.5), (0.1, 0.0))

_SHAPES = ((1, 1), (1,), (5,), (3, 7), (2, 4, 6, 5), (0, 3), (2, 0, 3))

# Same shape, other strides.
_LAYOUTS = ("transposed", "strided", "broadcast")


def flow_match_step(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape at every place on the schedule, then every layout."""
    for shape in _SHAPES:
        for step in _STEPS:
            yield (_normal(rng, shape, dtype), _normal(rng, shape, dtype), *step), {}
    for layout in _LAYOUTS:
        yield (_laid_out(rng, layout, dtype), _laid_out(rng, layout, dtype), *_STEPS[2]), {}
    large = _normal(rng, (64, 257), dtype)
    yield (large, _normal(rng, large.shape, dtype), *_STEPS[2]), {}
    yield (large, large, *_STEPS[2]), {}  # one array as both arguments


def flow_sde_step(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape at every place on the schedule, then noise scales and layouts.

    Each once with the noise to draw with and once with a sample to judge. No case leaves noise to the kernel
    unless there is none to draw, so every answer is determined.
    """
    for shape in _SHAPES:
        for step in _STEPS:
            args = (_normal(rng, shape, dtype), _normal(rng, shape, dtype), *step)
            yield args, {"noise": _normal(rng, shape, dtype)}
            yield args, {"prev_sample": _normal(rng, shape, dtype)}
    shape = (3, 8, 8)
    for noise_scale in (0.0, 0.3, 1.0):
        args = (_normal(rng, shape, dtype), _normal(rng, shape, dtype), *_STEPS[2])
        yield args, {"noise_scale": noise_scale, "noise": _normal(rng, shape, dtype)}
        yield args, {"noise_scale": noise_scale, "prev_sample": _normal(rng, shape, dtype)}
    yield (_normal(rng, shape, dtype), _normal(rng, shape, dtype), *_STEPS[2]), {"noise_scale": 0.0}
    yield (_normal(rng, shape, dtype), _normal(rng, shape, dtype), *_STEPS[-1]), {}
    for layout in _LAYOUTS:
        args = (_laid_out(rng, layout, dtype), _laid_out(rng, layout, dtype), *_STEPS[2])
        yield args, {"noise": _laid_out(rng, layout, dtype)}
        yield args, {"prev_sample": _laid_out(rng, layout, dtype)}


def _normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Draw standard normal values that `dtype` holds exactly."""
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
    values = rng.standard_normal(shape)
    if dtype != "bfloat16":
        return values.astype(dtype)
    # bfloat16 is the upper half of a float32.
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def _laid_out(rng: np.random.Generator, layout: str, dtype: str) -> Array:
    """Draw a (4, 6, 5) array that is not C-contiguous."""
    if layout == "transposed":
        return _normal(rng, (5, 6, 4), dtype).T
    if layout == "strided":
        return _normal(rng, (8, 6, 10), dtype)[::2, :, 1::2]
    return np.broadcast_to(_normal(rng, (4, 1, 5), dtype), (4, 6, 5))
