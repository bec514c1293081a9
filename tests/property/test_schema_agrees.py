"""The manifest schema and `rung check` agree on the shape of a file: mutations of good manifests, judged by both."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from rung import manifest
from rung.cli.facts import to_yaml
from rung.diagnostics import Problems
from rung.resources import data_dir
from rung.rules import values
from rung.schemas import MANIFEST, schemas
from rung.source import read, read_path
from rung.units import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.diagnostics import Problem

    Loc = tuple[str | int, ...]
    Site = tuple[Any, Loc]
    Wanted = Callable[[Any, Loc], bool]
    Mutation = Callable[[Any, Loc, random.Random], None]

TESTS = Path(__file__).parents[1]
GOOD = [
    *data_dir("manifests").rglob("*.yaml"),
    *(TESTS.parent / "examples").glob("*/manifests/*.yaml"),
    *(TESTS / "bad_manifests").glob("*/good.yaml"),
]
EACH = 40
"""Mutated files of each kind."""

# Every key of the grammar at least once: a fault that is possible is met whatever else the manifests happen to have.
EVERYTHING = """
manifest: 1
devices:
  npu:
    summary: An NPU.
    detect: "acme.probes:detect"
    falls_back_to: cpu
    arrays: [numpy]
    torch: npu
    pattern: {prefix: np_, digits: decimal}
    aliases: {np20: np_20}
    archs: {np_10: {}, np_20: {runs: [np_10], features: [fast], products: [NPU 20]}}
    targets: {np_20a: {only: np_20}, np_10f: {family: [np_10, np_20]}}
    jit: {prefix: compute_, rule: at_least}
    portable: [triton]
  other: {summary: Another., arrays: [numpy], pattern: ot_, jit: {prefix: spir, rule: any}}
predicates:
  long:
    why: because
    all:
      - {module: {name: acme, dist: acme-dist, version: ">=1.0", has: acme/engine.so, build: [cu, rocm]}}
      - {module: acme >=2.0}
      - {driver: npu >=1.0}
      - {runtime: {name: npu, version: "<3"}}
      - {any: [{cpu: fast}, {cpu: [a, b]}, {os: linux}, {os: [linux, darwin]}, {machine: [x86_64]}]}
      - {not: {python: ">=3.11"}}
      - {env: ACME}
      - {env: {ACME: fast}}
      - {arch: np_20}
      - {device: npu}
      - {use: short}
      - {probe: "acme.probes:ready"}
  short: {device: npu}
  alias: short
  listed: [short, {os: linux}, [alias]]
ops:
  scale:
    summary: Scale.
    signature: "(x: array, y: array | None = None, *, factor: float = 1.0, dtype: str = 'float32') -> array"
    reference: "acme.reference:scale"
    cases: "acme.cases:scale"
    tolerance: {float64: exact, float32: {rtol: 1.0e-6, atol: 0}, float16: {exact: true}, bfloat16: {ulp: 2},
      float8_e5m2: {cosine: 0.99}}
    differentiable: [x, y]
    dtypes: {y: float32}
    result_dtype: dtype
    variants: {default: [fused, default], fused: [fused]}
kinds: {codec: {summary: A codec.}}
profiles:
  mine:
    extends: default
    devices: [npu, cpu]
    fall: {device: warn, arch: allow, variant: note, arrays: error}
    only: acme
    chains: {scale: [fused, default], codec: {default: [default]}}
platforms: {box: {summary: A box., device: npu, arch: np_20, os: linux, machine: x86_64, cpu: x86_64}}
backend: acme
arrays: numpy
requires: [short]
hint: install acme
kernels:
  scale:
    - {device: npu, arch: np_20, variant: fused, impl: "acme.k:f", artifact: source, exclude: [np_10]}
    - {device: npu, arch: np_10, impl: "acme.k:f", workspace_bytes: 0, accepts: {x.rank: 2, x.dtype: [float16, bool]}}
    - device: npu
      arch: np_20a
      impl: "acme.k:f"
      accepts:
        x.dtype: {one_of: [float32, float64]}
        "x.shape[-1]": {min: 2, max: 256, multiple_of: 8}
        "x.shape[0]": {equals: "y.shape[0]", min: "y.rank"}
        y: given
        factor: {min: 0.5}
        x.contiguous: true
    - {device: [npu, other], arch: [generic], variant: [default], impl: "acme.k:g", arrays: torch, when: {use: long}}
components:
  codec: [{device: npu, impl: "acme.c:build", degraded: slow, hint: buy one, when: short}]
"""


def _whole_number(problem: Problem) -> bool:
    return problem.code in ("RG005", "RG202") and ".0`" in problem.message


# What `check` rejects and the schema lets pass: the fault, how it is known, and why no schema can say it.
ALLOWED: dict[str, tuple[Callable[[Problem], bool], str]] = {
    "a whole number with a fraction": (_whole_number, "JSON has one kind of number: 1.0 is 1"),
    "text of more than 4096 characters": (lambda p: p.code == "RG004", "a limit of the reader, whatever the text is"),
    "a number of many digits": (lambda p: p.code == "RG102", "about its spelling, and schemas see values"),
    "a key that is a number": (lambda p: p.code == "RG106", "in JSON every key is text"),
}


def _a_key(value: Any, loc: Loc) -> bool:
    return bool(loc) and isinstance(loc[-1], str)


def _a_value(value: Any, loc: Loc) -> bool:
    return bool(loc)


def _a_scalar(value: Any, loc: Loc) -> bool:
    return bool(loc) and not isinstance(value, dict | list)


def _a_text(value: Any, loc: Loc) -> bool:
    return bool(loc) and isinstance(value, str)


def _a_number(value: Any, loc: Loc) -> bool:
    return bool(loc) and value.__class__ in (int, float)


def _a_list(value: Any, loc: Loc) -> bool:
    return bool(loc) and isinstance(value, list)


def _a_mapping(value: Any, loc: Loc) -> bool:
    return isinstance(value, dict)


def _at(data: Any, loc: Loc) -> Any:
    for part in loc:
        data = data[part]
    return data


def _rename(change: Callable[[str], Any]) -> Mutation:
    def mutate(data: Any, loc: Loc, dice: random.Random) -> None:
        mapping = _at(data, loc[:-1])
        items = [(change(key) if key == loc[-1] else key, value) for key, value in mapping.items()]
        mapping.clear()
        mapping.update(items)

    return mutate


def _change(change: Callable[[Any], Any]) -> Mutation:
    def mutate(data: Any, loc: Loc, dice: random.Random) -> None:
        _at(data, loc[:-1])[loc[-1]] = change(_at(data, loc))

    return mutate


def _put(*values: Any) -> Mutation:
    def mutate(data: Any, loc: Loc, dice: random.Random) -> None:
        _at(data, loc[:-1])[loc[-1]] = dice.choice(values)

    return mutate


def _add(key: str, value: Any) -> Mutation:
    def mutate(data: Any, loc: Loc, dice: random.Random) -> None:
        _at(data, loc)[key] = value

    return mutate


def _delete(data: Any, loc: Loc, dice: random.Random) -> None:
    del _at(data, loc[:-1])[loc[-1]]


def _borrow(data: Any, loc: Loc, dice: random.Random) -> None:
    """Give a mapping the key and value of another place of the file."""
    other = dice.choice([place for _, place in _sites(data) if place and isinstance(place[-1], str)])
    _at(data, loc)[other[-1]] = _unshared(_at(data, other))


def _exchange(data: Any, loc: Loc, dice: random.Random) -> None:
    """Put the value of another place of the file here."""
    _, other = dice.choice(list(_sites(data)))
    _at(data, loc[:-1])[loc[-1]] = _unshared(_at(data, other))


MUTATIONS: dict[str, tuple[Wanted, Mutation]] = {
    "a key is deleted": (_a_key, _delete),
    "a key is misspelt": (_a_key, _rename(lambda key: key + "x")),
    "a key is capitalised": (_a_key, _rename(str.capitalize)),
    "a key has a space": (_a_key, _rename(lambda key: key + " x")),
    "a key ends in a line end": (_a_key, _rename(lambda key: key + "\n")),
    "a key is not ASCII": (_a_key, _rename(lambda key: key + "é")),
    "a key is empty": (_a_key, _rename(lambda key: "")),
    "a key is too long": (_a_key, _rename(lambda key: key * 70)),
    "a key is a number": (_a_key, _rename(lambda key: 7)),
    "a key too many": (_a_mapping, _add("extra", "x")),
    "a mapping too many": (_a_mapping, _add("extra", {"summary": "x"})),
    "a key from elsewhere": (_a_mapping, _borrow),
    "a value from elsewhere": (_a_value, _exchange),
    "a scalar of another type": (_a_scalar, _put(7, 0.5, True, False, "x", "X y", [], {}, ["x"], {"x": "x"}, [7], -1)),
    "a value of another type": (_a_value, _put(7, 0.5, True, "x", "", "X y", [], {}, ["x"], {"x": "x"}, [{}], [7])),
    "null": (_a_value, _put(None)),
    "an empty list": (_a_value, _put([])),
    "an empty mapping": (_a_value, _put({})),
    "a list around it": (_a_value, _change(lambda value: [value])),
    "two lists around it": (_a_value, _change(lambda value: [[value]])),
    "a list twice as long": (_a_list, _change(lambda value: value + value)),
    "a list too long": (_a_list, _change(lambda value: [*value, *["x"] * 17])),
    "a list of one": (_a_list, _change(lambda value: value[:1])),
    "an empty text": (_a_text, _put("")),
    "a text with a line end": (_a_text, _change(lambda value: value + "\n")),
    "a text with spaces around": (_a_text, _change(lambda value: f" {value} ")),
    "a text that is not ASCII": (_a_text, _change(lambda value: value + "é")),
    "a text in capitals": (_a_text, _change(str.upper)),
    "a text with a dash": (_a_text, _change(lambda value: value + "-x")),
    "a text with a dot": (_a_text, _change(lambda value: value + ".x")),
    "a text with an operator": (_a_text, _change(lambda value: value + ">=1.0")),
    "a text too long": (_a_text, _change(lambda value: value * 70)),
    "a text far too long": (_a_text, _change(lambda value: value * 5000)),
    "a text with an equals sign": (_a_text, _change(lambda value: value + "=1")),
    "a key has an equals sign": (_a_key, _rename(lambda key: key + "=1")),
    "a private name": (_a_text, _change(lambda value: value.replace(":", ":_"))),
    "no member of the set": (_a_text, _put("never", "Native", "hex", "exact", "any", "float8")),
    "a number as text": (_a_number, _change(str)),
    "a float for a whole number": (_a_number, _change(float)),
    "true for a number": (_a_number, _put(True, False)),
    "another number": (_a_number, _put(-1, 0, 2, 0.0, -0.5, 10**30)),
}


def _sites(value: Any, loc: Loc = ()) -> Iterator[Site]:
    yield value, loc
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from _sites(item, (*loc, key))


@cache
def _bases() -> list[tuple[Any, list[Site]]]:
    """Give the data of good manifests, each with its places; the one with everything counts as many."""
    documents = [read(EVERYTHING.encode(), "everything.yaml", Problems())]
    documents += [read_path(path, path.name, Problems()) for path in sorted(GOOD)]
    found = [(document.root.data, list(_sites(document.root.data))) for document in documents if document is not None]
    return [*found[:1] * 8, *found]


@cache
def _validator() -> Any:
    return Draft202012Validator(schemas()[MANIFEST])


def _as_json(value: Any) -> Any:
    """Give data as JSON has it: keys are text."""
    if isinstance(value, dict):
        return {str(key): _as_json(inner) for key, inner in value.items()}
    return [_as_json(inner) for inner in value] if isinstance(value, list) else value


def _faults(data: Any, monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """Give what `check` finds in a file with this data before it looks at names that are declared elsewhere."""
    text = to_yaml(_unshared(data)).encode()
    monkeypatch.setattr(manifest, "read_path", lambda path, shown, problems: read(text, shown, problems))
    whole = manifest.merge([Unit(Path(__file__), "mutated.yaml", None)])
    return [*whole.problems.errors, *values.rg204_system(whole), *values.rg205(whole)]


def _unshared(value: Any) -> Any:
    """Give data in which nothing stands twice, for a file has no aliases."""
    if isinstance(value, dict):
        return {key: _unshared(inner) for key, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


def _mutated(name: str) -> Iterator[tuple[Any, Loc]]:
    """Give mutated data of one kind, always the same, with the place of the mutation."""
    wanted, mutate = MUTATIONS[name]
    dice = random.Random(name)
    sites = [(data, loc) for data, places in _bases() for value, loc in places if wanted(value, loc)]
    for base, loc in dice.sample(sites, min(EACH, len(sites))):
        data = _unshared(base)
        mutate(data, loc, dice)
        yield data, loc


def test_there_are_more_than_a_thousand_mutations() -> None:
    assert EACH * len(MUTATIONS) > 1500


@pytest.mark.parametrize("name", MUTATIONS)
def test_schema_and_check_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = 0
    for data, loc in _mutated(name):
        fits = _validator().is_valid(_as_json(data))
        faults = _faults(data, monkeypatch)
        allowed = all(any(known(fault) for known, _ in ALLOWED.values()) for fault in faults)
        assert fits == (not faults) or (fits and allowed), (loc, [fault.concise() for fault in faults])
        judged += 1
    assert judged == EACH


@pytest.mark.parametrize(
    ("difference", "change"),
    [
        ("a whole number with a fraction", {"manifest": 1.0}),
        ("text of more than 4096 characters", {"hint": "x" * 5000}),
        ("a number of many digits", {"ops": {"scale": {"tolerance": {"float32": {"rtol": 10**30}}}}}),
        ("a key that is a number", {"predicates": {"named": {"env": {7: "x"}}}}),
    ],
    ids=list(ALLOWED),
)
def test_each_allowed_difference_occurs(difference: str, change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _merged(_unshared(_bases()[0][0]), change)
    known, _ = ALLOWED[difference]
    faults = _faults(data, monkeypatch)
    assert _validator().is_valid(_as_json(data))
    assert faults
    assert all(known(fault) for fault in faults)


def _merged(data: Any, change: Any) -> Any:
    if not isinstance(data, dict) or not isinstance(change, dict):
        return change
    return data | {key: _merged(data.get(key), inner) for key, inner in change.items()}


def test_the_manifest_with_everything_has_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    data, places = _bases()[0]
    used = {loc[-1] for _, loc in places if loc}
    schema = schemas()[MANIFEST]
    keys = {key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", ())}
    assert keys - used == set()
    assert _faults(data, monkeypatch) == []
    assert list(_validator().iter_errors(data)) == []
