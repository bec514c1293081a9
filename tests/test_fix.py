from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rung.audit
import rung.rules
from rung.cli import main
from rung.diagnostics import Edit, Problem, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rung.audit.scene import Scene
    from rung.manifest import Manifests

SCHEMA = Path(__file__).parents[1] / "schemas" / "manifest.schema.json"
MODELINE = f"# yaml-language-server: $schema={SCHEMA.as_posix()}\n"
HEAD = MODELINE + "manifest: 1\n"
BACKEND = HEAD + "backend: acme\narrays: torch\n"
STEP = 'impl: "rung_backends.torch.solver:flow_match_step"'
ROWS = BACKEND + "kernels:\n  flow_match_step:\n"
ROW = ROWS + "    - {device: cuda, arch: sm_90a, variant: acme, " + STEP + ", "
OP = (
    HEAD + "ops:\n  halve:\n    summary: Half of it.\n"
    '    signature: "(x: array) -> array"\n    reference: "rung_backends.reference.solver:flow_match_step"\n'
)
USE = "predicates:\n  acme_usable: "


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path)


def put(text: str | bytes, name: str = "a.yaml") -> Path:
    path = Path("m", name)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def fix(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    try:
        code = main(["fix", *arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


REPAIRS = [
    pytest.param(ROW + "hint: no}\n", ROW + 'hint: "no"}\n', "RG102 quoted `no`", id="text"),
    pytest.param(
        ROW + "when: {env: {ACME: on}}}\n", ROW + 'when: {env: {ACME: "on"}}}\n', "RG102 quoted `on`", id="on"
    ),
    pytest.param(ROW + "when: {env: {y: a}}}\n", ROW + 'when: {env: {"y": a}}}\n', "RG102 quoted `y`", id="key"),
    pytest.param(ROW + "when: {env: {A: 1}}}\n", ROW + 'when: {env: {A: "1"}}}\n', "RG103 quoted `1`", id="number"),
    pytest.param(ROW + "degraded: 1.10}\n", ROW + 'degraded: "1.10"}\n', "RG103 quoted `1.10`", id="digits-kept"),
    pytest.param(
        ROW + "workspace_bytes: 1_000}\n", ROW + "workspace_bytes: 1000}\n", "RG102 wrote `1_000` as `1000`", id="whole"
    ),
    pytest.param(
        OP + "    tolerance: {float32: {rtol: 1e-5}}\n",
        OP + "    tolerance: {float32: {rtol: 1.0e-5}}\n",
        "RG102 wrote `1e-5` as `1.0e-5`",
        id="exponent",
    ),
    pytest.param(
        OP + "    tolerance: {float32: {rtol: .1}}\n",
        OP + "    tolerance: {float32: {rtol: 0.1}}\n",
        "RG102 wrote `.1` as `0.1`",
        id="fraction",
    ),
    pytest.param(
        OP + "    tolerance: {float32: {exact: True}}\n",
        OP + "    tolerance: {float32: {exact: true}}\n",
        "RG102 wrote `True` as `true`",
        id="boolean",
    ),
    pytest.param(ROW + "available: torch_cuda}\n", ROW + "when: torch_cuda}\n", "RG208 renamed `available`", id="row"),
    pytest.param(
        ROW.replace("impl:", '"source":') + "}\n",
        ROW.replace("impl:", '"impl":') + "}\n",
        "RG208 renamed",
        id="in-quotes",
    ),
    pytest.param(
        (ROW + "}\n").replace("kernels:", "available: torch_cuda\nkernels:"),
        (ROW + "}\n").replace("kernels:", "requires: torch_cuda\nkernels:"),
        "RG208 renamed `available` to `requires`",
        id="header",
    ),
    pytest.param(
        (ROW + "}\n").replace("variant: acme", "variant: [acme, b, acme]"),
        (ROW + "}\n").replace("variant: acme", "variant: [acme, b]"),
        "RG401 removed the repeated `acme`",
        id="repeated-in-row",
    ),
    pytest.param(
        ROWS + "    - device: cuda\n      arch:\n        - sm_90a\n        - sm_90a\n      " + STEP + "  # why\n",
        ROWS + "    - device: cuda\n      arch:\n        - sm_90a\n      " + STEP + "  # why\n",
        "RG401 removed the repeated `sm_90a`",
        id="repeated-on-a-line",
    ),
    pytest.param(
        HEAD + "profiles:\n  mine: {chains: {flow_match_step: [fused, default, fused]}}\n",
        HEAD + "profiles:\n  mine: {chains: {flow_match_step: [fused, default]}}\n",
        "RG310 removed the repeated `fused`",
        id="repeated-in-chain",
    ),
]


@pytest.mark.parametrize(("before", "after", "what"), REPAIRS)
def test_what_has_one_repair_is_repaired(
    capsys: pytest.CaptureFixture[str], before: str, after: str, what: str
) -> None:
    path = put(before)
    _, lines, err = fix(capsys, "m")
    assert path.read_bytes().decode() == after
    assert len(lines) == 1
    assert lines[0].startswith("m/a.yaml:")
    assert f": {what}" in lines[0]
    assert err.startswith("1 repaired, ")
    assert fix(capsys, "m")[1:] == ([], err.replace("1 repaired", "0 repaired"))
    assert path.read_bytes().decode() == after


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ROW + "when: torch_cudda}\n", id="typo"),
        pytest.param(ROW + "wen: torch_cuda}\n", id="misspelt-key"),
        pytest.param(ROW + "when: {python: 3.11}}\n", id="python"),
        pytest.param(ROW + "when: {module: {name: torch, version: 2.4}}}\n", id="version"),
        pytest.param(ROW + "when: yes}\n", id="condition"),
        pytest.param(ROW.replace("sm_90a", "90") + "}\n", id="arch"),
        pytest.param(ROW.replace("variant: acme", "variant: 010") + "}\n", id="name-of-digits"),
        pytest.param(ROW.replace("device: cuda", "device: no") + "}\n", id="device"),
        pytest.param(ROW + "workspace_bytes: 010}\n", id="octal"),
        pytest.param(ROW + "workspace_bytes: 1e3}\n", id="whole-number-wanted"),
        pytest.param(OP + "    tolerance: {float32: {exact: no}}\n", id="false"),
        pytest.param(OP + "    tolerance: 1e-5\n", id="mapping-wanted"),
        pytest.param(ROW + "available: torch_cuda, when: torch_cuda}\n", id="both-names"),
        pytest.param(ROW.replace("arch: sm_90a", "arch: [sm_90a, # kept\n      sm_90a]") + "}\n", id="comment"),
        pytest.param(ROWS + "    - {device: cuda\n", id="syntax"),
        pytest.param(ROW + "other: on}\n", id="below-an-unknown-key"),
        pytest.param(b"\xff", id="not-utf8"),
        pytest.param("", id="empty"),
    ],
)
def test_what_would_be_a_guess_is_left_alone(capsys: pytest.CaptureFixture[str], text: str | bytes) -> None:
    path = put(text)
    before = path.read_bytes()
    code, lines, err = fix(capsys, "m")
    assert (code, lines) == (1, [])
    assert err.startswith("0 repaired, ")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("end", "mark", "last"),
    [("\n", b"", True), ("\r\n", b"\xef\xbb\xbf", True), ("\r", b"", False), ("\r\n", b"", False)],
    ids=["lf", "crlf-bom", "cr-no-last-end", "crlf-no-last-end"],
)
def test_every_byte_outside_an_edit_survives(
    capsys: pytest.CaptureFixture[str], end: str, mark: bytes, last: bool
) -> None:
    template = ROWS + (
        '  # Grüße,\t"tabs"  and  blanks   \n\n'
        "    - device: [{}]   # two\n      arch: sm_90a   \n      degraded: é {} x\n      hint: {}   # {}: no\n"
        "      " + STEP + "\n      variant:\n        - acme\n        # why\n{}"
    )
    before = template.format("cuda, cuda", "no", "no", "no", "        - acme\n")
    after = template.format("cuda", "no", '"no"', "no", "")
    if not last:
        before, after = before.removesuffix("\n"), after.removesuffix("\n")
    path = put(mark + before.replace("\n", end).encode())
    fix(capsys, "m")
    assert path.read_bytes() == mark + after.replace("\n", end).encode()


def test_repairs_that_need_each_other_are_made_in_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    path = put(ROW.replace("variant: acme", "variant: [acme, acme]") + "available: {env: {y: 1}}, hint: no}\n")
    _, lines, _ = fix(capsys, "m")
    assert (
        path.read_text() == ROW.replace("variant: acme", "variant: [acme]") + 'when: {env: {"y": "1"}}, hint: "no"}\n'
    )
    assert sorted(line.split()[1] for line in lines) == ["RG102", "RG102", "RG103", "RG208", "RG401"]


def test_many_repetitions_leave_in_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    path = put((ROW + "}\n").replace("variant: acme", f"variant: [a{', a' * 5}, b]"))
    assert fix(capsys, "m")[2] == "5 repaired, 0 findings remain\n"
    assert path.read_text() == (ROW + "}\n").replace("variant: acme", "variant: [a, b]")


def test_one_bad_repair_does_not_keep_the_good_ones_back(capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(
        f"    - {{device: {'no' if i == 3 else 'cuda'}, arch: sm_90a, variant: v{i}, {STEP}, hint: {'off'}}}\n"
        for i in range(6)
    )
    path = put(ROWS + rows)
    code, lines, _ = fix(capsys, "m")
    assert code == 1
    assert path.read_text() == ROWS + rows.replace("off", '"off"')
    assert len(lines) == 6


def test_a_repair_may_bring_to_light_what_was_not_judged_before(capsys: pytest.CaptureFixture[str]) -> None:
    path = put(HEAD + "predicates:\n  acme_one: {env: {ACME: on}}\n  acme_two: {all: [acme_one, {module: torch 2}]}\n")
    put(OP.replace("Half of it.", "1.5").replace("(x: array)", "(x)"), "b.yaml")
    _, lines, err = fix(capsys, "m")
    assert [line.split()[1] for line in lines] == ["RG102", "RG103"]
    assert '"on"' in path.read_text()
    assert "findings remain" in err


@pytest.mark.parametrize(
    ("bad", "good", "judgements"),
    [(60, 0, 2), (60, 60, 4), (0, 60, 2), (1, 3, 4)],
    ids=["all bad", "half", "all good", "one"],
)
def test_bad_edits_cost_no_judgement_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, bad: int, good: int, judgements: int
) -> None:
    rows = [f"    - {{device: no, arch: sm_90a, variant: b{i}, {STEP}}}\n" for i in range(bad)]
    rows += [f"    - {{device: cuda, arch: sm_90a, variant: g{i}, {STEP}, hint: off}}\n" for i in range(good)]
    path = put(ROWS + "".join(rows))
    calls: list[object] = []
    check = rung.rules.check

    def counted(whole: Manifests) -> None:
        calls.append(whole)
        check(whole)

    monkeypatch.setattr(rung.rules, "check", counted)
    _, lines, _ = fix(capsys, "m")
    assert len(lines) == good
    assert path.read_text() == ROWS + "".join(rows).replace("off", '"off"')
    assert len(calls) <= judgements


class TestHowItEnds:
    def test_nothing_to_do(self, capsys: pytest.CaptureFixture[str]) -> None:
        put(ROW + "}\n")
        assert fix(capsys, "m") == (0, [], "0 repaired, 0 findings remain\n")

    def test_all_repaired(self, capsys: pytest.CaptureFixture[str]) -> None:
        put(ROW + "hint: no}\n")
        assert fix(capsys, "m") == (
            0,
            ["m/a.yaml:7:109: RG102 quoted `no`"],
            "1 repaired, 0 findings remain\n",
        )

    def test_something_left(self, capsys: pytest.CaptureFixture[str]) -> None:
        put(ROW + "hint: no, wen: a}\n")
        code, lines, err = fix(capsys, "m")
        assert (code, len(lines)) == (1, 1)
        assert err == "1 repaired, 1 finding remains (rung check shows them)\n"

    def test_a_diff_writes_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = put("# Grüße\r\n" + ROW + "hint: no}")
        before = path.read_bytes()
        code, _, err = fix(capsys, "m", "--diff", "--output", "out.diff")
        assert (code, err) == (1, "1 can be repaired, 0 findings remain\n")
        assert path.read_bytes() == before
        lines = Path("out.diff").read_bytes().decode().split("\n")
        assert lines[:2] == ["--- a/m/a.yaml", "+++ b/m/a.yaml"]
        assert [line for line in lines[2:] if line[:1] in ("+", "-", "\\")] == [
            "-" + ROW.splitlines()[-1] + "hint: no}",
            "\\ No newline at end of file",
            "+" + ROW.splitlines()[-1] + 'hint: "no"}',
            "\\ No newline at end of file",
        ]

    def test_a_diff_of_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        put(ROW + "}\n")
        assert fix(capsys, "m", "--diff") == (0, [], "0 can be repaired, 0 findings remain\n")

    def test_the_json_form(self, capsys: pytest.CaptureFixture[str]) -> None:
        put(ROW + "hint: no, wen: a}\n")
        code, lines, _ = fix(capsys, "m", "--format", "json")
        assert code == 1
        assert json.loads("\n".join(lines)) == {
            "format_version": 1,
            "repairs": [{"code": "RG102", "path": "m/a.yaml", "start": [7, 109], "what": "quoted `no`"}],
            "remaining": 1,
        }

    @pytest.mark.parametrize("flag", [("--select", "RG103"), ("--ignore", "RG102")], ids=["select", "ignore"])
    def test_only_what_is_asked_for(self, capsys: pytest.CaptureFixture[str], flag: tuple[str, str]) -> None:
        path = put(ROW + "hint: no, degraded: 1.5}\n")
        code, lines, err = fix(capsys, "m", *flag)
        assert (code, [line.split()[1] for line in lines]) == (1, ["RG103"])
        assert err == "1 repaired, 1 finding remains (rung check shows them)\n"
        assert path.read_text() == ROW + 'hint: no, degraded: "1.5"}\n'

    def test_an_error_that_was_not_to_be_repaired_is_left_all_the_same(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        put((ROW + "wen: a}\n").removeprefix(MODELINE))
        code, _, err = fix(capsys, "m", "--select", "RG9")
        assert (code, err) == (1, "0 repaired, 2 findings remain (rung check shows them)\n")

    def test_what_the_configuration_ignores_is_no_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        put(ROW + "wen: a}\n")
        Path("pyproject.toml").write_text('[tool.rung]\nignore = ["RG201"]\n', encoding="utf-8")
        assert fix(capsys, "m") == (0, [], "0 repaired, 0 findings remain\n")

    @pytest.mark.parametrize("output", [".", "m"])
    def test_a_report_that_cannot_be_written_is_refused_first(
        self, capsys: pytest.CaptureFixture[str], output: str
    ) -> None:
        path = put(ROW + "hint: no}\n")
        assert fix(capsys, "m", "--output", output)[0] == 2
        assert path.read_text() == ROW + "hint: no}\n"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("m", "--select", "RG9x"), "no rule is called `RG9x`"),
            (("nowhere",), "no such file or directory"),
            (("m",), "no manifest in m"),
            ((), "no manifest: name a directory"),
        ],
        ids=["code", "path", "none-there", "none-named"],
    )
    def test_usage(self, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str) -> None:
        code, lines, err = fix(capsys, *arguments)
        assert (code, lines) == (2, [])
        assert said in err


class TestFiles:
    @pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
    def test_the_mode_is_kept_and_nothing_is_left_behind(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = put(ROW + "hint: no}\n")
        path.chmod(0o640)
        fix(capsys, "m")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert [*Path("m").iterdir()] == [path]

    def test_a_read_only_file_is_named_and_no_other_is_written(self, capsys: pytest.CaptureFixture[str]) -> None:
        first = put(ROW + "hint: no}\n")
        second = put(ROW.replace("acme", "acme2") + "hint: no}\n", "b.yaml")
        second.chmod(0o444)
        code, lines, err = fix(capsys, "m")
        second.chmod(0o644)
        assert (code, lines, err) == (2, [], "rung: m/b.yaml is read-only: nothing was written\n")
        assert "hint: no}" in first.read_text()

    def test_a_link_inside_stays_a_link(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("m/inner").mkdir()
        target = put(ROW + "hint: no}\n", "inner/.kept")
        _link(Path("m/a.yaml"), Path("inner/.kept"))
        fix(capsys, "m")
        assert Path("m/a.yaml").is_symlink()
        assert target.read_text() == ROW + 'hint: "no"}\n'

    @pytest.mark.parametrize("named", ["m", "m/a.yaml"])
    def test_a_link_that_leads_out_is_refused(self, capsys: pytest.CaptureFixture[str], named: str) -> None:
        Path("out.yaml").write_text(ROW + "hint: no}\n", encoding="utf-8")
        put(ROW + "}\n", "b.yaml")
        _link(Path("m/a.yaml"), Path("../out.yaml"))
        code, _, _ = fix(capsys, named)
        assert code == (1 if named == "m" else 2)
        assert Path("out.yaml").read_text(encoding="utf-8") == ROW + "hint: no}\n"

    def test_only_named_files_are_touched(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = put(ROW + "hint: no}\n")
        other = put(ROW.replace("acme", "acme2") + "hint: no}\n", "b.yaml")
        fix(capsys, str(path))
        assert '"no"' in path.read_text()
        assert '"no"' not in other.read_text()


def _link(path: Path, target: Path) -> None:
    try:
        path.symlink_to(target)
    except OSError:
        pytest.skip("no links here")


class TestEditsThatAreNotForTheBetter:
    """Edits of a rule of this test, on manifests that load."""

    def edits(self, monkeypatch: pytest.MonkeyPatch, *replacements: tuple[str, str]) -> None:
        """Let a rule find the first text of each pair wherever it stands, and offer the second instead."""

        def rule(scene: Scene) -> Iterator[Problem]:
            for document in scene.whole.documents:
                for row, line in enumerate(document.lines, 1):
                    for old, new in replacements:
                        at = line.find(old)
                        if at >= 0:
                            where = Where(document.path, row, at + 1, row, at + 1 + len(old))
                            yield Problem("RG903", where, "odd", "", edit=Edit(where, new, f"wrote {new}"))

        monkeypatch.setattr(rung.audit, "RULES", (rule,))

    def test_a_comment_may_change(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.edits(monkeypatch, ("# old", "# new"))
        path = put(ROW + "}  # old\n")
        assert fix(capsys, "m")[0] == 0
        assert path.read_text() == ROW + "}  # new\n"

    @pytest.mark.parametrize(
        ("old", "new"),
        [("sm_90a", "sm_100a"), ("acme,", "brand,"), ("impl:", "imp:"), ("manifest: 1", "{manifest: 1")],
        ids=["another-cell", "another-variant", "a-finding", "unreadable"],
    )
    def test_what_resolves_may_not(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, old: str, new: str
    ) -> None:
        self.edits(monkeypatch, (old, new), ("# old", "# new"))
        path = put(ROW + "}  # old\n")
        fix(capsys, "m")
        assert path.read_text() == ROW + "}  # new\n"

    def test_built_in_manifests_are_not_touched(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.edits(monkeypatch, ("manifest: 1", "manifest:  1"))
        manifests = SCHEMA.parents[1] / "manifests"
        before = {path: path.read_bytes() for path in manifests.rglob("*.yaml")}
        put(ROW + "}\n")
        _, lines, _ = fix(capsys, "m", "--select", "RG903")
        assert {path: path.read_bytes() for path in manifests.rglob("*.yaml")} == before
        assert all(line.startswith("m/a.yaml:") for line in lines)

    def test_edits_that_undo_each_other_end(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.edits(monkeypatch, ("# a", "# b"), ("# b", "# a"))
        path = put(ROW + "}  # a\n")
        assert fix(capsys, "m", "--select", "RG903")[2].startswith("1 repaired, ")
        assert path.read_text() == ROW + "}  # b\n"
