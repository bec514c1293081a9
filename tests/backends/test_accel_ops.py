"""The stand-in accelerator's ops on arrays: parity within the manifests' tolerances, and the reference's refusals."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from rung_backends.reference import cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MODULES = {
    "attention": "attention",
    "cfg_combine": "guidance",
    "cfg_flow_match_step": "guidance",
    "gelu": "activation",
    "layer_norm": "norm",
    "modulate": "norm",
}
MANIFESTS = Path(__file__).parents[2] / "manifests" / "ops"
DTYPES = ["float16", "bfloat16", "float32", "float64"]
INF, NAN = math.inf, math.nan

every_op = pytest.mark.parametrize("op", sorted(MODULES))


def call(backend: str, op: str, *args: Any, **kwargs: Any) -> NDArray[Any]:
    function: Callable[..., NDArray[Any]] = getattr(
        importlib.import_module(f"rung_backends.{backend}.{MODULES[op]}"), op
    )
    return function(*args, **kwargs)


def tolerance(op: str, dtype: str) -> dict[str, float]:
    found: dict[str, float] = yaml.safe_load((MANIFESTS / f"{MODULES[op]}.yaml").read_text("utf-8"))["ops"][op][
        "tolerance"
    ][dtype]
    return found


def parity_cases(op: str, dtype: str, seed: int = 0) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return list(getattr(cases, op)(dtype, np.random.default_rng(seed)))


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# Parity.


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
@every_op
def test_parity_with_the_reference(op: str, dtype: str, seed: int) -> None:
    # bfloat16 is in float32 arrays here, and what is computed from them is held to float32's tolerance.
    limits: Any = tolerance(op, "float32" if dtype == "bfloat16" else dtype)
    for args, kwargs in parity_cases(op, dtype, seed):
        expected = call("reference", op, *args, **kwargs)
        got = call("accel", op, *args, **kwargs)
        assert isinstance(got, np.ndarray)
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        assert_allclose(got.astype("float64"), expected.astype("float64"), **limits)


@every_op
def test_no_argument_is_changed_or_handed_on(op: str) -> None:
    for args, kwargs in parity_cases(op, "float32"):
        arrays = [value for value in (*args, *kwargs.values()) if isinstance(value, np.ndarray)]
        before = [array.copy() for array in arrays]
        result = call("accel", op, *args, **kwargs)
        for old, array in zip(before, arrays, strict=True):
            assert_array_equal(array, old)
            assert not np.shares_memory(array, result)


@pytest.mark.parametrize("other", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@every_op
def test_the_widest_dtype_is_computed_in_and_the_result_has_the_firsts(op: str, dtype: str, other: str) -> None:
    coarser = max(dtype, other, key=lambda name: tolerance(op, name)["rtol"])
    for args, kwargs in parity_cases(op, "float64")[:4]:
        first, *rest = args
        mixed = [value.astype(other) if isinstance(value, np.ndarray) else value for value in rest]
        got = call("accel", op, first.astype(dtype), *mixed, **kwargs)
        assert got.dtype == dtype
        limits: Any = tolerance(op, coarser)
        assert_allclose(got, call("reference", op, first.astype(dtype), *mixed, **kwargs), **limits)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        pytest.param("modulate", (normal(5), normal(5, seed=1), normal(5, seed=2)), id="modulate"),
        pytest.param("layer_norm", (normal(4, 5),), id="layer_norm"),
        pytest.param("gelu", (normal(5),), id="gelu"),
        pytest.param("cfg_combine", (normal(5), normal(5, seed=1), 3.0), id="cfg_combine"),
        pytest.param("attention", [normal(1, 1, 3, 4, seed=seed) for seed in range(3)], id="attention"),
    ],
)
def test_singles_are_computed_in_single(op: str, args: Any) -> None:
    """A stand-in that rounded float64 answers would hide what a device does."""
    single = [value.astype("float32") if isinstance(value, np.ndarray) else value for value in args]
    wide = [value.astype("float64") if isinstance(value, np.ndarray) else value for value in single]
    assert not np.array_equal(call("accel", op, *single), call("accel", op, *wide).astype("float32"))


shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)
triples = shapes.flatmap(
    lambda shape: st.tuples(*[hnp.arrays(np.float64, shape, elements=st.floats(-1e6, 1e6, allow_subnormal=False))] * 3)
)


@given(data=triples, scale=st.floats(-10.0, 10.0), ends=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)))
def test_what_sums_nothing_equals_the_reference_in_float64(
    data: tuple[NDArray[Any], ...], scale: float, ends: tuple[float, float]
) -> None:
    x, y, z = data
    step = max(ends), min(ends)
    for op, rest in (("modulate", ()), ("cfg_flow_match_step", (scale, *step))):
        assert_array_equal(call("accel", op, x, y, z, *rest), call("reference", op, x, y, z, *rest))
    assert_array_equal(call("accel", "cfg_combine", x, y, scale), call("reference", "cfg_combine", x, y, scale))


# What needs more than the formula.


@pytest.mark.parametrize("value", [0.0, 0.1, 100.1, -3e4])
def test_nothing_is_left_of_a_row_of_equal_elements(value: float) -> None:
    x = np.full((3, 7), value, "float32")
    assert_array_equal(call("accel", "layer_norm", x), 0 * x)
    assert_array_equal(call("accel", "layer_norm", x, bias=x[0]), x)
    flat = call("accel", "cfg_combine", normal(3, 7, dtype="float32"), x, 0.0, rescale=0.7)
    assert_array_equal(flat, x)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6, 5), (3, 1)], ids=str)
def test_memory_layout_does_not_matter_to_rescaling(shape: tuple[int, ...]) -> None:
    cond, uncond = normal(*shape[::-1]).T, normal(*shape[::-1], seed=1).T
    plain = call("accel", "cfg_combine", cond.copy("C"), uncond.copy("C"), 3.0, rescale=1.0)
    assert_array_equal(call("accel", "cfg_combine", cond, uncond, 3.0, rescale=1.0), plain)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("op", "args", "options"),
    [
        pytest.param("layer_norm", ([NAN, 1],), {}, id="layer, nan"),
        pytest.param("layer_norm", ([1, INF],), {}, id="layer, inf"),
        pytest.param("layer_norm", ([-INF, 1],), {}, id="layer, minus inf"),
        pytest.param("layer_norm", ([0, 0],), {"eps": 0.0}, id="layer, nothing to divide by"),
        pytest.param("modulate", ([INF, 1, INF], [1, NAN, 0], [1, 1, -1]), {}, id="modulate"),
        pytest.param("gelu", ([INF, -INF, NAN, -0.0],), {}, id="gelu"),
        pytest.param("gelu", ([INF, -INF, NAN, -0.0],), {"approximate": "tanh"}, id="gelu by tanh"),
        pytest.param("cfg_combine", ([INF, 1, INF], [1, INF, INF], 2.0), {}, id="guided"),
        pytest.param("cfg_combine", ([[INF, 1], [1, 2]], [[1, 2], [1, 1]], 2.0), {"rescale": 0.5}, id="rescaled"),
        pytest.param("cfg_flow_match_step", ([1, INF], [INF, 1], [0, 1], 2.0, 0.5, 0.25), {}, id="step"),
    ],
)
def test_what_is_not_finite(op: str, args: Any, options: dict[str, Any], dtype: str) -> None:
    arrays = [np.array(value, dtype) if isinstance(value, list) else value for value in args]
    got, expected = call("accel", op, *arrays, **options), call("reference", op, *arrays, **options)
    assert_allclose(got, expected, rtol=1e-3)
    assert_array_equal(np.signbit(got[got == got]), np.signbit(expected[got == got]))  # a NaN may have any


@pytest.mark.parametrize("spoil", [INF, NAN, 1.0])
@pytest.mark.parametrize("kind", ["boolean", "additive", "causal"])
def test_a_query_that_sees_nothing_gives_zeros_whatever_is_hidden(kind: str, spoil: float) -> None:
    q, k, v = (normal(1, 2, length, 4, seed=seed) for seed, length in enumerate((5, 3, 3)))
    v[:, :, 0] = spoil
    keep = np.arange(5)[:, None] >= [2, 2, 2]
    masks = {"boolean": keep, "additive": np.where(keep, 0.0, -INF), "causal": None}
    got = call("accel", "attention", q, k, v, mask=masks[kind], causal=kind == "causal")
    assert_array_equal(got[:, :, :2], 0.0)
    assert np.isnan(got[:, :, 2:]).all() == np.isnan(spoil)


def test_a_score_of_infinity_spoils_its_row_alone() -> None:
    q, k, v = (normal(1, 1, 3, 4, seed=seed) for seed in range(3))
    mask = np.zeros((3, 3))
    mask[1, 0] = INF
    got = call("accel", "attention", q, k, v, mask=mask)
    assert np.isnan(got[0, 0, 1]).all()
    assert np.isfinite(got[0, 0, ::2]).all()


@pytest.mark.parametrize("op", ["gelu", "modulate"])
def test_arrays_without_axes(op: str) -> None:
    x = np.array(0.5)
    result = call("accel", op, x) if op == "gelu" else call("accel", op, x, x, x)
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result == pytest.approx(0.5 * 0.691462461274013104 if op == "gelu" else 1.25)


@pytest.mark.parametrize("number", [np.float64, np.float32, np.float16, int])
def test_numbers_may_be_numpys_and_widen_nothing(number: Any) -> None:
    x, y = normal(2, 4, dtype="float32"), normal(2, 4, seed=1, dtype="float32")
    two, one = number(2), number(1)
    for op, args in (("cfg_combine", (x, y)), ("cfg_flow_match_step", (x, y, y))):
        steps = (one, number(0)) if op == "cfg_flow_match_step" else ()
        assert_array_equal(call("accel", op, *args, two, *steps), call("accel", op, *args, 2.0, *map(float, steps)))
    assert_array_equal(call("accel", "layer_norm", x, eps=one), call("accel", "layer_norm", x, eps=1.0))
    q = x.reshape(1, 1, 2, 4)
    assert_array_equal(call("accel", "attention", q, q, q, scale=two), call("accel", "attention", q, q, q, scale=2.0))


# Errors.

ROW, TABLE, WHOLE = np.zeros(4), np.zeros((2, 4)), np.zeros((2, 4), np.int64)
Q, LONG = np.zeros((2, 4, 3, 8)), np.zeros((2, 4, 5, 8))


@pytest.mark.parametrize(
    ("op", "args", "options"),
    [
        pytest.param("layer_norm", (WHOLE,), {}, id="layer, integers"),
        pytest.param("layer_norm", ([0.5],), {}, id="layer, list"),
        pytest.param("layer_norm", (None,), {}, id="layer, nothing"),
        pytest.param("layer_norm", (ROW.astype(np.longdouble),), {}, id="layer, too wide"),
        pytest.param("layer_norm", (ROW, ROW > 0), {}, id="layer, bool weight"),
        pytest.param("layer_norm", (np.array(1.0),), {}, id="layer, 0-d"),
        pytest.param("layer_norm", (TABLE, np.zeros(2)), {}, id="layer, weight"),
        pytest.param("layer_norm", (TABLE,), {"bias": TABLE}, id="layer, 2-d bias"),
        pytest.param("layer_norm", (ROW, None, 0.5), {}, id="layer, number"),
        pytest.param("layer_norm", (ROW,), {"eps": -1e-9}, id="eps"),
        pytest.param("layer_norm", (ROW,), {"eps": NAN}, id="eps nan"),
        pytest.param("layer_norm", (ROW,), {"eps": INF}, id="eps inf"),
        pytest.param("modulate", (ROW, TABLE, ROW), {}, id="shift"),
        pytest.param("modulate", (TABLE, ROW, ROW[:2]), {}, id="scale"),
        pytest.param("modulate", (TABLE[:1], TABLE, ROW), {}, id="shift of more rows"),
        pytest.param("modulate", (ROW, ROW, 1.0), {}, id="scale number"),
        pytest.param("gelu", (ROW,), {"approximate": "erf"}, id="gelu"),
        pytest.param("gelu", (ROW,), {"approximate": None}, id="gelu, nothing"),
        pytest.param("gelu", (WHOLE,), {}, id="gelu, integers"),
        pytest.param("cfg_combine", (TABLE, ROW, 2.0), {}, id="cfg, shape"),
        pytest.param("cfg_combine", (np.array(1.0),) * 2 + (2.0,), {}, id="cfg, 0-d"),
        pytest.param("cfg_combine", (ROW, ROW, INF), {}, id="cfg, inf"),
        pytest.param("cfg_combine", (ROW, ROW, 2.0), {"rescale": 1.5}, id="above"),
        pytest.param("cfg_combine", (ROW, ROW, 2.0), {"rescale": -0.1}, id="below"),
        pytest.param("cfg_combine", (ROW, ROW, 2.0), {"rescale": NAN}, id="rescale nan"),
        pytest.param("cfg_combine", (ROW, 0.5, 2.0), {}, id="cfg, number"),
        pytest.param("cfg_flow_match_step", (ROW, ROW, TABLE, 2.0, 0.5, 0.4), {}, id="step, shape"),
        pytest.param("cfg_flow_match_step", (ROW, ROW, ROW, 2.0, 0.4, 0.5), {}, id="step, up"),
        pytest.param("cfg_flow_match_step", (ROW, ROW, ROW, 2.0, 1.5, 0.5), {}, id="step, from outside"),
        pytest.param("cfg_flow_match_step", (ROW, ROW, ROW, NAN, 0.5, 0.4), {}, id="step, nan"),
        pytest.param("attention", (Q[0], Q, Q), {}, id="attention, axes"),
        pytest.param("attention", (Q, Q[:1], Q[:1]), {}, id="attention, batch"),
        pytest.param("attention", (Q, LONG, Q), {}, id="attention, positions"),
        pytest.param("attention", (Q, Q[..., :4], Q), {}, id="attention, elements"),
        pytest.param("attention", (Q[..., :0],) * 3, {}, id="attention, no element"),
        pytest.param("attention", (Q, Q[:, :3], Q[:, :3]), {}, id="attention, heads"),
        pytest.param("attention", (Q, Q[:, :0], Q[:, :0]), {}, id="attention, no heads"),
        pytest.param("attention", (Q, Q, WHOLE), {}, id="attention, integers"),
        pytest.param("attention", (Q, Q, Q), {"scale": INF}, id="attention, scale"),
        pytest.param("attention", (Q, Q, Q), {"mask": [[True]]}, id="attention, list"),
        pytest.param("attention", (Q, Q, Q), {"mask": np.ones((3, 3), np.int64)}, id="attention, integer mask"),
        pytest.param("attention", (Q, LONG, LONG), {"mask": np.ones((3, 3), np.bool_)}, id="attention, mask"),
        pytest.param("attention", (Q, Q, Q), {"mask": np.ones((1, 2, 4, 3, 3))}, id="attention, mask's axes"),
    ],
)
def test_what_the_reference_refuses_is_refused_in_its_words(op: str, args: Any, options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as reference:
        call("reference", op, *args, **options)
    with pytest.raises(reference.type, match=f"^{re.escape(str(reference.value))}$"):
        call("accel", op, *args, **options)
