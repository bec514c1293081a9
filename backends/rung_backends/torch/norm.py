"""Normalisation and its modulation in PyTorch: one implementation for cpu, cuda, rocm, mps and xpu.

Owns the torch form of the contract of `rung_backends.reference.norm`. Computes float16 and bfloat16 in float32,
weights included, and casts back; makes no float64 tensor unless an argument is one, for mps has none. Builds every
result from differentiable, out-of-place operations and reads no tensor's value. Must not name a device.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rung_backends.numbers import check_integer, check_not_negative
from rung_backends.torch.checks import check_axes, check_broadcast, check_floats, check_lengths, given

__all__ = ["group_norm", "layer_norm", "modulate", "rms_norm"]


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """Divide each row by its root mean square: ``x / sqrt(mean(x**2) + eps) * weight`` over the last axis.

    Source, shapes and errors: `rung_backends.reference.norm.rms_norm`; bfloat16 is a dtype here too. Gradients reach
    x and weight.
    """
    vectors = given(weight=weight)
    wide = check_floats(x=x, **vectors)
    check_axes(x, "D")
    check_lengths(x.shape[-1], "the elements of x's last axis", **vectors)
    eps = check_not_negative("eps", eps)
    return functional.rms_norm(x.to(wide), x.shape[-1:], _cast(weight, wide), eps).to(x.dtype)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
    """Centre each row and divide by its deviation: ``(x - mean) / sqrt(var + eps) * weight + bias``, last axis.

    Source, shapes and errors: `rung_backends.reference.norm.layer_norm`; bfloat16 is a dtype here too. Gradients reach
    x, weight and bias.
    """
    vectors = given(weight=weight, bias=bias)
    wide = check_floats(x=x, **vectors)
    check_axes(x, "D")
    check_lengths(x.shape[-1], "the elements of x's last axis", **vectors)
    eps = check_not_negative("eps", eps)
    normed = functional.layer_norm(x.to(wide), x.shape[-1:], _cast(weight, wide), _cast(bias, wide), eps)
    return normed.to(x.dtype)


def group_norm(
    x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """Normalise groups of channels: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Source, shapes and errors: `rung_backends.reference.norm.group_norm`; bfloat16 is a dtype here too. Gradients reach
    x, weight and bias.
    """
    vectors = given(weight=weight, bias=bias)
    wide = check_floats(x=x, **vectors)
    groups = check_integer("groups", groups)
    if x.ndim < 2:
        raise ValueError(f"x must have the axes (N, C, ...), got shape {tuple(x.shape)}")
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise ValueError(f"groups must be 1 or more and divide x's {channels} channels, got {groups}")
    check_lengths(channels, "x's channels", **vectors)
    eps = check_not_negative("eps", eps)
    if not x.numel():  # the library's gradients of weight and bias are NaN there, and nothing's are 0
        empty = x.to(wide)
        for vector in vectors.values():
            empty = empty + vector.to(wide).reshape(-1, *[1] * (x.ndim - 2))
        return empty.to(x.dtype, copy=True)
    rows = x.contiguous().view(x.shape[0], groups, -1)
    # The library folds weight, bias and mean into one product and one sum, and for channels-last tensors it subtracts
    # squares: both leave little of a small deviation beside a large mean. So rows are measured from their first
    # element, which makes no difference to a norm, nor to its gradient; and three axes are never taken for
    # channels-last. `functional.group_norm` refuses a single element, which training has no use for.
    rows = rows - rows[..., :1].detach().to(wide)
    normed = torch.group_norm(rows.view(*x.shape[:2], -1), groups, _cast(weight, wide), _cast(bias, wide), eps)
    return normed.view(x.shape).to(x.dtype)


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Scale and shift: ``x * (1 + scale) + shift``.

    Source, shapes and errors: `rung_backends.reference.norm.modulate`; bfloat16 is a dtype here too. Gradients reach
    all three.
    """
    wide = check_floats(x=x, shift=shift, scale=scale)
    check_broadcast(tuple(x.shape), "x's shape", shift=shift, scale=scale)
    return torch.addcmul(shift.to(wide), x.to(wide), 1.0 + scale.to(wide)).to(x.dtype)


def _cast(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if tensor is None else tensor.to(dtype)
