"""The torch kernels of scaled_mm: parity, both forms; gradients, devices, compilation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rung_backends.reference import cases
from rung_backends.reference.matmul import scaled_mm as reference

torch = pytest.importorskip("torch")

from rung_backends.torch.matmul import scaled_mm, scaled_mm_fp8  # noqa: E402 - needs torch

if TYPE_CHECKING:
    from collections.abc import Callable

FLOAT8 = ["float8_e4m3fn", "float8_e5m2"]
OUT = ["bfloat16", "float16", "float32", "float64"]
# One unit in the last place, and what float32 sums of the cases' sizes lose.
TOLERANCES: dict[str, Any] = {
    "bfloat16": {"rtol": 2.0**-7, "atol": 2e-6},
    "float16": {"rtol": 2.0**-10, "atol": 2e-6},
    "float32": {"rtol": 2.0**-23, "atol": 2e-6},
    "float64": {"rtol": 1e-14, "atol": 1e-14},
}
has_fp8 = pytest.mark.skipif(not hasattr(torch.nn.functional, "scaled_mm"), reason="torch has no scaled_mm")
FORMS = [pytest.param(scaled_mm, id="widened"), pytest.param(scaled_mm_fp8, id="float8", marks=has_fp8)]


def tensor(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


def arguments(rows: int, width: int, columns: int, many: bool = True, kind: str = "float8_e4m3fn") -> list[Any]:
    shapes = ((rows, 1), (1, columns)) if many else ((), ())
    scales = [tensor(*shape, seed=seed).abs() + 0.1 for seed, shape in enumerate(shapes)]
    return [tensor(rows, width, dtype=kind), tensor(columns, width, seed=1, dtype=kind).t(), *scales]


def to_numpy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return (value if value.dtype in (torch.float16, torch.float32, torch.float64) else value.float()).numpy()


def check(form: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Compare with the reference on the same values."""
    got = form(*args, **kwargs)
    expected = reference(*map(to_numpy, args), **{name: to_numpy(value) for name, value in kwargs.items()})
    out_dtype = kwargs.get("out_dtype", "bfloat16")
    assert got.dtype == getattr(torch, out_dtype)
    assert got.shape == expected.shape
    assert_allclose(to_numpy(got.double()), expected.astype("float64"), **TOLERANCES[out_dtype])
    return got


# Parity.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", FLOAT8)
def test_parity_with_the_reference(form: Callable[..., Any], kind: str) -> None:
    for seed in range(2):
        for args, kwargs in cases.scaled_mm(kind, np.random.default_rng(seed)):
            a, b, scale_a, scale_b = map(torch.from_numpy, args)
            given = {name: torch.from_numpy(v).bfloat16() if name == "bias" else v for name, v in kwargs.items()}
            dtype = getattr(torch, kind)
            check(form, a.to(dtype), b.to(dtype), scale_a, scale_b, **given)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("out_dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("bias", ["none", "bfloat16", "float16", "float32"])
@pytest.mark.parametrize("many", [False, True], ids=["one scale", "many scales"])
def test_biases_of_every_dtype(form: Callable[..., Any], out_dtype: str, bias: str, many: bool) -> None:
    given = None if bias == "none" else tensor(16, seed=4, dtype=bias)
    check(form, *arguments(5, 32, 16, many), bias=given, out_dtype=out_dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kinds", [FLOAT8, FLOAT8[::-1]], ids=lambda kinds: "and ".join(kinds))
def test_two_kinds_of_float8(form: Callable[..., Any], kinds: list[str]) -> None:
    check(form, tensor(5, 32, dtype=kinds[0]), tensor(32, 16, dtype=kinds[1]), torch.tensor(0.5), tensor(1, 16).abs())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_matrices_that_hold_float8_values_in_another_dtype(dtype: str) -> None:
    args = arguments(5, 32, 16)
    wide = [t.to(getattr(torch, dtype)) for t in args[:2]]
    assert torch.equal(check(scaled_mm, *wide, *args[2:]), scaled_mm(*args))


@pytest.mark.parametrize("kind", ["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_the_kinds_amd_has_are_widened_too(kind: str) -> None:
    check(scaled_mm, *arguments(5, 32, 16, kind=kind))


@pytest.mark.parametrize("form", FORMS)
def test_float64_is_for_who_asks(form: Callable[..., Any]) -> None:
    args = arguments(5, 32, 16)
    assert form(*args, out_dtype="float64").dtype == torch.float64
    if form is scaled_mm:
        check(form, *args, out_dtype="float64", bias=tensor(16).double())


@pytest.mark.parametrize("form", FORMS)
def test_results_beyond_the_range_are_infinite(form: Callable[..., Any]) -> None:
    a, b = (torch.full((16, 16), 448.0).to(torch.float8_e4m3fn) for _ in range(2))
    assert torch.equal(
        form(a, b, torch.tensor(1.0), torch.tensor(1.0), out_dtype="float16").float(), a.float() * math.inf
    )
    a = a.clone()
    a.view(torch.uint8)[0] = 0x7F  # NaN
    got = form(a, b, torch.tensor(1.0), torch.tensor(1.0))
    assert torch.equal(got.isnan().all(1), torch.arange(16) == 0)


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@pytest.mark.parametrize("side", ["scale_a", "scale_b"])
@pytest.mark.parametrize(
    ("form", "value"),
    [
        *(pytest.param(scaled_mm, value, id=f"widened-{value}") for value in (math.inf, -math.inf, math.nan, 0.0)),
        # What an infinite one gives is the library's.
        *(pytest.param(scaled_mm_fp8, value, id=f"float8-{value}", marks=has_fp8) for value in (math.nan, 0.0)),
    ],
)
def test_scales_come_after_the_product(form: Callable[..., Any], value: float, side: str, many: bool) -> None:
    a, b, scale_a, scale_b = arguments(16, 32, 48, many=many)
    a[1] = torch.zeros(32).to(a.dtype)
    scale = {"scale_a": scale_a, "scale_b": scale_b}[side]
    scale.view(-1)[0] = value
    got = check(form, a, b, scale_a, scale_b)
    assert not math.isnan(value) or got.isnan().any()


@pytest.mark.parametrize("form", FORMS)
def test_layouts_do_not_matter(form: Callable[..., Any]) -> None:
    a, b, scale_a, scale_b = arguments(16, 32, 16)
    expected = form(a, b, scale_a, scale_b, out_dtype="float32")
    by_columns, by_rows = a.t().contiguous().t(), b.contiguous()
    assert not by_columns.is_contiguous()
    assert torch.equal(form(by_columns, by_rows, scale_a, scale_b, out_dtype="float32"), expected)
    strided = torch.stack([scale_b, scale_b], -1)[..., 0]
    assert torch.equal(form(a, b, scale_a.expand(16, 1), strided, out_dtype="float32"), expected)


# Gradients.


def test_gradients_reach_scales_bias_and_wide_matrices() -> None:
    given = [t.double().requires_grad_() for t in (*arguments(2, 3, 2), tensor(2, seed=5))]

    def run(a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any) -> Any:
        return scaled_mm(a, b, scale_a, scale_b, bias=bias, out_dtype="float64")

    assert torch.autograd.gradcheck(run, tuple(given))


def test_gradients_reach_narrow_leaves() -> None:
    a, b, scale_a, scale_b = arguments(3, 16, 16)
    bias = tensor(16, dtype="bfloat16").requires_grad_()
    scale_a.requires_grad_()
    for gradient in torch.autograd.grad(scaled_mm(a, b, scale_a, scale_b, bias=bias).sum(), (scale_a, bias)):
        assert torch.isfinite(gradient).all()
        assert gradient.any()


# Devices and compilation.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("many", [False, True], ids=["one scale", "many scales"])
@pytest.mark.parametrize("bias", [False, True], ids=["bare", "biased"])
def test_no_value_is_read_and_it_compiles_as_one_graph(form: Callable[..., Any], many: bool, bias: bool) -> None:
    args = arguments(5, 32, 16, many)
    given: Any = tensor(16, dtype="bfloat16") if bias else None
    # Tensors on `meta` have no values: reading one, as for a branch, raises.
    got = form(*(t.to("meta") for t in args), bias=given.to("meta") if bias else None)
    assert (got.device.type, got.shape, got.dtype) == ("meta", (5, 16), torch.bfloat16)
    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(form, fullgraph=True, backend="eager", dynamic=dynamic)
        assert torch.equal(compiled(*args, bias=given), form(*args, bias=given))


@pytest.mark.parametrize("shapes", [((5, 1), (1, 16)), ((1, 1), ()), ((1,), (1, 16))], ids=str)
def test_scales_made_inside_fit_sizes_that_are_kept_open(shapes: tuple[tuple[int, ...], ...]) -> None:
    def run(a: Any, b: Any) -> Any:
        return scaled_mm(a, b, *(torch.full(shape, 0.5) for shape in shapes))

    a, b = arguments(5, 32, 16)[:2]
    torch._dynamo.reset()
    assert torch.equal(torch.compile(run, fullgraph=True, backend="eager", dynamic=True)(a, b), run(a, b))


def test_autocast_has_no_say() -> None:
    args = arguments(64, 256, 64)
    expected = scaled_mm(*args, out_dtype="float32")
    torch._dynamo.reset()
    compiled = torch.compile(scaled_mm, fullgraph=True, backend="eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(scaled_mm(*args, out_dtype="float32"), expected)
        assert torch.equal(compiled(*args, out_dtype="float32"), expected)


@pytest.mark.parametrize("form", FORMS)
def test_arguments_are_left_alone_and_shared_with_nothing(form: Callable[..., Any]) -> None:
    args = arguments(5, 32, 16)
    before = [t.clone() for t in args]
    form(*args).zero_()
    assert all(torch.equal(t.float(), old.float()) for t, old in zip(args, before, strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        pytest.param({"a": np.ones((2, 3))}, TypeError, "a must be a torch tensor, got ndarray", id="numpy"),
        pytest.param(
            {"b": torch.ones(16, 32, dtype=torch.int8)},
            TypeError,
            r"b must be one of .* got torch\.int8",
            id="integers",
        ),
        pytest.param(
            {
                "scale_a": torch.ones(()).to(torch.float8_e8m0fnu)
                if hasattr(torch, "float8_e8m0fnu")
                else torch.ones(()).int()
            },
            TypeError,
            "scale_a must be one of float16",
            id="scale",
        ),
        pytest.param({"b": tensor(16, 16, dtype="float8_e4m3fn")}, ValueError, r"got \(5, 32\) and", id="inner sizes"),
        pytest.param(
            {"scale_a": torch.ones(5)}, ValueError, r"or shape \(5, 1\), got \(5,\)", id="rows without an axis"
        ),
        pytest.param({"scale_b": torch.ones(16, 1)}, ValueError, r"or shape \(1, 16\)", id="columns turned"),
        pytest.param({"bias": torch.ones(5)}, ValueError, r"bias must have shape \(16,\)", id="bias of rows"),
        pytest.param({"out_dtype": "float8_e5m2"}, ValueError, "must be one of bfloat16", id="out_dtype"),
        pytest.param({"out_dtype": ["float32"]}, ValueError, r"must be one of .* got \['float32'\]", id="list"),
        pytest.param({"out_dtype": torch.float32}, ValueError, r"must be one of .* got torch\.float32", id="dtype"),
    ],
)
def test_refusals(form: Callable[..., Any], changes: dict[str, Any], error: type[Exception], message: str) -> None:
    given = dict(zip(("a", "b", "scale_a", "scale_b"), arguments(5, 32, 16), strict=True))
    with pytest.raises(error, match=message):
        form(**{**given, **changes})


@has_fp8
def test_the_float8_form_takes_float8_only() -> None:
    a, b, *scales = arguments(5, 32, 16)
    with pytest.raises(TypeError, match=r"a must be one of float8_e4m3fn, .* got torch\.float32"):
        scaled_mm_fp8(a.float(), b, *scales)
