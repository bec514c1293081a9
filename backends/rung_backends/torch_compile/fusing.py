"""Functions that are compiled once and never again.

Owns compiling and warming up, and the checks that all ops share. Must not know what an op computes.

Note [Compiled once]: `torch.compile` compiles when it meets what it has no code for, in the middle of a call. Here all
code is made in one place, when a `Fused` is made, for each dtype and with every size left open. Afterwards Dynamo only
looks for code that fits, and where none does the formula runs eagerly: for sizes of 0 and 1 and sums of other lengths,
which would need code of their own, for other dtypes and devices, under autocast, or when the number of threads, the
default dtype or the default device is not what it was when the code was made. Such calls are right and unfused. Warm-up
sizes are all different, for Dynamo takes sizes that are equal in the first call to be equal in all, and large, for what
is small is not spread over threads.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
import torch._dynamo
from torch import Tensor
from torch.utils.dlpack import from_dlpack

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["COLS", "DTYPES", "ROWS", "Fused", "check", "number", "single", "wide"]

DTYPES = (torch.bfloat16, torch.float32)
"""The dtypes code is made for: each costs seconds per op, and on a CPU little is computed in float16."""

ROWS, COLS = 514, 1026
"""Sizes to warm up with."""

_ALL = (torch.float16, *DTYPES, torch.float64)


class Fused:
    """A function of tensors, compiled for `DTYPES`; see Note [Compiled once].

    `example` gives arguments to warm up with, whatever their values, for a dtype.
    """

    def __init__(self, formula: Callable[..., Tensor], example: Callable[[torch.dtype], tuple[Tensor, ...]]) -> None:
        self.formula = formula
        self.compiled: Callable[..., Tensor] = torch.compile(formula, dynamic=True, fullgraph=True)
        with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
            warnings.simplefilter("ignore")  # what torch thinks of its own modules is no business of the caller's
            for dtype in DTYPES:
                self.compiled(*example(dtype))
        self._run: Callable[..., Tensor] = torch._dynamo.run(self.compiled)

    def __call__(self, *arrays: Tensor) -> Tensor:
        """Give the formula's result, from the code that fits or else eagerly."""
        arrays = tuple(array.contiguous() for array in arrays)
        if torch.compiler.is_compiling() or (torch.is_grad_enabled() and any(a.requires_grad for a in arrays)):
            return self.formula(*arrays)
        with torch.inference_mode(False), torch.no_grad():
            return self._run(*map(_plain, arrays))


def _plain(array: Tensor) -> Tensor:
    """Give a tensor of the same memory that is neither a parameter nor made for inference; code fits neither."""
    array = array.detach()
    return from_dlpack(array) if array.is_inference() else array


def number(value: float) -> Tensor:
    """Give a number as an argument that code is not made anew for."""
    return torch.tensor(value, dtype=torch.float64, device="cpu")


def single(array: Tensor) -> Tensor:
    """Give a small array beside the first in float32, unless it is wider: code is made for this dtype alone."""
    return array.to(torch.promote_types(array.dtype, torch.float32))


def wide(*arrays: Tensor) -> torch.dtype:
    """Give the dtype to compute in, float32 or wider."""
    dtype = torch.float32
    for array in arrays:
        dtype = torch.promote_types(dtype, array.dtype)
    return dtype


def check(**arrays: Tensor | None) -> None:
    """Refuse what is no tensor of a floating dtype, under the names given: raise TypeError."""
    for name, array in arrays.items():
        if array is None:
            continue
        if not isinstance(array, Tensor):
            raise TypeError(f"{name} must be a torch tensor, got {type(array).__name__}")
        if array.dtype not in _ALL:
            raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {array.dtype}")
