"""Writes `expected.txt` beside each bad fixture, for the wording to be read and committed when it was changed."""

from __future__ import annotations

from pathlib import Path

from judging import judged_fixture, report

BAD = Path(__file__).parent / "bad_manifests"

if __name__ == "__main__":
    for directory in sorted(BAD.iterdir()):
        (directory / "expected.txt").write_text(report(judged_fixture(directory, "bad.yaml")), encoding="utf-8")
