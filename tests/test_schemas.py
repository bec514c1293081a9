from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from judging import BUILTIN, judged, parts
from rung.cli import main
from rung.diagnostics import Problems
from rung.resources import data_dir
from rung.rules.values import SYSTEMS
from rung.schemas import FACTS, MANIFEST, MAX_BYTES, SOURCES, WORKSPACE, read_schema, schemas, texts, workspace_schema
from rung.source import read_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Write

ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "schemas"
BAD = ROOT / "tests" / "bad_manifests"
MANIFESTS = sorted(data_dir("manifests").rglob("*.yaml"))
FACTS_FILES = sorted((ROOT / "tests" / "facts").glob("*.yaml"))
GOOD = sorted(BAD.glob("*/good.yaml"))
EXAMPLES = sorted((ROOT / "examples").glob("*/manifests/*.yaml"))
NAMES = (MANIFEST, FACTS, WORKSPACE)

# Bad fixtures of groups 2 and 8 that no schema of one file can tell from good ones: small languages inside a text, a
# near miss of an open list, and what only the device knows.
BEYOND_A_SCHEMA = {
    "RG202-file", "RG202-signature", "RG202-signature-syntax", "RG202-version",
    "RG204-accepted-dtype", "RG204-artifact-of-target", "RG204-cpu-flag", "RG204-flags-in-one-text", "RG204-machine",
    "RG205-device-as-module", "RG205-distribution",
}  # fmt: skip

# Bad fixtures that the workspace schema rejects, and the plain one does not: names that nobody declares.
UNKNOWN_NAMES = [
    "RG301-atom", "RG301-exclude", "RG301-target-of-row", "RG302-backend", "RG302-kind", "RG302-op",
    "RG304-nested", "RG304-predicate", "RG304-profile", "RG305-device", "RG305-falls-back-to",
]  # fmt: skip


@cache
def written() -> dict[str, str]:
    return texts(judged(), [BUILTIN], SCHEMAS)


@cache
def validator(name: str) -> Any:
    return Draft202012Validator(json.loads(written()[name]))


def data_of(path: Path) -> Any:
    document = read_path(path, path.name, Problems())
    assert document is not None
    return document.root.data


def faults(path: Path, schema: Any) -> list[str]:
    return [f"{list(e.absolute_path)}: {e.message}" for e in schema.iter_errors(data_of(path))]


def objects(schema: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every schema inside a schema, with where it stands."""
    if isinstance(schema, dict):
        yield at, schema
        for key, inner in schema.items():
            if key not in ("examples", "default"):
                yield from objects(inner, f"{at}/{key}")
    elif isinstance(schema, list):
        for index, inner in enumerate(schema):
            yield from objects(inner, f"{at}/{index}")


# --- What is committed


@pytest.mark.parametrize("name", NAMES)
def test_committed_schemas_are_what_would_be_written(name: str) -> None:
    committed = (SCHEMAS / name).read_text(encoding="utf-8")
    assert committed == written()[name], f"schemas/{name} is stale: run `rung schema`"


def test_no_other_schema_is_committed() -> None:
    assert {path.name for path in SCHEMAS.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(json.loads(written()[name]))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_private_is_left_in_a_schema(name: str) -> None:
    assert re.findall(r'"x-[a-z]+"', written()[name]) == ([f'"{SOURCES}"'] if name == WORKSPACE else [])


# --- What they accept


@pytest.mark.parametrize("path", [*MANIFESTS, *EXAMPLES, *GOOD], ids=lambda p: "/".join(p.parts[-2:]))
def test_good_manifests_fit_the_schema(path: Path) -> None:
    assert faults(path, validator(MANIFEST)) == []


@pytest.mark.parametrize("path", [*MANIFESTS, *EXAMPLES], ids=lambda p: "/".join(p.parts[-2:]))
def test_shipped_manifests_fit_the_schema_of_the_workspace(path: Path) -> None:
    assert faults(path, validator(WORKSPACE)) == []


@pytest.mark.parametrize("directory", [p.parent for p in GOOD], ids=lambda p: p.name)
def test_good_manifests_fit_the_schema_of_their_own_workspace(directory: Path) -> None:
    schema = Draft202012Validator(workspace_schema(judged(*parts(directory, "good.yaml")), (), directory))
    for path in parts(directory, "good.yaml"):
        assert faults(path, schema) == []


@pytest.mark.parametrize("path", FACTS_FILES, ids=lambda p: p.name)
def test_facts_files_fit_the_schema(path: Path) -> None:
    assert faults(path, validator(FACTS)) == []


@pytest.mark.parametrize(
    "directory",
    [p.parent for p in GOOD if p.parent.name[2] == "2" or p.parent.name[:5] in ("RG005", "RG311", "RG408", "RG802")],
    ids=lambda p: p.name,
)
def test_the_schema_rejects_bad_shapes(directory: Path) -> None:
    rejected = bool(faults(directory / "bad.yaml", validator(MANIFEST)))
    assert rejected == (directory.name not in BEYOND_A_SCHEMA)


@pytest.mark.parametrize("name", UNKNOWN_NAMES)
def test_the_schema_of_a_workspace_rejects_names_nobody_declares(name: str) -> None:
    bad = BAD / name / "bad.yaml"
    schema = Draft202012Validator(workspace_schema(judged(*parts(BAD / name, "bad.yaml")), (), BAD / name))
    assert faults(bad, validator(MANIFEST)) == []
    assert faults(bad, schema)


@pytest.mark.parametrize(
    "value",
    [None, {"manifest": None}, {"manifest": 1, "backend": None}, {"manifest": 1, "kernels": {"o": None}}],
    ids=["document", "version", "backend", "rows"],
)
def test_no_schema_lets_null_pass(value: object) -> None:
    assert list(validator(MANIFEST).iter_errors(value))


# --- What they teach


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_described(name: str) -> None:
    silent = [
        f"{at}/{key}"
        for at, schema in objects(json.loads(written()[name]))
        if isinstance(schema.get("properties"), dict) and "/if" not in at
        for key, inner in schema["properties"].items()
        if not inner.get("description")
    ]
    assert silent == []


@pytest.mark.parametrize("name", NAMES)
def test_every_member_of_a_closed_set_is_explained(name: str) -> None:
    for at, schema in objects(json.loads(written()[name])):
        if "enum" in schema:
            meanings = schema.get("markdownEnumDescriptions", [])
            assert len(meanings) == len(schema["enum"]), at
            assert all(meanings), at


@pytest.mark.parametrize("model", ["ExpressionModel", "KernelModel", "OpModel", "DeviceModel", "ProfileModel"])
def test_keys_have_examples(model: str) -> None:
    for key, schema in schemas()[MANIFEST]["$defs"][model]["properties"].items():
        shown = schema.get("examples") or schema.get("enum") or "```yaml" in schema.get("markdownDescription", "")
        assert shown, key


def test_examples_of_scalars_fit_their_own_schema() -> None:
    whole = schemas()[MANIFEST]
    checked = 0
    for at, schema in objects(whole):
        for example in schema.get("examples", ()) if "anyOf" in schema or "type" in schema else ():
            inner = {**{key: value for key, value in schema.items() if key != "examples"}, "$defs": whole["$defs"]}
            assert Draft202012Validator(inner).is_valid(example), (at, example)
            checked += 1
    assert checked > 40


def test_defaults_are_said_in_words() -> None:
    defaults = [schema for _, schema in objects(schemas()[MANIFEST]) if "default" in schema and "description" in schema]
    assert len(defaults) >= 4
    for schema in defaults:
        assert f"Default: `{schema['default']}`." in schema["description"]


def test_the_schema_knows_the_systems_that_facts_can_name() -> None:
    one, _ = schemas()[MANIFEST]["$defs"]["ExpressionModel"]["properties"]["os"]["anyOf"]
    assert set(one["enum"]) == SYSTEMS


# --- The names of a workspace

ACME = """\
manifest: 1
backend: acme
arrays: numpy
kernels:
  flow_match_step: [{device: npu, arch: np_2, variant: quick, impl: "acme.k:f", when: acme_there}]
devices:
  npu: {summary: An NPU., arrays: [numpy], aliases: {np2: np_2}, archs: {np_1: {}, np_2: {products: [Two]}}}
predicates:
  acme_there: {why: acme is there, module: acme}
profiles:
  mine: {extends: default}
"""


def known(text: str, write: Write) -> dict[str, Any]:
    """Give the lists of names in the schema of a workspace that has one manifest more."""
    root = write({"acme.yaml": text})
    return workspace_schema(judged(root / "acme.yaml"), (), root)["$defs"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("section", "names", "others"),
    [
        ("devices", {"npu", "cuda"}, {"np_2"}),
        ("targets", {"np_1", "np_2", "np2", "sm_90", "sm_90a", "compute_90", "generic", "torch"}, {"npu"}),
        ("archs", {"np_1", "np2", "sm_90"}, {"sm_90a", "compute_90", "generic"}),
        ("predicates", {"acme_there", "torch_cuda"}, {"acme"}),
        ("profiles", {"mine", "default", "strict"}, {"acme"}),
        ("backends", {"acme", "torch", "reference"}, {"mine"}),
        ("ops", {"flow_match_step"}, {"dit"}),
        ("kinds", {"dit"}, {"flow_match_step"}),
    ],
)
def test_a_workspace_lists_what_its_manifests_declare(
    section: str, names: set[str], others: set[str], write: Write
) -> None:
    listed = set(known(ACME, write)[f"known_{section}"]["enum"])
    assert listed >= names
    assert not listed & others


def test_names_come_with_a_line_about_them(write: Write) -> None:
    defs = known(ACME, write)
    said = {
        section: dict(zip(found["enum"], found["markdownEnumDescriptions"], strict=True))
        for section, found in defs.items()
        if section.startswith("known_")
    }
    assert said["known_devices"]["npu"] == "An NPU."
    assert said["known_targets"]["np_2"] == "npu: Two"
    assert said["known_targets"]["np2"] == "npu: another name of `np_2`"
    assert said["known_targets"]["sm_90a"] == "cuda: code for `sm_90` alone"
    assert said["known_predicates"]["acme_there"] == "acme is there"
    assert said["known_profiles"]["mine"] == '`{"extends": "default"}`'


def test_variants_are_only_suggested(write: Write) -> None:
    one, _ = known(ACME, write)["KernelModel"]["properties"]["variant"]["anyOf"]
    assert "quick" in one["examples"]
    assert "enum" not in one


@pytest.mark.parametrize(
    ("fault", "firm"),
    [
        ("", True),
        ("  flow_sde_step: [{device: npu, impl: 7}]", True),
        ("extra: {names: [something]}", False),
        ("kernels: [", False),
    ],
    ids=["none", "in a row", "a misspelt section", "unreadable"],
)
def test_names_restrict_only_where_all_are_known(fault: str, firm: bool, write: Write) -> None:
    text = ACME.replace("devices:\n", f"{fault}\ndevices:\n") if fault.startswith(" ") else f"{ACME}{fault}\n"
    assert ("known_devices" in known(text, write)) == firm


@pytest.mark.parametrize(
    ("right", "wrong", "firm"),
    [
        ("arrays: [numpy]", "arrays: numpy", True),
        ("archs: {np_1: {}, np_2: {products: [Two]}}", "archs: 7", False),
        ("np_1: {}", "np_1: 7", False),
        ("{np2: np_2}", "7", False),
        ("npu: {summary", "npu: 7\n  npu2: {summary", False),
    ],
    ids=["what names no arch", "all archs", "one arch", "all aliases", "a device"],
)
def test_archs_are_only_suggested_where_some_were_rejected(right: str, wrong: str, firm: bool, write: Write) -> None:
    defs = known(ACME.replace(right, wrong), write)
    one, *_ = defs["KernelModel"]["properties"]["arch"]["anyOf"]
    assert "npu" in defs["known_devices"]["enum"]
    assert ("known_targets" in defs) == firm
    assert firm or "sm_90" in one["examples"]


# --- The command


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["schema", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_command_writes_and_then_changes_nothing(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    root = write({"manifests/acme.yaml": ACME, "acme/__init__.py": "", "acme/k.py": "def f(): ..."})
    arguments = (str(root / "manifests"), "--root", str(root))
    assert run(*arguments, capsys=capsys)[:2] == (0, "".join(f"written: {root}/schemas/{n}\n" for n in NAMES))
    before = {path: path.stat().st_mtime_ns for path in (root / "schemas").iterdir()}
    assert run(*arguments, capsys=capsys)[:2] == (0, "".join(f"unchanged: {root}/schemas/{n}\n" for n in NAMES))
    assert {path: path.stat().st_mtime_ns for path in (root / "schemas").iterdir()} == before
    assert {path.name for path in before} == set(NAMES)
    assert json.loads((root / "schemas" / WORKSPACE).read_text())[SOURCES] == ["../manifests"]


def test_check_names_what_is_stale_and_missing_and_writes_nothing(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"manifests/acme.yaml": ACME})
    monkeypatch.chdir(root)
    run("manifests", capsys=capsys)
    (root / "schemas" / FACTS).unlink()
    (root / "schemas" / MANIFEST).write_text("{}")
    write({"manifests/acme.yaml": ACME.replace("acme_there", "acme_here")})
    code, out, err = run("manifests", "--check", capsys=capsys)
    assert code == 1
    assert out == f"stale: schemas/{MANIFEST}\nmissing: schemas/{FACTS}\nstale: schemas/{WORKSPACE}\n"
    assert err == "repair: rung schema manifests\n"
    assert (root / "schemas" / MANIFEST).read_text() == "{}"
    assert run("manifests", capsys=capsys)[0] == 0
    assert run("manifests", "--check", capsys=capsys)[0] == 0


def test_check_accepts_the_line_ends_of_a_checkout(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    root = write({"manifests/acme.yaml": ACME})
    arguments = (str(root / "manifests"), "--root", str(root))
    run(*arguments, capsys=capsys)
    for path in (root / "schemas").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert run(*arguments, "--check", capsys=capsys)[0] == 0


def test_another_directory_is_part_of_the_repair(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write({"manifests/acme.yaml": ACME}))
    code, _, err = run("manifests", "--check", "--directory", "editor/json", capsys=capsys)
    assert (code, err) == (1, "repair: rung schema manifests --directory editor/json\n")


def test_the_report_can_be_read_by_a_program(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    root = write({"manifests/acme.yaml": ACME})
    code, out, _ = run(str(root / "manifests"), "--root", str(root), "--check", "--format", "json", capsys=capsys)
    files = [{"path": f"{root.as_posix()}/schemas/{name}", "state": "missing"} for name in NAMES]
    assert (code, json.loads(out)) == (1, {"format_version": 1, "schemas": files})


def test_manifests_with_errors_have_a_schema_too(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    root = write({"manifests/acme.yaml": ACME.replace("arch: np_2", "arch: np_3")})
    code, _, err = run(str(root / "manifests"), "--root", str(root), capsys=capsys)
    assert code == 0
    assert err.startswith("errors in the manifests: 1;")
    assert "acme_there" in (root / "schemas" / WORKSPACE).read_text()


@pytest.mark.parametrize("where", ["", "file"], ids=["no manifests", "a file where the directory goes"])
def test_what_cannot_be_done_is_a_usage_error(where: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    root = write({"file": "", "manifests/acme.yaml": ACME})
    paths = [str(root / "manifests"), "--directory", str(root / where)] if where else []
    assert run(*paths, "--root", str(root), capsys=capsys)[0] == 2


def test_what_merely_came_along_is_no_source(tmp_path: Path) -> None:
    assert json.loads(written()[WORKSPACE])[SOURCES] == ["../manifests"]
    (tmp_path / "acme.yaml").write_text(ACME)
    whole = judged(tmp_path / "acme.yaml")
    named = [unit for unit in whole.units if unit != BUILTIN]
    assert json.loads(texts(whole, named, tmp_path / "schemas")[WORKSPACE])[SOURCES] == ["../acme.yaml"]


# --- What was written


@pytest.mark.parametrize(
    ("name", "content", "is_json", "made_from"),
    [
        (WORKSPACE, '{"x-manifests": ["../m", "a\\u0000b", "\\ud800"]}', True, ["m"]),
        (WORKSPACE, '{"x-manifests": ["../m", 7]}', True, []),
        (WORKSPACE, '{"x-manifests": "../m"}', True, []),
        (WORKSPACE, "[" * 100_000, False, []),
        (WORKSPACE, "<<<<<<< HEAD", False, []),
        (MANIFEST, b"\xff\xfe", False, []),
        ("other.json", "{}", None, []),
        ("other.json", "Generated by `rung schema`", False, []),
        (WORKSPACE, b" " * (MAX_BYTES + 1), None, []),
    ],
    ids=["odd paths", "no paths", "no list", "deep", "a conflict", "no text", "another", "marked", "huge"],
)
def test_any_file_can_be_asked_whether_it_is_a_schema_of_ours(
    tmp_path: Path, name: str, content: str | bytes, is_json: bool | None, made_from: list[str]
) -> None:
    (tmp_path / "schemas").mkdir()
    path = tmp_path / "schemas" / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read_schema(path)
    assert (found.is_json if found else None) == is_json
    assert [source.name for source in (found.made_from if found else ())] == made_from


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_no_schema_and_is_not_replaced(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write({"m/acme.yaml": ACME, "schemas/x": ""}))
    os.mkfifo(f"schemas/{WORKSPACE}")
    assert read_schema(Path(f"schemas/{WORKSPACE}")) is None
    code, _, err = run("m", capsys=capsys)
    assert (code, err) == (2, f"rung: not a regular file: schemas/{WORKSPACE}\n")
    assert not Path("schemas", MANIFEST).exists()


def test_without_manifests_the_command_says_how_it_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run("--root", str(tmp_path), capsys=capsys)
    assert code == 2
    assert "`rung schema PATH`" in err
