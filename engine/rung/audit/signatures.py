"""Whether a function takes every call that is made of it.

Owns signatures as values, made from a stub or from source, and the comparison. Runs nothing.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

from rung.diagnostics import closest, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PLAIN", "UNREAD", "misfit", "names_of", "shown", "signature_of", "stub", "without_first"]

UNREAD: Final = object()
"""A default that is no plain value: it is there, and not compared."""

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
PLAIN: Final = (bool, int, float, str, type(None))
"""The types of the defaults that are compared."""


@lru_cache(maxsize=1024)
def stub(text: str) -> Signature:
    """Give the signature that a stub such as `(x: array, *, causal: bool = False) -> array` stands for."""
    (function,) = ast.parse(f"def op{text}: ...").body
    assert isinstance(function, ast.FunctionDef)
    return signature_of(function)


def signature_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, *, plain: bool = False) -> Signature:
    """Give the signature of a function in source; with `plain` only with the defaults that are compared."""

    def value(default: ast.expr | None) -> Any:
        found = _value(default)
        return found if not plain or found is Parameter.empty or isinstance(found, PLAIN) else UNREAD

    arguments = node.args
    listed = [*((a, _POSITIONAL[0]) for a in arguments.posonlyargs), *((a, _POSITIONAL[1]) for a in arguments.args)]
    defaults: list[ast.expr | None] = [None] * (len(listed) - len(arguments.defaults)) + [*arguments.defaults]
    out = [Parameter(a.arg, kind, default=value(d)) for (a, kind), d in zip(listed, defaults, strict=True)]
    if arguments.vararg is not None:
        out.append(Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        out.append(Parameter(argument.arg, Parameter.KEYWORD_ONLY, default=value(default)))
    if arguments.kwarg is not None:
        out.append(Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD))
    return Signature(out, __validate_parameters__=False)


def without_first(signature: Signature) -> Signature:
    """Give the signature of a method as it is called: without its first parameter."""
    parameters = [*signature.parameters.values()]
    if parameters and parameters[0].kind in _POSITIONAL:
        del parameters[0]
    return Signature(parameters, __validate_parameters__=False)


def _value(node: ast.expr | None) -> Any:
    if node is None:
        return Parameter.empty
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return UNREAD


def names_of(signature: Signature) -> tuple[str, ...]:
    """Give the names of the parameters, in order."""
    return tuple(signature.parameters)


def shown(signature: Signature) -> str:
    """Give a signature without types, to be read; parameters that go by position alone are not marked."""
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if parameter.default is Parameter.empty else f"={parameter.default!r}"
        parts.append(f"{parameter.name}{default}")
    return f"({', '.join(parts)})"


def misfit(wanted: Signature, given: Signature, name: str) -> str:
    """Say why the function `name` of signature `given` does not take every call `wanted` allows; "" if it does."""
    return next(_misfits(wanted, given, f"`{shorten(name, 16)}`"), "")


def _misfits(wanted: Signature, given: Signature, name: str) -> Iterator[str]:
    positions = [p for p in given.parameters.values() if p.kind in _POSITIONAL]
    kinds = {p.kind for p in given.parameters.values()}
    star, stars = Parameter.VAR_POSITIONAL in kinds, Parameter.VAR_KEYWORD in kinds
    called = [p for p in wanted.parameters.values() if p.kind in _POSITIONAL]
    matched: set[str] = set()
    for index, parameter in enumerate(called):
        shown_name = f"`{shorten(parameter.name, 20)}`"
        own = positions[index] if index < len(positions) else None
        if own is None:
            twin = given.parameters.get(parameter.name)
            if not star:
                if twin is not None and twin.kind is Parameter.KEYWORD_ONLY:
                    yield f"{name} takes {shown_name} by keyword only"
                elif parameter.kind is Parameter.POSITIONAL_ONLY:
                    yield f"{name} takes {len(positions)} of {len(called)} arguments: no place for {shown_name}"
                else:
                    yield f"{name} has no parameter {shown_name}"
            elif parameter.kind is not Parameter.POSITIONAL_ONLY and not stars and twin is None:
                yield f"{name} does not take {shown_name} by name"
            continue
        matched.add(own.name)
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
            if own.name != parameter.name:
                if parameter.name in given.parameters or own.name in wanted.parameters:
                    yield f"{name} has `{shorten(own.name, 16)}` where the op has `{shorten(parameter.name, 16)}`"
                else:
                    theirs, ours = shorten(parameter.name, 16), shorten(own.name, 16)
                    yield f"{name} calls parameter {index + 1} `{ours}`, not `{theirs}`"
                continue
            if own.kind is Parameter.POSITIONAL_ONLY:
                yield f"{name} takes {shown_name} by position only"
                continue
        yield from _defaults(parameter, own, name)
    for parameter in wanted.parameters.values():
        if parameter.kind is not Parameter.KEYWORD_ONLY:
            continue
        by_name = given.parameters.get(parameter.name)
        if by_name is None or by_name.kind not in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            if not stars:
                near = closest(parameter.name, set(given.parameters) - set(wanted.parameters))
                instead = f", only `{shorten(near, 16)}`" if near else ""
                yield f"{name} has no parameter `{shorten(parameter.name, 16)}`{instead}"
            continue
        matched.add(parameter.name)
        yield from _defaults(parameter, by_name, name)
    for parameter in given.parameters.values():
        required = parameter.default is Parameter.empty and parameter.kind in (*_POSITIONAL, Parameter.KEYWORD_ONLY)
        if required and parameter.name not in matched:
            yield f"{name} requires `{shorten(parameter.name, 20)}`, which it is not given"


def _defaults(wanted: Parameter, own: Parameter, name: str) -> Iterator[str]:
    """What may be left out must be so here too, and then mean the same."""
    if wanted.default is Parameter.empty:
        return
    shown_name = f"`{shorten(wanted.name, 20)}`"
    if own.default is Parameter.empty:
        yield f"{shown_name} has a default, and none in {name}"
    elif isinstance(wanted.default, PLAIN) and isinstance(own.default, PLAIN) and wanted.default != own.default:
        values = f"{shorten(repr(own.default), 10)}, not {shorten(repr(wanted.default), 10)}"
        yield f"`{shorten(wanted.name, 16)}` of {name} defaults to {values}"
