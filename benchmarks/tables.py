"""A matrix on disk, and the ways to a table of it: compiled anew, or read from the cache.

Owns what is meant by "compile" and "warm load". The cache lies in the matrix's own directory.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rung
from benchmarks import matrix
from rung.resources import data_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Matrix", "environment"]


class Matrix:
    """Manifests of so many cells, to be loaded together with the built-in ones."""

    def __init__(self, directory: Path, cells: int) -> None:
        self.cells = cells
        self.directory = directory
        self.manifests = matrix.write(directory, cells)
        self._cache = directory / "cache"

    def compile(self) -> rung.Table:
        """Make the table from the manifests; nothing is read from a cache or written to one."""
        with environment(RUNG_CACHE="off"):
            return rung.load(self.manifests, allow=[matrix.PACKAGE])

    def warm_load(self) -> rung.Table:
        """Read the table that an earlier call has left in the cache; the first one compiles it."""
        with environment(RUNG_CACHE_DIR=str(self._cache)):
            return rung.load(self.manifests, allow=[matrix.PACKAGE])

    def sources(self) -> list[bytes]:
        """Give the bytes of each manifest that the table is made from, the built-in ones included."""
        directories = (data_dir("manifests"), self.manifests)
        return [path.read_bytes() for directory in directories for path in sorted(directory.rglob("*.yaml"))]

    def cached(self) -> bytes:
        """Give the bytes of the compiled table in the cache."""
        files = [path for path in self._cache.rglob("*.json") if path.name.startswith("table-")]
        return max(files, key=lambda path: path.stat().st_mtime_ns).read_bytes()


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set these of rung's variables, and clear its others, for a while."""
    before = {name: value for name, value in os.environ.items() if name.startswith("RUNG_")}
    for name in before:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update(before)
