"""Conditions on the arguments of a call: what a cell `accepts`, asked of arrays, or of examples of them.

Owns the places in arguments that can be asked about, the answers in words, and arguments given as examples. Must not
choose a cell: `rung.resolve` walks, and `rung.guard` makes functions of conditions. Imports no array library.

Note [What is not given fits]: a condition on an argument that is None, or on a part of it, holds, so `mask.dtype: bool`
is what a mask must be where there is one, and `scale: {max: 1.0}` what a scale must be. Whether there is one is a
condition of its own, `mask: given`.

Note [Asking never raises]: an argument may be anything. What cannot be read of it, or compared, fits no condition.
"""

from __future__ import annotations

import sys

from rung.diagnostics import RungError, did_you_mean, shorten
from rung.entries import ARGUMENT_DTYPES, PARTS, TESTS
from rung.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Final

    from rung.entries import Cell, Condition, Op

__all__ = [
    "LAST",
    "UNSAID",
    "Example",
    "Parameter",
    "Unfit",
    "axes_of",
    "example",
    "examples",
    "given",
    "holds",
    "observe",
    "parameters",
    "places",
    "records_gradient",
    "refusal",
    "split",
    "unfit",
]


class _Unsaid:
    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSAID"


UNSAID: Final = _Unsaid()
"""Stands for an argument that has no default and was not said."""
LAST: Final = "last"
"""What is contiguous when only the last axis must be."""

_ONLY_AST: Final = 0x400  # ast.PyCF_ONLY_AST, without the module
_known: dict[str, tuple[Parameter, ...]] = {}


@record
class Parameter:
    """A parameter of an op: `kind` is `position`, `either` or `keyword`, `types` the names in its annotation.

    `default` is UNSAID where there is none.
    """

    name: str
    kind: str
    default: Any
    types: tuple[str, ...]

    @property
    def is_optional(self) -> bool:
        """Whether None is a legal value."""
        return "None" in self.types

    @property
    def is_array(self) -> bool:
        """Whether an array is a legal value."""
        return "array" in self.types


def parameters(signature: str) -> tuple[Parameter, ...]:
    """Give the parameters of an op's signature, a stub that was checked."""
    found = _known.get(signature)
    if found is None:
        made: Any = compile(f"def op{signature}: ...", "<signature>", "exec", _ONLY_AST)
        arguments = made.body[0].args
        positions = [*((a, "position") for a in arguments.posonlyargs), *((a, "either") for a in arguments.args)]
        defaults = [*[None] * (len(positions) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
        listed = [*positions, *((a, "keyword") for a in arguments.kwonlyargs)]
        found = tuple(
            Parameter(a.arg, kind, _literal(default), tuple(_types(a.annotation)))
            for (a, kind), default in zip(listed, defaults, strict=True)
        )
        _known[signature] = found
    return found


def _literal(node: Any) -> Any:
    if node is None:
        return UNSAID
    if hasattr(node, "operand"):
        value = node.operand.value
        return -value if type(node.op).__name__ == "USub" else value
    return node.value


def _types(annotation: Any) -> Iterable[str]:
    if hasattr(annotation, "left"):
        yield from _types(annotation.left)
        yield from _types(annotation.right)
    elif hasattr(annotation, "slice"):
        yield from _types(annotation.value)
    else:
        yield annotation.id if hasattr(annotation, "id") else str(annotation.value)


@record
class Example:
    """An array that is only described: a dtype, a shape, how it lies in memory, whether it has a gradient.

    `contiguous` is True, False, or `last` where the last axis alone is dense.
    """

    dtype: str
    shape: tuple[int, ...]
    contiguous: bool | str = True
    grad: bool = False

    def __str__(self) -> str:
        words = {False: ":strided", LAST: ":last"}.get(self.contiguous, "") + (":grad" if self.grad else "")
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{words}"


_FORM: Final = "such as `bfloat16[2,8,128,64]`, with `:strided`, `:last` or `:grad` behind it"
_KINDS: Final = {"array": f"an array {_FORM}", "bool": "true or false", "int": "a whole number", "float": "a number",
                 "str": "a text", "None": "none"}  # fmt: skip


def example(text: str, parameter: Parameter) -> Any:
    """Read an example of an argument, by the types that the op's signature gives it.

    An array is described as `dtype[sizes]`; `none`, `true` and `false` stand for themselves where they are legal.
    Raise RungError for what is no such thing.
    """
    types = {*parameter.types}
    if text == "none" and "None" in types:
        return None
    if "array" in types and ("[" in text or not types - {"array", "None"}):
        return _array(text, parameter.name)
    if "bool" in types and text in ("true", "false"):
        return text == "true"
    for kind, read in (("int", int), ("float", float)):
        if kind in types:
            try:
                return read(text)
            except ValueError:
                pass
    if "str" in types:
        return text
    wanted = " or ".join(words for kind, words in _KINDS.items() if kind in types) or "nothing that can be written here"
    raise RungError(f"`{shorten(text)}` is no example of `{parameter.name}`, which is {wanted}")


def _array(text: str, name: str) -> Example:
    head, bracket, rest = text.partition("[")
    sizes, closing, words = rest.partition("]")
    flags = words.split(":")
    if head not in ARGUMENT_DTYPES:
        raise RungError(f"`{shorten(text)}` has no dtype: {did_you_mean(head, ARGUMENT_DTYPES)}")
    shape = [size.strip() for size in sizes.split(",")] if sizes.strip() else []
    layouts = [flag for flag in flags[1:] if flag != "grad"]
    sound = bracket and closing and not flags[0] and {*layouts} <= {"strided", LAST} and len(layouts) < 2
    if not sound or not all(size.isascii() and size.isdecimal() for size in shape):
        raise RungError(f"`{shorten(text)}` is no example of `{name}`: write an array {_FORM}")
    contiguous: bool | str = False if "strided" in layouts else LAST if layouts else True
    return Example(head, tuple(map(int, shape)), contiguous, "grad" in flags)


def examples(op: Op, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Give arguments by name in which texts that stand for arrays are read as `example` reads them."""
    listed = {p.name: p for p in parameters(op.signature)}
    texts = {name: value for name, value in arguments.items() if isinstance(value, str) and name in listed}
    described = {name: example(text, listed[name]) for name, text in texts.items() if listed[name].is_array}
    return {**arguments, **described}


def given(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any], *, partly: bool = False) -> dict[str, Any]:
    """Give every argument of a call by name, as Python would bind it; with `partly` some may be UNSAID.

    Raise TypeError for a call that the op's signature does not allow.
    """
    listed = parameters(op.signature)
    positions = [p.name for p in listed if p.kind != "keyword"]
    if len(args) > len(positions):
        raise TypeError(f"{op.name} takes {len(positions)} positional arguments, and {len(args)} are given")
    values = dict(zip(positions, args, strict=False))
    named = {p.name for p in listed if p.kind != "position" or partly}
    for name, value in kwargs.items():
        if name not in named:
            raise TypeError(f"{op.name} has no argument `{shorten(name)}`: {did_you_mean(name, named)}")
        if name in values:
            raise TypeError(f"{op.name} got `{name}` twice")
        values[name] = value
    missing = [p.name for p in listed if p.name not in values and p.default is UNSAID]
    if missing and not partly:
        raise TypeError(f"{op.name} needs {', '.join(f'`{name}`' for name in missing)}")
    return {p.name: values.get(p.name, p.default) for p in listed}


def split(place: str) -> tuple[str, str, int]:
    """Give the argument, the part and the axis a place names: `q.shape[-1]` is `("q", "shape", -1)`."""
    argument, _, rest = place.partition(".")
    part, _, axis = rest.partition("[")
    return argument, part, int(axis[:-1]) if axis else 0


def axes_of(place: str) -> int:
    """Give how many axes an array needs to have the one at a place."""
    axis = split(place)[2]
    return axis + 1 if axis >= 0 else -axis


def places(condition: Condition) -> tuple[str, ...]:
    """Give the places a condition asks about."""
    is_compared = isinstance(condition.value, str) and condition.test in TESTS
    return (condition.place, condition.value) if is_compared else (condition.place,)


@record
class Unfit:
    """That a place has no such part: `why` says what is there instead."""

    why: str


def observe(place: str, values: Mapping[str, Any]) -> Any:
    """Give what is at a place of the arguments; UNSAID, None (where the argument is None) or Unfit where nothing is.

    A dtype is given by its name.
    """
    name, part, axis = split(place)
    value = values.get(name, UNSAID)
    if not part or value is None or value is UNSAID:
        return value
    if part == "grad":
        return records_gradient(value)
    try:
        shape = getattr(value, "shape", None)
        if not isinstance(shape, tuple) or not hasattr(value, "dtype"):
            return Unfit(f"`{name}` is {_kind(value)}, no array")
        if part == "shape":
            if not -len(shape) <= axis < len(shape):
                return Unfit(f"`{name}` has {len(shape)} axes")
            return int(shape[axis])
        return _PARTS[part](value)
    except Exception as error:  # such as a sparse tensor's; see Note [Asking never raises]
        return Unfit(f"`{name}` is {_kind(value)} that cannot be asked for it ({type(error).__name__})")


def _dtype(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def _size(value: Any) -> int:
    product = 1
    for size in value.shape:
        product *= int(size)
    return product


def _contiguous(value: Any) -> bool | str:
    if isinstance(value, Example):
        return value.contiguous
    flags = getattr(value, "flags", None)
    whole = bool(value.is_contiguous()) if flags is None else bool(flags.c_contiguous)
    if whole:
        return True
    is_dense = value.strides[-1] == value.itemsize if flags is not None else value.stride(-1) == 1
    return LAST if is_dense else False


def records_gradient(value: Any) -> bool:
    """Say whether what is computed from an array now becomes part of a gradient's graph."""
    if isinstance(value, Example):
        return value.grad
    torch = sys.modules.get("torch")
    return bool(getattr(value, "requires_grad", False)) and torch is not None and bool(torch.is_grad_enabled())


_PARTS: Final = {
    "dtype": _dtype,
    "rank": lambda value: len(value.shape),
    "size": _size,
    "contiguous": _contiguous,
}
assert {*_PARTS, "shape", "grad"} == {*PARTS}


def _kind(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def unfit(condition: Condition, values: Mapping[str, Any]) -> str | None:
    """Say why a condition does not hold; "" where it does, None where an argument that it asks about is unsaid."""
    found = observe(condition.place, values)
    if found is UNSAID:
        return None
    if condition.test == "is":
        name, wanted = condition.place, condition.value
        if (found is None) == (wanted == "none"):
            return ""
        return f"`{name}` is given, and must be none" if wanted == "none" else f"`{name}` is none, and must be given"
    is_compared = len(places(condition)) > 1
    wanted = observe(condition.value, values) if is_compared else condition.value
    if wanted is UNSAID:
        return None
    if found is None or wanted is None:  # see Note [What is not given fits]
        return ""
    for place, there in zip(places(condition), (found, wanted), strict=False):
        if isinstance(there, Unfit):
            return f"{there.why}: no `{place}`"
    of = f" (`{condition.value}`)" if is_compared else ""
    if holds(condition.test, found, wanted):
        return ""
    words = {"in": "not ", "equals": "not ", "min": "less than ", "max": "more than ", "multiple_of": "no multiple of "}
    return f"`{condition.place}` is {_shown(found)}, {words[condition.test]}{_several(wanted)}{of}"


def holds(test: str, found: Any, wanted: Any) -> bool:
    """Say whether a value passes a test against another; never raises."""
    try:
        if test == "in":
            return found in wanted or (found is True and LAST in wanted)
        if test == "equals":
            return bool(found == wanted)
        if test == "min":
            return bool(found >= wanted)
        if test == "max":
            return bool(found <= wanted)
        return bool(found == 0 if wanted == 0 else found % wanted == 0)
    except Exception:  # an array, or what is no number; see Note [Asking never raises]
        return False


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return shorten(str(value), 24) if isinstance(value, int | float | str) else _kind(value)


def _several(wanted: Any) -> str:
    if not isinstance(wanted, tuple):
        return _shown(wanted)
    *most, last = map(_shown, wanted)
    return f"{', '.join(most)} or {last}" if most else last


def refusal(op: Op, cell: Cell, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Say why a cell does not accept a call, "" where it does."""
    if not cell.accepts:
        return ""
    values = given(op, args, kwargs)
    return next((why for condition in cell.accepts if (why := unfit(condition, values))), "")
