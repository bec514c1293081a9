"""What rung is compared with, as far as it is installed.

Peers are imported by name and only when they are needed: neither the rest of the benchmarks nor a type checker needs
any of them.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

__all__ = ["installed", "version_of", "versions"]

DISTRIBUTIONS: Final = (
    "numpy", "torch", "plum-dispatch", "beartype", "multipledispatch", "pyyaml", "pydantic", "matplotlib",
)  # fmt: skip


def installed(module: str) -> Any:
    """Import a module; give None when it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def version_of(distribution: str) -> str:
    """Give the version of a distribution, "" when it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def versions() -> dict[str, str]:
    """Give the versions of what is compared, as far as it is installed."""
    return {name: found for name in DISTRIBUTIONS if (found := version_of(name))}
