"""The matrix product of scaled float8 matrices in PyTorch: one form for every device, one for float8 hardware.

Owns the torch form of the contract of `rung_backends.reference.matmul`. Computes in float32, in float64 only where
that is asked for or an argument is of it, for mps has none. Reads no tensor's value, so `torch.compile` sees through
it and no device waits. Must not name a device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rung_backends.torch.autocast import as_given

__all__ = ["scaled_mm", "scaled_mm_fp8"]

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# The second pair is what AMD's MI300 multiplies.
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
_OUT_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def scaled_mm(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, *, bias: Tensor | None = None, out_dtype: str = "bfloat16"
) -> Tensor:
    """Multiply two float8 matrices and scale the product back: ``(a @ b) * scale_a * scale_b + bias``.

    Widens the matrices, which any device can, and multiplies them as float32. Source, shapes and errors:
    `rung_backends.reference.matmul.scaled_mm`; here float8 and bfloat16 are dtypes too, and a bfloat16 result is one.
    Gradients reach the scales and `bias`, and matrices that are not float8.
    """
    dtype = _check(a, b, scale_a, scale_b, bias, out_dtype, (*_FLOAT8, *_FLOATS))
    given = [tensor for tensor in (a, b, scale_a, scale_b, bias) if tensor is not None]
    wide = torch.float64 if torch.float64 in (dtype, *(tensor.dtype for tensor in given)) else torch.float32
    # Scaled after the product, as float8 hardware does: float8 values are few enough bits to pass unharmed where
    # float32 is multiplied as TF32 or bfloat16, scaled ones are not.
    with as_given(a.device):
        product = a.to(wide) @ b.to(wide)
    result = product * scale_a.to(wide) * scale_b.to(wide)
    if bias is not None:
        result = result + bias.to(wide)
    return result.to(dtype)


def scaled_mm_fp8(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, *, bias: Tensor | None = None, out_dtype: str = "bfloat16"
) -> Tensor:
    """Multiply two float8 matrices as float8, by `torch.nn.functional.scaled_mm` with float32 sums.

    Shapes, errors and what is computed: `scaled_mm`. Has no gradient. Beyond that contract, on CUDA:

    * compute capability 8.9, or 9.0 and up;
    * K and N are multiples of 16, M is anything;
    * the scales are float32;
    * `b` is float8_e4m3fn and `a` float8_e4m3fn or float8_e5m2: the library multiplies no two e5m2 matrices, and
      with a scale for each row takes e5m2 only as `a`;
    * what an infinite scale gives, an infinity or NaN, is the library's: some of its kernels scale the matrices first.

    The hardware reads `a` by rows and `b` by columns. Laid out otherwise, they are copied first; a weight stored as
    (N, K) and passed as ``weight.t()`` is not. A bias of the result's dtype, if that is a half, is added by the
    product; for any other the product gives float32.
    """
    # Imported here, for scaled_mm must load where torch is older than this.
    from torch.nn.functional import ScalingType
    from torch.nn.functional import scaled_mm as multiply

    dtype = _check(a, b, scale_a, scale_b, bias, out_dtype, _FLOAT8)
    rows, columns = a.shape[0], b.shape[1]
    recipe = ScalingType.TensorWise
    if scale_a.numel() != 1 or scale_b.numel() != 1:  # one scale for a matrix and many for the other is no recipe
        recipe = ScalingType.RowWise
        scale_a, scale_b = scale_a.expand(rows, 1).contiguous(), scale_b.expand(1, columns).contiguous()
    # Without a product there is nothing torch adds the bias to.
    fused = bias is None or (bias.dtype == dtype in (torch.bfloat16, torch.float16) and a.shape[1] > 0)
    result = multiply(
        a.contiguous(),
        b.t().contiguous().t(),
        scale_a,
        recipe,
        scale_b,
        recipe,
        bias=bias if fused else None,
        output_dtype=dtype if fused and dtype != torch.float64 else torch.float32,
    )
    if bias is not None and not fused:
        result = result + bias.to(torch.float32)
    return result.to(dtype)


def _check(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None,
    out_dtype: str,
    matrices: tuple[torch.dtype, ...],
) -> torch.dtype:
    """Refuse what the op cannot take; give the dtype of the result."""
    for name, tensor in {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "bias": bias}.items():
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a torch tensor, got {type(tensor).__name__}")
        allowed = matrices if name in ("a", "b") else _FLOATS
        if tensor.dtype not in allowed:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
            raise TypeError(f"{name} must be one of {names}, got {tensor.dtype}")
    if not isinstance(out_dtype, str) or out_dtype not in _OUT_DTYPES:
        raise ValueError(f"out_dtype must be one of {', '.join(_OUT_DTYPES)}, got {out_dtype!r}")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ValueError(f"need a of shape (M, K) and b of shape (K, N), got {shapes}")
    rows, columns = a.shape[0], b.shape[1]
    for name, scale, shape in (("scale_a", scale_a, (rows, 1)), ("scale_b", scale_b, (1, columns))):
        if not ((scale.numel() == 1 and scale.ndim <= 2) or tuple(scale.shape) == shape):
            raise ValueError(f"{name} must have one element or shape {shape}, got {tuple(scale.shape)}")
    if bias is not None and tuple(bias.shape) != (columns,):
        raise ValueError(
            f"bias must have shape {(columns,)}, one element for each column of b, got {tuple(bias.shape)}"
        )
    return _OUT_DTYPES[out_dtype]
