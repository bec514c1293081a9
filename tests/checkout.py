"""This working tree as other repositories get it, and a surrounding in which installing it needs no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["commit", "copy_to", "offline"]

ROOT = Path(__file__).parents[1]
WHEELHOUSE = Path(sys.prefix, "wheelhouse")


def copy_to(directory: Path) -> Path:
    """Copy every file that is, or is about to be, under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():  # one that was deleted is still listed until that is committed
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    return directory


def offline(home: Path) -> dict[str, str]:
    """Give an environment in which pip has the wheelhouse alone, and git neither settings nor a repository of ours."""
    assert WHEELHOUSE.is_dir(), "the wheelhouse is missing: `make` fills it"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "GITHUB_", "PIP_", "PYTHON", "RUNG_"))}
    return {
        **kept,
        "GIT_AUTHOR_EMAIL": "author@example.org",
        "GIT_AUTHOR_NAME": "Author",
        "GIT_COMMITTER_EMAIL": "author@example.org",
        "GIT_COMMITTER_NAME": "Author",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "NO_COLOR": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": WHEELHOUSE.as_uri(),
        "PIP_NO_COMPILE": "0",  # pip takes this for the value of `compile`; compiling all of numpy helps no test
        "PIP_NO_INDEX": "1",
        "PRE_COMMIT_HOME": str(home / "pre-commit"),
    }


def commit(repository: Path, environment: Mapping[str, str]) -> str:
    """Commit everything in a directory, which becomes a repository; give the commit."""
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "All"]):
        subprocess.run(["git", *arguments], cwd=repository, env=environment, check=True)
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
