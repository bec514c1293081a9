"""Activation functions in PyTorch: one implementation for cpu, cuda, rocm, mps and xpu.

Owns the torch form of the contract of `rung_backends.reference.activation`. Computes float16 and bfloat16 in float32
and casts back; makes no float64 tensor unless an argument is one, for mps has none. Builds every result from
differentiable, out-of-place operations and reads no tensor's value. Must not name a device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

from rung_backends.torch.checks import check_axes, check_floats

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["gelu", "silu_and_mul"]


def silu_and_mul(x: Tensor) -> Tensor:
    """Gate one half of the last axis with the other: ``silu(x[..., :d]) * x[..., d:]``, silu(a) = a / (1 + exp(-a)).

    Source, shapes and errors: `rung_backends.reference.activation.silu_and_mul`; bfloat16 is a dtype here too.
    Gradients reach x.
    """
    wide = check_floats(x=x)
    check_axes(x, "2d")
    if x.shape[-1] % 2:
        raise ValueError(f"x's last axis holds two halves and must be even, got shape {tuple(x.shape)}")
    half = x.shape[-1] // 2
    return (functional.silu(x[..., :half].to(wide)) * x[..., half:].to(wide)).to(x.dtype)


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Weigh each element with the chance that a standard normal draw is below it: ``x * Phi(x)``.

    Source, shapes and errors: `rung_backends.reference.activation.gelu`; bfloat16 is a dtype here too. The library
    takes 1 + erf or 1 + tanh for twice that chance, so far down the negative side an answer is as accurate as its
    dtype is at x, and not at the answer. Gradients reach x.
    """
    wide = check_floats(x=x)
    if approximate not in ("none", "tanh"):
        raise ValueError(f'approximate must be "none" or "tanh", got {approximate!r}')
    return functional.gelu(x.to(wide), approximate=approximate).to(x.dtype)
