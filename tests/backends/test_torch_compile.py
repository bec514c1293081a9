"""The ops that torch.compile fuses: right everywhere, compiled when bound, and never compiled afterwards."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import sysconfig
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rung.probes.toolchain import has_cpp_compiler

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Facts:
    """What the probe asks of facts."""

    def __init__(self, system: Any = "linux", cxx: Any = None) -> None:
        self.system, self.cxx = system, cxx

    def os(self) -> Any:
        return self.system

    def env(self, name: str) -> Any:
        assert name == "CXX"
        return self.cxx


HERE = Facts({"win32": "windows"}.get(sys.platform, sys.platform), os.environ.get("CXX"))
needs_compiler = pytest.mark.skipif(not has_cpp_compiler(HERE), reason="no C++ compiler, or no headers of Python")

OPS = [
    "rms_norm",
    "modulate",
    "silu_and_mul",
    "rotary_embedding",
    "cfg_combine",
    "flow_match_step",
    "cfg_flow_match_step",
]
DTYPES = ["float16", "bfloat16", "float32", "float64"]
FUSED = ["bfloat16", "float32"]
TOLERANCES: dict[str, dict[str, Any]] = {
    "float64": {"rtol": 1e-12, "atol": 1e-12},
    "float32": {"rtol": 2e-6, "atol": 4e-6},
    "float16": {"rtol": 2.0**-10, "atol": 1e-5},
    "bfloat16": {"rtol": 2.0**-7, "atol": 1e-5},
}


@pytest.fixture(scope="module")
def ops() -> dict[str, Callable[..., Any]]:
    """Bind all of them; whatever is to be compiled is compiled now, for other tests have Dynamo forget what it knew."""
    for name in [name for name in sys.modules if name.startswith("rung_backends.torch_compile.")]:
        del sys.modules[name]
    return {name: getattr(importlib.import_module(f"rung_backends.torch_compile.{name}"), name) for name in OPS}


def graphs() -> int:
    """Say how many graphs Dynamo has compiled in this process."""
    count: int = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return count


def draw(*shape: int, dtype: str = "float64", seed: int = 0, layout: str = "contiguous") -> Any:
    rng = np.random.default_rng([seed, *shape])
    match layout:
        case "transposed":
            tensor = torch.from_numpy(rng.standard_normal(shape[::-1])).to(getattr(torch, dtype))
            return tensor.permute(*reversed(range(len(shape))))
        case "strided":
            tensor = torch.from_numpy(rng.standard_normal([2 * size for size in shape])).to(getattr(torch, dtype))
            return tensor[tuple(slice(None, None, 2) for _ in shape)]
        case "broadcast":
            tensor = torch.from_numpy(rng.standard_normal((1, *shape[1:]))).to(getattr(torch, dtype))
            return tensor.expand(shape)
    return torch.from_numpy(rng.standard_normal(shape)).to(getattr(torch, dtype))


def calls(
    shape: tuple[int, ...], dtype: str, layout: str = "contiguous"
) -> list[tuple[str, tuple[Any, ...], Any, Any]]:
    """Give calls of all ops on a shape of at least two axes: name, arguments, keywords, and the formula in numpy."""

    def array(*shape: int, seed: int = 0) -> Any:
        return draw(*shape, dtype=dtype, seed=seed, layout=layout)

    x, y, z = (array(*shape, seed=seed) for seed in range(3))
    last = shape[-1]
    weight, other = (draw(last, dtype=dtype, seed=seed) for seed in (3, 4))
    sample = (shape[0], *(1,) * (len(shape) - 2), last)
    even = array(*shape[:-1], 2 * last)
    cos, sin = (draw(shape[-2], last, dtype="float32", seed=seed) for seed in (5, 6))

    def root(x: Any, eps: float) -> Any:
        return np.sqrt(np.mean(x * x, -1, keepdims=True) + eps)

    def turned(x: Any, c: Any, s: Any, *, interleaved: bool = False) -> Any:
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
        parts = a * c - b * s, b * c + a * s
        return np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)

    def rescaled(c: Any, u: Any, scale: float, *, rescale: float) -> Any:
        out, axes = u + scale * (c - u), tuple(range(1, c.ndim))
        spread, wanted = out.std(axes, keepdims=True), c.std(axes, keepdims=True)
        return out * (rescale * np.where(spread == 0, 1, wanted / np.where(spread == 0, 1, spread)) + 1 - rescale)

    def silu(x: Any) -> Any:
        gate, value = np.split(x, 2, -1)
        return gate / (1 + np.exp(-gate)) * value

    def combined(c: Any, u: Any, scale: float) -> Any:
        return u + scale * (c - u)

    return [
        ("rms_norm", (x, weight), {}, lambda x, w: x / root(x, 1e-6) * w),
        ("rms_norm", (x,), {"eps": 0.5}, lambda x, eps: x / root(x, eps)),
        ("modulate", (x, weight, other), {}, lambda x, a, b: x * (1 + b) + a),
        ("modulate", (x, array(*sample, seed=3), array(*sample, seed=4)), {}, lambda x, a, b: x * (1 + b) + a),
        ("modulate", (x, weight, array(*sample, seed=4)), {}, lambda x, a, b: x * (1 + b) + a),
        ("silu_and_mul", (even,), {}, silu),
        ("rotary_embedding", (even, cos, sin), {}, turned),
        ("rotary_embedding", (even, cos, sin), {"interleaved": True}, turned),
        ("cfg_combine", (x, y, 3.7), {}, combined),
        ("cfg_combine", (x, y, 3.7), {"rescale": 0.7}, rescaled),
        ("flow_match_step", (x, y, 0.7, 0.3), {}, lambda x, v, a, b: x + (b - a) * v),
        ("cfg_flow_match_step", (x, y, z, 3.7, 0.7, 0.3), {}, lambda x, c, u, s, a, b: x + (b - a) * combined(c, u, s)),
    ]


def agree(ops: dict[str, Callable[..., Any]], *given: Any) -> None:
    for name, args, kwargs, formula in calls(*given):
        result = ops[name](*args, **kwargs)
        expected = formula(*(a.double().numpy() if isinstance(a, torch.Tensor) else a for a in args), **kwargs)
        assert result.dtype == args[0].dtype, name
        assert result.is_contiguous(), name
        np.testing.assert_allclose(result.double().numpy(), expected, **TOLERANCES[given[1]], err_msg=name)


@pytest.fixture
def uncompiled(ops: dict[str, Callable[..., Any]]) -> Any:
    """Give the ops, and see that nothing is compiled while they are used."""
    before = graphs()
    yield ops
    assert graphs() == before


SHAPES = [(2, 3), (3, 2), (2, 5, 4), (7, 1), (1, 7), (1, 1), (1, 3, 4), (2, 2, 2, 2, 2), (3, 1, 5), (64, 64), (2, 4099)]
EMPTY = [(0, 3), (3, 0), (2, 0, 3)]


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_and_dtype(uncompiled: dict[str, Callable[..., Any]], shape: tuple[int, ...], dtype: str) -> None:
    agree(uncompiled, shape, dtype)


@needs_compiler
@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_nothing_gives_nothing(uncompiled: dict[str, Callable[..., Any]], shape: tuple[int, ...]) -> None:
    for name, args, kwargs, _ in calls(shape, "float32"):
        wide = name == "rotary_embedding"
        assert uncompiled[name](*args, **kwargs).shape == (*shape[:-1], shape[-1] * 2 if wide else shape[-1])


@needs_compiler
@pytest.mark.parametrize("layout", ["transposed", "strided", "broadcast"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_every_layout(uncompiled: dict[str, Callable[..., Any]], layout: str, dtype: str) -> None:
    agree(uncompiled, (3, 4, 6), dtype, layout)


# What is compiled, and when.


@pytest.fixture
def must_fit(ops: dict[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the ops with an error in place of a call that finds no code."""
    from rung_backends.torch_compile import fusing

    def run(self: Any, *arrays: Any) -> Any:
        if torch.is_grad_enabled() and any(a.requires_grad for a in arrays):
            return self.formula(*arrays)
        with torch.inference_mode(False), torch.no_grad():
            return self.compiled(*(fusing._plain(array.contiguous()) for array in arrays))

    monkeypatch.setattr(fusing.Fused, "__call__", run)
    with torch.compiler.set_stance("fail_on_recompile"):
        yield ops


def fused_calls(*given: Any) -> list[tuple[str, Any, Any]]:
    """Give the calls for which there is code: not those that rescale a sample of no more than 4096 elements."""
    return [
        (name, args, kwargs)
        for name, args, kwargs, _ in calls(*given)
        if "rescale" not in kwargs or args[0][0].numel() > 4096
    ]


@needs_compiler
@pytest.mark.parametrize("dtype", FUSED)
@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 64, 65), (3, 2, 2), (4, 7, 4096), (2, 2, 2, 2, 2)], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_code_is_found_for_every_shape(
    must_fit: dict[str, Callable[..., Any]], shape: tuple[int, ...], dtype: str, layout: str
) -> None:
    for name, args, kwargs in fused_calls(shape, dtype, layout):
        must_fit[name](*args, **kwargs)


@needs_compiler
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda t: t, id="tensor"),
        pytest.param(lambda t: torch.nn.Parameter(t), id="parameter"),
        pytest.param(lambda t: t.clone().requires_grad_(), id="wants a gradient"),
        pytest.param(lambda t: torch.cat((t.flatten()[:1], t.flatten()))[1:].reshape(t.shape), id="not aligned"),
    ],
)
@pytest.mark.parametrize(
    "mode", [torch.enable_grad, torch.no_grad, torch.inference_mode], ids=lambda mode: mode.__name__
)
def test_code_is_found_for_every_kind_of_tensor_and_mode(
    must_fit: dict[str, Callable[..., Any]], make: Callable[[Any], Any], mode: Callable[[], Any]
) -> None:
    with mode():
        for name, args, kwargs in fused_calls((2, 64, 65), "float32"):
            must_fit[name](*(make(a) if isinstance(a, torch.Tensor) else a for a in args), **kwargs)


@needs_compiler
def test_code_is_found_for_one_array_as_two_arguments(must_fit: dict[str, Callable[..., Any]]) -> None:
    x = draw(3, 8, dtype="float32")
    assert torch.equal(must_fit["flow_match_step"](x, x, 0.5, 0.5), x)


@needs_compiler
def test_code_is_found_in_another_thread(must_fit: dict[str, Callable[..., Any]]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def call() -> Any:
        with torch.compiler.set_stance("fail_on_recompile"):
            return must_fit["cfg_combine"](x, x, 2.0)

    x = draw(3, 8, dtype="float32")
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(call).result(), x)


@needs_compiler
def test_the_stance_of_these_tests_sees_a_call_without_code(must_fit: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(RuntimeError, match="recompile"):
        must_fit["flow_match_step"](draw(1, dtype="float32"), draw(1, dtype="float32"), 0.5, 0.4)


@needs_compiler
def test_a_call_that_finds_no_code_compiles_none(uncompiled: dict[str, Callable[..., Any]]) -> None:
    x, y = draw(3, 8, dtype="float32"), draw(3, 8, dtype="float32", seed=1)
    expected = x - 0.25 * y
    for context in (torch.autocast("cpu"), torch.device("cpu")):
        with context:
            torch.testing.assert_close(uncompiled["flow_match_step"](x, y, 0.75, 0.5), expected)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        torch.testing.assert_close(uncompiled["flow_match_step"](x, y, 0.75, 0.5), expected)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(
        uncompiled["flow_match_step"](x, y.bfloat16(), 0.75, 0.5), x - 0.25 * y.bfloat16().float()
    )


# Gradients, and other people's compilers.


@needs_compiler
@pytest.mark.parametrize("which", range(12))
def test_gradients(uncompiled: dict[str, Callable[..., Any]], which: int) -> None:
    name, args, kwargs, _ = calls((2, 3, 2), "float64")[which]
    arrays = [a.double().requires_grad_() for a in args if isinstance(a, torch.Tensor)]
    rest = args[len(arrays) :]
    assert torch.autograd.gradcheck(lambda *a: uncompiled[name](*a, *rest, **kwargs), arrays)


@needs_compiler
def test_another_compiler_sees_through(ops: dict[str, Callable[..., Any]]) -> None:
    x, y = draw(3, 8, dtype="float32"), draw(3, 8, dtype="float32", seed=1)
    step = torch.compile(lambda x, y: 2.0 * ops["flow_match_step"](x, y, 0.75, 0.5), backend="eager", fullgraph=True)
    torch.testing.assert_close(step(x, y), 2.0 * (x - 0.25 * y))


@needs_compiler
def test_an_argument_is_never_changed_nor_returned(uncompiled: dict[str, Callable[..., Any]]) -> None:
    for name, args, kwargs, _ in calls((2, 3, 4), "float32"):
        before = [a.clone() for a in args if isinstance(a, torch.Tensor)]
        result = uncompiled[name](*args, **kwargs)
        for a, b in zip(args, before, strict=False):
            assert torch.equal(a, b), name
            assert a.untyped_storage().data_ptr() != result.untyped_storage().data_ptr(), name


@needs_compiler
def test_partial_rotation_passes_the_rest_through(uncompiled: dict[str, Callable[..., Any]]) -> None:
    x, angles = draw(2, 5, 9, dtype="float32"), draw(2, 5, 3, dtype="float32")
    for interleaved in (False, True):
        result = uncompiled["rotary_embedding"](x, angles, angles, interleaved=interleaved)
        assert torch.equal(result[..., 6:], x[..., 6:])
        assert not torch.equal(result[..., :6], x[..., :6])


@needs_compiler
def test_a_sample_without_spread_is_left_as_it_is(uncompiled: dict[str, Callable[..., Any]]) -> None:
    same = torch.full((2, 1500), 0.1)
    torch.testing.assert_close(uncompiled["cfg_combine"](same, same, 3.0, rescale=0.9), same)


X = torch.zeros(2, 4)
REFUSED = [
    pytest.param("rms_norm", ([1.0],), TypeError, "x must be a torch tensor, got list", id="no tensor"),
    pytest.param("rms_norm", (X.int(),), TypeError, "x must be float16, .* got torch.int32", id="dtype"),
    pytest.param("rms_norm", (X[0, 0],), ValueError, "needs an axis", id="no axis"),
    pytest.param("rms_norm", (X, X), ValueError, r"weight must have shape \(4,\)", id="weight"),
    pytest.param("modulate", (X, torch.zeros(3), X), ValueError, r"shift must broadcast to \(2, 4\)", id="shift"),
    pytest.param("modulate", (X[0], X, X[0]), ValueError, r"shift must broadcast to \(4,\)", id="wider than x"),
    pytest.param("silu_and_mul", (X[:, 1:],), ValueError, "even size", id="odd"),
    pytest.param("rotary_embedding", (X, X, X), ValueError, "4 angles, too many", id="angles"),
    pytest.param("rotary_embedding", (X, X[:, 2:], X), ValueError, "sin must have cos's shape", id="sin"),
    pytest.param("rotary_embedding", (X[0], X, X), ValueError, "need the axes", id="axes"),
    pytest.param("rotary_embedding", (X[:1], X[:, 2:], X[:, 2:]), ValueError, "cos must broadcast", id="positions"),
    pytest.param("cfg_combine", (X, X[0], 1.0), ValueError, "uncond must have cond's shape", id="uncond"),
    pytest.param("cfg_combine", (X[0, 0], X[0, 0], 1.0), ValueError, "batch axis", id="no batch"),
    pytest.param("flow_match_step", (X, X[0], 0.5, 0.4), ValueError, "velocity must have", id="velocity"),
    pytest.param("flow_match_step", (X, X, 0.4, 0.5), ValueError, "a step goes down", id="upwards"),
    pytest.param("cfg_flow_match_step", (X, X, X[0], 1.0, 0.5, 0.4), ValueError, "uncond must", id="guided"),
]


@needs_compiler
@pytest.mark.parametrize(("name", "args", "error", "message"), REFUSED)
def test_refused(
    ops: dict[str, Callable[..., Any]], name: str, args: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ops[name](*args)


# The probe.


@pytest.mark.parametrize(
    ("facts", "there", "headers", "answer"),
    [
        pytest.param(Facts(), ["g++"], True, True, id="g++"),
        pytest.param(Facts(), ["clang++"], True, False, id="another one"),
        pytest.param(Facts("darwin"), ["clang++"], True, True, id="macOS"),
        pytest.param(Facts("windows"), ["cl"], True, True, id="Windows"),
        pytest.param(Facts(cxx="my-c++"), ["my-c++"], True, True, id="named"),
        pytest.param(Facts(cxx="my-c++"), ["g++"], True, False, id="the named one is not there"),
        pytest.param(Facts(cxx=""), ["g++"], True, True, id="none named"),
        pytest.param(Facts(), ["g++"], False, False, id="no headers"),
        pytest.param(Facts(system=object()), ["g++"], True, None, id="system not known"),
        pytest.param(Facts(cxx=object()), ["g++"], True, None, id="variable not known"),
    ],
)
def test_probe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, facts: Facts, there: list[str], headers: bool, answer: bool | None
) -> None:
    if headers:
        (tmp_path / "Python.h").touch()
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert has_cpp_compiler(facts) is answer
