"""A case of an op as a call: which argument is which, and what a kernel is given for it.

Owns the names of arguments, the conversion to the arrays and the dtype of a cell, and how a call is shown. Calls
nothing, and judges nothing.

Note [What a kernel is given]: cases are numpy arrays, and a kernel of numpy arrays gets them as they are. A kernel of
tensors gets tensors of the same dtypes, where numpy has the dtype that is compared; an argument that the op's `dtypes`
names has the dtype named there. Where numpy lacks the compared dtype, float32 stands for it: the first array becomes
it, and so does each other array of float32 that it holds without loss. What it does not hold is meant to be float32.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from rung import arguments
from rung.arguments import parameters
from rung.bridge import library_of, to_numpy, to_torch
from rung.parity.compare import IN_NUMPY, dtype_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rung.entries import Op

__all__ = [
    "Call",
    "changed",
    "converted",
    "copied",
    "is_call",
    "kept_wide",
    "lacking",
    "named",
    "rebuilt",
    "result_dtype",
    "shared",
    "shown",
]

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments."""


def named(op: Op, call: Call) -> dict[str, Any]:
    """Give the arguments of a call by name, those by position first; one without a name is called by its number."""
    names = [parameter.name for parameter in parameters(op.signature)]
    args, kwargs = call
    return {names[i] if i < len(names) else str(i): value for i, value in enumerate(args)} | kwargs


def is_call(case: Any) -> bool:
    """Say whether an op's case is what it has to be: a tuple of positional arguments and a dict of named ones."""
    return (
        isinstance(case, tuple) and len(case) == 2 and isinstance(case[0], tuple) and isinstance(case[1], dict)
    )  # fmt: skip


def rebuilt(call: Call, values: Mapping[str, Any]) -> Call:
    """Give a call with other values for its arguments, by the names that `named` gave them."""
    args, kwargs = call
    return tuple([*values.values()][: len(args)]), {name: values[name] for name in kwargs}


def result_dtype(op: Op, call: Call, dtype: str) -> str:
    """Give the dtype that floating results of a call must have: what the op's `result_dtype` says, else `dtype`.

    Raise TypeError for a call that the op's signature does not allow.
    """
    if not op.result_dtype:
        return dtype
    said = arguments.given(op, *call)[op.result_dtype]
    return said if isinstance(said, str) else dtype


def lacking(arrays: str, device: str, dtype: str) -> str:
    """Say why arrays of a library on a device cannot have a dtype, "" when they can."""
    if arrays == "numpy" and dtype not in IN_NUMPY:
        return f"numpy has no {dtype}"
    if device == "mps" and (dtype == "float64" or dtype.startswith("float8")):
        return f"mps has no {dtype}"
    return ""


def converted(op: Op, call: Call, arrays: str, place: str, dtype: str) -> Call:
    """Give a call as a cell of `arrays` takes it, on torch's device `place`; see Note [What a kernel is given]."""
    if arrays == "numpy":
        return call
    values, made = named(op, call), {}
    first = next((name for name, value in values.items() if library_of(value) == "numpy"), "")
    for name, value in values.items():
        made[name] = _tensor(value, place, op.dtypes.get(name, ""), dtype, is_first=name == first)
    return rebuilt(call, made)


def _tensor(value: Any, place: str, own: str, dtype: str, *, is_first: bool) -> Any:
    if library_of(value) != "numpy":
        return value
    import torch

    if value.dtype.kind == "f" and own:
        return to_torch(value, "cpu").to(place, getattr(torch, own))
    tensor = to_torch(value, place)
    if dtype in IN_NUMPY or tensor.dtype != torch.float32:
        return tensor
    narrow = tensor.to(getattr(torch, dtype))
    kept = narrow.float()
    is_held = bool(((kept == tensor) | (kept.isnan() & tensor.isnan())).all())
    return narrow if is_first or is_held else tensor


def kept_wide(op: Op, given: Call, dtype: str) -> list[str]:
    """Name the tensors of float32 in a call as a cell takes it that `dtype`, which numpy lacks, does not hold."""
    if dtype in IN_NUMPY:
        return []
    tensors = {name: value for name, value in named(op, given).items() if library_of(value) == "torch"}
    return [name for name, value in tensors.items() if dtype_of(value) == "float32" and name not in op.dtypes]


def copied(op: Op, call: Call) -> dict[str, Any]:
    """Give the arguments of a call by name, as they are now: what changes them later changes no copy."""
    return deepcopy(named(op, call))


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Name the first argument that a call changed, "" when it left all as they were."""
    return next((name for name, old in before.items() if not _same(old, after[name])), "")


def _same(old: Any, new: Any) -> bool:
    """Say whether two values are equal bit for bit, and alike in whether a gradient is recorded."""
    if isinstance(old, tuple | list):
        return len(old) == len(new) and all(map(_same, old, new))
    library = library_of(old)
    if library is None:
        return True  # numbers, texts and flags cannot change
    if library == "torch" and old.requires_grad != new.requires_grad:
        return False
    mine, theirs = (value if library == "numpy" else to_numpy(value.detach()) for value in (old, new))
    return bool(mine.shape == theirs.shape and mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes())


def shared(results: Any, values: Mapping[str, Any]) -> str:
    """Name the first argument in whose memory one of the results lies, "" when all of them are new."""
    every = results if isinstance(results, tuple) else (results,)
    return next((name for name, value in values.items() if any(_overlap(one, value) for one in every)), "")


def _overlap(one: Any, other: Any) -> bool:
    library = library_of(one)
    if library is None or library_of(other) != library or 0 in (*one.shape, *other.shape):
        return False
    if library == "numpy":
        import numpy as np

        return bool(np.may_share_memory(one, other))
    try:
        return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())
    except RuntimeError:  # a tensor without a storage, such as a sparse one
        return False


def shown(op: Op, call: Call) -> str:
    """Give the arguments of a call in words: arrays by dtype and shape, other values as they are."""
    return ", ".join(_described(named(op, call)))


def _described(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield f"{name}={_one(value)}"


def _one(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_one, value))})"
    if library_of(value) is None:
        return repr(value)
    shape: Sequence[int] = tuple(value.shape)
    return f"{dtype_of(value)}{[*shape]}{'' if _is_contiguous(value) else ' not contiguous'}"


def _is_contiguous(value: Any) -> bool:
    return bool(value.flags.c_contiguous if library_of(value) == "numpy" else value.is_contiguous())
