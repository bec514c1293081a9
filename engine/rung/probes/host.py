"""`Host`: the machine as probes see it, so that a test can hand them another one.

Owns every way a probe touches the outside: files, environment, shared libraries, child processes.
A method answers or raises OSError; the runner in `rung.probes` turns that into "could not tell".
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Host"]


class Host:
    """A machine: its operating system, instruction set, environment and file system root; by default this one."""

    def __init__(
        self,
        system: str = sys.platform.replace("win32", "windows"),
        machine: str = "",
        env: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] = "/",
    ) -> None:
        self.system = system
        self.machine = machine or _machine()
        self.env = os.environ if env is None else env
        self._root = os.fspath(root)

    @property
    def root(self) -> Path:
        """The file system root."""
        from pathlib import Path

        return Path(self._root)

    def _below(self, path: str) -> str:
        return os.path.join(self._root, path.lstrip("/"))

    def read(self, path: str, limit: int = -1) -> str:
        """Read a text file below the root, its first `limit` characters where given; raise OSError."""
        with open(self._below(path), encoding="utf-8", errors="replace") as file:
            return file.read(limit)

    def exists(self, path: str) -> bool:
        """Say whether a path below the root exists."""
        return os.path.exists(self._below(path))

    def listed(self, folder: str) -> list[str]:
        """Give the names in a folder below the root, sorted; none where it cannot be listed."""
        try:
            return sorted(os.listdir(self._below(folder)))
        except OSError:
            return []

    def glob(self, pattern: str) -> list[str]:
        """Give the paths below the root that match, sorted, with a leading `/`."""
        root = self.root
        return sorted("/" + found.relative_to(root).as_posix() for found in root.glob(pattern.lstrip("/")))

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


def _machine() -> str:
    """Give what `platform.machine` does, where the system says so itself without importing it."""
    if hasattr(os, "uname"):
        return os.uname().machine
    import platform

    return platform.machine()


def _is_absent(name: str, error: OSError) -> bool:
    """Say whether a library is not there at all, rather than unfit, or there without another one it needs."""
    if isinstance(error, FileNotFoundError):  # Windows, which says the same where a dependency is missing
        return not os.path.exists(name)
    # dlopen has only words. glibc and musl name what is missing, the library or its dependency, before them.
    return f" {name}: " in f" {error}" and str(error).endswith(os.strerror(errno.ENOENT))
