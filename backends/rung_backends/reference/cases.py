"""Inputs on which kernels are compared with the reference: one generator per op.

Owns the choice of inputs: shapes, memory layouts, places on the schedule. Each generator takes a dtype's name
and a `numpy.random.Generator` and yields (args, kwargs) with numpy arrays; the same seed gives the same
cases. Must not decide what is close enough: the op's manifest does.

numpy has neither bfloat16 nor float8. Asked for one, the generators give float32 arrays whose values that type holds
exactly, so a caller that has the type can cast without loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rung_backends.reference.rounding import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "attention",
    "cfg_combine",
    "cfg_flow_match_step",
    "flow_match_step",
    "flow_sde_step",
    "gelu",
    "group_norm",
    "layer_norm",
    "modulate",
    "rms_norm",
    "rotary_embedding",
    "scaled_mm",
    "silu_and_mul",
]

Array = NDArray[np.floating[Any]]
Case = tuple[tuple[Any, ...], dict[str, Any]]

_DTYPES = ("float16", "bfloat16", "float32", "float64")
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")

# (sigma, sigma_next): first step, inside the guard near 1, on its edge, ordinary, no step, last.
_STEPS = ((1.0, 0.9), (0.98, 0.88), (0.75, 0.5), (0.5, 0.4), (0.5, 0.5), (0.1, 0.0))

_SHAPES = ((1, 1), (1,), (5,), (3, 7), (2, 4, 6, 5), (0, 3), (2, 0, 3))

# What kernels for large arrays take: 2**18 elements and more. Here and below, what is large is a multiple of no block
# that a kernel may walk in, so that one which leaves out the last, incomplete block is seen.
_LARGE = (257, 1027)
_LARGE_HALVES = (257, 1026)  # for what splits the last axis

# Primes: what walks in blocks, of whatever size and along whichever axis, has an incomplete one at the end.
_RAGGED = (131, 137)

# Same shape, other strides.
_LAYOUTS = ("transposed", "strided", "broadcast")

# For what works along the last axis: one element, odd, as long as vector units like it, no row, no element in a row,
# large.
_ROWS = (
    (1,),
    (5,),
    (1, 1),
    (3, 7),
    (2, 3, 5),
    (2, 4, 6, 5),
    (3, 64),
    (5, 128),
    (0, 3),
    (3, 0),
    (2, 0, 3),
    (131, 257),
)

# (shape, groups): one group, some, each channel its own; no sample, no channel, no place, large.
_GROUPS = (
    ((2, 6, 4, 5), 1),
    ((2, 6, 4, 5), 3),
    ((2, 6, 4, 5), 6),
    ((3, 8), 2),
    ((2, 4, 7), 4),
    ((0, 4, 3), 2),
    ((2, 0, 3), 1),
    ((2, 4, 0), 2),
    ((5, 81, 7, 9), 27),
)

# (x's shape, cos's shape): each pair its angle, the same over heads, the same everywhere; pairs for a part of the
# last axis or none of it; as wide as heads are; few enough to differentiate; two elements, no sample, no position, no
# element, large.
_TURNED = (
    ((5, 8), (5, 4)),
    ((2, 3, 5, 8), (5, 4)),
    ((2, 3, 5, 8), (2, 1, 5, 4)),
    ((2, 3, 5, 8), (4,)),
    ((3, 5, 7), (5, 3)),
    ((3, 5, 10), (1, 5, 2)),
    ((3, 4), (3, 0)),
    ((2, 5, 64), (5, 32)),
    ((3, 128), (3, 64)),
    ((2, 2, 4), (2, 2)),
    ((2, 2, 2, 5), (1, 2, 2)),
    ((1, 2), (1, 1)),
    ((0, 3, 4), (3, 2)),
    ((2, 0, 4), (2, 0, 2)),
    ((2, 3, 0), (3, 0)),
    ((3, 5, 33, 66), (33, 33)),
)


def flow_match_step(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape at every place on the schedule, then every layout, what is large, and what is not finite."""
    for shape in _SHAPES:
        for step in _STEPS:
            yield (_normal(rng, shape, dtype), _normal(rng, shape, dtype), *step), {}
    for layout in _LAYOUTS:
        yield (_laid_out(rng, layout, dtype), _laid_out(rng, layout, dtype), *_STEPS[2]), {}
    large = _normal(rng, _RAGGED, dtype)
    yield (large, _normal(rng, large.shape, dtype), *_STEPS[2]), {}
    yield (large, large, *_STEPS[2]), {}  # one array as both arguments
    yield (_spoilt(rng, (5, 17), dtype), _spoilt(rng, (5, 17), dtype, first=1), *_STEPS[2]), {}
    yield (_spoilt(rng, _LARGE, dtype), _spoilt(rng, _LARGE, dtype, first=1), *_STEPS[2]), {}


def flow_sde_step(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape at every place on the schedule, then noise scales, layouts, what is large or not finite.

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
    args = (_normal(rng, _RAGGED, dtype), _normal(rng, _RAGGED, dtype), *_STEPS[2])
    yield args, {"noise": _normal(rng, _RAGGED, dtype)}
    yield args, {"prev_sample": _normal(rng, _RAGGED, dtype)}
    args = (_spoilt(rng, (5, 17), dtype), _spoilt(rng, (5, 17), dtype, first=1), *_STEPS[2])
    yield args, {"noise": _spoilt(rng, (5, 17), dtype, first=2)}
    yield args, {"prev_sample": _normal(rng, (5, 17), dtype)}
    yield (*(_normal(rng, (5, 17), dtype) for _ in range(2)), *_STEPS[2]), {"prev_sample": _spoilt(rng, (5, 17), dtype)}


def rms_norm(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape with and without a weight, then values of eps, layouts, rows of zeros, far and near ones.

    And rows that are not finite beside others that are.
    """
    for shape in _ROWS:
        yield (_normal(rng, shape, dtype),), {}
        yield (_normal(rng, shape, dtype), _normal(rng, shape[-1:], dtype)), {}
    for eps in (0.0, 0.5):
        yield (_normal(rng, (3, 7), dtype), _normal(rng, (7,), dtype)), {"eps": eps}
    for layout in _LAYOUTS:
        yield (_laid_out(rng, layout, dtype), _normal(rng, (10,), dtype)[::2]), {}
    yield (np.zeros_like(_normal(rng, (3, 7), dtype)), _normal(rng, (7,), dtype)), {}
    for exponent in _exponents(dtype):
        yield (np.ldexp(_normal(rng, (3, 7), dtype), exponent),), {}
    yield (_spoilt(rng, (5, 17), dtype), _normal(rng, (17,), dtype)), {}
    yield (_spoilt(rng, _LARGE, dtype), _normal(rng, _LARGE[-1:], dtype)), {}


def layer_norm(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape with and without weight and bias, then each alone, and what `rms_norm` is given.

    And rows of equal elements, whose sums and means are rounded, and rows far from zero for their deviation.
    """
    for shape in _ROWS:
        yield (_normal(rng, shape, dtype),), {}
        vectors = _normal(rng, shape[-1:], dtype), _normal(rng, shape[-1:], dtype)
        yield (_normal(rng, shape, dtype), *vectors), {}
    x, vector = _normal(rng, (3, 7), dtype), _normal(rng, (7,), dtype)
    yield (x, vector), {}
    yield (x,), {"bias": vector}
    for eps in (0.0, 0.5):
        yield (x, vector, vector), {"eps": eps}
    for layout in _LAYOUTS:
        yield (_laid_out(rng, layout, dtype), _normal(rng, (10,), dtype)[::2]), {"bias": _normal(rng, (5,), dtype)}
    for value in (0, 3):
        yield (np.full_like(x, value), vector, vector), {}
    equal = np.repeat(np.ldexp(_normal(rng, (5, 1), dtype), 10), 101, -1)
    equal[0] = 1000
    yield (equal, _normal(rng, (101,), dtype), _normal(rng, (101,), dtype)), {}
    for exponent in _exponents(dtype):
        yield (np.ldexp(_normal(rng, (3, 7), dtype), exponent),), {}
    yield (_far(rng, (3, 7), dtype), vector), {}
    yield (_spoilt(rng, (5, 17), dtype), *(_normal(rng, (17,), dtype) for _ in range(2))), {}


def group_norm(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape and grouping with and without weight and bias, then what `layer_norm` is given.

    And one element alone, and channels that are the last axis in memory.
    """
    for shape, groups in _GROUPS:
        yield (_normal(rng, shape, dtype), groups), {}
        vectors = _normal(rng, shape[1:2], dtype), _normal(rng, shape[1:2], dtype)
        yield (_normal(rng, shape, dtype), groups, *vectors), {}
    x, vector = _normal(rng, (2, 6, 4, 5), dtype), _normal(rng, (6,), dtype)
    yield (x, 3, vector), {}
    yield (x, 3), {"bias": vector}
    for eps in (0.0, 0.5):
        yield (x, 3, vector, vector), {"eps": eps}
    for layout in _LAYOUTS:
        yield (_laid_out(rng, layout, dtype), 3, _normal(rng, (12,), dtype)[::2]), {"bias": vector}
    for value in (0, 3):
        yield (np.full_like(x, value), 3, vector, vector), {}
    equal = np.repeat(np.ldexp(_normal(rng, (5, 3, 1), dtype), 10), 2 * 101, -1).reshape(5, 6, 101)
    equal[:, :2] = 1000
    yield (equal, 3, vector, vector), {}
    yield (x[:1, :1, 0, 0], 1), {}
    for exponent in _exponents(dtype):
        yield (np.ldexp(x, exponent), 2), {}
    yield (_far(rng, (2, 6, 4, 5), dtype), 3, vector), {}
    yield (np.moveaxis(_far(rng, (2, 4, 5, 6), dtype), -1, 1), 3, vector), {}
    yield (_spoilt(rng, (10, 34), dtype).reshape(5, 4, 17), 2, *(_normal(rng, (4,), dtype) for _ in range(2))), {}


def modulate(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape with a shift and a scale for each element and for each column, then other ways to broadcast.

    And layouts, a scale or shift that leaves nothing or all of x, and what is not finite.
    """
    for shape in _ROWS:
        x = _normal(rng, shape, dtype)
        yield (x, _normal(rng, shape, dtype), _normal(rng, shape, dtype)), {}
        yield (x, _normal(rng, shape[-1:], dtype), _normal(rng, shape[-1:], dtype)), {}
    x, column = _normal(rng, (2, 3, 5), dtype), _normal(rng, (5,), dtype)
    one = _normal(rng, (1,), dtype)
    for shape in ((2, 1, 5), (2, 1, 1), (1, 3, 1)):
        yield (x, _normal(rng, shape, dtype), _normal(rng, shape, dtype)), {}
    yield (_normal(rng, (3, 131, 33), dtype), *(_normal(rng, (3, 1, 33), dtype) for _ in range(2))), {}
    yield (x, column, one.reshape(())), {}
    yield (one.reshape(()), one.reshape(()), one.reshape(())), {}
    for layout in _LAYOUTS:
        y = _laid_out(rng, layout, dtype)
        yield (y, _normal(rng, (4, 1, 5), dtype), _normal(rng, (4, 1, 10), dtype)[..., ::2]), {}
    for value in (0, -1):
        yield (x, column, np.full_like(column, value)), {}
    yield (x, np.zeros_like(column), np.zeros_like(column)), {}
    yield (x, x, x), {}  # one array as all arguments
    yield tuple(_spoilt(rng, (5, 17), dtype, first=column) for column in (0, 1, 2)), {}
    yield (_spoilt(rng, _LARGE, dtype), *(_normal(rng, _LARGE[-1:], dtype) for _ in range(2))), {}


def silu_and_mul(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape, at once and eight times as far from zero, then layouts and gates that are open or shut.

    And gates and values that are not finite.
    """
    for shape in _ROWS:
        doubled = (*shape[:-1], 2 * shape[-1])
        yield (_normal(rng, doubled, dtype),), {}
        yield (np.ldexp(_normal(rng, doubled, dtype), 3),), {}
    for layout in _LAYOUTS:
        yield (_laid_out(rng, layout, dtype)[..., :4],), {}
    x = _normal(rng, (3, 8), dtype)
    yield (np.zeros_like(x),), {}
    for gate in (2**15, -(2**15)):
        yield (np.concatenate((np.full_like(x, gate), np.full_like(x, 1.5)), -1),), {}
    for first in (0, 17):
        yield (_spoilt(rng, (5, 34), dtype, first=first),), {}
    yield (_spoilt(rng, _LARGE_HALVES, dtype),), {}


def gelu(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield both forms for every shape, then for layouts, zeros, elements far on either side, what is not finite."""
    x = _normal(rng, (3, 7), dtype)
    hard = [np.zeros_like(x), np.ldexp(x, 2), np.full_like(x, 2**15), np.full_like(x, -(2**15))]
    hard.append(_spoilt(rng, (5, 17), dtype))
    for approximate in ("none", "tanh"):
        for shape in _ROWS:
            yield (_normal(rng, shape, dtype),), {"approximate": approximate}
        for layout in _LAYOUTS:
            yield (_laid_out(rng, layout, dtype),), {"approximate": approximate}
        for y in hard:
            yield (y,), {"approximate": approximate}
    yield (x,), {}
    yield (x[0, 0, None].reshape(()),), {}


def rotary_embedding(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield both kinds of pairs for every shape, then for layouts, no turn, a quarter turn, and what is not finite.

    The angles' cosines and sines are any numbers: an implementation has no use for a unit circle.
    """
    for interleaved in (False, True):
        for shape, angles in _TURNED:
            x, cos, sin = (_normal(rng, s, dtype) for s in (shape, angles, angles))
            yield (x, cos, sin), {"interleaved": interleaved}
        for layout in _LAYOUTS:
            x, angle = _laid_out(rng, layout, dtype), _laid_out(rng, layout, dtype)[:1, :, 2:4]
            yield (x, angle, angle), {"interleaved": interleaved}
        x, ones = _normal(rng, (2, 3, 8), dtype), np.ones_like(_normal(rng, (3, 4), dtype))
        for cos, sin in ((ones, 0 * ones), (0 * ones, ones)):
            yield (x, cos, sin), {"interleaved": interleaved}
        spoilt = [_spoilt(rng, (5, size), dtype, first=first) for size, first in ((17, 0), (8, -1), (8, -2))]
        yield tuple(spoilt), {"interleaved": interleaved}
        yield (spoilt[0], *(_normal(rng, (5, 1), dtype) for _ in range(2))), {"interleaved": interleaved}
    yield (x, ones, ones), {}
    angles = (_LARGE_HALVES[0], _LARGE_HALVES[1] // 2)
    yield (_spoilt(rng, _LARGE_HALVES, dtype), *(_normal(rng, angles, dtype) for _ in range(2))), {}


def cfg_combine(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape with and without rescaling, then scales, layouts, samples whose elements are equal.

    And a cond of equal elements at a scale of 1, where rounding leaves out a deviation, and what is not finite.
    """
    for shape in _SHAPES:
        for rescale in (0.0, 0.7):
            yield (_normal(rng, shape, dtype), _normal(rng, shape, dtype), 7.5), {"rescale": rescale}
    cond, uncond = _normal(rng, (3, 8, 8), dtype), _normal(rng, (3, 8, 8), dtype)
    for scale in (-1.5, 0.0, 1.0, 3.0):
        yield (cond, uncond, scale), {}
        yield (cond, uncond, scale), {"rescale": 1.0}
    for layout in _LAYOUTS:
        yield (_laid_out(rng, layout, dtype), _laid_out(rng, layout, dtype), 4.0), {"rescale": 0.7}
    large = _normal(rng, _RAGGED, dtype)
    yield (large, _normal(rng, large.shape, dtype), 7.5), {"rescale": 0.7}
    yield (large, large, 7.5), {"rescale": 0.7}  # one array as both arguments
    for mine, theirs in ((3, 1), (1, 1), (0, 0)):
        yield (np.full_like(cond, mine), np.full_like(cond, theirs), 2.0), {"rescale": 0.5}
    yield (cond, np.full_like(cond, 3), 0.0), {"rescale": 0.5}
    for exponent in _exponents(dtype):  # beside 0, for nothing may cancel at a size that no tolerance knows
        yield (np.ldexp(cond, exponent), np.zeros_like(uncond), 2.0), {"rescale": 0.7}
    yield (np.full_like(cond, _normal(rng, (1,), dtype)), uncond, 1.0), {"rescale": 1.0}
    for rescale in (0.0, 0.7):
        yield (_spoilt(rng, (5, 17), dtype), _spoilt(rng, (5, 17), dtype, first=1), 7.5), {"rescale": rescale}
    yield (_spoilt(rng, _LARGE, dtype), _spoilt(rng, _LARGE, dtype, first=1), 7.5), {}


def cfg_flow_match_step(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape at some places on the schedule, then every place, scales, layouts, and what is not finite."""
    for shape in _SHAPES:
        for step in _STEPS[::3]:
            yield (*(_normal(rng, shape, dtype) for _ in range(3)), 7.5, *step), {}
    three = [_normal(rng, (3, 8, 8), dtype) for _ in range(3)]
    for step in _STEPS:
        yield (*three, 3.0, *step), {}
    for scale in (-1.5, 0.0, 1.0):
        yield (*three, scale, *_STEPS[2]), {}
    for layout in _LAYOUTS:
        yield (*(_laid_out(rng, layout, dtype) for _ in range(3)), 4.0, *_STEPS[2]), {}
    large = _normal(rng, _RAGGED, dtype)
    yield (large, _normal(rng, large.shape, dtype), _normal(rng, large.shape, dtype), 7.5, *_STEPS[2]), {}
    yield (large, large, large, 7.5, *_STEPS[2]), {}  # one array as all arguments
    for shape in ((5, 17), _LARGE):
        yield (*(_spoilt(rng, shape, dtype, first=first) for first in range(3)), 7.5, *_STEPS[2]), {}


def _exponents(dtype: str) -> tuple[int, int]:
    """Give powers of two to scale normal values with that keep their squares in float32's range."""
    return (12, -10) if dtype == "float16" else (50, -50)


def _spoilt(rng: np.random.Generator, shape: tuple[int, int], dtype: str, *, first: int = 0) -> Array:
    """Draw rows of which the second holds a NaN, the third an infinity and the fourth a negative one.

    They lie in columns of their own, from `first` + 3 on in steps of two. Draw more than 64 elements: of so many no
    gradients are compared, and a derivative is nothing here.
    """
    rows = _normal(rng, shape, dtype)
    for row, value in enumerate((np.nan, np.inf, -np.inf), 1):
        rows[row, first + 2 * row + 1] = value
    return rows


def _far(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Draw values about 16 with deviation 1, multiples of an eighth so that `dtype` holds them exactly."""
    return np.rint(8 * _normal(rng, shape, dtype)) / 8 + 16


# (batch, query heads, key heads, queries, keys, D, Dv): one element, odd sizes, one query, fewer queries than keys and
# more, no key, no query, no batch, grouped heads, values narrower and wider than keys, elements as many as models have,
# and more than one block of a kernel with an incomplete one at the end: of queries, keys and heads, and of elements.
_ATTENTION_SHAPES = (
    (1, 1, 1, 1, 1, 1, 1),
    (2, 3, 3, 5, 5, 7, 7),
    (2, 2, 2, 1, 9, 8, 8),
    (1, 2, 2, 3, 7, 8, 8),
    (1, 2, 2, 7, 3, 8, 8),
    (1, 2, 2, 3, 0, 4, 4),
    (0, 2, 2, 3, 4, 4, 4),
    (2, 4, 2, 3, 5, 8, 8),
    (2, 4, 1, 5, 5, 8, 8),
    (1, 4, 2, 6, 4, 4, 9),
    (1, 2, 1, 5, 17, 64, 64),
    (1, 1, 1, 16, 16, 128, 128),
    (1, 3, 3, 131, 137, 16, 16),
    (1, 1, 1, 3, 5, 131, 131),
)
_ATTENTION_EMPTY = ((1, 2, 2, 0, 3, 4, 4), (2, 0, 0, 3, 4, 4, 4), (1, 2, 2, 3, 4, 4, 0))

# Few enough elements to differentiate: grouped heads, fewer queries than keys and more.
_ATTENTION_SMALL = ((1, 2, 1, 2, 3, 3, 2), (1, 1, 1, 3, 2, 2, 3))

# They broadcast to (2, 4, 5, 7): batch, heads, queries, keys.
_MASK_SHAPES = ((2, 4, 5, 7), (2, 1, 1, 7), (4, 5, 1), (5, 7), (7,), ())


def attention(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape with `causal` and without, masks of each kind and rank, scales, layouts, what is not finite.

    What masks hide is finite, so every answer is determined. A score is infinite in float32 and float64 alone, for
    fused kernels may lose it in halves.
    """
    for shape in _ATTENTION_SHAPES:
        for causal in (False, True):
            yield _qkv(rng, shape, dtype), {"causal": causal}
    for shape in _ATTENTION_EMPTY:
        yield _qkv(rng, shape, dtype), {}
    for shape in _ATTENTION_SMALL:
        keep = np.arange(shape[3])[:, None] + np.arange(shape[4]) != 1
        added = _normal(rng, keep.shape, dtype)
        for more in ({}, {"causal": True}, {"mask": keep}, {"mask": added}, {"mask": added, "causal": True}):
            yield _qkv(rng, shape, dtype), {"scale": 0.75, **more}
    grouped = (2, 4, 2, 5, 7, 8, 8)
    for mask_shape in _MASK_SHAPES:
        causal = mask_shape == (5, 7)
        keep = rng.random(mask_shape) < 0.7
        yield _qkv(rng, grouped, dtype), {"mask": np.asarray(keep), "causal": causal}
        added = np.where(keep, _normal(rng, mask_shape, dtype), -np.inf).astype(_stored(dtype))
        yield _qkv(rng, grouped, dtype), {"mask": added, "causal": causal}
    # Every second row sees nothing.
    keep = np.arange(5)[:, None] % 2 == np.zeros(7)
    yield _qkv(rng, grouped, dtype), {"mask": keep}
    yield _qkv(rng, grouped, dtype), {"mask": np.where(keep, 0.0, -np.inf).astype(_stored(dtype))}
    # The first queries see no key, the others some; the mask hides the first key, which is all that the next one sees.
    yield _qkv(rng, (1, 2, 2, 7, 3, 8, 8), dtype), {"mask": np.arange(3) > 0, "causal": True}
    for scale in (0.0, -0.25, 2.0):
        yield _qkv(rng, grouped, dtype), {"scale": scale, "causal": True}
    # Heads stored next to positions, and keys and values that all samples and heads share.
    q, k, v = (_normal(rng, (2, 5, heads, 8), dtype).transpose(0, 2, 1, 3) for heads in (4, 2, 2))
    yield (q, k, v), {"causal": True}
    yield (q, *(np.broadcast_to(t[:1, :1], t.shape) for t in (k, v))), {}
    # NaN in a query, a key and a value, and an infinite value, each in a head of its own; few keys, some, many.
    for keys in (3, 17, 137):
        q, k, v = _qkv(rng, (3, 3, 3, 5, keys, 8, 8), dtype)
        q[0, 0, 3, 5] = k[0, 1, 0, 2] = v[0, 2, 0, 4] = np.nan
        v[1, 0, 0, 6] = np.inf
        for causal in (False, True) if keys == 17 else (False,):
            yield (q, k, v), {"causal": causal}
    q, k, v = _qkv(rng, grouped, dtype)
    mask = _normal(rng, (5, 7), dtype)
    mask[1, 2], mask[2, 3] = np.nan, -np.inf
    yield (q, k, v), {"mask": mask}
    if dtype in ("float32", "float64"):
        mask = mask.copy()
        mask[3, 1] = np.inf
        yield (q, k, v), {"mask": mask}
        q, k = abs(q), -abs(k)  # where the query is infinite, all scores are -inf
        q[0, 0, 2] = np.inf
        yield (q, k, v), {}


# (M, K, N): one element, odd sizes, none of each, multiples of 16 as float8 hardware asks for, a long sum, and large
# ones that are no multiples of blocks, also as far as that hardware allows.
_MATRIX_SHAPES = (
    (1, 1, 1),
    (3, 5, 7),
    (0, 16, 16),
    (3, 0, 5),
    (4, 16, 0),
    (16, 32, 16),
    (7, 64, 48),
    (2, 1040, 32),
    (131, 137, 139),
    (131, 144, 272),
)


def scaled_mm(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape with one scale and with many, then biases, dtypes of the result, mixed scales, layouts.

    And what is not finite: NaN in matrices and scales, infinities in `bias` and in matrices that can hold them.

    `dtype` is that of both matrices, "float8_e4m3fn" or "float8_e5m2". Scales are float32. Biases are float32 arrays
    whose values bfloat16 holds exactly.
    """
    for shape in _MATRIX_SHAPES:
        for many in (False, True):
            yield _scaled(rng, shape, dtype, many, many), {}
    shape = (7, 64, 48)
    for out_dtype in ("bfloat16", "float16", "float32"):
        for many in (False, True):
            yield _scaled(rng, shape, dtype, many, many), {"out_dtype": out_dtype}
            bias = _normal(rng, (48,), "bfloat16")
            yield _scaled(rng, shape, dtype, many, many), {"bias": bias, "out_dtype": out_dtype}
    yield _scaled(rng, shape, dtype, True, False), {}
    yield _scaled(rng, shape, dtype, False, True), {}
    yield _scaled(rng, (3, 0, 5), dtype, False, False), {"bias": _normal(rng, (5,), "bfloat16")}
    # A weight as layers store it, an activation read backwards, scales with an axis too many.
    a, b, scale_a, scale_b = _scaled(rng, (48, 64, 48), dtype, False, False)
    yield (a, np.ascontiguousarray(b.T).T, scale_a.reshape(1), scale_b.reshape(1)), {}
    yield (np.ascontiguousarray(a.T).T, b, scale_a.reshape(1, 1), scale_b.reshape(1, 1)), {}
    for out_dtype in ("bfloat16", "float32"):
        spoilt = left, right, rows, columns = _scaled(rng, shape, dtype, True, True)
        bias = _normal(rng, (48,), "bfloat16")
        left[1, 5] = right[6, 3] = rows[4] = columns[0, 9] = np.nan
        bias[2] = -np.inf
        if dtype == "float8_e5m2":
            left[2, 7] = np.inf
        yield spoilt, {"bias": bias, "out_dtype": out_dtype}
    # The largest values there are: the result passes float16's range.
    yield (
        (np.full_like(a, a.max()), np.full_like(b, b.max()), *np.full((2, 1), 64.0, np.float32)),
        {"out_dtype": "float16"},
    )


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


def _stored(dtype: str) -> str:
    """Give the dtype numpy has for values of `dtype`."""
    return "float32" if dtype == "bfloat16" else dtype


def _qkv(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> tuple[Array, Array, Array]:
    """Draw the arrays of an attention: batch, query heads, key heads, queries, keys, D, Dv."""
    batch, heads, kv_heads, queries, keys, width, value_width = shape
    return (
        _normal(rng, (batch, heads, queries, width), dtype),
        _normal(rng, (batch, kv_heads, keys, width), dtype),
        _normal(rng, (batch, kv_heads, keys, value_width), dtype),
    )


def _float8(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Draw float32 values that a float8 kind holds exactly, of all its magnitudes up to a few hundred."""
    values = rng.standard_normal(shape) * np.exp2(rng.uniform(-10.0, 7.0, shape))
    return rounded(values, dtype).astype(np.float32)


def _scaled(
    rng: np.random.Generator, shape: tuple[int, int, int], dtype: str, many_a: bool, many_b: bool
) -> tuple[Array, ...]:
    """Draw two float8 matrices, (M, K) and (K, N), and scales that bring their largest values near 1."""
    if dtype not in _FLOAT8:
        raise ValueError(f"dtype must be one of {', '.join(_FLOAT8)}, got {dtype!r}")
    rows, width, columns = shape
    matrices = (_float8(rng, (rows, width), dtype), _float8(rng, (width, columns), dtype))
    shapes = ((rows, 1) if many_a else (), (1, columns) if many_b else ())
    return *matrices, *(np.asarray(rng.uniform(0.5, 1.5, form) / 128.0, dtype=np.float32) for form in shapes)
