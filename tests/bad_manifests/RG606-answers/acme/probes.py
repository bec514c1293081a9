"""What the manifests ask of a machine."""

from __future__ import annotations

import shutil
from typing import Any


def has_toolkit(facts: Any) -> Any:
    """Say whether the CUDA compiler is there: with its path, which is no answer."""
    if facts.os() != "linux":
        return None
    return shutil.which("nvcc")


def knows_toolkit(facts: Any) -> bool | None:
    """Say whether the CUDA compiler is there."""
    if facts.os() != "linux":
        return None
    return shutil.which("nvcc") is not None
