"""What somebody who writes a first manifest gets wrong, and whether the message alone is enough to repair it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from judging import judged

if TYPE_CHECKING:
    from pathlib import Path

BACKEND = "manifest: 1\nbackend: acme\narrays: torch\n"
ROWS = BACKEND + "kernels:\n  flow_match_step:\n"
OP = 'manifest: 1\nops:\n  o:\n    summary: S.\n    signature: "(x: array) -> array"\n    reference: "acme.ref:o"\n'


def row(text: str) -> str:
    return f'{ROWS}    - {{{text}, impl: "acme.kernels:step"}}\n'


def when(text: str) -> str:
    return row(f"device: cuda, arch: sm_90, when: {text}")


def serving(name: str) -> str:
    return f'{BACKEND}kernels:\n  {name}:\n    - {{device: cpu, impl: "acme.kernels:step"}}\n'


def impl(text: str) -> str:
    return f"{ROWS}    - {{device: cpu, impl: {text}}}\n"


MISTAKES = [
    ("arch-a-product", row("device: cuda, arch: H200"), "RG301", "did you mean `sm_90` (H200)?"),
    ("arch-a-product-in-lower-case", row("device: cuda, arch: h100"), "RG301", "did you mean `sm_90` (H100)?"),
    ("arch-a-card", row("device: cuda, arch: rtx4090"), "RG301", "did you mean `sm_89` (RTX 40)?"),
    ("arch-half-a-product", row("device: rocm, arch: mi300"), "RG301", "did you mean `gfx942` (MI300"),
    ("arch-a-code-name", row("device: cuda, arch: hopper"), "RG301", "`sm_90` (H100)"),
    ("arch-a-number", row("device: cuda, arch: 90"), "RG103", "such as `sm_90`"),
    ("arch-a-capability", row("device: cuda, arch: [9.0]"), "RG103", "such as `sm_90`"),
    ("arch-without-line", row("device: cuda, arch: sm90a"), "RG301", "did you mean `sm_90a`?"),
    ("arch-in-capitals", row("device: cuda, arch: SM_90"), "RG301", "did you mean `sm_90`?"),
    ("arch-with-a-mode", row('device: rocm, arch: "gfx942:xnack-"'), "RG205", "write `gfx942`;"),
    ("arch-with-hyphens", row("device: cpu, arch: x86-64-v3"), "RG301", "did you mean `x86_64_v3`?"),
    ("arch-of-another-device", row("device: cuda, arch: gfx942"), "RG301", "it is a target of `rocm`;"),
    ("arch-a-device", row("device: cuda, arch: cuda"), "RG301", "`cuda` is a device; write a target"),
    ("arch-of-one-device", row("device: [cpu, cuda], arch: x86_64_v3"), "RG301", "give `cuda` a row of its own"),
    ("device-a-word", row("device: gpu"), "RG305", "say which: `cuda` (NVIDIA GPUs)"),
    ("device-a-vendor", row("device: nvidia"), "RG305", "did you mean `cuda` (NVIDIA GPUs)?"),
    ("device-another-vendor", row("device: AMD".lower()), "RG305", "did you mean `rocm` (AMD GPUs)?"),
    ("device-of-another-kind", row("device: npu"), "RG305", "known: `accel`, `cpu`"),
    ("device-an-arch", row("device: sm_90"), "RG305", "write `device: cuda` and `arch: sm_90`"),
    ("device-a-product", row("device: h100"), "RG305", "that is H100: write `device: cuda` and `arch: sm_90`"),
    ("device-in-capitals", row("device: CUDA"), "RG205", "such as `cuda`"),
    ("device-with-a-number", row('device: "cuda:0"'), "RG205", "such as `cuda`"),
    ("path-of-a-file", impl('"acme/kernels.py:f"'), "RG205", "did you mean `acme.kernels:f`?"),
    ("path-with-dots", impl("acme.kernels.f"), "RG205", "did you mean `acme.kernels:f`?"),
    ("path-of-a-method", impl('"acme.kernels:Kernel.run"'), "RG802", "name one public function"),
    ("path-called", impl('"acme.kernels:f()"'), "RG205", "did you mean `acme.kernels:f`?"),
    ("path-relative", impl('".kernels:f"'), "RG205", "the package first"),
    ("quote-left-open", impl('"acme.kernels:f'), "RG002", "close the quote"),
    ("tab", ROWS + "\t- device: cpu\n", "RG002", "indent with spaces, not tabs"),
    ("key-without-space", ROWS + "    - device:cpu\n      arch: numpy\n", "RG002", "a space behind each colon"),
    ("dash-lost", ROWS + '    device: cpu\n    impl: "a.b:c"\n', "RG202", "start each entry with `- `"),
    ("rows-without-op", BACKEND + "kernels:\n  - {op: flow_match_step, device: cpu}\n", "RG202", "as a key"),
    ("when-true", when("true"), "RG202", "always holds: remove the key"),
    ("when-yes", when("yes"), "RG102", "always holds: remove the key"),
    ("when-a-device", when("cuda"), "RG304", "write {device: cuda}"),
    ("when-a-system", when("linux"), "RG304", "write {os: linux}"),
    ("when-a-module", when("torch"), "RG304", "write {module: torch}"),
    ("when-another-module", when("my_library"), "RG304", "a module is asked for as {module: my_library}"),
    ("when-an-arch", when("sm_90"), "RG304", "write {arch: sm_90}"),
    ("when-a-flag", when("avx2"), "RG304", "write {cpu: avx2}"),
    ("when-a-version", when("torch>=2.4"), "RG205", "{module: torch >=2.4}"),
    ("when-a-version-as-key", when('{torch: ">=2.4"}'), "RG201", "{module: torch >=2.4}"),
    ("when-a-distribution", when("flash-attn"), "RG205", "{module: flash_attn}"),
    ("when-and", when("torch_present and torch_cuda"), "RG205", "[torch_present, torch_cuda]"),
    ("when-two-atoms", when("{module: torch, device: cuda}"), "RG207", "put them under `all:`"),
    ("when-and-as-key", when("{and: [torch_cuda, {os: linux}]}"), "RG201", "did you mean `all`?"),
    ("version-alone", when("{module: torch 2.4}"), "RG202", "as in `>=2.4`"),
    ("python-a-number", when("{python: 3.11}"), "RG103", 'write ">=3.11"'),
    ("python-alone", when('{python: "3.11"}'), "RG202", "as in `>=3.11`"),
    ("driver-without-device", when('{driver: ">=525"}'), "RG205", "`cuda >=525`"),
    ("driver-without-version", when("{driver: cuda}"), "RG203", "`cuda >=525`"),
    ("env-with-equals", when("{env: ACME=1}"), "RG205", 'write {env: {ACME: "1"}}'),
    ("flag-misspelt", when("{cpu: [avx22]}"), "RG204", "did you mean `avx2`?"),
    ("flag-in-capitals", when("{cpu: AVX512F}"), "RG204", "did you mean `avx512f`?"),
    ("flag-of-compilers", when("{cpu: lzcnt}"), "RG204", "did you mean `abm`?"),
    ("system-in-capitals", when("{os: Linux}"), "RG205", "such as `linux`"),
    ("system-a-distribution", when("{os: [linux, ubuntu]}"), "RG204", "did you mean `linux`?"),
    ("system-by-its-brand", when("{os: macos}"), "RG204", "did you mean `darwin`?"),
    ("machine-by-another-name", when("{machine: x64}"), "RG204", "`AMD64` for Windows"),
    ("machine-with-hyphens", when("{machine: x86-64}"), "RG204", "write `x86_64`"),
    ("machine-misspelt", when("{machine: aarch46}"), "RG204", "did you mean `aarch64`?"),
    ("requires-a-module", BACKEND + "requires: torch\nkernels: {}\n", "RG304", "write {module: torch}"),
    ("key-function", row("device: cpu").replace("impl:", "function:"), "RG201", "did you mean `impl`?"),
    ("key-priority", row("device: cpu, priority: 10"), "RG201", "chains of variants"),
    ("key-dtype", row("device: cpu, dtype: float16"), "RG201", "a `variant` of its own"),
    ("key-name", BACKEND.replace("backend", "name") + "kernels: {}\n", "RG201", "did you mean `backend`?"),
    ("key-description", OP.replace("summary", "description"), "RG201", "did you mean `summary`?"),
    ("key-missing", OP.replace("    summary: S.\n", ""), "RG203", "add `summary:`"),
    ("op-not-declared", serving("gemm"), "RG302", "`ops:`"),
    ("op-a-kind", serving("dit"), "RG302", "`components:`"),
    ("op-a-class", serving("FlowStep"), "RG205", "`flow_step`"),
    ("variant-in-capitals", row("device: cpu, variant: Fused"), "RG205", "such as `fused`"),
    ("arrays-of-another-library", BACKEND.replace("torch", "jax") + "hint: x\n", "RG311", "known: `numpy`, `torch`"),
    ("artifact-by-another-name", row("device: cuda, arch: sm_90, artifact: cubin"), "RG204", "did you mean `native`?"),
    ("bytes-in-quotes", row('device: cpu, workspace_bytes: "0"'), "RG202", "write 0, without quotes"),
    ("bytes-as-a-float", row("device: cpu, workspace_bytes: 1e6"), "RG102", "write a whole number"),
    ("tolerance-a-number", OP + "    tolerance: 1.0e-5\n", "RG202", "{float64: exact"),
    ("tolerance-of-a-dtype-a-number", OP + "    tolerance: {float32: 1.0e-5}\n", "RG202", "`rtol`"),
    ("tolerance-of-a-short-dtype", OP + "    tolerance: {fp16: exact}\n", "RG204", "did you mean `float16`?"),
    ("signature-without-types", OP.replace('"(x: array) -> array"', "(x, y)"), "RG202", "(x: array"),
    ("reference-a-library", OP.replace('"acme.ref:o"', "numpy"), "RG205", "`package.module:function`"),
    (
        "fallback-in-brackets",
        "manifest: 1\ndevices:\n  npu: {summary: S., arrays: [numpy], falls_back_to: [cpu]}\n",
        "RG202",
        "write `cpu` alone",
    ),
    (
        "fallback-by-another-name",
        "manifest: 1\ndevices:\n  npu: {summary: S., arrays: [numpy], fallback: cpu}\n",
        "RG201",
        "did you mean `falls_back_to`?",
    ),
    (
        "chain-of-one",
        "manifest: 1\nprofiles:\n  mine: {chains: {flow_match_step: fused}}\n",
        "RG202",
        "write [fused]",
    ),
    ("level-another-word", "manifest: 1\nprofiles:\n  a: {fall: {device: raise}}\n", "RG204", "did you mean `error`?"),
    ("former-name", when("torch_cuda").replace("when:", "available:"), "RG208", "rename it to `when`"),
    ("allow-list", BACKEND + "allow: [acme]\nhint: x\n", "RG804", "`--allow`"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "part"), [pytest.param(*m[1:], id=m[0]) for m in MISTAKES])
def test_one_message_that_says_how_to_repair_it(tmp_path: Path, text: str, code: str, part: str) -> None:
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    (problem,) = judged(tmp_path, roots=None).problems
    assert (problem.code, part in problem.hint) == (code, True), problem.full()
    assert len(problem.message) <= 80


def test_a_lost_indentation_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BACKEND + "kernels:\nflow_match_step:\n  - {device: cpu}\n", encoding="utf-8")
    null, unknown = judged(tmp_path, roots=None).problems
    assert (null.code, unknown.code) == ("RG108", "RG201")
    assert unknown.hint.startswith("indent it if it belongs to `kernels`")
