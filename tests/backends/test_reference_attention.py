"""The oracle of attention: its formula against others', its masks, its rows that see nothing, its laws and ends."""

from __future__ import annotations

import math
import tracemalloc
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rung_backends.reference import attention as module
from rung_backends.reference import cases
from rung_backends.reference.attention import attention

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DTYPES = ["float16", "bfloat16", "float32", "float64"]
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def draw(*shape: int, seed: int = 0, dtype: str = "float64") -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def qkv(
    queries: int, keys: int, heads: int = 2, kv_heads: int = 2, width: int = 4, seed: int = 0
) -> list[NDArray[Any]]:
    rng = np.random.default_rng(seed)
    shapes = ((2, heads, queries, width), (2, kv_heads, keys, width), (2, kv_heads, keys, width + 1))
    return [rng.standard_normal(shape) for shape in shapes]


def lower_right(queries: int, keys: int) -> NDArray[np.bool_]:
    return np.array([[j <= i + keys - queries for j in range(keys)] for i in range(queries)]).reshape(queries, keys)


def naive(q: Any, k: Any, v: Any, *, mask: Any = None, causal: bool = False, scale: float | None = None) -> Any:
    """Say the contract another way: head by head and query by query over the keys that are left, by scipy's softmax."""
    softmax = pytest.importorskip("scipy.special").softmax
    q, k, v = (np.asarray(t, np.float64) for t in (q, k, v))
    (batch, heads, queries, width), keys = q.shape, k.shape[2]
    mask = np.zeros(()) if mask is None else np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(float)
    mask = np.broadcast_to(mask, (batch, heads, queries, keys))
    result = np.zeros((batch, heads, queries, v.shape[3]))
    for b, h, i in np.ndindex(batch, heads, queries):
        shared = h * k.shape[1] // heads
        limit = max(0, i + keys - queries + 1) if causal else keys
        left = [j for j in range(limit) if mask[b, h, i, j] != -np.inf]
        factor = 1 / math.sqrt(width) if scale is None else scale
        scores = {j: factor * float(np.sum(q[b, h, i] * k[b, shared, j])) + mask[b, h, i, j] for j in left}
        scores = {j: score for j, score in scores.items() if score != -np.inf}
        if scores:
            with np.errstate(invalid="ignore"):  # an infinity less an infinity is NaN
                weights = softmax([*scores.values()])
            result[b, h, i] = sum(w * v[b, shared, j] for w, j in zip(weights, scores, strict=True))
    return result


# Cases.


@pytest.mark.parametrize("dtype", DTYPES)
def test_cases_agree_with_the_naive_form(dtype: str) -> None:
    for args, kwargs in cases.attention(dtype, np.random.default_rng(3)):
        arrays = [*args, *([kwargs["mask"]] if kwargs.get("mask") is not None else [])]
        for array in arrays:
            assert array.dtype in (bool, "float32" if dtype == "bfloat16" else dtype)
            if dtype == "bfloat16" and array.dtype != bool:
                assert not np.any(np.ascontiguousarray(array).view(np.uint32) & 0xFFFF)
        got = attention(*args, **kwargs)
        expected = naive(*args, **kwargs)
        assert got.dtype == args[0].dtype
        info = np.finfo(got.dtype)
        rtol, atol = (1e-14, 1e-15) if dtype == "float64" else (0.51 * float(info.eps), float(info.smallest_subnormal))
        assert_allclose(got.astype(np.float64), expected, rtol=rtol, atol=atol)


COVERED: list[tuple[str, Callable[[Any], bool]]] = [
    ("one element", lambda c: c["q"].size == c["k"].size == 1),
    ("one query", lambda c: c["q"].shape[2] == 1 < c["k"].shape[2] and c["causal"]),
    ("fewer queries, causal", lambda c: 1 < c["q"].shape[2] < c["k"].shape[2] and c["causal"]),
    ("more queries, causal", lambda c: c["q"].shape[2] > c["k"].shape[2] > 0 and c["causal"]),
    ("as many, causal", lambda c: c["q"].shape[2] == c["k"].shape[2] > 1 and c["causal"] and c["mask"] is None),
    ("no key", lambda c: c["k"].shape[2] == 0),
    ("no query", lambda c: c["q"].shape[2] == 0),
    ("no batch", lambda c: c["q"].shape[0] == 0),
    ("two heads a key head", lambda c: c["q"].shape[1] == 2 * c["k"].shape[1] > 0),
    ("four heads a key head", lambda c: c["q"].shape[1] == 4 * c["k"].shape[1] > 0),
    ("narrower values", lambda c: 0 < c["v"].shape[3] < c["k"].shape[3] or c["v"].shape[3] == 0),
    ("wider values", lambda c: c["v"].shape[3] > c["k"].shape[3]),
    ("mask of four axes", lambda c: c["mask"] is not None and c["mask"].ndim == 4),
    ("mask of no axis", lambda c: c["mask"] is not None and c["mask"].ndim == 0),
    ("boolean mask, causal", lambda c: c["mask"] is not None and c["mask"].dtype == bool and c["causal"]),
    ("additive mask, causal", lambda c: c["mask"] is not None and c["mask"].dtype != bool and c["causal"]),
    ("additive mask with -inf", lambda c: c["mask"] is not None and bool(np.any(c["mask"] == -np.inf))),
    ("a row hidden", lambda c: c["mask"] is not None and c["mask"].ndim == 2 and not np.all(c["mask"].any(1))),
    ("scale", lambda c: c["scale"] is not None and c["scale"] < 0),
    ("transposed", lambda c: not c["q"].flags.c_contiguous),
    ("shared keys", lambda c: 0 in c["k"].strides and c["k"].size > 1),
    ("long", lambda c: c["k"].shape[2] == 137),
]


@pytest.mark.parametrize("holds", [pytest.param(holds, id=name) for name, holds in COVERED])
def test_cases_cover(holds: Callable[[Any], bool]) -> None:
    found = []
    for args, kwargs in cases.attention("float32", np.random.default_rng(0)):
        found.append(signature(attention).bind(*args, **kwargs))
        found[-1].apply_defaults()
    assert any(holds(case.arguments) for case in found)


def test_a_seed_decides_the_cases() -> None:
    first, second = (list(cases.attention("float16", np.random.default_rng(7))) for _ in range(2))
    for (args, kwargs), (args_again, kwargs_again) in zip(first, second, strict=True):
        for mine, theirs in zip((*args, *kwargs.values()), (*args_again, *kwargs_again.values()), strict=True):
            assert_array_equal(mine, theirs)


def test_cases_refuse_other_dtypes() -> None:
    with pytest.raises(ValueError, match=r"dtype must be one of float16, .* got 'int8'"):
        next(cases.attention("int8", np.random.default_rng(0)))


# Formula.


def test_by_hand() -> None:
    # Scores ln 3 and 0 weigh 3/4 and 1/4.
    q = np.array([[[[math.log(3.0), 0.0]]]])
    k = np.array([[[[1.0, 5.0], [0.0, 7.0]]]])
    v = np.array([[[[1.0, 8.0], [5.0, -8.0]]]])
    assert_allclose(attention(q, k, v, scale=1.0), [[[[2.0, 4.0]]]], rtol=1e-15)
    # The scale that is not given is 1 / sqrt(2).
    assert_allclose(attention(q * math.sqrt(2.0), k, v), [[[[2.0, 4.0]]]], rtol=1e-15)
    # ln 3 added to the other score evens them out; hiding one leaves the other.
    assert_allclose(attention(q, k, v, mask=np.array([0.0, math.log(3.0)]), scale=1.0), [[[[3.0, 0.0]]]], atol=1e-14)
    assert_array_equal(attention(q, k, v, mask=np.array([False, True]), scale=1.0), [[[[5.0, -8.0]]]])


def test_causal_by_hand() -> None:
    # Equal scores: each row is the mean of what it sees.
    v = np.array([[[[1.0], [2.0], [6.0]]]])

    def rows(queries: int, keys: int) -> list[float]:
        q, k = (np.zeros((1, 1, count, 1)) for count in (queries, keys))
        return list(attention(q, k, v[:, :, :keys], causal=True).ravel())

    assert_allclose(rows(3, 3), [1.0, 1.5, 3.0])
    assert_allclose(rows(2, 3), [1.5, 3.0])
    assert_allclose(rows(1, 3), [3.0])
    assert_allclose(rows(4, 2), [0.0, 0.0, 1.0, 1.5])


def test_torch_agrees() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = qkv(5, 7, heads=4, kv_heads=4)
    mask = draw(4, 5, 7)
    inputs = [torch.from_numpy(t) for t in (q, k, v)]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    assert_allclose(attention(q, k, v), sdpa(*inputs).numpy(), rtol=1e-13)
    expected = sdpa(*inputs, attn_mask=torch.from_numpy(mask), scale=0.3).numpy()
    assert_allclose(attention(q, k, v, mask=mask, scale=0.3), expected, rtol=1e-12)
    scores = torch.einsum("bhid,bhjd->bhij", *inputs[:2]) / 2.0
    expected = torch.einsum("bhij,bhje->bhie", scores.softmax(-1), inputs[2]).numpy()
    assert_allclose(attention(q, k, v), expected, rtol=1e-13)


# Laws.


@given(seeds, sizes, sizes, st.booleans())
def test_keys_may_be_permuted_with_their_mask(seed: int, queries: int, keys: int, boolean: bool) -> None:
    q, k, v = qkv(queries, keys, seed=seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(keys)
    added = rng.standard_normal((2, 1, queries, keys))
    mask = added < 0.5 if boolean else np.where(added < 1.0, added, -np.inf)
    permuted = attention(q, k[:, :, order], v[:, :, order], mask=mask[..., order])
    assert_allclose(permuted, attention(q, k, v, mask=mask), rtol=1e-12, atol=1e-14)


@given(seeds, sizes, sizes, st.floats(-1e3, 1e3))
def test_constant_values_give_that_constant(seed: int, queries: int, keys: int, value: float) -> None:
    q, k, v = qkv(queries, keys, seed=seed)
    assert_allclose(
        attention(100.0 * q, k, np.full_like(v, value)), np.full((*q.shape[:3], v.shape[3]), value), rtol=1e-14
    )


@given(seeds, sizes, sizes, st.floats(-1e3, 1e3))
def test_a_constant_added_to_all_scores_of_a_row_changes_nothing(
    seed: int, queries: int, keys: int, constant: float
) -> None:
    q, k, v = qkv(queries, keys, seed=seed)
    rows = constant * np.random.default_rng(seed).standard_normal((queries, 1))
    assert_allclose(attention(q, k, v, mask=rows), attention(q, k, v), rtol=1e-8, atol=1e-10)


@given(seeds, sizes, sizes)
def test_causal_is_a_boolean_mask(seed: int, queries: int, keys: int) -> None:
    q, k, v = qkv(queries, keys, seed=seed)
    mask = lower_right(queries, keys)
    assert_array_equal(attention(q, k, v, causal=True), attention(q, k, v, mask=mask))
    other = np.random.default_rng(seed).random((2, 1, queries, keys)) < 0.6
    assert_array_equal(attention(q, k, v, mask=other, causal=True), attention(q, k, v, mask=mask & other))


@given(seeds, sizes, sizes)
def test_a_boolean_mask_is_an_additive_one_of_zero_and_minus_infinity(seed: int, queries: int, keys: int) -> None:
    q, k, v = qkv(queries, keys, seed=seed)
    keep = np.random.default_rng(seed).random((queries, keys)) < 0.5
    added = np.where(keep, 0.0, -np.inf)
    got = attention(q, k, v, mask=keep)
    assert_array_equal(got, attention(q, k, v, mask=added))
    assert not np.any(got[:, :, ~keep.any(1)])


@given(seeds, st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_grouped_heads_are_expanded_ones(seed: int, kv_heads: int, group: int, causal: bool) -> None:
    q, k, v = qkv(3, 4, heads=kv_heads * group, kv_heads=kv_heads, seed=seed)
    expanded = attention(q, k.repeat(group, 1), v.repeat(group, 1), causal=causal)
    assert_array_equal(attention(q, k, v, causal=causal), expanded)


@given(seeds, sizes, sizes)
def test_what_a_mask_hides_could_as_well_be_missing(seed: int, queries: int, keys: int) -> None:
    q, k, v = qkv(queries, keys + 2, seed=seed)
    mask = np.arange(keys + 2) < keys
    assert_allclose(attention(q, k, v, mask=mask), attention(q, k[:, :, :keys], v[:, :, :keys]), rtol=1e-12, atol=1e-15)


# Rows that see nothing, infinities, NaN.


@pytest.mark.parametrize(
    "mask", [np.array(False), np.full((2, 3, 5), False), np.full(5, -np.inf)], ids=lambda m: m.dtype
)
def test_a_hidden_row_is_zero_whatever_it_holds(mask: NDArray[Any]) -> None:
    q, k, v = qkv(3, 5)
    if mask.dtype == bool:  # an additive mask leaves NaN where it is
        q[:], k[:] = np.nan, np.inf
    v[:] = np.inf
    assert not np.any(attention(q, k, v, mask=mask))


def test_nothing_to_see_is_zero() -> None:
    q, k, v = qkv(3, 0)
    for causal in (False, True):
        assert_array_equal(attention(q, k, v, causal=causal), np.zeros((2, 2, 3, 5)))
    q, k, v = qkv(5, 2)
    q[:, :, :3] = np.nan
    got = attention(q, k, v, causal=True)
    assert not np.any(got[:, :, :3])
    assert np.all(got[:, :, 3:] != 0)


def test_scores_of_minus_infinity_have_no_weight_and_alone_see_nothing() -> None:
    q = np.array([[[[np.inf, 0.0]]]])
    k = np.array([[[[-1.0, 0.0], [-2.0, 0.0]]]])
    assert_array_equal(attention(q, k, np.ones((1, 1, 2, 3))), np.zeros((1, 1, 1, 3)))
    # A finite mask does not lift them.
    assert_array_equal(attention(q, k, np.ones((1, 1, 2, 3)), mask=np.array([5.0, 7.0])), np.zeros((1, 1, 1, 3)))


def test_a_score_of_plus_infinity_makes_its_row_nan() -> None:
    q, k, v = qkv(3, 4)
    mask = np.zeros((3, 4))
    mask[1, 2] = np.inf
    got = attention(q, k, v, mask=mask)
    assert np.isnan(got[:, :, 1]).all()
    assert_array_equal(np.isfinite(got).all((0, 1, 3)), [True, False, True])


@pytest.mark.parametrize("place", ["q", "k", "v", "mask"])
def test_nan_reaches_what_depends_on_it(place: str) -> None:
    q, k, v = qkv(3, 4)
    mask = np.zeros((3, 4))
    {"q": q[0, 0, 1], "k": k[0, 0, 1], "v": v[0, 0, 1], "mask": mask[1]}[place][0] = np.nan
    met = np.isnan(attention(q, k, v, mask=mask))
    expected = np.zeros_like(met)
    if place == "v":
        expected[0, 0, :, 0] = True
    elif place == "mask":
        expected[:, :, 1] = True
    else:
        expected[(0, 0, 1) if place == "q" else (0, 0)] = True
    assert_array_equal(met, expected)


def test_a_hidden_key_may_be_nan() -> None:
    q, k, v = qkv(3, 4)
    expected = attention(q, k[:, :, 1:], v[:, :, 1:])
    k[:, :, 0] = np.nan
    assert_allclose(attention(q, k, v, mask=np.arange(4) > 0), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [pytest.param(0.0, 0.5, id="none"), pytest.param(1e-308, 1.0, id="up"), pytest.param(-1e-308, 0.0, id="down")],
)
def test_a_small_scale_keeps_large_products_finite(scale: float, expected: float) -> None:
    q, k, v = np.array([1e200]), np.array([1e200, 0.0]), np.array([1.0, 0.0])
    result = attention(*(array.reshape(1, 1, -1, 1) for array in (q, k, v)), scale=scale)
    assert result.item() == expected


def test_large_scores_and_values_stay_finite() -> None:
    q, k, v = qkv(3, 4)
    q[0, 0, 0] = k[0, 0, 0] = 1e150
    assert np.isfinite(attention(q, k, v)).all()
    assert_allclose(attention(q, k, np.full_like(v, 1.7e308)), np.full((2, 2, 3, 5), 1.7e308))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_results_beyond_the_range_of_q_are_infinite(dtype: str) -> None:
    q, k, v = np.zeros((1, 1, 1, 1), dtype), np.zeros((1, 1, 2, 1)), np.full((1, 1, 2, 1), 1e300)
    assert attention(q, k, v).item() == (1e300 if dtype == "float64" else math.inf)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_narrow_answers_are_rounded_once(dtype: str) -> None:
    q, k, v = (t.astype(dtype) for t in qkv(5, 7))
    wide = attention(*(t.astype(np.float64) for t in (q, k, v)))
    assert_array_equal(attention(q, k, v), wide.astype(dtype))


def test_the_dtype_is_qs() -> None:
    q, k, v = qkv(3, 4)
    for dtype in ("float16", "float32", "float64"):
        assert attention(q.astype(dtype), k.astype(np.float16), v).dtype == dtype


# Blocks, layouts, arguments.


@pytest.mark.parametrize("scores", [1, 5, 12, 20])
def test_blocks_of_queries_are_the_whole(monkeypatch: pytest.MonkeyPatch, scores: int) -> None:
    q, k, v = qkv(6, 5)
    mask = draw(2, 1, 6, 5)
    whole = [attention(q, k, v, mask=mask, causal=causal) for causal in (False, True)]
    monkeypatch.setattr(module, "_SCORES", scores)
    for causal in (False, True):
        assert_allclose(attention(q, k, v, mask=mask, causal=causal), whole[causal], rtol=1e-12)


def test_memory_does_not_grow_with_the_scores() -> None:
    q, k, v = (draw(1, 2, 4096, 4, seed=seed, dtype="float16") for seed in range(3))
    tracemalloc.start()
    try:
        attention(q, k, v, mask=np.ones(4096, bool), causal=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**26 < 4096 * 4096 * 8


@pytest.mark.parametrize("layout", ["transposed", "reversed", "strided", "shared", "fortran"])
def test_layouts_do_not_matter(layout: str) -> None:
    whole = [draw(2, 2, 6, 4, seed=seed) for seed in range(3)]
    match layout:
        case "transposed":
            arrays = [t.swapaxes(1, 2).copy().swapaxes(1, 2) for t in whole]
        case "reversed":
            arrays = [t[:, :, ::-1] for t in whole]
        case "strided":
            arrays = [t[:, :, ::2, 1::2] for t in whole]
        case "shared":
            arrays = [whole[0], *(np.broadcast_to(t[:1, :1], t.shape) for t in whole[1:])]
        case _:
            arrays = [np.asfortranarray(t) for t in whole]
    assert not all(t.flags.c_contiguous for t in arrays)
    assert_allclose(attention(*arrays), attention(*(t.copy() for t in arrays)), rtol=1e-13, atol=1e-15)


def test_arguments_are_left_alone_and_shared_with_nothing() -> None:
    arrays = [*qkv(3, 4), draw(3, 4)]
    before = [t.copy() for t in arrays]
    result = attention(*arrays[:3], mask=arrays[3], causal=True)
    result[:] = 0.0
    for mine, old in zip(arrays, before, strict=True):
        assert_array_equal(mine, old)


# Errors.


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        pytest.param({"q": [1.0]}, TypeError, "q must be a numpy array, got list", id="list"),
        pytest.param({"k": draw(2, 2, 4, 4).astype(int)}, TypeError, "k must be float16, .* got int64", id="integers"),
        pytest.param(
            {"mask": np.ones(4, int)}, TypeError, r"mask must be boolean \(True keeps\), .* got int64", id="mask"
        ),
        pytest.param({"v": draw(2, 4, 4)}, ValueError, "need four axes", id="three axes"),
        pytest.param({"q": draw(3, 2, 3, 4)}, ValueError, "the same batch", id="batch"),
        pytest.param({"v": draw(2, 2, 5, 4)}, ValueError, "agree in heads and positions", id="positions"),
        pytest.param({"v": draw(2, 1, 4, 4)}, ValueError, "agree in heads and positions", id="heads of values"),
        pytest.param({"q": draw(2, 2, 3, 5)}, ValueError, "as many elements", id="elements"),
        pytest.param({"q": draw(2, 2, 3, 0), "k": draw(2, 2, 4, 0)}, ValueError, "at least one", id="no element"),
        pytest.param({"q": draw(2, 3, 3, 4)}, ValueError, "must be a multiple", id="heads"),
        pytest.param(
            {"k": draw(2, 0, 4, 4), "v": draw(2, 0, 4, 4)}, ValueError, "must be a multiple", id="no head of keys"
        ),
        pytest.param({"mask": draw(3, 5)}, ValueError, r"\(2, 2, 3, 4\), got \(3, 5\)", id="mask of another shape"),
        pytest.param({"mask": draw(1, 2, 2, 3, 4)}, ValueError, "mask must broadcast", id="mask of five axes"),
        pytest.param({"mask": draw(2, 1, 2, 2, 3, 4)[0]}, ValueError, "mask must broadcast", id="mask that widens"),
        pytest.param({"scale": math.nan}, ValueError, "scale must be finite, got nan", id="scale"),
        pytest.param({"scale": math.inf}, ValueError, "scale must be finite, got inf", id="infinite scale"),
    ],
)
def test_refusals(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"q": draw(2, 2, 3, 4), "k": draw(2, 2, 4, 4), "v": draw(2, 2, 4, 4), **changes}
    with pytest.raises(error, match=message):
        attention(**given)
