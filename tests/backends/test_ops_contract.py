"""What every implementation of the ops on arrays must do, asked of each of them with the same numpy arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from catalogue import OPS, implementation, parity_cases, through_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Call = Callable[..., NDArray[Any]]

DTYPES = ["float16", "float32", "float64"]
INF, NAN = math.inf, math.nan


@pytest.fixture(params=["reference", "torch"])
def call(request: pytest.FixtureRequest) -> Call:
    """Give ``call(op, *args, **kwargs)`` for each backend."""
    if request.param == "reference":
        return lambda op, *args, **kwargs: implementation("reference", op)(*args, **kwargs)
    pytest.importorskip("torch")
    return lambda op, *args, **kwargs: through_torch(implementation("torch", op))(*args, **kwargs)


def arrays_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[NDArray[Any]]:
    return [value for value in (*args, *kwargs.values()) if isinstance(value, np.ndarray)]


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# Values.


@pytest.mark.parametrize(
    ("op", "args", "options", "expected"),
    [
        pytest.param("rms_norm", ([3, 4],), {"eps": 0.0}, [0.6 * 2**0.5, 0.8 * 2**0.5], id="rms"),
        pytest.param("rms_norm", ([1, 1],), {"eps": 3.0}, [0.5, 0.5], id="rms, eps beside the mean square"),
        pytest.param("rms_norm", ([1, -1], [2, 3]), {"eps": 0.0}, [2, -3], id="rms, weight"),
        pytest.param("rms_norm", ([0, 0], [2, 3]), {}, [0, 0], id="rms, zeros"),
        pytest.param("layer_norm", ([1, 3],), {"eps": 0.0}, [-1, 1], id="layer"),
        pytest.param("layer_norm", ([1, 2, 3],), {"eps": 0.0}, [-(1.5**0.5), 0, 1.5**0.5], id="layer, by length"),
        pytest.param("layer_norm", ([1, 3],), {"eps": 3.0}, [-0.5, 0.5], id="layer, eps beside the variance"),
        pytest.param("layer_norm", ([1, 3], [2, 3], [10, 20]), {"eps": 0.0}, [8, 23], id="layer, weight and bias"),
        pytest.param("layer_norm", ([1, 3],), {"bias": [10, 20], "eps": 0.0}, [9, 21], id="layer, bias"),
        pytest.param("layer_norm", ([5, 5], [2, 3], [10, 20]), {}, [10, 20], id="layer, equal elements"),
        pytest.param("group_norm", ([[1, 3, 10, 30]], 2), {"eps": 0.0}, [[-1, 1, -1, 1]], id="groups"),
        pytest.param("group_norm", ([[[1, 3], [5, 9]]], 2), {"eps": 0.0}, [[[-1, 1], [-1, 1]]], id="groups of one"),
        pytest.param(
            "group_norm",
            ([[[1, 3], [1, 3]]], 1, [2, 3], [10, 20]),
            {"eps": 0.0},
            [[[8, 12], [17, 23]]],
            id="groups, weight and bias by channel",
        ),
        pytest.param("modulate", ([2, 4], [1, 0], [0.5, -1]), {}, [4, 0], id="modulate"),
        pytest.param("modulate", ([[1, 2], [3, 4]], [[10], [20]], 1), {}, [[12, 14], [26, 28]], id="modulate rows"),
        pytest.param("silu_and_mul", ([0, math.log(3), 5, 4],), {}, [0, 3 * math.log(3)], id="silu"),
        pytest.param("silu_and_mul", ([-math.log(3), 4],), {}, [-math.log(3)], id="silu below zero"),
        pytest.param("gelu", ([0, 1, -1],), {}, [0, 0.841344746068542949, -0.158655253931457051], id="gelu"),
        pytest.param(
            "gelu",
            ([0, 1, -1],),
            {"approximate": "tanh"},
            [0, 0.841191990608302, -0.158808009391698],
            id="gelu by tanh",
        ),
        pytest.param("rotary_embedding", ([[1, 2]], [[0.6]], [[0.8]]), {}, [[-1, 2]], id="turn"),
        pytest.param("rotary_embedding", ([[1, 2, 3, 4, 5]], [[0, 1]], [[1, 0]]), {}, [[-3, 2, 1, 4, 5]], id="halves"),
        pytest.param(
            "rotary_embedding",
            ([[1, 2, 3, 4, 5]], [[0, 1]], [[1, 0]]),
            {"interleaved": True},
            [[-2, 1, 3, 4, 5]],
            id="neighbours",
        ),
        pytest.param("cfg_combine", ([2], [1], 3.0), {}, [4], id="guided"),
        pytest.param("cfg_combine", ([2, 5], [1, 7], 0.0), {}, [1, 7], id="unconditional"),
        pytest.param("cfg_combine", ([[0, 2]], [[0, 1]], 2.0), {"rescale": 1.0}, [[0, 2]], id="rescaled"),
        pytest.param("cfg_combine", ([[0, 2]], [[0, 1]], 2.0), {"rescale": 0.5}, [[0, 2.5]], id="half rescaled"),
        pytest.param("cfg_combine", ([[0, 2]], [[5, 5]], 0.0), {"rescale": 1.0}, [[5, 5]], id="nothing to rescale"),
        pytest.param("cfg_combine", ([2, 5], [1, 7], 3.0), {"rescale": 1.0}, [4, 1], id="samples of one element"),
        pytest.param("cfg_flow_match_step", ([2], [2], [1], 3.0, 0.75, 0.5), {}, [1], id="guided step"),
        pytest.param("cfg_flow_match_step", ([2], [2], [1], 3.0, 0.5, 0.5), {}, [2], id="no step"),
    ],
)
def test_values(call: Call, op: str, args: tuple[Any, ...], options: dict[str, Any], expected: Any) -> None:
    # What is a list or a bare integer at an array's place is an array.
    scalars = {"group_norm": (1,), "cfg_combine": (2,), "cfg_flow_match_step": (3, 4, 5)}.get(op, ())
    given = [value if i in scalars else np.array(value, "float64") for i, value in enumerate(args)]
    named = {name: np.array(v, "float64") if isinstance(v, list) else v for name, v in options.items()}
    assert_allclose(call(op, *given, **named), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        pytest.param("rms_norm", ([NAN, 1],), [NAN, NAN], id="rms, nan"),
        pytest.param("rms_norm", ([INF, 1],), [NAN, 0], id="rms, inf"),
        pytest.param("layer_norm", ([NAN, 1],), [NAN, NAN], id="layer, nan"),
        pytest.param("layer_norm", ([1, INF],), [NAN, NAN], id="layer, inf"),
        pytest.param("layer_norm", ([-INF, 1],), [NAN, NAN], id="layer, minus inf"),
        pytest.param("modulate", ([INF, 1, INF], [1, NAN, 0], [1, 1, -1]), [INF, NAN, NAN], id="modulate"),
        pytest.param("silu_and_mul", ([INF, -INF, NAN, 0, 2, 1, 1, INF],), [INF, NAN, NAN, NAN], id="silu"),
        pytest.param("gelu", ([INF, -INF, NAN, -0.0],), [INF, NAN, NAN, -0.0], id="gelu"),
        pytest.param("cfg_combine", ([INF, 1, INF], [1, INF, INF], 2.0), [INF, NAN, NAN], id="guided"),
        pytest.param("cfg_flow_match_step", ([1, INF], [INF, 1], [0, 1], 2.0, 0.5, 0.25), [-INF, INF], id="step"),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_finite(call: Call, op: str, args: tuple[Any, ...], expected: Any, dtype: str) -> None:
    given = [np.array(value, dtype) if isinstance(value, list) else value for value in args]
    assert_array_equal(call(op, *given), expected)
    if op == "gelu":
        made = call(op, *given, approximate="tanh")
        assert_array_equal(made, expected)
        assert np.signbit(made[3])


def test_a_row_that_is_not_finite_leaves_the_others_alone(call: Call) -> None:
    x = normal(4, 6)
    spoiled = x.copy()
    spoiled[1, 2], spoiled[3, 0] = NAN, INF
    ones = np.ones((4, 6))
    for op, *rest in (("rms_norm",), ("layer_norm",), ("group_norm", 2), ("cfg_combine", ones, 2.0)):
        options = {"rescale": 0.5} if op == "cfg_combine" else {}
        result = call(op, spoiled, *rest, **options)
        assert_array_equal(result[::2], call(op, x, *rest, **options)[::2])
        assert np.isnan(result[1, 2])


def test_elements_that_are_passed_through_keep_every_bit(call: Call) -> None:
    x = np.array([[1.0, 2.0, NAN, -INF, -0.0]], "float16")
    turned = call("rotary_embedding", x, np.array([[0.6]], "float64"), np.array([[0.8]], "float64"))
    assert turned[:, 2:].tobytes() == x[:, 2:].tobytes()


@pytest.mark.parametrize("value", [0.1, 3.3, 1000.0, 65504.0])
@pytest.mark.parametrize("shape", [(1, 1), (2, 6), (2, 6, 3), (1, 4, 9), (2, 6, 8, 8), (1, 8, 33, 65)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_elements_give_bias(call: Call, shape: tuple[int, ...], value: float, dtype: str) -> None:
    x = np.full(shape, value, dtype)
    weight, bias = (normal(shape[1], seed=seed, dtype=dtype) for seed in range(2))
    expected = np.broadcast_to(bias.reshape(-1, *[1] * (len(shape) - 2)), shape)
    for groups in {1, shape[1]} if shape[1] != 6 else {1, 3}:
        assert_array_equal(call("group_norm", x, groups, weight, bias), expected)
        assert np.isnan(call("group_norm", x, groups, weight, bias, eps=0.0)).all()
    weight, bias = (normal(shape[-1], seed=seed, dtype=dtype) for seed in range(2))
    assert_array_equal(call("layer_norm", x, weight, bias), np.broadcast_to(bias, shape))
    assert np.isnan(call("layer_norm", x, weight, bias, eps=0.0)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_far_from_zero_keep_their_deviation(call: Call, dtype: str) -> None:
    steps = np.arange(2 * 6 * 35).reshape(2, 6, 35) % 11
    x = (2.0**13 + steps / 2.0**6).astype(dtype)
    expected = call("group_norm", steps.astype("float64"), 3, eps=0.0)
    made = call("group_norm", x, 3, np.full(6, 2, dtype), np.full(6, 0.5, dtype), eps=0.0)
    assert_allclose(made, 2 * expected + 0.5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["rms_norm", "layer_norm"])
def test_without_eps_a_row_without_deviation_is_not_a_number(call: Call, op: str) -> None:
    assert np.isnan(call(op, np.zeros((2, 3)), eps=0.0)).all()


# Arrays in, arrays out.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_shapes_and_dtypes(call: Call, op: str, dtype: str) -> None:
    for args, kwargs in parity_cases(op, dtype):
        arrays = arrays_of(args, kwargs)
        before = [array.copy() for array in arrays]
        result = call(op, *args, **kwargs)
        shape = args[0].shape
        assert result.shape == ((*shape[:-1], shape[-1] // 2) if op == "silu_and_mul" else shape)
        assert result.dtype == dtype
        for old, array in zip(before, arrays, strict=True):
            assert_array_equal(array, old)
            assert not np.shares_memory(array, result)


@pytest.mark.parametrize("op", OPS)
def test_memory_layout_does_not_matter(call: Call, op: str) -> None:
    def plain(value: Any) -> Any:
        return np.array(value, order="C") if isinstance(value, np.ndarray) else value

    odd = [c for c in parity_cases(op) if not all(array.flags.c_contiguous for array in arrays_of(*c))]
    assert len(odd) >= 3
    for args, kwargs in odd:
        expected = call(op, *map(plain, args), **{name: plain(value) for name, value in kwargs.items()})
        assert_allclose(call(op, *args, **kwargs), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("other", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_array_may_have_its_own_dtype(call: Call, op: str, dtype: str, other: str) -> None:
    for args, kwargs in parity_cases(op)[:4]:
        first, *rest = args
        mixed = [value.astype(other) if isinstance(value, np.ndarray) else value for value in rest]
        exact = [value.astype("float64") if isinstance(value, np.ndarray) else value for value in mixed]
        result = call(op, first.astype(dtype), *mixed, **kwargs)
        expected = call(op, first.astype(dtype).astype("float64"), *exact, **kwargs)
        assert result.dtype == dtype
        limit = 10 * float(np.finfo(dtype).eps)
        assert_allclose(result.astype("float64"), expected, rtol=limit, atol=limit)


def test_numbers_may_be_numpys(call: Call) -> None:
    x, y = normal(2, 4), normal(2, 4, seed=1)
    half, two = np.float32(0.5), np.int64(2)
    assert_array_equal(call("rms_norm", x, eps=half), call("rms_norm", x, eps=0.5))
    assert_array_equal(call("group_norm", x, two), call("group_norm", x, 2))
    assert_array_equal(call("cfg_combine", x, y, two, rescale=half), call("cfg_combine", x, y, 2.0, rescale=0.5))


@pytest.mark.parametrize("op", ["gelu", "modulate"])
def test_arrays_without_axes(call: Call, op: str) -> None:
    x = np.array(0.5)
    result = call(op, x) if op == "gelu" else call(op, x, x, x)
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result == pytest.approx(0.5 * 0.691462461274013104 if op == "gelu" else 1.25)


# Errors.

ROW, TABLE, WHOLE = np.zeros(4), np.zeros((2, 4)), np.zeros((2, 4), np.int64)
FLOATS = "must be float16, .*float32 or float64, got .*"


@pytest.mark.parametrize(
    ("op", "args", "options", "error", "says"),
    [
        pytest.param("rms_norm", (WHOLE,), {}, TypeError, f"x {FLOATS}int64", id="rms, integers"),
        pytest.param("rms_norm", ([0.5],), {}, TypeError, "x must be a .*, got list", id="rms, list"),
        pytest.param("rms_norm", (None,), {}, TypeError, "x must be a .*, got NoneType", id="rms, nothing"),
        pytest.param("rms_norm", (ROW, ROW > 0), {}, TypeError, f"weight {FLOATS}bool", id="rms, bool weight"),
        pytest.param(
            "rms_norm", (np.array(1.0),), {}, ValueError, r"axes \(\.\.\., D\), got shape \(\)", id="rms, 0-d"
        ),
        pytest.param(
            "rms_norm",
            (TABLE, np.zeros(2)),
            {},
            ValueError,
            r"weight must have shape \(4,\), .*\(2,\)",
            id="rms, weight",
        ),
        pytest.param(
            "rms_norm", (TABLE, TABLE), {}, ValueError, r"weight must have shape \(4,\)", id="rms, 2-d weight"
        ),
        pytest.param("rms_norm", (ROW,), {"eps": -1e-9}, ValueError, "eps must be finite and not negative", id="eps"),
        pytest.param("layer_norm", (ROW,), {"eps": NAN}, ValueError, "eps must be finite.*, got nan", id="eps nan"),
        pytest.param("layer_norm", (ROW,), {"eps": INF}, ValueError, "eps must be finite.*, got inf", id="eps inf"),
        pytest.param(
            "layer_norm", (TABLE,), {"bias": TABLE}, ValueError, r"bias must have shape \(4,\)", id="layer, bias"
        ),
        pytest.param("layer_norm", (ROW, None, 0.5), {}, TypeError, "bias must be a .*, got float", id="layer, number"),
        pytest.param(
            "group_norm", (ROW, 1), {}, ValueError, r"axes \(N, C, \.\.\.\), got shape \(4,\)", id="groups, axes"
        ),
        pytest.param(
            "group_norm", (TABLE, 3), {}, ValueError, "divide x's 4 channels, got 3", id="groups, indivisible"
        ),
        pytest.param("group_norm", (TABLE, 0), {}, ValueError, "groups must be 1 or more .*, got 0", id="groups, none"),
        pytest.param("group_norm", (TABLE, -2), {}, ValueError, "groups must be 1 or more", id="groups, negative"),
        pytest.param("group_norm", (TABLE, 2.0), {}, TypeError, "float", id="groups, float"),
        pytest.param(
            "group_norm", (TABLE, 2, ROW[:2]), {}, ValueError, r"weight .*\(4,\), .* channels", id="groups, weight"
        ),
        pytest.param(
            "modulate", (ROW, TABLE, ROW), {}, ValueError, r"shift must broadcast to x's shape \(4,\)", id="shift"
        ),
        pytest.param(
            "modulate", (TABLE, ROW, ROW[:2]), {}, ValueError, r"scale must .* \(2, 4\), got \(2,\)", id="scale"
        ),
        pytest.param(
            "modulate", (TABLE[:1], TABLE, ROW), {}, ValueError, "shift must broadcast", id="shift of more rows"
        ),
        pytest.param("modulate", (ROW, ROW, 1.0), {}, TypeError, "scale must be a .*, got float", id="scale number"),
        pytest.param(
            "silu_and_mul", (np.zeros((2, 3)),), {}, ValueError, r"must be even, got shape \(2, 3\)", id="silu, odd"
        ),
        pytest.param("silu_and_mul", (np.array(1.0),), {}, ValueError, r"got shape \(\)", id="silu, 0-d"),
        pytest.param("silu_and_mul", (WHOLE,), {}, TypeError, f"x {FLOATS}int64", id="silu, integers"),
        pytest.param("gelu", (ROW,), {"approximate": "erf"}, ValueError, 'be "none" or "tanh", got \'erf\'', id="gelu"),
        pytest.param("gelu", (ROW,), {"approximate": None}, ValueError, "approximate must be", id="gelu, nothing"),
        pytest.param("gelu", (WHOLE,), {}, TypeError, f"x {FLOATS}int64", id="gelu, integers"),
        pytest.param(
            "rotary_embedding", (ROW, ROW[:2], ROW[:2]), {}, ValueError, r"\(\.\.\., S, D\)", id="rotary, axes"
        ),
        pytest.param(
            "rotary_embedding",
            (TABLE, TABLE, TABLE),
            {},
            ValueError,
            "4 angles .* has 4 elements",
            id="rotary, too many",
        ),
        pytest.param(
            "rotary_embedding",
            (TABLE, ROW[:2], ROW[:1]),
            {},
            ValueError,
            r"sin must have cos's shape \(2,\)",
            id="rotary, sin",
        ),
        pytest.param(
            "rotary_embedding",
            (TABLE, np.zeros((3, 2)), np.zeros((3, 2))),
            {},
            ValueError,
            "cos must broadcast",
            id="rotary, S",
        ),
        pytest.param(
            "rotary_embedding",
            (TABLE, np.array(1.0), np.array(1.0)),
            {},
            ValueError,
            "cos must have the axes",
            id="rotary, 0-d",
        ),
        pytest.param(
            "cfg_combine", (TABLE, ROW, 2.0), {}, ValueError, "uncond must have cond's shape", id="cfg, shape"
        ),
        pytest.param(
            "cfg_combine", (np.array(1.0),) * 2 + (2.0,), {}, ValueError, "cond needs a batch axis", id="cfg, 0-d"
        ),
        pytest.param(
            "cfg_combine", (ROW, ROW, INF), {}, ValueError, "guidance_scale must be finite, got inf", id="cfg, inf"
        ),
        pytest.param(
            "cfg_combine",
            (ROW, ROW, 2.0),
            {"rescale": 1.5},
            ValueError,
            r"rescale must be .* in \[0, 1\], got 1.5",
            id="above",
        ),
        pytest.param("cfg_combine", (ROW, ROW, 2.0), {"rescale": -0.1}, ValueError, "rescale must", id="below"),
        pytest.param("cfg_combine", (ROW, ROW, 2.0), {"rescale": NAN}, ValueError, "rescale must", id="rescale nan"),
        pytest.param("cfg_combine", (ROW, 0.5, 2.0), {}, TypeError, "uncond must be a .*, got float", id="cfg, number"),
        pytest.param(
            "cfg_flow_match_step",
            (ROW, ROW, TABLE, 2.0, 0.5, 0.4),
            {},
            ValueError,
            "uncond must have sample's",
            id="step, shape",
        ),
        pytest.param(
            "cfg_flow_match_step",
            (ROW, ROW, ROW, 2.0, 0.4, 0.5),
            {},
            ValueError,
            "need 0 <= sigma_next <= sigma",
            id="step, up",
        ),
        pytest.param(
            "cfg_flow_match_step",
            (ROW, ROW, ROW, NAN, 0.5, 0.4),
            {},
            ValueError,
            "guidance_scale must be",
            id="step, nan",
        ),
    ],
)
def test_errors(
    call: Call, op: str, args: tuple[Any, ...], options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        call(op, *args, **options)
