"""Compiled tables on disk: what is read is what was written, for these sources, or nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rung
from rung import compiled
from rung.compile import compile_units
from rung.load import BUILTIN_ROOTS, SHIPPED, builtin_unit, units_of
from rung.resources import data_dir
from rung.tablefile import lines_of, restore
from rung.units import Unit, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from rung.table import Table

ROOTS = frozenset({"rung", "rung_backends", "digits", "acme"})
TEXT = """\
manifest: 1
backend: acme
arrays: torch
requires: [torch_present, {os: linux}]
hint: get it
kernels:
  flow_match_step:
    - device: cuda
      arch: [sm_90, sm_80]
      variant: [fast, default]
      impl: "acme.kernels:step"
      when: {module: {name: cv2, dist: opencv, version: ">=4", build: [cu, x]}}
      exclude: [sm_86]
      degraded: slow
      workspace_bytes: 12
components:
  vae:
    - {device: cpu, impl: "acme.kernels:build", when: {not: {env: {A: b}}}}
profiles:
  mine: {extends: strict, chains: {flow_match_step: {fast: [fast, default]}}, only: acme}
"""


def units(path: Path, shown: str = "m") -> list[Unit]:
    return [Unit(data_dir("manifests"), "manifests", BUILTIN_ROOTS), Unit(path, shown, ROOTS)]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/acme.yaml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def same(one: Table, other: Table) -> bool:
    fields = ("devices", "ops", "kinds", "backends", "profiles", "predicates", "named", "roots")
    cells = all(dict(getattr(one, k)) == dict(getattr(other, k)) for k in ("kernels", "components"))
    return cells and all(getattr(one, field) == getattr(other, field) for field in fields)


def put(path: Path, table: Table, used: list[Unit]) -> None:
    compiled.write(path, compiled.text_of(table, used, stamp(used)))


def written(here: Path) -> tuple[Path, list[Unit], Table]:
    used = units(here / "m")
    table = compile_units(used)
    put(here / "t.json", table, used)
    return here / "t.json", used, table


def test_what_is_read_is_what_was_written(here: Path) -> None:
    path, used, table = written(here)
    read = compiled.read(path, used)
    assert read is not None
    assert same(read, table)
    assert compiled.fault(path, used) == ""


def test_it_resolves_alike(here: Path) -> None:
    path, used, table = written(here)
    read = compiled.read(path, used)
    facts = rung.Facts.load(Path(__file__).parent / "facts/h200.yaml")
    for found in (read, table):
        platform = rung.Platform.of("cuda", "sm_90", facts=facts, table=found)
        assert str(platform.resolve("flow_match_step", "fast")) == str(
            rung.Platform.of("cuda", "sm_90", facts=facts, table=table).resolve("flow_match_step", "fast")
        )


def test_the_file_is_json_and_says_what_it_was_made_from(here: Path) -> None:
    path, used, _ = written(here)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["rung"], data["sources"]) == (rung.__version__, stamp(used))
    assert sorted(data) == ["digest", "format", "rung", "sources", "table"]


def test_manifests_may_have_moved(here: Path, tmp_path: Path) -> None:
    path, _, _ = written(here)
    (tmp_path / "elsewhere").mkdir()
    (here / "m/acme.yaml").rename(tmp_path / "elsewhere/acme.yaml")
    read = compiled.read(path, units(tmp_path / "elsewhere", "/opt/x"))
    assert read is not None
    cell = next(c for c in read.kernels["flow_match_step"] if c.backend == "acme")
    assert str(cell.where) == "/opt/x/acme.yaml:8"


@pytest.mark.parametrize(
    "shown", ["m/acme.yaml", ".", ""], ids=["a single file", "the working directory", "no directory"]
)
def test_places_read_as_they_were_written(here: Path, shown: str) -> None:
    used = units(here / "m/acme.yaml" if shown.endswith("yaml") else here / "m", shown)
    table = compile_units(used)
    put(here / "t.json", table, used)
    read = compiled.read(here / "t.json", used)
    assert read is not None
    assert same(read, table)


CHANGES: dict[str, Callable[[Path], object]] = {
    "an edited manifest": lambda p: (p / "m/acme.yaml").write_text(TEXT.replace("slow", "slew"), encoding="utf-8"),
    "a comment in one": lambda p: (p / "m/acme.yaml").write_text(TEXT + "# x\n", encoding="utf-8"),
    "a new manifest": lambda p: (p / "m/b.yaml").write_text("manifest: 1\n", encoding="utf-8"),
    "a renamed one": lambda p: (p / "m/acme.yaml").rename(p / "m/b.yaml"),
    "one that left": lambda p: (p / "m/acme.yaml").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_manifests_makes_it_stale(here: Path, change: Callable[[Path], object]) -> None:
    path, used, _ = written(here)
    change(here)
    assert compiled.read(path, used) is None
    assert compiled.fault(path, used) == "is stale"


def test_so_does_what_may_be_bound(here: Path) -> None:
    path, used, _ = written(here)
    assert compiled.fault(path, [used[0], Unit(used[1].path, "m", ROOTS | {"os"})]) == "is stale"


def edited(find: bytes, put: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(find, put, 1)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: b"", "is damaged"),
        (lambda data: data[:-1], "is damaged"),
        (lambda data: data[: len(data) // 2], "is damaged"),
        (lambda data: data + b" ", "is damaged"),
        (edited(b"slow", b"fine"), "is damaged"),
        (edited(b'"digest": "', b'"digest": "0'), "is damaged"),
        (edited(b'"digest"', b'"sha256"'), "is damaged"),
        (edited(b'"format": 3', b'"format": 2'), "is of another version of rung"),
        (lambda data: data.replace(rung.__version__.encode(), b"0.0.1", 1), "is of another version of rung"),
        (lambda data: b"[]", "is damaged"),
        (lambda data: b"{}", "is damaged"),
        (lambda data: b"null", "is damaged"),
        (lambda data: b"[" * 100_000, "is damaged"),
        (lambda data: b"\xff\xfe", "is damaged"),
        (lambda data: data.replace(b"\n", b"\r\n"), "is damaged"),
    ],
    ids=[
        "empty", "without its end", "half", "longer", "edited by hand", "another hash", "no hash", "another format",
        "another version", "a list", "an empty mapping", "null", "deep", "not UTF-8", "other line ends",
    ],
)  # fmt: skip
def test_what_is_damaged_is_not_used(here: Path, damage: Callable[[bytes], bytes], said: str) -> None:
    path, used, _ = written(here)
    path.write_bytes(damage(path.read_bytes()))
    assert compiled.read(path, used) is None
    assert compiled.fault(path, used) == said


def test_no_beginning_of_a_file_is_used(here: Path) -> None:
    path, used, _ = written(here)
    data = path.read_bytes()
    for length in range(0, len(data), 997):
        path.write_bytes(data[:length])
        assert compiled.read(path, used) is None, length


@pytest.mark.parametrize(
    "body",
    ["{}", "[]", "null", '{"files": 3}', '{"files": [[9, "x"]]}'],
    ids=["empty", "a list", "null", "kind", "unit"],
)
def test_a_whole_file_of_another_form_is_not_used(here: Path, body: str) -> None:
    path, used, _ = written(here)
    path.write_text(compiled._signed(body, stamp(used)), encoding="utf-8")
    assert compiled.fault(path, used) == "is damaged"


@pytest.mark.parametrize("kind", ["nothing", "a directory"])
def test_what_is_no_file_is_no_table(here: Path, kind: str) -> None:
    path = here / "t.json"
    if kind == "a directory":
        path.mkdir()
    assert compiled.read(path, units(here / "m")) is None


def test_writers_at_once_both_end_well(here: Path) -> None:
    used = units(here / "m")
    table = compile_units(used)
    path, broken = here / "t.json", []
    put(path, table, used)

    def work() -> None:
        for _ in range(10):
            put(path, table, used)
            broken.extend([1] if compiled.read(path, used) is None else [])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broken == []
    assert sorted(p.name for p in here.iterdir()) == ["m", "t.json"]


class TestLoading:
    def test_a_fresh_table_is_read_and_no_yaml(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(here)
        own = builtin_unit()
        used = [own, *units_of(["m"], BUILTIN_ROOTS | {"acme"})]
        put(here / "t.json", compile_units(used), used)
        monkeypatch.setattr("rung.compile.compile_units", None)
        table = rung.load(["m"], allow=["acme"], compiled="t.json")
        assert {c.backend for c in table.kernels["flow_match_step"]} >= {"acme", "torch"}

    def test_a_stale_one_is_not(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(here)
        (here / "t.json").write_text("{}", encoding="utf-8")
        table = rung.load(["m"], allow=["acme"], compiled="t.json")
        assert any(c.backend == "acme" for c in table.kernels["flow_match_step"])

    def test_the_built_in_one_is_fresh(self) -> None:
        path = data_dir("manifests") / SHIPPED
        used = [builtin_unit()]
        assert compiled.fault(path, used, compile_units(used)) == "", "run `rung compile`"

    def test_a_file_says_nothing_of_what_may_be_bound(self, here: Path) -> None:
        path, used, table = written(here)
        text = path.read_text(encoding="utf-8").replace("acme.kernels:step", "subprocess:getoutput")
        _, _, body = text.removesuffix(compiled._END).partition(compiled._BODY)
        path.write_text(compiled._signed(body, stamp(used)), encoding="utf-8")
        read = compiled.read(path, used)
        assert read is not None
        assert "subprocess" not in read.roots
        assert compiled.fault(path, used, table) == "is not what the manifests compile to"

    def test_no_other_file_is_replaced(self, here: Path) -> None:
        (here / "t.json").write_text('{"name": "a project"}', encoding="utf-8")
        with pytest.raises(OSError, match="is no compiled table"):
            written(here)

    def test_nothing_is_fresh_where_a_manifest_cannot_be_read(self, here: Path) -> None:
        path, used, _ = written(here)
        (here / "m/b.yaml").symlink_to("nowhere")
        assert compiled.fault(path, used) == "says nothing: a manifest cannot be read"


def test_data_that_is_no_table_raises_what_reading_expects() -> None:
    with pytest.raises(KeyError):
        restore(['{"entries":{},', "]}}"], [], frozenset())


def test_the_file_form_holds_every_record_of_the_built_in_table() -> None:
    used = [Unit(data_dir("manifests"), "manifests", BUILTIN_ROOTS)]
    table = compile_units(used)
    places = {cell.where.path: (0, cell.where.path.removeprefix("manifests/")) for cell in table.cells()}
    for entries in (table.devices, table.ops, table.kinds, table.backends):
        places |= {e.where.path: (0, e.where.path.removeprefix("manifests/")) for e in entries.values()}
    places |= {w.path: (0, w.path.removeprefix("manifests/")) for w in table.named.values()}
    lines = list(lines_of(table, places))
    assert same(restore(lines, ["manifests"], table.roots), table)
    assert sorted(json.loads("".join(lines))) == ["components", "entries", "kernels", "ops", "predicates"]
