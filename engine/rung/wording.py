"""What authors write for what is meant: keys that were renamed, keys of other systems, keys that are refused.

Owns these words and the hints they lead to. Which keys are legal where is for `rung.models`: a word counts only where
what it stands for is legal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rung.diagnostics import closest, did_you_mean, shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["former", "hint_for_key", "meant", "meant_value", "module_condition", "trusting"]

_FORMER: Final[Mapping[str, tuple[str, ...]]] = {
    "available": ("when", "requires"),
    "source": ("impl",),
}
"""Keys that were renamed, with what each is called now: the first that is legal in its place."""

_SYNONYMS: Final[Mapping[str, str]] = {
    "and": "all",
    "architecture": "arch",
    "array": "arrays",
    "array_library": "arrays",
    "base": "extends",
    "builder": "impl",
    "callable": "impl",
    "capability": "arch",
    "class": "impl",
    "compute_capability": "arch",
    "condition": "when requires",
    "conditions": "when requires",
    "cpu_flags": "cpu",
    "depends": "requires",
    "desc": "summary",
    "description": "summary",
    "doc": "summary",
    "entry_point": "impl",
    "entrypoint": "impl",
    "env_var": "env",
    "fall_back": "falls_back_to",
    "fallback": "falls_back_to fall",
    "fallback_to": "falls_back_to",
    "family_of": "family",
    "flags": "cpu features",
    "flavor": "variant",
    "flavour": "variant",
    "framework": "arrays",
    "function": "impl",
    "func": "impl",
    "fn": "impl",
    "handler": "impl",
    "hardware": "device",
    "if": "when requires",
    "implementation": "impl",
    "import": "module",
    "inherits": "extends",
    "install": "hint",
    "kernel": "kernels impl",
    "library": "arrays module",
    "model": "kinds",
    "name": "backend variant",
    "needs": "requires when",
    "operator": "ops",
    "operators": "ops",
    "or": "any",
    "os_name": "os",
    "package": "module",
    "parent": "extends",
    "parity": "tolerance",
    "platform": "device",
    "predicate": "when use requires",
    "prerequisites": "requires when",
    "reference_impl": "reference",
    "require": "requires when",
    "requires": "when",
    "runs_on": "device",
    "sm": "arch",
    "system": "os",
    "target": "arch",
    "targets": "arch",
    "tensors": "arrays",
    "test_cases": "cases",
    "title": "summary",
    "tol": "tolerance",
    "version": "manifest",
    "when": "requires",
    "workspace": "workspace_bytes",
}
"""Keys of other systems, with the keys here that they may mean: the first that is legal in its place."""

_VALUES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("bf16", "bfloat"), "bfloat16"),
    **dict.fromkeys(("fp16", "f16", "half"), "float16"),
    **dict.fromkeys(("fp32", "f32", "float", "single"), "float32"),
    **dict.fromkeys(("fp64", "f64", "double"), "float64"),
    **dict.fromkeys(("binary", "cubin", "hsaco", "sass", "machine"), "native"),
    **dict.fromkeys(("jit", "src"), "source"),
    **dict.fromkeys(("ignore", "ok", "silent", "none"), "allow"),
    **dict.fromkeys(("info", "log"), "note"),
    **dict.fromkeys(("fail", "raise", "fatal", "deny", "forbid"), "error"),
}
"""Other words for members of closed sets."""

_NO_PRIORITY: Final = "nothing has a priority: order comes from the lattice and from chains of variants"
_NO_DTYPE: Final = "no cell is chosen by dtype: let the function handle it, or give it a `variant` of its own"
_NO_INCLUDE: Final = "a directory is read as a whole, and no file includes another"
_EXPLAINED: Final[Mapping[str, str]] = {
    "priority": _NO_PRIORITY,
    "order": _NO_PRIORITY,
    "rank": _NO_PRIORITY,
    "weight": _NO_PRIORITY,
    "dtype": _NO_DTYPE,
    "dtypes": _NO_DTYPE,
    "include": _NO_INCLUDE,
    "includes": _NO_INCLUDE,
    "description": "write it as a comment: `# ...`",
    "summary": "write it as a comment: `# ...`",
}
"""Keys that have no counterpart where they were written, and why."""

_TRUSTING: Final = re.compile(
    r"((allow|trust|permit|whitelist)(s|ed|ted)?(list|roots?|packages?|modules?|imports?)?|roots?|packages)"
)
_SPECIFIER: Final = re.compile(r"\s*(===|[<>=!~]=|[<>])\s*[0-9]")
_MODULE: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*((?:===|[<>=!~]=|[<>])\s*[0-9].*?)\s*", re.ASCII)


def former(key: str, legal: Collection[str]) -> str | None:
    """Give what a renamed key is called now; None when `key` is none, or its new name not legal here."""
    return next((name for name in _FORMER.get(key, ()) if name in legal), None)


def meant(key: str, legal: Collection[str]) -> str | None:
    """Give the legal key that an illegal one is probably meant as: renamed, another word for it, or misspelt."""
    return _another_word(key, legal) or closest(key, legal)


def _another_word(key: str, legal: Collection[str]) -> str | None:
    listed = _SYNONYMS.get(_word(key), "").split()
    return former(key, legal) or next((name for name in listed if name in legal), None)


def _word(key: str) -> str:
    return key.casefold().replace("-", "_")


def hint_for_key(key: str, value: object, legal: Collection[str]) -> str:
    """Say what to write instead of an illegal key, as far as words can tell."""
    if "module" in legal and isinstance(value, str) and _SPECIFIER.match(value):
        return f"a module's version is asked for as {{module: {shorten(key)} {shorten(value)}}}"
    word = _another_word(key, legal)
    if word is not None:
        return f"did you mean `{word}`?"
    return _EXPLAINED.get(_word(key)) or did_you_mean(key, legal)


def meant_value(value: str, legal: Collection[str]) -> str:
    """Give the member of a closed set that another word stands for; the word itself when it is none of those."""
    found = _VALUES.get(value.casefold(), value)
    return found if found in legal else value


def module_condition(value: str) -> str | None:
    """Give the condition that a module and version written as one text stand for; None when it is no such text."""
    found = _MODULE.fullmatch(value)
    return f"{{module: {found[1]} {found[2]}}}" if found else None


def trusting(key: str) -> bool:
    """Say whether a key would widen what a manifest may bind, which only its caller can do."""
    return _TRUSTING.fullmatch(key.casefold().replace("-", "").replace("_", "")) is not None
