"""The user's cache: where it is, what is kept in it, and that what is wrong in it is never used."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

import rung
from rung import cache, compiled
from rung.compile import compile_units
from rung.load import SHIPPED, units_of
from rung.records import fields
from rung.resources import data_dir
from rung.table import PER_PROCESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rung.table import Table
    from rung.units import Unit

    Change = Callable[[Path], object]

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
loading = sys.modules["rung.load"]  # `rung.load` is the function

WHOLE = """\
manifest: 1
devices:
  cpu: {summary: here, arrays: [numpy]}
ops:
  double: {summary: twice, signature: "(x: array) -> array", reference: "acme.kernels:double"}
"""
ACME = """\
manifest: 1
backend: acme
arrays: numpy
hint: get it
kernels:
  double:
    - {device: cpu, variant: fast, impl: "acme.kernels:fast", when: {module: numpy}}
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNG_CACHE", "on")
    monkeypatch.setenv("RUNG_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/all.yaml").write_text(WHOLE, encoding="utf-8")
    (tmp_path / "m/acme.yaml").write_text(ACME, encoding="utf-8")
    return tmp_path


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_compiling(monkeypatch)


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr("rung.compile.compile_units", refuse)


def load(here: Path, *, allow: str = "acme", inner: str = "m") -> Table:
    return rung.load([here / inner], allow=[allow], builtin=False)


def units(here: Path, inner: str = "m") -> list[Unit]:
    return units_of([here / inner], frozenset({"rung", "rung_backends", "acme"}))


def content(table: Table) -> dict[str, object]:
    """Give everything a table says, as plain mappings."""
    values = {name: getattr(table, name) for name in fields(table) if name not in PER_PROCESS}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def compiled_anew(here: Path, inner: str = "m") -> dict[str, object]:
    return content(compile_units(units(here, inner)))


def files(here: Path) -> list[str]:
    folder = here / "cache"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def kept_file(here: Path) -> Path:
    (name,) = files(here)
    return here / "cache" / name


HOME_DIRECTORIES = [
    ("linux", {}, "~/.cache/rung"),
    ("linux", {"XDG_CACHE_HOME": "/x/y"}, "/x/y/rung"),
    ("linux", {"XDG_CACHE_HOME": "x/y"}, "~/.cache/rung"),
    ("linux", {"XDG_CACHE_HOME": ""}, "~/.cache/rung"),
    ("linux", {"XDG_CACHE_HOME": "~/x"}, "~/.cache/rung"),
    ("linux", {"LOCALAPPDATA": "/l"}, "~/.cache/rung"),
    ("freebsd14", {"XDG_CACHE_HOME": "/x"}, "/x/rung"),
    ("darwin", {"XDG_CACHE_HOME": "/x", "LOCALAPPDATA": "/l"}, "~/Library/Caches/rung"),
    ("win32", {"LOCALAPPDATA": "/l", "XDG_CACHE_HOME": "/x"}, "/l/rung/Cache"),
    ("win32", {}, "~/AppData/Local/rung/Cache"),
    ("win32", {"LOCALAPPDATA": ""}, "~/AppData/Local/rung/Cache"),
    ("win32", {"LOCALAPPDATA": "l"}, None),
    ("linux", {"HOME": "h"}, None),
    ("linux", {"RUNG_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
    ("darwin", {"RUNG_CACHE_DIR": "/c"}, "/c"),
    ("win32", {"RUNG_CACHE_DIR": "/c"}, "/c"),
    ("linux", {"RUNG_CACHE_DIR": "~/c"}, "~/c"),
    ("linux", {"RUNG_CACHE_DIR": "c/../d"}, "./d"),
    ("linux", {"RUNG_CACHE_DIR": " /c "}, "/c"),
    ("linux", {"RUNG_CACHE_DIR": " "}, "~/.cache/rung"),
    ("linux", {"RUNG_CACHE_DIR": "/c", "RUNG_CACHE": "off"}, None),
    *[("linux", {"RUNG_CACHE": value}, None) for value in ("off", "OFF", " Off ", "0", "false", "no", "No")],
    *[("linux", {"RUNG_CACHE": value}, "~/.cache/rung") for value in ("on", "1", "yes", "")],
]


@posix
class TestDirectory:
    @pytest.mark.parametrize(
        ("system", "variables", "expected"),
        HOME_DIRECTORIES,
        ids=[f"{system} {' '.join(f'{k}={v}' for k, v in given.items())}" for system, given, _ in HOME_DIRECTORIES],
    )
    def test_it_is_where_the_platform_keeps_caches(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        system: str,
        variables: dict[str, str],
        expected: str | None,
    ) -> None:
        for name in ("RUNG_CACHE", "RUNG_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HOME": str(tmp_path / "home"), **variables}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "platform", system)
        whole = expected and expected.replace("~", str(tmp_path / "home")).replace("./", f"{tmp_path}/")
        assert cache.directory() == whole

    def test_there_is_none_where_nobody_knows_the_users_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("RUNG_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
        assert cache.directory() is None
        cache.keep("table-x.json", b"1")
        assert cache.kept("table-x.json") is None

    def test_it_is_the_users_alone(self, here: Path) -> None:
        cache.keep("table-x.json", b"1")
        assert (here / "cache").stat().st_mode & 0o077 == 0

    def test_a_working_directory_that_is_gone_ends_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        monkeypatch.setenv("RUNG_CACHE_DIR", "relative")
        (tmp_path / "gone").rmdir()
        assert cache.kept("table-x.json") is None

    def test_keeping_leaves_the_mask_of_the_process_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[int] = []

        def umask(mask: int) -> int:
            seen.append(mask)
            return 0o022

        monkeypatch.setattr("os.umask", umask)
        cache.keep("table-x.json", b"1")
        assert seen == []


class TestFresh:
    @pytest.mark.usefixtures("no_compiler")
    def test_the_compiler_is_forbidden_in_these_tests(self, here: Path) -> None:
        with pytest.raises(AssertionError, match="compiled again"):
            load(here)

    def test_the_second_load_compiles_nothing_and_gives_the_same(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = load(here)
        forbid_compiling(monkeypatch)
        assert content(load(here)) == content(first) == compiled_anew(here)
        assert len(files(here)) == 1

    def test_with_the_built_in_manifests_too(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (here / "m/all.yaml").unlink()
        (here / "m/acme.yaml").write_text(ACME.replace("double", "flow_match_step"), encoding="utf-8")
        first = rung.load([here / "m"], allow="acme")
        forbid_compiling(monkeypatch)
        assert content(rung.load([here / "m"], allow="acme")) == content(first)

    def test_reading_leaves_the_file_alone(self, here: Path) -> None:
        load(here)
        before = kept_file(here).stat()
        load(here)
        after = kept_file(here).stat()
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)

    def test_files_that_were_only_touched_are_fresh(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        load(here)
        for path in (here / "m").iterdir():
            os.utime(path, (1, 1))
        forbid_compiling(monkeypatch)
        load(here)

    def test_places_are_right_after_a_change_of_directory(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(here)
        first = rung.load(["m"], allow="acme", builtin=False)
        forbid_compiling(monkeypatch)
        (here / "elsewhere").mkdir()
        monkeypatch.chdir(here / "elsewhere")
        above, whole = (rung.load([path], allow="acme", builtin=False) for path in ("../m", str(here / "m")))
        monkeypatch.chdir(here / "m")
        inside = rung.load(".", allow="acme", builtin=False)
        places = [str(table.ops["double"].where) for table in (first, above, whole, inside)]
        assert places == ["m/all.yaml:5", "../m/all.yaml:5", f"{here}/m/all.yaml:5", "all.yaml:5"]
        assert len(files(here)) == 1

    @pytest.mark.parametrize("name", ["m", "two words", "caf\u00e9", "m.yaml", "#1"])
    def test_places_are_alike_whatever_the_directory_is_called(self, here: Path, name: str) -> None:
        shutil.move(here / "m", here / name)
        assert content(load(here, inner=name)) == content(load(here, inner=name))

    @posix
    @pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\u200bb", "a\u00a0b"], ids=["tab", "line", "zero", "no-break"])
    def test_so_they_are_when_it_cannot_be_printed(self, here: Path, name: str) -> None:
        shutil.move(here / "m", here / name)
        assert content(load(here, inner=name)) == content(load(here, inner=name))

    @posix
    def test_a_link_that_leads_elsewhere_now(self, here: Path) -> None:
        shutil.copytree(here / "m", here / "n")
        (here / "n/acme.yaml").write_text(ACME.replace("fast", "slow"), encoding="utf-8")
        for target in ("m", "n", "m"):
            (here / "link").unlink(missing_ok=True)
            (here / "link").symlink_to(target)
            assert content(load(here, inner="link")) == compiled_anew(here, "link")

    @posix
    def test_a_way_up_behind_a_link_leads_where_the_system_says(self, here: Path) -> None:
        (here / "far/deep").mkdir(parents=True)
        shutil.copytree(here / "m", here / "far/m")
        (here / "far/m/acme.yaml").write_text(ACME.replace("fast", "slow"), encoding="utf-8")
        (here / "link").symlink_to("far/deep")
        variants = {cell.variant for cell in load(here, inner="link/../m").kernels["double"]}
        assert variants == {"default", "slow"}

    def test_different_units_have_different_files(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shutil.copytree(here / "m", here / "n")
        makers: list[Callable[[], Table]] = [
            lambda: load(here),
            lambda: load(here, inner="n"),
            lambda: rung.load([here / "m"], allow=["acme", "more"], builtin=False),
            lambda: rung.load([here / "m/acme.yaml", here / "m/all.yaml"], allow=["acme"], builtin=False),
            lambda: rung.load([here / "m/all.yaml", here / "m/acme.yaml"], allow=["acme"], builtin=False),
        ]
        made = [content(make()) for make in makers]
        assert len(files(here)) == len(makers)
        forbid_compiling(monkeypatch)
        assert [content(make()) for make in makers] == made

    def test_two_versions_of_rung_share_the_directory(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        load(here)
        with monkeypatch.context() as other:
            for module in (loading, compiled):
                other.setattr(module, "VERSION", "9.9")
            load(here)
        assert len(files(here)) == 2
        forbid_compiling(monkeypatch)
        load(here)

    def test_a_kept_table_can_be_pickled_as_a_compiled_one_can(self, here: Path) -> None:
        pickle.dumps(load(here))
        pickle.dumps(load(here))


def edit(find: str, put: str) -> Change:
    def change(folder: Path) -> None:
        path = folder / "acme.yaml"
        text = path.read_text(encoding="utf-8")
        assert find in text
        path.write_text(text.replace(find, put), encoding="utf-8")

    return change


def edit_unseen(folder: Path) -> None:
    path = folder / "acme.yaml"
    before = path.stat()
    edit("fast", "slow")(folder)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def replace_unseen(folder: Path) -> None:
    path = folder / "acme.yaml"
    before = path.stat()
    (folder / "acme.new").write_text(ACME.replace("fast", "slow"), encoding="utf-8")
    os.utime(folder / "acme.new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "acme.new").replace(path)


def add(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(ACME.replace("acme\n", "other\n").replace("fast", "slow"), encoding="utf-8")

    return change


def into_a_directory(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "acme.yaml").rename(folder / "a/acme.yaml")


CHANGES: dict[str, Change] = {
    "an edit": edit("get it", "get it there"),
    "an edit of the same size and time": edit_unseen,
    "a file of the same size and time in its place": replace_unseen,
    "a line that moves the others": edit("manifest: 1\n", "# here\nmanifest: 1\n"),
    "a new file": add("b.yaml"),
    "a new file of the other ending": add("b.yml"),
    "a new file in a new directory": add("deep/b.yaml"),
    "a removed file": lambda folder: (folder / "acme.yaml").unlink(),
    "a renamed file": lambda folder: (folder / "acme.yaml").rename(folder / "b.yaml"),
    "a file that is hidden now": lambda folder: (folder / "acme.yaml").rename(folder / ".acme.yaml"),
    "a file in a directory now": into_a_directory,
}  # fmt: skip


class TestEdits:
    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_an_edit_takes_effect_at_the_next_load(
        self, here: Path, change: Change, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = content(load(here))
        change(here / "m")
        after = compiled_anew(here)
        assert content(load(here)) == after != before
        forbid_compiling(monkeypatch)
        assert content(load(here)) == after
        assert len(files(here)) == 1

    def test_so_does_what_may_be_bound(self, here: Path) -> None:
        assert "more" not in load(here).roots
        assert "more" in rung.load([here / "m"], allow=["acme", "more"], builtin=False).roots
        assert "more" not in load(here).roots

    def test_what_may_no_longer_be_bound_is_refused(self, here: Path) -> None:
        load(here)
        with pytest.raises(rung.ManifestError, match="RG801"):
            load(here, allow="other")

    def test_an_edit_that_is_taken_back(self, here: Path) -> None:
        first = content(load(here))
        edit("fast", "slow")(here / "m")
        assert content(load(here)) != first
        edit("slow", "fast")(here / "m")
        assert content(load(here)) == first

    @pytest.mark.parametrize(
        ("find", "put"), [("manifest: 1", "manifest: 9"), ("double", "dubble"), ("acme.k", "os.k"), ("{d", "{{d")],
        ids=["version", "unknown op", "not allowed", "syntax"],
    )  # fmt: skip
    def test_faults_are_raised_each_time_and_nothing_of_them_is_kept(self, here: Path, find: str, put: str) -> None:
        good = content(load(here))
        kept = kept_file(here).read_bytes()
        edit(find, put)(here / "m")
        for _ in range(2):
            with pytest.raises(rung.ManifestError):
                load(here)
        assert kept_file(here).read_bytes() == kept
        edit(put, find)(here / "m")
        assert content(load(here)) == good

    @posix
    @pytest.mark.parametrize("kind", ["a link that leads nowhere", "a pipe"])
    def test_a_manifest_that_cannot_be_read_is_no_reason_to_use_what_is_kept(self, here: Path, kind: str) -> None:
        load(here)
        if kind == "a pipe":
            os.mkfifo(here / "m/b.yaml")
        else:
            (here / "m/b.yaml").symlink_to("nowhere")
        for _ in range(2):
            with pytest.raises(rung.ManifestError, match="RG001"):
                load(here)


def refused(path: Any, forbidden: str) -> Any:
    if os.fspath(path) == forbidden:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), forbidden)
    return path


class TestMeanwhile:
    """What changes while a table is made."""

    def compiling(
        self, monkeypatch: pytest.MonkeyPatch, before: Callable[[], object], after: Callable[[], object]
    ) -> None:
        def compile_between(*arguments: Any, **more: Any) -> Table:
            before()
            table = compile_units(*arguments, **more)
            after()
            return table

        monkeypatch.setattr("rung.compile.compile_units", compile_between)

    @pytest.mark.parametrize("when", ["before it is read", "after it was read"])
    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_what_was_compiled_is_not_kept(
        self, here: Path, change: Change, when: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def edited() -> None:
            change(here / "m")

        steps = (edited, list) if when == "before it is read" else (list, edited)
        with monkeypatch.context() as patched:
            self.compiling(patched, *steps)
            load(here)
        assert files(here) == []
        assert content(load(here)) == compiled_anew(here)

    def test_a_manifest_that_vanishes_ends_nothing(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = compiled.text_of

        def late(*arguments: Any) -> str:
            (here / "m/acme.yaml").unlink()
            return real(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(loading, "text_of", late)
            load(here)
        assert content(load(here)) == compiled_anew(here)

    def test_nor_is_it_when_the_edit_was_taken_back(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patched:
            self.compiling(patched, lambda: edit("fast", "slow")(here / "m"), lambda: edit("slow", "fast")(here / "m"))
            load(here)
        assert content(load(here)) == compiled_anew(here)


def put(make: Callable[[bytes], bytes]) -> Change:
    def damage(path: Path) -> None:
        before = path.read_bytes()
        path.write_bytes(make(before))
        assert path.read_bytes() != before

    return damage


def swapped(data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines[3], lines[4] = lines[4], lines[3]
    return b"\n".join(lines)


def without_a_line(data: bytes) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join([*lines[:4], *lines[5:]])


def body_of(data: bytes) -> str:
    return data.decode().removesuffix(compiled._END).partition(compiled._BODY)[2]


def instead(kind: str) -> Change:
    def change(path: Path) -> None:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "loop":
            path.symlink_to(path.name)
        elif kind == "directory":
            path.mkdir()
            (path / "inside").touch()
        else:
            path.symlink_to(path.parent / kind)

    return change


def of_others(path: Path) -> None:
    """Put what is kept of other manifests in its place."""
    here = path.parents[1]
    shutil.copytree(here / "m", here / "n")
    edit("fast", "slow")(here / "n")
    load(here, inner="n")
    (other,) = (found for found in path.parent.iterdir() if found != path)
    other.replace(path)


VERSION = rung.__version__.encode()
DAMAGE: dict[str, Change] = {
    "empty": put(lambda data: b""),
    "one byte": put(lambda data: data[:1]),
    "without its last byte": put(lambda data: data[:-1]),
    "longer": put(lambda data: data + b"\n"),
    "twice": put(lambda data: data + data),
    "null bytes": put(lambda data: b"\0" * len(data)),
    "a block of null bytes": put(lambda data: data[:512] + b"\0" * 512 + data[1024:]),
    "foreign JSON": put(lambda data: b'{"name": "a project", "version": 1}'),
    "a list": put(lambda data: b"[]"),
    "a number": put(lambda data: b"1"),
    "binary garbage": put(lambda data: bytes(range(256)) * 40),
    "half a character": put(lambda data: b'{"rung": "\xc3'),
    "deep": put(lambda data: b"[" * 100_000),
    "an older rung": put(lambda data: data.replace(b'"rung": "' + VERSION, b'"rung": "0.0.9', 1)),
    "a newer rung": put(lambda data: data.replace(b'"rung": "' + VERSION, b'"rung": "99.0', 1)),
    "another format": put(lambda data: data.replace(b'"format": ', b'"format": 9', 1)),
    "a format in words": put(lambda data: data.replace(b'"format": 3', b'"format": "3"', 1)),
    "no format": put(lambda data: data.replace(b'"format"', b'"farmat"', 1)),
    "a head without a digest": put(lambda data: data.replace(b'"digest"', b'"dagest"', 1)),
    "another implementation": put(lambda data: data.replace(b"acme.kernels:fast", b"acme.kernels:evil", 1)),
    "a line removed": put(without_a_line),
    "two lines swapped": put(swapped),
    "Windows' line ends": put(lambda data: data.replace(b"\n", b"\r\n")),
    "a digest made right for other sources": put(
        lambda data: compiled._signed(body_of(data).replace(":fast", ":evil"), "0" * 64).encode()
    ),
    "a digest made right for no sources": put(
        lambda data: compiled._signed(body_of(data).replace(":fast", ":evil"), "").encode()
    ),
    "what is kept of other manifests": of_others,
    "a link that leads nowhere": instead("nowhere"),
    "a link to itself": instead("loop"),
    "a link to a directory": instead("."),
    "a link to a device": instead("/dev/zero"),
    "a pipe": instead("pipe"),
}  # fmt: skip


class TestDamage:
    @posix
    @pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
    def test_what_is_damaged_is_made_again(self, here: Path, damage: Change, monkeypatch: pytest.MonkeyPatch) -> None:
        load(here)
        path = kept_file(here)
        damage(path)
        assert content(load(here)) == compiled_anew(here)
        assert kept_file(here) == path
        assert not path.is_symlink()
        assert compiled.fault(path, units(here), compile_units(units(here))) == ""
        forbid_compiling(monkeypatch)
        assert content(load(here)) == compiled_anew(here)

    def test_no_beginning_of_it_is_used(self, here: Path) -> None:
        right = content(load(here))
        path = kept_file(here)
        whole = path.read_bytes()
        for length in range(0, len(whole), len(whole) // 40):
            path.write_bytes(whole[:length])
            assert content(load(here)) == right, length
            assert path.read_bytes() == whole, length

    def test_no_single_bit_of_it_can_change(self, here: Path) -> None:
        load(here)
        path, used = kept_file(here), units(here)
        whole = bytearray(path.read_bytes())
        for place in range(0, len(whole), 7):
            whole[place] ^= 1
            path.write_bytes(whole)
            assert compiled.read(path, used) is None, place
            whole[place] ^= 1

    def test_a_link_is_replaced_and_not_followed(self, here: Path) -> None:
        load(here)
        path = kept_file(here)
        path.unlink()
        (here / "victim").write_text("precious", encoding="utf-8")
        path.symlink_to(here / "victim")
        load(here)
        assert (here / "victim").read_text(encoding="utf-8") == "precious"
        assert not path.is_symlink()

    def test_a_directory_in_its_place_stays_and_is_said(self, here: Path, caplog: pytest.LogCaptureFixture) -> None:
        load(here)
        path = kept_file(here)
        instead("directory")(path)
        caplog.set_level(logging.INFO, "rung")
        assert content(load(here)) == compiled_anew(here)
        assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
            f"{here / 'cache'} cannot be written"
        ]
        assert files(here) == [path.name]

    def test_a_file_that_cannot_be_opened_is_made_again(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        load(here)
        path = kept_file(here)
        path.write_text("old", encoding="utf-8")
        real = os.open
        with monkeypatch.context() as patched:
            patched.setattr("os.open", lambda p, *rest, **more: real(refused(p, str(path)), *rest, **more))
            assert content(load(here)) == compiled_anew(here)
        assert compiled.fault(path, units(here)) == ""

    @posix
    def test_it_can_be_read_afterwards(self, here: Path) -> None:
        load(here)
        kept_file(here).write_text("old", encoding="utf-8")
        kept_file(here).chmod(0)
        load(here)
        assert kept_file(here).stat().st_mode & 0o400

    def test_a_reading_error_is_like_no_file(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        load(here)

        def fail(*_: object) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patched:
            patched.setattr(compiled, "read_regular", fail)
            assert content(load(here)) == compiled_anew(here)
        assert cache.kept("..") is None


def a_file(here: Path, _: pytest.MonkeyPatch) -> None:
    (here / "cache").write_text("no directory", encoding="utf-8")


def below_a_file(here: Path, patched: pytest.MonkeyPatch) -> None:
    a_file(here, patched)
    patched.setenv("RUNG_CACHE_DIR", str(here / "cache/deeper"))


def read_only(here: Path, patched: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    (here / "cache").mkdir()
    patched.setattr(tempfile, "mkstemp", refuse)


def never_made(here: Path, patched: pytest.MonkeyPatch) -> None:
    real = os.mkdir

    def refuse(path: Any, *rest: Any, **more: Any) -> None:
        real(refused(path, str(here / "cache")), *rest, **more)

    patched.setattr("os.mkdir", refuse)


def named(name: str) -> Callable[[Path, pytest.MonkeyPatch], None]:
    return lambda here, patched: patched.setenv("RUNG_CACHE_DIR", f"{here}/{name}")


NO_PLACE = {
    "a file": a_file,
    "below a file": below_a_file,
    "read-only": read_only,
    "never to be made": never_made,
    "a link that leads nowhere": lambda here, _: (here / "cache").symlink_to("nowhere/at/all"),
    "a link to itself": lambda here, _: (here / "cache").symlink_to("cache"),
    "too long a name": named("d" * 300),
    "too long a path": named("d" * 200 + f"/{'d' * 200}" * 30),
}


class TestNoPlace:
    @posix
    @pytest.mark.parametrize("prepare", NO_PLACE.values(), ids=NO_PLACE)
    def test_loading_works_without_a_cache_and_says_so_once_a_load(
        self,
        here: Path,
        prepare: Callable[[Path, pytest.MonkeyPatch], object],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.INFO, "rung")
        right = compiled_anew(here)
        with monkeypatch.context() as patched:
            prepare(here, patched)
            folder = cache.directory()
            for _ in range(2):
                assert content(load(here)) == right
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 2
        assert all(f"{folder} cannot be written, so what is compiled is not kept: " in line for line in said)
        assert not (here / "cache").is_dir() or files(here) == []

    @posix
    def test_a_path_of_a_thousand_directories_ends_nothing(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RUNG_CACHE_DIR", str(here) + "/d" * 3000)
        load(here)

    def test_off_writes_nothing_and_reads_nothing(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        load(here)
        kept = kept_file(here).read_bytes()
        monkeypatch.setenv("RUNG_CACHE", "off")
        edit("fast", "slow")(here / "m")
        load(here)
        assert kept_file(here).read_bytes() == kept
        edit("slow", "fast")(here / "m")
        forbid_compiling(monkeypatch)
        with pytest.raises(AssertionError, match="compiled again"):
            load(here)

    def test_off_makes_no_directory(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RUNG_CACHE", "off")
        monkeypatch.delenv("RUNG_CACHE_DIR")
        monkeypatch.setenv("HOME", str(here / "home"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(here / "home/xdg"))
        load(here)
        rung.load()
        assert sorted(path.name for path in here.iterdir()) == ["m"]

    @posix
    @pytest.mark.parametrize("before", ["nothing", "a stale file"])
    def test_a_full_disk_leaves_nothing_half(
        self, here: Path, before: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "rung")
        if before == "a stale file":
            load(here)
            edit("fast", "slow")(here / "m")
        kept = [(name, (here / "cache" / name).read_bytes()) for name in files(here)]
        with files_of_at_most(64):
            table = load(here)
        assert content(table) == compiled_anew(here)
        assert [(name, (here / "cache" / name).read_bytes()) for name in files(here)] == kept
        assert "File too large" in caplog.text
        assert content(load(here)) == compiled_anew(here)
        assert compiled.fault(kept_file(here), units(here)) == ""

    @pytest.mark.parametrize("step", ["pathlib.Path.replace", "os.fdopen"])
    def test_nor_does_a_write_that_fails_at_its_end(
        self, here: Path, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(step, fail)
            load(here)
        assert files(here) == []


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let this process write no longer files than that, as on a disk that becomes full."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestShipped:
    @pytest.fixture
    def installed(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        shutil.copytree(data_dir("manifests"), here / "installed")
        monkeypatch.setattr(loading, "data_path", lambda _: str(here / "installed"))
        return here / "installed"

    @pytest.mark.usefixtures("no_compiler")
    def test_a_read_only_installation_needs_no_cache(
        self, here: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read_only(here, monkeypatch)
        for path in (*installed.rglob("*"), installed):
            path.chmod(0o555 if path.is_dir() else 0o444)
        assert "flow_match_step" in rung.load().ops
        assert "flow_match_step" in rung.load([installed]).ops
        assert files(here) == []

    @pytest.mark.usefixtures("no_compiler")
    @pytest.mark.parametrize("value", ["on", "off"])
    def test_it_is_used_with_and_without_a_cache(self, here: Path, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RUNG_CACHE", value)
        rung.load()
        assert not (here / "cache").exists()

    @pytest.mark.parametrize("change", ["edited", "removed", "a directory", "truncated"])
    def test_what_is_wrong_with_it_is_made_up_for_by_the_cache(
        self, here: Path, installed: Path, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = content(rung.load())
        shipped = installed / SHIPPED
        data = shipped.read_bytes()
        if change in ("edited", "truncated"):
            shipped.write_bytes(data.replace(b"flow", b"flaw") if change == "edited" else data[: len(data) // 2])
        else:
            shipped.unlink()
        if change == "a directory":
            shipped.mkdir()
        assert content(rung.load()) == right
        forbid_compiling(monkeypatch)
        assert content(rung.load()) == right
        assert len(files(here)) == 1

    def test_an_edit_of_a_built_in_manifest_takes_effect(self, installed: Path) -> None:
        before = {kind.where.line for kind in rung.load().kinds.values()}
        path = installed / "kinds.yaml"
        path.write_text("# here\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
        for _ in range(2):
            assert {kind.where.line for kind in rung.load().kinds.values()} == {line + 1 for line in before}

    def test_it_is_not_used_for_more_packages(self, installed: Path) -> None:
        assert "more" in rung.load([installed], allow="more").roots
        assert "more" not in rung.load().roots


LOADER = """\
import sys, rung, rung.compile
from rung.records import fields
print("ready", flush=True)
sys.stdin.readline()
table = rung.load([sys.argv[1]], allow=["acme"], builtin=False)
print(sorted(table.ops), [cell for cell in table.cells()], table.wanted, sorted(table.predicates.items()))
"""


class TestAtOnce:
    @pytest.mark.parametrize("before", ["an empty cache", "a damaged file"])
    def test_processes_that_load_at_once_all_end_well(self, here: Path, before: str) -> None:
        if before == "a damaged file":
            load(here)
            kept_file(here).write_bytes(kept_file(here).read_bytes()[:100])
            edit("fast", "slow")(here / "m")
        command = [sys.executable, "-c", LOADER, str(here / "m")]
        pipe = subprocess.PIPE
        running = [
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=here) for _ in range(3)
        ]
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate() for process in running]
        assert {error for _, error in answers} == {""}
        assert len({answer for answer, _ in answers}) == 1
        assert ("slow" in answers[0][0]) is (before == "a damaged file")
        assert compiled.fault(kept_file(here), units(here), compile_units(units(here))) == ""

    def test_threads_that_load_at_once_all_get_the_right_table(self, here: Path) -> None:
        right, found, start = compiled_anew(here), [], threading.Barrier(6)

        def work() -> None:
            start.wait()
            found.append(content(load(here)))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one == right for one in found] == [True] * 6
        assert compiled.fault(kept_file(here), units(here)) == ""

    def test_what_another_process_left_unfinished_is_no_table(self, here: Path) -> None:
        (here / "cache").mkdir()
        (here / "cache/.table-0.json.x.tmp").write_text("half", encoding="utf-8")
        assert content(load(here)) == content(load(here)) == compiled_anew(here)

    def test_a_table_that_was_read_stays_as_it_is_when_its_file_is_replaced(self, here: Path) -> None:
        load(here)
        table = load(here)  # its lines are text still
        edit("fast", "slow")(here / "m")
        load(here)
        assert {cell.variant for cell in table.kernels["double"]} == {"default", "fast"}


FRESH = """\
import sys
from pathlib import Path
from rung import compiled
from rung.load import units_of
path, used = Path(sys.argv[1]), units_of([sys.argv[2]], frozenset({"rung", "rung_backends", "acme"}))
whole = path.read_bytes()
assert compiled.read(path, used) is not None
for length in range(len(whole)):
    path.write_bytes(whole[:length])
    assert compiled.read(path, used) is None, length
    assert "json" not in sys.modules
"""


def test_no_beginning_of_it_is_used_where_json_is_not_imported(here: Path) -> None:
    load(here)
    command = [sys.executable, "-c", FRESH, str(kept_file(here)), str(here / "m")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)
    assert done.stderr == ""
