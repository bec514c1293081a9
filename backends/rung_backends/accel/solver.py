"""The solver ops on the stand-in accelerator.

Owns two ways to run the contract of `rung_backends.reference.solver`: a *scalar unit*, one element after
another in plain Python, and a *vector unit*, numpy on one tile after another; for the Euler step also a fused
form that needs no tiles. None of this is hardware. Which arch gets which is chosen in the manifest so that
accel's lattice has something to walk over. Must not import the reference, nor change an argument.

Everything is computed in float64 and rounded once, and a sum over elements is rounded correctly, so all of it
gives the reference's answers bit for bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rung_backends.accel.checks import Array, check_alike, check_floats, descent, given
from rung_backends.accel.floats import as_ieee_says
from rung_backends.numbers import check_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = [
    "flow_match_step",
    "flow_match_step_fused",
    "flow_match_step_tiled",
    "flow_sde_step",
    "flow_sde_step_tiled",
]

TILE = 256
"""How many elements the vector unit takes at once."""


@as_ieee_says
def flow_match_step(sample: Array, velocity: Array, sigma: float, sigma_next: float) -> Array:
    """Take one Euler step, sample + (sigma_next - sigma) * velocity, on the scalar unit.

    Source, shapes, dtypes, ranges and errors: `rung_backends.reference.solver.flow_match_step`.
    """
    check_floats(sample=sample, velocity=velocity)
    check_alike(sample=sample, velocity=velocity)
    dt = -descent(sigma, sigma_next)
    return _store([x + dt * v for x, v in zip(_scalars(sample), _scalars(velocity), strict=True)], sample)


@as_ieee_says
def flow_match_step_tiled(sample: Array, velocity: Array, sigma: float, sigma_next: float) -> Array:
    """Take one Euler step, sample + (sigma_next - sigma) * velocity, on the vector unit.

    Source, shapes, dtypes, ranges and errors: `rung_backends.reference.solver.flow_match_step`.
    """
    check_floats(sample=sample, velocity=velocity)
    check_alike(sample=sample, velocity=velocity)
    dt = -descent(sigma, sigma_next)
    x, v = _lanes(sample), _lanes(velocity)
    out = np.empty(x.shape, sample.dtype)
    for tile in _tiles(x.size):
        out[tile] = x[tile] + v[tile] * dt
    return out.reshape(sample.shape)


@as_ieee_says
def flow_match_step_fused(sample: Array, velocity: Array, sigma: float, sigma_next: float) -> Array:
    """Take one Euler step, sample + (sigma_next - sigma) * velocity, within a single buffer.

    Source, shapes, dtypes, ranges and errors: `rung_backends.reference.solver.flow_match_step`.
    """
    check_floats(sample=sample, velocity=velocity)
    check_alike(sample=sample, velocity=velocity)
    dt = -descent(sigma, sigma_next)
    buffer = velocity.astype(np.float64)
    np.multiply(buffer, dt, out=buffer)
    np.add(buffer, sample, out=buffer)
    return buffer.astype(sample.dtype, copy=False)


@as_ieee_says
def flow_sde_step(
    sample: Array,
    velocity: Array,
    sigma: float,
    sigma_next: float,
    *,
    noise: Array | None = None,
    prev_sample: Array | None = None,
    noise_scale: float = 0.7,
) -> tuple[Array, Array, Array, Array]:
    """Take one stochastic step of Flow-GRPO, with its log-probability, on the scalar unit.

    With dt = sigma_next - sigma and s = noise_scale * sqrt(sigma / max(1 - sigma, -dt - 3 (1 - sigma))), the new
    sample is normal with mean sample + (velocity + s**2 / (2 sigma) * (sample + (1 - sigma) * velocity)) * dt and
    standard deviation s * sqrt(-dt); at sigma_next = 0 it is the Euler step. Source, guards, shapes, dtypes,
    ranges and errors: `rung_backends.reference.solver.flow_sde_step`. Draws its own noise, when it must, from
    a fresh `numpy.random.default_rng()`: no two calls agree.
    """
    plan = _plan(sample, velocity, sigma, sigma_next, noise, prev_sample, noise_scale)
    xs, vs = _scalars(sample), _scalars(velocity)
    means = [plan.keep * x + plan.push * v for x, v in zip(xs, vs, strict=True)]
    if prev_sample is not None:
        after = prev_sample
    elif plan.std == 0.0:
        after = _store(means, sample)
    else:
        draws = _scalars(_draw(sample) if noise is None else noise)
        after = _store([m + plan.std * n for m, n in zip(means, draws, strict=True)], sample)

    log_probs = [0.0] * plan.batch
    if plan.has_density:
        zs = [(point - mean) / plan.std for point, mean in zip(_scalars(after), means, strict=True)]
        for i in range(plan.batch):
            energy = _total(z * z for z in zs[i * plan.width : (i + 1) * plan.width])
            log_probs[i] = plan.log_peak - 0.5 * (energy / plan.width)
    return (
        after.astype(sample.dtype),
        np.array(log_probs, dtype=np.float64).astype(sample.dtype),
        _store(means, sample),
        plan.stds(sample),
    )


@as_ieee_says
def flow_sde_step_tiled(
    sample: Array,
    velocity: Array,
    sigma: float,
    sigma_next: float,
    *,
    noise: Array | None = None,
    prev_sample: Array | None = None,
    noise_scale: float = 0.7,
) -> tuple[Array, Array, Array, Array]:
    """Take the step of `flow_sde_step` on the vector unit; the same contract, to the letter."""
    plan = _plan(sample, velocity, sigma, sigma_next, noise, prev_sample, noise_scale)
    x, v = _lanes(sample), _lanes(velocity)
    given = None if prev_sample is None else _lanes(prev_sample)
    drawn = None
    if given is None and plan.std != 0.0:
        drawn = _lanes(_draw(sample) if noise is None else noise)

    mean, energy = np.empty_like(x), np.empty_like(x)
    after = np.empty(x.shape, sample.dtype)
    for tile in _tiles(x.size):
        mean[tile] = x[tile] * plan.keep + v[tile] * plan.push
        if given is not None:
            after[tile] = given[tile]
        elif drawn is not None:
            after[tile] = mean[tile] + drawn[tile] * plan.std
        else:
            after[tile] = mean[tile]
        if plan.has_density:
            point = after[tile] if given is None else given[tile]
            energy[tile] = np.square((point - mean[tile]) / plan.std)

    log_prob = np.zeros(plan.batch)
    if plan.has_density:
        for i, row in enumerate(energy.reshape(plan.batch, plan.width)):
            log_prob[i] = plan.log_peak - 0.5 * (_total(row.tolist()) / plan.width)
    return (
        after.reshape(sample.shape),
        log_prob.astype(sample.dtype),
        mean.astype(sample.dtype).reshape(sample.shape),
        plan.stds(sample),
    )


class _Plan(NamedTuple):
    """What a stochastic step does to every element (mean = keep * x + push * v), and how the samples lie."""

    keep: float
    push: float
    std: float
    batch: int
    width: int

    @property
    def has_density(self) -> bool:
        return self.std != 0.0 and self.width != 0

    @property
    def log_peak(self) -> float:
        return -math.log(self.std) - 0.5 * math.log(2.0 * math.pi)

    def stds(self, sample: Array) -> Array:
        return np.full(sample.shape[:1] + (1,) * (sample.ndim - 1), self.std).astype(sample.dtype)


def _plan(
    sample: Array,
    velocity: Array,
    sigma: float,
    sigma_next: float,
    noise: Array | None,
    prev_sample: Array | None,
    noise_scale: float,
) -> _Plan:
    if not (noise is None or prev_sample is None):
        raise ValueError("give noise (to draw with it) or prev_sample (to judge it), not both")
    others = given(noise=noise, prev_sample=prev_sample)
    check_floats(sample=sample, velocity=velocity, **others)
    check_alike(sample=sample, velocity=velocity, **others)
    down = descent(sigma, sigma_next)
    sigma, noise_scale = float(sigma), check_number("noise_scale", noise_scale)
    if not (math.isfinite(noise_scale) and noise_scale >= 0.0):
        raise ValueError(f"noise_scale must be finite and not negative, got {noise_scale}")

    keep, push, std = 1.0, -down, 0.0
    if down > 0.0 and sigma_next > 0.0:
        from_noise = max(1.0 - sigma, down - 3.0 * (1.0 - sigma))  # the guard near sigma = 1
        std = noise_scale * math.sqrt(sigma * down / from_noise)
        if std > 0.0:
            pull = noise_scale * noise_scale * down / (2.0 * from_noise)
            keep, push = 1.0 - pull, -down - pull * (1.0 - sigma)
    return _Plan(keep, push, std, sample.shape[0], math.prod(sample.shape[1:]))


def _total(energies: Iterable[float]) -> float:
    """Add up without rounding errors; infinite where the sum is beyond a float."""
    try:
        return math.fsum(energies)
    except OverflowError:
        return math.inf


def _lanes(array: Array) -> NDArray[np.float64]:
    """Lay an array out for the vector unit: flat, in C order. May be a view: only ever read."""
    return np.asarray(array, dtype=np.float64, order="C").reshape(-1)


def _tiles(size: int) -> Iterator[slice]:
    return (slice(start, start + TILE) for start in range(0, size, TILE))


def _scalars(array: Array) -> list[float]:
    """Lay an array out for the scalar unit: its elements in C order."""
    flat: list[float] = array.reshape(-1).tolist()
    return flat


def _store(values: list[float], like: Array) -> Array:
    return np.array(values, dtype=np.float64).reshape(like.shape).astype(like.dtype, copy=False)


def _draw(sample: Array) -> Array:
    return np.random.default_rng().standard_normal(sample.shape)
