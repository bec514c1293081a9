"""Calling the program in this process, and a small project for it to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rung.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GOOD = """\
# yaml-language-server: $schema=https://example.org/rung/manifest.schema.json
manifest: 1
backend: acme
arrays: numpy
kernels:
  flow_match_step:
    - {device: cpu, arch: numpy, impl: "acme.kernels:step"}
"""
CODE = {
    "acme/__init__.py": "",
    "acme/kernels.py": "def step(sample, velocity, sigma, sigma_next):\n    return sample\n",
}


def rung(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run a command and give its exit code, its standard output and its standard error."""
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err
