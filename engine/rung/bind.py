"""From a dotted path to an object.

Owns the grammar `module:name`, the allow-list check, and the objects registered from Python. Imports what it is
told to and nothing of rung's upper layers.
"""

from __future__ import annotations

import sys

from rung.diagnostics import BindError, closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from importlib.machinery import ModuleSpec
    from typing import Any

__all__ = ["LOCAL", "bind", "home", "is_installed", "parse", "provide", "root_of", "spec_of", "withdraw"]

LOCAL = "local"
"""The root of paths that stand for objects registered from Python instead of importable ones."""

_local: dict[str, Any] = {}


def parse(path: str) -> tuple[str, str]:
    """Split `module:name`; raise ValueError when it is not one plain identifier after one colon."""
    module, _, name = path.partition(":")
    if not (path.isascii() and all(part.isidentifier() for part in (*module.split("."), name)) and name[0] != "_"):
        raise ValueError(f"`{path}` is not of the form `package.module:name` with one public name after the colon")
    return module, name


def root_of(path: str) -> str:
    """Give the top-level package of a dotted path."""
    return path.partition(":")[0].partition(".")[0]


def home(found: object) -> str:
    """Give the module an object says it lives in: its own, else its type's; of a partial, its function's."""
    partial = getattr(sys.modules.get("functools"), "partial", ())  # where nobody imported it, this is none
    while isinstance(found, partial):
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


def spec_of(name: str) -> ModuleSpec | None:
    """Find a top-level module without importing it, None where there is none.

    It asks the finders as `importlib.util.find_spec` does, which takes longer to import than anything is to find.
    Raise ValueError for one that is imported and was made by hand, without a spec.
    """
    if name in sys.modules:
        known = sys.modules[name]
        spec: ModuleSpec | None = getattr(known, "__spec__", None)
        if spec is None and known is not None:  # None stands for a module that somebody blocked
            raise ValueError(f"{name}.__spec__ is not set")
        return spec
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    found = (find(name, None, None) for find in finders if find is not None)
    return next((spec for spec in found if spec is not None), None)


def is_installed(path: str) -> bool:
    """Say whether the top-level package of a path is there. Imports nothing, and says yes when it cannot tell."""
    root = root_of(path)
    if root in sys.modules or root == LOCAL:
        return sys.modules.get(root, path) is not None
    try:
        return spec_of(root) is not None
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
        __import__(module_name)
        module = sys.modules[module_name]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an import may raise anything, and a broken rung must not end the program
        raise BindError(f"importing `{module_name}` raised {type(error).__name__}: {error}") from error
    try:
        found = getattr(module, name)
    except AttributeError:
        near = closest(name, (public for public in [*vars(module)] if not public.startswith("_")))
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
