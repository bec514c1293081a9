from __future__ import annotations

import pytest

from rung.models import BackendFile, ExpressionModel, KernelModel, ManifestFile, OpModel
from rung.shape import fields_at
from rung.wording import former, hint_for_key, meant, meant_value, module_condition, trusting

ROW = fields_at(KernelModel, ())
TOP = fields_at(ManifestFile, ())
OP = fields_at(OpModel, ())
ATOMS = fields_at(ExpressionModel, ())


@pytest.mark.parametrize(
    ("key", "legal", "expected"),
    [
        ("available", ROW, "when"),
        ("available", TOP, "requires"),
        ("available", OP, None),
        ("source", ROW, "impl"),
        ("source", TOP, None),
        ("when", ROW, None),
        ("priority", ROW, None),
    ],
)
def test_former_names(key: str, legal: dict[str, object], expected: str | None) -> None:
    assert former(key, legal) == expected


@pytest.mark.parametrize(
    ("key", "legal", "expected"),
    [
        ("function", ROW, "impl"),
        ("Implementation", ROW, "impl"),
        ("compute-capability", ROW, "arch"),
        ("requires", ROW, "when"),
        ("when", TOP, "requires"),
        ("description", OP, "summary"),
        ("description", ROW, None),
        ("name", TOP, "backend"),
        ("and", ATOMS, "all"),
        ("or", ATOMS, "any"),
        ("package", ATOMS, "module"),
        ("varaint", ROW, "variant"),
        ("zzz", ROW, None),
    ],
)
def test_what_a_key_is_meant_as(key: str, legal: dict[str, object], expected: str | None) -> None:
    assert meant(key, legal) == expected


@pytest.mark.parametrize(
    ("key", "value", "legal", "start"),
    [
        ("function", "a:b", ROW, "did you mean `impl`?"),
        ("priority", 10, ROW, "nothing has a priority: "),
        ("dtype", ["float16"], ROW, "no cell is chosen by dtype: "),
        ("includes", ["a.yaml"], TOP, "a directory is read as a whole"),
        ("description", "x", TOP, "write it as a comment"),
        ("torch", ">=2.4", ATOMS, "a module's version is asked for as {module: torch >=2.4}"),
        ("torchvision", "yes", ATOMS, "known: "),
        ("torchvision", ">=2.4", ROW, "known: "),
    ],
)
def test_the_hint_for_a_key(key: str, value: object, legal: dict[str, object], start: str) -> None:
    assert hint_for_key(key, value, legal).startswith(start)


@pytest.mark.parametrize(
    ("value", "legal", "expected"),
    [
        ("fp16", ["float16", "float32"], "float16"),
        ("FP32", ["float16", "float32"], "float32"),
        ("cubin", ["native", "ptx"], "native"),
        ("raise", ["allow", "error"], "error"),
        ("raise", ["native"], "raise"),
        ("other", ["allow"], "other"),
    ],
)
def test_what_a_value_is_meant_as(value: str, legal: list[str], expected: str) -> None:
    assert meant_value(value, legal) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("torch>=2.4", "{module: torch >=2.4}"),
        (" torch == 2.4.*", "{module: torch == 2.4.*}"),
        ("torch ~=2.4, <3", "{module: torch ~=2.4, <3}"),
        ("torch", None),
        ("torch 2.4", None),
        (">=2.4", None),
        ("a and b", None),
    ],
)
def test_a_module_and_its_version_in_one_text(value: str, expected: str | None) -> None:
    assert module_condition(value) == expected


@pytest.mark.parametrize(
    "key",
    ["allow", "allowed", "allow_list", "allow-list", "Allowlist", "allow_packages", "trust", "trusted", "trusted_roots",
     "roots", "packages", "whitelist", "permitted_packages"],
)  # fmt: skip
def test_keys_that_would_widen_what_is_bound(key: str) -> None:
    assert trusting(key)


@pytest.mark.parametrize("key", ["arrays", "allowance", "package", "root_cause", "tolerance", "impl", "trustworthy"])
def test_keys_that_would_not(key: str) -> None:
    assert not trusting(key)


@pytest.mark.parametrize("model", [BackendFile, ManifestFile, KernelModel, OpModel, ExpressionModel])
def test_no_legal_key_is_refused(model: type[ManifestFile]) -> None:
    assert not any(trusting(key) for key in fields_at(model, ()))
