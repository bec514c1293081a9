"""The child process of `rung check --imports`: it imports what it is told to, and says what it found.

Owns one end of the protocol: a request as JSON on standard input, one JSON list per line on what was standard output.
It announces every step before it takes it, so that the parent knows which one it died of. Everything that is imported
here finds its standard streams closed. What may be bound is for `rung.bind`; parameters are told, and judged by the
parent. It is run by its path, for importing `rung.audit` would take longer than all the rest.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from rung.bind import bind, home
from rung.diagnostics import BindError, shorten
from rung.facts import Unknown
from rung.probes import live_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from rung.facts import Facts

__all__ = ["main"]

Event = tuple[Any, ...]

_MAX_PARAMETERS: Final = 256
"""Parameters of a function that are told; one with more is not judged."""
_MAX_NAME: Final = 200
"""Letters of a parameter's name, and of a default, that are told."""
_MAX_BITS: Final = 64
_NAME_OF: Final = type.__dict__["__name__"].__get__
"""Gives the name of a class, whatever its metaclass says of it."""


def main() -> None:
    """Serve one request and end the process, whatever threads the modules have started."""
    request = json.load(sys.stdin.buffer)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    for name, directory in request["own"].items():  # found where this program lies, whatever else has its name
        sys.path[:] = [directory, *request["path"]]
        _import(name)
    sys.path[:] = request["path"]
    facts = live_facts(request["detectors"], request["all_roots"])

    def say(*event: Any) -> None:
        out.write("\n" + json.dumps([request["token"], *event]) + "\n")  # whatever else is written to it
        out.flush()

    for job, (module, names) in enumerate(request["jobs"]):
        say("module", job)
        with _surroundings():
            failure = _import(module)
            if failure is not None:
                say("failed", job, *failure)
                continue
            for name, roles in names:
                say("name", job, name)
                try:
                    for event, *rest in _judged(f"{module}:{name}", request["roots"], roles, facts):
                        say(event, job, name, *rest)
                except BaseException as error:  # an object may raise whatever it is asked
                    kind = shorten(_kind_of(error), 30)
                    say("found", job, name, "RG505", f"looking at `{shorten(name, 24)}` raised {kind}: {_text(error)}")
    say("over")
    os._exit(0)


@contextmanager
def _surroundings() -> Iterator[None]:
    """Give the next module what this one was given: imports that work as they did, from the same directory."""
    path, finders, hooks = [*sys.path], [*sys.meta_path], [*sys.path_hooks]
    place, depth = ".", sys.getrecursionlimit()
    with suppress(OSError):  # it may be gone
        place = os.getcwd()  # noqa: PTH109 - no object of a module is asked
    try:
        yield
    finally:
        sys.path, sys.meta_path, sys.path_hooks = path, finders, hooks
        with suppress(OSError):
            os.chdir(place)
        with suppress(RecursionError):
            sys.setrecursionlimit(depth)


def _import(module: str) -> tuple[str, str, str] | None:
    """Import a module. Of a failure give the kind, the text, and the top-level module that it lacked, if any."""
    try:
        importlib.import_module(module)
    except BaseException as error:  # SystemExit too
        return _failure(error)
    return None


def _failure(error: BaseException) -> tuple[str, str, str]:
    lacked = ""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, ModuleNotFoundError) and cause.name:
            lacked = str(cause.name).partition(".")[0]
        cause = cause.__cause__ or cause.__context__
    return _kind_of(error), _text(error), lacked


def _kind_of(value: object) -> str:
    return str(_NAME_OF(type(value)))


def _text(value: object) -> str:
    """Give a text of anything, even of what has none."""
    try:
        return " ".join(str(value).split())[:1000]
    except BaseException as error:
        return f"(its text raised {type(error).__name__})"


def _judged(path: str, roots: Collection[str], roles: Collection[str], facts: Facts) -> Iterator[Event]:
    """Bind a path, judge it for each role it has, tell its parameters, and ask it when it is a probe."""
    module, _, name = path.partition(":")
    try:
        found = bind(path, roots)
    except BindError as error:
        yield "found", *_refusal(error, module, name)
        return
    except BaseException as error:
        yield "found", "RG505", f"getting `{shorten(name, 24)}` raised {shorten(_kind_of(error), 30)}: {_text(error)}"
        return
    fault = next(filter(None, (_kind(found, role) for role in roles)), "")
    if fault:
        yield "found", "RG504", f"`{shorten(name, 30)}` is {fault}, not a function"
        return
    told, takes_facts = _parameters(found)
    if told is not None:
        yield "parameters", told
    if "probe" in roles and takes_facts:
        yield ("probe",)
        yield from _asked(found, name, facts)


def _parameters(found: Any) -> tuple[list[list[Any]] | None, bool]:
    """Give the parameters of a function as data, None where they are not known, and whether one argument will do."""
    try:
        signature = inspect.signature(found)
        parameters = [*signature.parameters.values()]
        told = [*map(_packed, parameters)] if len(parameters) <= _MAX_PARAMETERS else None
        return told, _takes_one(signature)
    except BaseException:  # written in C, or with a `__signature__` that is none
        return None, True


def _refusal(error: BindError, module: str, name: str) -> tuple[str, str]:
    """Say which rule a path breaks that `bind` refuses."""
    if error.__cause__ is not None:
        kind, text, _ = _failure(error.__cause__)
        return "RG505", f"getting `{shorten(name, 24)}` raised {shorten(kind, 30)}: {text}"
    missing = object()
    found = getattr(sys.modules.get(module), name, missing)
    if found is missing:
        return "RG502", f"module `{shorten(module, 30)}` does not define `{shorten(name, 20)}`"
    if not callable(found):
        return "RG504", f"`{shorten(name, 30)}` is of type {shorten(_kind_of(found), 20)}, not a function"
    return "RG803", f"`{shorten(name, 18)}` is really from `{shorten(home(found), 20)}`, which is not allowed"


def _kind(found: Any, role: str) -> str:
    if inspect.isclass(found):
        gives_instances = type(found).__call__ is type.__call__ and found.__new__ is object.__new__
        return "a class" if role != "builder" and gives_instances else ""
    if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
        return "a coroutine"
    return "a generator" if inspect.isgeneratorfunction(found) and role not in ("cases", "detect") else ""


def _packed(parameter: inspect.Parameter) -> list[Any]:
    """Give a parameter as data: its name, its kind, and its default where it has one, None for one not to be told."""
    name, kind, default = parameter.name, int(parameter.kind), parameter.default
    if type(name) is not str or len(name) > _MAX_NAME:
        raise ValueError("no name of a parameter")
    if default is inspect.Parameter.empty:
        return [name, kind]
    return [name, kind, [default] if _is_small(default) else None]


def _is_small(default: object) -> bool:
    """Say whether a default is of the kinds that are compared, and no more than anybody writes."""
    if type(default) is str:
        return len(default) <= _MAX_NAME
    return type(default) in (bool, float, type(None)) or (type(default) is int and default.bit_length() <= _MAX_BITS)


def _takes_one(signature: inspect.Signature) -> bool:
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def _asked(probe: Callable[[Facts], Any], name: str, facts: Facts) -> Iterator[Event]:
    """Ask a probe of a manifest, as the engine would."""
    shown = f"probe `{shorten(name, 24)}`"
    try:
        answer = probe(facts)
        if answer is None or isinstance(answer, bool | Unknown):
            return
        said = shorten(_text(repr(answer)), 16)
    except BaseException as error:
        yield "found", "RG606", f"{shown} raised {shorten(_kind_of(error), 30)}: {_text(error)}"
        return
    yield "found", "RG606", f"{shown} answered {said}, not True, False or None"


if __name__ == "__main__":
    main()
