"""Which rung this is, and where its own data files are: the packaged folder, else the checkout's.

Owns these two facts. Reads nothing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

__all__ = ["VERSION", "data_dir", "data_path"]

VERSION: Final = "0.1.0"


def data_path(name: str) -> str:
    """Give the path of the folder `manifests` or `schemas`; raise FileNotFoundError when the installation lacks it."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(here, name), os.path.join(os.path.dirname(os.path.dirname(here)), name)):
        if os.path.isdir(folder):
            return folder
    raise FileNotFoundError(f"rung's own `{name}` folder is missing: reinstall rung")


def data_dir(name: str) -> Path:
    """Give the same as a Path."""
    from pathlib import Path

    return Path(data_path(name))
