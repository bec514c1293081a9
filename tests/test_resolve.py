"""The walk: the order of rungs, the verdicts on them, and what counts as a fall. On small tables made for it."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import rung
from rung.diagnostics import BindError
from rung.facts import Facts
from rung.predicates import UNKNOWN, YES
from rung.resolve import Context, Resolution, own_arch, walk

if TYPE_CHECKING:
    from conftest import Write

BASE: dict[str, Any] = {
    "manifest": 1,
    "devices": {
        "cpu": {
            "summary": "The host.",
            "arrays": ["numpy", "torch"],
            "archs": {"c1": {}, "c2": {"runs": ["c1"]}},
            "portable": ["torch", "numpy"],
        },
        "gpu": {
            "summary": "A card.",
            "falls_back_to": "cpu",
            "arrays": ["torch", "numpy"],
            "pattern": "g",
            "archs": {"g10": {}, "g11": {"runs": ["g10"]}, "g20": {}},
            "targets": {
                "g11x": {"only": "g11"},
                "g11f": {"family": ["g11"]},
                "g10f": {"family": ["g10", "g11"]},
            },
            "jit": {"prefix": "ir", "rule": "at_least"},
            "portable": ["dsl", "torch"],
        },
        "side": {"summary": "Nothing falls back to it.", "arrays": ["numpy"]},
        "npu": {"summary": "Behind the card.", "falls_back_to": "gpu", "arrays": ["numpy"], "archs": {"n1": {}}},
    },
    "predicates": {
        "maybe": {"env": "MAYBE"},
        "never": {"why": "pigs fly", "env": {"PIGS": "fly"}},
        "toolkit": {"module": "toolkit >=2"},
        "sure": {"why": "there is a card", "device": "gpu"},
    },
    "ops": {
        op: {"summary": "An op.", "signature": "(x: array) -> array", "reference": f"acme.reference:{op}", **more}
        for op, more in {
            "plain": {},
            "chained": {"variants": {"default": ["fast", "default"], "exact": ["exact", "fast"]}},
        }.items()
    },
    "kinds": {"vae": {"summary": "A codec."}, "plain": {"summary": "A kind with an op's name."}},
    # Every variant a chain names has a cell somewhere: on a device that no test looks at.
    "backend": "base",
    "arrays": "numpy",
    "kernels": {"chained": [{"device": "side", "variant": ["fast", "exact", "acme"], "impl": "acme.base:k"}]},
    "components": {"vae": [{"device": "side", "variant": "tiny", "impl": "acme.base:k"}]},
    "profiles": {
        "default": {"devices": ["gpu", "cpu"]},
        "strict": {
            "extends": "default",
            "fall": dict.fromkeys(["device", "variant", "degraded", "reference", "broken", "unknown"], "error"),
        },
        "reference": {"extends": "default", "only": "reference"},
        "quick": {"extends": "default", "chains": {"chained": {"quick": ["fast"]}}},
        "put_first": {"extends": "default", "chains": {"chained": ["acme", "fast", "default"], "vae": ["tiny"]}},
    },
}

MACHINE: dict[str, Any] = {
    "facts": 1,
    "devices": {"cpu": [{"arch": "c2"}], "gpu": [{"arch": "g11", "index": 0}], "npu": []},
    "modules": {"*": False},
    "env": {"PIGS": ""},
}


@pytest.fixture
def table_of(write: Write) -> Any:
    """Compile the base with backends: name -> (arrays, op or kind -> rows). Rows get an `impl`."""

    numbers = count()

    def made(extra: dict[str, Any] | None = None, **backends: tuple[str, dict[str, Any]]) -> rung.Table:
        folder = f"m{next(numbers)}"
        files = {f"{folder}/base.yaml": json.dumps({**BASE, **(extra or {})}, indent=1)}
        for name, (arrays, served) in backends.items():
            document: dict[str, Any] = {"manifest": 1, "backend": name, "arrays": arrays, "hint": f"get {name}"}
            for serves, rows in served.items():
                section = "kernels" if serves in BASE["ops"] else "components"
                filled = [{"impl": f"acme.{name}:k", **row} for row in rows]
                document.setdefault(section, {})[serves.removeprefix("kind_")] = filled
            files[f"{folder}/{name}.yaml"] = json.dumps(document, indent=1)
        return rung.load([write(files) / folder], allow=["acme"], builtin=False)

    return made


def context(table: rung.Table, place: str, arrays: str, **given: Any) -> Context:
    device, _, arch = place.partition(".")
    facts = Facts.of({**MACHINE, **given.pop("facts", {})})
    profile = table.profile(given.pop("profile", "default"))
    return Context(table, device, arch, arrays, facts, profile, **given)


def resolve(
    table: rung.Table, place: str, arrays: str, op: str = "plain", variant: str = "default", **given: Any
) -> Any:
    options = {key: given.pop(key) for key in ("component", "required", "bind") if key in given}
    return walk(context(table, place, arrays, **given), op, variant, **options)[0]


def short(cell: Any) -> str:
    """Write a rung's cell as `backend@device.arch#variant`, the last ones as `reference` and `factory`."""
    if cell.is_reference:
        return "factory" if cell.arch is None else "reference"
    backend, _, rest = cell.id.partition("/")
    return f"{backend}@{rest.partition('@')[2]}".removesuffix("#default")


def ladder(outcome: Resolution) -> list[str]:
    return [short(step.cell) for step in outcome.rungs]


def falls(outcome: Resolution) -> list[str]:
    return [fall.axis for fall in outcome.falls]


EVERYWHERE = {
    "tt": (
        "torch",
        {
            "plain": [
                {"device": "gpu", "arch": ["generic", "torch", "dsl", "ir10", "ir11", "g10", "g11"]},
                {"device": "gpu", "arch": ["g10f", "g11f", "g11x", "g20"]},
                {"device": "cpu", "arch": ["torch", "c2"]},
            ]
        },
    ),
    "nn": (
        "numpy",
        {
            "plain": [
                {"device": "npu", "arch": "n1"},
                {"device": "gpu", "arch": "ir20"},
                {"device": "cpu", "arch": "c1"},
            ]
        },
    ),
}

GPU_TORCH = ["tt@gpu.g11x", "tt@gpu.g11f", "tt@gpu.g10f", "tt@gpu.g11", "tt@gpu.g10", "tt@gpu.ir11", "tt@gpu.ir10",
             "tt@gpu.dsl", "tt@gpu.torch", "tt@gpu.generic"]  # fmt: skip
CPU_TORCH = ["tt@cpu.c2", "tt@cpu.torch"]


class TestOrder:
    @pytest.mark.parametrize(
        ("place", "arrays", "rungs"),
        [
            # The card's cells, then the host's, those of the caller's arrays first in each; the reference last.
            ("gpu.g11", "torch", [*GPU_TORCH, *CPU_TORCH, "nn@cpu.c1", "reference"]),
            # For numpy callers the ladder ends on the host without a conversion: torch is never imported for them.
            ("gpu.g11", "numpy", [*GPU_TORCH, "nn@cpu.c1", "reference"]),
            ("cpu.c2", "numpy", ["nn@cpu.c1", "reference"]),
            ("cpu.c2", "torch", [*CPU_TORCH, "nn@cpu.c1", "reference"]),
            ("cpu.generic", "numpy", ["reference"]),
            ("cpu.generic", "torch", ["tt@cpu.torch", "reference"]),
            # A chip nobody declared: intermediate code by number, then what is portable.
            (
                "gpu.g30",
                "torch",
                ["tt@gpu.ir11", "tt@gpu.ir10", "tt@gpu.dsl", "tt@gpu.torch", "tt@gpu.generic", "nn@gpu.ir20",
                 *CPU_TORCH, "nn@cpu.c1", "reference"],
            ),
            # A device behind a device, whose own arch (g11) comes from the facts.
            ("npu.n1", "numpy", ["nn@npu.n1", *GPU_TORCH, "nn@cpu.c1", "reference"]),
            ("npu.n1", "torch", ["nn@npu.n1", *GPU_TORCH, *CPU_TORCH, "nn@cpu.c1", "reference"]),
        ],
    )  # fmt: skip
    def test_devices_then_arrays_then_closeness(self, table_of: Any, place: str, arrays: str, rungs: list[str]) -> None:
        assert ladder(resolve(table_of(**EVERYWHERE), place, arrays)) == rungs

    def test_variants_come_before_closeness_and_after_arrays(self, table_of: Any) -> None:
        table = table_of(
            tt=("torch", {"chained": [
                {"device": "gpu", "arch": ["torch", "g11"], "variant": ["default", "fast"]},
                {"device": "cpu", "arch": "torch", "variant": "fast"},
            ]}),
            nn=("numpy", {"chained": [{"device": "gpu", "arch": "dsl", "variant": "fast"}]}),
        )  # fmt: skip
        assert ladder(resolve(table, "gpu.g11", "torch", "chained")) == [
            "tt@gpu.g11#fast", "tt@gpu.torch#fast", "tt@gpu.g11", "tt@gpu.torch",
            "nn@gpu.dsl#fast", "tt@cpu.torch#fast", "reference",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("op", "variant", "profile", "tried"),
        [
            ("plain", "default", "default", ["default"]),
            ("plain", "fast", "default", ["fast", "default"]),
            ("plain", "nonsense", "default", ["default"]),
            ("chained", "default", "default", ["fast", "default"]),
            ("chained", "fast", "default", ["fast", "default"]),
            ("chained", "acme", "default", ["acme", "fast", "default"]),
            ("chained", "exact", "default", ["exact", "fast"]),
            ("chained", "default", "put_first", ["acme", "fast", "default"]),
            ("chained", "exact", "put_first", ["exact", "fast"]),
            ("plain", "default", "put_first", ["default"]),
        ],
    )
    def test_chains(self, table_of: Any, op: str, variant: str, profile: str, tried: list[str]) -> None:
        variants = ["default", "fast", "exact", "acme"]
        rows = [{"device": "cpu", "arch": "numpy", "variant": variants}]
        table = table_of(nn=("numpy", {"plain": rows, "chained": rows}))
        outcome = resolve(table, "cpu.c2", "numpy", op, variant, profile=profile)
        assert [step.cell.variant for step in outcome.rungs[:-1]] == tried
        assert ladder(outcome)[-1] == "reference"

    def test_what_is_newer_or_excluded_is_no_rung_and_says_why(self, table_of: Any) -> None:
        rows = [{"device": "gpu", "arch": ["g20", "g11x"]}, {"device": "gpu", "arch": "g10f", "exclude": ["g10"]}]
        table = table_of(tt=("torch", {"plain": rows}))
        outcome = resolve(table, "gpu.g10", "torch")
        assert ladder(outcome) == ["reference"]
        assert {short(f.cell): f.reason for f in outcome.not_offered} == {
            "tt@gpu.g10f": "excluded on g10 by its manifest",
            "tt@gpu.g11x": "g11x code runs on g11 only, never on g10",
            "tt@gpu.g20": "g20 is newer than g10",
        }
        assert "not offered here:" in str(outcome)
        assert "nothing else matches" in str(outcome)

    def test_other_variants_are_not_listed_as_not_offered(self, table_of: Any) -> None:
        table = table_of(tt=("torch", {"plain": [{"device": "gpu", "arch": "g20", "variant": "fast"}]}))
        assert resolve(table, "gpu.g10", "torch").not_offered == ()
        assert len(resolve(table, "gpu.g10", "torch", variant="fast").not_offered) == 1

    def test_one_backend_only(self, table_of: Any) -> None:
        outcome = resolve(table_of(**EVERYWHERE), "gpu.g11", "torch", profile="reference")
        assert ladder(outcome) == ["reference"]
        assert "profile reference takes cells of backend `reference` only" in str(outcome)
        assert "nothing else matches" not in str(outcome)

    def test_an_unknown_op_or_kind(self, table_of: Any) -> None:
        with pytest.raises(rung.UnknownOp, match="did you mean `plain`"):
            resolve(table_of(), "cpu.c1", "numpy", "plane")
        with pytest.raises(rung.UnknownKind, match="did you mean `vae`"):
            resolve(table_of(), "cpu.c1", "numpy", "vea", component=True)


def one(when: Any = None, **row: Any) -> dict[str, Any]:
    return {"device": "cpu", "arch": "numpy", **({"when": when} if when is not None else {}), **row}


class TestVerdicts:
    @pytest.mark.parametrize(
        ("when", "verdict", "reason"),
        [
            (None, "yes", "no condition"),
            ({"device": "gpu"}, "yes", "g11 was found"),
            ("never", "no", "PIGS is empty (needed: pigs fly)"),
            ("sure", "yes", "g11 was found"),
            ({"module": "toolkit"}, "no", "`toolkit` is not installed"),
            ("maybe", "unknown", "the variable MAYBE is not recorded in these facts"),
            ({"not": "maybe"}, "unknown", "the variable MAYBE is not recorded in these facts"),
            (["maybe", "never"], "no", "PIGS is empty"),
            ({"any": ["maybe", {"device": "gpu"}]}, "yes", "g11 was found"),
            ({"arch": "c1"}, "yes", "c2 runs code built for c1"),
        ],
        ids=str,
    )
    def test_conditions(self, table_of: Any, when: Any, verdict: str, reason: str) -> None:
        outcome = resolve(table_of(nn=("numpy", {"plain": [one(when)]})), "cpu.c2", "numpy")
        assert (outcome.rungs[0].verdict, outcome.rungs[0].reason) == (verdict, reason)
        assert short(outcome.cell) == ("nn@cpu.numpy" if verdict == "yes" else "reference")
        assert outcome.rungs[1].verdict == ("not tried" if verdict == "yes" else "yes")

    def test_what_the_backend_requires_and_what_the_row_adds_must_both_hold(self, write: Write) -> None:
        def verdict(requires: str, when: str) -> str:
            backend = {
                "manifest": 1, "backend": "nn", "arrays": "numpy", "requires": requires,
                "kernels": {"plain": [one(when, impl="acme.nn:k")]},
            }  # fmt: skip
            root = write({"m/base.yaml": json.dumps(BASE), "m/nn.yaml": json.dumps(backend)})
            table = rung.load([root / "m"], allow=["acme"], builtin=False)
            outcome: Resolution = resolve(table, "cpu.c2", "numpy")
            return outcome.rungs[0].verdict

        assert verdict("never", "maybe") == verdict("maybe", "never") == "no"
        assert verdict("maybe", "maybe") == "unknown"

    def test_an_unknown_rung_never_serves_and_is_never_called_a_no(self, table_of: Any) -> None:
        outcome = resolve(table_of(nn=("numpy", {"plain": [one("maybe")]})), "cpu.c2", "numpy")
        assert falls(outcome) == ["arch", "reference", "unknown"]
        assert "?  nn/plain@cpu.numpy#default" in str(outcome)
        assert "could not tell: the variable MAYBE is not recorded" in str(outcome)

    def test_a_fallback_device_is_judged_by_its_own_arch(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"plain": [one({"arch": "c2"})]}))
        assert resolve(table, "gpu.g11", "torch").rungs[0].reason == "built for c2 itself"

    @pytest.mark.parametrize(
        ("globs", "left"),
        [
            ((), ["tt@cpu.torch", "nn@cpu.c1"]),
            (("nn/*",), ["tt@cpu.torch"]),
            (("*@cpu.*",), []),
            (("*/other@*",), ["tt@cpu.torch", "nn@cpu.c1"]),
            (("nn/plain@cpu.c1#default", "tt/*#default"), []),
            (("NN/*",), ["tt@cpu.torch", "nn@cpu.c1"]),
            (("*",), []),
        ],
        ids=str,
    )
    def test_disabled_cells_say_no_and_the_reference_stays(
        self, table_of: Any, globs: tuple[str, ...], left: list[str]
    ) -> None:
        table = table_of(**EVERYWHERE)
        outcome = resolve(table, "cpu.c1", "torch", disabled=globs)
        judged = {
            short(step.cell): context(table, "cpu.c1", "torch", disabled=globs).judge(step.cell)
            for step in outcome.rungs
        }
        assert [cell for cell, verdict in judged.items() if verdict.answer == "yes"] == [*left, "reference"]
        assert all(v.reason.startswith("disabled by RUNG_DISABLE=") for v in judged.values() if v.answer == "no")
        assert outcome.cell is not None
        assert short(outcome.cell) == [*left, "reference"][0]

    @pytest.mark.parametrize(
        ("when", "given", "hint"),
        [("never", {}, "get nn"), ("maybe", {}, "get nn"), (None, {}, ""), ("never", {"disabled": ("nn/*",)}, "")],
        ids=["no", "unknown", "yes", "disabled"],
    )
    def test_the_hint_is_for_what_is_missing(self, table_of: Any, when: Any, given: Any, hint: str) -> None:
        outcome = resolve(table_of(nn=("numpy", {"plain": [one(when)]})), "cpu.c2", "numpy", **given)
        assert outcome.rungs[0].hint == hint
        assert ("hint: get nn" in str(outcome)) is bool(hint)

    def test_an_answer_settled_by_hand(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"plain": [one({"use": "toolkit"})]}))
        assert short(resolve(table, "cpu.c2", "numpy").cell) == "reference"
        outcome = resolve(table, "cpu.c2", "numpy", settled={"toolkit": YES})
        assert short(outcome.cell) == "nn@cpu.numpy"
        assert outcome.rungs[0].reason == "toolkit was set to yes by hand"
        assert resolve(table, "cpu.c2", "numpy", settled={"toolkit": UNKNOWN}).rungs[0].verdict == "unknown"


class TestBinding:
    ROWS: ClassVar[list[Any]] = [one(arch="c2", impl="acme.broken:k"), one(arch="numpy", impl="acme.fine:k")]

    @staticmethod
    def bind(cell: Any) -> str:
        if "broken" in cell.impl:
            raise BindError("importing `acme.broken` raised OSError: no lib")
        return f"bound {cell.impl}"

    def test_a_broken_rung_is_said_and_the_next_serves(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"plain": self.ROWS}))
        outcome, bound = walk(context(table, "cpu.c2", "numpy"), "plain", bind=self.bind)
        assert [step.verdict for step in outcome.rungs] == ["broken", "yes", "not tried"]
        assert outcome.rungs[0].reason == "importing `acme.broken` raised OSError: no lib"
        assert bound == "bound acme.fine:k"
        assert falls(outcome) == ["arch", "broken"]
        text = str(outcome)
        assert "broken: importing `acme.broken` raised OSError: no lib" in text
        assert "nn.yaml:" in text
        assert "hint: get nn" in text

    def test_nothing_is_bound_that_does_not_say_yes(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"plain": [one("never"), one("maybe", arch="c1"), one(arch="torch")]}))
        bound: list[str] = []
        walk(context(table, "cpu.c2", "numpy"), "plain", bind=lambda cell: bound.append(cell.id))
        assert bound == ["nn/plain@cpu.torch#default"]

    def test_failures_met_in_this_process_are_shown_without_binding(
        self, table_of: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = table_of(nn=("numpy", {"plain": self.ROWS}))
        assert short(resolve(table, "cpu.c2", "numpy").cell) == "nn@cpu.c2"
        monkeypatch.setattr(Context, "obstacle", lambda _, cell: "no lib" if cell.impl == "acme.broken:k" else "")
        outcome = resolve(table, "cpu.c2", "numpy")
        assert (outcome.rungs[0].verdict, outcome.rungs[0].reason) == ("broken", "no lib")
        assert short(outcome.cell) == "nn@cpu.numpy"

    def test_even_a_broken_reference_is_told(self, table_of: Any) -> None:
        def bind(cell: Any) -> Any:
            raise BindError("importing `acme.reference` raised ModuleNotFoundError")

        outcome = resolve(table_of(), "cpu.c2", "numpy", bind=bind)
        assert outcome.cell is None
        assert outcome.rungs[0].verdict == "broken"
        assert "nothing serves" in outcome.summary()


class TestFalls:
    @pytest.mark.parametrize(
        ("place", "arrays", "cells", "variant", "axes"),
        [
            # device: the chosen cell's device is not the platform's. It is bridged, and so falls on arrays too.
            ("gpu.g11", "torch", {"tt": [one(device="cpu", arch="torch")]}, "default", ["device", "arrays"]),
            ("gpu.g11", "torch", {"tt": [one(device="gpu", arch="torch")]}, "default", []),
            # arch: a closer rung was passed over, of the same device, arrays and variant.
            ("cpu.c2", "numpy", {"nn": [one("never", arch="c2"), one(arch="c1")]}, "default", ["arch"]),
            ("cpu.c2", "numpy", {"nn": [one("maybe", arch="c2"), one(arch="c1")]}, "default", ["arch", "unknown"]),
            ("cpu.c2", "numpy", {"nn": [one(arch="c2"), one("never", arch="c1")]}, "default", []),
            ("cpu.c2", "numpy", {"nn": [one("never", arch="c2", variant="fast"), one(arch="c1")]}, "fast", ["variant"]),
            # variant: an explicit request was not served. A request for the default never falls on it.
            ("cpu.c2", "numpy", {"nn": [one(variant="fast")]}, "fast", []),
            ("cpu.c2", "numpy", {"nn": [one()]}, "fast", ["variant"]),
            ("cpu.c2", "numpy", {"nn": [one()]}, "default", []),
            ("cpu.c2", "numpy", {}, "fast", ["variant"]),
            # arrays: the chosen cell is bridged.
            ("cpu.c2", "torch", {"nn": [one()]}, "default", ["arrays"]),
            ("gpu.g11", "numpy", {"tt": [one(device="gpu", arch="dsl")]}, "default", ["arrays"]),
            # degraded: the chosen cell is marked so.
            ("cpu.c2", "numpy", {"nn": [one(degraded="four times slower")]}, "default", ["degraded"]),
            ("cpu.c2", "numpy", {"nn": [one(arch="c2"), one(degraded="four times slower")]}, "default", []),
            # reference: although another rung existed, unless on a CPU with numpy arrays every other said no.
            ("cpu.c2", "numpy", {}, "default", []),
            ("cpu.c2", "numpy", {"nn": [one("never", variant="fast")]}, "fast", ["variant"]),
            ("cpu.c2", "numpy", {"nn": [one("maybe", variant="fast")]}, "fast", ["variant", "reference", "unknown"]),
            ("cpu.c2", "torch", {"tt": [one("never", arch="torch")]}, "default", ["arrays", "reference"]),
            ("cpu.c2", "torch", {}, "default", ["arrays"]),
            ("gpu.g11", "torch", {}, "default", ["device", "arrays"]),
            ("gpu.g11", "numpy", {"nn": [one("never", device="gpu", arch="dsl")]}, "default",
             ["device", "arrays", "reference"]),
        ],
    )  # fmt: skip
    def test_axes(
        self, table_of: Any, place: str, arrays: str, cells: dict[str, Any], variant: str, axes: list[str]
    ) -> None:
        libraries = {"tt": "torch", "nn": "numpy"}
        table = table_of(**{name: (libraries[name], {"plain": rows}) for name, rows in cells.items()})
        outcome = resolve(table, place, arrays, "plain", variant)
        assert falls(outcome) == axes
        assert outcome.bridged == ("arrays" in axes)
        assert outcome.refused is None

    def test_levels_are_the_profiles(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"plain": [one("maybe")]}))
        outcome = resolve(table, "gpu.g11", "torch", "plain", "fast")
        assert {fall.axis: fall.level for fall in outcome.falls} == {
            "device": "warn", "variant": "warn", "arch": "allow", "arrays": "note", "reference": "warn",
            "unknown": "note",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("place", "arrays", "variant", "said"),
        [
            ("gpu.g11", "torch", "default", "nn/plain@cpu.numpy#default runs on cpu, not on gpu"),
            ("gpu.g11", "torch", "default", "gpu torch arrays cross to cpu numpy and back on each call"),
            ("npu.n1", "numpy", "default", "npu numpy arrays serve on cpu as they are"),
            ("cpu.c2", "numpy", "fast", "`fast` was asked for and `default` serves"),
            ("cpu.c2", "numpy", "fats", "no variant `fats` of plain: did you mean `fast`?"),
        ],
    )
    def test_reasons(self, table_of: Any, place: str, arrays: str, variant: str, said: str) -> None:
        rows = [one(), one(device="gpu", variant="fast", arch="g20")]
        table = table_of(nn=("numpy", {"plain": rows}))
        outcome = resolve(table, place, arrays, "plain", variant)
        assert said in [fall.reason for fall in outcome.falls]

    def test_a_variant_only_a_chain_knows_is_known(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"chained": [one(variant="fast")]}))
        outcome = resolve(table, "cpu.c2", "numpy", "chained", "quick", profile="quick")
        assert ladder(outcome) == ["nn@cpu.numpy#fast", "reference"]
        assert [fall.reason for fall in outcome.falls] == ["`quick` was asked for and `fast` serves"]
        assert "no variant `quick`" in resolve(table, "cpu.c2", "numpy", "chained", "quick").suggestion


class TestErrors:
    """`error` ends the walk at the first rung whose fall it is."""

    @pytest.mark.parametrize(
        ("axis", "place", "arrays", "variant", "rows", "at"),
        [
            ("device", "gpu.g11", "torch", "default", [one()], 0),
            ("arch", "cpu.c2", "numpy", "default", [one("never", arch="c2"), one(arch="c1"), one()], 1),
            ("variant", "cpu.c2", "numpy", "fast", [one("never", variant="fast"), one(), one(arch="torch")], 1),
            ("arrays", "cpu.c2", "torch", "default", [one("never", arch="c2"), one()], 1),
            ("degraded", "cpu.c2", "numpy", "default", [one(arch="c2", degraded="slow"), one()], 0),
            ("reference", "cpu.c2", "torch", "default", [one("never")], 1),
            ("broken", "cpu.c2", "numpy", "default", [one("never", arch="c2"), one(impl="acme.broken:k")], 1),
            ("unknown", "cpu.c2", "numpy", "default", [one("maybe", arch="c2"), one()], 0),
        ],
    )
    def test_each_axis(
        self, table_of: Any, axis: str, place: str, arrays: str, variant: str, rows: list[Any], at: int
    ) -> None:
        profiles = {**BASE["profiles"], "careful": {"extends": "default", "fall": {axis: "error"}}}
        rows = [*rows, one(arch="generic", variant="other")]
        table = table_of({"profiles": profiles}, nn=("numpy", {"plain": rows}))
        outcome, bound = walk(context(table, place, arrays, profile="careful"), "plain", variant, bind=TestBinding.bind)
        assert outcome.cell is None
        assert outcome.chosen is None
        assert bound is None
        assert outcome.refused is not None
        assert (outcome.refused.axis, outcome.refused.level) == (axis, "error")
        assert outcome.refused.cell == outcome.rungs[at].cell.id
        assert all(step.verdict in ("no", "yes", "unknown", "broken") for step in outcome.rungs[: at + 1])
        assert [step.verdict for step in outcome.rungs[at + 1 :]] == ["not tried"] * (len(outcome.rungs) - at - 1)
        text = str(outcome)
        assert f"refused: profile careful makes a fall on {axis} an error" in text
        assert "refused, profile careful" in text
        assert "->" not in text
        calm = walk(context(table, place, arrays), "plain", variant, bind=TestBinding.bind)[0]
        assert calm.cell is not None
        assert [step.cell.id for step in calm.rungs] == [step.cell.id for step in outcome.rungs]

    def test_strict_serves_what_does_not_fall(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"plain": [one("never", arch="c2"), one()]}))
        assert short(resolve(table, "cpu.c2", "numpy", profile="strict").cell) == "nn@cpu.numpy"
        assert short(resolve(table_of(), "cpu.c2", "numpy", profile="strict").cell) == "reference"


class TestRequired:
    @pytest.mark.parametrize(
        ("op", "variant", "rungs"),
        [
            ("plain", "fast", ["nn@cpu.c1#fast", "nn@cpu.numpy#fast"]),
            ("plain", "default", ["nn@cpu.numpy", "reference"]),
            ("plain", "other", []),
            ("chained", "default", ["nn@cpu.c1#fast", "nn@cpu.numpy#fast", "nn@cpu.numpy", "reference"]),
            ("chained", "exact", []),
        ],
    )
    def test_it_keeps_cells_of_that_variant_only(self, table_of: Any, op: str, variant: str, rungs: list[str]) -> None:
        rows = [one(), one(variant="fast"), one(arch="c1", variant="fast")]
        table = table_of(nn=("numpy", {"plain": rows, "chained": rows}))
        outcome = resolve(table, "cpu.c2", "numpy", op, variant, required=True)
        assert ladder(outcome) == rungs
        assert (outcome.cell is None) is (not rungs)

    def test_a_chain_that_leads_elsewhere_does_not_matter(self, table_of: Any) -> None:
        ops = {**BASE["ops"], "chained": {**BASE["ops"]["chained"], "variants": {"exact": ["fast"]}}}
        table = table_of({"ops": ops}, nn=("numpy", {"chained": [one(variant=["exact", "fast"])]}))
        assert ladder(resolve(table, "cpu.c2", "numpy", "chained", "exact")) == ["nn@cpu.numpy#fast", "reference"]
        assert ladder(resolve(table, "cpu.c2", "numpy", "chained", "exact", required=True)) == ["nn@cpu.numpy#exact"]

    def test_nothing_of_that_variant(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"plain": [one(variant="fast")]}))
        outcome = resolve(table, "cpu.c2", "numpy", "plain", "fats", required=True)
        assert outcome.cell is None
        assert outcome.refused is None
        assert outcome.suggestion == "no variant `fats` of plain: did you mean `fast`?"
        assert "nothing serves" in str(outcome)


class TestComponents:
    CELLS: ClassVar[dict[str, Any]] = {
        "tt": ("torch", {"vae": [{"device": ["gpu", "cpu"]}, {"device": "gpu", "variant": "tiny"}]}),
        "nn": ("numpy", {"vae": [{"device": "npu"}, {"device": "cpu", "variant": "slim"}]}),
    }

    @pytest.mark.parametrize(
        ("place", "arrays", "variant", "profile", "rungs", "axes"),
        [
            ("gpu.g11", "torch", "default", "default", ["tt@gpu", "tt@cpu", "factory"], []),
            ("gpu.g11", "torch", "tiny", "default", ["tt@gpu#tiny", "tt@gpu", "tt@cpu", "factory"], []),
            ("gpu.g11", "torch", "nope", "default", ["tt@gpu", "tt@cpu", "factory"], ["variant"]),
            ("gpu.g11", "torch", "default", "put_first", ["tt@gpu#tiny", "factory"], []),
            # Nothing bridges weights: cells of other arrays are no rungs.
            ("gpu.g11", "numpy", "default", "default", ["factory"], []),
            ("cpu.c2", "numpy", "slim", "default", ["nn@cpu#slim", "factory"], []),
            # Devices come before variants.
            ("npu.n1", "numpy", "slim", "default", ["nn@npu", "nn@cpu#slim", "factory"], ["variant"]),
        ],
    )
    def test_the_same_walk_without_arch(
        self, table_of: Any, place: str, arrays: str, variant: str, profile: str, rungs: list[str], axes: list[str]
    ) -> None:
        table = table_of(**self.CELLS)
        outcome = resolve(table, place, arrays, "vae", variant, component=True, profile=profile)
        assert ladder(outcome) == rungs
        assert falls(outcome) == axes
        assert not outcome.bridged

    def test_on_another_device_it_falls_and_is_not_bridged(self, table_of: Any) -> None:
        table = table_of(tt=("torch", {"vae": [{"device": "cpu"}]}))
        outcome = resolve(table, "gpu.g11", "torch", "vae", component=True)
        assert falls(outcome) == ["device"]
        assert [step.bridged for step in outcome.rungs] == [False, False]

    def test_the_factory_serves_at_last(self, table_of: Any) -> None:
        table = table_of(tt=("torch", {"vae": [{"device": "gpu", "when": "never"}]}))
        outcome = resolve(table, "gpu.g11", "torch", "vae", component=True, disabled=("*",))
        assert short(outcome.cell) == "factory"
        assert [fall.reason for fall in outcome.falls] == ["the factory serves"]
        assert resolve(table, "gpu.g11", "torch", "vae", component=True, profile="strict").refused.axis == "reference"
        assert falls(resolve(table, "gpu.g11", "numpy", "vae", component=True)) == []

    def test_other_arrays_are_told(self, table_of: Any) -> None:
        outcome = resolve(table_of(**self.CELLS), "cpu.c2", "numpy", "vae", component=True)
        assert {short(f.cell): f.reason for f in outcome.not_offered} == {
            "tt@cpu": "it builds for torch arrays, and weights cannot be bridged"
        }

    def test_a_kind_with_the_name_of_an_op_has_no_chain_of_it(self, table_of: Any) -> None:
        ops = {**BASE["ops"], "plain": {**BASE["ops"]["plain"], "variants": {"default": ["fast"]}}}
        table = table_of(
            {"ops": ops}, nn=("numpy", {"plain": [one(variant="fast")], "kind_plain": [{"device": "cpu"}]})
        )
        assert ladder(resolve(table, "cpu.c2", "numpy", "plain")) == ["nn@cpu.numpy#fast", "reference"]
        assert ladder(resolve(table, "cpu.c2", "numpy", "plain", component=True)) == ["nn@cpu", "factory"]


class TestOwnArch:
    @pytest.mark.parametrize(
        ("cards", "arch", "why"),
        [
            ([{"arch": "g11"}], "g11", ""),
            ([{"arch": "G-11x"}], "g11", ""),
            ([{"arch": "g30"}], "g30", ""),
            ([{"arch": "g11"}, {"arch": "g11"}], "g11", ""),
            ([{"arch": "g20", "index": 1}, {"arch": "g11", "index": 0}], "g11", ""),
            ([], "generic", "no gpu device was found"),
            (None, "generic", "which `gpu` devices there are is not recorded"),
            (
                [{"arch": "g20", "name": "Big", "note": "asked in vain"}, {"arch": "g11", "uuid": "GPU-1"}],
                "generic",
                "the gpu cards differ in arch and which comes first is not known: Big (g20), GPU-1 (g11) (asked in v",
            ),
            ([{"arch": "quux"}], "generic", "unknown arch `quux` of device gpu"),
        ],
    )  # fmt: skip
    def test_from_the_facts(self, table_of: Any, cards: list[dict[str, Any]] | None, arch: str, why: str) -> None:
        facts = Facts.of({"facts": 1, "devices": {} if cards is None else {"gpu": cards}})
        found, reason = own_arch(table_of(), "gpu", facts)
        assert found == arch
        assert reason.startswith(why)
        assert bool(reason) is bool(why)


class TestReport:
    def test_as_data(self, table_of: Any) -> None:
        table = table_of(nn=("numpy", {"plain": [one("never")]}))
        found = json.loads(json.dumps(resolve(table, "gpu.g11", "torch").as_dict()))
        assert found["format_version"] == 1
        assert found["op"] == "plain"
        assert found["platform"] == {"device": "gpu", "arch": "g11", "arrays": "torch", "profile": "default"}
        assert found["chosen"].startswith("reference/plain@cpu.")
        first, last = found["rungs"]
        assert first == {
            "cell": "nn/plain@cpu.numpy#default",
            "verdict": "no",
            "reason": "PIGS is empty (needed: pigs fly)",
            "where": first["where"],
            "bridged": True,
        }
        assert first["where"].rpartition(":")[0].endswith("nn.yaml")
        assert (last["verdict"], last["bridged"]) == ("yes", True)
        assert [fall["axis"] for fall in found["falls"]] == ["device", "arch", "arrays", "reference"]
        assert found["refused"] is None

    def test_a_component_says_kind(self, table_of: Any) -> None:
        found = resolve(table_of(), "cpu.c1", "numpy", "vae", component=True).as_dict()
        assert found["kind"] == "vae"
        assert found["chosen"] == "factory/vae@any#default"
        assert found["rungs"][0]["where"] == ""

    def test_manifest_text_cannot_write_to_the_terminal(self, table_of: Any) -> None:
        rows = [one(degraded="slow \\ [31m")]
        table = table_of(nn=("numpy", {"plain": rows}))
        cell = table.kernels["plain"][0]
        object.__setattr__(cell, "degraded", "\x1b[31mred")
        text = str(resolve(table, "cpu.c2", "numpy"))
        assert "\x1b" not in text
        assert "degraded: \\x1b[31mred" in text
