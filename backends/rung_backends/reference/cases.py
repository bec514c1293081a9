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

__all__ = ["attention", "flow_match_step", "flow_sde_step", "scaled_mm"]

Array = NDArray[np.floating[Any]]
Case = tuple[tuple[Any, ...], dict[str, Any]]

_DTYPES = ("float16", "bfloat16", "float32", "float64")
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")

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


# (batch, query heads, key heads, queries, keys, D, Dv): one element, odd sizes, one query, fewer queries than keys and
# more, no key, no query, no batch, grouped heads, values narrower and wider than keys, more than one block of a kernel.
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
    (1, 2, 2, 64, 129, 16, 16),
)
_ATTENTION_EMPTY = ((1, 2, 2, 0, 3, 4, 4), (2, 0, 0, 3, 4, 4, 4), (1, 2, 2, 3, 4, 4, 0))

# They broadcast to (2, 4, 5, 7): batch, heads, queries, keys.
_MASK_SHAPES = ((2, 4, 5, 7), (2, 1, 1, 7), (4, 5, 1), (5, 7), (7,), ())


def attention(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape with `causal` and without, masks of each kind and rank, scales, layouts.

    What masks hide is finite, so every answer is determined.
    """
    for shape in _ATTENTION_SHAPES:
        for causal in (False, True):
            yield _qkv(rng, shape, dtype), {"causal": causal}
    for shape in _ATTENTION_EMPTY:
        yield _qkv(rng, shape, dtype), {}
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


# (M, K, N): one element, odd sizes, none of each, multiples of 16 as float8 hardware asks for, a long sum.
_MATRIX_SHAPES = ((1, 1, 1), (3, 5, 7), (0, 16, 16), (3, 0, 5), (4, 16, 0), (16, 32, 16), (7, 64, 48), (2, 1040, 32))


def scaled_mm(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield every shape with one scale and with many, then biases, dtypes of the result, mixed scales, layouts.

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
