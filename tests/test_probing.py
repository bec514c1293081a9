"""Probing: the runner that survives every probe, and what the live observer sees."""

from __future__ import annotations

import importlib.util
import sys
import threading
import types
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest

from probes.fakes import FakeHost
from rung.facts import DeviceFact, Facts, Unknown
from rung.probes import LIMIT, LiveObserver, live_facts, run_limited
from rung.probes.host import Host, _is_absent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Write

TINY = 0.05
PATIENT = 60.0
"""Seconds, where what is asked is not how long it takes."""


def observer(*, limit: float = TINY, host: Host | None = None, **detectors: str) -> LiveObserver:
    return LiveObserver(detectors, {"acme_p", "rung"}, host or FakeHost(), limit)


def fails(error: BaseException) -> Callable[[], Any]:
    def work() -> Any:
        raise error

    return work


class TestRunLimited:
    def test_an_answer_is_given_as_it_is(self) -> None:
        answer = object()
        assert run_limited(lambda: answer, "looking") is answer
        assert run_limited(lambda: None, "looking") is None

    @pytest.mark.parametrize(
        ("error", "why"),
        [
            (RuntimeError("driver wedged"), "looking raised RuntimeError: driver wedged"),
            (OSError(5, "Input/output error"), "looking raised OSError: [Errno 5] Input/output error"),
            (SystemExit(1), "looking raised SystemExit: 1"),
            (KeyboardInterrupt(), "looking raised KeyboardInterrupt: "),
            (RecursionError("too deep"), "looking raised RecursionError: too deep"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_whatever_it_raises_is_unknown(self, error: BaseException, why: str) -> None:
        assert run_limited(fails(error), "looking") == Unknown(why)

    def test_what_hangs_is_unknown(self) -> None:
        assert run_limited(threading.Event().wait, "looking", TINY) == Unknown("looking took longer than 0.05 s")

    def test_a_late_answer_changes_nothing(self) -> None:
        go, done = threading.Event(), threading.Event()

        def work() -> str:
            go.wait()
            done.set()
            return "late"

        answer = run_limited(work, "looking", TINY)
        go.set()
        assert done.wait(5)
        assert answer == Unknown("looking took longer than 0.05 s")

    def test_it_runs_in_a_daemon_thread_of_two_seconds(self) -> None:
        thread = run_limited(threading.current_thread, "looking")
        assert isinstance(thread, threading.Thread)
        assert thread is not threading.current_thread()
        assert thread.daemon
        assert LIMIT == 2.0

    def test_no_thread_to_be_had_is_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        refused = fails(RuntimeError("can't start new thread"))
        monkeypatch.setattr("rung.probes.start_new_thread", lambda *_: refused())
        assert run_limited(dict, "looking") == Unknown("looking could not be started: can't start new thread")


class TestModules:
    """Looked for, never imported."""

    @pytest.mark.parametrize(
        ("name", "dist", "found"),
        [
            ("numpy", "", metadata.version("numpy")),
            ("yaml", "", metadata.version("pyyaml")),  # named differently: found by what each distribution ships
            ("yaml", "PyYAML", metadata.version("pyyaml")),
            ("yaml", "not-the-distribution", True),
            ("sqlite3", "", True),
            ("sys", "", True),
            ("there_is_no_such_module", "", False),
        ],
    )
    def test_installed(self, name: str, dist: str, found: str | bool) -> None:
        assert observer(limit=PATIENT).module(name, dist) == found

    def test_looking_imports_nothing(self, write: Write) -> None:
        write({"loud_module/__init__.py": "raise SystemError('imported')\n"})
        assert observer(limit=PATIENT).module("loud_module", "") is True
        assert "loud_module" not in sys.modules

    def test_a_bare_directory_is_no_module(self, write: Write) -> None:
        write({"only_a_directory/readme.txt": ""})
        assert importlib.util.find_spec("only_a_directory") is not None
        assert observer(limit=PATIENT).module("only_a_directory", "") is False

    def test_a_blocked_module_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "numpy", None)
        assert observer(limit=PATIENT).module("numpy", "") is False
        assert observer(limit=PATIENT).file("numpy/__init__.py") is False

    def test_a_module_made_by_hand_is_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "made_by_hand", types.ModuleType("made_by_hand"))
        assert observer(limit=PATIENT).module("made_by_hand", "") is True

    def test_damaged_metadata_is_a_module_without_a_version(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write({"acme_lib/__init__.py": ""})
        monkeypatch.setattr(metadata, "version", lambda name: None)
        assert observer(limit=PATIENT).module("acme_lib", "") is True

    def test_a_finder_that_raises_is_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Finder:
            @staticmethod
            def find_spec(name: str, path: object, target: object) -> None:
                raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
        assert observer(limit=PATIENT).module("there_is_none", "") == Unknown(
            "looking for `there_is_none` raised PermissionError: [Errno 13] Permission denied"
        )

    @pytest.mark.parametrize(
        ("path", "found"),
        [
            ("acme_lib/lib/kernels.so", True),
            ("acme_lib/lib", True),
            ("acme_lib/lib/other.so", False),
            ("acme_file/lib/kernels.so", False),
            ("acme_nowhere/lib/kernels.so", False),
        ],
    )
    def test_files_inside_packages(self, write: Write, path: str, found: bool) -> None:
        write({"acme_lib/__init__.py": "raise SystemError", "acme_lib/lib/kernels.so": "", "acme_file.py": ""})
        assert observer(limit=PATIENT).file(path) is found


DETECT = "from rung.facts import DeviceFact\n"


class TestDevices:
    @pytest.mark.parametrize(
        ("body", "found"),
        [
            (
                "def detect(host):\n    return [DeviceFact('sm_90', name=host.system)]\n",
                (DeviceFact("sm_90", "linux"),),
            ),
            ("def detect(host):\n    yield DeviceFact('sm_90')\n", (DeviceFact("sm_90"),)),
            ("def detect(host):\n    return ()\n", ()),
        ],
        ids=["list", "generator", "none"],
    )
    def test_cards(self, write: Write, body: str, found: tuple[DeviceFact, ...]) -> None:
        write({"acme_p/__init__.py": "", "acme_p/probe.py": DETECT + body})
        assert observer(npu="acme_p.probe:detect", limit=PATIENT).devices("npu") == found

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            ("def detect(host):\n    raise OSError('no access')\n", "the npu probe raised OSError: no access"),
            ("def detect(host):\n    return ['sm_90']\n", "gave str, not rung.DeviceFact"),
            ("def detect(host):\n    return None\n", "the npu probe raised TypeError"),
            ("def detect():\n    return ()\n", "the npu probe raised TypeError"),
            ("raise KeyError('libamd_smi.so')\n", "importing `acme_p.probe` raised KeyError: 'libamd_smi.so'"),
            ("", "module `acme_p.probe` has no `detect`"),
            ("from os import system as detect\n", "outside the allowed packages"),
        ],
        ids=["raises", "wrong type", "none", "signature", "import", "missing", "re-exported"],
    )
    def test_a_probe_that_misbehaves_is_unknown(self, write: Write, body: str, why: str) -> None:
        write({"acme_p/__init__.py": "", "acme_p/probe.py": DETECT + body})
        answer = observer(npu="acme_p.probe:detect", limit=PATIENT).devices("npu")
        assert isinstance(answer, Unknown)
        assert why in answer.why

    def test_a_probe_that_hangs_is_unknown(self, write: Write) -> None:
        body = "import threading\ndef detect(host):\n    threading.Event().wait()\n"
        write({"acme_p/__init__.py": "", "acme_p/probe.py": body})
        answer = observer(npu="acme_p.probe:detect").devices("npu")
        assert answer == Unknown("the npu probe took longer than 0.05 s")

    def test_a_device_without_a_probe_is_never_found(self) -> None:
        assert observer().devices("accel") == ()


class TestProbeAtoms:
    @pytest.mark.parametrize(
        ("body", "answer"),
        [
            ("def ask(facts):\n    return True\n", True),
            ("def ask(facts):\n    return False\n", False),
            ("def ask(facts):\n    return facts.os() == 'linux'\n", True),
            ("def ask(facts):\n    return None\n", "could not tell"),
            ("def ask(facts):\n    return 1\n", "answered 1, not True, False or None"),
            ("def ask(facts):\n    return facts.devices('npu')\n", "answered (), not True"),
            ("def ask(facts):\n    raise ValueError('what')\n", "raised ValueError: what"),
            ("def ask(facts):\n    return bool(facts.file('acme_p/__init__.py'))\n", True),
            ("import no_such_package_here\n", "No module named 'no_such_package_here'"),
        ],
    )
    def test_answers(self, write: Write, body: str, answer: bool | str) -> None:
        write({"acme_p/__init__.py": "", "acme_p/ask.py": body})
        found = Facts(observer=observer(limit=PATIENT)).probe("acme_p.ask:ask")
        if isinstance(answer, bool):
            assert found is answer
        else:
            assert isinstance(found, Unknown)
            assert answer in found.why

    def test_what_is_unknown_to_the_probe_is_unknown(self, write: Write) -> None:
        write({"acme_p/__init__.py": "", "acme_p/ask.py": "def ask(facts):\n    return bool(facts.devices('npu'))\n"})
        found = Facts(observer=observer(npu="acme_p.nowhere:detect", limit=PATIENT)).probe("acme_p.ask:ask")
        assert isinstance(found, Unknown)
        assert "an unknown fact is neither true nor false" in found.why


class TestThisMachine:
    @pytest.mark.parametrize(
        ("machine", "name"), [("AMD64", "x86_64"), ("x86_64", "x86_64"), ("arm64", "arm64"), ("aarch64", "aarch64")]
    )
    def test_the_instruction_sets_name(self, machine: str, name: str) -> None:
        assert observer(host=FakeHost(machine=machine)).machine() == name

    @pytest.mark.parametrize(("written", "version"), [("3.12.1", "3.12.1"), ("3.12.1+", "3.12.1")])
    def test_pythons_version(self, monkeypatch: pytest.MonkeyPatch, written: str, version: str) -> None:
        monkeypatch.setattr(sys, "version", f"{written} (main, Jan  1 2026, 00:00:00) [GCC 13.2.0]")
        assert observer().python() == version

    def test_flags_that_cannot_be_read_are_unknown(self) -> None:
        answer = observer(host=FakeHost(system="windows"), limit=PATIENT).cpu()
        assert isinstance(answer, Unknown)
        assert answer.why.startswith("reading the CPU's flags raised OSError: windows")

    def test_the_environment_is_the_hosts(self) -> None:
        seen = observer(host=FakeHost(env={"SET": "1"}))
        assert (seen.env("SET"), seen.env("OTHER")) == ("1", None)

    def test_live_facts_look_at_this_machine(self) -> None:
        facts = live_facts({"cpu": "rung.probes.cpu:detect"}, {"rung"})
        assert facts.live
        assert repr(facts) == "<Facts live>"
        assert facts.os() == Host().system
        assert isinstance(facts.devices("cpu"), tuple)


class TestHost:
    def test_files_lie_below_its_root(self, tmp_path: Path) -> None:
        (tmp_path / "sys/class").mkdir(parents=True)
        (tmp_path / "sys/class/name").write_bytes(b"caf\xc3\xa9 \xff\n")
        host = Host(root=tmp_path)
        assert host.read("/sys/class/name") == "caf\u00e9 \ufffd\n"
        assert host.read("/sys/class/name", 3) == "caf"
        assert host.exists("/sys/class")
        assert not host.exists("/sys/bus")
        assert host.glob("/sys/*/na*") == ["/sys/class/name"]
        with pytest.raises(OSError, match="No such file"):
            host.read("/sys/bus")

    def test_a_library_that_is_not_there(self) -> None:
        with pytest.raises(FileNotFoundError, match=r"libno-such-thing\.so\.0"):
            Host().library("libno-such-thing.so.0", "libno-such-thing.so")
        with pytest.raises(FileNotFoundError, match="no library was named"):
            Host().library()

    @pytest.mark.skipif(sys.platform != "linux", reason="the words are those of dlopen on Linux")
    @pytest.mark.parametrize(
        ("content", "said"),
        [(b"", "file too short"), (b"garbage" * 100, "invalid ELF header")],
        ids=["empty", "garbage"],
    )
    def test_a_library_that_is_there_and_does_not_load(self, tmp_path: Path, content: bytes, said: str) -> None:
        broken = tmp_path / "libbroken.so"
        broken.write_bytes(content)
        with pytest.raises(OSError, match=said) as caught:
            Host().library("libno-such-thing.so.0", str(broken), "libno-such-thing.so")
        assert not isinstance(caught.value, FileNotFoundError)

    @pytest.mark.parametrize(
        ("error", "absent"),
        [
            (OSError("liba.so.1: cannot open shared object file: No such file or directory"), True),
            (OSError("libdep.so: cannot open shared object file: No such file or directory"), False),
            (OSError("mliba.so.1: cannot open shared object file: No such file or directory"), False),
            (OSError("liba.so.1: cannot open shared object file: Permission denied"), False),
            (OSError("Error loading shared library liba.so.1: No such file or directory"), True),
            (OSError("Error loading shared library libdep.so: No such file or directory (needed by liba.so.1)"), False),
            (FileNotFoundError("Could not find module 'liba.so.1' (or one of its dependencies)."), True),
        ],
        ids=["glibc", "dependency", "dependency-alike", "permission", "musl", "musl-dependency", "windows"],
    )
    def test_what_is_not_there_is_told_from_what_it_needs(self, error: OSError, absent: bool) -> None:
        assert _is_absent("liba.so.1", error) is absent

    @pytest.mark.parametrize(
        ("program", "said"),
        [
            ("import sys; sys.exit('broken')", "ended with 1: broken"),
            ("import sys; print('out'); sys.exit(3)", "ended with 3: out"),
            ("import sys; sys.exit(3)", "ended with 3: "),
        ],
    )
    def test_a_child_that_fails(self, program: str, said: str) -> None:
        with pytest.raises(OSError, match=said):
            Host().run([sys.executable, "-I", "-S", "-c", program], limit=30)

    def test_a_child_that_answers(self) -> None:
        program = r"import sys; sys.stdout.buffer.write(b'\xff' + sys.stdin.buffer.read() + b'done')"
        assert Host().run([sys.executable, "-I", "-S", "-c", program], limit=30) == "\ufffddone"

    def test_a_child_that_hangs(self) -> None:
        program = "import threading; threading.Event().wait()"
        with pytest.raises(TimeoutError, match=r"took longer than 0\.2 s"):
            Host().run([sys.executable, "-I", "-S", "-c", program], limit=0.2)

    def test_a_program_that_is_not_there(self) -> None:
        with pytest.raises(OSError, match="no-such-program"):
            Host().run(["no-such-program"])


def test_a_probe_that_asks_for_its_own_answer_could_not_tell(write: Write) -> None:
    write({"selfish/__init__.py": "def ask(facts):\n    return facts.probe('selfish:ask')\n"})
    facts = Facts(observer=LiveObserver({}, {"selfish"}))
    answer = facts.probe("selfish:ask")
    assert isinstance(answer, Unknown)
    assert answer.why == "the probe `selfish:ask` asks for its own answer"
