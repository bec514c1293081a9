"""Calls in another process, under environment variables that decide something when a module is first imported.

Triton is such a module: it interprets or compiles, and which of them is settled for the process once it is imported.
"""

from __future__ import annotations

import importlib
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

__all__ = ["Aside", "assign"]


class Aside:
    """A process with environment variables of its own, None for one that it has not; it starts with the first call."""

    def __init__(self, **variables: str | None) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _prepare, (variables,))

    def call(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Call `module:function` there and give what it gives, or raise what it raises.

        Tensors arrive with the strides they have. An argument that is changed is an error.
        """
        # Pickled here and now: pools share the memory of tensors instead, and with it the changes.
        return pickle.loads(self._pool.submit(_answer, pickle.dumps((path, args, kwargs))).result())

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


def assign(module: str, name: str, value: Any) -> Any:
    """Give a name of a module another value, and return the one it had; for calls."""
    names = vars(importlib.import_module(module))
    before, names[name] = names[name], value
    return before


def _prepare(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _answer(request: bytes) -> bytes:
    path, args, kwargs = pickle.loads(request)
    module, _, name = path.partition(":")
    before = pickle.dumps((args, kwargs))
    result = getattr(importlib.import_module(module), name)(*args, **kwargs)
    assert pickle.dumps((args, kwargs)) == before, f"{path} changed an argument"
    return pickle.dumps(result)
