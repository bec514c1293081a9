"""Testing kernels: comparisons for tests of one's own, and arguments to draw.

Owns the public names; `rung.testing.plugin` is the plugin of pytest. Importing this imports nothing but rung: numpy,
Hypothesis and pytest are imported by what needs them, when it is called.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rung.testing.assertions import assert_close, assert_parity
    from rung.testing.strategies import arguments

__all__ = ["arguments", "assert_close", "assert_parity"]

_LATER = {
    "arguments": "rung.testing.strategies",
    "assert_close": "rung.testing.assertions",
    "assert_parity": "rung.testing.assertions",
}


def __getattr__(name: str) -> Any:
    from sys import modules

    if name not in _LATER:
        raise AttributeError(f"module `rung.testing` has no `{name}`")
    __import__(_LATER[name])
    found = globals()[name] = getattr(modules[_LATER[name]], name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
