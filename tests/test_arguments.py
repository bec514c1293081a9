"""What cells accept: examples of arguments, the places in them, and why a call does not fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import rung
from rung.arguments import UNSAID, Example, Unfit, example, given, observe, parameters, refusal, unfit
from rung.diagnostics import Where
from rung.entries import Cell, Condition, Op

ATTENTION = Op(
    "attention", "Attention.",
    "(q: array, k: array, /, v: array, *, mask: array | None = None, causal: bool = False, scale: float = -1.5)"
    " -> tuple[array, ...]",
    "acme.k:f", Where("ops.yaml", 1, 1),
)  # fmt: skip


def accepting(*conditions: Condition) -> Cell:
    place = Where("acme.yaml", 1, 1)
    return Cell("acme/attention@cpu.numpy#default", "acme", "attention", "cpu", "numpy", "default", "numpy",
                "acme.k:g", "python", place, accepts=conditions)  # fmt: skip


def test_parameters_are_read_from_the_stub() -> None:
    found = [(p.name, p.kind, p.default, p.is_optional, p.is_array) for p in parameters(ATTENTION.signature)]
    assert found == [
        ("q", "position", UNSAID, False, True),
        ("k", "position", UNSAID, False, True),
        ("v", "either", UNSAID, False, True),
        ("mask", "keyword", None, True, True),
        ("causal", "keyword", False, False, False),
        ("scale", "keyword", -1.5, False, False),
    ]


TYPED = Op(
    "mix", "A mix.",
    "(x: array, y: array | float | None = None, *, flag: bool = False, n: int = 1, s: float = 1.0, mode: str = 'none',"
    " or_none: str | None = None) -> array",
    "acme.k:f", Where("ops.yaml", 1, 1),
)  # fmt: skip
PARAMETERS = {p.name: p for p in parameters(TYPED.signature)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("x", "bfloat16[2,8,128,64]", Example("bfloat16", (2, 8, 128, 64))),
        ("x", "float32[]", Example("float32", ())),
        ("x", "float32[0, 3]", Example("float32", (0, 3))),
        ("x", "int64[4]:strided", Example("int64", (4,), contiguous=False)),
        ("x", "float16[4,4]:last:grad", Example("float16", (4, 4), contiguous="last", grad=True)),
        ("y", "none", None),
        ("y", "-0.5", -0.5),
        ("y", "float32[2]", Example("float32", (2,))),
        ("flag", "true", True),
        ("flag", "false", False),
        ("n", "8", 8),
        ("s", "2", 2.0),
        ("s", "inf", float("inf")),
        ("mode", "tanh", "tanh"),
        ("mode", "none", "none"),
        ("mode", "true", "true"),
        ("mode", "1", "1"),
        ("mode", "a[b]", "a[b]"),
        ("or_none", "none", None),
    ],
)
def test_an_example_is_read_by_the_types_of_its_parameter(name: str, text: str, value: object) -> None:
    found = example(text, PARAMETERS[name])
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, Example):
        assert example(str(value), PARAMETERS[name]) == value


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("x", "bf16[2]", "`bf16[2]` has no dtype: did you mean `bfloat16`?"),
        ("x", "float32", "`float32` is no example of `x`: write an array such as `bfloat16[2,8,128,64]`"),
        ("x", "float32[2", "is no example of `x`"),
        ("x", "float32[-1]", "is no example of `x`"),
        ("x", "float32[2x3]", "is no example of `x`"),
        ("x", "float32[2]:fast", "is no example of `x`"),
        ("x", "float32[2] strided", "is no example of `x`"),
        ("x", "none", "`none` has no dtype"),
        ("flag", "yes", "`yes` is no example of `flag`, which is true or false"),
        ("n", "0.5", "`0.5` is no example of `n`, which is a whole number"),
        ("y", "fast", "`fast` is no example of `y`, which is an array such as"),
    ],
)
def test_what_is_no_example_is_said(name: str, text: str, fault: str) -> None:
    with pytest.raises(rung.RungError) as error:
        example(text, PARAMETERS[name])
    assert fault in str(error.value)


def test_a_call_is_bound_as_python_binds_it() -> None:
    assert given(ATTENTION, (1, 2, 3), {"causal": True}) == {
        "q": 1, "k": 2, "v": 3, "mask": None, "causal": True, "scale": -1.5,
    }  # fmt: skip
    assert given(ATTENTION, (), {"q": 1}, partly=True)["k"] is UNSAID


@pytest.mark.parametrize(
    ("args", "kwargs", "fault"),
    [
        ((1, 2), {}, "attention needs `v`"),
        ((1, 2, 3, 4), {}, "takes 3 positional arguments, and 4 are given"),
        ((1, 2, 3), {"v": 1}, "attention got `v` twice"),
        ((1, 2, 3), {"casual": True}, "has no argument `casual`: did you mean `causal`?"),
        ((1,), {"k": 1, "v": 2}, "has no argument `k`"),
    ],
    ids=["missing", "too many", "twice", "misspelt", "by position alone"],
)
def test_a_call_that_the_signature_does_not_allow(args: tuple[int, ...], kwargs: dict[str, Any], fault: str) -> None:
    with pytest.raises(TypeError) as error:
        given(ATTENTION, args, kwargs)
    assert fault in str(error.value)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch says that these are new
    SPARSE = torch.eye(2).to_sparse_csr()
GRAD = torch.zeros(2, 3, requires_grad=True)
VALUES = {
    "n": np.zeros((2, 3, 4), "f2"),
    "t": torch.zeros(2, 3, dtype=torch.bfloat16),
    "tt": torch.zeros(3, 2).T,
    "nt": np.zeros((4, 6), "f4")[:, ::2],
    "rows": np.zeros((4, 6), "f4")[::2],
    "column": torch.zeros(4, 1)[:, :1],
    "scalar": np.float32(1.0),
    "zero": torch.zeros(()),
    "grad": GRAD,
    "e": Example("float8_e5m2", (7, 9), contiguous="last"),
    "none": None,
    "sparse": SPARSE,
    "empty": np.zeros((0, 4)),
    "list": [1, 2],
    "causal": True,
}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("n.dtype", "float16"),
        ("t.dtype", "bfloat16"),
        ("e.dtype", "float8_e5m2"),
        ("n.rank", 3),
        ("zero.rank", 0),
        ("n.shape[-1]", 4),
        ("t.shape[0]", 2),
        ("n.size", 24),
        ("zero.size", 1),
        ("n.contiguous", True),
        ("tt.contiguous", False),
        ("nt.contiguous", False),
        ("rows.contiguous", "last"),
        ("column.contiguous", True),
        ("sparse.contiguous", Unfit("`sparse` is a Tensor that cannot be asked for it (RuntimeError)")),
        ("empty.contiguous", True),
        ("list.grad", False),
        ("e.contiguous", "last"),
        ("grad.grad", True),
        ("t.grad", False),
        ("n.grad", False),
        ("causal", True),
        ("none.dtype", None),
        ("nowhere.dtype", UNSAID),
    ],
)
def test_what_is_at_a_place(place: str, value: object) -> None:
    assert observe(place, VALUES) == value


def test_a_gradient_counts_where_one_is_recorded() -> None:
    with torch.no_grad():
        assert observe("grad.grad", VALUES) is False


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (Condition("n.dtype", "in", ("float16", "bfloat16")), ""),
        (Condition("n.dtype", "in", ("float32",)), "`n.dtype` is float16, not float32"),
        (Condition("t.dtype", "in", ("float16", "float32")), "`t.dtype` is bfloat16, not float16 or float32"),
        (Condition("n.dtype", "equals", "t.dtype"), "`n.dtype` is float16, not bfloat16 (`t.dtype`)"),
        (Condition("n.rank", "min", 4), "`n.rank` is 3, less than 4"),
        (Condition("n.shape[-1]", "max", 3), "`n.shape[-1]` is 4, more than 3"),
        (Condition("n.shape[-1]", "multiple_of", 8), "`n.shape[-1]` is 4, no multiple of 8"),
        (Condition("n.shape[-1]", "multiple_of", "t.shape[0]"), ""),
        (Condition("n.shape[0]", "equals", "t.shape[1]"), "`n.shape[0]` is 2, not 3 (`t.shape[1]`)"),
        (Condition("n.shape[3]", "in", (4,)), "`n` has 3 axes: no `n.shape[3]`"),
        (Condition("n.shape[0]", "equals", "t.shape[2]"), "`t` has 2 axes: no `t.shape[2]`"),
        (Condition("n.shape[0]", "multiple_of", "unsaid.size"), None),
        (Condition("n.shape[0]", "multiple_of", "empty.size"), "`n.shape[0]` is 2, no multiple of 0 (`empty.size`)"),
        (Condition("none", "max", 1.0), ""),
        (Condition("none", "in", ("tanh",)), ""),
        (Condition("n", "min", 0.0), "`n` is a ndarray, less than 0.0"),
        (Condition("list.dtype", "in", ("float32",)), "`list` is a list, no array: no `list.dtype`"),
        (Condition("none", "is", "none"), ""),
        (Condition("none", "is", "given"), "`none` is none, and must be given"),
        (Condition("n", "is", "none"), "`n` is given, and must be none"),
        (Condition("none.dtype", "in", ("bool",)), ""),
        (Condition("n.rank", "equals", "none.rank"), ""),
        (Condition("causal", "in", (False,)), "`causal` is true, not false"),
        (Condition("nt.contiguous", "in", (True,)), "`nt.contiguous` is false, not true"),
        (Condition("rows.contiguous", "in", ("last",)), ""),
        (Condition("n.contiguous", "in", ("last",)), ""),
        (Condition("nt.contiguous", "in", ("last",)), "`nt.contiguous` is false, not last"),
        (Condition("grad.grad", "in", (False,)), "`grad.grad` is true, not false"),
        (Condition("nowhere.rank", "in", (1,)), None),
        (Condition("list", "min", 3), "`list` is a list, less than 3"),
    ],
    ids=str,
)
def test_why_a_condition_does_not_hold(condition: Condition, why: str | None) -> None:
    assert unfit(condition, VALUES) == why


def test_zero_is_a_multiple_of_zero_alone() -> None:
    assert unfit(Condition("a", "multiple_of", 0), {"a": 0}) == ""
    assert unfit(Condition("a", "multiple_of", 0), {"a": 4}) == "`a` is 4, no multiple of 0"


def test_a_cell_refuses_a_call_with_the_first_reason() -> None:
    cell = accepting(Condition("mask", "is", "none"), Condition("q.dtype", "in", ("float32",)))
    q = np.zeros(3, "f8")
    assert refusal(ATTENTION, cell, (q, q, q), {"mask": q}) == "`mask` is given, and must be none"
    assert refusal(ATTENTION, cell, (q, q, q), {}) == "`q.dtype` is float64, not float32"
    assert refusal(ATTENTION, cell, (q.astype("f4"), q, q), {}) == ""
    assert refusal(ATTENTION, accepting(), (), {}) == ""
