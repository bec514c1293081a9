"""From a dotted path to an object.

Owns the grammar `module:name`, the allow-list check, and the objects registered from Python. Imports what it is
told to and nothing of rung's upper layers.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from typing import TYPE_CHECKING, Any

from rung.diagnostics import BindError, closest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["LOCAL", "bind", "home", "is_installed", "parse", "provide", "root_of", "withdraw"]

LOCAL = "local"
"""The root of paths that stand for objects registered from Python instead of importable ones."""

_local: dict[str, Any] = {}

_PATH = re.compile(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*):([A-Za-z][A-Za-z0-9_]*)", re.ASCII)


def parse(path: str) -> tuple[str, str]:
    """Split `module:name`; raise ValueError when it is not one plain identifier after one colon."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise ValueError(f"`{path}` is not of the form `package.module:name` with one public name after the colon")
    return match.group(1), match.group(2)


def root_of(path: str) -> str:
    """Give the top-level package of a dotted path."""
    return path.partition(":")[0].partition(".")[0]


def home(found: object) -> str:
    """Give the module an object says it lives in: its own, else its type's; of a partial, its function's."""
    while isinstance(found, functools.partial):
        found = found.func
    module = getattr(found, "__module__", None)
    return module if isinstance(module, str) else type(found).__module__


def provide(name: str, found: Any) -> str:
    """Make an object bindable under a path of its own, and give that path."""
    if not callable(found):
        raise BindError(f"{found!r} is of type {type(found).__name__}, not a function")
    path = f"{LOCAL}:{name}"
    _local[path] = found
    return path


def withdraw(paths: Iterable[str]) -> None:
    """Forget objects that were provided."""
    for path in paths:
        _local.pop(path, None)


def is_installed(path: str) -> bool:
    """Say whether the top-level package of a path is there. Imports nothing, and says yes when it cannot tell."""
    root = root_of(path)
    if root in sys.modules or root == LOCAL:
        return sys.modules.get(root, path) is not None
    try:
        return importlib.util.find_spec(root) is not None
    except Exception:
        return True


def bind(path: str, roots: Collection[str]) -> Any:
    """Import the callable at `path`; raise BindError with the cause chained.

    `roots` are the top-level packages that may be bound. The object's own module must lie under one of
    them too, so that `pkg.mod:system` does not reach `os` through an import in `pkg.mod`.
    """
    if path in _local and LOCAL in roots:
        return _local[path]
    try:
        module_name, name = parse(path)
    except ValueError as error:
        raise BindError(str(error)) from None
    root = root_of(module_name)
    if root not in roots:
        raise BindError(f"package `{root}` is not allowed: pass allow=[{root!r}] where the manifest is loaded")
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an import may raise anything, and a broken rung must not end the program
        raise BindError(f"importing `{module_name}` raised {type(error).__name__}: {error}") from error
    try:
        found = getattr(module, name)
    except AttributeError:
        near = closest(name, (public for public in vars(module) if not public.startswith("_")))
        hint = f"; did you mean `{near}`?" if near else ""
        raise BindError(f"module `{module_name}` has no `{name}`{hint}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module's own __getattr__ imports what it is asked for
        raise BindError(f"getting `{name}` of `{module_name}` raised {type(error).__name__}: {error}") from error
    if not callable(found):
        raise BindError(f"`{path}` is {type(found).__name__}, not a function")
    if root_of(home(found)) not in roots:
        raise BindError(
            f"`{path}` is really from `{home(found)}`, which is outside the allowed packages; "
            f"define a function in `{module_name}` that calls it"
        )
    return found
