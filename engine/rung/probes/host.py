"""`Host`: the machine as probes see it, so that a test can hand them another one.

Owns every way a probe touches the outside: files, environment, shared libraries, child processes.
A method answers or raises OSError; the runner in `rung.probes` turns that into "could not tell".
"""

from __future__ import annotations

import errno
import os
import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Mapping, Sequence

__all__ = ["Host"]


@dataclass(frozen=True)
class Host:
    """A machine: its operating system, instruction set, environment and file system root."""

    system: str = field(default_factory=lambda: sys.platform.replace("win32", "windows"))
    machine: str = field(default_factory=platform.machine)
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = Path("/")

    def read(self, path: str, limit: int = -1) -> str:
        """Read a text file below the root, its first `limit` characters where given; raise OSError."""
        with (self.root / path.lstrip("/")).open(encoding="utf-8", errors="replace") as file:
            return file.read(limit)

    def exists(self, path: str) -> bool:
        """Say whether a path below the root exists."""
        return (self.root / path.lstrip("/")).exists()

    def glob(self, pattern: str) -> list[str]:
        """Give the paths below the root that match, sorted, with a leading `/`."""
        found = self.root.glob(pattern.lstrip("/"))
        return sorted("/" + p.relative_to(self.root).as_posix() for p in found)

    def library(self, *names: str) -> ctypes.CDLL:
        """Load the first shared library that loads.

        Raise FileNotFoundError when none of them is there, else OSError with what is wrong with the first that is.
        """
        import ctypes

        failures: list[OSError] = []
        for name in names:
            try:
                return ctypes.CDLL(name)
            except OSError as error:
                kind = FileNotFoundError if _is_absent(name, error) else OSError
                failures.append(kind(str(error)))
        broken = [failure for failure in failures if not isinstance(failure, FileNotFoundError)]
        raise (broken or failures or [FileNotFoundError("no library was named")])[0]

    def run(self, command: Sequence[str], *, limit: float = 1.5) -> str:
        """Run a short child process and give its output; raise OSError when it fails or takes longer."""
        import subprocess

        try:
            done = subprocess.run(
                list(command),
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"`{command[0]}` took longer than {limit} s") from error
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [""]
            raise OSError(f"`{command[0]}` ended with {done.returncode}: {last[0]}")
        return done.stdout


def _is_absent(name: str, error: OSError) -> bool:
    """Say whether a library is not there at all, rather than unfit, or there without another one it needs."""
    if isinstance(error, FileNotFoundError):  # Windows, which says the same where a dependency is missing
        return not Path(name).exists()
    # dlopen has only words. glibc and musl name what is missing, the library or its dependency, before them.
    return f" {name}: " in f" {error}" and str(error).endswith(os.strerror(errno.ENOENT))
