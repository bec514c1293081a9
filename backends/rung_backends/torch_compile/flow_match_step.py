"""The deterministic step of flow matching, fused by torch.compile. Importing it compiles."""

from __future__ import annotations

import torch
from torch import Tensor

from rung_backends.numbers import check_sigmas
from rung_backends.torch_compile.fusing import COLS, ROWS, Fused, check, number, wide

__all__ = ["flow_match_step"]


def flow_match_step(sample: Tensor, velocity: Tensor, sigma: float, sigma_next: float) -> Tensor:
    """Take one Euler step along the flow: ``sample + (sigma_next - sigma) * velocity``.

    Source, shapes, ranges and errors: `rung_backends.reference.solver.flow_match_step`; bfloat16 is a dtype here too.
    Fused where both arrays have one dtype.
    """
    check(sample=sample, velocity=velocity)
    if velocity.shape != sample.shape:
        raise ValueError(f"velocity must have sample's shape {tuple(sample.shape)}, got {tuple(velocity.shape)}")
    if sample.ndim == 0:
        raise ValueError("sample needs a batch axis: its shape is (), use sample[None]")
    sigma, sigma_next = check_sigmas(sigma, sigma_next)
    return _FUSED(sample.reshape(-1), velocity.reshape(-1), number(sigma_next - sigma)).reshape(sample.shape)


def _formula(sample: Tensor, velocity: Tensor, dt: Tensor) -> Tensor:
    dtype = wide(sample, velocity)
    return (sample.to(dtype) + dt * velocity.to(dtype)).to(sample.dtype)


def _example(dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.ones(ROWS * COLS, dtype=dtype), torch.ones(ROWS * COLS, dtype=dtype), number(-0.1)


_FUSED = Fused(_formula, _example)
