from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from judging import BUILTIN, concise, judged
from rung import manifest
from rung.diagnostics import Problems, Where
from rung.entries import LocalRow
from rung.manifest import merge
from rung.rules import check
from rung.units import Unit, manifest_files

if TYPE_CHECKING:
    from rung.manifest import Manifests

HEAD = "manifest: 1\n"
BACKEND = HEAD + "backend: acme\narrays: numpy\nkernels:\n"
OP = 'summary: s, signature: "(x: array) -> array", reference: "acme.ref:f"'
GOOD_ROW = '{device: cpu, arch: numpy, impl: "acme.k:f"}'


def files(root: Path, **texts: str) -> Path:
    """Write `name.yaml` for each text; `__` in a name is a folder."""
    for name, text in texts.items():
        path = root / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def merged(root: Path, *, builtin: bool = False) -> Manifests:
    """Merge and check a directory that is shown as nothing, so that findings start with the file's name."""
    whole = merge([*([BUILTIN] if builtin else []), Unit(root, "", None)])
    check(whole)
    return whole


def placed(whole: Manifests) -> list[str]:
    return [p.concise().split(" ", 2)[0].rstrip(":") + " " + p.code for p in whole.problems]


class TestFiles:
    def shown(self, unit: Unit) -> tuple[list[str], list[str]]:
        problems = Problems()
        return [shown for _, shown in manifest_files(unit, problems)], [p.concise() for p in problems]

    def test_a_directory_is_walked_in_order(self, tmp_path: Path) -> None:
        files(tmp_path, b=HEAD, a__c=HEAD, a__b=HEAD)
        (tmp_path / "z.yml").write_text(HEAD)
        (tmp_path / "README.md").write_text("no manifest")
        assert self.shown(Unit(tmp_path, "top", None)) == (
            ["top/a/b.yaml", "top/a/c.yaml", "top/b.yaml", "top/z.yml"],
            [],
        )

    @pytest.mark.parametrize(
        ("given", "shown"), [("", "a.yaml"), (".", "a.yaml"), ("x", "x/a.yaml"), ("x/", "x/a.yaml"), ("/", "/a.yaml")]
    )
    def test_how_files_are_shown(self, given: str, shown: str, tmp_path: Path) -> None:
        files(tmp_path, a=HEAD)
        assert self.shown(Unit(tmp_path, given, None)) == ([shown], [])

    def test_a_single_file(self, tmp_path: Path) -> None:
        files(tmp_path, a=HEAD)
        assert self.shown(Unit(tmp_path / "a.yaml", "a.yaml", None)) == (["a.yaml"], [])

    def test_names_with_a_dot_are_passed_over(self, tmp_path: Path) -> None:
        files(tmp_path, **{".hidden": HEAD, ".github__workflows__ci": HEAD, "a": HEAD})
        assert self.shown(Unit(tmp_path, "", None)) == (["a.yaml"], [])

    def test_a_directory_may_be_named_like_a_manifest(self, tmp_path: Path) -> None:
        files(tmp_path, **{"x.yaml__a": HEAD})
        assert self.shown(Unit(tmp_path, "", None)) == (["x.yaml/a.yaml"], [])

    def test_links(self, tmp_path: Path) -> None:
        unit = tmp_path / "unit"
        files(tmp_path, unit__a=HEAD, outside=HEAD)
        for name, target in {
            "inside.yaml": "a.yaml",
            "outside.yaml": "../outside.yaml",
            "nowhere.yaml": "missing",
            "loop.yaml": "loop.yaml",
            "self.yaml": ".",
            "notes.txt": "missing",
        }.items():
            (unit / name).symlink_to(target)
        assert self.shown(Unit(unit, "", None)) == (
            ["a.yaml", "inside.yaml"],
            [
                "loop.yaml:1:1: RG001 a link that leads nowhere",
                "nowhere.yaml:1:1: RG001 a link that leads nowhere",
                "outside.yaml:1:1: RG001 a link that leads out of its directory",
            ],
        )

    def test_names_that_would_write_to_a_terminal(self, tmp_path: Path) -> None:
        (tmp_path / "a\x1b[31m\n.yaml").write_text("nope: 1\n")
        (tmp_path / os.fsdecode(b"b\xff.yaml")).write_text(HEAD)
        assert placed(merged(tmp_path)) == ["a\\x1b[31m\\n.yaml:1:1 RG201", "a\\x1b[31m\\n.yaml:1:1 RG203"]

    def test_very_deep_directories(self, tmp_path: Path) -> None:
        depth = 300
        here = Path.cwd()
        os.chdir(tmp_path)  # a path this long has no name the system takes at once
        try:
            for _ in range(depth):
                Path("d").mkdir()
                os.chdir("d")
            Path("a.yaml").write_text(HEAD)
        finally:
            os.chdir(here)
        assert self.shown(Unit(tmp_path, "", None)) == (["d/" * depth + "a.yaml"], [])

    def test_an_unreadable_directory_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files(tmp_path, a=HEAD, closed__b=HEAD)
        scandir = os.scandir

        def refusing(path: str) -> object:
            if path.endswith("closed"):
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refusing)
        assert self.shown(Unit(tmp_path, "", None)) == (
            ["a.yaml"],
            ["closed/:1:1: RG001 cannot be listed: Permission denied"],
        )

    def test_a_file_that_two_units_hold_is_read_once(self, tmp_path: Path) -> None:
        files(tmp_path, a=HEAD + "kinds: {k: {summary: s}}\n")
        whole = judged(tmp_path, tmp_path / "a.yaml", tmp_path, builtin=False)
        assert [d.path for d in whole.documents] == [f"{tmp_path.name}/a.yaml"]
        assert concise(whole) == []


class TestLimits:
    def test_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files(tmp_path, a=f"{BACKEND}  o: [{GOOD_ROW}]\n", b=HEAD, c=HEAD + f"ops: {{o: {{{OP}}}}}\n")
        monkeypatch.setattr(manifest, "MAX_FILES", 2)
        assert placed(merged(tmp_path)) == ["c.yaml:1:1 RG004"]

    def test_all_together(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files(tmp_path, a=HEAD, b=HEAD + "# " + "x" * 50 + "\n")
        monkeypatch.setattr(manifest, "MAX_TOTAL_BYTES", 40)
        assert placed(merged(tmp_path)) == ["b.yaml:1:1 RG004"]

    def test_cells_are_counted_before_they_are_made(self, tmp_path: Path) -> None:
        names = ", ".join(f"v{i}" for i in range(3000))
        row = f'{{device: [{names}], arch: [{names}], variant: [{names}], impl: "acme.k:f"}}'
        files(tmp_path, a=f"{BACKEND}  flow_match_step: [{row}]\n")
        whole = merged(tmp_path, builtin=True)
        assert placed(whole) == ["a.yaml:5:21 RG004"]
        assert len(whole.cells) < 100


# Files and the findings expected of them, in order: the cause, and nothing that follows from it.
CAUSES = {
    "a faulty op is still known": (
        {"a": HEAD + "ops: {o: {summary: s}}\n", "b": f"{BACKEND}  o: [{GOOD_ROW}]\n"},
        ["a.yaml:2:7 RG203", "a.yaml:2:7 RG203"],
    ),
    "a faulty device is still known, and its archs are judged": (
        {
            "a": HEAD + "devices: {npu: {summary: s, arrays: [nunpy], archs: {n1: {}}}}\n"
            "predicates: {p: {arch: n9}, q: {device: npu}}\n",
            "b": BACKEND + '  flow_match_step: [{device: [npu, cpu], arch: generic, exclude: [n1], impl: "acme.k:f"}]\n'
            "  flow_sde_step: [{device: npu, arch: n7, artifact: ptx, impl: 'acme.k:f'}]\n",
        },
        ["a.yaml:2:38 RG311", "a.yaml:3:24 RG301", "b.yaml:6:39 RG301"],
    ),
    "a fault of a device hides no other": (
        {
            "a": HEAD + "devices:\n  rr:\n    summary: s\n    arrays: [numpy]\n    pattern: r\n"
            "    portable: [To-rch, triton]\n"
            "    jit: {prefix: rv_, rule: atleast}\n    product: x\n    aliases: {rr1: r11}\n"
            "    archs: {r10: {}, r20: {runs: [r1O, 3, r10]}}\n"
            "    targets: {r20a: {only: r2O}, r9f: {family: [3, r8]}}\n"
            "platforms: {x: {summary: s, device: rr, arch: q9}}\n",
            "b": BACKEND + "  flow_match_step:\n"
            '    - {device: rr, arch: [r50, To-rch, triton, rv_10], exclude: [r5], impl: "acme.k:f"}\n',
        },
        [
            "a.yaml:7:16 RG205",
            "a.yaml:8:30 RG204",
            "a.yaml:9:5 RG201",
            "a.yaml:10:20 RG301",
            "a.yaml:11:35 RG301",
            "a.yaml:11:40 RG103",
            "a.yaml:12:28 RG301",
            "a.yaml:12:49 RG103",
            "a.yaml:12:52 RG301",
            "a.yaml:13:47 RG301",
            "b.yaml:6:27 RG301",
            "b.yaml:6:66 RG301",
        ],
    ),
    "an item of a set leaves once, however much is wrong in it": (
        {
            "b": BACKEND + "  flow_match_step:\n"
            '    - {device: cpu, arch: [~, x86_64_v22, x86_64_v33], impl: "acme.k:f"}\n'
            '    - {device: cpu, arch: [x86_64, x86_64_v22, [on, off]], variant: [y, n, NULL], impl: "acme.k:f"}\n',
        },
        [
            "b.yaml:6:28 RG108",
            "b.yaml:6:31 RG301",
            "b.yaml:6:43 RG301",
            "b.yaml:7:36 RG301",
            "b.yaml:7:48 RG202",
            "b.yaml:7:49 RG102",
            "b.yaml:7:53 RG102",
            "b.yaml:7:70 RG102",
            "b.yaml:7:73 RG102",
            "b.yaml:7:76 RG108",
        ],
    ),
    "a fault in a list of names hides no other": (
        {
            "a": HEAD + "profiles: {p: {devices: [cudaa, 3], chains: {flow_match_step: [aa, 3, aa]}}}\n"
            "ops: {o: {summary: s, signature: '() -> array', reference: 'acme.k:f', "
            "variants: {default: [zz, 3, default, default]}}}\n"
            "predicates: {q: {use: nope, foo: 1}, r: {os: lunix, why: 3}, "
            "t: {module: {name: tt, dists: x, version: '1.x'}}}\n",
        },
        [
            "a.yaml:2:26 RG305",
            "a.yaml:2:33 RG103",
            "a.yaml:2:64 RG308",
            "a.yaml:2:68 RG103",
            "a.yaml:2:71 RG310",
            "a.yaml:3:93 RG308",
            "a.yaml:3:97 RG103",
            "a.yaml:3:109 RG310",
            "a.yaml:4:23 RG304",
            "a.yaml:4:29 RG201",
            "a.yaml:4:46 RG204",
            "a.yaml:4:58 RG103",
            "a.yaml:4:85 RG201",
            "a.yaml:4:104 RG202",
        ],
    ),
    "a name in capitals is used in small letters": (
        {
            "a": HEAD + "devices: {NPU: {summary: s, arrays: [numpy]}}\n",
            "b": BACKEND + "  flow_match_step: [{device: npu, impl: 'a:f'}]\n",
        },
        ["a.yaml:2:11 RG205"],
    ),
    "a key that is no text is no key": (
        {"a": HEAD + 'bogus: 1\n"\\ud800": 1\n'},
        ["a.yaml:2:1 RG201", "a.yaml:3:1 RG805"],
    ),
    "a platform may have an arch that nobody declared yet": (
        {
            "a": HEAD + "platforms:\n"
            "  next: {summary: s, device: cuda, arch: sm_130}\n"
            "  slip: {summary: s, device: cuda, arch: sm_13O}\n"
        },
        ["a.yaml:4:42 RG301"],
    ),
    "a device whose archs are not known has no wrong ones": (
        {
            "a": HEAD + "devices: {npu: {summary: s, arrays: [numpy], archs: [n1], portable: [Xy]}}\n"
            "predicates: {p: {arch: n9}}\n",
            "b": BACKEND + '  flow_match_step: [{device: [npu, cpu], arch: n7, impl: "acme.k:f"}]\n',
        },
        ["a.yaml:2:53 RG202", "a.yaml:2:70 RG205", "b.yaml:5:48 RG301"],
    ),
    "what is sound of an entry is judged": (
        {
            "a": HEAD
            + "devices: {npu: {summary: 3, arrays: [numpy], falls_back_to: cpux, archs: {n1: {runs: [n0]}}}}\n"
            "predicates: {p: [{module: 3}, {device: cudaa}, {use: nope}, {libs: x}]}\n"
            "profiles: {mine: {extends: defaultt, devices: [cudaa], only: nobody, chain: {}, chains: {nop: [a]}}}\n"
            "platforms: {x: {summary: s, device: cudaa, arch: Sm 9, cpu: x86_64_v33}}\n"
            'ops: {o: {summary: s, signature: 3, reference: "acme.k:f", variants: {default: [a, a]}}}\n',
        },
        [
            "a.yaml:2:26 RG103",
            "a.yaml:2:61 RG305",
            "a.yaml:2:87 RG301",
            "a.yaml:3:27 RG202",
            "a.yaml:3:40 RG305",
            "a.yaml:3:54 RG304",
            "a.yaml:3:62 RG201",
            "a.yaml:4:28 RG304",
            "a.yaml:4:48 RG305",
            "a.yaml:4:62 RG302",
            "a.yaml:4:70 RG201",
            "a.yaml:4:90 RG302",
            "a.yaml:5:37 RG305",
            "a.yaml:5:50 RG205",
            "a.yaml:5:61 RG301",
            "a.yaml:6:34 RG103",
            "a.yaml:6:81 RG308",
            "a.yaml:6:84 RG310",
        ],
    ),
    "what is sound of a row is judged": (
        {
            "b": BACKEND + "  flow_match_step:\n"
            "    - {device: cuda, arch: sm_9O, when: torch_cudda}\n"
            '    - {arch: sm_90, when: torch_cudda, impl: "acme.k:f"}\n'
            '    - {device: cuda, arch: [sm_90, sm_9O, Sm 9], impl: "acme.k:f", when: [{module: 3}, torch_cudda]}\n'
            '    - {device: [cuda, Cuda, cudaa], impl: "acme.k:f", artifact: natve}\n',
        },
        [
            "b.yaml:6:7 RG203",
            "b.yaml:6:28 RG301",
            "b.yaml:6:41 RG304",
            "b.yaml:7:7 RG203",
            "b.yaml:7:27 RG304",
            "b.yaml:8:36 RG301",
            "b.yaml:8:43 RG205",
            "b.yaml:8:84 RG202",
            "b.yaml:8:88 RG304",
            "b.yaml:9:23 RG205",
            "b.yaml:9:29 RG305",
            "b.yaml:9:65 RG204",
        ],
    ),
    "a backend that is declared twice is judged all the same": (
        {
            "a": f"{BACKEND}  flow_match_step: [{GOOD_ROW}]\n",
            "b": BACKEND
            + '  flow_match_step: [{device: cudaa, impl: "acme.k:f"}, {device: cpu, arch: q, impl: "acme.k:f"}]\n',
        },
        ["b.yaml:2:10 RG309", "b.yaml:5:30 RG305", "b.yaml:5:76 RG301"],
    ),
    "cells of a target that does not exist do not collide": (
        {
            "a": BACKEND + "  flow_match_step:\n"
            '    - {device: cuda, arch: [sm_80, gfx942], impl: "acme.k:f"}\n'
            '    - {device: [cuda, rocm], arch: gfx942, impl: "acme.k:f"}\n'
            '    - {device: cudaa, impl: "acme.k:f"}\n'
            '    - {device: cudaa, impl: "acme.k:f"}\n',
        },
        ["a.yaml:6:36 RG301", "a.yaml:7:36 RG301", "a.yaml:8:16 RG305", "a.yaml:9:16 RG305"],
    ),
    "a faulty predicate is still known": (
        {"a": HEAD + "predicates: {p: {oss: linux}}\n", "b": HEAD + "predicates: {q: {not: p}}\n"},
        ["a.yaml:2:18 RG201"],
    ),
    "a faulty profile is still known": (
        {"a": HEAD + "profiles: {p: {fall: 1}, q: {extends: p}}\n"},
        ["a.yaml:2:22 RG202"],
    ),
    "a faulty backend is still known": (
        {
            "a": HEAD + "backend: acme\nkernels: {flow_match_step: [" + GOOD_ROW + "]}\n",
            "b": HEAD + "profiles: {p: {only: acme}}\n",
        },
        ["a.yaml:2:1 RG203"],
    ),
    "variants of faulty rows are still known": (
        {
            "a": BACKEND + "  flow_match_step: [{device: cpu, variant: [quick, neat]}]\n",
            "b": HEAD + "profiles: {p: {chains: {flow_match_step: [quick, neat]}}}\n",
        },
        ["a.yaml:5:21 RG203"],
    ),
    "a fault of `requires` takes its cells with it": (
        {
            "a": HEAD
            + "backend: acme\narrays: numpy\nrequires: {oss: x}\nkernels: {flow_match_step: ["
            + GOOD_ROW
            + "]}\n"
        },
        ["a.yaml:4:12 RG201"],
    ),
    "a misspelt section": (
        {"a": HEAD + f"opps: {{o: {{{OP}}}}}\n", "b": f"{BACKEND}  o: [{GOOD_ROW}]\n"},
        ["a.yaml:2:1 RG201"],
    ),
    "a misspelt `backend`": (
        {"a": HEAD + "backnd: acme\narrays: numpy\nkernels: {flow_match_step: [" + GOOD_ROW + "]}\n"},
        ["a.yaml:2:1 RG201"],
    ),
    "a misspelt `arrays`": (
        {"a": HEAD + "backend: acme\narays: numpy\nkernels: {flow_match_step: [" + GOOD_ROW + "]}\n"},
        ["a.yaml:3:1 RG201"],
    ),
    "a section that is no mapping": (
        {"a": HEAD + "ops: [o]\n", "b": f"{BACKEND}  flow_match_step: [{GOOD_ROW}]\n"},
        ["a.yaml:2:6 RG202"],
    ),
    "a file that cannot be parsed": (
        {"a": HEAD + f"ops:\n  o: {{{OP}}}\n  p: [\n", "b": f"{BACKEND}  o: [{GOOD_ROW}]\n  oo: [{GOOD_ROW}]\n"},
        ["a.yaml:5:1 RG002", "b.yaml:6:3 RG302"],
    ),
    "a file with a control character": (
        {"a": HEAD + f"# \x07\nops: {{o: {{{OP}}}}}\n", "b": f"{BACKEND}  o: [{GOOD_ROW}]\n"},
        ["a.yaml:2:3 RG805"],
    ),
    "a file of another version": (
        {"a": f"manifest: 2\nops: {{o: {{{OP}}}}}\n", "b": f"{BACKEND}  o: [{GOOD_ROW}]\n"},
        ["a.yaml:1:11 RG005"],
    ),
    "a second document": (
        {"a": HEAD + f"ops: {{o: {{{OP}}}}}\n---\n{HEAD}", "b": f"{BACKEND}  o: [{GOOD_ROW}]\n"},
        ["a.yaml:3:1 RG003"],
    ),
    "a list of manifests": (
        {"a": f"- manifest: 1\n  ops: {{o: {{{OP}}}}}\n", "b": f"{BACKEND}  o: [{GOOD_ROW}]\n"},
        ["a.yaml:1:1 RG202"],
    ),
    "a bad key in a section costs that entry alone": (
        {
            "a": HEAD
            + f"ops: {{1: {{}}, é: {{}}, o: {{{OP}}}, q: {{summary: s, signature: x, reference: 'acme.r:f'}}}}\n"
        },
        ["a.yaml:2:7 RG106", "a.yaml:2:14 RG107", "a.yaml:2:124 RG202"],
    ),
    "a bad cell costs that cell alone": (
        {"a": f"{BACKEND}  flow_match_step:\n    - x\n    - {GOOD_ROW}\n    - {{}}\n    - {GOOD_ROW}\n"},
        ["a.yaml:6:7 RG202", "a.yaml:8:7 RG203", "a.yaml:8:7 RG203", "a.yaml:9:7 RG401"],
    ),
    "a row that collides in many cells": (
        {
            "a": BACKEND + "  flow_match_step:\n"
            '    - {device: [cpu, cuda, mps], variant: [u, v], impl: "acme.k:f"}\n'
            '    - {device: [mps, cuda, cpu], variant: [v, u], impl: "acme.k:f"}\n'
        },
        ["a.yaml:7:7 RG401"],
    ),
    "an arch that several devices lack": (
        {"a": BACKEND + '  flow_match_step: [{device: [cpu, mps, xpu], arch: sm_90, impl: "acme.k:f"}]\n'},
        ["a.yaml:5:53 RG301"],
    ),
    "a newer arch and the cycle it closes": (
        {
            "a": HEAD
            + "devices: {d: {summary: s, arrays: [numpy], pattern: v, archs: {v1: {runs: [v2]}, v2: {runs: [v1]}}}}\n"
        },
        ["a.yaml:2:76 RG307"],
    ),
    "a variant listed twice that is unknown too": (
        {"a": HEAD + "profiles: {p: {chains: {flow_match_step: [x, x]}}}\n"},
        ["a.yaml:2:43 RG308", "a.yaml:2:46 RG310"],
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_one_cause_is_reported_once(name: str, tmp_path: Path) -> None:
    texts, expected = CAUSES[name]
    assert placed(merged(files(tmp_path, **texts), builtin=True)) == expected


def test_where_a_file_cannot_be_opened_no_name_is_called_unknown(tmp_path: Path) -> None:
    files(tmp_path, b=f"{BACKEND}  o: [{GOOD_ROW}]\n")
    (tmp_path / "a.yaml").symlink_to("missing")
    assert placed(merged(tmp_path, builtin=True)) == ["a.yaml:1:1 RG001"]


def test_everything_is_found_in_one_run(tmp_path: Path) -> None:
    text = """\
manifest: 1
backend: acme
arrays: numpy
requires: {not: torch_presnt}
ops:
  a: {summary: on, signature: "()", reference: "acme.r:f"}
  b: {summary: s, signature: "(x: Tensor) -> array", reference: "acme.r:f"}
  b: {}
kinds:
  K: {summary: s}
predicates:
  p: {python: 3.11}
  q: {driver: cudda >=1}
devices:
  npu: {summary: s, arrays: [numpy], falls_back_to: cpux, archs: {n1: {runs: [n0]}}}
kernels:
  flow_match_stp: []
  flow_match_step:
    - {device: [cpu, cudda], arch: sm_9O, impl: "os:system"}
    - {device: cpu, impl: "acme.k:f.g", variant: ~}
profiles:
  p: {extends: q, chains: {b: [x]}}
"""
    assert placed(merged(files(tmp_path, a=text), builtin=True)) == [
        "a.yaml:4:17 RG304",
        "a.yaml:6:16 RG102",
        "a.yaml:6:31 RG202",
        "a.yaml:7:30 RG202",
        "a.yaml:8:3 RG101",
        "a.yaml:10:3 RG205",
        "a.yaml:12:15 RG103",
        "a.yaml:13:15 RG305",
        "a.yaml:15:53 RG305",
        "a.yaml:15:79 RG301",
        "a.yaml:17:19 RG206",
        "a.yaml:19:22 RG305",
        "a.yaml:19:36 RG301",
        "a.yaml:20:27 RG802",
        "a.yaml:20:50 RG108",
        "a.yaml:22:16 RG304",
        "a.yaml:22:32 RG308",
    ]


class TestCells:
    def test_a_row_stands_for_a_product(self, tmp_path: Path) -> None:
        row = '{device: [cuda, mps], arch: [torch, generic], variant: [u, default], impl: "acme.k:f"}'
        files(
            tmp_path,
            a=f"{BACKEND}  flow_match_step: [{row}]\ncomponents:\n  dit: [{{device: cpu, impl: 'acme.k:b'}}]\n",
        )
        mine = [c.id for c in merged(tmp_path, builtin=True).cells if c.backend.name == "acme"]
        product = [f"{d}.{a}#{v}" for d in ("cuda", "mps") for a in ("torch", "generic") for v in ("u", "default")]
        assert mine == [*(f"acme/flow_match_step@{cell}" for cell in product), "acme/dit@cpu#default"]

    def test_aliases_are_resolved(self, tmp_path: Path) -> None:
        row = '{device: cpu, arch: amd64, impl: "acme.k:f", exclude: [x64]}'
        files(tmp_path, a=f"{BACKEND}  flow_match_step: [{row}]\n")
        whole = merged(tmp_path, builtin=True)
        assert [c.id for c in whole.cells if c.backend.name == "acme"] == ["acme/flow_match_step@cpu.x86_64#default"]
        assert concise(whole) == []

    def test_a_cell_keeps_its_place_when_others_are_rejected(self, tmp_path: Path) -> None:
        files(tmp_path, a=f"{BACKEND}  flow_match_step:\n    - x\n    - {GOOD_ROW}\n")
        (cell,) = (c for c in merged(tmp_path, builtin=True).cells if c.backend.name == "acme")
        assert (cell.where.line, cell.index) == (7, 1)

    def test_a_section_may_be_empty(self, tmp_path: Path) -> None:
        files(tmp_path, a=HEAD + "backend: acme\nkernels: {}\ncomponents: {}\nops: {}\n")
        assert concise(merged(tmp_path)) == []


class TestLocalRows:
    HERE = Where("app.py", 7)

    def row(self, **more: object) -> LocalRow:
        row = {"device": ["cpu"], "arch": ["generic"], "variant": ["default"], "impl": "local:f", **more}
        serves, replaces = str(row.pop("serves", "flow_match_step")), bool(row.pop("replaces", False))
        return LocalRow("kernels", serves, row, self.HERE, replaces)

    def judge(self, *rows: LocalRow) -> Manifests:
        whole = merge([BUILTIN], rows)
        check(whole)
        return whole

    def test_they_become_cells_of_local(self) -> None:
        whole = self.judge(self.row())
        assert [c.id for c in whole.cells if c.backend.name == "local"] == ["local/flow_match_step@cpu.generic#default"]
        assert concise(whole) == []

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"device": ["cpux"]}, "RG305 unknown device `cpux`"),
            ({"device": ["Cpu"]}, "RG205 `Cpu` is no legal name"),
            ({"device": [3]}, "RG202 an item of `device` must be text, not `3`"),
            ({"arch": ["sm_90"]}, "RG301 unknown arch `sm_90` of device `cpu`"),
            ({"arrays": "cupy"}, "RG311 unknown arrays `cupy`"),
            ({"serves": "flow_match_stp"}, "RG302 unknown op `flow_match_stp`"),
            ({"impl": "os:system"}, "RG801 package `os` may not be bound by this process"),
            ({"hints": "x"}, "RG201 unknown key `hints` in an item of `flow_match_step`"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_they_pass_the_checks_of_manifests(self, row: dict[str, object], message: str) -> None:
        (problem,) = self.judge(self.row(**row)).problems
        assert problem.concise() == f"app.py:7:1: {message}"

    def test_a_duplicate_is_an_error_unless_it_replaces(self) -> None:
        taken = {"arch": ["torch"], "arrays": "torch"}
        (problem,) = self.judge(self.row(**taken)).problems
        assert problem.code == "RG401"
        whole = self.judge(self.row(**taken, replaces=True))
        assert concise(whole) == []
        at = [c.backend.name for c in whole.cells if c.id.endswith("/flow_match_step@cpu.torch#default")]
        assert at == ["local"]

    def test_a_manifest_cannot_call_its_backend_local(self, tmp_path: Path) -> None:
        files(tmp_path, a=HEAD + "backend: local\narrays: numpy\n")
        assert placed(merged(tmp_path)) == ["a.yaml:2:10 RG309"]


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_is_left_as_it_was(collects: bool, tmp_path: Path) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if collects else gc.disable()
        merged(files(tmp_path, a="nope: ["))
        assert gc.isenabled() is collects
    finally:
        gc.enable() if before else gc.disable()
