"""The oracle's norms: against torch, high precision and each other, at the ends of the range too."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal

from catalogue import parity_cases, to_torch
from rung_backends.reference.floats import deviation
from rung_backends.reference.norm import group_norm, layer_norm, modulate, rms_norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LARGEST, TINIEST = float(np.finfo("float64").max), float(np.finfo("float64").smallest_subnormal)
# Multiples of 1/64 up to 1e4: exact in float64 however they are scaled, and none so near another that it matters.
elements = st.integers(-640_000, 640_000).map(lambda n: n / 64)
tables = arrays("float64", array_shapes(min_dims=2, max_dims=2, max_side=6), elements=elements)
exponents = st.integers(-300, 300)


def normal(*shape: int, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape)


def exact_rows(x: NDArray[Any], eps: float, *, centre: bool) -> NDArray[Any]:
    """Normalise rows of a table in two hundred digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(200):
        result = []
        for row in x.tolist():
            values = [mpmath.mpf(v) for v in row]
            mean = mpmath.fsum(values) / len(values) if centre else 0
            square = mpmath.fsum((v - mean) ** 2 for v in values) / len(values)
            result.append([float((v - mean) / mpmath.sqrt(square + mpmath.mpf(eps))) for v in values])
        return np.array(result)


# Against others.


@pytest.mark.parametrize("op", ["rms_norm", "layer_norm"])
def test_torchs_answer(op: str) -> None:
    functional = pytest.importorskip("torch").nn.functional
    reference = {"rms_norm": rms_norm, "layer_norm": layer_norm}[op]
    for args, kwargs in parity_cases(op):
        named = dict(zip(("weight", "bias"), args[1:], strict=False)) | {"eps": 1e-6 if op == "rms_norm" else 1e-5}
        named = {name: to_torch(value) for name, value in (named | kwargs).items()}
        expected = getattr(functional, op)(to_torch(args[0]), args[0].shape[-1:], **named)
        assert_allclose(reference(*args, **kwargs), expected.numpy(), rtol=1e-14, atol=3e-14)


def test_torchs_answer_for_groups() -> None:
    functional = pytest.importorskip("torch").nn.functional
    for (x, groups, *vectors), kwargs in parity_cases("group_norm"):
        if x.size and not np.ptp(x.reshape(x.shape[0] * groups, -1), -1).all():
            continue  # of equal elements torch leaves something, and one alone it takes for a mistake
        plain = np.ascontiguousarray(x)
        named = {name: to_torch(value) for name, value in kwargs.items()}
        expected = functional.group_norm(to_torch(plain), groups, *map(to_torch, vectors), **named)
        assert_allclose(group_norm(x, groups, *vectors, **kwargs), expected.numpy(), rtol=1e-14, atol=3e-14)


ROWS = [
    pytest.param(normal(3, 7), 1e-6, id="ordinary"),
    pytest.param(normal(3, 7), 0.0, id="no eps"),
    pytest.param(normal(3, 7) + 1e9, 1e-6, id="small deviation beside a large mean"),
    pytest.param(normal(3, 7) * 1e-3, 1e-6, id="about eps"),
    pytest.param(normal(3, 7) * 1e200, 1e-6, id="large"),
    pytest.param(normal(3, 7) * 1e-200, 0.0, id="small"),
    pytest.param(normal(3, 7) * 1e-200, 1e-6, id="small beside eps"),
    pytest.param(normal(3, 7) * 1e-200, 1e-320, id="small beside the smallest eps"),
    pytest.param(normal(3, 7) * 1e200, 1e308, id="large with the largest eps"),
    pytest.param(np.array([[LARGEST, -LARGEST, -LARGEST], [LARGEST, 0.0, 1.0]]), 1e-6, id="largest"),
    pytest.param(np.array([[TINIEST, 0.0, -TINIEST], [3 * TINIEST, TINIEST, 0.0]]), 0.0, id="smallest"),
    pytest.param(np.array([[TINIEST, 0.0, -TINIEST]]), 1e-6, id="smallest with eps"),
    pytest.param(np.array([[LARGEST, TINIEST, -1.0], [1e200, 1e-200, 1.0]]), 1e-6, id="both ends in a row"),
    pytest.param(np.array([[1e20, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 1e20]]), 1e-6, id="one far away"),
]


@pytest.mark.parametrize("centre", [False, True], ids=["rms", "layer"])
@pytest.mark.parametrize(("x", "eps"), ROWS)
def test_answer_in_two_hundred_digits(x: NDArray[Any], eps: float, centre: bool) -> None:
    norm: Callable[..., Any] = layer_norm if centre else rms_norm
    assert_allclose(norm(x, eps=eps), exact_rows(x, eps, centre=centre), rtol=2e-15, atol=1e-15)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e300, LARGEST, 1e-300, TINIEST], ids=str)
@pytest.mark.parametrize("count", [1, 3, 7, 100])
def test_equal_elements_have_no_deviation(value: float, count: int) -> None:
    row = np.full((1, count), value)
    assert_array_equal(deviation(row), [[0.0]])
    for eps in (1e-5, TINIEST):
        assert_array_equal(layer_norm(row, eps=eps), np.zeros((1, count)))


@pytest.mark.parametrize("scale", [1.0, 1e300, 1e-300], ids=str)
def test_deviation_is_numpys(scale: float) -> None:
    x = normal(4, 9)
    assert_allclose(deviation(x * scale), np.std(x, axis=-1, keepdims=True) * scale, rtol=1e-15)


def test_a_million_elements() -> None:
    functional = pytest.importorskip("torch").nn.functional
    x = normal(1, 1_000_000) + 100.0
    tensor = to_torch(x)
    assert_allclose(layer_norm(x), functional.layer_norm(tensor, x.shape[-1:]).numpy(), rtol=0, atol=1e-12)
    assert_allclose(rms_norm(x), functional.rms_norm(tensor, x.shape[-1:], eps=1e-6).numpy(), rtol=1e-13)
    groups = group_norm(x.reshape(10, 100, 1000), 5)
    expected = functional.group_norm(tensor.reshape(10, 100, 1000), 5)
    assert_allclose(groups, expected.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("place", [0, 7, -1], ids=["first", "inside", "last"])
@pytest.mark.parametrize("rest", ["equal", "normal"])
def test_one_element_far_away_costs_the_others_no_digits(rest: str, place: int) -> None:
    count = 100_000
    x = np.full(count, 1.1) if rest == "equal" else normal(count)
    x[place] = 1e8
    mean = Fraction(math.fsum(x)) / count  # of a correctly rounded sum, which is off by 2**-27 of an element at most
    centred = np.array([float(Fraction(value) - mean) for value in x.tolist()])
    expected = centred / math.sqrt(math.fsum(np.square(centred)) / count + 1e-5)
    assert_allclose(layer_norm(x), expected, rtol=1e-14, atol=0)
    assert_allclose(group_norm(x.reshape(1, 4, -1), 1).ravel(), expected, rtol=1e-14, atol=0)
    assert_allclose(deviation(x[None]), [[np.sqrt(math.fsum(np.square(centred)) / count)]], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_narrow_answers_are_rounded_once(dtype: str) -> None:
    x, weight, bias = normal(5, 9).astype(dtype), normal(9, seed=1).astype(dtype), normal(9, seed=2).astype(dtype)
    rows = exact_rows(x.astype("float64"), 1e-5, centre=True)
    expected = rows * weight.astype("float64") + bias.astype("float64")
    assert_array_equal(layer_norm(x, weight, bias), expected.astype(dtype))


def test_what_is_beyond_the_dtype_is_infinite() -> None:
    x, weight = np.array([1.0, -1.0], "float16"), np.array([6e4, 6e4], "float16")
    assert_array_equal(rms_norm(x, np.array([1e5, 1e5], "float32")), [np.inf, -np.inf])
    assert_array_equal(modulate(weight, x, np.array([1.0, -2.0], "float16")), [np.inf, -6e4])


def test_a_sum_does_not_depend_on_where_its_elements_lie() -> None:
    x = normal(64, 48, 33)
    turned = np.ascontiguousarray(x.transpose(2, 1, 0)).transpose(2, 1, 0)
    for norm in (rms_norm, layer_norm):
        assert norm(turned).tobytes() == norm(x).tobytes()
    assert group_norm(turned, 3).tobytes() == group_norm(x, 3).tobytes()


# Laws.


@given(tables, exponents)
def test_without_eps_the_scale_of_a_row_does_not_matter(x: NDArray[Any], exponent: int) -> None:
    assume(x.any(axis=-1).all())
    assert_array_equal(rms_norm(np.ldexp(x, exponent), eps=0.0), rms_norm(x, eps=0.0))
    assert_allclose(rms_norm(-3.0 * x, eps=0.0), -rms_norm(x, eps=0.0), rtol=1e-15, atol=0)


@given(tables)
def test_rows_have_root_mean_square_one(x: NDArray[Any]) -> None:
    assume(x.any(axis=-1).all())
    assert_allclose(np.mean(np.square(rms_norm(x, eps=0.0)), axis=-1), 1.0, rtol=1e-14)


@given(tables, elements)
def test_rows_have_mean_zero_and_deviation_one(x: NDArray[Any], offset: float) -> None:
    assume((np.ptp(x, axis=-1) > 0).all())
    normed = layer_norm(x, eps=0.0)
    assert_allclose(np.mean(normed, axis=-1), 0.0, atol=1e-14)
    assert_allclose(np.std(normed, axis=-1), 1.0, rtol=1e-14)
    assert_allclose(layer_norm(x + offset, eps=0.0), normed, rtol=1e-12, atol=1e-14)


@given(tables, st.floats(0.0, 10.0))
def test_a_layer_norm_is_the_rms_norm_of_centred_rows(x: NDArray[Any], eps: float) -> None:
    assume(eps > 1e-6)
    centred = x - np.mean(x, axis=-1, keepdims=True)
    assert_allclose(layer_norm(x, eps=eps), rms_norm(centred, eps=eps), rtol=0, atol=1e-8)


@given(tables)
def test_one_group_of_a_table_is_a_layer_norm(x: NDArray[Any]) -> None:
    assert_array_equal(group_norm(x, 1), layer_norm(x))
    assert_array_equal(group_norm(x[:, :, None], 1)[..., 0], layer_norm(x))


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
def test_groups_do_not_meet(batch: int, groups: int, size: int, places: int) -> None:
    x = normal(batch, groups * size, places)
    together = group_norm(x, groups)
    for n in range(batch):
        for g in range(groups):
            part = slice(g * size, (g + 1) * size)
            alone = layer_norm(x[n, part].reshape(-1)).reshape(size, places)
            assert_allclose(together[n, part], alone, rtol=1e-14, atol=1e-14)


@given(tables)
def test_zeros_modulate_nothing(x: NDArray[Any]) -> None:
    zeros = np.zeros(x.shape[1])
    assert_array_equal(modulate(x, zeros, zeros), x)
    assert_array_equal(modulate(x, x, zeros - 1.0), x)


@given(st.integers(0, 3), st.integers(0, 3))
def test_whatever_broadcasts_modulates(first: int, second: int) -> None:
    shapes = [(2, 3, 4), (2, 1, 4), (3, 1), (1,)]
    x, shift, scale = normal(2, 3, 4), normal(*shapes[first], seed=1), normal(*shapes[second], seed=2)
    expected = [a * (1 + b) + c for a, b, c in np.broadcast(x, scale, shift)]
    assert_array_equal(modulate(x, shift, scale).ravel(), expected)


@pytest.mark.parametrize("norm", [rms_norm, layer_norm, lambda x: group_norm(x, 1)], ids=["rms", "layer", "group"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3)], ids=str)
def test_nothing_in_nothing_out(norm: Callable[..., Any], shape: tuple[int, ...]) -> None:
    assert norm(np.empty(shape)).shape == shape


def test_one_element_is_its_sign() -> None:
    x = np.array([[2.5], [-math.pi]])
    assert_array_equal(rms_norm(x, eps=0.0), [[1.0], [-1.0]])
    assert_array_equal(layer_norm(x), [[0.0], [0.0]])
