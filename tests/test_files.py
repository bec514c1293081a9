"""Reading what somebody else wrote, replacing what somebody may be reading."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from rung.files import read_regular, replace_file

if TYPE_CHECKING:
    from pathlib import Path

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


class TestReading:
    def test_up_to_the_limit(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"12345")
        assert read_regular(tmp_path / "a", 5) == b"12345"
        with pytest.raises(OSError, match="5 bytes exceed the limit of 4"):
            read_regular(tmp_path / "a", 4)

    @posix
    @pytest.mark.parametrize("kind", ["pipe", "device", "link to a device", "directory", "null byte", "nothing"])
    def test_nothing_but_a_regular_file(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "a"
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "link to a device":
            path.symlink_to("/dev/zero")
        elif kind == "directory":
            path.mkdir()
        names = {"device": "/dev/zero", "null byte": f"{path}\0"}
        with pytest.raises(OSError, match=r"."):
            read_regular(names.get(kind, path), 100)


class TestReplacing:
    def test_a_new_file_has_the_mode_new_files_have(self, tmp_path: Path) -> None:
        replace_file(tmp_path / "x/a", b"1")
        (tmp_path / "b").write_bytes(b"1")
        assert (tmp_path / "x/a").read_bytes() == b"1"
        assert (tmp_path / "x/a").stat().st_mode == (tmp_path / "b").stat().st_mode

    @posix
    def test_an_old_one_keeps_its_mode(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"1")
        (tmp_path / "a").chmod(0o640)
        replace_file(tmp_path / "a", b"2")
        assert ((tmp_path / "a").read_bytes(), (tmp_path / "a").stat().st_mode & 0o777) == (b"2", 0o640)

    @posix
    def test_a_link_is_replaced_and_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "victim").write_bytes(b"1")
        (tmp_path / "a").symlink_to("victim")
        replace_file(tmp_path / "a", b"2")
        assert ((tmp_path / "victim").read_bytes(), (tmp_path / "a").read_bytes()) == (b"1", b"2")

    def test_a_write_that_fails_leaves_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "a").write_bytes(b"1")
        monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            replace_file(tmp_path / "a", b"2")
        assert (tmp_path / "a").read_bytes() == b"1"
        assert [p.name for p in tmp_path.iterdir()] == ["a"]
