"""Records: frozen classes with slots, declared as dataclasses are.

Owns the decorator, `field` and `replace`. Knows nothing of what a record is for.

Note [Records, not dataclasses]: `dataclasses` imports `inspect`, which takes longer than starting Python does, and
compiles an `__init__` for each class. The runtime half imports neither, and nothing else that is heavy: where a type
is all that is wanted of a module, it is imported under `TYPE_CHECKING`, which is no constant of `typing`'s there, for
that module is as heavy. To a type checker a record is a frozen dataclass.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Signature
    from typing import Any, TypeVar, dataclass_transform

    T = TypeVar("T")
else:

    def dataclass_transform(**_):
        """Say nothing at run time."""
        return lambda decorator: decorator


__all__ = ["field", "fields", "is_record", "maker", "record", "replace"]


class _Made:
    """A default that is made anew for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """Give a default that is made anew for each record."""
    return _Made(default_factory)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class with the annotated attributes as its slots, constructor arguments, value and representation.

    A method that the class has itself is kept. Records are not derived from records.
    """
    body = dict(vars(cls))
    names = tuple(cls.__annotations__)
    defaults = {name: body.pop(name) for name in names if name in body}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body = {**_METHODS, **body, "__slots__": names, "__match_args__": names, "__defaults__": defaults}
    made: Any = type(cls.__name__, cls.__bases__, body)
    made.__assign__ = tuple(vars(made)[name].__set__ for name in names)
    return made  # type: ignore[no-any-return]


def fields(of: object) -> tuple[str, ...]:
    """Give the names of the fields of a record, or of its class, in order."""
    return of.__match_args__  # type: ignore[attr-defined, no-any-return]


def maker(of: type[T]) -> Callable[..., T]:
    """Give a function that makes records of a class from all their values, in order, three times as fast.

    It compiles code for that, which pays where there are hundreds of them. What it fills in is a twin whose attributes
    can be assigned, and that then becomes the record.
    """
    names = fields(of)
    lines = [f"def make({', '.join(names)}):", " made = twin()", *(f" made.{name} = {name}" for name in names)]
    scope: dict[str, Any] = {"twin": type(of.__name__, of.__bases__, {"__slots__": names}), "of": of}
    exec("\n".join([*lines, " made.__class__ = of", " return made"]), scope)
    return scope["make"]  # type: ignore[no-any-return]


def is_record(value: object) -> bool:
    """Say whether a value is a record."""
    return hasattr(value, "__assign__")


def replace(of: T, **changes: Any) -> T:
    """Give a record like this one in which some fields are others."""
    kept = {name: getattr(of, name) for name in fields(of) if name not in changes}
    return type(of)(**kept, **changes)


def _init(self: Any, *args: Any, **kwargs: Any) -> None:
    assign = self.__assign__
    if kwargs or len(args) != len(assign):
        args = _complete(type(self), args, kwargs)
    for put, value in zip(assign, args):  # noqa: B905 - of equal length, and this is how every cell is made
        put(self, value)


def _complete(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Give the values of all fields in order, as a function with these parameters would take them."""
    names, name = fields(cls), cls.__name__
    if len(args) > len(names):
        raise TypeError(f"{name} takes {len(names)} values, and {len(args)} are given")
    given = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key in given or key not in names:
            raise TypeError(f"{name} got {f'`{key}` twice' if key in given else f'an unexpected `{key}`'}")
        given[key] = value
    for key, default in cls.__defaults__.items():
        if key not in given:
            given[key] = default.make() if isinstance(default, _Made) else default
    missing = [f"`{key}`" for key in names if key not in given]
    if missing:
        raise TypeError(f"{name} needs {', '.join(missing)}")
    return tuple(given[key] for key in names)


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in fields(self))


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    inner = ", ".join(f"{name}={value!r}" for name, value in zip(fields(self), _values(self), strict=True))
    return f"{type(self).__qualname__}({inner})"


def _getstate(self: Any) -> tuple[Any, ...]:
    return _values(self), getattr(self, "__dict__", None)


def _setstate(self: Any, state: tuple[Any, ...]) -> None:
    values, more = state
    for put, value in zip(self.__assign__, values, strict=True):
        put(self, value)
    if more:
        self.__dict__.update(more)


def _setattr(self: Any, name: str, value: Any) -> None:
    """Set what a class that was derived from a record has besides."""
    _refuse(self, name)
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    _refuse(self, name)
    object.__delattr__(self, name)


def _refuse(self: Any, name: str) -> None:
    if name in fields(self) or not hasattr(self, "__dict__"):
        raise AttributeError(f"`{name}` cannot be changed: a {type(self).__name__} is frozen")


class _Signature:
    """The signature of the constructor, for who inspects it."""

    def __get__(self, _: object, cls: Any) -> Signature | None:
        if cls.__init__ is not _init:
            return None  # one of its own, which is inspected as usual
        from inspect import Parameter, Signature

        kind, empty = Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty
        default = {n: d.make() if isinstance(d, _Made) else d for n, d in cls.__defaults__.items()}
        declared = next(base for base in cls.__mro__ if "__defaults__" in vars(base))
        notes = {name: declared.__annotations__[name] for name in fields(cls)}
        return Signature(
            [Parameter(n, kind, default=default.get(n, empty), annotation=note) for n, note in notes.items()]
        )


_METHODS = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
    "__replace__": replace,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__signature__": _Signature(),
}
