"""Fixtures every test may use: writing manifests and modules, and a table made from them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import rung

# Threads of numpy and torch that wait for each other make a shared machine many times slower, and gain nothing here.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# The same examples in every run: a failure is one everybody can see.
settings.register_profile("rung", derandomize=True, deadline=None)
settings.load_profile("rung")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Write = Callable[[dict[str, str]], Path]
    Load = Callable[..., rung.Table]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUNG_DISABLE", "RUNG_PROFILE", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RUNG_PLUGINS", "off")  # whatever else is installed here
    monkeypatch.setenv("RUNG_CACHE", "off")  # and whatever ran here before


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write files below a fresh directory that is first on sys.path; modules imported from it are forgotten."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def files(contents: dict[str, str]) -> Path:
        for name, text in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    yield files
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def load(write: Write) -> Load:
    """Compile one manifest text (with the built-in ones), binding the packages named by `allow`."""

    def table(text: str, *, allow: tuple[str, ...] = ("acme",), **modules: str) -> rung.Table:
        files = {f"{name.replace('__', '/')}.py": body for name, body in modules.items()}
        files.update({f"{name.partition('__')[0]}/__init__.py": "" for name in modules})
        root = write({"manifests/acme.yaml": text, **files})
        return rung.load([root / "manifests"], allow=allow)

    return table
