"""Guards: one function per op that gives each call to the first rung whose `accepts` fits its arguments.

Owns the code of that function. Must not decide what a condition means (`rung.arguments`), nor in which order rungs come
(`rung.resolve`).

Note [A guard is written out]: the function is generated as source, the way one would write it by hand: an attribute
that several rungs ask about is read once at its head, any other where it is first needed, and the function that was
chosen is called behind the questions, so that what it raises is its own. The source is known to `linecache`, so
tracebacks and `inspect.getsource` show it.

Note [Rungs are bound when they are reached]: the names of the rungs are globals of the function. Each stands for a
function that walks the ladder with the arguments of the call, says what it falls on, and puts the kernel in its own
place. So no rung is imported before a call needs it, and none is asked about twice.
"""

from __future__ import annotations

import sys
from itertools import chain

from rung.arguments import LAST, UNSAID, given, parameters, places, records_gradient, split, unfit
from rung.diagnostics import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Final

    from rung.entries import Cell, Condition, Op

__all__ = ["Guard"]

_ODD: Final = "(AttributeError, IndexError, TypeError, ValueError, ZeroDivisionError)"
"""What reading an argument raises that is no array, or has fewer axes."""
_READ: Final = {
    "numpy": {
        "dtype": "{0}.dtype", "rank": "{0}.ndim", "shape": "{0}.shape", "size": "{0}.size",
        "contiguous": "{0}.flags.c_contiguous", "grad": "False",
        "last": "({0}.strides[-1] == {0}.itemsize or {0}.shape[-1] <= 1)",
    },
    "torch": {
        "dtype": "{0}.dtype", "rank": "{0}.ndim", "shape": "{0}.shape", "size": "{0}.numel()",
        "contiguous": "{0}.is_contiguous()", "last": "({0}.stride(-1) == 1 or {0}.shape[-1] <= 1)",
        "grad": "({0}.requires_grad and records_gradient({0}))",
    },
}  # fmt: skip
_SIGNS: Final = {"min": ">=", "max": "<=", "equals": "=="}


class Guard:
    """The guard of one request on one platform.

    `cells` are the rungs that stay live, in order; `reach` is called with a cell and a call's arguments when a call
    comes to a rung that was not bound yet, or to none (None), and gives the function that serves and whether it is that
    cell's. It raises where nothing may serve.
    """

    def __init__(
        self, op: Op, cells: Sequence[Cell], arrays: str, title: str,
        reach: Callable[[Cell | None, tuple[Any, ...], dict[str, Any]], tuple[Any, bool]],
    ) -> None:  # fmt: skip
        self.op = op
        self.arrays = arrays
        self.title = title
        self.reach = reach
        self.cells = tuple(cells)
        self.names = _names(cells)
        self.scope: dict[str, Any] = {"__name__": __name__, "nobody": self._stand_in("nobody", None)}
        for name, cell in zip(self.names, cells, strict=True):
            self.scope[name] = self._stand_in(name, cell)

    def function(self, since: int = 0) -> Any:
        """Make the function that chooses among the rungs from one on; all that are made share what they bound."""
        rungs = [*zip(self.names, self.cells, strict=True)][since:]
        odd = f"odd_{since}"

        def choose(*args: Any, **kwargs: Any) -> Any:
            values = given(self.op, args, kwargs)
            fitting = (name for name, cell in rungs if not any(unfit(each, values) for each in cell.accepts))
            return self.scope[next(fitting, "nobody")]

        writer = _Writer(self.op, self.arrays, self.title)
        text = writer.text(rungs, odd)
        file = f"<rung guard {self.op.name} {hash(text) & 0xFFFFFFFF:08x}>"
        _remember(file, text)
        self.scope.update(writer.constants)
        self.scope[odd] = choose
        made: dict[str, Any] = {}
        exec(compile(text, file, "exec"), self.scope, made)
        function = made[self.op.name]
        function.__doc__ = f"{self.op.summary}\n\nServed by the first rung that accepts the call: {self.title}."
        return function

    def _stand_in(self, name: str, cell: Cell | None) -> Callable[..., Any]:
        """Give what stands for a rung until a call reaches it."""

        def reached(*args: Any, **kwargs: Any) -> Any:
            serves, is_own = self.reach(cell, args, kwargs)
            if is_own:
                self.scope[name] = serves
            elif cell is not None:  # it is broken: its calls go to the rungs below it
                self.scope[name] = self.function(self.cells.index(cell) + 1)
            return serves(*args, **kwargs)

        reached.__name__ = reached.__qualname__ = name
        return reached


def _names(cells: Iterable[Cell]) -> tuple[str, ...]:
    """Give each cell a name of its own, that tells which it is."""
    names: list[str] = []
    for cell in cells:
        name = cell.backend if cell.is_reference else f"{cell.backend}_{cell.variant}"
        names.append(f"rung_{name}" if f"rung_{name}" not in names else f"rung_{name}_{len(names)}")
    return tuple(names)


def _remember(file: str, text: str) -> None:
    """Let tracebacks show the lines of a text that is in no file."""
    import linecache

    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)


class _Writer:
    """Writes the source of a guard; `constants` are the names in it that stand for dtypes and questions."""

    def __init__(self, op: Op, arrays: str, title: str) -> None:
        self.op = op
        self.arrays = arrays
        self.title = title
        self.listed = {p.name: p for p in parameters(op.signature)}
        self.constants: dict[str, Any] = {}
        self.again: set[str] = set()  # the readings that the rung at hand asks for more than once
        self.read: set[str] = set()  # those that have been read wherever one is now

    def text(self, rungs: Sequence[tuple[str, Cell]], odd: str) -> str:
        """Give the source of a function that gives each call to the first of these rungs that accepts it.

        `odd` is the name of the function that finds the rung for arguments with parts that cannot be read.
        """
        asked = [[_reading(c, place) for c in cell.accepts for place in places(c)] for _, cell in rungs]
        doubtful = {
            _reading(c, place) for _, cell in rungs for c in cell.accepts if self._absent(c) for place in places(c)
        }
        lines = [f"def {self.op.name}({self._parameters()}):", f"    # {self.title}", "    try:"]
        for reading in sorted({*filter(None, chain(*asked))}):
            is_shared = sum(reading in mine for mine in asked) > 1
            # What stands behind an `or` may not be read where it is written first.
            if is_shared or (reading in doubtful and any(mine.count(reading) > 1 for mine in asked)):
                name = reading.partition(".")[0]
                absent = f"None if {name} is None else " if self.listed[name].is_optional else ""
                lines.append(f"        {_local(reading)} = {absent}{self._attribute(reading)}")
                self.read.add(reading)
        hoisted = frozenset(self.read)
        is_open, word = True, "if"
        for (name, cell), mine in zip(rungs, asked, strict=True):
            note = f"# {cell.id}" + (f"  ({printable(str(cell.where))})" if cell.where.path else "")
            if not cell.accepts:
                indent = " " * (12 if word == "elif" else 8)
                lines += ["        else:"] if word == "elif" else []
                lines += [f"{indent}{note}", f"{indent}serve = {name}"]
                is_open = False
                break
            self.again = {reading for reading in mine if mine.count(reading) > 1}
            self.read = {*hoisted}
            terms = [self._term(condition) for condition in cell.accepts]
            lines += [f"        {note}", f"        {word} (", f"            {terms[0]}"]
            lines += [f"            and {term}" for term in terms[1:]]
            lines += ["        ):", f"            serve = {name}"]
            word = "elif"
        if is_open:
            lines += ["        else:", "            serve = nobody"]
        call = ", ".join(f"{p.name}={p.name}" if p.kind == "keyword" else p.name for p in self.listed.values())
        lines += [f"    except {_ODD}:", f"        serve = {odd}({call})", f"    return serve({call})", ""]
        return "\n".join(lines)

    def _parameters(self) -> str:
        kinds = [p.kind for p in self.listed.values()]
        parts: list[str] = []
        for index, parameter in enumerate(self.listed.values()):
            if parameter.kind == "keyword" and "keyword" not in kinds[:index]:
                parts.append("*")
            parts.append(parameter.name + ("" if parameter.default is UNSAID else f"={parameter.default!r}"))
            if parameter.kind == "position" and "position" not in kinds[index + 1 :]:
                parts.append("/")
        return ", ".join(parts)

    def _attribute(self, reading: str) -> str:
        name, _, part = reading.partition(".")
        if part == "grad":
            self.constants["records_gradient"] = records_gradient
        return _READ[self.arrays][part].format(name)

    def _value(self, condition: Condition, place: str) -> str:
        """Give the expression for what is at a place."""
        name, part, axis = split(place)
        reading = _reading(condition, place)
        if not reading:
            return name
        value = self._attribute(reading)
        if reading in self.read:
            value = _local(reading)
        elif reading in self.again:
            self.read.add(reading)
            value = f"({_local(reading)} := {value})"
        return f"{value}[{axis}]" if part == "shape" else value

    def _term(self, condition: Condition) -> str:
        if condition.test == "is":
            return f"{condition.place} is {'None' if condition.value == 'none' else 'not None'}"
        absent = "".join(f"{name} is None or " for name in self._absent(condition))
        term = self._question(condition)
        return f"({absent}{term})" if absent else term

    def _absent(self, condition: Condition) -> list[str]:
        """Give the arguments of which a condition asks a part, and that may be None."""
        names = dict.fromkeys(split(place)[0] for place in places(condition) if split(place)[1])
        return [name for name in names if self.listed[name].is_optional]

    def _question(self, condition: Condition) -> str:
        place, test, value = condition.place, condition.test, condition.value
        part = split(place)[1]
        found = self._value(condition, place)
        if test == "in":
            if part in ("contiguous", "grad"):
                return found if False not in value else f"not {found}"
            values = self._dtypes(value) if part == "dtype" else [repr(each) for each in value]
            if len(values) > 1:
                return f"{found} in ({', '.join(values)})"
            return f"{found} == {values[0]}" if values else "False"
        wanted = self._value(condition, value) if isinstance(value, str) else repr(value)
        if test == "multiple_of":
            return f"{found} % {wanted} == 0"
        return f"{found} {_SIGNS[test]} {wanted}"

    def _dtypes(self, names: Iterable[str]) -> list[str]:
        """Give the names in the source of those dtypes that the arrays here can have."""
        library: Any = sys.modules.get(self.arrays)
        found: list[str] = []
        for name in names:
            try:
                dtype = getattr(library, name) if self.arrays == "torch" else library.dtype(name)
            except (AttributeError, TypeError):  # to compare with what is no dtype would be slow
                continue
            self.constants[f"{name}_"] = dtype  # `bool` and others are names of Python
            found.append(f"{name}_")
        return found


def _reading(condition: Condition, place: str) -> str:
    """Give what has to be read of an argument to know what is at a place; "" where that is the argument itself."""
    name, part, _ = split(place)
    if part == "contiguous" and True not in condition.value and False not in condition.value:
        part = LAST
    return f"{name}.{part}" if part else ""


def _local(reading: str) -> str:
    return "_".join(reading.split("."))
