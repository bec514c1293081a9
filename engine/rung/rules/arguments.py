"""Rules RG312 and RG313, and RG204 on dtypes: what cells accept, and what ops say of their arguments.

Owns which conditions can be asked of which argument, by the op's signature. What they mean is for `rung.arguments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from rung.arguments import LAST, axes_of, holds, parameters, split
from rung.diagnostics import Problem, did_you_mean, shorten
from rung.entries import ARGUMENT_DTYPES, PARTS, TESTS
from rung.rules.table import is_sound_signature
from rung.wording import meant_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rung.arguments import Parameter
    from rung.diagnostics import Where
    from rung.manifest import BackendEntry, Entry, Manifests
    from rung.models import ArgumentTest, OpModel

__all__ = ["RULES"]

_PRESENCE: Final = ("none", "given")
_NUMBERS: Final = ("rank", "shape", "size")
_WORDS: Final[Mapping[str, tuple[object, ...]]] = {"contiguous": (True, LAST), "grad": (False,)}
"""The parts that have few values."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}
_KINDS: Final = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text"}


@dataclass(frozen=True)
class _Asked:
    """What a row asks of one place in the arguments."""

    backend: BackendEntry
    op: str
    index: int
    place: str
    test: ArgumentTest
    listed: Mapping[str, Parameter]
    beside: Mapping[str, ArgumentTest]

    @property
    def values(self) -> list[Any]:
        """The values it must be one of."""
        return [] if self.test.one_of is None else self.test.one_of

    @property
    def compared(self) -> list[tuple[str, Any]]:
        """The tests, each with the number or place that it compares to."""
        found = ((name, getattr(self.test, name)) for name in TESTS)
        return [(name, value) for name, value in found if value is not None]

    def at(self, *inner: str | int, key: bool = False) -> Where:
        """Give the place of the condition, or of something in it."""
        return self.backend.at("kernels", self.op, self.index, "accepts", self.place, *inner, key=key)

    def at_value(self, index: int) -> Where:
        """Give the place of one of the values, which may be listed under `one_of`, at once, or alone."""
        loc = ("kernels", self.op, self.index, "accepts", self.place)
        is_long = isinstance(self.backend.document.at(loc), dict)
        return self.at("one_of", index) if is_long else self.at(index)


def _asked(whole: Manifests) -> Iterator[_Asked]:
    """Give what rows ask of arguments, without rows of an op whose signature cannot be read."""
    for backend in whole.backends.values():
        for op, index, row in backend.kernels:
            entry = whole.ops.get(op) if row.accepts else None
            if entry is not None and _is_read(entry):
                listed = {p.name: p for p in parameters(entry.model.signature)}
                for place, test in row.accepts.items():
                    yield _Asked(backend, op, index, place, test, listed, row.accepts)


def _is_read(op: Entry[OpModel]) -> bool:
    """Say whether the signature is what was written, and a stub."""
    return op.has("signature") and is_sound_signature(op.model.signature)


def _arrays_of(op: Entry[OpModel]) -> Iterator[tuple[str, Callable[[], Where]]]:
    """Give the arrays that an op says something of, each with what gives its place: to look for one takes long."""
    for index, name in enumerate(op.model.differentiable):
        yield name, partial(op.at, "differentiable", index)
    for name in op.model.dtypes:
        yield name, partial(op.at, "dtypes", name, key=True)


def rg312(whole: Manifests) -> Iterator[Problem]:
    """An argument that the op's signature does not have."""
    for op in whole.ops.values():
        model = op.model
        if _is_read(op):
            legal = [p.name for p in parameters(model.signature)]
            named = [*_arrays_of(op)]
            named += [(model.result_dtype, partial(op.at, "result_dtype"))] if model.result_dtype is not None else []
            yield from (_unknown(name, op.name, place(), legal) for name, place in named if name not in legal)
    for asked in _asked(whole):
        name = split(asked.place)[0]
        if name not in asked.listed:
            yield _unknown(name, asked.op, asked.at(key=True), asked.listed)
        for test, other in asked.compared:
            if isinstance(other, str) and split(other)[0] not in asked.listed:
                yield _unknown(split(other)[0], asked.op, asked.at(test), asked.listed)


def _unknown(name: str, op: str, where: Where, legal: Iterable[str]) -> Problem:
    message = f"`{shorten(op, 24)}` has no argument `{shorten(name, 24)}`"
    return Problem("RG312", where, message, did_you_mean(name, legal))


def rg313(whole: Manifests) -> Iterator[Problem]:
    """A condition that no call can meet, or that an argument of this type cannot be asked."""
    for op in whole.ops.values():
        model = op.model
        listed = {p.name: p for p in parameters(model.signature)} if _is_read(op) else {}
        for name, place in _arrays_of(op):
            if name in listed and not listed[name].is_array:
                yield Problem(
                    "RG313", place(), f"`{shorten(name)}` is no array", "name an array argument, or remove it"
                )
        if model.result_dtype in listed and "str" not in listed[model.result_dtype].types:
            hint = "name the argument that says the result's dtype, such as `out_dtype: str`"
            yield Problem("RG313", op.at("result_dtype"), f"`{shorten(model.result_dtype)}` is no text", hint)
    for asked in _asked(whole):
        parameter = asked.listed.get(split(asked.place)[0])
        if parameter is not None:
            yield from _faults(asked, parameter)


def _faults(asked: _Asked, parameter: Parameter) -> Iterator[Problem]:
    """Say what is wrong with the conditions at one place: with what is asked about, else with each value."""
    name, part, _ = split(asked.place)
    shown = shorten(asked.place, 32)
    if part and not parameter.is_array:
        message, hint = f"`{shorten(name, 32)}` is no array: it has no `{part}`", f"ask for its value: `{name}: ...`"
        yield Problem("RG313", asked.at(key=True), message, hint)
        return
    is_array = parameter.is_array and not part
    presence = [v for v in asked.values if v in _PRESENCE and not part and (is_array or parameter.is_optional)]
    if presence and not parameter.is_optional:
        message = f"`{shown}` is always given: its type has no `| None`"
        yield Problem("RG313", asked.at(), message, "remove the condition")
    elif presence and (len(asked.values) > 1 or asked.compared):
        yield Problem("RG313", asked.at(), f"`{presence[0]}` leaves no room for other conditions", "keep one of them")
    elif is_array and not presence:
        parts = ", ".join(f"`{name}.{each}`" for each in PARTS if each != "shape")
        hint = f"ask for `none` or `given`, or about a part: {parts}, `{name}.shape[-1]`"
        yield Problem("RG313", asked.at(), f"`{shown}` is an array, and has no such value", hint)
    elif not presence:
        if part == "shape" and axes_of(asked.place) > _most_axes(asked.beside.get(f"{name}.rank")):
            hint = f"allow more axes under `{name}.rank`, or count from the other end"
            yield Problem("RG313", asked.at(key=True), f"`{shown}` is beyond the axes that `{name}.rank` allows", hint)
        if not part and {True, False} == {v for v in asked.values if isinstance(v, bool)}:
            yield Problem("RG313", asked.at(), f"`{shown}` is always true or false", "remove the condition, or a value")
        for index, value in enumerate(asked.values):
            yield from _value_faults(asked, value, partial(asked.at_value, index), parameter)
        yield from _compared_faults(asked, parameter)


def _value_faults(asked: _Asked, value: Any, place: Callable[[], Where], parameter: Parameter) -> Iterator[Problem]:
    part = split(asked.place)[1]
    shown = f"`{_written(value)}`"
    if part == "dtype":
        if value not in ARGUMENT_DTYPES:
            meant = meant_value(str(value), ARGUMENT_DTYPES)
            hint = f"did you mean `{meant}`?" if meant != value else did_you_mean(str(value), ARGUMENT_DTYPES)
            yield Problem("RG204", place(), f"{shown} is no dtype", hint)
    elif part in _WORDS:
        if not any(value is word or (word == LAST and value == LAST) for word in _WORDS[part]):
            words = ", ".join(f"`{_written(word)}`" for word in _WORDS[part])
            yield Problem("RG313", place(), f"`{shorten(asked.place, 32)}` is never {shown}", f"one of {words}")
    elif part in _NUMBERS:
        if value.__class__ is not int or value < 0:
            hint = "write a whole number, none less than 0"
            yield Problem("RG313", place(), f"`{shorten(asked.place, 32)}` is never {shown}", hint)
    else:
        types = [kind for kind in _TYPES if kind in parameter.types]
        if not any(value.__class__ in _TYPES[kind] for kind in types):
            hint = f"it is {' or '.join(_KINDS[kind] for kind in types)}" if types else "remove the condition"
            yield Problem("RG313", place(), f"`{shorten(asked.place, 32)}` is never {shown}", hint)


def _compared_faults(asked: _Asked, parameter: Parameter) -> Iterator[Problem]:
    """Say what is wrong with tests: numbers are compared with numbers, dtypes and plain values only for being equal."""
    place, kind = shorten(asked.place, 32), _kind(asked.place, parameter)
    part = split(asked.place)[1]
    for test, other in asked.compared:
        if kind in _WORDS:
            yield Problem("RG313", asked.at(test), f"`{place}` is not compared", "list the values it may have")
        elif isinstance(other, str):
            name, their_part, _ = split(other)
            theirs = asked.listed.get(name)
            if theirs is None:
                continue
            if their_part and not theirs.is_array:
                message = f"`{shorten(name, 32)}` is no array: it has no `{their_part}`"
                yield Problem("RG313", asked.at(test), message, "compare with a number, or with a part of an array")
            elif their_part == "shape" and axes_of(other) > _most_axes(asked.beside.get(f"{name}.rank")):
                hint = f"allow more axes under `{name}.rank`, or count from the other end"
                message = f"`{shorten(other, 32)}` is beyond the axes that `{name}.rank` allows"
                yield Problem("RG313", asked.at(test), message, hint)
            elif _kind(other, theirs) != kind or (kind != "number" and test != "equals"):
                message = f"`{place}` and `{shorten(other, 32)}` cannot be compared so"
                yield Problem("RG313", asked.at(test), message, "numbers are compared; dtypes can be `equals`")
        elif kind != "number":
            yield Problem("RG313", asked.at(test), f"`{place}` is no number", "list the values it may have")
        elif test == "multiple_of" and other <= 0:
            yield Problem("RG313", asked.at(test), f"nothing is a multiple of {other}", "write a number above 0")
        elif part in _NUMBERS and test in ("max", "equals") and other < 0:
            yield Problem("RG313", asked.at(test), f"`{place}` is never less than 0", "write a number from 0 on")
    numbers = {test: other for test, other in asked.compared if not isinstance(other, str)}
    least, most = numbers.get("min"), numbers.get("max")
    exact = numbers.get("equals")
    if least is not None and most is not None and least > most:
        yield Problem("RG313", asked.at("max"), f"no number is at least {least} and at most {most}", "swap them")
    elif exact is not None and ((least is not None and exact < least) or (most is not None and exact > most)):
        yield Problem("RG313", asked.at("equals"), f"{exact} is not between the other bounds", "keep `equals` alone")
    elif kind == "number" and not _is_met(asked, numbers, is_whole=part in _NUMBERS or "float" not in parameter.types):
        message = f"no number is all that `{place}` must be"
        yield Problem("RG313", asked.at(), message, "remove what contradicts the rest")


def _is_met(asked: _Asked, tests: Mapping[str, float], *, is_whole: bool) -> bool:
    """Say whether a number passes every test, as far as each by itself can be passed."""
    values = [value for value in asked.values if value.__class__ in (int, float)]
    multiple = tests.get("multiple_of", 1 if is_whole else 0)
    least = max(tests.get("min", -inf), 0 if split(asked.place)[1] in _NUMBERS else -inf)
    most = tests.get("max", inf)
    is_said = len(values) < len(asked.values) or most < 0 <= least or tests.get("multiple_of", 1) <= 0
    if is_said:  # that something else is wrong
        return True
    if "equals" in tests and not values:
        values = [tests["equals"]]
    if values:
        return any(all(holds(test, value, other) for test, other in tests.items()) for value in values)
    if multiple == 0 or least == -inf or most == inf:
        return True
    return -(-least // multiple) * multiple <= most


def _kind(place: str, parameter: Parameter) -> str:
    """Give what is at a place: a number, a dtype, or another value."""
    part = split(place)[1]
    if part in _NUMBERS or (not part and {"int", "float"} & {*parameter.types}):
        return "number"
    return part or "value"


def _most_axes(rank: ArgumentTest | None) -> float:
    """Give how many axes a condition on the rank allows at most."""
    if rank is None:
        return inf
    numbers = [n for n in (rank.max, rank.equals) if isinstance(n, int)]
    numbers += [max((v for v in rank.one_of if isinstance(v, int)), default=0)] if rank.one_of else []
    return min(numbers, default=inf)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else shorten(str(value), 24)


RULES = (rg312, rg313)
