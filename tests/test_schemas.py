from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from rung.diagnostics import Problems
from rung.resources import data_dir
from rung.schemas import schemas
from rung.source import read_path
from write_schemas import SCHEMAS, text_of

TESTS = Path(__file__).parent
MANIFESTS = sorted(data_dir("manifests").rglob("*.yaml"))
FACTS = sorted((TESTS / "facts").glob("*.yaml"))
GOOD = sorted((TESTS / "bad_manifests").glob("*/good.yaml"))
EXAMPLES = sorted((TESTS.parent / "examples").glob("*/manifests/*.yaml"))

# Bad fixtures that no schema of one file can tell from good ones: they are about YAML's text, numbers that read like
# integers, or conditions between keys.
BEYOND_A_SCHEMA = {
    "RG202-file", "RG202-signature", "RG202-signature-syntax", "RG202-version", "RG203-arrays", "RG203-backend",
    "RG203-driver-version", "RG203-jit-pattern", "RG203-predicate", "RG203-target", "RG203-tolerance",
    "RG204-artifact-of-target", "RG205-import-name", "RG207-only-and-family", "RG207-two-atoms", "RG207-two-variables",
}  # fmt: skip


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / name).read_text(encoding="utf-8")))


def faults(path: Path, schema: str) -> list[str]:
    document = read_path(path, path.name, Problems())
    assert document is not None
    return [f"{list(e.absolute_path)}: {e.message}" for e in validator(schema).iter_errors(document.root.data)]


@pytest.mark.parametrize("name", sorted(schemas()))
def test_committed_schemas_are_what_the_models_say(name: str) -> None:
    committed = (SCHEMAS / name).read_text(encoding="utf-8")
    assert committed == text_of(schemas()[name]), f"schemas/{name} is stale: run `make schemas`"


def test_no_other_schema_is_committed() -> None:
    assert {path.name for path in SCHEMAS.iterdir()} == set(schemas())


@pytest.mark.parametrize("name", sorted(schemas()))
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schemas()[name])


@pytest.mark.parametrize("path", [*MANIFESTS, *EXAMPLES, *GOOD], ids=lambda p: "/".join(p.parts[-2:]))
def test_good_manifests_fit_the_schema(path: Path) -> None:
    assert faults(path, "manifest.schema.json") == []


@pytest.mark.parametrize("path", FACTS, ids=lambda p: p.name)
def test_facts_files_fit_the_schema(path: Path) -> None:
    assert faults(path, "facts.schema.json") == []


@pytest.mark.parametrize(
    "directory",
    [p.parent for p in GOOD if p.parent.name[2] == "2" or p.parent.name[:5] in ("RG005", "RG311", "RG408", "RG802")],
    ids=lambda p: p.name,
)
def test_the_schema_rejects_bad_shapes(directory: Path) -> None:
    rejected = bool(faults(directory / "bad.yaml", "manifest.schema.json"))
    assert rejected == (directory.name not in BEYOND_A_SCHEMA)


@pytest.mark.parametrize(
    "value",
    [None, {"manifest": None}, {"manifest": 1, "backend": None}, {"manifest": 1, "kernels": {"o": None}}],
    ids=["document", "version", "backend", "rows"],
)
def test_no_schema_lets_null_pass(value: object) -> None:
    assert list(validator("manifest.schema.json").iter_errors(value))


def test_names_that_fit_no_pattern_are_rejected() -> None:
    value = {"manifest": 1, "kinds": {"Codec": {"summary": "s"}}}
    assert list(validator("manifest.schema.json").iter_errors(value))
