from __future__ import annotations

import re
from pathlib import Path

import pytest

import rung
from judging import codes, concise, judged_fixture, only_pure, report

BAD = Path(__file__).parent / "bad_manifests"
FIXTURES = [pytest.param(path, id=path.name) for path in sorted(BAD.iterdir())]
ENGINE = Path(rung.__file__).parent


@pytest.mark.parametrize("directory", FIXTURES)
def test_a_bad_manifest_is_reported_as_expected(directory: Path) -> None:
    whole = judged_fixture(directory, "bad.yaml")
    assert report(whole) == (directory / "expected.txt").read_text(encoding="utf-8"), (
        "tests/write_expected.py writes this file, for the new wording to be read"
    )
    assert set(codes(whole.problems)) == {directory.name[:5]}
    for problem in whole.problems:
        assert problem.hint or problem.code == "RG202"
        assert len(problem.message) <= 80


@pytest.mark.parametrize("directory", FIXTURES)
def test_its_good_neighbour_is_clean(directory: Path) -> None:
    assert concise(judged_fixture(directory, "good.yaml")) == []


@pytest.mark.parametrize("directory", FIXTURES)
def test_the_pure_loader_reports_the_same(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = concise(judged_fixture(directory, "bad.yaml", builtin=False))
    only_pure(monkeypatch)
    assert concise(judged_fixture(directory, "bad.yaml", builtin=False)) == both


def test_every_code_the_engine_gives_to_a_manifest_has_a_fixture() -> None:
    authoring = ("source.py", "shape.py", "models.py", "manifest.py", "rules/*.py", "audit/*.py")
    files = [path for pattern in authoring for path in ENGINE.glob(pattern)]
    given = {code for path in files for code in re.findall(r'"(RG\d{3})"', path.read_text(encoding="utf-8"))}
    assert given == {path.name[:5] for path in BAD.iterdir()}
