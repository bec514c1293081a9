"""How far a result is from the reference's, and in words which element is furthest.

Owns the four kinds of tolerance, what a unit in the last place is in each dtype, and the wording. Compares arrays of
numbers that somebody else has computed: knows no op, no cell and no case.

Note [What a tolerance allows]: an array fits when each of its elements does, r the result's and e the reference's.

- `exact` (a tolerance that says nothing): r = e, where -0.0 = 0.0.
- `ulp: n`: |r - e| <= n ulp(e), ulp(e) being the distance from |e| to the next larger value of the dtype.
- `rtol`, `atol`: |r - e| <= atol + rtol |e|.
- `cosine: c`, of the arrays as vectors: r.e / (|r| |e|) >= c, and ||r| / |e| - 1| <= sqrt(1 - c^2), for a vector may be
  as much too long as c lets it lie aside. A zero vector fits a zero vector only; all elements must be finite.

NaN fits NaN and an infinity itself, and both nothing else, except under `cosine`. For `exact` and `ulp` the reference
is rounded to the dtype first, to nearest and ties to even, for it may come in a wider one: numpy has neither bfloat16
nor float8. Whole numbers and flags are compared as they are, for float64 does not tell all of them apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rung.bridge import library_of, to_numpy
from rung.diagnostics import BridgeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = [
    "DTYPES",
    "IN_NUMPY",
    "Comparison",
    "Dtype",
    "compare",
    "compare_arrays",
    "dtype_of",
    "misplaced",
    "rounded",
    "spacing",
]


@dataclass(frozen=True, slots=True)
class Dtype:
    """A binary floating-point format.

    `digits` counts the bits of a significand with the hidden one, `least` is the exponent of the smallest normal value,
    `most` the largest finite value. One that has no infinities `saturates`: what is larger becomes `most`.
    """

    digits: int
    least: int
    most: float
    saturates: bool = False


DTYPES: Final = {
    "float64": Dtype(53, -1022, (2.0 - 2.0**-52) * 2.0**1023),
    "float32": Dtype(24, -126, (2.0 - 2.0**-23) * 2.0**127),
    "float16": Dtype(11, -14, 65504.0),
    "bfloat16": Dtype(8, -126, (2.0 - 2.0**-7) * 2.0**127),
    "float8_e5m2": Dtype(3, -14, 57344.0),
    "float8_e4m3fn": Dtype(4, -6, 448.0, saturates=True),
}
"""The dtypes that can be compared. Formats: IEEE 754-2019; bfloat16: Intel (2018); float8: Micikevicius et al. 2022."""
IN_NUMPY: Final = frozenset({"float64", "float32", "float16"})
"""Those that numpy has."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing two results gave: the largest difference, also in ulp, and what is wrong, "" when nothing is.

    `index` is the place of the worst element that does not fit: the one that exceeds what is allowed by most.
    `elements` counts those that were compared.
    """

    difference: float = 0.0
    ulp: float = 0.0
    fault: str = ""
    index: tuple[int, ...] | None = None
    elements: int = 0

    def also(self, other: Comparison) -> Comparison:
        """Give both comparisons as one, with the first fault of the two."""
        first = self if self.fault else other
        return Comparison(
            max(self.difference, other.difference), max(self.ulp, other.ulp), first.fault, first.index,
            self.elements + other.elements,
        )  # fmt: skip


def spacing(values: Array, dtype: str) -> Array:
    """Give the unit in the last place of `dtype` at each of the float64 `values`: a power of two, as float64.

    It is the distance from |value| to the next larger value of the dtype; at and below its smallest normal value it is
    its smallest subnormal one. At what is not finite it is 1.
    """
    import numpy as np

    form = DTYPES[dtype]
    exponent = np.where(values == 0, form.least, np.frexp(values)[1] - 1)
    steps: Array = np.ldexp(1.0, np.maximum(exponent, form.least) - form.digits + 1)
    return np.where(np.isfinite(values), steps, 1.0)


def rounded(values: Array, dtype: str) -> Array:
    """Round float64 `values` to those `dtype` has, to nearest and ties to even; the result is float64.

    What is too large becomes infinite, or the largest value where the dtype has no infinity.
    """
    import numpy as np

    if dtype == "float64":
        return values
    form = DTYPES[dtype]
    steps = spacing(values, dtype)
    near = np.rint(values / steps) * steps
    beyond = form.most if form.saturates else math.inf
    return np.where(np.abs(near) > form.most, np.copysign(beyond, near), near)


def dtype_of(value: Any) -> str:
    """Give the name of an array's dtype, such as `bfloat16`."""
    return str(value.dtype).removeprefix("torch.")


def misplaced(made: Any, arrays: str = "", place: str = "") -> str:
    """Say why a result is no array of the library `arrays`, in torch on the device `place`; "" when it is.

    Where nothing is named, each library and device will do. A scalar of numpy is an array of it, without axes.
    """
    import numpy as np

    library = "numpy" if isinstance(made, np.generic) else library_of(made)
    if library is None:
        return f"an array expected, got {type(made).__name__}"
    if arrays not in ("", library):
        return f"an array of {arrays} expected, got one of {library}"
    if library == "torch" and place.partition(":")[0] not in ("", made.device.type):
        return f"a tensor on {place} expected, got one on {made.device}"
    return ""


def compare(
    made: Any, expected: Any, dtype: str, tolerance: Mapping[str, float | int], *, arrays: str = "", place: str = ""
) -> Comparison:
    """Compare a result with the reference's: arrays of numpy or torch, or tuples of them, member by member.

    `dtype` is the one that floating results must have; a result of whole numbers or flags has the reference's own, and
    equals it. `tolerance` holds `ulp`, `cosine`, or `rtol` and `atol`, and is empty for `exact`; see Note [What a
    tolerance allows]. The result must lie where `misplaced` says. The comparison holds the largest difference of all
    members and the first fault.
    """
    import numpy as np

    if isinstance(expected, tuple):
        if not isinstance(made, tuple):
            return _wrong(f"a tuple of {len(expected)} results expected, got {type(made).__name__}")
        if len(made) != len(expected):
            return _wrong(f"{len(expected)} results expected, got {len(made)}")
        worst = Comparison()
        for position, (mine, theirs) in enumerate(zip(made, expected, strict=True)):
            one = compare(mine, theirs, dtype, tolerance, arrays=arrays, place=place)
            worst = worst.also(replace(one, fault=one.fault and f"result {position}: {one.fault}"))
        return worst
    theirs = np.asarray(expected)
    if fault := misplaced(made, arrays, place):
        return _wrong(fault)
    if theirs.dtype.kind not in "fbiu":
        return _wrong(f"the reference gives {theirs.dtype}, which cannot be compared")
    wanted = dtype if theirs.dtype.kind == "f" else str(theirs.dtype)
    if dtype_of(made) != wanted:
        return _wrong(f"dtype {dtype_of(made)}, expected {wanted}")
    try:
        mine = to_numpy(made.detach()) if library_of(made) == "torch" else np.asarray(made)
    except BridgeError as error:
        return _wrong(f"the result cannot be compared: {error}")
    return compare_arrays(mine, theirs, wanted, tolerance if wanted == dtype else {})


def _wrong(fault: str) -> Comparison:
    return Comparison(math.inf, math.inf, fault)


def compare_arrays(
    made: Array,
    expected: Array,
    dtype: str,
    tolerance: Mapping[str, float | int],
    *,
    against: str = "reference",
    slack: Array | None = None,
) -> Comparison:
    """Compare two numpy arrays; `dtype` is the one that `made` had where it was computed.

    `against` is what `expected` is called. `slack` is a difference that is allowed in any case, per element.
    """
    import numpy as np

    if made.shape != expected.shape:
        return _wrong(f"shape {made.shape}, expected {expected.shape}")
    whole = made.dtype == expected.dtype and made.dtype.kind in "biu"
    mine, theirs = (made, expected) if whole else (made.astype(np.float64), expected.astype(np.float64))
    shown_as = str(expected.dtype)
    if not {"rtol", "atol", "cosine"} & tolerance.keys() and dtype in DTYPES and shown_as != dtype:
        theirs, shown_as = rounded(theirs, dtype), dtype
    with np.errstate(all="ignore"):
        distance = _apart(mine, theirs) if whole else np.abs(mine - theirs)
        difference = np.where((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)), 0.0, distance)
        difference = np.where(np.isnan(difference), math.inf, difference)
        units = _units(mine, theirs, dtype)
        if "ulp" in tolerance:
            excess = units - tolerance["ulp"]
        elif "cosine" in tolerance:
            excess = difference
        else:
            allowed = tolerance.get("atol", 0.0) + tolerance.get("rtol", 0.0) * np.abs(np.nan_to_num(theirs))
            excess = difference - allowed
        if slack is not None:
            excess = np.where(difference <= slack, np.fmin(excess, 0.0), excess)
    out = ~(excess <= 0)  # an infinity less one that is allowed is NaN: it does not fit
    worst = Comparison(float(difference.max(initial=0.0)), float(units.max(initial=0.0)), elements=out.size)
    aside = _aside(mine, theirs, float(tolerance["cosine"])) if "cosine" in tolerance and out.any() else ""
    if not (aside if "cosine" in tolerance else out.any()):
        return worst
    odd = np.isnan(mine) != np.isnan(theirs)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(odd if odd.any() else excess)), excess.shape))
    texts = _shown(mine[index], dtype), _shown(theirs[index], shown_as)
    place = f"element [{', '.join(map(str, index))}]" if index else "it"
    fault = f"{place} is {texts[0]}, {against} {texts[1]}"
    if math.isfinite(difference[index]):
        parts = [f"relative {difference[index] / abs(float(theirs[index])):.3g}"] if theirs[index] else []
        parts += [f"{units[index]:.4g} ulp"] if dtype in DTYPES else []
        fault += f": off by {difference[index]:.3g}" + (f" ({', '.join(parts)})" if parts else "")
    count, size = int(out.sum()), out.size
    if aside:
        fault = f"{aside}; {fault}, the furthest of {count} that differ, of {size}"
    elif index:
        verb = "is" if count == 1 else "are"
        fault += f"; {count} of {size} element{'s' * (size != 1)} {verb} not {_limit(tolerance, dtype)}"
    else:
        fault += f"; not {_limit(tolerance, dtype)}"
    return replace(worst, fault=fault, index=index)


def _apart(mine: Array, theirs: Array) -> Array:
    """Give the distances of whole numbers or of flags, as float64."""
    import numpy as np

    # The largest may be 2^64 - 1, which unsigned numbers that wrap around hold.
    high, low = (end(mine, theirs).astype(np.uint64) for end in (np.maximum, np.minimum))
    return (high - low).astype(np.float64)


def _units(mine: Array, theirs: Array, dtype: str) -> Array:
    """Give the distances in units in the last place, from the reference rounded to the dtype."""
    import numpy as np

    if dtype not in DTYPES:
        return np.zeros(mine.shape)
    near = rounded(theirs, dtype)
    distance = np.abs(mine - near) / spacing(near, dtype)
    return np.where((mine == near) | (np.isnan(mine) & np.isnan(near)), 0.0, np.nan_to_num(distance, nan=math.inf))


def _aside(mine: Array, theirs: Array, least: float) -> str:
    """Say in what way two vectors that are not equal do not lie together, "" when they do."""
    import numpy as np

    for name, vector in (("the result", mine), ("the reference", theirs)):
        if not np.isfinite(vector).all():
            return f"{name} is not finite, which no cosine compares"
    largest = [float(np.abs(vector).max()) for vector in (mine, theirs)]
    if 0.0 in largest:
        return f"{('the result', 'the reference')[largest.index(0.0)]} is zero and the other is not"
    scaled = [(vector / most).ravel() for vector, most in zip((mine, theirs), largest, strict=True)]
    lengths = [float(np.linalg.norm(vector)) for vector in scaled]
    cosine = float(scaled[0] @ scaled[1]) / (lengths[0] * lengths[1])
    if cosine < least:
        return f"cosine similarity {cosine:.6g}, at least {least:.6g} expected"
    ratio = lengths[0] / lengths[1] * (largest[0] / largest[1])
    room = math.sqrt(max(0.0, 1.0 - least * least))
    if abs(ratio - 1.0) > room:
        return f"{ratio:.4g} times as long as the reference, between {1.0 - room:.4g} and {1.0 + room:.4g} expected"
    return ""


def _limit(tolerance: Mapping[str, float | int], dtype: str) -> str:
    """Give a tolerance in words, to follow `not`."""
    if "ulp" in tolerance:
        return f"within {tolerance['ulp']} ulp of {dtype}"
    said = [f"{name} {tolerance[name]:.3g}" for name in ("rtol", "atol") if tolerance.get(name)]
    return f"within {', '.join(said)}" if said else "exactly equal"


def _shown(value: Any, dtype: str) -> str:
    """Give a number with as many digits as tell it from its neighbours of its dtype."""
    import numpy as np

    if dtype not in DTYPES:
        return str(int(value))
    return str(getattr(np, "float32" if dtype.startswith(("bfloat", "float8")) else dtype)(value))
