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

_TOLD: Final = (bool, int, float, str, type(None))
"""The types of the defaults that are told."""


def main() -> None:
    """Serve one request and end the process, whatever threads the modules have started."""
    request = json.load(sys.stdin.buffer)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.path[:] = request["path"]
    facts = live_facts(request["detectors"], request["all_roots"])

    def say(*event: Any) -> None:
        out.write(json.dumps([request["token"], *event]) + "\n")
        out.flush()

    for job, (module, names) in enumerate(request["jobs"]):
        say("module", job)
        failure = _import(module)
        if failure is not None:
            say("failed", job, *failure)
            continue
        for name, roles in names:
            say("name", job, name)
            for event, *rest in _judged(f"{module}:{name}", request["roots"], roles, facts):
                say(event, job, name, *rest)
    say("over")
    os._exit(0)


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
    return type(error).__name__, _text(error), lacked


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
        yield (
            "found",
            "RG505",
            f"getting `{shorten(name, 24)}` raised {shorten(type(error).__name__, 30)}: {_text(error)}",
        )
        return
    fault = next(filter(None, (_kind(found, role) for role in roles)), "")
    if fault:
        yield "found", "RG504", f"`{shorten(name, 30)}` is {fault}, not a function"
        return
    takes_facts = True
    try:
        signature = inspect.signature(found)
        yield "parameters", [_packed(parameter) for parameter in signature.parameters.values()]
        takes_facts = _takes_one(signature)
    except Exception:  # written in C, or with a `__signature__` that raises
        pass
    if "probe" in roles and takes_facts:
        yield ("probe",)
        yield from _asked(found, name, facts)


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
        return "RG504", f"`{shorten(name, 30)}` is of type {shorten(type(found).__name__, 20)}, not a function"
    return "RG803", f"`{shorten(name, 18)}` is really from `{shorten(home(found), 20)}`, which is not allowed"


def _kind(found: Any, role: str) -> str:
    if inspect.isclass(found):
        return "" if role == "builder" else "a class"
    if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
        return "a coroutine"
    return "a generator" if inspect.isgeneratorfunction(found) and role not in ("cases", "detect") else ""


def _packed(parameter: inspect.Parameter) -> list[Any]:
    """Give a parameter as data: its name, its kind, and its default where it has one, None for one not to be told."""
    packed: list[Any] = [str(parameter.name), int(parameter.kind)]
    if parameter.default is inspect.Parameter.empty:
        return packed
    return [*packed, [parameter.default] if type(parameter.default) in _TOLD else None]


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
        yield "found", "RG606", f"{shown} raised {shorten(type(error).__name__, 30)}: {_text(error)}"
        return
    yield "found", "RG606", f"{shown} answered {said}, not True, False or None"


if __name__ == "__main__":
    main()
