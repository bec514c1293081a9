"""What is installed beside rung: asked once per environment, and again whenever the answer may be another one."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rung
import rung.compile  # what it needs is not found where these tests look for modules
from rung import installed
from rung.installed import plugins, version_of
from rung.load import plugin_units
from rung.units import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Change = Callable[[Path], object]

SETTLED = 1_000_000_000_000_000_000
"""A time in 2001, in nanoseconds: directories that last changed then are taken not to change again."""
ENGINE = Path(rung.__file__).parents[1]


def distribution(
    site: Path, name: str = "acme", version: str = "1.0", *, info: str = "{name}-{version}.dist-info", points: str = ""
) -> Path:
    """Write what an installer leaves behind: a package with manifests, and its metadata."""
    (site / name / "manifests").mkdir(parents=True, exist_ok=True)
    (site / name / "__init__.py").write_text("raise SystemError('imported')\n", encoding="utf-8")
    folder = site / info.format(name=name, version=version)
    folder.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / ("METADATA" if folder.suffix.lower() == ".dist-info" else "PKG-INFO")).write_text(text, encoding="utf-8")
    (folder / "RECORD").write_text(f"{name}/__init__.py,,\n", encoding="utf-8")
    if points:
        (folder / "entry_points.txt").write_text(f"[rung.manifests]\n{points}\n", encoding="utf-8")
    return folder


def settle(folder: Path, later: int = 0) -> None:
    """Make everything below a folder old, by some seconds less for what changed afterwards."""
    moment = SETTLED + later * 1_000_000_000
    for path in (*folder.rglob("*"), folder):
        os.utime(path, ns=(moment, moment))


@pytest.fixture(autouse=True)
def _own_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RUNG_CACHE", "on")
    monkeypatch.setenv("RUNG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RUNG_PLUGINS")
    before, path = sys.path, [place for place in sys.path if not holds_metadata(Path(place))]
    sys.path = [str(tmp_path / "site"), *path]  # whatever else is installed, just now too
    yield
    monkeypatch.undo()  # what it puts back into the list goes into this one
    sys.path = before


def holds_metadata(place: Path) -> bool:
    return place.is_dir() and any(path.suffix in (".dist-info", ".egg-info", ".egg-link") for path in place.iterdir())


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    distribution(tmp_path / "site")
    settle(tmp_path / "site")
    return tmp_path / "site"


class Asked:
    """Counts what is asked of `importlib.metadata`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("_version", "_points"):
            monkeypatch.setattr(installed, name, self._counting(getattr(installed, name)))

    def _counting(self, real: Callable[..., object]) -> Callable[..., object]:
        def ask(*arguments: object) -> object:
            self.count += 1
            return real(*arguments)

        return ask

    def while_(self, work: Callable[[], object]) -> int:
        """Give how many questions something asks."""
        before = self.count
        work()
        return self.count - before


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def acme() -> str | bool:
    return version_of("acme")


def kept_file(site: Path) -> Path:
    (found,) = (site.parent / "cache").iterdir()
    return found


def run(program: str, *path: Path, **environment: str) -> str:
    """Give what a program prints in a fresh Python that finds rung, the standard library and `path`."""
    cwd = path[0].parent / "cwd"
    cwd.mkdir(exist_ok=True)
    places = os.pathsep.join(map(str, (*path, ENGINE)))
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={**os.environ, "PYTHONPATH": places, **environment},
        cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


ASK = """\
import sys
from rung.installed import plugins, version_of
print(version_of('acme'), version_of('nowhere'), [plugin.value for plugin in plugins()])
print(sorted({'importlib.metadata', 'inspect', 'json', 're', 'pathlib', 'typing', 'logging'} & set(sys.modules)))
"""


class TestKept:
    def test_the_second_process_asks_nothing(self, site: Path) -> None:
        distribution(site, "plug", points="plug = plug:manifests")
        settle(site)
        first, second, third = (run(ASK, site).splitlines() for _ in range(3))
        assert first[0] == second[0] == third[0] == "1.0 False ['plug:manifests']"
        assert "importlib.metadata" in first[1]
        assert second[1] == third[1] == "[]"

    def test_an_answer_is_asked_for_once(self, site: Path, asked: Asked) -> None:
        assert [asked.while_(acme) for _ in range(3)] == [1, 0, 0]
        assert [asked.while_(plugins) for _ in range(3)] == [1, 0, 0]
        assert acme() == "1.0"

    @pytest.mark.parametrize(
        ("name", "dist", "version"),
        [("acme", "", "1.0"), ("acme", "other", True), ("spam", "acme", False), ("json", "", True)],
        ids=["by its name", "a distribution that is not there", "a module that is not there", "no distribution"],
    )  # fmt: skip
    def test_it_is_the_same_answer(self, site: Path, name: str, dist: str, version: str | bool) -> None:
        assert [version_of(name, dist) for _ in range(3)] == [version] * 3

    def test_questions_are_told_apart(self, site: Path) -> None:
        distribution(site, "other", "3.0")
        settle(site)
        for _ in range(2):
            assert (version_of("acme"), version_of("acme", "other"), version_of("other")) == ("1.0", "3.0", "3.0")

    def test_kept_plugins_are_the_installed_ones(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        distribution(site, "plug", points="a = plug:manifests\nb = plug : nowhere")
        distribution(site, "caf\u00e9", points="c = caf\u00e9:manifests")
        (site / "plug-1.0.dist-info/top_level.txt").write_text("plug\nplug_more\n", encoding="utf-8")
        settle(site)
        found = [plugins() for _ in range(3)]
        monkeypatch.setenv("RUNG_CACHE", "off")
        assert found == [plugins()] * 3
        assert [(p.owner, p.directory and Path(p.directory).parent.name) for p in found[0]] == [
            ("caf\u00e9", "caf\u00e9"), ("plug", "plug"), ("plug", None),
        ]  # fmt: skip
        assert found[0][1].roots == ("plug", "plug_more")

    def test_off_asks_each_time_and_writes_nothing(
        self, site: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RUNG_CACHE", "off")
        assert [asked.while_(acme) for _ in range(3)] == [1, 1, 1]
        assert not (site.parent / "cache").exists()

    def test_without_plugins_nobody_asks_for_them(
        self, site: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        distribution(site, "plug", points="plug = plug:manifests")
        settle(site)
        assert [owner for owner, _ in plugin_units()] == ["plug"]
        monkeypatch.setenv("RUNG_PLUGINS", "off")
        assert asked.while_(plugin_units) == 0
        assert plugin_units() == []

    def test_threads_that_ask_at_once_get_the_right_answers(self, site: Path) -> None:
        found: list[tuple[str | bool, int]] = []
        start = threading.Barrier(4)

        def work() -> None:
            start.wait()
            found.append((acme(), len(plugins())))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [("1.0", 0)] * 4
        assert (acme(), len(plugins())) == ("1.0", 0)

    def test_a_cache_that_cannot_be_written_changes_no_answer(self, site: Path) -> None:
        (site.parent / "cache").write_text("no directory", encoding="utf-8")
        assert [acme() for _ in range(2)] == ["1.0"] * 2
        assert plugins() == []


def upgraded(site: Path) -> None:
    shutil.rmtree(site / "acme-1.0.dist-info")
    distribution(site, version="2.0")


def reinstalled(site: Path) -> None:
    shutil.rmtree(site / "acme-1.0.dist-info")
    (distribution(site) / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 2.0\n", encoding="utf-8")


def removed(site: Path) -> None:
    shutil.rmtree(site)
    site.mkdir()


CHANGES: dict[str, tuple[Change, str | bool]] = {
    "upgraded": (upgraded, "2.0"),
    "installed again under the same name": (reinstalled, "2.0"),
    "its metadata removed": (lambda site: shutil.rmtree(site / "acme-1.0.dist-info"), True),
    "removed": (removed, False),
    "the whole directory removed": (shutil.rmtree, False),
    "another one installed": (lambda site: distribution(site, "other"), "1.0"),
}


class Other(metadata.DistributionFinder):
    """A finder that finds nothing."""

    def find_distributions(self, context: object = None) -> list[metadata.Distribution]:
        return []


class TestAskedAgain:
    @pytest.mark.parametrize(("change", "version"), CHANGES.values(), ids=CHANGES)
    def test_what_is_installed_now_is_the_answer(
        self, site: Path, change: Change, version: str | bool, asked: Asked
    ) -> None:
        assert acme() == "1.0"
        change(site)
        if site.exists():
            settle(site, later=1)
        assert [acme() for _ in range(2)] == [version] * 2
        assert asked.while_(acme) == 0

    def test_what_is_installed_later_is_found(self, site: Path) -> None:
        shutil.rmtree(site)
        assert [acme() for _ in range(2)] == [False] * 2
        (site / "acme").mkdir(parents=True)
        (site / "acme/__init__.py").touch()
        settle(site)
        importlib.invalidate_caches()  # Python itself remembers that there was no directory
        assert [acme() for _ in range(2)] == [True] * 2
        distribution(site)
        settle(site, later=1)
        assert [acme() for _ in range(2)] == ["1.0"] * 2

    def test_what_was_installed_in_a_directory_that_comes_first(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert acme() == "1.0"
        distribution(tmp_path / "first", version="2.0")
        settle(tmp_path / "first")
        with monkeypatch.context() as patched:
            patched.syspath_prepend(str(tmp_path / "first"))
            assert [acme() for _ in range(2)] == ["2.0"] * 2
        assert [acme() for _ in range(2)] == ["1.0"] * 2

    def test_in_another_order_of_directories(self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        distribution(tmp_path / "second", version="2.0")
        settle(tmp_path / "second")
        for first, second, version in (("site", "second", "1.0"), ("second", "site", "2.0")):
            monkeypatch.setattr(sys, "path", [str(tmp_path / first), str(tmp_path / second)])
            assert [acme() for _ in range(2)] == [version] * 2

    def test_what_lies_in_an_archive(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        archive = site.parent / "some.zip"
        shutil.rmtree(site)
        for later, version in enumerate(("1.0", "2.0")):
            with zipfile.ZipFile(archive, "w") as file:
                file.writestr("acme/__init__.py", "")
                file.writestr(f"acme-{version}.dist-info/METADATA", f"Name: acme\nVersion: {version}\n")
            os.utime(archive, ns=(SETTLED, SETTLED + later * 1_000_000_000))
            monkeypatch.setattr(sys, "path", [str(archive), *sys.path])
            importlib.invalidate_caches()
            assert [acme() for _ in range(2)] == [version] * 2

    @pytest.mark.parametrize(
        "recent",
        [
            ".",
            "acme-1.0.dist-info",
        ],
        ids=["the directory", "the metadata in it"],
    )
    def test_what_changed_just_now_is_not_kept(self, site: Path, recent: str, asked: Asked) -> None:
        os.utime(site / recent)
        assert [asked.while_(acme) for _ in range(2)] == [1, 1]
        shutil.rmtree(site / "acme-1.0.dist-info")
        distribution(site, version="2.0")
        assert [acme() for _ in range(2)] == ["2.0"] * 2

    @pytest.mark.parametrize(
        ("ago", "questions"),
        [(3, [1, 0]), (1, [1, 1]), (-1, [1, 1]), (-3_600, [1, 0])],
        ids=["seconds ago", "a second ago", "in a second", "in an hour"],
    )
    def test_a_time_is_trusted_when_it_cannot_be_that_of_the_next_change(
        self, site: Path, ago: int, questions: list[int], asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now)
        os.utime(site, ns=(now, now - ago * 1_000_000_000))
        assert [asked.while_(acme) for _ in range(2)] == questions

    def test_a_script_beside_which_files_come_and_go(
        self, site: Path, tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "script").mkdir()
        monkeypatch.syspath_prepend(str(tmp_path / "script"))
        acme()
        for name in ("a", "b"):
            (tmp_path / "script" / name).touch()  # so the directory changed just now
            assert asked.while_(acme) == 0

    def test_scripts_in_different_directories_share_the_answers(
        self, site: Path, tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        acme()
        bare = list(sys.path)
        for name in ("one", "two", "nowhere", ""):
            monkeypatch.setattr(sys, "path", [name and str(tmp_path / name), *bare])
            monkeypatch.chdir(tmp_path / "cache")
            assert asked.while_(acme) == 0

    @pytest.mark.parametrize(
        ("name", "value"),
        [("prefix", "/elsewhere"), ("version", "3.99.0 (other)")],
        ids=["another installation", "another Python"],
    )
    def test_another_environment_has_answers_of_its_own(
        self, site: Path, name: str, value: object, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        acme()
        monkeypatch.setattr(sys, name, value)
        assert [asked.while_(acme) for _ in range(2)] == [1, 0]

    def test_what_another_finder_of_distributions_knows_is_asked_each_time(
        self, site: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        acme()
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Other()])
        assert [asked.while_(acme) for _ in range(2)] == [1, 1]

    def test_another_rung_has_a_file_of_its_own(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        acme()
        monkeypatch.setattr(installed, "VERSION", "9.9")
        acme()
        assert len(list((site.parent / "cache").iterdir())) == 2


def put(make: Callable[[bytes], bytes]) -> Change:
    def damage(path: Path) -> None:
        before = path.read_bytes()
        path.write_bytes(make(before))
        assert path.read_bytes() != before

    return damage


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Change] = {
    "empty": put(lambda data: b""),
    "half": put(lambda data: data[: len(data) // 2]),
    "without its last byte": put(lambda data: data[:-1]),
    "longer": put(lambda data: data + b" "),
    "edited by hand": put(lambda data: data.replace(b'"1.0"', b'"6.6"')),
    "another digest": put(lambda data: data.replace(b'["', b'["0', 1)),
    "foreign JSON": put(lambda data: b'{"answers": {"version acme ": "6.6"}}'),
    "binary garbage": put(lambda data: bytes(range(256)) * 9),
    "null bytes": put(lambda data: b"\0" * len(data)),
    "its digest alone": put(lambda data: data.partition(b",\n")[0]),
    "an empty body": put(lambda data: b'["",\n]'),
    "removed": Path.unlink,
    "a link that leads nowhere": link,
    "a pipe": pipe,
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
    def test_what_is_damaged_is_asked_again(self, site: Path, damage: Change, asked: Asked) -> None:
        acme()
        path = kept_file(site)
        whole = path.read_bytes()
        damage(path)
        assert [asked.while_(acme) for _ in range(2)] == [1, 0]
        assert (acme(), path.read_bytes()) == ("1.0", whole)

    def test_no_beginning_of_it_is_used(self, site: Path, asked: Asked) -> None:
        acme()
        path = kept_file(site)
        whole = path.read_bytes()
        for length in range(0, len(whole), 11):
            path.write_bytes(whole[:length])
            assert asked.while_(acme) == 1, length
            assert path.read_bytes() == whole, length

    def test_a_directory_in_its_place(self, site: Path, asked: Asked) -> None:
        acme()
        path = kept_file(site)
        path.unlink()
        path.mkdir()
        assert [asked.while_(acme) for _ in range(2)] == [1, 1]

    @pytest.mark.parametrize(
        "data",
        [[], {"places": 1}, {"places": {}, "answers": {"plugins": 1}}, {"places": {}, "answers": []}],
        ids=["a list", "places in a number", "plugins in a number", "answers in a list"],
    )
    def test_a_whole_file_of_another_form_is_asked_again(self, site: Path, data: object) -> None:
        plugins()
        path = kept_file(site)
        if isinstance(data, dict) and "answers" in data:
            before = json.loads(path.read_text(encoding="utf-8"))[1]
            data = {**before, **data}
        text = json.dumps(data, separators=(",", ":")).encode() + b"]"
        path.write_bytes(b'["' + digest(text).encode() + b'",\n' + text)
        assert plugins() == []
        assert acme() == "1.0"


class TestPlugins:
    def test_an_entry_point_that_is_edited_in_place_takes_effect(self, site: Path) -> None:
        points = distribution(site, "plug", points="plug = plug:manifests") / "entry_points.txt"
        settle(site)
        assert [plugin.value for plugin in plugins()] == ["plug:manifests"]
        points.write_text("[rung.manifests]\nplug = plug:other\n", encoding="utf-8")
        assert [plugin.value for plugin in plugins()] == ["plug:other"]
        points.unlink()
        assert plugins() == []

    def test_also_within_the_tick_of_a_clock(self, site: Path) -> None:
        points = distribution(site, "plug", points="plug = plug:manifests") / "entry_points.txt"
        settle(site)
        os.utime(points)
        before = points.stat().st_mtime_ns
        assert [plugin.value for plugin in plugins()] == ["plug:manifests"]
        points.write_text("[rung.manifests]\nplug = plug:other\n", encoding="utf-8")
        os.utime(points, ns=(before, before))
        assert [plugin.value for plugin in plugins()] == ["plug:other"]

    def test_one_that_is_installed_removed_and_installed_again(self, site: Path) -> None:
        assert plugins() == []
        for later in range(1, 5, 2):
            distribution(site, "plug", points="plug = plug:manifests")
            settle(site, later)
            assert [[plugin.owner for plugin in plugins()] for _ in range(2)] == [["plug"]] * 2
            shutil.rmtree(site / "plug-1.0.dist-info")
            settle(site, later + 1)
            assert [plugins() for _ in range(2)] == [[]] * 2

    def test_manifests_that_are_gone_are_said_as_if_nothing_were_kept(
        self, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        distribution(site, "plug", points="plug = plug:manifests")
        settle(site)
        (site / "plug/manifests/a.yaml").write_text("manifest: 1\n", encoding="utf-8")
        loading = sys.modules["rung.load"]
        loading._compile_default()
        shutil.rmtree(site / "plug/manifests")
        with pytest.warns(rung.RungWarning, match="package `plug` has no directory `manifests`"):
            loading._compile_default()

    def test_manifests_that_are_written_later_are_found(self, site: Path) -> None:
        distribution(site, "plug", points="plug = plug:manifests")
        (site / "plug/manifests").rmdir()
        settle(site)
        assert [plugin.directory for plugin in plugins()] == [None]
        (site / "plug/manifests").mkdir()
        assert [plugin.directory for plugin in plugins()] == [str(site / "plug/manifests")]

    def test_an_editable_package_is_looked_for_where_it_is_imported_from(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        distribution(site, "plug", points="plug = plug:manifests")
        shutil.move(site / "plug", tmp_path / "one/plug")
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        settle(site)
        for name in ("one", "two"):
            with monkeypatch.context() as patched:
                patched.syspath_prepend(str(tmp_path / name))
                assert [plugin.directory for plugin in plugins()] == [str(tmp_path / name / "plug/manifests")]


class TestGaps:
    """Environments in which answers were kept that are not theirs, or none at all."""

    def test_two_environments_in_turn_ask_once_each(
        self, site: Path, tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        distribution(tmp_path / "project", "project")
        settle(tmp_path / "project")

        def in_turn() -> None:
            acme()
            with monkeypatch.context() as patched:
                patched.setattr(sys, "path", [str(tmp_path / "project"), *sys.path])
                acme()

        assert [asked.while_(in_turn) for _ in range(2)] == [2, 0]

    def test_a_finder_that_an_import_adds_makes_nothing_be_asked_again(
        self, site: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Finder:
            @staticmethod
            def find_spec(*_: object) -> None:
                """Find nothing."""

        def program() -> None:
            acme()
            with monkeypatch.context() as patched:
                patched.setattr(sys, "meta_path", [*sys.meta_path, Finder])  # as `six` does
                version_of("json")

        assert [asked.while_(program) for _ in range(2)] == [2, 0]

    @pytest.mark.parametrize("info", ["EGG-INFO", "ACME-1.0.DIST-INFO"])
    def test_metadata_is_what_importlib_takes_for_it(self, tmp_path: Path, info: str) -> None:
        found = []
        for parent, version in (("one", "1.0"), ("two", "2.0")):
            sys.path[0] = str(tmp_path / parent / "acme.egg")
            distribution(Path(sys.path[0]), version=version, info=info)
            settle(Path(sys.path[0]))
            assert metadata.version("acme") == version
            found.append(acme())
        assert found == ["1.0", "2.0"]

    @pytest.mark.parametrize("way", ["written in place", "replaced", "finished late"])
    def test_metadata_that_changed_inside_its_directory(self, site: Path, way: str) -> None:
        path = site / "acme-1.0.dist-info/METADATA"
        text = "Metadata-Version: 2.1\nName: acme\nVersion: 2.0\n"
        if way == "finished late":
            path.unlink()
            assert acme() is True
        else:
            assert acme() == "1.0"
        if way == "replaced":
            path.unlink()
        path.write_text(text, encoding="utf-8")
        assert acme() == "2.0"

    def test_a_working_directory_that_is_gone_ends_nothing(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        sys.path.append("")
        assert acme() == metadata.version("acme") == "1.0"
