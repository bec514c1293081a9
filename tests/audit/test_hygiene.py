"""Editor modelines, and schema files that are stale."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from judging import BUILTIN, judged
from rung.audit.hygiene import RULES
from rung.audit.scene import Scene
from rung.repairs import apply
from rung.schemas import MANIFEST, WORKSPACE, texts

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Write
    from rung.diagnostics import Problem

BODY = "manifest: 1\nkinds:\n  codec: {summary: A codec.}\n"
HEAD = "# yaml-language-server: $schema="


def found(root: Path, *paths: str, builtin: bool = True) -> list[Problem]:
    """Judge paths below a root by the rules of this module alone."""
    whole = judged(*(root / path for path in paths or ("m",)), builtin=builtin)
    scene = Scene(whole, root, along=(BUILTIN,) if builtin else ())
    return sorted((p for rule in RULES for p in rule(scene)), key=lambda p: p.sort_key)


def concise(problems: list[Problem]) -> list[str]:
    return [f"{p.where} {p.code} {p.message}" for p in problems]


def made(root: Path, *paths: str) -> dict[str, str]:
    """Write the schemas of some paths."""
    (root / "schemas").mkdir(exist_ok=True)
    whole = judged(*(root / path for path in paths or ("m",)))
    out = texts(whole, [unit for unit in whole.units if unit != BUILTIN], root / "schemas")
    for name, text in out.items():
        (root / "schemas" / name).write_text(text, encoding="utf-8")
    return out


@pytest.mark.parametrize(
    "head",
    [
        f"{HEAD}../s.json\n",
        "#  yaml-language-server : $schema=../s.json\n",
        "# $schema: ../s.json\n",
        f"# A comment.\n\n{HEAD}../s.json\n",
        f"  {HEAD}../s.json\n",
        f"---\n{HEAD}../s.json\n",
        f"{HEAD}../s.json#/part of it\n",
        f"{HEAD}https://example.org/manifest.json\n",
        f"{HEAD}file:///somewhere/else.json\n",
        f"{HEAD}none\n",
        f"{HEAD}./../m/../s.json disableSomething\n",
    ],
    ids=[
        "plain", "spaces", "another spelling", "below a comment", "indented", "below a document's start", "a fragment",
        "an address", "a file's address", "none wanted", "more on the line",
    ],
)  # fmt: skip
def test_a_modeline_is_read_as_the_language_server_reads_it(head: str, write: Write) -> None:
    assert found(write({"s.json": "{}", "m/a.yaml": head + BODY})) == []


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (BODY, "a.yaml:1 RG902 no modeline tells an editor the schema of this file", "run `rung schema m`"),
        (f"# Ours.\n{BODY}", "a.yaml:2 RG902 no modeline tells an editor the schema of this file", "run `rung schema"),
        (
            BODY.replace("kinds", f"{HEAD}../s.json\nkinds"),
            "a.yaml:2 RG902 editors do not read this modeline",
            "move it above the first key",
        ),
        (
            f"#yaml-language-server: $schema=../s.json\n{BODY}",
            "a.yaml:1 RG902 editors do not read this modeline",
            "write it above the first key, as `# yaml-language-server: $schema=PATH`",
        ),
        (
            f"{HEAD}../t.json\n{BODY}",
            "a.yaml:1 RG902 the modeline's schema `../t.json` does not exist",
            "run `rung schema m`",
        ),
        (
            f"{HEAD}{'x' * 3000}\n{BODY}",
            f"a.yaml:1 RG902 the modeline's schema `{'x' * 37}...` does not exist",
            "run `rung schema m`",
        ),
        (
            f"{HEAD}../m\n{BODY}",
            "a.yaml:1 RG902 the modeline's schema `../m` is no file",
            "run `rung schema m`",
        ),
    ],
    ids=["none", "none below a comment", "below a key", "glued", "dangling", "no name of a file", "a directory"],
)
def test_what_no_editor_finds_is_reported(text: str, message: str, hint: str, write: Write) -> None:
    (problem,) = found(write({"s.json": "{}", "m/a.yaml": text}))
    assert concise([problem]) == [f"m/{message}"]
    assert problem.hint.startswith(hint)
    assert problem.edit is None


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        (BODY, f"{HEAD}../../schemas/{WORKSPACE}\n{BODY}"),
        (f"# Ours.\r\n{BODY}", f"{HEAD}../../schemas/{WORKSPACE}\r\n# Ours.\r\n{BODY}"),
        (f"\ufeff{BODY}", f"\ufeff{HEAD}../../schemas/{WORKSPACE}\n{BODY}"),
        (f"{HEAD}../schemas/x.json more\n{BODY}", f"{HEAD}../../schemas/{WORKSPACE} more\n{BODY}"),
    ],
    ids=["missing", "carriage returns", "byte order mark", "dangling"],
)
def test_the_repair_names_the_schema_there_is(text: str, repaired: str, write: Write) -> None:
    root = write({"m/inner/a.yaml": ""})
    file = root / "m/inner/a.yaml"
    file.write_bytes(text.encode())
    made(root)
    (problem,) = found(root)
    assert problem.edit is not None
    changed, _ = apply(file.read_bytes(), [problem.edit])
    assert changed == repaired.encode()
    file.write_bytes(changed)
    assert found(root) == []


def test_a_manifest_that_the_workspace_does_not_hold_gets_the_schema_of_all(write: Write) -> None:
    root = write({"m/a.yaml": f"{HEAD}none\n{BODY}", "other/b.yaml": BODY.replace("codec", "other")})
    made(root, "m")
    (problem,) = found(root, "other")
    assert problem.hint == f"start the file with `{HEAD}../schemas/{MANIFEST}`"


def test_what_merely_came_along_is_not_judged(write: Write) -> None:
    root = write({"m/a.yaml": BODY, "n/b.yaml": BODY.replace("codec", "other")})
    whole = judged(root / "m", root / "n")
    scene = Scene(whole, root, along=whole.units[:2])
    assert [p.where.path for rule in RULES for p in rule(scene) if p.where] == ["n/b.yaml"]


def test_a_file_that_cannot_be_read_is_not_reported_again(write: Write) -> None:
    assert found(write({"m/a.yaml": "kinds: [\n"})) == []


# --- Stale schemas


def named(schema: str) -> str:
    return f"{HEAD}../schemas/{schema}\n{BODY}"


@pytest.mark.parametrize("schema", [MANIFEST, WORKSPACE])
def test_a_schema_is_stale_once_however_many_name_it(schema: str, write: Write) -> None:
    root = write({"m/a.yaml": named(schema), "m/b.yaml": named(schema).replace("codec", "other")})
    text = made(root)[schema]
    assert found(root) == []
    (root / "schemas" / schema).write_text(text.replace('"type": "object"', '"type": "array"'), encoding="utf-8")
    (problem,) = found(root)
    assert concise([problem]) == [f"m/a.yaml:1 RG905 schema `schemas/{schema}` is stale"]
    assert problem.hint == "run `rung schema m`"


def test_a_new_name_makes_the_schema_of_the_workspace_stale(write: Write) -> None:
    root = write({"m/a.yaml": named(WORKSPACE)})
    made(root)
    write({"m/b.yaml": named(WORKSPACE).replace("codec", "other")})
    assert concise(found(root)) == [f"m/a.yaml:1 RG905 schema `schemas/{WORKSPACE}` is stale"]


def test_a_workspace_is_judged_by_the_manifests_it_was_made_from_alone(write: Write) -> None:
    root = write({"m/a.yaml": named(WORKSPACE), "n/b.yaml": named(WORKSPACE).replace("codec", "other")})
    made(root, "m", "n")
    assert found(root, "m", "n") == []
    assert found(root, "m") == []
    write({"n/c.yaml": named(WORKSPACE).replace("codec", "third")})
    assert found(root, "n") == []
    assert concise(found(root, "n", "m")) == [f"m/a.yaml:1 RG905 schema `schemas/{WORKSPACE}` is stale"]


def test_it_is_not_judged_by_manifests_with_errors(write: Write) -> None:
    root = write({"m/a.yaml": named(WORKSPACE)})
    made(root)
    write({"m/b.yaml": named(WORKSPACE).replace("codec", "other") + "ops: 7\n"})
    assert found(root) == []


MARK = '{"$comment": "Generated by `rung schema`; edits will be lost."'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", ""),
        ("not even JSON", "is no JSON"),
        ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> theirs\n", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        (f"{MARK},\n<<<<<<< HEAD\n", "is no JSON"),
        (MARK + "}", "is stale"),
        (MARK + ', "x-manifests": ["a\\u0000b"]}', "is stale"),
    ],
    ids=["somebody else's", "no JSON", "a conflict", "deep", "a marked conflict", "nothing recorded", "no path"],
)
def test_a_manifest_schema_that_is_not_as_it_was_written(text: str, fault: str, write: Write) -> None:
    root = write({"m/a.yaml": named(MANIFEST), f"schemas/{MANIFEST}": text})
    assert concise(found(root)) == [f"m/a.yaml:1 RG905 schema `schemas/{MANIFEST}` {fault}"] * bool(fault)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", ""),
        ("garbage", "is no JSON"),
        (MARK + "}", "is stale"),
        (MARK + ', "x-manifests": ["../n"]}', "was not made from this manifest"),
        (MARK + ', "x-manifests": []}', "was not made from this manifest"),
        (MARK + ', "x-manifests": ["a\\u0000b", "\\ud800"]}', "was not made from this manifest"),
        (MARK + ', "x-manifests": ["../m"]}', "is stale"),
        (MARK + ', "x-manifests": ["../m", "../n"]}', ""),
    ],
    ids=["somebody else's", "garbage", "unsaid", "another's", "nobody's", "no paths", "its own", "more than these"],
)
def test_a_workspace_schema_that_does_not_fit(text: str, fault: str, write: Write) -> None:
    root = write({"m/a.yaml": named(WORKSPACE), f"schemas/{WORKSPACE}": text})
    assert concise(found(root)) == [f"m/a.yaml:1 RG905 schema `schemas/{WORKSPACE}` {fault}"] * bool(fault)


def test_two_packages_that_share_a_schema_are_told_to_make_it_from_both(write: Write) -> None:
    root = write({"a/m/a.yaml": named(WORKSPACE), "b/m/b.yaml": named(WORKSPACE).replace("codec", "other")})
    for path in ("a/m/a.yaml", "b/m/b.yaml"):
        (root / path).write_text((root / path).read_text("utf-8").replace("../schemas", "../../schemas"), "utf-8")
    made(root, "a/m")
    (problem,) = found(root, "b/m")
    assert problem.message == f"schema `schemas/{WORKSPACE}` was not made from this manifest"
    assert problem.hint == "run `rung schema b/m a/m`"
    made(root, "a/m", "b/m")
    assert found(root, "a/m") == found(root, "b/m") == []


@pytest.mark.parametrize("text", ["garbage", MARK + "}"], ids=["garbage", "stale"])
def test_no_repair_writes_outside_the_root(text: str, write: Write) -> None:
    root = write({"in/m/a.yaml": f"{HEAD}../../out/{WORKSPACE}\n{BODY}", f"out/{WORKSPACE}": text})
    (problem,) = found(root / "in")
    assert problem.code == "RG905"
    assert problem.hint == "run `rung schema m` and name what it writes"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", f"../schemas/{WORKSPACE}"])
def test_no_device_and_no_pipe_is_read(target: str, write: Write) -> None:
    root = write({"m/a.yaml": f"{HEAD}{target}\n{BODY}", "schemas/x": ""})
    os.mkfifo(root / "schemas" / WORKSPACE)
    assert {problem.code for problem in found(root)} <= {"RG902"}


def test_line_ends_do_not_make_a_schema_stale(write: Write) -> None:
    root = write({"m/a.yaml": named(WORKSPACE)})
    for name, text in made(root).items():
        (root / "schemas" / name).write_bytes(text.replace("\n", "\r\n").encode())
    assert found(root) == []


def test_the_repair_names_the_directory_of_the_schema(write: Write) -> None:
    root = write({"m/a.yaml": f"{HEAD}../editor/{MANIFEST}\n{BODY}"})
    made(root)
    schema = json.loads((root / "schemas" / MANIFEST).read_text(encoding="utf-8"))
    write({f"editor/{MANIFEST}": json.dumps(schema)})
    (problem,) = found(root)
    assert problem.hint == "run `rung schema m --directory editor`"
