"""Which rung this is, and where its own data files are: the packaged folder, else the checkout's.

Owns these two facts. Reads nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["VERSION", "data_dir"]

VERSION: Final = "0.1.0"


def data_dir(name: str) -> Path:
    """Give the folder `manifests` or `schemas`; raise FileNotFoundError when the installation lacks it."""
    packaged = Path(__file__).parent / name
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).parents[2] / name
    if checkout.is_dir():
        return checkout
    raise FileNotFoundError(f"rung's own `{name}` folder is missing: reinstall rung")
