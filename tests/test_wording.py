from __future__ import annotations

import pytest

from rung.models import BackendFile, ExpressionModel, KernelModel, ManifestFile, OpModel
from rung.shape import fields_at
from rung.wording import (
    condition,
    former,
    hint_for_key,
    import_name,
    meant,
    meant_value,
    one_backend,
    trusting,
    version_apart,
    version_of_device,
)

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
        ("predicate", TOP, "predicates"),
        ("predicate", ROW, "when"),
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
        ("dtype", ["float16"], ROW, "what a call's arguments must be is said under `accepts`: "),
        ("includes", ["a.yaml"], TOP, "a directory is read as a whole"),
        ("description", "x", TOP, "write it as a comment"),
        ("torch", ">=2.4", ATOMS, "a module's version is asked for as {module: torch >=2.4}"),
        ("torchvision", "yes", ATOMS, "known: "),
        ("torch", ">=2.4,<3", ATOMS, 'a module\'s version is asked for as {module: "torch >=2.4,<3"}'),
        ("PyTorch", ">=2.4", ATOMS, "a module's version is asked for as {module: torch >=2.4}"),
        ("cuda", ">=12", ATOMS, "write {runtime: cuda >=12} for its runtime, or {driver: cuda >=12}"),
        ("rocm", ">=6", ATOMS, "write {runtime: rocm >=6}"),
        ("torch_cuda", True, ATOMS, "a condition has no value: write `torch_cuda` alone"),
        ("linux", True, ATOMS, "a condition has no value: write `{os: linux}` alone"),
        ("oss", True, ATOMS, "did you mean `os`?"),
        ("backends", {"zed": {}}, TOP, "one file is one backend: write `backend: zed`"),
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
        ("torch ~=2.4, <3", '{module: "torch ~=2.4, <3"}'),
        ("PyTorch>=2", "{module: torch >=2}"),
        ("python>=3.11", '{python: ">=3.11"}'),
        ("cuda>=12", "{runtime: cuda >=12}"),
        ("HIP >=6", "{runtime: rocm >=6}"),
        ("torch_cuda", "torch_cuda"),
        ("cuda", "{device: cuda}"),
        ("linux", "{os: linux}"),
        ("not torch_cuda", "{not: torch_cuda}"),
        ("!torch_cuda", "{not: torch_cuda}"),
        ("NOT linux", "{not: {os: linux}}"),
        ("not not a", "{not: {not: a}}"),
        ("a and b", "[a, b]"),
        ("a && b & c", "[a, b, c]"),
        ("a, b,c", "[a, b, c]"),
        ("a or b", "{any: [a, b]}"),
        ("a | b||c", "{any: [a, b, c]}"),
        ("a and not b", "[a, {not: b}]"),
        ("a and b or c", "{any: [[a, b], c]}"),
        ("torch>=2, <3, cuda", '[{module: "torch >=2, <3"}, {device: cuda}]'),
        ("torch >=2.4, numpy", "[{module: torch >=2.4}, {module: numpy}]"),
        ("torch>=2 and linux", "[{module: torch >=2}, {os: linux}]"),
        ("torch 2.4", None),
        (">=2.4", None),
        ("a or b, c", None),
        ("a and", None),
        ("or", "or"),
        ("(a or b) and c", None),
        ("not {module: torch}", None),
        ("a b", None),
        ("", None),
        ("!" * 4096, None),
        ("not " * 1000 + "a", None),
    ],
)
def test_a_condition_in_the_manner_of_programming_languages(value: str, expected: str | None) -> None:
    assert condition(value) == expected


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ("cuda>=12", "{driver: cuda >=12}"),
        ("HIP >=6, <7", '{runtime: "rocm >=6, <7"}'),
        ("torch>=2", None),
        ("x", None),
    ],
)
def test_the_version_of_a_device(value: str, asked: str | None) -> None:
    hint = version_of_device(value)
    assert (hint is None) if asked is None else (hint is not None and asked in hint)


@pytest.mark.parametrize(
    ("key", "beside", "asked"),
    [
        ("version", {"module": "torch", "version": ">=2"}, "{module: torch >=2}"),
        ("version", {"module": "torch", "version": ">=2,<3"}, '{module: "torch >=2,<3"}'),
        ("version", {"module": {"name": "PyTorch"}, "version": 2.4}, "{module: torch >=2.4}"),
        ("version", {"runtime": "cuda", "version": "12"}, "{runtime: cuda >=12}"),
        ("min-version", {"module": "torch", "min-version": "2"}, "{module: torch >=2}"),
        ("name", {"name": "torch", "version": ">=2"}, "{module: torch >=2}"),
        ("version", {"version": ">=2"}, None),
        ("version", {"module": "torch", "version": "new"}, None),
        ("version", {"module": "torch", "version": True}, None),
        ("version", {"module": ["torch"], "version": ">=2"}, None),
        ("other", {"module": "torch", "version": ">=2"}, None),
    ],
)
def test_a_version_that_stands_apart_from_its_name(key: str, beside: dict[str, object], asked: str | None) -> None:
    hint = version_apart(key, beside)
    assert (hint is None) if asked is None else (hint is not None and hint.endswith(asked))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PyTorch", "torch"),
        ("opencv-python", "cv2"),
        ("scikit_learn", "sklearn"),
        ("Pillow", "PIL"),
        ("flash-attn", "flash_attn"),
        ("NumPy", "numpy"),
        ("acme", "acme"),
        ("Acme", "Acme"),
    ],
)
def test_what_a_distribution_is_imported_as(name: str, expected: str) -> None:
    assert import_name(name) == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("zed", "zed"),
        (["zed"], "zed"),
        ({"zed": {"arrays": "torch"}}, "zed"),
        ({"name": "zed", "arrays": "torch"}, "zed"),
        ({"zed": {}, "zod": {}}, "NAME"),
        (["Zed One"], "NAME"),
        ([], "NAME"),
        ({}, "NAME"),
        (3, "NAME"),
    ],
)
def test_how_one_backend_is_declared(value: object, name: str) -> None:
    assert f"write `backend: {name}`," in one_backend(value)


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
