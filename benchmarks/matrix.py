"""Matrices of any size: manifests of so many cells, and the package of trivial kernels that they bind.

Owns what a benchmark's matrix looks like. One cell is one row; an op has 100 cells, its reference included: 33 targets
of five backends, in three variants each. Every row binds a function of its own, and about half of the rows have a
condition besides their backend's. Rows are written in block style and in flow style, as people do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["CELLS_PER_OP", "PACKAGE", "VARIANTS", "names_of_ops", "write"]

PACKAGE: Final = "benchmark_kernels"
"""The package that a matrix binds; one module for each op."""
VARIANTS: Final = ("default", "fused", "fp8")
NOUNS: Final = (
    "attention", "rms_norm", "layer_norm", "rope", "swiglu", "gelu", "matmul", "grouped_matmul", "moe_gate", "softmax",
    "cross_entropy", "conv2d", "conv3d", "patch_embed", "modulate", "quantize", "dequantize", "all_to_all", "top_k",
    "cumulative_sum",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Backend:
    """A bundle of one manifest. `targets` are (device, arch, the row's other fields as YAML)."""

    name: str
    arrays: str
    requires: str
    hint: str
    is_block: bool
    targets: tuple[tuple[str, str, dict[str, str]], ...]


_BACKENDS: Final = (
    _Backend("host", "numpy", "{module: numpy}", "pip install benchmark-host", False, (
        ("cpu", "generic", {}),
        ("cpu", "x86_64_v3", {"when": "{cpu: [avx2, fma]}"}),
        ("cpu", "x86_64_v4", {"when": "{all: [{cpu: [avx512f, avx512bw]}, {os: linux}]}"}),
        ("cpu", "armv8.2a", {"when": "{cpu: asimddp}"}),
        ("cpu", "armv9.0a", {"when": "{cpu: [sve2]}"}),
        ("cpu", "rva23u64", {"when": "{cpu: [v]}"}),
    )),
    _Backend("nvidia", "torch", "torch_cuda", "build the cuda directory", True, (
        ("cuda", "sm_80", {}),
        ("cuda", "sm_86", {}),
        ("cuda", "sm_89", {"workspace_bytes": "0"}),
        ("cuda", "sm_90", {"workspace_bytes": "1048576"}),
        ("cuda", "sm_90a", {"when": '{driver: "cuda >=525"}', "workspace_bytes": "33554432"}),
        ("cuda", "sm_100", {"when": '{runtime: "cuda >=12.8"}'}),
        ("cuda", "sm_100f", {"when": '{runtime: "cuda >=13.0"}'}),
        ("cuda", "sm_103", {"when": '{runtime: "cuda >=12.9"}'}),
        ("cuda", "sm_120", {"when": '{runtime: "cuda >=12.8"}'}),
        ("cuda", "sm_120f", {"when": '{runtime: "cuda >=12.9"}', "exclude": "[sm_121]"}),
        ("cuda", "compute_80", {"when": '{driver: "cuda >=525"}'}),
        ("cuda", "torch", {"degraded": "several kernels in place of one"}),
    )),
    _Backend("amd", "torch", "torch_rocm", "build the hip directory", False, (
        ("rocm", "gfx90a", {}),
        ("rocm", "gfx942", {"workspace_bytes": "1048576"}),
        ("rocm", "gfx950", {}),
        ("rocm", "gfx1100", {}),
        ("rocm", "gfx1200", {}),
        ("rocm", "gfx9-4-generic", {"when": '{runtime: "rocm >=6.3"}'}),
        ("rocm", "gfx11-generic", {"when": '{runtime: "rocm >=6.3"}'}),
        ("rocm", "torch", {"degraded": "several kernels in place of one"}),
    )),
    _Backend("intel", "torch", "torch_xpu", "build the sycl directory", True, (
        ("xpu", "pvc", {}),
        ("xpu", "bmg_g21", {}),
        ("xpu", "spir64", {"when": '{driver: "xpu >=1.6"}'}),
        ("xpu", "torch", {"degraded": "several kernels in place of one"}),
    )),
    _Backend("tiles", "torch", "torch_present", "pip install triton", False, (
        ("cuda", "triton", {"when": '{all: [torch_cuda, {module: "triton >=3"}]}'}),
        ("rocm", "triton", {"when": '{all: [torch_rocm, {module: "triton >=3"}]}'}),
        ("xpu", "triton", {"when": '{all: [torch_xpu, {module: "triton >=3"}]}'}),
    )),
)  # fmt: skip
CELLS_PER_OP: Final = 1 + len(VARIANTS) * sum(len(backend.targets) for backend in _BACKENDS)


def names_of_ops(cells: int) -> list[str]:
    """Give the ops of a matrix of so many cells; the last may have fewer cells than the others."""
    count = -(-cells // CELLS_PER_OP)
    return [f"{NOUNS[number % len(NOUNS)]}_{number // len(NOUNS):03}" for number in range(count)]


def write(directory: Path, cells: int) -> Path:
    """Write the manifests of a matrix, and the package they bind beside them; give the manifests' directory.

    The built-in manifests are not part of it: they have the devices, predicates and profiles that its rows name.
    Raise ValueError for a number of cells that leaves an op with nothing but its reference, which is a fault.
    """
    if cells % CELLS_PER_OP == 1:
        raise ValueError(f"{cells} cells leave an op with its reference alone")
    manifests, package = directory / "manifests", directory / PACKAGE
    manifests.mkdir(parents=True)
    package.mkdir()
    package.joinpath("__init__.py").write_text("")
    package.joinpath("cases.py").write_text("def pairs(dtype, rng):\n    yield (1, 2), {}\n")
    ops = ["manifest: 1", "ops:"]
    kernels: dict[str, list[str]] = {}
    left = cells
    for op in names_of_ops(cells):
        ops += _op(op)
        functions = ["reference"]
        kept = list(islice(_rows(op), left - 1))
        left -= 1 + len(kept)
        heads = set()
        for backend, function, row in kept:
            lines = kernels.setdefault(backend.name, _head(backend))
            if backend.name not in heads:
                heads.add(backend.name)
                lines.append(f"  {op}:")
            lines += row
            functions.append(function)
        text = "\n\n".join(f"def {name}(a, b):\n    return a + b" for name in functions)
        package.joinpath(f"{op}.py").write_text(text + "\n")
    for name, lines in {"ops": ops, **kernels}.items():
        manifests.joinpath(f"{name}.yaml").write_text("\n".join(lines) + "\n")
    return manifests


def _head(backend: _Backend) -> list[str]:
    return [
        "manifest: 1",
        f"backend: {backend.name}",
        f"arrays: {backend.arrays}",
        f"requires: {backend.requires}",
        f"hint: {backend.hint}",
        "kernels:",
    ]


def _op(name: str) -> list[str]:
    return [
        f"  {name}:",
        f"    summary: The {name} of a benchmark.",
        '    signature: "(a: array, b: array) -> array"',
        f'    reference: "{PACKAGE}.{name}:reference"',
        f'    cases: "{PACKAGE}.cases:pairs"',
        "    tolerance: {float64: exact, float32: {rtol: 1.0e-6, atol: 1.0e-6}}",
    ]


def _rows(op: str) -> Iterator[tuple[_Backend, str, list[str]]]:
    """Give each row of an op: its backend, the function it binds, and its lines."""
    for backend in _BACKENDS:
        for device, arch, more in backend.targets:
            for variant in VARIANTS:
                function = re.sub(r"\W", "_", f"{variant}_{device}_{arch}")
                fields = {"device": device, "arch": arch}
                if variant != "default":
                    fields["variant"] = variant
                fields |= {"impl": f'"{PACKAGE}.{op}:{function}"', **more}
                said = [f"{key}: {value}" for key, value in fields.items()]
                if backend.is_block:
                    lines = [f"    {'- ' if not at else '  '}{text}" for at, text in enumerate(said)]
                else:
                    lines = [f"    - {{{', '.join(said)}}}"]
                yield backend, function, lines
