"""Scaled dot-product attention in PyTorch: one implementation for cpu, cuda, rocm, mps and xpu.

Owns the torch form of the contract of `rung_backends.reference.attention`, over the fused kernels torch chooses
from. Those keep halves' scores and sums in float32 themselves, so halves are handed on as they are: widened first,
they would miss the fast kernels. Makes no float64 tensor unless an argument is one, for mps has none. Builds every
result from differentiable, out-of-place operations and reads no tensor's value, so autograd and `torch.compile` see
through it and no device waits. Must not name a device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from rung_backends.numbers import check_finite
from rung_backends.torch.autocast import as_given
from rung_backends.torch.checks import check_broadcast, given

__all__ = ["attention"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# How many float32 a vector register holds at most. With fewer keys the fused kernel of the CPU passes over NaN when it
# looks for a row's largest score, and gives zeros for a row of nothing else; given a mask, it looks another way.
_LANES = 16


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Average values by how well each query meets their keys: ``softmax(scale * q @ k.T + mask) @ v``.

    Source, shapes, masks, rows that see nothing, and errors: `rung_backends.reference.attention.attention`;
    bfloat16 is a dtype here too. Where dtypes differ, the widest decides what is computed in: a float32 mask beside
    halves costs the kernels for halves, a boolean one or one of q's dtype does not.

    One place is left to torch: its fused kernels for halves on a CPU may give zeros, and not NaN, for a row with a
    score of +inf. float32 and float64 have NaN there.

    Gradients reach `q`, `k`, `v` and a floating `mask`; rows that see nothing pass on zeros. The fused kernels
    that torch may choose, on a CPU too, have neither second derivatives nor forward-mode ones.
    """
    _check(q, k, v, mask)
    scale = 1.0 / math.sqrt(q.shape[3]) if scale is None else check_finite("scale", scale)
    dtype, wide = q.dtype, q.dtype
    for tensor in (k, v, mask):
        if tensor is not None and tensor.dtype != torch.bool:
            wide = torch.promote_types(wide, tensor.dtype)
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    if scale <= 0.0:  # fused kernels look for the largest score before they scale, or multiply a hidden -inf by 0
        q, scale = (-q, -scale) if scale < 0.0 else (0.0 * q, 1.0)
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)

    # Causal queries before the first key see nothing. Without them Sq <= Skv, and every row has a key.
    blind = max(q.shape[2] - k.shape[2], 0) if causal else 0
    if blind:
        q = q[:, :, blind:]
        if mask is not None and mask.shape[2] > 1:
            mask = mask[:, :, blind:]
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]

    # torch aligns the first query with the first key, which is the same only where there are as many. One query
    # alone sees all keys.
    square, ahead = False, None
    if causal and queries > 1:
        if mask is None and queries == keys >= _LANES:
            square = True
        else:
            ahead = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(keys - queries + 1)
    hidden = None
    if mask is not None:
        mask, hidden = _opened(mask, ahead, wide)
    elif ahead is not None:
        mask = ~ahead
    few = mask is None and 0 < keys < _LANES

    if heads > kv_heads:
        if mask is None and not square:  # where all see the same keys, heads that share them are more rows of one
            q = q.reshape(batch, kv_heads, heads // kv_heads * queries, width)
        else:
            k, v = (t.unsqueeze(2).expand(-1, -1, heads // kv_heads, -1, -1).flatten(1, 2) for t in (k, v))
    if few:
        mask = torch.ones(1, keys, dtype=torch.bool, device=q.device)
    with as_given(q.device):
        result = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=square, scale=scale)
    result = result.reshape(batch, heads, queries, v.shape[3])
    if hidden is not None:
        result = result.masked_fill(hidden, 0.0)
    if blind:
        result = pad(result, (0, 0, blind, 0))
    return result.to(dtype)


def _opened(mask: Tensor, ahead: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Give the mask, what is `ahead` hidden too, with rows that see nothing opened, and which rows those are.

    What softmax makes of such a row, and what its gradient is, differs between versions of torch and between its
    kernels. An opened row is an ordinary one, and its result can be replaced.
    """
    if mask.dtype == torch.bool:
        mask = mask if ahead is None else mask & ~ahead
        hidden = ~mask.any(-1, keepdim=True)
        return mask | hidden, hidden
    mask = mask.to(dtype)
    mask = mask if ahead is None else torch.where(ahead, -math.inf, mask)
    hidden = (mask == -math.inf).all(-1, keepdim=True)
    return mask.masked_fill(hidden, 0.0), hidden


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    for name, tensor in {"q": q, "k": k, "v": v, "mask": mask}.items():
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a torch tensor, got {type(tensor).__name__}")
        if name == "mask" and tensor.dtype == torch.bool:
            continue
        if tensor.dtype not in _DTYPES:
            kinds = "boolean (True keeps), float16" if name == "mask" else "float16"
            raise TypeError(f"{name} must be {kinds}, bfloat16, float32 or float64, got {tensor.dtype}")
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"q, k and v need four axes (batch, head, position, element), got {shapes}")
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ValueError(f"q, k and v must have the same batch, got {shapes}")
    if k.shape[:3] != v.shape[:3]:
        raise ValueError(f"k and v must agree in heads and positions, got {shapes}")
    if q.shape[3] != k.shape[3] or q.shape[3] == 0:
        raise ValueError(f"q and k need as many elements, at least one, got {shapes}")
    if q.shape[1] % k.shape[1] if k.shape[1] else q.shape[1]:
        raise ValueError(f"the heads of q must be a multiple of those of k and v, got {shapes}")
    scores = (*q.shape[:3], k.shape[2])
    check_broadcast(scores, "(B, Hq, Sq, Skv) =", **given(mask=mask))
