"""What an audit takes for reported already, and what it was not asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rung.audit.scene import Scene
from rung.diagnostics import Problem, Where
from rung.manifest import Manifests, merge
from rung.rules import check
from rung.units import Unit

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
manifest: 1
backend: acme
arrays: numpy
kernels:
  one:
    - {device: cpu, impl: "acme:one"}
    - {device: cpu, variant: b, impl: "acme:one", when: lost}
  two:
    - {device: cpu, impl: "acme:two"}
predicates:
  known: {os: linux}
ops:
  one: {summary: s, signature: "(x: array) -> array", reference: "acme:r"}
  two: {summary: s, signature: "(x: array) -> array", reference: "acme:r"}
devices:
  cpu: {summary: s, arrays: [numpy]}
"""


def scene(path: Path, text: str) -> Scene:
    (path / "a.yaml").write_text(text, encoding="utf-8")
    whole = merge([Unit(path, "m", None)])
    check(whole)
    return Scene(whole, path)


class TestWhatIsSound:
    def test_a_cell_in_whose_row_nothing_is_wrong(self, tmp_path: Path) -> None:
        here = scene(tmp_path, TEXT)
        assert {cell.id: here.is_sound_cell(cell) for cell in here.whole.cells} == {
            "acme/one@cpu.generic#default": True,
            "acme/one@cpu.generic#b": False,
            "acme/two@cpu.generic#default": True,
        }

    @pytest.mark.parametrize(
        ("header", "sound"),
        [
            ("requires: known", True),
            ("requires: unheard_of", True),
            ("requires: {module: torch >>2}", False),
            ("requires: {}", False),
        ],
        ids=["right", "of a predicate nobody declared", "of a wrong version", "of a wrong shape"],
    )
    def test_a_header_counts_for_every_cell(self, tmp_path: Path, header: str, sound: bool) -> None:
        here = scene(tmp_path, TEXT.replace("arrays: numpy\n", f"arrays: numpy\n{header}\n", 1))
        cell = next(cell for cell in here.whole.cells if cell.serves == "two")
        assert here.is_sound_cell(cell) is sound

    def test_an_op_is_settled_when_no_row_of_it_was_lost(self, tmp_path: Path) -> None:
        here = scene(tmp_path, TEXT)
        assert (here.is_settled("one"), here.is_settled("two")) == (False, True)

    def test_a_file_that_cannot_be_read_unsettles_what_it_mentions(self, tmp_path: Path) -> None:
        (tmp_path / "b.yaml").write_text("kernels: {two: [\n", encoding="utf-8")
        assert not scene(tmp_path, TEXT).is_settled("two")


@pytest.mark.parametrize(
    ("along", "asked", "path", "wanted"),
    [
        ("manifests", "mine", "mine/a.yaml", True),
        ("manifests", "mine", "manifests/a.yaml", False),
        ("manifests", "manifests/a.yaml", "manifests/a.yaml", True),
        ("manifests", "manifests/a.yaml", "manifests/b.yaml", False),
        ("manifests", ".", "manifests/a.yaml", True),
        ("manifests", "mine", "mine/sub/a.yaml", True),
    ],
    ids=["asked about", "came along", "a file of what came along", "another of them", "all below", "below"],
)
def test_what_came_along_is_not_reported_on(tmp_path: Path, along: str, asked: str, path: str, wanted: bool) -> None:
    units = [Unit(tmp_path / shown, shown, None) for shown in (along, asked)]
    here = Scene(Manifests(tuple(units)), tmp_path, along=(units[0],))
    assert here.is_asked_about(Problem("RG403", Where(path), "shadowed")) is wanted
    assert here.is_asked_about(Problem("RG406", Where(path), "hole"))
