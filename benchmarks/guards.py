"""What a guarded call costs: the choice that conditions on arguments make, beside the same choice written by hand.

Owns the op, its rungs and the function that somebody would write instead. The kernels do nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from statistics import median
from timeit import Timer
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import rung
from benchmarks.peers import installed
from benchmarks.report import Row, Section
from benchmarks.rounds import interleaved, ratio_of, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["CALLS", "functions", "guards"]

PACKAGE: Final = "benchmark_guarded"
MANIFEST: Final = """\
manifest: 1
ops:
  attend:
    summary: An attention that does nothing.
    signature: "(q: array, k: array, v: array, *, mask: array | None = None, causal: bool = False) -> array"
    reference: "benchmark_guarded:reference"
    variants: {default: [flash, tiled, default]}
backend: guarded
arrays: ARRAYS
kernels:
  attend:
    - device: cpu
      variant: flash
      impl: "benchmark_guarded:flash"
      accepts: {q.dtype: [float16, bfloat16, float32], "q.shape[-1]": {max: 256, multiple_of: 8}, mask: none}
    - device: cpu
      variant: tiled
      impl: "benchmark_guarded:tiled"
      accepts: {q.dtype: [float32, float64], "q.shape[1]": {multiple_of: "k.shape[1]"}}
    - {device: cpu, impl: "benchmark_guarded:plain"}
"""
KERNELS: Final = """\
def flash(q, k, v, *, mask=None, causal=False):
    return q


tiled = plain = reference = flash


def by_hand(q, k, v, *, mask=None, causal=False):
    dtype, shape = q.dtype, q.shape
    if dtype in HALF_OR_SINGLE and shape[-1] <= 256 and shape[-1] % 8 == 0 and mask is None:
        return flash(q, k, v, mask=mask, causal=causal)
    elif dtype in SINGLE_OR_DOUBLE and shape[1] % k.shape[1] == 0:
        return tiled(q, k, v, mask=mask, causal=causal)
    return plain(q, k, v, mask=mask, causal=causal)
"""
CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "the first rung": ("f(q, q, q, causal=True)", "float32"),
    "the second rung": ("f(q, q, q, mask=q)", "float32"),
    "the rung for the rest": ("f(q, q, q)", "int64"),
}
"""Who serves, the call, and the dtype of its arguments."""
UNROLLED: Final = 20
TARGET: Final = 1.5
METHOD: Final = """\
An op with three rungs of which the first two accept only some calls, by dtype, sizes and presence. *By hand* is an
`if`/`elif` over the same conditions, as one would write it, that calls the same functions, which return an argument.
Each pair is timed in turns in one process, on arrays of four axes.
"""


def guards(directory: Path, rounds: int, *, seconds: float = 0.002) -> Section:
    """Time guarded calls and the same choices by hand, for numpy arrays and, where torch is there, for tensors."""
    rows: list[Row] = []
    for arrays in ("numpy", "torch"):
        library: Any = np if arrays == "numpy" else installed("torch")
        if library is None:
            rows += [Row(f"{arrays}, {who}", note="torch is not installed") for who in CALLS]
            continue
        guarded, by_hand = functions(directory / arrays, arrays, library)
        say(f"guards: {rounds} rounds of {len(CALLS)} calls on {arrays} arrays")
        for who, (call, dtype) in CALLS.items():
            q = library.zeros((1, 4, 8, 64), dtype=getattr(library, dtype))
            timers = {name: _timer(call, f, q, seconds) for name, f in (("guard", guarded), ("hand", by_hand))}
            times = interleaved(timers, rounds)
            rows.append(Row(f"{arrays}, {who}: by hand", median(times["hand"])))
            ratio = ratio_of(times["guard"], times["hand"])
            rows.append(Row(f"{arrays}, {who}: guarded", median(times["guard"]), "s", ratio, "by hand", TARGET))
    return Section("Guards", METHOD, tuple(rows))


def functions(directory: Path, arrays: str, library: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Give the guard that rung makes, and the function that chooses by hand."""
    manifests = directory / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "guarded.yaml").write_text(MANIFEST.replace("ARRAYS", arrays), encoding="utf-8")
    (directory / f"{PACKAGE}.py").write_text(KERNELS, encoding="utf-8")
    sys.path.insert(0, str(directory))
    try:
        table = rung.load([manifests], allow=[PACKAGE], builtin=True)
        guarded = rung.Platform.of("cpu", "generic", arrays=arrays, table=table).kernels["attend"]
        module = import_module(PACKAGE)
        for _, dtype in CALLS.values():  # each rung is bound where it is reached first
            q = library.zeros((1, 4, 8, 64), dtype=getattr(library, dtype))
            guarded(q, q, q)
            guarded(q, q, q, mask=q)
    finally:
        sys.path.remove(str(directory))
        sys.modules.pop(PACKAGE, None)
    named = {name: getattr(library, name, None) for name in ("float16", "bfloat16", "float32", "float64")}
    dtypes = {name: np.dtype(d) if arrays == "numpy" else d for name, d in named.items() if d is not None}
    vars(module)["HALF_OR_SINGLE"] = tuple(d for name, d in dtypes.items() if name != "float64")
    vars(module)["SINGLE_OR_DOUBLE"] = (dtypes["float32"], dtypes["float64"])
    return guarded, module.by_hand


def _timer(call: str, function: Callable[..., Any], q: Any, seconds: float) -> Callable[[], float]:
    timer = Timer("\n".join([call] * UNROLLED), "f, q = given", globals={"given": (function, q)})
    timer.timeit(20)
    loops = max(1, round(seconds / (timer.timeit(20) / 20)))
    return lambda: timer.timeit(loops) / loops / UNROLLED
