"""Gradients: what autograd gives for a kernel's call, against numeric differentiation of the reference.

Owns the formula, its error bound, and the comparison of one case. Chooses no case and no tolerance.

Note [Numeric gradients]: for a result r(x) and a fixed cotangent w, drawn from the standard normal distribution, the
gradient of L(x) = sum(w * r(x)) is differentiated element by element, in float64:

    D(h) = (L(x + h e) - L(x - h e)) / (2 h)           central differences, error O(h^2)
    R(h) = (4 D(h/2) - D(h)) / 3                       Richardson (1911), error O(h^4)
    G    = (16 R(h/2) - R(h)) / 15                     once more, error O(h^6)

with h = max(1, |x|) / 2^8, and where that is not good enough 2^12 and 2^16. The bound of G's error is
|R(h/2) - R(h)|, what the last but one extrapolation changed, and 8 u S / (h/4) for rounding, where u = 2^-52 and
S = sum(|w r|). Of the three steps the first whose bound is below 1e-9 of max(|G|, S) serves, else the one with the
least bound.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rung.bridge import library_of, to_numpy
from rung.parity.calls import named, rebuilt
from rung.parity.compare import Comparison, compare_arrays, misplaced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from rung.entries import Op
    from rung.parity.calls import Call

    Array = np.ndarray[Any, Any]

__all__ = ["MOST", "arguments_of", "compare_gradients", "numeric_gradient"]

MOST: Final = 64
"""The elements that are differentiated in a case: one whose arguments have more in total is left out."""
_STEPS: Final = (8, 12, 16)
_ROUNDINGS: Final = 32
"""How many roundings of its largest element a gradient may be off by."""


def arguments_of(op: Op, call: Call) -> list[str]:
    """Give the names of the arguments of a call that gradients are compared of: floating arrays that are there."""
    values = named(op, call)
    return [
        name for name in op.differentiable if library_of(values.get(name)) == "numpy" and values[name].dtype.kind == "f"
    ]


def numeric_gradient(
    function: Callable[[Array], Sequence[Array]], point: Array, weights: Sequence[Array]
) -> tuple[Array, Array]:
    """Differentiate L(x) = sum(w * r) over the results r of `function` at the float64 array `point`.

    Give the gradient and a bound of its error, both of the point's shape and float64; see Note [Numeric gradients].
    `function` is called with an array that changes between calls.
    """
    import numpy as np

    moved = np.array(point, np.float64)
    gradient, bound = np.zeros(moved.shape), np.full(moved.shape, math.inf)

    def slope(index: tuple[int, ...], step: float) -> tuple[float, float]:
        """Give the central difference, and sum(|w r|)."""
        middle = moved[index]
        moved[index] = right = middle + step
        above = function(moved)
        moved[index] = left = middle - step
        below = function(moved)
        moved[index] = middle
        rise = size = 0.0
        for weight, high, low in zip(weights, above, below, strict=True):
            moves = ~((high == low) | (np.isnan(high) & np.isnan(low)))
            rise += float(np.sum(weight[moves] * (high[moves] - low[moves])))
            finite = np.isfinite(high) & np.isfinite(low)
            size += float(np.sum(np.abs(weight[finite]) * np.maximum(np.abs(high[finite]), np.abs(low[finite]))))
        return rise / float(right - left), size

    with np.errstate(all="ignore"):
        for index in np.ndindex(moved.shape):
            for power in _STEPS:
                step = math.ldexp(max(1.0, abs(float(moved[index]))), -power)
                (first, size), (second, _), (third, _) = (slope(index, step * part) for part in (1.0, 0.5, 0.25))
                once, again = (4.0 * second - first) / 3.0, (4.0 * third - second) / 3.0
                found = (16.0 * again - once) / 15.0
                error = abs(again - once) + 8.0 * 2.0**-52 * size / (0.25 * step)
                if not error >= bound[index]:
                    gradient[index], bound[index] = found, error
                if error <= 1e-9 * max(abs(found), size):
                    break
    return gradient, bound


def compare_gradients(
    op: Op,
    call: Call,
    dtype: str,
    made: Any,
    leaves: Mapping[str, Any],
    reference: Callable[..., Any],
    seed: Sequence[int],
) -> Comparison:
    """Compare the gradients autograd gives for the `leaves` of a call's results `made` with the reference's.

    `leaves` are tensors that require grad, by the name of the argument. The tolerance is the op's for `dtype`, and
    never below the bound of the numeric gradient, nor below what some roundings in `dtype` make of the gradient's
    largest element, for what is small in it is often left of what cancelled. `seed` draws the cotangent.
    """
    import numpy as np
    import torch

    point = {name: _wide(op, name, value) for name, value in named(op, call).items()}

    def results(**moved: Array) -> list[Array]:
        args, kwargs = rebuilt(call, point | moved)
        with np.errstate(all="ignore"):
            return [np.asarray(result) for result in _each(reference(*args, **kwargs))]

    tensors = _each(made)
    for tensor in tensors:
        if fault := misplaced(tensor, "torch"):
            return Comparison(math.inf, math.inf, fault)
    expected = results()
    if [tuple(getattr(tensor, "shape", ())) for tensor in tensors] != [result.shape for result in expected]:
        return Comparison(math.inf, math.inf, "the results have other shapes than the reference's")
    rng = np.random.default_rng(seed)
    drawn = [np.asarray(rng.standard_normal(result.shape), dtype) for result in expected]
    floating = [i for i, result in enumerate(expected) if result.dtype.kind == "f"]
    recorded = [i for i in floating if tensors[i].requires_grad]
    found: Sequence[Any] = [None] * len(leaves)
    if recorded:
        cotangents = [torch.from_numpy(drawn[i]).to(tensors[i].device, tensors[i].dtype) for i in recorded]
        outputs = [tensors[i] for i in recorded]
        found = torch.autograd.grad(outputs, [*leaves.values()], cotangents, allow_unused=True)
    weights = [drawn[i].astype(np.float64) for i in floating]
    worst = Comparison()
    for name, gradient in zip(leaves, found, strict=True):

        def moved(value: Array, name: str = name) -> list[Array]:
            every = results(**{name: value})
            return [every[i] for i in floating]

        numeric, bound = numeric_gradient(moved, point[name], weights)
        rounding = _ROUNDINGS * np.finfo(dtype).eps * np.abs(numeric[np.isfinite(numeric)]).max(initial=0.0)
        mine = np.zeros(numeric.shape, dtype) if gradient is None else to_numpy(gradient.detach())
        one = compare_arrays(mine, numeric, dtype, op.tolerance[dtype], against="numeric differentiation",
                             slack=np.maximum(bound, rounding))  # fmt: skip
        fault = one.fault and f"gradient of `{name}`: {one.fault}"
        if fault and not recorded:
            result = "the result does" if len(tensors) == 1 else "the results do"
            fault = f"{result} not require grad, though `{name}` does: the kernel cuts the graph ({fault})"
        elif fault and gradient is None:
            fault = f"no gradient reaches `{name}`: the kernel cuts the graph ({fault})"
        elif fault and len(recorded) < len(floating):
            cut = ", ".join(str(i) for i in floating if i not in recorded)
            fault = f"{fault}; of the results, {cut} does not require grad"
        worst = worst.also(replace(one, fault=fault))
    return replace(worst, elements=sum(weight.size for weight in weights))


def _wide(op: Op, name: str, value: Any) -> Any:
    """Give an argument as the reference is differentiated with: a floating array in float64, or its own dtype."""
    import numpy as np

    if library_of(value) != "numpy" or value.dtype.kind != "f":
        return value
    return value if name in op.dtypes and name not in op.differentiable else value.astype(np.float64)


def _each(results: Any) -> list[Any]:
    return [*results] if isinstance(results, tuple) else [results]
