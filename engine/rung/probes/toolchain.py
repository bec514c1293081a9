"""Whether what compiles code on the spot is there. Imports no framework, and runs no compiler."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from typing import Any

__all__ = ["has_cpp_compiler"]


def has_cpp_compiler(facts: Any) -> bool | None:
    """Say whether what TorchInductor compiles for the CPU with is there: a C++ compiler, and Python's own headers.

    It looks where Inductor does: the program that CXX names, else `g++`, on macOS `clang++`, on Windows `cl`. None
    where the facts do not say what system this is or what CXX is.
    """
    system, named = facts.os(), facts.env("CXX")
    if not isinstance(system, str) or not isinstance(named, str | None):
        return None
    usual = {"darwin": "clang++", "windows": "cl"}.get(system, "g++")
    if shutil.which(named or usual) is None:
        return False
    return any((Path(sysconfig.get_path(name)) / "Python.h").is_file() for name in ("include", "platinclude"))
