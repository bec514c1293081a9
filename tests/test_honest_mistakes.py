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


def platform(text: str) -> str:
    return f"manifest: 1\nplatforms:\n  mine: {{summary: S., device: cpu, arch: x86_64, {text}}}\n"


def signature(text: str) -> str:
    return OP.replace("(x: array) -> array", text)


def summary(text: str) -> str:
    return f"manifest: 1\nkinds: {{k: {{summary: {text}}}}}\n"


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
    ("key-dtype", row("device: cpu, dtype: float16"), "RG201", "`accepts: {x.dtype: [float16, bfloat16]}`"),
    ("key-name", BACKEND.replace("backend", "name") + "kernels: {}\n", "RG201", "did you mean `backend`?"),
    ("key-description", OP.replace("summary", "description"), "RG201", "did you mean `summary`?"),
    ("key-missing", OP.replace("    summary: S.\n", ""), "RG203", "add `summary:`"),
    ("op-not-declared", serving("top_k_sampling"), "RG302", "`ops:`"),
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
    ("signature-without-types", OP.replace('"(x: array) -> array"', "(x) -> array"), "RG202", "(x: array"),
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
    ("platform-by-its-brand", platform("os: macos"), "RG204", "did you mean `darwin`?"),
    ("platform-in-capitals", platform("os: Linux"), "RG205", "such as `linux`"),
    ("platform-with-a-misspelt-machine", platform("machine: amd46"), "RG204", "did you mean `AMD64`?"),
    ("platform-with-two-machines", platform('machine: "x86_64, arm64"'), "RG204", "names one: write `x86_64`"),
    ("when-a-version-of-a-device", when("cuda>=12"), "RG205", "{driver: cuda >=12}"),
    ("when-a-version-of-a-device-as-key", when('{rocm: ">=6"}'), "RG201", "write {runtime: rocm >=6}"),
    ("when-a-version-of-python", when("python>=3.11"), "RG205", 'write {python: ">=3.11"}'),
    ("when-a-name-with-a-value", when("{torch_cuda: true}"), "RG201", "write `torch_cuda` alone"),
    ("device-with-a-version", when("{device: cuda >=12}"), "RG205", "write {runtime: cuda >=12}"),
    ("module-a-device", when("{module: cuda >=12}"), "RG205", "write {runtime: cuda >=12} or {driver: cuda >=12}"),
    ("module-a-device-alone", when("{module: mps}"), "RG205", "write {device: mps}"),
    ("module-a-distribution", when("{module: PyTorch >=2}"), "RG205", "write {module: torch >=2}"),
    ("module-a-distribution-in-long", when("{module: {name: pillow}}"), "RG205", "write {module: PIL}"),
    ("module-with-a-hyphen", when("{module: scikit-learn}"), "RG205", "write `sklearn`"),
    ("module-with-a-dot", when("{module: torch.cuda}"), "RG205", "write `torch`"),
    ("module-a-distribution-as-name", when("pytorch"), "RG304", "write {module: torch}"),
    ("modules-in-one-text", when('{module: "torch, triton"}'), "RG205", "[{module: torch}, {module: triton}]"),
    ("flags-in-one-text", when('{cpu: "avx2, fma"}'), "RG204", "write a list: [avx2, fma]"),
    ("flags-with-blanks", when('{cpu: [sse2, "avx2 fma"]}'), "RG204", "write a list: [avx2, fma]"),
    ("machines-in-one-text", when('{machine: "x86_64, aarch64"}'), "RG204", "write a list: [x86_64, aarch64]"),
    ("systems-in-one-text", when('{os: "linux, darwin"}'), "RG205", "write a list: [linux, darwin]"),
    ("devices-in-one-text", row('device: "cuda, rocm"'), "RG205", "write a list: [cuda, rocm]"),
    ("devices-in-one-item", row('device: ["cuda, rocm"]'), "RG205", "items of their own: cuda, rocm"),
    ("devices-in-one-atom", when('{device: "cuda, rocm"}'), "RG205", "{any: [{device: cuda}, {device: rocm}]}"),
    ("variables-in-one-text", when('{env: "ZED ZOD"}'), "RG205", "[{env: ZED}, {env: ZOD}]"),
    ("variable-of-a-shell", when('{env: "${ZED}"}'), "RG205", "write {env: ZED}"),
    ("variables-as-one-key", when('{env: {"A,B": x}}'), "RG205", "[{env: A}, {env: B}]"),
    ("curly-quotes", summary("\u201chello, there\u201d"), "RG107", "quote text with `\"` instead"),
    ("blank-of-another-kind", "manifest: 1\nkinds:\n\u00a0 k: {summary: S.}\n", "RG107", "write a plain one"),
    ("blank-two-levels-down", "manifest: 1\nkinds:\n  k:\n\u3000   summary: S.\n", "RG107", "write a plain one"),
    ("colon-of-another-width", "manifest: 1\nkinds: {k\uff1a {summary: S.}}\n", "RG107", "write `:` instead"),
    ("arch-a-capability-as-text", row('device: cuda, arch: "9.0"'), "RG205", "a letter first, then letters"),
    ("arch-a-capability-and-a-name", row('device: cuda, arch: "9.0"'), "RG205", "such as `sm_90`"),
    ("arch-and-newer", row("device: cuda, arch: sm_90+"), "RG205", "a cell lists its targets, such as `sm_90`"),
    ("arch-at-least", row('device: cuda, arch: [">=sm_80"]'), "RG205", "a cell lists its targets, such as `sm_80`"),
    ("arch-or-newer", row("device: cuda, arch: sm_90 or newer"), "RG205", "a cell lists its targets, such as `sm_90`"),
    ("arch-a-pattern", row('device: cuda, arch: "sm_*"'), "RG205", "a cell lists its targets"),
    ("arch-a-range", row("device: cuda, arch: sm_80-sm_90"), "RG301", "list each, [sm_80, sm_90]"),
    ("arch-any", row("device: cuda, arch: any"), "RG301", "write `generic`"),
    ("archs-in-one-text", row('device: cuda, arch: "sm_80,sm_90"'), "RG205", "write a list: [sm_80, sm_90]"),
    ("when-not", when("not torch_cuda"), "RG205", "write {not: torch_cuda}"),
    ("when-or", when("torch_cuda | torch_rocm"), "RG205", "write {any: [torch_cuda, torch_rocm]}"),
    ("when-with-a-comma", when('"torch_cuda, torch_present"'), "RG205", "write [torch_cuda, torch_present]"),
    ("when-with-a-blank", when("torch_cuda torch_present"), "RG205", "a list: [torch_cuda, torch_present]"),
    ("when-in-a-list", when("[torch_present, not torch_cuda]"), "RG205", "write {not: torch_cuda}"),
    ("when-an-atom-without-value", when("[os, torch_cuda]"), "RG304", "write {os: ...}"),
    ("modules-as-a-list", when("{module: [torch, triton]}"), "RG202", "write [{module: torch}, {module: triton}]"),
    ("module-in-a-list", when("{module: [torch]}"), "RG202", "write `torch` alone"),
    ("archs-as-a-list", when("{arch: [sm_80, sm_90]}"), "RG202", "{any: [{arch: sm_80}, {arch: sm_90}]}"),
    ("devices-as-a-list", when("{device: [cuda, rocm]}"), "RG202", "{any: [{device: cuda}, {device: rocm}]}"),
    ("variables-as-a-list", when("{env: [A, B]}"), "RG202", "write [{env: A}, {env: B}]"),
    ("names-as-a-list", when("{use: [torch_cuda, torch_present]}"), "RG202", "write [torch_cuda, torch_present]"),
    ("versions-as-a-list", when('{python: [">=3.11", "<4"]}'), "RG202", 'write ">=3.11,<4"'),
    ("when-a-number", when("[torch_cuda, 4]"), "RG202", "an atom such as {module: torch >=2.4}"),
    ("when-true-in-a-list", when("[torch_cuda, true]"), "RG202", "remove the item"),
    ("degraded-true", row("device: cpu, degraded: true"), "RG202", "say it in words. Why this is much worse"),
    ("degraded-false", row("device: cpu, degraded: false"), "RG202", "remove the key, or say it in words"),
    ("hint-true", row("device: cpu, hint: true"), "RG202", "say it in words. What to do"),
    ("why-true", when("{module: torch, why: true}"), "RG202", "say it in words"),
    ("summary-a-number", summary("3"), "RG103", "rather say it in words"),
    ("summary-yes", summary("yes"), "RG102", "rather say it in words"),
    ("summary-a-list", summary("[a, b]"), "RG202", "say it in words"),
    ("backslash-in-quotes", summary('"a\\d"'), "RG002", "a backslash is written"),
    ("backslash-of-a-path", summary('"see C:\\users"'), "RG002", "in single quotes it stands"),
    ("path-with-a-blank", impl("acme.kernels: f"), "RG002", "remove the blank behind the colon"),
    ("text-with-a-colon", summary("a: b"), "RG002", "quote the text"),
    ("quote-in-quotes", summary("'it's'"), "RG002", "behind its closing quote"),
    ("comma-lost", "manifest: 1\nkinds: {k: {summary: a} l: {summary: b}}\n", "RG002", "put a comma"),
    ("path-of-a-module", impl('"acme.kernels"'), "RG205", "as in `acme.kernels:NAME`"),
    ("path-of-a-package", impl('"acme"'), "RG205", "as in `acme:NAME`"),
    ("path-of-a-file-alone", impl('"acme/kernels.py"'), "RG205", "as in `acme.kernels:NAME`"),
    ("path-of-a-module-perhaps", impl("acme.torch.solver"), "RG205", "If that is a module"),
    ("path-with-a-hyphen", impl('"acme.kernels:flow-match"'), "RG205", "a function's name has letters"),
    ("path-with-arguments", impl('"acme.kernels:f(x, y)"'), "RG205", "did you mean `acme.kernels:f`?"),
    ("path-as-an-import", impl('"from acme.kernels import f"'), "RG205", "did you mean `acme.kernels:f`?"),
    ("backends", "manifest: 1\nbackends: {zed: {arrays: torch, kernels: {}}}\n", "RG201", "write `backend: zed`"),
    ("backend-a-mapping", "manifest: 1\nbackend: {name: zed, arrays: torch}\n", "RG202", "write `backend: zed`"),
    ("backend-with-a-name-below", "manifest: 1\nbackend:\n  zed: {arrays: torch}\n", "RG202", "write `backend: zed`"),
    ("default-of-another-type", signature("(x: array, y: int = None) -> array"), "RG202", "| None = None"),
    ("control-character-escaped", summary('"a\\tb\\x07"'), "RG805", "remove the escape `\\x07`"),
    ("version-beside-the-module", when('{module: torch, version: ">=2"}'), "RG201", "{module: torch >=2}"),
    ("version-beside-in-a-list", when('[{module: torch, version: ">=2"}]'), "RG201", "{module: torch >=2}"),
    ("version-beside-the-driver", when('{driver: cuda, version: ">=525"}'), "RG201", "{driver: cuda >=525}"),
    ("version-beside-a-number", when("{module: torch, version: 2.4}"), "RG201", "{module: torch >=2.4}"),
    ("value-missing", OP.replace("summary: S.", "summary:"), "RG108", "behind the colon, or remove the key"),
    ("blank-lost-in-braces", row("device:cpu"), "RG108", "blank behind the colon: `device: cpu`"),
    ("blank-lost-before-a-path", ROWS + '    - {device: cpu, impl:"a.b:f"}\n', "RG108", '`impl: "a.b:f"`'),
    ("blank-lost-in-an-item", ROWS + "    - device:cpu\n", "RG202", "blank behind the colon: `device: cpu`"),
    ("blank-lost-in-a-condition", when("os:linux"), "RG205", "blank behind the colon: `os: linux`"),
    ("blank-lost-behind-the-dash", ROWS + '    -{device: cpu, impl: "a.b:f"}\n', "RG002", "blank behind the dash"),
    ("key-in-the-singular", BACKEND + "predicate: {p: {os: linux}}\nhint: x\n", "RG201", "did you mean `predicates`?"),
    ("path-empty", impl('""'), "RG205", "`module:function`"),
    ("number-in-quotes", OP + '    tolerance: {float32: {rtol: "1.0e-6"}}\n', "RG202", "write 1.0e-6, without"),
    ("number-in-quotes-without-point", OP + '    tolerance: {float32: {rtol: "1e-3"}}\n', "RG202", "write 1.0e-3,"),
    ("tolerance-in-a-list", OP + "    tolerance: {float16: [exact]}\n", "RG202", "write `exact` alone"),
    ("chain-without-a-name", OP + "    variants: [fused, default]\n", "RG202", "{default: [fused, default]}"),
    ("requires-in-one-text", BACKEND + "requires: torch >=2.4, numpy\nhint: x\n", "RG205",
     "[{module: torch >=2.4}, {module: numpy}]"),
    ("unknown-key-of-any-length", row(f"device: cpu, {'a' * 70}: 3"), "RG201", "known: "),
    ("rows-of-any-length", f"{BACKEND}kernels:\n  {'a' * 60}: {'b' * 60}\n", "RG202", "write [bbb"),
    ("signature-types-of-any-length", signature(f"({'x' * 60}: {'y' * 60}) -> array"), "RG202", "types: array"),
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


def test_a_misspelt_package_is_named_before_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(impl('"acmee.kernels:f"'), encoding="utf-8")
    (problem,) = judged(tmp_path, roots=frozenset({"acme"})).problems
    assert problem.code == "RG801"
    assert problem.hint.startswith("did you mean `acme`? If not, allow it")
