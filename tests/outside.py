"""A backend from outside the repository: an op with its reference and cases, and kernels with one fault each."""

from __future__ import annotations

from typing import Final

__all__ = ["FILES", "kernels", "manifest"]

_MANIFEST: Final = """\
manifest: 1
backend: acme
arrays: torch
ops:
  norm:
    summary: Root mean square normalisation, with a weight.
    signature: "(x: array, weight: array | None = None, *, eps: float = 1e-6) -> array"
    reference: "acme.reference:norm"
    cases: "acme.reference:cases"
    differentiable: [x, weight]
    tolerance:
      float64: {rtol: 1.0e-12, atol: 1.0e-12}
      float32: {rtol: 1.0e-5, atol: 1.0e-6}
      bfloat16: {ulp: 1}
kernels:
  norm:
"""
_REFERENCE: Final = '''\
import numpy as np


def norm(x, weight=None, *, eps=1e-6):
    """x / sqrt(mean(x**2) + eps) * weight."""
    wide = x.astype(np.float64)
    result = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + eps)
    if weight is not None:
        result = result * weight.astype(np.float64)
    return result.astype(x.dtype)


def cases(dtype, rng):
    """Five cases, the last one with more than 64 elements."""
    for shape in ((1,), (3, 7), (4, 8)):
        yield (draw(rng, dtype, shape),), {}
    yield (draw(rng, dtype, (3, 7)), draw(rng, dtype, (7,))), {"eps": 0.01}
    yield (draw(rng, dtype, (64, 65)),), {"weight": draw(rng, dtype, (65,))}


def draw(rng, dtype, shape):
    """Values that the dtype holds exactly; numpy has no bfloat16."""
    values = rng.standard_normal(shape)
    if dtype != "bfloat16":
        return values.astype(dtype)
    return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
'''
_KERNELS: Final = '''\
import torch


def good(x, weight=None, *, eps=1e-6):
    wide = torch.promote_types(x.dtype, torch.float32)
    result = x.to(wide)
    result = result * torch.rsqrt(result.square().mean(-1, keepdim=True) + eps)
    return (result if weight is None else result * weight.to(wide)).to(x.dtype)


def sign(x, weight=None, *, eps=1e-6):
    """One element of (3, 7) has the wrong sign."""
    result = good(x, weight, eps=eps)
    signs = torch.ones_like(result)
    if result.shape == (3, 7):
        signs[1, 2] = -1
    return result * signs


def narrow(x, weight=None, *, eps=1e-6):
    """The mean is taken in float32."""
    result = x * torch.rsqrt(x.square().float().mean(-1, keepdim=True) + eps).to(x.dtype)
    return result if weight is None else result * weight


def cut(x, weight=None, *, eps=1e-6):
    return good(x.detach(), None if weight is None else weight.detach(), eps=eps)


def cut_weight(x, weight=None, *, eps=1e-6):
    return good(x, None if weight is None else weight.detach(), eps=eps)


class Flip(torch.autograd.Function):
    """The identity, whose gradient has the wrong sign in one element."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        if gradient.shape == (3, 7):
            gradient[1, 2] *= -1
        return gradient


def flipped(x, weight=None, *, eps=1e-6):
    return good(Flip.apply(x), weight, eps=eps)
'''
FILES: Final = {"acme/__init__.py": "", "acme/reference.py": _REFERENCE, "acme/kernels.py": _KERNELS}


def manifest(*names: str, accepts: str = "") -> str:
    """Give the manifest of cells for kernels of these names, each a variant, with what they accept."""
    more = f", accepts: {accepts}" if accepts else ""
    rows = [f'    - {{device: cpu, arch: torch, variant: {n}, impl: "acme.kernels:{n}"{more}}}\n' for n in names]
    return _MANIFEST + "".join(rows)


def kernels(body: str) -> dict[str, str]:
    """Give the files with another module of kernels."""
    return {**FILES, "acme/kernels.py": body}
