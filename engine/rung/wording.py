"""What authors write for what is meant: keys that were renamed, keys of other systems, keys that are refused.

Owns these words and the hints they lead to. Which keys are legal where is for `rung.models`: a word counts only where
what it stands for is legal.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rung.diagnostics import closest, did_you_mean, shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "IMPORT_NAMES",
    "PROSE",
    "condition",
    "former",
    "hint_for_key",
    "import_name",
    "in_flow",
    "meant",
    "meant_value",
    "one_backend",
    "trusting",
    "version_apart",
    "version_of_device",
]

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
_NO_DTYPE: Final = "what a call's arguments must be is said under `accepts`: `accepts: {x.dtype: [float16, bfloat16]}`"
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

PROSE: Final = frozenset({"degraded", "hint", "summary", "why"})
"""Keys whose value is a sentence: what is no text there is not merely lacking its quotes."""

IMPORT_NAMES: Final[Mapping[str, str]] = {
    "beautifulsoup4": "bs4",
    "onnxruntime_gpu": "onnxruntime",
    "opencv": "cv2",
    "opencv_contrib_python": "cv2",
    "opencv_python": "cv2",
    "opencv_python_headless": "cv2",
    "pillow": "PIL",
    "pytorch": "torch",
    "pytorch_triton": "triton",
    "pyyaml": "yaml",
    "scikit_image": "skimage",
    "scikit_learn": "sklearn",
    "tensorflow_gpu": "tensorflow",
    "triton_windows": "triton",
    **dict.fromkeys(("cupy_cuda11x", "cupy_cuda12x", "cupy_cuda13x", "cupy_rocm_5_0"), "cupy"),
    **{n: n for n in ("cupy", "jax", "numba", "numpy", "scipy", "tensorflow", "tensorrt", "torch", "triton")},
}
"""What is imported as another name than it is installed as, or is often written in capitals: all in lower case."""

_DEVICES: Final[Mapping[str, str]] = {"cuda": "cuda", "hip": "rocm", "mps": "mps", "rocm": "rocm", "xpu": "xpu"}
"""Words for devices that nobody means a module by, with the device."""
_SYSTEMS: Final = frozenset({"darwin", "linux", "windows"})

_TRUSTING: Final = re.compile(
    r"((allow|trust|permit|whitelist)(s|ed|ted)?(list|roots?|packages?|modules?|imports?)?|roots?|packages)"
)
_SPECIFIER: Final = re.compile(r"\s*(===|[<>=!~]=|[<>])\s*[0-9]")
_MODULE: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*((?:===|[<>=!~]=|[<>])\s*[0-9].*?)\s*", re.ASCII)
_ONE_VERSION: Final = r"\s*(===|[<>=!~]=|[<>])\s*[0-9][\w.*+!-]*\s*"
_VERSIONS: Final = re.compile(rf"{_ONE_VERSION}(,{_ONE_VERSION})*")
_VERSION_WORDS: Final = frozenset(
    {"at_least", "constraint", "min_version", "minimum", "specifier", "ver", "version", "versions"}
)
"""Words for a key that holds the version of what another key names."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OR: Final = re.compile(r"\s+or\s+|\s*\|\|?\s*", re.IGNORECASE)
_AND: Final = re.compile(r"\s+and\s+|\s*&&?\s*|\s*,(?!\s*[<>=!~])\s*", re.IGNORECASE)
_NOT: Final = re.compile(r"(?:not\s+|!\s*)(.+)", re.IGNORECASE)
_MAX_CONDITION: Final = 200
"""Characters of a text in which a condition is looked for."""


def former(key: str, legal: Collection[str]) -> str | None:
    """Give what a renamed key is called now; None when `key` is none, or its new name not legal here."""
    return next((name for name in _FORMER.get(key, ()) if name in legal), None)


def meant(key: str, legal: Collection[str]) -> str | None:
    """Give the legal key that an illegal one is probably meant as: renamed, another word for it, or misspelt."""
    return _another_word(key, legal) or closest(key, legal)


def _another_word(key: str, legal: Collection[str]) -> str | None:
    word = _word(key)
    listed = (f"{word}s", *_SYNONYMS.get(word, "").split())
    return former(key, legal) or next((name for name in listed if name in legal), None)


def _word(key: str) -> str:
    return key.casefold().replace("-", "_")


def hint_for_key(
    key: str, value: object, legal: Collection[str], beside: Mapping[str, object] = MappingProxyType({})
) -> str:
    """Say what to write instead of an illegal key, as far as words can tell; `beside` is the mapping it stands in."""
    apart = version_apart(key, beside) if "module" in legal else None
    if apart is not None:
        return apart
    if "module" in legal and isinstance(value, str) and _SPECIFIER.match(value):
        asked = in_flow(f"{import_name(shorten(key))} {shorten(value)}")
        return version_of_device(f"{key} {value}") or f"a module's version is asked for as {{module: {asked}}}"
    if key == "backends" and "backend" in legal:
        return one_backend(value)
    word = _another_word(key, legal)
    if word is not None:
        return f"did you mean `{word}`?"
    if "use" in legal and value is True:
        found = condition(key)
        if found is not None and closest(key, legal) is None:
            return f"a condition has no value: write `{found}` alone"
    return _EXPLAINED.get(_word(key)) or did_you_mean(key, legal)


def version_apart(key: str, beside: Mapping[str, object]) -> str | None:
    """Say how a name and its version are written that were given under a key each; None where they were not."""
    named = ("module", "driver", "runtime", "name", "package")
    if key not in named and _word(key) not in _VERSION_WORDS:
        return None
    version = next((value for name, value in beside.items() if _word(name) in _VERSION_WORDS), None)
    atom = next((name for name in named if name in beside), None)
    if version is None or atom is None or (key in named and key != atom):
        return None
    name: object = beside[atom]
    name = name.get("name") if isinstance(name, dict) else name
    if not isinstance(name, str) or not isinstance(version, str | int | float) or isinstance(version, bool):
        return None
    asked = str(version).strip()
    asked = f">={asked}" if asked[:1].isdigit() else asked
    if not name or not _VERSIONS.fullmatch(asked):
        return None
    atom = atom if atom in ("driver", "runtime") else "module"
    name = import_name(name) if atom == "module" else name
    return f"the version belongs behind the name: {{{atom}: {in_flow(shorten(f'{name} {asked}'))}}}"


def meant_value(value: str, legal: Collection[str]) -> str:
    """Give the member of a closed set that another word stands for; the word itself when it is none of those."""
    found = _VALUES.get(value.casefold(), value)
    return found if found in legal else value


def one_backend(value: object) -> str:
    """Say how a backend is declared, to somebody who wrote its name as a key, in a list, or below `name:`."""
    names = list(value) if isinstance(value, dict | list) else [value]
    if isinstance(value, dict) and "name" in value:
        names = [value["name"]]
    name = names[0] if len(names) == 1 and isinstance(names[0], str) and _NAME.fullmatch(names[0]) else "NAME"
    return f"one file is one backend: write `backend: {name}`, and `arrays`, `kernels` and so on beside it, at the top"


def import_name(name: str) -> str:
    """Give the import name that the name of a distribution stands for, as far as it is known to be another one."""
    word = name.replace("-", "_").replace(".", "_")
    return IMPORT_NAMES.get(word.casefold(), name.replace("-", "_"))


def version_of_device(value: str) -> str | None:
    """Say how the version of a device's driver and runtime are asked for; None where the text asks for neither."""
    found = _MODULE.fullmatch(value)
    device = _DEVICES.get(found[1].casefold()) if found else None
    if found is None or device is None:
        return None
    asked = in_flow(shorten(f"{device} {found[2]}"))
    return f"write {{runtime: {asked}}} for its runtime, or {{driver: {asked}}} for its driver"


def condition(value: str) -> str | None:
    """Write a condition in the manner of programming languages as manifests have it; None when it is no such text.

    `a and not b` is `[a, {not: b}]`, `a | b` is `{any: [a, b]}`, `torch >=2` is `{module: torch >=2}`.
    """
    text = value.strip()
    if len(text) > _MAX_CONDITION or ("," in text and _OR.search(text)):
        return None
    for operator, form in ((_OR, "{{any: [{}]}}"), (_AND, "[{}]")):
        parts = operator.split(text)
        if len(parts) > 1:
            terms = [term for term in map(condition, parts) if term is not None]
            return form.format(", ".join(terms)) if len(terms) == len(parts) else None
    negated = _NOT.fullmatch(text)
    if negated is not None:
        inner = condition(negated[1])
        return None if inner is None else f"{{not: {inner}}}"
    return _atom(text)


def _atom(text: str) -> str | None:
    """Give the condition that one word, or a name with a version, stands for."""
    if _NAME.fullmatch(text):
        if text in _SYSTEMS:
            return f"{{os: {text}}}"
        if text in IMPORT_NAMES:
            return f"{{module: {import_name(text)}}}"
        return f"{{device: {_DEVICES[text]}}}" if text in _DEVICES else text
    found = _MODULE.fullmatch(text)
    if found is None or not _VERSIONS.fullmatch(found[2]):
        return None
    name, version = found[1], in_flow(found[2])
    if name == "python":
        return f"{{python: {version}}}"
    if name.casefold() in _DEVICES:
        return f"{{runtime: {in_flow(f'{_DEVICES[name.casefold()]} {found[2]}')}}}"
    return f"{{module: {in_flow(f'{import_name(name)} {found[2]}')}}}"


def in_flow(text: str) -> str:
    """Put a text that YAML would read as something else into quotes."""
    return f'"{text}"' if "," in text or text[0] in "<>=!~" else text


def trusting(key: str) -> bool:
    """Say whether a key would widen what a manifest may bind, which only its caller can do."""
    return _TRUSTING.fullmatch(key.casefold().replace("-", "").replace("_", "")) is not None
