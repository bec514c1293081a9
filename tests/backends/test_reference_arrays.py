"""What every reference makes of arrays and numbers that are not the plain ones: subclasses, masks, text, warnings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

INF, NAN = np.inf, np.nan

# Every op with every array it can take: module, name, shapes, the call.
CALLS = [
    pytest.param("norm", "rms_norm", [(4, 6), (6,)], lambda f, *a: f(*a), id="rms_norm"),
    pytest.param("norm", "rms_norm", [(0, 6)], lambda f, *a: f(*a), id="rms_norm, empty"),
    pytest.param("norm", "layer_norm", [(4, 6), (6,), (6,)], lambda f, *a: f(*a), id="layer_norm"),
    pytest.param("norm", "layer_norm", [(4, 0)], lambda f, *a: f(*a), id="layer_norm, empty"),
    pytest.param("norm", "group_norm", [(4, 6), (6,), (6,)], lambda f, x, *a: f(x, 3, *a), id="group_norm"),
    pytest.param("norm", "group_norm", [(0, 6)], lambda f, x: f(x, 3), id="group_norm, empty"),
    pytest.param("norm", "modulate", [(4, 6), (4, 1), (4, 6)], lambda f, *a: f(*a), id="modulate"),
    pytest.param("activation", "silu_and_mul", [(4, 6)], lambda f, x: f(x), id="silu_and_mul"),
    pytest.param("activation", "gelu", [(4, 6)], lambda f, x: f(x), id="gelu"),
    pytest.param("activation", "gelu", [(4, 6)], lambda f, x: f(x, approximate="tanh"), id="gelu by tanh"),
    pytest.param("rotary", "rotary_embedding", [(4, 6), (4, 2), (4, 2)], lambda f, *a: f(*a), id="rotary"),
    pytest.param("guidance", "cfg_combine", [(4, 6)] * 2, lambda f, *a: f(*a, 3.0, rescale=0.7), id="cfg_combine"),
    pytest.param(
        "guidance", "cfg_flow_match_step", [(4, 6)] * 3, lambda f, *a: f(*a, 3.0, 0.6, 0.5), id="cfg_flow_match_step"
    ),
    pytest.param("solver", "flow_match_step", [(4, 6)] * 2, lambda f, *a: f(*a, 0.6, 0.5), id="flow_match_step"),
    pytest.param(
        "solver", "flow_sde_step", [(4, 6)] * 3, lambda f, x, v, n: f(x, v, 0.6, 0.5, noise=n), id="sde, noise"
    ),
    pytest.param(
        "solver", "flow_sde_step", [(4, 6)] * 3, lambda f, x, v, p: f(x, v, 0.6, 0.5, prev_sample=p), id="sde, judged"
    ),
    pytest.param(
        "solver", "flow_sde_step", [(4, 6)] * 3, lambda f, x, v, p: f(x, v, 0.6, 0.0, prev_sample=p), id="sde, last"
    ),
    pytest.param(
        "matmul",
        "scaled_mm",
        [(4, 6), (6, 3), (4, 1), (1, 3), (3,)],
        lambda f, *a: f(*a[:4], bias=a[4], out_dtype="float32"),
        id="scaled_mm",
    ),
    pytest.param(
        "attention",
        "attention",
        [(2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 3), (3, 6)],
        lambda f, *a: f(*a[:3], mask=a[3], causal=True),
        id="attention",
    ),
]
with_every_call = pytest.mark.parametrize(("module", "op", "shapes", "run"), CALLS)


class Tagged(np.ndarray):
    """A subclass that adds nothing."""


def reference(module: str, op: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(f"rung_backends.reference.{module}"), op)
    return found


def drawn(shapes: list[tuple[int, ...]], dtype: str = "float64") -> list[NDArray[Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def results(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


@pytest.fixture(params=["matrix", "memmap", "subclass"])
def dressed(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Give a function that makes an array one of a subclass, where there is one of its shape."""
    names: Iterator[int] = iter(range(100))

    def dress(array: NDArray[Any]) -> NDArray[Any]:
        if request.param == "subclass":
            return array.view(Tagged)
        if request.param == "matrix":
            return array.view(np.matrix) if array.ndim == 2 else array
        if not array.size:
            return array
        mapped = np.memmap(tmp_path / str(next(names)), array.dtype, "w+", shape=array.shape)
        mapped[...] = array
        return mapped

    return dress


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@with_every_call
def test_a_subclass_is_taken_for_the_array_it_is(
    dressed: Callable[..., Any],
    module: str,
    op: str,
    shapes: list[tuple[int, ...]],
    run: Callable[..., Any],
) -> None:
    for dtype in ("float32", "float64"):
        arrays = drawn(shapes, dtype)
        expected = results(run(reference(module, op), *arrays))
        got = results(run(reference(module, op), *map(dressed, arrays)))
        for mine, theirs in zip(got, expected, strict=True):
            assert type(mine) is np.ndarray
            assert_array_equal(mine, theirs)


@with_every_call
def test_a_masked_array_is_refused(
    module: str, op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any]
) -> None:
    for i in range(len(shapes)):
        arrays: list[Any] = drawn(shapes)
        arrays[i] = np.ma.masked_array(arrays[i])
        with pytest.raises(TypeError, match=r"must be a plain numpy array, got a MaskedArray: fill it, \w+\.filled"):
            run(reference(module, op), *arrays)


@with_every_call
def test_a_caller_who_has_numpy_raise_gets_the_same_answer(
    module: str, op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any]
) -> None:
    for factor in (1e-308, 1.0, 1e308):
        with np.errstate(all="ignore"):
            arrays = [array * factor for array in drawn(shapes)]
        expected = results(run(reference(module, op), *arrays))
        with np.errstate(all="raise"):
            got = results(run(reference(module, op), *arrays))
        for mine, theirs in zip(got, expected, strict=True):
            assert_array_equal(mine, theirs)


@with_every_call
def test_no_value_makes_a_warning(module: str, op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any]) -> None:
    signalling = np.array(0x7F800001, np.uint32).view(np.float32)
    for dtype in ("float32", "float64"):
        for value in (INF, -INF, NAN, 0.0):
            run(reference(module, op), *(np.full(shape, value, dtype) for shape in shapes))
    run(reference(module, op), *(np.full(shape, signalling) for shape in shapes))


# Numbers.


@pytest.mark.parametrize(
    ("name", "module", "op", "shapes", "run"),
    [
        pytest.param("eps", "norm", "rms_norm", [(4, 6)], lambda f, v, x: f(x, eps=v), id="eps"),
        pytest.param(
            "guidance_scale", "guidance", "cfg_combine", [(4, 6)] * 2, lambda f, v, *a: f(*a, v), id="guidance_scale"
        ),
        pytest.param(
            "rescale", "guidance", "cfg_combine", [(4, 6)] * 2, lambda f, v, *a: f(*a, 2.0, rescale=v), id="rescale"
        ),
        pytest.param("sigma", "solver", "flow_match_step", [(4, 6)] * 2, lambda f, v, *a: f(*a, v, 0.5), id="sigma"),
        pytest.param(
            "sigma_next", "solver", "flow_match_step", [(4, 6)] * 2, lambda f, v, *a: f(*a, 0.5, v), id="sigma_next"
        ),
        pytest.param(
            "noise_scale",
            "solver",
            "flow_sde_step",
            [(4, 6)] * 2,
            lambda f, v, *a: f(*a, 0.6, 0.5, noise_scale=v),
            id="noise_scale",
        ),
        pytest.param(
            "scale", "attention", "attention", [(1, 1, 2, 3)] * 3, lambda f, v, *a: f(*a, scale=v), id="scale"
        ),
    ],
)
@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_text_is_no_number_and_an_integer_may_be_beyond_any(
    backend: str, name: str, module: str, op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any]
) -> None:
    arrays: list[Any] = drawn(shapes)
    if backend == "torch":
        torch = pytest.importorskip("torch")
        arrays = [torch.from_numpy(array) for array in arrays]
    call = getattr(importlib.import_module(f"rung_backends.{backend}.{module}"), op)
    for text in ("0.5", b"0.5", np.str_("0.5")):
        with pytest.raises(TypeError, match=f"^{name} must be a number, got "):
            run(call, text, *arrays)
    with pytest.raises(ValueError, match=f"^{name} must be within float64's range, got an integer beyond it"):
        run(call, 10**400, *arrays)
