"""The Triton kernels, interpreted: each against its formula in float64, on every layout and dtype."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from aside import Aside

torch = pytest.importorskip("torch")
if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

INTERPRETED = Aside(TRITON_INTERPRET="1")


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    INTERPRETED.close()


# Rounding to float16 costs half a unit in the last place. The interpreter cuts bfloat16 off, which costs a whole one.
TOLERANCES: dict[str, dict[str, Any]] = {
    "float64": {"rtol": 1e-12, "atol": 1e-12},
    "float32": {"rtol": 1e-6, "atol": 2e-6},
    "float16": {"rtol": 2.0**-11 + 1e-5, "atol": 1e-5},
    "bfloat16": {"rtol": 2.0**-7 + 1e-5, "atol": 1e-5},
}


def run(path: str, *args: Any, **kwargs: Any) -> Any:
    return INTERPRETED.call(f"rung_backends.triton.{path}", *args, **kwargs)


# The formulas.


def rms_norm(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    y: Array = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps)
    return y if weight is None else y * weight


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5) -> Array:
    y: Array = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def modulate(x: Array, shift: Array, scale: Array) -> Array:
    return x * (1.0 + scale) + shift


def silu_and_mul(x: Array) -> Array:
    gate, value = np.split(x, 2, -1)
    return gate / (1.0 + np.exp(-gate)) * value


def rotary_embedding(x: Array, cos: Array, sin: Array, *, interleaved: bool = False) -> Array:
    half = cos.shape[-1]
    out = x.copy()
    first, second = (
        (np.s_[..., : 2 * half : 2], np.s_[..., 1 : 2 * half : 2])
        if interleaved
        else (np.s_[..., :half], np.s_[..., half : 2 * half])
    )
    out[first] = x[first] * cos - x[second] * sin
    out[second] = x[second] * cos + x[first] * sin
    return out


def cfg_combine(cond: Array, uncond: Array, guidance_scale: float, *, rescale: float = 0.0) -> Array:
    out = uncond + guidance_scale * (cond - uncond)
    if rescale == 0.0:
        return out
    axes = tuple(range(1, out.ndim))
    spread = out.std(axes, keepdims=True)
    quotient = np.where(spread == 0.0, 1.0, cond.std(axes, keepdims=True) / np.where(spread == 0.0, 1.0, spread))
    return rescale * out * quotient + (1.0 - rescale) * out


def flow_match_step(sample: Array, velocity: Array, sigma: float, sigma_next: float) -> Array:
    return sample + (sigma_next - sigma) * velocity


def cfg_flow_match_step(
    sample: Array, cond: Array, uncond: Array, guidance_scale: float, sigma: float, sigma_next: float
) -> Array:
    return sample + (sigma_next - sigma) * (uncond + guidance_scale * (cond - uncond))


def agree(path: str, formula: Callable[..., Array], *args: Any, **kwargs: Any) -> None:
    """Compare a kernel with its formula on tensors, within the first one's rounding."""
    got = run(path, *args, **kwargs)
    first = args[0]
    expected = formula(*(a.double().numpy() if isinstance(a, torch.Tensor) else a for a in args), **kwargs)
    assert got.dtype == first.dtype
    assert got.shape == expected.shape
    assert got.is_contiguous()
    tolerance = TOLERANCES[str(first.dtype).removeprefix("torch.")]
    np.testing.assert_allclose(got.double().numpy(), expected, **tolerance)


# Inputs.


def draw(*shape: int, dtype: str = "float64", layout: str = "contiguous", seed: int = 0) -> Any:
    """Draw a tensor of a shape and layout, with values that the dtype holds."""
    rng = np.random.default_rng([seed, *shape])
    match layout:
        case "transposed":
            values = rng.standard_normal(shape[::-1]).T
        case "strided":
            values = rng.standard_normal([2 * size for size in shape])[tuple(np.s_[1::2] for _ in shape)]
        case "inner":  # the last axis is whole, those before it are not
            values = rng.standard_normal([size + 1 for size in shape])[tuple(np.s_[:size] for size in shape)]
        case "broadcast":
            values = np.broadcast_to(rng.standard_normal((1, *shape[1:])), shape)
        case _:
            values = rng.standard_normal(shape)
    # Through the whole memory, which keeps the strides where `to` alone would lay the elements out anew.
    base = values if values.base is None else values.base
    memory = torch.from_numpy(np.array(base)).to(getattr(torch, dtype))
    offset = (values.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // 8
    return memory.as_strided(shape, [step // 8 for step in values.strides], offset)


LAYOUTS = ["contiguous", "transposed", "strided", "inner", "broadcast"]
DTYPES = ["float16", "bfloat16", "float32", "float64"]

Case = tuple[str, "Callable[..., Array]", tuple[Any, ...], dict[str, Any]]


def case(name: str, shape: tuple[int, ...], dtype: str, layout: str = "contiguous") -> Case:
    """Give a call of an op whose main arrays have a shape, a dtype and a layout; others have their own."""

    def array(*shape: int, seed: int = 0) -> Any:
        return draw(*shape, dtype=dtype, layout=layout, seed=seed)

    x, y, z = (array(*shape, seed=seed) for seed in range(3))
    last = shape[-1]
    match name:
        case "rms_norm":
            return "norm:rms_norm", rms_norm, (x, draw(last, dtype=dtype)), {}
        case "rms_norm bare":
            return "norm:rms_norm", rms_norm, (x,), {"eps": 0.1}
        case "layer_norm":
            return "norm:layer_norm", layer_norm, (x, draw(last, layout="strided"), draw(last, dtype=dtype, seed=1)), {}
        case "layer_norm bare":
            return "norm:layer_norm", layer_norm, (x,), {"eps": 0.1}
        case "layer_norm bias":
            return "norm:layer_norm", layer_norm, (x, None, draw(last, dtype=dtype)), {}
        case "modulate":
            condition = (shape[0], *(1,) * (len(shape) - 2), last) if len(shape) > 1 else (1,)
            return "norm:modulate", modulate, (x, array(*condition, seed=1), draw(last, dtype=dtype, seed=2)), {}
        case "silu_and_mul":
            return "activation:silu_and_mul", silu_and_mul, (array(*shape[:-1], 2 * last),), {}
        case "cfg_combine":
            return "guidance:cfg_combine", cfg_combine, (x, y, 3.7), {}
        case "cfg_combine rescaled":
            return "guidance:cfg_combine", cfg_combine, (x, y, 3.7), {"rescale": 0.7}
        case "flow_match_step":
            return "solver:flow_match_step", flow_match_step, (x, y, 0.7, 0.3), {}
        case "cfg_flow_match_step":
            return "solver:cfg_flow_match_step", cfg_flow_match_step, (x, y, z, 3.7, 0.7, 0.3), {}
    raise AssertionError(name)


ELEMENTWISE = ["modulate", "silu_and_mul", "cfg_combine", "flow_match_step", "cfg_flow_match_step"]
NORMS = ["rms_norm", "rms_norm bare", "layer_norm", "layer_norm bare", "layer_norm bias"]
NAMES = [*ELEMENTWISE, *NORMS, "cfg_combine rescaled"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_every_dtype(name: str, dtype: str) -> None:
    path, formula, args, kwargs = case(name, (2, 3, 10), dtype)
    agree(path, formula, *args, **kwargs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_layout(name: str, layout: str) -> None:
    path, formula, args, kwargs = case(name, (2, 3, 4, 6), "float64", layout)
    agree(path, formula, *args, **kwargs)


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((1,), id="one element"),
        pytest.param((7,), id="one axis"),
        pytest.param((1, 1, 1), id="one element of three axes"),
        pytest.param((3, 1), id="one column"),
        pytest.param((1100, 1), id="more rows than a tile"),
        pytest.param((2, 3, 2, 3, 2, 3), id="six axes"),
        pytest.param((2, 1030), id="more columns than a tile"),
    ],
)
@pytest.mark.parametrize("name", [*ELEMENTWISE, *NORMS])
def test_every_shape(name: str, shape: tuple[int, ...]) -> None:
    path, formula, args, kwargs = case(name, shape, "float64")
    agree(path, formula, *args, **kwargs)


@pytest.mark.parametrize(
    "shape",
    [pytest.param((0, 3), id="no rows"), pytest.param((3, 0), id="no columns"), pytest.param((2, 0, 3), id="3D")],
)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_gives_nothing(name: str, shape: tuple[int, ...]) -> None:
    path, _, args, kwargs = case(name, shape, "float32")
    assert run(path, *args, **kwargs).shape == shape


@pytest.mark.parametrize("name", NORMS)
def test_rows_longer_than_registers(name: str) -> None:
    path, formula, args, kwargs = case(name, (2, 8200), "float32")
    agree(path, formula, *args, **kwargs)


@pytest.mark.parametrize("name", NAMES)
def test_strides_that_do_not_merge(name: str) -> None:
    path, formula, args, kwargs = case(name, (2, 3, 2, 3, 2), "float64", "strided")
    agree(path, formula, *args, **kwargs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", DTYPES)
def test_arrays_of_different_dtypes(dtype: str, other: str) -> None:
    x, y = draw(3, 5, dtype=dtype), draw(3, 5, dtype=other, seed=1)
    agree("solver:flow_match_step", flow_match_step, x, y, 0.7, 0.3)


@pytest.mark.parametrize("name", ["cfg_combine", "flow_match_step", "cfg_flow_match_step"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elementwise_results_are_those_of_eager_torch(name: str, dtype: str) -> None:
    path, formula, args, kwargs = case(name, (64, 33), dtype)
    assert torch.equal(run(path, *args, **kwargs), formula(*args, **kwargs))


@pytest.mark.parametrize("width", [1, 3, 100, 257, 8192, 9000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_elements_give_bias(dtype: str, width: int) -> None:
    x = torch.tensor([[0.1], [3.3], [1000.1], [65000.0]]).to(getattr(torch, dtype)).expand(4, width)
    weight, bias = draw(width, dtype=dtype), draw(width, dtype=dtype, seed=1)
    assert torch.equal(run("norm:layer_norm", x, weight, bias), bias.expand(4, width))
    assert run("norm:layer_norm", x, weight, bias, eps=0.0).isnan().all()


@pytest.mark.parametrize("width", [7, 9000])
@pytest.mark.parametrize("column", [0, 5])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_stays_in_its_row(value: float, column: int, width: int) -> None:
    x = draw(4, width, dtype="float32")
    spoilt = x.clone()
    spoilt[1, column] = value
    for path in ("norm:layer_norm", "norm:rms_norm"):
        result = run(path, spoilt)
        assert torch.equal(result[[0, 2, 3]], run(path, x)[[0, 2, 3]])
        leaves_nothing = path == "norm:layer_norm" or value != value
        assert result[1].isnan().sum() == (width if leaves_nothing else 1)
        assert result[1, column].isnan()


def test_half_types_are_computed_in_float32() -> None:
    large = torch.full((2, 8), 300.0, dtype=torch.float16)  # whose square is beyond float16
    assert run("norm:rms_norm", large).tolist() == [[1.0] * 8] * 2


# Rotary embedding.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
@pytest.mark.parametrize("rotated", [0, 2, 6, 10])
def test_rotary(rotated: int, interleaved: bool, dtype: str) -> None:
    x = draw(2, 3, 5, 10, dtype=dtype)
    cos, sin = (draw(5, rotated // 2, dtype="float32", seed=seed) for seed in (1, 2))
    agree("rotary:rotary_embedding", rotary_embedding, x, cos, sin, interleaved=interleaved)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
@pytest.mark.parametrize(
    "angles",
    [
        pytest.param((5, 4), id="shared"),
        pytest.param((2, 1, 5, 4), id="per sample"),
        pytest.param((3, 1, 4), id="per head, one position"),
        pytest.param((2, 3, 5, 4), id="for all"),
    ],
)
def test_rotary_layouts(angles: tuple[int, ...], interleaved: bool, layout: str) -> None:
    x = draw(2, 3, 5, 9, layout=layout)
    cos, sin = (draw(*angles, layout=layout, seed=seed) for seed in (1, 2))
    agree("rotary:rotary_embedding", rotary_embedding, x, cos, sin, interleaved=interleaved)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1), (2, 0, 4)], ids=str)
def test_rotary_of_nothing(shape: tuple[int, ...]) -> None:
    angles = torch.zeros(shape[-2], shape[-1] // 2)
    assert run("rotary:rotary_embedding", torch.zeros(shape), angles, angles).shape == shape


# Guidance.


@pytest.mark.parametrize("rescale", [0.3, 1.0])
def test_rescaling_over_many_chunks(rescale: float) -> None:
    cond, uncond = draw(2, 9, 1030) + 5.0, draw(2, 9, 1030, seed=1)
    agree("guidance:cfg_combine", cfg_combine, cond.float(), uncond.float(), 2.5, rescale=rescale)


def test_rescaling_in_chunks_of_several_tiles() -> None:
    chunks = INTERPRETED.call("aside:assign", "rung_backends.triton.guidance", "_CHUNKS", 3)
    cond, uncond = (draw(2, 8 * 1024 - 3, seed=seed) for seed in range(2))
    try:
        agree("guidance:cfg_combine", cfg_combine, cond, uncond, 2.5, rescale=0.5)
    finally:
        INTERPRETED.call("aside:assign", "rung_backends.triton.guidance", "_CHUNKS", chunks)


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 1), (5, 1), (2, 3, 2, 3, 2, 3)], ids=str)
def test_rescaling_every_shape(shape: tuple[int, ...]) -> None:
    path, formula, args, kwargs = case("cfg_combine rescaled", shape, "float64")
    agree(path, formula, *args, **kwargs)


def test_a_sample_without_spread_is_left_as_it_is() -> None:
    same = torch.full((2, 1500), 0.1)
    same[1] = 0.7
    assert torch.equal(run("guidance:cfg_combine", same, same, 3.0, rescale=0.9), same)


# Refusals.


X = torch.zeros(2, 4)
HALF, WHOLE = torch.zeros(2, 2), torch.zeros(2, 4)
GRADED = torch.zeros(2, 4, requires_grad=True)
REFUSED = [
    pytest.param("norm:rms_norm", ([1.0],), TypeError, "x must be a torch tensor, got list", id="no tensor"),
    pytest.param("norm:rms_norm", (X.int(),), TypeError, "x must be float16, .* got torch.int32", id="dtype"),
    pytest.param("norm:rms_norm", (torch.zeros(()),), ValueError, "needs an axis", id="no axis"),
    pytest.param("norm:rms_norm", (X, X), ValueError, r"weight must have shape \(4,\)", id="weight"),
    pytest.param("norm:layer_norm", (X, None, X[0, 1:]), ValueError, r"bias must have shape \(4,\)", id="bias"),
    pytest.param("norm:layer_norm", (GRADED,), RuntimeError, "x records a gradient", id="gradient of x"),
    pytest.param("norm:layer_norm", (X, GRADED), RuntimeError, "weight records", id="gradient of weight"),
    pytest.param("norm:modulate", (X, torch.zeros(3), X), ValueError, r"shift must broadcast to \(2, 4\)", id="shift"),
    pytest.param("norm:modulate", (X[0], X, X[0]), ValueError, r"shift must broadcast to \(4,\)", id="wider than x"),
    pytest.param("activation:silu_and_mul", (X[:, 1:],), ValueError, "even size", id="odd"),
    pytest.param("rotary:rotary_embedding", (X, WHOLE, WHOLE), ValueError, "4 angles, too many", id="angles"),
    pytest.param("rotary:rotary_embedding", (X, HALF, WHOLE), ValueError, "sin must have cos's shape", id="sin"),
    pytest.param("rotary:rotary_embedding", (X[0], HALF, HALF), ValueError, "needs the axes", id="axes"),
    pytest.param("guidance:cfg_combine", (X, X[0], 1.0), ValueError, "uncond must have cond's shape", id="uncond"),
    pytest.param("guidance:cfg_combine", (X[0, 0], X[0, 0], 1.0), ValueError, "batch axis", id="no batch"),
    pytest.param("solver:flow_match_step", (X, X[0], 0.5, 0.4), ValueError, "velocity must have", id="velocity"),
    pytest.param("solver:flow_match_step", (X[0, 0], X[0, 0], 0.5, 0.4), ValueError, "batch axis", id="no batch axis"),
    pytest.param("solver:flow_match_step", (X, X, 0.4, 0.5), ValueError, "a step goes down", id="upwards"),
    pytest.param("solver:flow_match_step", (X, X, 0.5, float("nan")), ValueError, "a step goes down", id="nan"),
    pytest.param("solver:cfg_flow_match_step", (X, X, HALF, 1.0, 0.5, 0.4), ValueError, "uncond must", id="guided"),
    pytest.param("solver:flow_match_step", (X, X.to("meta"), 0.5, 0.4), ValueError, "sample's device cpu", id="device"),
]


@pytest.mark.parametrize(("path", "args", "error", "message"), REFUSED)
def test_refused(path: str, args: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(path, *args)
