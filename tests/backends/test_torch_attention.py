"""The torch kernel of attention: parity within the manifest's tolerances, paths, gradients, devices, compilation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose

from rung_backends.reference import cases
from rung_backends.reference.attention import attention as reference

torch = pytest.importorskip("torch")
TorchDispatchMode: Any = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode

from rung_backends.torch.attention import attention  # noqa: E402 - needs torch

DTYPES = ["float16", "bfloat16", "float32", "float64"]
MANIFEST = Path(__file__).parents[2] / "manifests" / "ops" / "attention.yaml"
TOLERANCES = yaml.safe_load(MANIFEST.read_text("utf-8"))["ops"]["attention"]["tolerance"]


def tensor(*shape: int, seed: int = 0, dtype: str = "float64", requires_grad: bool = False) -> Any:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    return values.to(getattr(torch, dtype)).requires_grad_(requires_grad)


def qkv(
    queries: int, keys: int, heads: int = 4, kv_heads: int = 2, width: int = 4, more: int = 0, **options: Any
) -> Any:
    shapes = ((2, heads, queries, width), (2, kv_heads, keys, width), (2, kv_heads, keys, width + more))
    return [tensor(*shape, seed=seed, **options) for seed, shape in enumerate(shapes)]


def to_torch(value: Any, dtype: str) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    made = torch.from_numpy(value if value.flags.writeable else value.copy())
    return made if made.dtype == torch.bool else made.to(getattr(torch, dtype))


def to_numpy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def check(*args: Any, tolerance: str = "", **kwargs: Any) -> Any:
    """Compare with the reference on the same values."""
    got = attention(*args, **kwargs)
    expected = reference(*map(to_numpy, args), **{name: to_numpy(value) for name, value in kwargs.items()})
    dtype = str(got.dtype).removeprefix("torch.")
    assert got.dtype == args[0].dtype
    assert got.shape == expected.shape
    assert_allclose(got.detach().double().numpy(), expected.astype("float64"), **TOLERANCES[tolerance or dtype])
    return got


# Parity.


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_parity_with_the_reference(dtype: str, seed: int) -> None:
    for args, kwargs in cases.attention(dtype, np.random.default_rng(seed)):
        check(*(to_torch(t, dtype) for t in args), **{name: to_torch(t, dtype) for name, t in kwargs.items()})


# torch's fused kernel for the CPU takes values as wide as keys, its other form all.
@pytest.mark.parametrize("more", [0, 3], ids=["fused", "composed"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("queries", "keys"), [(64, 64), (33, 130), (130, 33), (1, 257), (257, 1)], ids=lambda size: str(size)
)
@pytest.mark.parametrize("kind", ["none", "boolean", "additive"])
def test_sizes_of_several_blocks(queries: int, keys: int, kind: str, dtype: str, more: int) -> None:
    q, k, v = qkv(queries, keys, width=8, more=more, dtype=dtype)
    keep = tensor(2, 1, queries, keys, seed=5) < 0.5
    keep[0, 0, queries // 2] = False
    mask = {"none": None, "boolean": keep, "additive": (~keep).to(q.dtype).masked_fill(~keep, -math.inf)}[kind]
    for causal in (False, True):
        check(q, k, v, mask=mask, causal=causal)


@pytest.mark.parametrize("more", [0, 3], ids=["fused", "composed"])
def test_halves_are_summed_in_float32(more: int) -> None:
    # Scores near 40000 * 16 / 4, and 2048 weights that halves could not add up.
    q, k, v = (
        torch.full_like(t, value)
        for t, value in zip(qkv(2, 2048, more=more, dtype="float16"), (200.0,) * 3, strict=True)
    )
    assert torch.equal(attention(q, k, v), torch.full_like(attention(q, k, v), 200.0))
    check(*qkv(3, 5, more=more, dtype="float16"), scale=3e4)


@pytest.mark.parametrize("other", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_widest_dtype_decides_and_the_result_has_qs(dtype: str, other: str) -> None:
    q, k, v = qkv(3, 5, dtype=dtype)
    coarser = max(dtype, other, key=lambda name: TOLERANCES[name]["rtol"])
    check(q, k.to(getattr(torch, other)), v, tolerance=coarser)
    check(q, k, v.to(getattr(torch, other)), tolerance=coarser)
    check(q, k, v, mask=tensor(3, 5, seed=9, dtype=other), tolerance=coarser)


def test_a_wide_mask_beside_halves_is_not_narrowed() -> None:
    # float16 would turn both numbers into -inf, and the row into one that sees nothing.
    q, k, v = qkv(1, 2, dtype="float16")
    mask = torch.tensor([-1e9, -1e9 - 64.0 * 8])
    got = check(q, k, v, mask=mask)
    assert torch.equal(got, v[:, :, :1].repeat_interleave(2, 1))


@pytest.mark.parametrize("scale", [0.0, -0.7, 1e-3, 3.0])
@pytest.mark.parametrize("more", [0, 3], ids=["fused", "composed"])
def test_scales(scale: float, more: int) -> None:
    for causal in (False, True):
        for mask in (None, tensor(5, 7, seed=4), tensor(5, 7, seed=4) < 0.5):
            check(*qkv(5, 7, more=more), scale=scale, causal=causal, mask=mask)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["transposed", "strided", "shared", "packed"])
def test_layouts(layout: str, dtype: str) -> None:
    whole = tensor(3, 2, 6, 2, 8, dtype=dtype).unbind(0)  # three of batch, position, head, element
    match layout:
        case "transposed":
            arrays = [t.transpose(1, 2) for t in whole]
        case "strided":
            arrays = [t.transpose(1, 2)[:, :, ::2, 1::2] for t in whole]
        case "shared":
            arrays = [whole[0].transpose(1, 2), *(t.transpose(1, 2)[:1, :1].expand(2, 2, 6, 8) for t in whole[1:])]
        case _:
            arrays = list(torch.stack(whole, 2).transpose(1, 3).unbind(2))
    assert not any(t.is_contiguous() for t in arrays)
    for kwargs in (
        {},
        {"causal": True},
        {"mask": tensor(6, 6, dtype=dtype)[: arrays[0].shape[2], : arrays[0].shape[2]].T},
    ):
        check(*arrays, **kwargs)


def test_infinities_and_nan_go_where_the_reference_says() -> None:
    q, k, v = qkv(4, 5, heads=2)
    q[0, 0, 0], k[0, 0, 2], v[0, 0, 1, 1], q[1, 1, 3] = math.inf, math.nan, math.nan, math.nan
    mask = torch.zeros(4, 5, dtype=torch.float64)
    mask[1, 2], mask[2, 0] = math.inf, math.nan
    for given in (None, mask):
        got = attention(q, k, v, mask=given).numpy()
        expected = reference(q.numpy(), k.numpy(), v.numpy(), mask=None if given is None else given.numpy())
        assert_allclose(got, expected, rtol=1e-13)
        assert np.isnan(expected).any()
    q, k, v = (torch.ones(1, 1, n, 2) for n in (1, 3, 3))
    for arrays in ((q * math.inf, -k, v), (q * math.inf, -k, v[..., :1])):  # all scores are -inf
        assert not attention(*arrays).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("keys", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 129, 513])
def test_nan_is_found_among_few_keys_and_many(keys: int, causal: bool, dtype: str) -> None:
    for queries in {1, min(4, keys), keys}:
        for spoilt in (0, 1):
            # What is hidden from a query is to be finite.
            for place in (0, slice(None)) if causal and spoilt else (0, -1, slice(None)):
                arrays = qkv(queries, keys, dtype=dtype)
                arrays[spoilt][0, :, place] = math.nan
                for mask in (None, torch.ones(queries, keys, dtype=torch.bool), torch.zeros(queries, keys)):
                    got = attention(*arrays, mask=mask, causal=causal)
                    expected = reference(*(t.double().numpy() for t in arrays), causal=causal)
                    assert np.isnan(expected).any()
                    assert torch.equal(got.isnan(), torch.from_numpy(np.isnan(expected)))


@pytest.mark.parametrize("more", [0, 3], ids=["fused", "composed"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_rows_are_zero_whatever_they_hold(dtype: str, more: int) -> None:
    q, k, v = qkv(5, 3, more=more, dtype=dtype)
    q[:, :, 0] = math.nan
    keep = torch.tensor([False, True, False, True, True])[:, None]
    for mask in (keep, keep.expand(5, 3), torch.where(keep, 0.0, -math.inf).to(q.dtype), None):
        got = attention(q, k, v, mask=mask, causal=True)
        hidden = torch.tensor([True, True, mask is not None, False, False])
        assert torch.equal(got.eq(0).all(-1)[0, 0], hidden)
        assert torch.isfinite(got).all()


# Gradients.


MASKS = [
    pytest.param(lambda *size: None, id="none"),
    pytest.param(lambda *size: tensor(*size, seed=7) < 0.3, id="boolean"),
    pytest.param(lambda *size: tensor(*size, seed=7, requires_grad=True), id="additive"),
    pytest.param(lambda *size: tensor(2, 1, 1, size[1], seed=7, requires_grad=True), id="additive, shared"),
]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("queries", "keys"), [(3, 3), (2, 4), (4, 2), (1, 3)], ids=str)
@pytest.mark.parametrize("more", [0, 1], ids=["fused", "composed"])
def test_gradients(queries: int, keys: int, causal: bool, mask: Any, more: int) -> None:
    inputs = qkv(queries, keys, width=2, more=more, requires_grad=True)
    given = mask(queries, keys)
    if given is None or given.dtype == torch.bool:

        def run(q: Any, k: Any, v: Any) -> Any:
            return attention(q, k, v, mask=given, causal=causal, scale=-0.8)

    else:
        inputs.append(given)

        def run(q: Any, k: Any, v: Any, mask: Any) -> Any:  # type: ignore[misc] # one more argument
            return attention(q, k, v, mask=mask, causal=causal)

    assert torch.autograd.gradcheck(run, tuple(inputs))


@pytest.mark.parametrize("more", [0, 3], ids=["fused", "composed"])
@pytest.mark.parametrize("kind", ["boolean", "additive", "causal", "no key"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_rows_pass_on_zeros(kind: str, dtype: str, more: int) -> None:
    q, k, v = qkv(5, 0 if kind == "no key" else 3, more=more, dtype=dtype, requires_grad=True)
    hidden = torch.tensor([True, True, False, False, False]) if kind != "no key" else torch.ones(5, dtype=torch.bool)
    added = torch.where(hidden, -math.inf, 0.5).to(q.dtype)[:, None].repeat(1, 3)
    given: Any = {"boolean": ~hidden[:, None], "additive": added}.get(kind)
    inputs = [q, k, v]
    if kind == "additive":
        inputs.append(given.requires_grad_())
    result = attention(q, k, v, mask=given, causal=kind == "causal")
    gradients = torch.autograd.grad((result * tensor(*result.shape, seed=8)).sum(), inputs)
    for gradient, argument in zip(gradients, inputs, strict=True):
        assert gradient.dtype == argument.dtype
        assert torch.isfinite(gradient).all()
    assert not gradients[0][:, :, hidden].any()
    assert gradients[0][:, :, ~hidden].abs().amax() > 0 if kind != "no key" else True
    if kind == "additive":
        assert not gradients[3][hidden].any()


def test_what_is_hidden_has_no_gradient() -> None:
    q, k, v = qkv(3, 4, requires_grad=True)
    mask = torch.arange(4) > 0
    gradients = torch.autograd.grad(attention(q, k, v, mask=mask).sum(), (k, v))
    for gradient in gradients:
        assert not gradient[:, :, 0].any()
        assert gradient[:, :, 1:].any()


def test_nothing_is_tracked_for_arguments_that_are_not() -> None:
    assert not attention(*qkv(3, 4)).requires_grad


# Devices and compilation.


class NoFloat64(TorchDispatchMode):  # type: ignore[misc] # its class is Any here
    """Refuses every operation with a float64 result, as mps would."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float64:
            raise TypeError(f"{func} made a float64 tensor")
        return result


VARIATIONS = [
    pytest.param(5, 7, {}, id="plain"),
    pytest.param(5, 5, {"causal": True}, id="causal"),
    pytest.param(5, 7, {"causal": True}, id="fewer queries"),
    pytest.param(7, 5, {"causal": True}, id="more queries"),
    pytest.param(1, 7, {"causal": True, "scale": 0.0}, id="one query"),
    pytest.param(5, 0, {}, id="no key"),
    pytest.param(5, 7, {"mask": "boolean", "scale": -2.0}, id="boolean"),
    pytest.param(5, 7, {"mask": "additive", "causal": True}, id="additive"),
]


def variation(
    queries: int, keys: int, options: dict[str, Any], dtype: str = "float32"
) -> tuple[list[Any], dict[str, Any]]:
    masks = {"boolean": tensor(queries, keys) < 0.5, "additive": tensor(queries, keys, dtype=dtype), None: None}
    return qkv(queries, keys, dtype=dtype), {**options, "mask": masks[options.get("mask")]}


@pytest.mark.parametrize(("queries", "keys", "options"), VARIATIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_no_float64_tensor_is_made_for_narrower_ones(
    queries: int, keys: int, options: dict[str, Any], dtype: str
) -> None:
    args, kwargs = variation(queries, keys, options, dtype)
    with NoFloat64():
        attention(*args, **kwargs)


@pytest.mark.parametrize(("queries", "keys", "options"), VARIATIONS)
def test_results_stay_on_the_device_and_no_value_is_read(queries: int, keys: int, options: dict[str, Any]) -> None:
    # Tensors on `meta` have no values: reading one, as for a branch, raises.
    args, kwargs = variation(queries, keys, options)
    mask = kwargs.pop("mask")
    got = attention(*(t.to("meta") for t in args), mask=None if mask is None else mask.to("meta"), **kwargs)
    assert got.device.type == "meta"
    assert got.shape == (2, 4, queries, 4)


@pytest.mark.parametrize(("queries", "keys", "options"), VARIATIONS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_it_compiles_as_one_graph(queries: int, keys: int, options: dict[str, Any], dynamic: bool) -> None:
    args, kwargs = variation(queries, keys, options)
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, backend="eager", dynamic=dynamic)
    assert torch.equal(compiled(*args, **kwargs), attention(*args, **kwargs))


def test_a_mask_made_inside_fits_sizes_that_are_kept_open() -> None:
    def run(x: Any) -> Any:
        return attention(x, x, x, mask=torch.ones(5, 5, dtype=torch.bool).tril())

    x = torch.ones(2, 3, 5, 6)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(run, fullgraph=True, backend="eager", dynamic=True)(x), run(x))


@pytest.mark.parametrize(("queries", "keys", "options"), VARIATIONS)
def test_arguments_are_left_alone_and_shared_with_nothing(queries: int, keys: int, options: dict[str, Any]) -> None:
    args, kwargs = variation(queries, keys, options)
    given = [t for t in (*args, kwargs["mask"]) if t is not None]
    before = [t.clone() for t in given]
    attention(*args, **kwargs).zero_()
    assert all(map(torch.equal, given, before))


# Errors: those of the reference, here as there.


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        pytest.param({"q": np.ones(3)}, TypeError, "q must be a torch tensor, got ndarray", id="numpy"),
        pytest.param(
            {"k": tensor(2, 2, 4, 4).int()},
            TypeError,
            r"k must be float16, bfloat16, .* got torch\.int32",
            id="integers",
        ),
        pytest.param(
            {"v": tensor(2, 2, 4, 4).to(torch.float8_e5m2)}, TypeError, r"got torch\.float8_e5m2", id="float8"
        ),
        pytest.param({"mask": torch.ones(4, dtype=torch.int32)}, TypeError, r"mask must be boolean \(True", id="mask"),
        pytest.param({"v": tensor(2, 4, 4)}, ValueError, "need four axes", id="three axes"),
        pytest.param({"q": tensor(3, 2, 3, 4)}, ValueError, "the same batch", id="batch"),
        pytest.param({"v": tensor(2, 2, 5, 4)}, ValueError, "agree in heads and positions", id="positions"),
        pytest.param({"q": tensor(2, 2, 3, 5)}, ValueError, "as many elements", id="elements"),
        pytest.param({"q": tensor(2, 3, 3, 4)}, ValueError, "must be a multiple", id="heads"),
        pytest.param({"mask": tensor(3, 5)}, ValueError, r"\(2, 2, 3, 4\), got \(3, 5\)", id="mask of another shape"),
        pytest.param({"mask": tensor(1, 2, 2, 3, 4)}, ValueError, "mask must broadcast", id="mask of five axes"),
        pytest.param({"scale": math.nan}, ValueError, "scale must be finite, got nan", id="scale"),
    ],
)
def test_refusals(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"q": tensor(2, 2, 3, 4), "k": tensor(2, 2, 4, 4), "v": tensor(2, 2, 4, 4), **changes}
    with pytest.raises(error, match=message):
        attention(**given)


def test_autocast_has_no_say() -> None:
    q, k, v = (torch.randn(2, 3, 20, 8) for _ in range(3))
    expected = attention(q, k, v, causal=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(attention(q, k, v, causal=True), expected)
    compiled = torch.compile(lambda q, k, v: attention(q, k, v), fullgraph=True, backend="eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(compiled(q, k, v), attention(q, k, v))
