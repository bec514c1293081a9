"""`Facts`: recorded, overridden, observed once, saved and loaded."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

import rung
from rung.facts import DeviceFact, Facts, Unknown, is_unknown

RECORDED: dict[str, Any] = {
    "facts": 1,
    "os": "linux",
    "machine": "x86_64",
    "python": "3.11.7",
    "cpu": {"flags": ["avx2"]},
    "modules": {"numpy": "2.4.6", "flash_attn": False, "local": True},
    "files": {"numpy/a.py": True},
    "devices": {"cuda": [{"arch": "sm_90", "uuid": "GPU-0", "index": 0}], "rocm": []},
    "env": {"RUNG_DISABLE": ""},
    "probes": {"acme.probes:has_foo": True},
}

QUESTIONS: dict[str, Any] = {
    "os": lambda facts: facts.os(),
    "machine": lambda facts: facts.machine(),
    "python": lambda facts: facts.python(),
    "cpu": lambda facts: facts.cpu(),
    "module": lambda facts: facts.module("torch"),
    "file": lambda facts: facts.file("torch/lib/x.so"),
    "devices": lambda facts: facts.devices("mps"),
    "env": lambda facts: facts.env("HOME"),
    "probe": lambda facts: facts.probe("acme.probes:other"),
}


class Machine:
    """An observer that counts how often it is asked, and answers with what it counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def _note(self, what: str) -> None:
        self.asked.append(what)

    def os(self) -> str:
        self._note("os")
        return "darwin"

    def machine(self) -> str:
        self._note("machine")
        return "arm64"

    def python(self) -> str:
        self._note("python")
        return "3.13.0"

    def cpu(self) -> frozenset[str]:
        self._note("cpu")
        return frozenset({"asimd"})

    def module(self, name: str, dist: str) -> str | bool:
        self._note(f"module {name} {dist}")
        return "1.0"

    def file(self, path: str) -> bool:
        self._note(f"file {path}")
        return True

    def devices(self, name: str) -> tuple[DeviceFact, ...]:
        self._note(f"devices {name}")
        return (DeviceFact("apple9"),)

    def env(self, name: str) -> str | None:
        self._note(f"env {name}")
        return None

    def probe(self, path: str, facts: Facts) -> bool | Unknown:
        self._note(f"probe {path}")
        return Unknown("could not tell")


class TestUnknown:
    def test_it_is_neither_true_nor_false(self) -> None:
        with pytest.raises(TypeError, match="neither true nor false"):
            bool(Unknown("why"))
        assert is_unknown(Unknown("why"))
        assert not is_unknown(None)
        assert not is_unknown(False)


class TestRecorded:
    def test_what_is_said(self) -> None:
        facts = Facts.of(RECORDED)
        assert (facts.os(), facts.machine(), facts.python()) == ("linux", "x86_64", "3.11.7")
        assert facts.cpu() == frozenset({"avx2"})
        assert (facts.module("numpy"), facts.module("flash_attn"), facts.module("local")) == ("2.4.6", False, True)
        assert facts.file("numpy/a.py") is True
        assert facts.devices("cuda") == (DeviceFact("sm_90", uuid="GPU-0", index=0),)
        assert facts.devices("rocm") == ()
        assert facts.env("RUNG_DISABLE") == ""
        assert facts.probe("acme.probes:has_foo") is True
        assert not facts.live
        assert repr(facts) == "<Facts these facts>"

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_what_is_not_said_is_unknown(self, question: str) -> None:
        answer = QUESTIONS[question](Facts.of({"facts": 1}, origin="h200.yaml"))
        assert isinstance(answer, Unknown)
        assert answer.why.endswith("is not recorded in h200.yaml")

    def test_a_star_closes_the_list_of_modules_and_nothing_else(self) -> None:
        facts = Facts.of({"facts": 1, "modules": {"torch": "2.13.0", "*": False}})
        assert facts.module("torch") == "2.13.0"
        assert facts.module("flash_attn") is False
        assert facts.file("flash_attn/x.so") is False
        assert is_unknown(facts.file("torch/lib/x.so"))
        assert is_unknown(facts.devices("cuda"))
        assert is_unknown(facts.probe("acme.probes:has_foo"))

    def test_a_file_of_a_module_that_is_not_there(self) -> None:
        assert Facts.of(RECORDED).file("flash_attn/x.so") is False

    def test_they_are_a_value(self) -> None:
        data: dict[str, Any] = {"facts": 1, "modules": {"torch": "2.13.0"}}
        facts = Facts.of(data)
        data["modules"]["torch"] = False
        assert facts.module("torch") == "2.13.0"

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            ({"facts": 2}, "`facts` must be 1, not `2`"),
            ({"facts": "1"}, "`facts` must be 1, not `1`"),
            ({}, "the document has no `facts` (add `facts:`)"),
            (
                {"facts": 1, "modules": {"torch": 2.13}},
                '`2.13` in `modules.torch` is a number where text belongs (write "2.13")',
            ),
            ({"facts": 1, "modules": {"torch": []}}, "`modules.torch` must be text, true or false, not a list"),
            ({"facts": 1, "modules": {"torch": ""}}, "`modules.torch` is empty (write some text)"),
            ({"facts": 1, "modules": {"*": True}}, "`modules.*` must be false, not `true`"),
            ({"facts": 1, "module": {}}, "unknown key `module` (did you mean `modules`?)"),
            (
                {"facts": 1, "devices": {"cuda": [{"arch": "sm_90", "nmae": "H200"}]}},
                "unknown key `nmae` in `devices.cuda.0` (did you mean `name`?)",
            ),
            ({"facts": 1, "devices": {"cuda": [{"name": "H200"}]}}, "`devices.cuda.0` has no `arch` (add `arch:`)"),
            (
                {"facts": 1, "devices": {"cuda": [{"arch": "sm_90", "index": "0"}]}},
                "`devices.cuda.0.index` must be a whole number, not `0`",
            ),
            (
                {"facts": 1, "devices": {"Cuda": []}},
                "`Cuda` in `devices` is no legal name (names have lower-case letters, digits and `_`, a letter first)",
            ),
            ({"facts": 1, "devices": {"c" * 65: []}}, "in `devices` is longer than 64 characters (shorten it)"),
            ({"facts": 1, "devices": {"cuda": {}}}, "`devices.cuda` must be a list, not a mapping (start each entry"),
            ({"facts": 1, "cpu": ["avx2"]}, "`cpu` must be a mapping, not a list (write `key: value` entries"),
            ({"facts": 1, "cpu": {"flags": "avx2"}}, "`cpu.flags` must be a list, not `avx2` (write [avx2])"),
            ({"facts": 1, "os": ""}, "`os` is empty"),
            ({"facts": 1, "os": True}, '`os` must be text, not `true` (write "true")'),
            ({"facts": 1, "probes": {"a:b": "yes"}}, "`probes.a:b` must be true or false, not `yes`"),
        ],
    )
    def test_data_that_does_not_fit(self, data: dict[str, Any], said: str) -> None:
        with pytest.raises(rung.FactsError) as caught:
            Facts.of(data, "the file")
        assert str(caught.value).startswith("the file: ")
        assert said in str(caught.value)


class TestObserved:
    @pytest.mark.parametrize("question", [q for q in QUESTIONS if q != "env"])
    def test_each_is_asked_for_once(self, question: str) -> None:
        machine = Machine()
        facts = Facts(observer=machine)
        first = QUESTIONS[question](facts)
        assert QUESTIONS[question](facts) is first
        assert len(machine.asked) == 1

    def test_nothing_is_asked_before_it_is_needed(self) -> None:
        machine = Machine()
        assert Facts(observer=machine).live
        assert machine.asked == []

    def test_the_environment_is_read_anew(self) -> None:
        machine = Machine()
        facts = Facts(observer=machine)
        assert facts.env("HOME") is None
        assert facts.env("HOME") is None
        assert len(machine.asked) == 2

    def test_the_distribution_is_part_of_the_question(self) -> None:
        machine = Machine()
        facts = Facts(observer=machine)
        facts.module("cv2")
        facts.module("cv2", "opencv-python")
        assert machine.asked == ["module cv2 ", "module cv2 opencv-python"]

    def test_all_threads_get_the_first_answer(self) -> None:
        both = threading.Barrier(2)

        class Slow(Machine):
            def devices(self, name: str) -> tuple[DeviceFact, ...]:
                both.wait()  # neither thread has published when the other starts
                return (DeviceFact("sm_90", name=threading.current_thread().name),)

        facts = Facts(observer=Slow())
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(facts.devices("cuda"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found[0] is found[1] is facts.devices("cuda")


class TestOverride:
    def test_names_win_one_by_one_and_the_rest_is_still_observed(self) -> None:
        machine = Machine()
        facts = Facts(observer=machine).override({"os": "linux", "modules": {"torch": False}, "devices": {"cuda": []}})
        assert facts.live
        assert (facts.os(), facts.machine()) == ("linux", "arm64")
        assert (facts.module("torch"), facts.module("numpy")) == (False, "1.0")
        assert facts.devices("cuda") == ()
        assert facts.devices("mps") == (DeviceFact("apple9"),)

    def test_it_leaves_the_original_alone(self) -> None:
        facts = Facts.of(RECORDED)
        changed = facts.override({"modules": {"numpy": False}}).override({"modules": {"torch": "2.13.0"}})
        assert facts.module("numpy") == "2.4.6"
        assert is_unknown(facts.module("torch"))
        assert (changed.module("numpy"), changed.module("torch"), changed.module("local")) == (False, "2.13.0", True)

    def test_a_star_holds_on_a_live_machine_too(self) -> None:
        facts = Facts(observer=Machine()).override({"modules": {"numpy": "2.4.6", "*": False}})
        assert (facts.module("numpy"), facts.module("torch")) == ("2.4.6", False)
        assert facts.file("torch/lib/x.so") is False

    def test_a_pretended_package_is_not_searched_on_this_machine(self) -> None:
        machine = Machine()
        facts = Facts(observer=machine).override({"modules": {"torch": "2.13.0+cu130"}})
        assert facts.file("torch/lib/x.so") == Unknown(
            "whether the file `torch/lib/x.so` exists is not recorded in the override"
        )
        assert machine.asked == []
        assert facts.override({"files": {"torch/lib/x.so": True}}).file("torch/lib/x.so") is True

    def test_it_is_checked_like_a_file(self) -> None:
        with pytest.raises(rung.FactsError, match=r"the override: unknown key `gpus`"):
            Facts.of(RECORDED).override({"gpus": []})


class TestSnapshot:
    ASKED: ClassVar[dict[str, Any]] = {
        "devices": ["cuda", "rocm", "mps"],
        "modules": [("numpy", ""), ("flash_attn", ""), ("torch", "")],
        "files": ["numpy/a.py"],
        "env": ["RUNG_DISABLE"],
        "probes": ["acme.probes:has_foo", "acme.probes:other"],
    }

    def test_it_holds_what_is_named_and_known(self) -> None:
        snapshot = Facts.of(RECORDED).snapshot(**self.ASKED)
        expected = {**RECORDED, "modules": {"flash_attn": False, "numpy": "2.4.6"}}
        assert snapshot == expected

    def test_it_answers_like_the_machine_it_was_taken_of(self) -> None:
        live = Facts(observer=Machine())
        asked = {**self.ASKED, "env": ["HOME"]}
        saved = Facts.of(live.snapshot(**asked))
        assert saved.snapshot(**asked) == live.snapshot(**asked)
        assert saved.devices("mps") == live.devices("mps")
        assert saved.env("HOME") == ""  # not set, and known not to be
        assert is_unknown(saved.probe("acme.probes:other"))

    def test_no_other_variable_is_in_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ACME_TOKEN", "secret")
        table = rung.load()
        wanted = table.wanted
        snapshot = rung.Platform.of("cpu", "generic", table=table).facts.snapshot(
            devices=["accel"], modules=[("numpy", "")], env=wanted.env
        )
        assert "secret" not in str(snapshot)
        assert snapshot["devices"] == {"accel": []}


class TestLoad:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("facts: 2\n", "facts.yaml:1:8: RG202 `facts` must be 1, not `2`"),
            (
                "facts: 1\nos: linux\nmodule: {}\n",
                "facts.yaml:3:1: RG201 unknown key `module` (did you mean `modules`?)",
            ),
            ('facts: 1\npython: 3.10\nos: "x"\n', "facts.yaml:2:9: RG103 `3.10` in `python` is a number where text"),
            ("facts: 1\nmodules:\n  torch: 2.10\n", "facts.yaml:3:10: RG103 `2.10` in `modules.torch` is a number"),
            ("facts: 1\nmodules:\n  torch: 2.10\n", 'belongs (write "2.10")'),
            (
                "facts: 1\ndevices:\n  cuda:\n    - {name: H200}\n",
                "facts.yaml:4:7: RG203 `devices.cuda.0` has no `arch`",
            ),
            ("- facts\n", "a facts file is a mapping that starts with `facts: 1`"),
            ("facts: 1\nos: linux\nos: darwin\n", "facts.yaml:3:1: RG101"),
            ("facts: [\n", "RG002"),
            ("", "facts.yaml:1:1: RG003"),
        ],
    )
    def test_every_fault_has_its_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("facts.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(rung.FactsError) as caught:
            Facts.load("facts.yaml")
        assert said in str(caught.value)

    def test_all_faults_are_reported(self, tmp_path: Path) -> None:
        (tmp_path / "facts.yaml").write_text("facts: 1\nos: [linux]\ncpu: [avx2]\n", encoding="utf-8")
        with pytest.raises(rung.FactsError) as caught:
            Facts.load(tmp_path / "facts.yaml")
        assert str(caught.value).count("RG202") == 2

    @pytest.mark.parametrize("name", ["nowhere.yaml", "."])
    def test_a_file_that_cannot_be_read(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(rung.FactsError, match="RG001"):
            Facts.load(tmp_path / name)

    def test_it_remembers_where_it_came_from(self, tmp_path: Path) -> None:
        path = tmp_path / "box.yaml"
        path.write_text("facts: 1\nos: linux\n", encoding="utf-8")
        facts = Facts.load(path)
        assert facts.os() == "linux"
        answer = facts.machine()
        assert isinstance(answer, Unknown)
        assert answer.why == f"`machine` is not recorded in {path}"
