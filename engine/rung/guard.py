"""Guards: one function per op that gives each call to the first rung whose `accepts` fits its arguments.

Owns the code of that function. Must not decide what a condition means (`rung.arguments`), nor in which order rungs come
(`rung.resolve`).

Note [A guard is written out]: the function is generated as source, the way one would write it by hand: whatever is
asked of an argument is read where it is first needed, and once, and the function that was chosen is called behind the
questions, so that what it raises is its own. The source is known to `linecache`, so tracebacks and `inspect.getsource`
show it.

Note [Judged again in words]: the questions of the source are put to arrays of the platform's library. What raises when
it is asked is judged by `rung.arguments`, and so is what the first rung refuses and is no such array: other libraries'
arrays answer some questions with no and without raising, `dtype == float32` for one.

Note [Rungs are bound when they are reached]: the names of the rungs are globals of the function. Each stands for a
function that walks the ladder with the arguments of the call, says what it falls on, and puts the kernel in its own
place. So no rung is imported before a call needs it, and none is asked about twice. One that turns out to be broken
leaves: the function gets new code, without it.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from itertools import chain
from keyword import iskeyword

from rung.arguments import LAST, UNSAID, axes_of, given, parameters, places, records_gradient, split, unfit
from rung.diagnostics import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Final

    from rung.entries import Cell, Condition, Op

__all__ = ["FILE", "Guard"]

FILE: Final = "<rung guard "
"""What the name of the file starts with that the source of a guard is said to be in."""
_READ: Final = {
    "numpy": {
        "dtype": "{0}.dtype", "rank": "{0}.ndim", "shape": "{0}.shape", "size": "{0}.size",
        "contiguous": "{0}.flags.c_contiguous",
        "last": "({0}.flags.c_contiguous or {0}.strides[-1] == {0}.itemsize)",
    },
    "torch": {
        "dtype": "{0}.dtype", "rank": "{0}.ndim", "shape": "{0}.shape", "size": "{0}.numel()",
        "contiguous": "{0}.is_contiguous()",
        "last": "({0}.is_contiguous() or {0}.stride(-1) == 1)",
        "grad": "({0}.requires_grad and {1}({0}))",
    },
}  # fmt: skip
_MISREAD: Final = {"numpy": ("dtype", "size"), "torch": ("dtype",)}
"""What of another library's arrays can be read, and is something else."""
_SIGNS: Final = {"min": ">=", "max": "<=", "equals": "=="}


class Guard:
    """The guard of one request on one platform.

    `cells` are the rungs that stay live, in order. `reach` is called with a call's arguments when the call comes to a
    rung that is not bound yet, or to none. It gives the cell that serves with its function, and the cells that turned
    out to be broken; it raises where nothing may serve.
    """

    def __init__(
        self, op: Op, cells: Sequence[Cell], arrays: str, title: str,
        reach: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Cell, Any, Sequence[Cell]]],
    ) -> None:  # fmt: skip
        self.op = op
        self.arrays = arrays
        self.title = title
        self.reach = reach
        self.lock = allocate_lock()  # while there is new code to be made
        self.writer = _Writer(op, arrays, title)
        self.nobody = self.writer.fresh("nobody")
        self.odd = self.writer.fresh("odd")
        self.rungs = [(self.writer.fresh(_name(cell)), cell) for cell in cells]
        # Without a `__name__`: what traces the function would look for its globals in that module.
        self.scope: dict[str, Any] = {name: self._stand_in(name, cell) for name, cell in self.rungs}
        self.scope[self.nobody] = self._stand_in(self.nobody, None)
        self.scope[self.odd] = self._choose
        self.function: Any = self._made()

    def _made(self) -> Any:
        """Make the function that chooses among the rungs as they are now."""
        text = self.writer.text(self.rungs, self.nobody, self.odd)
        file = f"{FILE}{self.op.name} {hash(text) & 0xFFFFFFFF:08x}>"
        _remember(file, text)
        self.scope.update(self.writer.constants)
        made: dict[str, Any] = {}
        exec(compile(text, file, "exec"), self.scope, made)
        (function,) = made.values()
        function.__doc__ = f"{self.op.summary}\n\nServed by the first rung that accepts the call: {self.title}."
        return function

    def _choose(self, /, *args: Any, **kwargs: Any) -> Any:
        """Give the function for arguments that the source cannot judge; see Note [Judged again in words]."""
        values = given(self.op, args, kwargs)
        fitting = (name for name, cell in self.rungs if not any(unfit(each, values) for each in cell.accepts))
        return self.scope[next(fitting, self.nobody)]

    def _stand_in(self, name: str, cell: Cell | None) -> Callable[..., Any]:
        """Give what stands for a rung until a call reaches it."""

        def reached(*args: Any, **kwargs: Any) -> Any:
            served, serves, broken = self.reach(args, kwargs)
            if served is cell:
                self.scope[name] = serves
            if any(broken_cell is cell for broken_cell in broken):
                with self.lock:
                    self.rungs = [rung for rung in self.rungs if rung[1] is not cell]
                    self.function.__code__ = self._made().__code__
            return serves(*args, **kwargs)

        reached.__name__ = reached.__qualname__ = name
        return reached


def _name(cell: Cell) -> str:
    return f"rung_{cell.backend}" if cell.is_reference else f"rung_{cell.backend}_{cell.variant}"


def _remember(file: str, text: str) -> None:
    """Let tracebacks show the lines of a text that is in no file."""
    import linecache

    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)


class _Writer:
    """Writes the source of a guard; `constants` are the names in it that stand for dtypes and questions.

    No two of its names are equal, and none is an argument's.
    """

    def __init__(self, op: Op, arrays: str, title: str) -> None:
        self.op = op
        self.arrays = arrays
        self.title = title
        self.listed = {p.name: p for p in parameters(op.signature)}
        self.taken = {*self.listed, op.name}
        self.constants: dict[str, Any] = {}
        self.named: dict[str, str] = {}  # what stands for a dtype, a question, or what is read of an argument
        self.often: set[str] = set()  # the readings that are asked for more than once
        self.shared: set[str] = set()  # those of them that several rungs ask for, or that may not be reached
        self.sure: set[str] = set()  # those of them that have been read wherever one is now
        self.first: str | None = None  # what is read first of all

    def fresh(self, wanted: str) -> str:
        """Give a name that stands for nothing else."""
        name = wanted
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def name_of(self, thing: str, value: Any = None) -> str:
        """Give the name that stands for a thing, a constant where it has a value."""
        if thing not in self.named:
            self.named[thing] = self.fresh("_".join(thing.split(".")))
        if value is not None:
            self.constants[self.named[thing]] = value
        return self.named[thing]

    def text(self, rungs: Sequence[tuple[str, Cell]], nobody: str, odd: str) -> str:
        """Give the source of a function that gives each call to the first of these rungs that accepts it.

        `odd` names the function that finds the rung for arguments that cannot be read, `nobody` what stands for none.
        """
        asked = [[*chain(*map(self._readings, cell.accepts))] for _, cell in rungs]
        self.often = {reading for mine in asked for reading in mine if [*chain(*asked)].count(reading) > 1}
        doubtful = {
            _reading(c, place) for _, cell in rungs for c in cell.accepts if self._absent(c) for place in places(c)
        }
        self.shared = {r for r in self.often if r in doubtful or sum(r in mine for mine in asked) > 1}
        asked_of = dict.fromkeys(chain(*(self._misread(c) for _, cell in rungs for c in cell.accepts)))
        call = ", ".join(f"{p.name}={p.name}" if p.kind == "keyword" else p.name for p in self.listed.values())
        serve = self.name_of("serve")
        body: list[str] = []
        certain: set[str] = set()
        self.first = None
        word = "if"
        is_open = True
        for name, cell in rungs:
            note = f"# {cell.id}" + (f"  ({printable(str(cell.where))})" if cell.where.path else "")
            if not cell.accepts:
                margin = " " * (8 if word == "if" else 12)
                body += [] if word == "if" else ["        else:"]
                body += [f"{margin}{note}", f"{margin}{serve} = {name}"]
                is_open = False
                break
            self.sure = {*certain}
            terms = []
            for condition in cell.accepts:
                terms += self._terms(condition)
                if condition is rungs[0][1].accepts[0]:  # what every call is asked
                    self.first = self.first or ""
                    certain = {self.first} & self.sure
            body += [f"        {note}", f"        {word} (", f"            {terms[0]}"]
            body += [f"            and {term}" for term in terms[1:]]
            body += ["        ):", f"            {serve} = {name}"]
            if word == "if" and (foreign := self._foreign(asked_of)):
                body += [f"        elif {foreign}:", f"            {serve} = {odd}({call})"]
            word = "elif"
        if is_open:
            margin = " " * (8 if word == "if" else 12)
            body += [*([] if word == "if" else ["        else:"]), f"{margin}{serve} = {nobody}"]
        unread = sorted(self.name_of(reading) for reading in self.shared - certain)
        head = [f"    {' = '.join(unread)} = None"] if unread else []
        name = self.op.name if not iskeyword(self.op.name) else f"{self.op.name}_"
        lines = [f"def {name}({self._parameters()}):", f"    # {self.title}", *head, "    try:", *body]
        lines += [
            f"    except {self.name_of('Exception', Exception)}:",
            f"        {serve} = {odd}({call})",
            f"    return {serve}({call})",
            "",
        ]
        return "\n".join(lines)

    def _parameters(self) -> str:
        kinds = [p.kind for p in self.listed.values()]
        parts: list[str] = []
        for index, parameter in enumerate(self.listed.values()):
            if parameter.kind == "keyword" and "keyword" not in kinds[:index]:
                parts.append("*")
            parts.append(parameter.name + self._default(parameter.name, parameter.default))
            if parameter.kind == "position" and "position" not in kinds[index + 1 :]:
                parts.append("/")
        return ", ".join(parts)

    def _default(self, name: str, value: Any) -> str:
        if value is UNSAID:
            return ""
        if isinstance(value, float) and value - value != 0:  # an infinity has no literal
            return f"={self.name_of(f'default.{name}', value)}"
        return f"={value!r}"

    def _terms(self, condition: Condition) -> list[str]:
        """Give the expressions for a condition: what is not given fits, and what is no array does not."""
        if condition.test == "is":
            return [f"{condition.place} is {'None' if condition.value == 'none' else 'not None'}"]
        before = {*self.sure}
        has = self.name_of("hasattr", hasattr)
        arrays = [f"{has}({name}, 'dtype')" for name, part in self._parts(condition) if self._may_be_number(name)]
        count = self.name_of("len", len)
        reaching = [
            f"{count}({_bare(self._read(condition, place))}) >= {axes_of(place)}" for place in self._deep(condition)
        ]
        terms = [*arrays, *reaching, self._question(condition)]
        absent = self._absent(condition)
        if not absent:
            return terms
        self.sure = before  # behind an `or`
        given = "".join(f"{name} is None or " for name in absent)
        return [f"({given}{' and '.join(terms)})"]

    def _absent(self, condition: Condition) -> list[str]:
        """Give the arguments a condition asks about that may be None."""
        names = dict.fromkeys(split(place)[0] for place in places(condition))
        return [name for name in names if self.listed[name].is_optional]

    def _parts(self, condition: Condition) -> dict[tuple[str, str], None]:
        """Give the arguments of which a condition asks a part that only arrays have."""
        asked = dict.fromkeys(split(place)[:2] for place in places(condition))
        return {(name, part): None for name, part in asked if part not in ("", "grad")}

    def _misread(self, condition: Condition) -> list[str]:
        """Give the arguments of which a condition asks what another library's arrays answer wrongly."""
        if condition.test == "is":
            return []
        return [name for name, part, _ in map(split, places(condition)) if part in _MISREAD[self.arrays]]

    def _foreign(self, names: Iterable[str]) -> str:
        """Give the expression for one of these arguments being no array of this library; "" where none can be."""
        kind = {"numpy": "ndarray", "torch": "Tensor"}[self.arrays]
        array = getattr(_library(self.arrays), kind, None)
        terms = []
        for name in names if array is not None else ():
            numbers = [each for each in (int, float) if each.__name__ in self.listed[name].types]
            types = [self.name_of(kind, array), *(self.name_of(each.__name__, each) for each in numbers)]
            listed = types[0] if len(types) == 1 else f"({', '.join(types)})"
            is_one = f"{self.name_of('isinstance', isinstance)}({name}, {listed})"
            terms.append(f"({name} is None or {is_one})" if self.listed[name].is_optional else is_one)
        if not terms:
            return ""
        return f"not ({' and '.join(terms)})" if len(terms) > 1 else f"not {terms[0]}"

    def _deep(self, condition: Condition) -> list[str]:
        """Give the places that arrays of fewer axes lack: those are nothing out of the ordinary."""
        return [place for place in places(condition) if split(place)[1] == "shape" and axes_of(place) > 1]

    def _readings(self, condition: Condition) -> list[str]:
        """Give what a condition reads, each as often as it is asked for."""
        if condition.test == "is":
            return []
        readings = [_reading(condition, place) for place in (*places(condition), *self._deep(condition))]
        return [reading for reading in readings if reading]

    def _may_be_number(self, name: str) -> bool:
        return bool({"int", "float", "bool"} & {*self.listed[name].types})

    def _value(self, condition: Condition, place: str) -> str:
        """Give the expression for what is at a place."""
        name, part, axis = split(place)
        if not part:
            return name
        value = self._read(condition, place)
        return f"{value}[{axis}]" if part == "shape" else value

    def _read(self, condition: Condition, place: str) -> str:
        """Give the expression that reads what a place needs, and keeps it where it is asked for again."""
        reading = _reading(condition, place)
        value = self._attribute(reading)
        if reading not in self.often:
            return value
        local = self.name_of(reading)
        if reading in self.sure:
            return local
        self.sure.add(reading)
        is_first = self.first is None
        if is_first:
            self.first = reading
        if reading not in self.shared or is_first:
            return f"({local} := {value})"
        is_ever_false = reading.partition(".")[2] not in ("dtype", "shape")
        return (
            f"({local} if {local} is not None else ({local} := {value}))"
            if is_ever_false
            else f"({local} or ({local} := {value}))"
        )

    def _attribute(self, reading: str) -> str:
        name, _, part = reading.partition(".")
        if part == "grad" and self.arrays == "numpy":
            return "False"
        asks = self.name_of("records_gradient", records_gradient) if part == "grad" else ""
        return _READ[self.arrays][part].format(name, asks)

    def _question(self, condition: Condition) -> str:
        place, test, value = condition.place, condition.test, condition.value
        part = split(place)[1]
        if part == "grad" and self._may_be_number(split(place)[0]):
            return f"not {self.name_of('records_gradient', records_gradient)}({split(place)[0]})"
        found = self._value(condition, place)
        if test == "in":
            if part in ("contiguous", "grad"):
                return found if False not in value else f"not {found}"
            values = self._dtypes(value) if part == "dtype" else [repr(each) for each in value]
            if len(values) > 1:
                return f"{found} in ({', '.join(values)})"
            return f"{found} == {values[0]}" if values else "False"
        wanted = self._value(condition, value) if len(places(condition)) > 1 else repr(value)
        if test == "multiple_of":
            if wanted in self.listed:  # numpy's own zero divides without an error
                return f"({found} % {wanted} == 0 if {wanted} else {found} == 0)"
            return f"{found} % {wanted} == 0"
        return f"{found} {_SIGNS[test]} {wanted}"

    def _dtypes(self, names: Iterable[str]) -> list[str]:
        """Give the names in the source of those dtypes that the arrays here can have."""
        library = _library(self.arrays)
        found: list[str] = []
        for name in names:
            try:
                dtype = getattr(library, name) if self.arrays == "torch" else library.dtype(name)
            except (AttributeError, TypeError):  # to compare with what is no dtype would be slow
                continue
            found.append(self.name_of(f"{name}_", dtype))
        return found


def _library(arrays: str) -> Any:
    """Give the callers' array library; None where it is not installed, so nobody holds its arrays."""
    try:
        __import__(arrays)
    except ImportError:
        return None
    return sys.modules[arrays]


def _bare(expression: str) -> str:
    """Give an expression without the parentheses around it."""
    return expression[1:-1] if expression.startswith("(") else expression


def _reading(condition: Condition, place: str) -> str:
    """Give what has to be read of an argument to know what is at a place; "" where that is the argument itself."""
    name, part, _ = split(place)
    if part == "contiguous" and LAST in condition.value:
        part = LAST
    return f"{name}.{part}" if part else ""
