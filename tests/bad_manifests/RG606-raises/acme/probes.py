"""What the manifests ask of a machine."""

from __future__ import annotations

import shutil
from typing import Any


def todo(facts: Any) -> bool | None:
    """Say whether the CUDA compiler is there, one day."""
    raise NotImplementedError


def has_toolkit(facts: Any) -> bool | None:
    """Say whether the CUDA compiler is there."""
    return shutil.which("nvcc") is not None
