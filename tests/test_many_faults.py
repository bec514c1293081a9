"""One file with a fault of nearly every kind: all of them in one run, each at its place, and nothing that follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from judging import only_pure
from rung.cli import main

HERE = Path(__file__).parent / "many_faults"


@pytest.mark.parametrize("loader", ["libyaml", "pure"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_every_fault_is_reported_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], loader: str, ends: str
) -> None:
    if loader == "pure":
        only_pure(monkeypatch)
    for name in ("m/all.yaml", "acme/__init__.py", "acme/kernels.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = (HERE / name).read_text(encoding="utf-8").replace("\n", ends)
        (tmp_path / name).write_bytes(text.encode())
    assert main(["check", "--root", str(tmp_path), str(tmp_path / "m"), "--format", "concise"]) == 1
    assert capsys.readouterr().out == (HERE / "expected.txt").read_text(encoding="utf-8")
