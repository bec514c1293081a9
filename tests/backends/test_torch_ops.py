"""The torch kernels of the ops on arrays: parity within the manifests' tolerances, gradients, devices."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from catalogue import OPS, implementation, parity_cases, to_torch, tolerance

if TYPE_CHECKING:
    from collections.abc import Callable

torch = pytest.importorskip("torch")
TorchDispatchMode: Any = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode
FakeTensorMode: Any = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode

DTYPES = ["float16", "bfloat16", "float32", "float64"]


def kernel(op: str) -> Callable[..., Any]:
    return implementation("torch", op)


def tensors(*shapes: tuple[int, ...], dtype: str = "float64", requires_grad: bool = False) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [t.to(getattr(torch, dtype)).requires_grad_(requires_grad) for t in draws]


# Every op with every array it can take, gradients for all of them: name, shapes, the call.
CALLS = [
    pytest.param("rms_norm", [(3, 4), (4,)], lambda f, *a: f(*a), id="rms_norm"),
    pytest.param("rms_norm", [(2, 3, 4)], lambda f, *a: f(*a, eps=0.1), id="rms_norm without weight"),
    pytest.param("layer_norm", [(3, 4), (4,), (4,)], lambda f, *a: f(*a), id="layer_norm"),
    pytest.param("layer_norm", [(2, 3, 4)], lambda f, *a: f(*a, eps=0.1), id="layer_norm alone"),
    pytest.param("group_norm", [(2, 4, 3), (4,), (4,)], lambda f, x, *a: f(x, 2, *a), id="group_norm"),
    pytest.param("group_norm", [(2, 4, 2, 3)], lambda f, x: f(x, 1), id="group_norm alone"),
    pytest.param("modulate", [(2, 3, 4), (2, 1, 4), (4,)], lambda f, *a: f(*a), id="modulate"),
    pytest.param("silu_and_mul", [(2, 3, 4)], lambda f, x: f(x), id="silu_and_mul"),
    pytest.param("gelu", [(3, 4)], lambda f, x: f(x), id="gelu"),
    pytest.param("gelu", [(3, 4)], lambda f, x: f(x, approximate="tanh"), id="gelu by tanh"),
    pytest.param("rotary_embedding", [(2, 3, 7), (3, 3), (3, 3)], lambda f, *a: f(*a), id="rotary"),
    pytest.param(
        "rotary_embedding",
        [(2, 3, 4), (2, 1, 2), (2, 1, 2)],
        lambda f, *a: f(*a, interleaved=True),
        id="rotary interleaved",
    ),
    pytest.param("cfg_combine", [(3, 4), (3, 4)], lambda f, *a: f(*a, 3.0), id="cfg_combine"),
    pytest.param("cfg_combine", [(2, 3, 2)] * 2, lambda f, *a: f(*a, 3.0, rescale=0.7), id="cfg_combine rescaled"),
    pytest.param("cfg_flow_match_step", [(3, 4)] * 3, lambda f, *a: f(*a, 3.0, 0.6, 0.5), id="cfg_flow_match_step"),
]
with_every_call = pytest.mark.parametrize(("op", "shapes", "run"), CALLS)


def test_the_calls_leave_no_op_and_no_array_out() -> None:
    found: dict[str, int] = {}
    calls: list[Any] = [param.values for param in CALLS]
    for op, shapes, _ in calls:
        found[op] = max(found.get(op, 0), len(shapes))
    for op in OPS:
        hints = inspect.signature(kernel(op)).parameters.values()
        assert found[op] == sum("Tensor" in str(p.annotation) for p in hints)


# Parity.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_parity_with_the_reference(op: str, dtype: str) -> None:
    cast = partial(to_torch, dtype=dtype)
    limits: Any = tolerance(op, dtype)
    for args, kwargs in parity_cases(op, dtype):
        expected = implementation("reference", op)(*args, **kwargs)
        got = kernel(op)(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})
        assert got.dtype == getattr(torch, dtype)
        np.testing.assert_allclose(got.double().numpy(), expected.astype("float64"), **limits)


@pytest.mark.parametrize(
    ("op", "rest", "expected"),
    [
        # Each would overflow float16 before its last operation.
        pytest.param("rms_norm", (), [1.0, 1.0], id="rms_norm"),
        pytest.param("layer_norm", ([1.0, 1.0], [-2.0, 3.0]), [-2.0, 3.0], id="layer_norm"),
        pytest.param("modulate", ([-60000.0] * 2, [0.5] * 2), [30000.0, 30000.0], id="modulate"),
        pytest.param("cfg_combine", ([-60000.0] * 2, 0.75), [30000.0, 30000.0], id="cfg_combine"),
        pytest.param("rotary_embedding", ([0.5], [0.5]), [0.0, 60000.0], id="rotary_embedding"),
    ],
)
def test_half_types_are_computed_in_float32(op: str, rest: tuple[Any, ...], expected: list[float]) -> None:
    x = torch.full((1, 2), 60000.0, dtype=torch.float16)
    given = [torch.tensor(v, dtype=torch.float16) if isinstance(v, list) else v for v in rest]
    given = [v[None] if op == "cfg_combine" and isinstance(v, torch.Tensor) else v for v in given]
    assert kernel(op)(x, *given).tolist() == [expected]


def test_the_weight_is_applied_before_the_result_is_rounded() -> None:
    x, weight = tensors((64, 33), (33,), dtype="bfloat16")
    expected = kernel("rms_norm")(x.double(), weight.double()).bfloat16()
    assert (kernel("rms_norm")(x, weight) != expected).float().mean() < 1e-3


def test_channels_last_groups_keep_a_deviation_beside_a_large_mean() -> None:
    (x,) = tensors((2, 6, 8, 8), dtype="float32")
    far = (x + 1000).to(memory_format=torch.channels_last)
    expected = kernel("group_norm")(far.double(), 3).float()
    torch.testing.assert_close(kernel("group_norm")(far, 3), expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        pytest.param((2, 1, 64, 64), 1, id="one channel"),
        pytest.param((2, 6, 1, 1), 2, id="one place"),
        pytest.param((2, 32, 1, 1), 1, id="one place, many channels"),
        pytest.param((2, 6, 8, 1), 3, id="one column"),
        pytest.param((2, 1, 4, 8, 8), 1, id="one channel of volumes"),
        pytest.param((2, 6, 1, 1, 1), 2, id="one place of volumes"),
    ],
)
def test_what_is_channels_last_and_contiguous_at_once_is_no_exception(
    shape: tuple[int, ...], groups: int, dtype: str
) -> None:
    x, weights = tensors(shape, shape, dtype=dtype)
    layout = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    far = (x + 1000).to(memory_format=layout)
    plain = torch.empty(shape, dtype=torch.float64).copy_(far)
    limits = {"rtol": 8e-3 if dtype == "bfloat16" else 1e-3, "atol": 1e-3}
    found = [t.requires_grad_() for t in (far, plain)]
    results = [kernel("group_norm")(t, groups) for t in found]
    torch.testing.assert_close(results[0].double(), results[1], **limits)
    assert results[0].is_contiguous()
    for t, result in zip(found, results, strict=True):
        result.backward(weights.to(t.dtype).to(memory_format=layout))
    torch.testing.assert_close(far.grad.double(), plain.grad, **limits)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [2, 3, 7, 100, 1000])
def test_samples_of_equal_elements_are_not_rescaled(dtype: str, count: int) -> None:
    # The mean of many tenths is not always a tenth, and what is left is no deviation.
    x = torch.full((2, count), 0.1, dtype=getattr(torch, dtype))
    result = kernel("cfg_combine")(x, -3 * x, 3.0, rescale=1.0)
    assert torch.equal(result, kernel("cfg_combine")(x, -3 * x, 3.0))


# Gradients.


@with_every_call
def test_gradients(op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any]) -> None:
    arguments = tensors(*shapes, requires_grad=True)
    assert torch.autograd.gradcheck(partial(run, kernel(op)), arguments)


@with_every_call
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradients_reach_narrow_leaves(
    op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any], dtype: str
) -> None:
    arguments = tensors(*shapes, dtype=dtype, requires_grad=True)
    result = run(kernel(op), *arguments)
    *_, weights = tensors(*shapes, tuple(result.shape), dtype=dtype)
    for gradient, argument in zip(torch.autograd.grad((result * weights).sum(), arguments), arguments, strict=True):
        assert gradient.dtype == argument.dtype
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 0


def test_gradients_of_samples_of_equal_elements_are_those_without_rescaling() -> None:
    (x,) = tensors((2, 4), requires_grad=True)
    flat = torch.full((2, 4), 3.0, dtype=torch.float64, requires_grad=True)
    result = kernel("cfg_combine")(flat, flat, 2.0, rescale=0.5)
    assert torch.equal(torch.autograd.grad(result.sum(), flat)[0], torch.ones_like(flat))
    result = kernel("cfg_combine")(x, flat, 0.0, rescale=0.5)
    assert torch.equal(torch.autograd.grad(result.sum(), flat)[0], torch.ones_like(flat))


@with_every_call
def test_nothing_is_tracked_for_arguments_that_are_not(
    op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any]
) -> None:
    assert not run(kernel(op), *tensors(*shapes)).requires_grad


# Devices.


class NoFloat64(TorchDispatchMode):  # type: ignore[misc] # its class is Any here
    """Refuses every operation with a float64 result, as mps would."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for made in result if isinstance(result, tuple) else (result,):
            if isinstance(made, torch.Tensor) and made.dtype == torch.float64:
                raise TypeError(f"{func} made a float64 tensor")
        return result


@with_every_call
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_no_float64_tensor_is_made_for_narrower_ones(
    op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any], dtype: str
) -> None:
    arguments = tensors(*shapes, dtype=dtype)
    with NoFloat64():
        assert run(kernel(op), *arguments).dtype == getattr(torch, dtype)


@with_every_call
def test_results_stay_on_the_device_and_no_value_is_read(
    op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any]
) -> None:
    # Tensors on `meta` and fake ones have no values: reading one, as for a branch, raises.
    expected = run(kernel(op), *tensors(*shapes, dtype="float32"))
    made = run(kernel(op), *(torch.empty(shape, device="meta") for shape in shapes))
    assert (made.device.type, made.shape, made.dtype) == ("meta", expected.shape, expected.dtype)
    with FakeTensorMode():
        made = run(kernel(op), *(torch.empty(shape, requires_grad=True) for shape in shapes))
        made.sum().backward()
        assert (made.shape, made.dtype) == (expected.shape, expected.dtype)


@with_every_call
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_share_no_memory_with_arguments(
    op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any], dtype: str
) -> None:
    arguments = tensors(*shapes, dtype=dtype)
    kept = [t.clone() for t in arguments]
    result = run(kernel(op), *arguments)
    result.zero_()
    assert all(torch.equal(old, new) for old, new in zip(kept, arguments, strict=True))


@pytest.mark.parametrize("vectors", [0, 2], ids=["alone", "weight and bias"])
def test_nothing_is_a_new_nothing(vectors: int) -> None:
    x, *rest = tensors((2, 4, 0), *[(4,)] * vectors, dtype="float32")
    assert kernel("group_norm")(x, 2, *rest) is not x


# Compilation.


@pytest.mark.parametrize("dynamic", [None, True, False], ids=["found out", "dynamic", "static"])
@pytest.mark.parametrize(
    ("op", "run"),
    [
        pytest.param("cfg_combine", lambda f, x, y, s: f(x, y, s), id="cfg_combine"),
        pytest.param("cfg_combine", lambda f, x, y, s: f(x, y, 3.0, rescale=s / 8), id="rescale"),
        pytest.param("cfg_flow_match_step", lambda f, x, y, s: f(x, x, y, s, 0.6, 0.5), id="cfg_flow_match_step"),
        pytest.param("layer_norm", lambda f, x, _, s: f(x, eps=s), id="eps"),
    ],
)
def test_numbers_may_vary_in_one_graph(op: str, run: Callable[..., Any], dynamic: bool | None) -> None:
    x, y = tensors((2, 3), (2, 3), dtype="float32")
    call = partial(run, kernel(op))
    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="eager", dynamic=dynamic)
    for number in (1.5, 2.0, 3.5, 7.5):
        assert torch.equal(compiled(x, y, number), call(x, y, number))


@pytest.mark.parametrize(
    ("op", "shape", "run"),
    [
        pytest.param("modulate", (2, 6), lambda f, x: f(x, torch.ones(6), torch.zeros(1, 6)), id="modulate"),
        pytest.param("rotary_embedding", (2, 5, 6), lambda f, x: f(x, torch.ones(5, 3), torch.ones(5, 3)), id="rotary"),
        pytest.param("layer_norm", (2, 6), lambda f, x: f(x, torch.ones(6)), id="layer_norm"),
        pytest.param("group_norm", (2, 6, 3, 3), lambda f, x: f(x, 3, torch.ones(6)), id="group_norm"),
        pytest.param("cfg_combine", (2, 6), lambda f, x: f(x, torch.zeros(2, 6), 3.0), id="cfg_combine"),
    ],
)
def test_what_is_made_inside_fits_sizes_that_are_kept_open(
    op: str, shape: tuple[int, ...], run: Callable[..., Any]
) -> None:
    (x,) = tensors(shape, dtype="float32")
    call = partial(run, kernel(op))
    torch._dynamo.reset()
    assert torch.equal(torch.compile(call, fullgraph=True, backend="eager", dynamic=True)(x), call(x))


# Errors.


@pytest.mark.parametrize("op", ["cfg_combine", "cfg_flow_match_step"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_scale_beyond_what_is_computed_in_is_refused(op: str, dtype: str) -> None:
    arguments = tensors(*[(2, 3)] * (3 if op == "cfg_flow_match_step" else 2), dtype=dtype)
    sigmas = (0.6, 0.5) if op == "cfg_flow_match_step" else ()
    if dtype == "float64":
        assert torch.isfinite(kernel(op)(*arguments, 1e39, *sigmas)).all()
        return
    for scale in (1e39, -1e39):
        with pytest.raises(ValueError, match=r"guidance_scale must be in the range of torch\.float32, .*got -?1e\+39"):
            kernel(op)(*arguments, scale, *sigmas)


@with_every_call
def test_float8_is_refused(op: str, shapes: list[tuple[int, ...]], run: Callable[..., Any]) -> None:
    arguments = [t.to(torch.float8_e4m3fn) for t in tensors(*shapes)]
    with pytest.raises(TypeError, match=r"must be float16, bfloat16, float32 or float64, got torch\.float8"):
        run(kernel(op), *arguments)


def test_gradients_of_nothing_are_zero() -> None:
    # The library's own are NaN for weight and bias of a group norm without elements.
    x = torch.zeros(2, 4, 0, requires_grad=True)
    weight, bias = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    kernel("group_norm")(x, 2, weight, bias).sum().backward()
    assert torch.equal(weight.grad, torch.zeros(4))
    assert torch.equal(bias.grad, torch.zeros(4))
