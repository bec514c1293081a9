"""The benchmarks without their peers: the matrices they measure, and the tables of the report. No time is judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as command
from benchmarks import matrix, memory, start
from benchmarks.calls import COMPETITORS, calls
from benchmarks.report import Row, markdown, table_of
from benchmarks.rounds import Ratio, interleaved, ratio_of
from benchmarks.tables import Matrix
from calling import rung
from rung import Platform, load

if TYPE_CHECKING:
    from benchmarks.report import Section

ROOT = Path(__file__).parents[1]
TINY = command.Effort(calls=1, load={6: 1, 130: 2}, start=1, first=1)


@pytest.fixture(autouse=True)
def _no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("calls", "report"):
        monkeypatch.setattr(f"benchmarks.{user}.installed", lambda _: None)


class TestMatrix:
    @pytest.mark.parametrize("cells", [2, 30, 100, 250])
    def test_it_is_valid_and_has_as_many_cells_as_asked(
        self, cells: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        manifests = matrix.write(tmp_path / "matrix", cells)
        # RG902 asks for the modeline that editors read: nobody edits these.
        options = ("--strict", "--ignore", "RG902", "--root", tmp_path / "matrix", "--allow", matrix.PACKAGE)
        assert rung(capsys, "check", manifests, *options)[:2] == (0, "")
        built_in = sum(1 for _ in load().cells())
        table = load(manifests, allow=[matrix.PACKAGE])
        assert sum(1 for _ in table.cells()) == built_in + cells

    def test_an_op_is_not_left_with_its_reference_alone(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="101 cells leave an op with its reference alone"):
            matrix.write(tmp_path / "matrix", 101)

    def test_ops_have_the_same_cells_whatever_the_size(self, tmp_path: Path) -> None:
        tables = [load(matrix.write(tmp_path / str(cells), cells), allow=[matrix.PACKAGE]) for cells in (100, 300)]
        op, *others = matrix.names_of_ops(300)
        assert [op] == matrix.names_of_ops(100)
        assert [len(table.kernels[op]) for table in tables] == [matrix.CELLS_PER_OP] * 2
        assert [len(tables[1].kernels[other]) for other in others] == [matrix.CELLS_PER_OP] * 2

    def test_rows_are_told_apart_by_what_they_bind(self, tmp_path: Path) -> None:
        table = load(matrix.write(tmp_path / "matrix", 200), allow=[matrix.PACKAGE])
        impls = [cell.impl for op in matrix.names_of_ops(200) for cell in table.kernels[op]]
        assert len(set(impls)) == 200

    def test_a_gpu_is_served_by_its_own_rows(self, tmp_path: Path) -> None:
        from benchmarks.first import RECORDED
        from rung import Facts

        table = load(matrix.write(tmp_path / "matrix", 100), allow=[matrix.PACKAGE])
        platform = Platform.of("cuda", "sm_90", table=table, facts=Facts.of(RECORDED))
        cell = platform.resolve(matrix.names_of_ops(1)[0], "fused").cell
        assert cell is not None
        assert cell.id == "nvidia/attention_000@cuda.sm_90a#fused"


class TestCalls:
    @pytest.fixture
    def section(self, tmp_path: Path) -> Section:
        small, large = (Matrix(tmp_path / str(cells), cells) for cells in (10, 120))
        return calls(small, large, 2, seconds=1e-6)

    def test_every_competitor_has_a_row(self, section: Section) -> None:
        assert len(section.rows) == len(COMPETITORS)
        measured = [row.what for row in section.rows if row.value is not None]
        assert measured == [one.shown for one in COMPETITORS if not one.needs]

    def test_a_peer_that_is_not_installed_is_said_to_be_missing(self, section: Section) -> None:
        text = table_of(section.rows)
        for peer in ("plum", "multipledispatch", "torch"):
            assert f"{peer} is not installed) | not measured |" in " ".join(text.split())

    def test_what_kernels_gives_is_the_function_itself(self, section: Section) -> None:
        assert [row.is_same for row in section.rows if row.is_same is not None] == [True]
        assert "| the same object | yes " in table_of(section.rows)


class TestWhole:
    def test_every_part_is_in_the_page_and_nothing_of_this_machine(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(directory: Path) -> tuple[Path, dict[str, str]]:
            raise OSError(f"cannot make {directory}")

        monkeypatch.setattr(start, "_clean", fail)
        monkeypatch.setattr(memory, "counted", memory.count)
        monkeypatch.setattr(command, "FULL", TINY)
        monkeypatch.setattr(command, "calls", lambda *of: calls(*of, seconds=1e-6))
        assert command.main(["--output", str(tmp_path / "docs")]) == 0
        page = (tmp_path / "docs/benchmarks.md").read_text(encoding="utf-8")
        printed = capsys.readouterr().out
        for title in ("Calls", "Load", "Start", "First resolution", "Memory per cell"):
            assert f"\n## {title}\n" in page
            assert f"\n{title}\n" in printed
        for way in ("compile", "libyaml compose", "warm load", "warm load and every cell", "json.loads"):
            assert all(f"| {way}, {cells} cells " in page for cells in TINY.load)
        assert page.count("(no clean virtual environment could be made)") == len(start.PROGRAMS)
        assert "| cuda.sm_90, 130 cells " in page
        assert "| warm, 130 cells, all looked at " in page
        assert not [path for path in (tmp_path, ROOT, Path.home()) if f"{path}/" in page]
        assert [path.name for path in (tmp_path / "docs").iterdir()] == ["benchmarks.md"], "matplotlib is missing"

    def test_a_part_alone_writes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given: list[object] = []
        monkeypatch.setattr(command, "measure", lambda *arguments: given.append(arguments))
        assert command.main(["--quick"]) == command.main(["--only", "load"]) == command.main([]) == 0
        parts = command.SECTIONS
        assert given == [
            (command.QUICK, parts, None), (command.FULL, ["load"], None), (command.FULL, parts, ROOT / "docs"),
        ]  # fmt: skip


class TestReport:
    @pytest.mark.parametrize(
        ("row", "columns"),
        [
            (Row("a", 41.12e-9), "| a | 41.1 ns | | | | | |"),
            (Row("a", 1, "s", Ratio(1.5, 1.4, 2), "b", 1.6), "| a | 1 s | 1.50 | 1.40 to 2.00 | b | ≤ 1.6 | yes |"),
            (Row("a", 2, "s", Ratio(1.7, 1.4, 2), "b", 1.6), "| a | 2 s | 1.70 | 1.40 to 2.00 | b | ≤ 1.6 | **no** |"),
            (Row("a", 1024.4, "B", target=1024), "| a | 1,024 B | | | | ≤ 1,024 B | **no** |"),
            (Row("a", 1e-5, is_same=True, note="n"), "| a (n) | 10 µs | | | | the same object | yes |"),
            (Row("a", note="b is not installed"), "| a (b is not installed) | not measured | | | | | |"),
        ],
        ids=["time", "met", "missed", "bytes", "same", "missing"],
    )  # fmt: skip
    def test_a_row(self, row: Row, columns: str) -> None:
        assert " ".join(table_of([row]).splitlines()[-1].split()) == columns

    def test_columns_are_aligned(self) -> None:
        lines = table_of([Row("a long name", 1.0), Row("b", 1e-9)]).splitlines()
        assert len({len(line) for line in lines}) == 1

    def test_a_page_names_the_versions(self) -> None:
        assert "rung 0.1.0, CPython 3." in markdown([], [])


def test_competitors_take_turns_and_ratios_are_taken_within_a_round() -> None:
    order: list[str] = []
    times = {"a": iter([1.0, 2.0, 30.0]), "b": iter([2.0, 4.0, 6.0])}

    def measure(name: str) -> float:
        order.append(name)
        return next(times[name])

    measured = interleaved({"a": lambda: measure("a"), "b": lambda: measure("b")}, 3)
    assert "".join(order) == "abbaab"
    assert measured == {"a": [1.0, 2.0, 30.0], "b": [2.0, 4.0, 6.0]}
    assert ratio_of(measured["b"], measured["a"]) == Ratio(2.0, 1.1, 2.0)
    assert ratio_of([3.0], [2.0]) == Ratio(1.5, 1.5, 1.5)
