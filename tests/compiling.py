"""Compiles Triton's kernels for GPUs that are not there: everything short of a launch. Imported in a process aside."""

from __future__ import annotations

from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import mangle_type

from rung_backends.triton import activation, guidance, launching, norm, rotary, solver

__all__ = ["compile_all"]


def compile_all(backend: str, arch: int | str, warp: int, dtypes: tuple[str, str]) -> list[str]:
    """Compile what calls of all ops launch on a GPU, x of the first dtype beside others of the second; give the names.

    The calls are made with tensors of the meta device, whose launches are turned into compilations.
    """
    names: list[str] = []

    def launch(kernel: Any, programs: int, out: Any, *args: Any, wide: bool, warps: int, **constants: Any) -> None:
        assert programs > 0
        constants["compute"] = triton.language.float64 if wide else triton.language.float32
        fields = {param.name: param for param in kernel.params if param.name not in constants}
        values = dict(zip(fields, (out, *args), strict=True))
        signature, constexprs, attributes = {}, {}, {}
        for i, param in enumerate(kernel.params):
            value = values.get(param.name)
            special = value if isinstance(value, int) and not param.do_not_specialize else None
            if param.name in constants or special == 1:
                signature[param.name] = "constexpr"
                constexprs[(i,)] = constants.get(param.name, 1)
                continue
            signature[param.name] = mangle_type(value)
            if isinstance(value, torch.Tensor) or (special is not None and special % 16 == 0):
                attributes[(i,)] = [["tt.divisibility", 16]]
        source = ASTSource(kernel, signature, constexprs, attributes)
        options = {"num_warps": warps, "enable_fp_fusion": False}
        triton.compile(source, target=GPUTarget(backend, arch, warp), options=options)
        names.append(kernel.__name__)

    for module in (launching, norm, rotary, guidance):
        vars(module)["launch"] = launch
    first, second = (getattr(torch, name) for name in dtypes)
    x, y = torch.empty(2, 64, 96, dtype=first, device="meta"), torch.empty(2, 64, 96, dtype=second, device="meta")
    row, condition, angles = y[0, 0], y[:, :1], y[0, :, :48]
    crossed = x.transpose(0, 1), y.transpose(0, 1)
    solver.flow_match_step(x, y, 0.5, 0.4)
    solver.flow_match_step(x[1:, 1:2, :1], y[1:, 1:2, :1], 0.5, 0.4)
    solver.cfg_flow_match_step(*crossed, crossed[1], 3.0, 0.5, 0.4)
    guidance.cfg_combine(x, y, 3.0)
    guidance.cfg_combine(*crossed, 3.0, rescale=0.5)
    norm.rms_norm(x, row)
    norm.layer_norm(x, row, row)
    norm.layer_norm(torch.empty(1, 9000, dtype=first, device="meta"))
    norm.modulate(x, condition, row)
    activation.silu_and_mul(x)
    rotary.rotary_embedding(x, angles, angles)
    rotary.rotary_embedding(x, y[:, :1, :48], y[:, :1, :48], interleaved=True)
    return names
