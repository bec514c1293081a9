"""What the torch kernels ask of their arguments, each question once, with its wording.

Owns the checks of tensors that several ops share; they look at types, dtypes and shapes alone. Must not read a tensor's
value, change or convert a tensor.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "check_axes",
    "check_broadcast",
    "check_floats",
    "check_lengths",
    "check_same_shape",
    "given",
]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def given(**tensors: Tensor | None) -> dict[str, Tensor]:
    """Give the optional arguments that are there, by name."""
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def check_floats(**tensors: Tensor) -> torch.dtype:
    """Give the dtype to compute in, the widest of float32 and the tensors'.

    Raise TypeError for what is no tensor of float16, bfloat16, float32 or float64.
    """
    wide = torch.float32
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a torch tensor, got {type(tensor).__name__}")
        if tensor.dtype not in _DTYPES:
            raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {tensor.dtype}")
        wide = torch.promote_types(wide, tensor.dtype)
    return wide


def check_same_shape(**tensors: Tensor) -> None:
    """Raise ValueError for shapes unlike the first tensor's, and for a first tensor without a batch axis."""
    (model, first), *others = tensors.items()
    for name, tensor in others:
        if tensor.shape != first.shape:
            raise ValueError(f"{name} must have {model}'s shape {tuple(first.shape)}, got {tuple(tensor.shape)}")
    if first.ndim == 0:
        raise ValueError(f"{model} needs a batch axis: its shape is (), use {model}[None]")


def check_axes(tensor: Tensor, *axes: str, name: str = "x") -> None:
    """Raise ValueError for a tensor that lacks one of the named axes."""
    if tensor.ndim < len(axes):
        raise ValueError(f"{name} must have the axes (..., {', '.join(axes)}), got shape {tuple(tensor.shape)}")


def check_broadcast(shape: tuple[int, ...], what: str, **tensors: Tensor) -> None:
    """Raise ValueError for a tensor that does not broadcast to `shape`, which `what` describes."""
    for name, tensor in tensors.items():
        fits = tensor.ndim <= len(shape) and all(
            # Not `in`, which finds no size that torch.compile keeps open.
            mine == 1 or mine == theirs
            for mine, theirs in zip(reversed(tensor.shape), reversed(shape), strict=False)
        )
        if not fits:
            raise ValueError(f"{name} must broadcast to {what} {shape}, got {tuple(tensor.shape)}")


def check_lengths(length: int, what: str, **tensors: Tensor) -> None:
    """Raise ValueError for a tensor that is no vector of `length`, one element for each of `what`."""
    for name, tensor in tensors.items():
        if tensor.shape != (length,):
            raise ValueError(f"{name} must have shape ({length},), one for each of {what}, got {tuple(tensor.shape)}")
