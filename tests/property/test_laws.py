"""Laws that hold for every lattice, table and predicate, checked against a second statement of the rules.

The statement here is the written rule, word by word over plain data; it shares no code with `rung.lattice`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rung
from rung import lattice
from rung.diagnostics import BindError, Where
from rung.entries import AXES, Arch, Cell, Device, Expression, Jit, Op, Pattern, Profile, Target
from rung.facts import Facts
from rung.predicates import NO, UNKNOWN, YES, Scope, evaluate
from rung.records import replace
from rung.resolve import Context, Resolution, walk
from rung.table import Wanted, attributes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LAWS = settings(derandomize=True, max_examples=100, deadline=None)
FACTS = sorted((Path(__file__).parents[1] / "facts").glob("*.yaml"))
NOWHERE = Where("made.yaml")


@dataclass(frozen=True)
class Rules:
    """A device's lattice as plain data, with the written rules over it."""

    name: str
    runs: dict[str, list[str]]
    only: dict[str, str]
    family: dict[str, list[str]]
    jit: str | None
    portable: list[str]

    def device(self, falls_back_to: str | None = None) -> Device:
        return Device(
            name=self.name,
            summary="",
            where=NOWHERE,
            falls_back_to=falls_back_to,
            pattern=Pattern("g"),
            archs={name: Arch(name, tuple(older)) for name, older in self.runs.items()},
            targets={
                **{name: Target(name, only=chip) for name, chip in self.only.items()},
                **{name: Target(name, family=tuple(members)) for name, members in self.family.items()},
            },
            jit=Jit("ir", self.jit) if self.jit else None,
            portable=tuple(self.portable),
        )

    def targets(self) -> dict[str, list[str]]:
        """Give every legal target with the artifacts code for it can be."""
        hardware = [*self.runs, *self.only, *self.family]
        out = {name: ["native", "source", "python", *(["ptx"] if self.jit else [])] for name in hardware}
        if self.jit == "any":
            out["ir"] = ["ptx", "source"]
        elif self.jit:
            out.update({"ir" + name[1:]: ["ptx", "source"] for name in hardware})
        out.update({name: ["python", "source"] for name in (*self.portable, "generic")})
        return out

    def native(self, target: str, arch: str) -> bool:
        """T is D, or in D's runs, or `only: D`, or a family that lists D."""
        return (
            target == arch
            or target in self.runs.get(arch, [])
            or self.only.get(target) == arch
            or arch in self.family.get(target, [])
        )

    def compiled(self, target: str, arch: str) -> bool:
        """A plain target needs a capability of at least its own, a family a member, a specific one that chip."""
        if self.jit == "any":
            return True
        if target in self.only:
            return self.only[target] == arch
        if target in self.family:
            return arch in self.family[target]
        return arch != "generic" and capability(arch) >= capability(target)

    def admits(self, target: str, artifact: str, arch: str, exclude: Sequence[str] = ()) -> bool:
        if arch in exclude:
            return False
        if target in (*self.portable, "generic"):
            return True
        if target.startswith("ir"):
            return self.compiled("g" + target[2:], arch)
        if artifact == "ptx":
            return self.compiled(target, arch)
        if artifact == "source" and self.jit:
            return self.native(target, arch) or self.compiled(target, arch)
        return self.native(target, arch)

    def place(self, target: str, artifact: str, arch: str) -> tuple[int, ...]:
        """Give the place in: specific; family; own; older; jit; portable; generic. Smaller is closer."""
        kind = ["native", "ptx", "source", "python"].index(artifact)
        if target == "generic":
            return (6, 0)
        if target in self.portable:
            return (5, self.portable.index(target), kind)
        if not target.startswith("ir") and artifact != "ptx" and self.native(target, arch):
            if target in self.only:
                return (0, 0, kind)
            if target in self.family:
                return (1, len(self.family[target]), kind)
            return (2, 0, kind) if target == arch else (3, self.runs[arch].index(target), kind)
        distance = 0 if self.jit == "any" else capability(arch) - capability(target)
        return (4, distance, kind)


def capability(name: str) -> int:
    found = re.search(r"\d+", name)
    assert found is not None
    return int(found.group())


CHIPS = ["g10", "g11", "g12", "g20", "g21", "g30"]


@st.composite
def rules(draw: st.DrawFn, name: str) -> Rules:
    chips = draw(st.lists(st.sampled_from(CHIPS), min_size=1, max_size=5, unique=True))
    chips.sort(key=capability)
    older = {
        chip: draw(st.sets(st.sampled_from(chips[:place]))) if place else set() for place, chip in enumerate(chips)
    }
    runs = {chip: sorted(below, key=capability, reverse=True) for chip, below in older.items()}
    some = st.lists(st.sampled_from(chips), unique=True)
    families = {f"{chip}f": sorted({chip, *draw(some)}) for chip in draw(some)}
    return Rules(
        name,
        runs,
        {f"{chip}x": chip for chip in draw(some)},
        {target: [m for m in members if capability(m) >= capability(target)] for target, members in families.items()},
        draw(st.sampled_from([None, "at_least", "any"])),
        draw(st.permutations(["torch", "dsl"])),
    )


UNDECLARED = ["g13", "g99", "generic"]


def archs(made: Rules) -> st.SearchStrategy[str]:
    """Give what a device may be: newer chips first, for they have more below them."""
    return st.sampled_from([*reversed(made.runs), *UNDECLARED])


class TestLattice:
    @LAWS
    @given(data=st.data(), made=rules("gpu"))
    def test_what_runs_is_what_the_rules_admit(self, data: st.DataObject, made: Rules) -> None:
        device, arch = made.device(), data.draw(archs(made))
        exclude = data.draw(st.lists(st.sampled_from(CHIPS), max_size=2, unique=True))
        assert set(lattice.targets(device)) == set(made.targets())
        for target, artifacts in made.targets().items():
            assert set(lattice.artifacts(device, target)) == set(artifacts)
            for artifact in artifacts:
                answer = lattice.fit(device, target, artifact, arch, exclude)
                assert answer.runs is made.admits(target, artifact, arch, exclude), (target, artifact, answer.why)

    @LAWS
    @given(data=st.data(), made=rules("gpu"))
    def test_a_ladder_is_all_that_runs_in_the_order_of_the_rules(self, data: st.DataObject, made: Rules) -> None:
        arch = data.draw(archs(made))
        for artifact in (None, "native", "source", "python", "ptx"):
            steps = lattice.ladder(made.device(), arch, artifact)
            kinds = {
                t: artifact or possible[0] for t, possible in made.targets().items() if artifact in (None, *possible)
            }
            assert {s.target for s in steps} == {t for t, kind in kinds.items() if made.admits(t, kind, arch)}
            places = [made.place(s.target, s.artifact, arch) for s in steps]
            assert places == sorted(places)

    @LAWS
    @given(data=st.data(), made=rules("gpu"))
    def test_closeness_compares_as_the_rules_do(self, data: st.DataObject, made: Rules) -> None:
        device, arch = made.device(), data.draw(archs(made))
        both = [
            (made.place(target, artifact, arch), lattice.fit(device, target, artifact, arch).closeness)
            for target, artifacts in made.targets().items()
            for artifact in artifacts
            if made.admits(target, artifact, arch)
        ]
        for mine, theirs in both:
            for my_other, their_other in both:
                assert mine >= my_other or theirs < their_other

    @LAWS
    @given(made=rules("gpu"))
    def test_fallback_is_monotonic(self, made: Rules) -> None:
        """Nothing built for a newer chip is offered, whatever it is."""
        for arch in made.runs:
            for step in lattice.ladder(made.device(), arch):
                hardware = step.target not in (*made.portable, "generic", "ir")
                assert not hardware or capability(step.target) <= capability(arch)


VARIANTS = ["default", "fast", "exact"]
PREDICATES = {
    "yes": Expression("env", args=(("name", "SET"),)),
    "no": Expression("env", args=(("name", "EMPTY"),), why="it is set"),
    "open": Expression("env", args=(("name", "NEVER_RECORDED"),)),
}
NEEDS = st.lists(st.sampled_from(sorted(PREDICATES)), max_size=2, unique=True)
LEVELS = st.fixed_dictionaries({axis: st.sampled_from(["allow", "note", "warn", "error"]) for axis in AXES})
LENIENT = dict.fromkeys(AXES, "warn")


@dataclass(frozen=True)
class Scene:
    """A table of one op on a card and its host, and a platform to ask from."""

    table: rung.Table
    rules: dict[str, Rules]
    archs: dict[str, str]
    device: str
    arrays: str
    variant: str
    profile: Profile = field(default_factory=lambda: Profile("made", (), LENIENT))

    def context(self, **changes: Any) -> Context:
        cards = {name: [{"arch": arch}] for name, arch in self.archs.items() if arch != "generic"}
        facts = Facts({"facts": 1, "devices": cards, "env": {"SET": "1", "EMPTY": ""}})
        made = Context(self.table, self.device, self.archs[self.device], self.arrays, facts, self.profile)
        return replace(made, **changes)

    def walk(self, bind: Callable[[Cell], Any] | None = None, **changes: Any) -> tuple[Resolution, Any]:
        return walk(self.context(**changes), "op", self.variant, bind=bind)

    def ladder(self, **changes: Any) -> list[Cell]:
        return [step.cell for step in self.walk(**changes)[0].rungs]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    made = {"gpu": draw(rules("gpu")), "cpu": draw(rules("cpu"))}
    places = [(device, target) for device, rule in made.items() for target in rule.targets()]
    # Either a few cells that differ in everything, or many that differ in closeness alone.
    if draw(st.booleans()):
        keys = draw(st.sets(st.tuples(st.sampled_from(places), st.sampled_from(VARIANTS)), max_size=12))
        libraries = st.sampled_from(["numpy", "torch"])
    else:
        keys = {(place, "default") for place in draw(st.sets(st.sampled_from(places), min_size=8))}
        libraries = st.just(draw(st.sampled_from(["numpy", "torch"])))
    cells = [
        Cell(
            id=f"b{draw(st.integers(0, 9))}/op@{device}.{target}#{variant}",
            backend="b",
            serves="op",
            device=device,
            arch=target,
            variant=variant,
            arrays=draw(libraries),
            impl=f"b.{device}_{target}_{variant}:k",
            artifact=draw(st.sampled_from(made[device].targets()[target])),
            where=NOWHERE,
            needs=tuple(draw(NEEDS)),
            exclude=tuple(draw(st.lists(st.sampled_from(CHIPS), max_size=1))),
            degraded=draw(st.sampled_from(["", "slow"])),
        )
        for (device, target), variant in sorted(keys)
    ]
    reference = Cell("reference/op@cpu.numpy#default", "reference", "op", "cpu", "numpy", "default", "numpy",
                     "b.reference:k", "python", NOWHERE)  # fmt: skip
    chains = draw(st.dictionaries(st.sampled_from(VARIANTS), st.permutations(VARIANTS).map(tuple), max_size=2))
    table = rung.Table(
        devices={"gpu": made["gpu"].device("cpu"), "cpu": made["cpu"].device()},
        ops={"op": Op("op", "", "", "b.reference:k", NOWHERE, variants=chains)},
        kinds={},
        backends={},
        profiles={},
        predicates=PREDICATES,
        named={},
        kernels={"op": tuple(sorted([*cells, reference], key=lambda cell: cell.id))},
        components={},
        wanted=Wanted.by([], []),
        attributes=attributes_of(["op"]),
    )
    return Scene(
        table,
        made,
        {name: draw(archs(rule)) for name, rule in made.items()},
        draw(st.sampled_from(["gpu", "cpu"])),
        draw(st.sampled_from(["numpy", "torch"])),
        draw(st.sampled_from(["default", *VARIANTS, "unheard_of"])),
    )


class TestWalk:
    @LAWS
    @given(scene=scenes())
    def test_no_ladder_offers_what_the_lattice_forbids_or_withholds_what_it_admits(self, scene: Scene) -> None:
        chain = scene.table.ops["op"].variants.get(scene.variant)
        if chain is None:
            default = scene.table.ops["op"].variants.get("default", ("default",))
            chain = tuple(dict.fromkeys([scene.variant, *default]))
        devices = ["gpu", "cpu"] if scene.device == "gpu" else ["cpu"]
        expected = {
            cell.id
            for cell in scene.table.kernels["op"]
            if cell.is_reference
            or (
                cell.device in devices
                and cell.variant in chain
                and scene.rules[cell.device].admits(
                    str(cell.arch), str(cell.artifact), scene.archs[cell.device], cell.exclude
                )
                # For a numpy caller the ladder ends on the host: nothing there is converted for.
                and not (scene.arrays == "numpy" and (cell.device, cell.arrays) == ("cpu", "torch"))
            )
        }
        offered = scene.ladder()
        assert {cell.id for cell in offered} == expected
        assert len(offered) == len(expected)

    @LAWS
    @given(scene=scenes())
    def test_the_order_is_device_arrays_variant_closeness_and_the_reference_last(self, scene: Scene) -> None:
        chains = scene.table.ops["op"].variants
        chain = chains.get(scene.variant) or (scene.variant, *chains.get("default", ("default",)))

        def place(cell: Cell) -> tuple[Any, ...]:
            closeness = scene.rules[cell.device].place(str(cell.arch), str(cell.artifact), scene.archs[cell.device])
            return (cell.device != scene.device, cell.arrays != scene.arrays, chain.index(cell.variant), closeness)

        *others, last = scene.ladder()
        assert last.is_reference
        assert not any(cell.is_reference for cell in others)
        places = [place(cell) for cell in others]
        assert places == sorted(places)

    @LAWS
    @given(scene=scenes())
    def test_the_first_yes_serves_and_nothing_below_is_tried(self, scene: Scene) -> None:
        outcome, bound = scene.walk(bind=lambda cell: cell.id)
        verdicts = [step.verdict for step in outcome.rungs]
        first = verdicts.index("yes")
        assert set(verdicts[:first]) <= {"no", "unknown"}
        assert set(verdicts[first + 1 :]) <= {"not tried"}
        assert outcome.cell is outcome.rungs[first].cell
        assert bound == outcome.cell.id
        assert "open" not in outcome.cell.needs
        assert "no" not in outcome.cell.needs

    @LAWS
    @given(scene=scenes(), levels=LEVELS, data=st.data())
    def test_what_explain_says_is_what_gets_bound(
        self, scene: Scene, levels: dict[str, str], data: st.DataObject
    ) -> None:
        """Also when some rungs are broken, and under any profile."""
        broken = data.draw(st.sets(st.sampled_from([c.impl for c in scene.table.kernels["op"]]), max_size=4))

        def bind(cell: Cell) -> str:
            if cell.impl in broken:
                raise BindError("no lib")
            return cell.id

        profile = Profile("made", (), levels)
        tried, bound = scene.walk(bind=bind, profile=profile)
        with mock.patch.object(Context, "obstacle", lambda _, cell: "no lib" if cell.impl in broken else ""):
            said, nothing = scene.walk(profile=profile)
        assert nothing is None
        assert said == tried
        assert bound == (tried.cell.id if tried.cell is not None else None)
        assert (tried.refused is None) or tried.cell is None
        assert str(said)
        assert said.as_dict()

    @LAWS
    @given(scene=scenes(), levels=LEVELS)
    def test_a_profile_never_changes_the_order_of_rungs(self, scene: Scene, levels: dict[str, str]) -> None:
        plain = scene.ladder()
        assert scene.ladder(profile=Profile("made", (), levels)) == plain
        only = Profile("made", (), levels, only="reference")
        assert scene.ladder(profile=only) == [cell for cell in plain if cell.is_reference]

    @LAWS
    @given(scene=scenes(), levels=LEVELS)
    def test_a_profile_only_says_or_refuses(self, scene: Scene, levels: dict[str, str]) -> None:
        """Either it serves what every profile serves, or it names a fall it makes an error."""
        outcome = scene.walk(profile=Profile("made", (), levels))[0]
        lenient = scene.walk()[0]
        if outcome.cell is not None:
            assert outcome.cell is lenient.cell
            assert all(fall.level != "error" for fall in outcome.falls)
        else:
            assert outcome.refused is not None
            assert levels[outcome.refused.axis] == "error"
            assert outcome.refused.axis in {fall.axis for fall in lenient.falls}

    @LAWS
    @given(scene=scenes(), data=st.data())
    def test_disabling_only_narrows(self, scene: Scene, data: st.DataObject) -> None:
        ids = [cell.id for cell in scene.table.kernels["op"]]
        globs = st.one_of(
            st.sampled_from(ids), st.sampled_from(["*", "b1/*", "*@gpu.*", "*#fast", "c/*", "reference/*"])
        )
        disabled = tuple(data.draw(st.lists(globs, max_size=3)))
        before, after = scene.walk()[0], scene.walk(disabled=disabled)[0]
        order = [step.cell for step in before.rungs]
        assert [step.cell for step in after.rungs] == order
        assert before.cell is not None
        assert after.cell is not None
        assert order.index(after.cell) >= order.index(before.cell)
        hit = any(fnmatchcase(before.cell.id, glob) for glob in disabled)
        if not hit or before.cell.is_reference:
            assert after.cell is before.cell

    @LAWS
    @given(scene=scenes())
    def test_bridged_is_what_crosses(self, scene: Scene) -> None:
        for step in scene.walk()[0].rungs:
            same = (step.cell.device, step.cell.arrays) == (scene.device, scene.arrays)
            assert step.bridged is not same


NAMES = ["a", "b", "c"]
ANSWERS = st.fixed_dictionaries({name: st.sampled_from([NO, UNKNOWN, YES]) for name in NAMES})
LEAVES = st.sampled_from([Expression("use", args=(("name", name),)) for name in NAMES])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda term: Expression("not", (term,))),
        st.builds(Expression, st.sampled_from(["all", "any"]), st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)
RANK = [NO, UNKNOWN, YES]


def negated(expression: Expression) -> Expression:
    return Expression("not", (expression,))


def answer(expression: Expression, answers: dict[str, str]) -> str:
    scope = Scope(Facts(), Device("cpu", "", NOWHERE), "generic", {}, answers)
    verdict = evaluate(expression, scope)
    assert verdict.reason
    return verdict.answer


class TestPredicates:
    @LAWS
    @given(p=EXPRESSIONS, answers=ANSWERS)
    def test_not_not_p_is_p(self, p: Expression, answers: dict[str, str]) -> None:
        assert answer(negated(negated(p)), answers) == answer(p, answers)

    @LAWS
    @given(terms=st.lists(EXPRESSIONS, min_size=1, max_size=4).map(tuple), answers=ANSWERS)
    def test_de_morgan(self, terms: tuple[Expression, ...], answers: dict[str, str]) -> None:
        turned = tuple(negated(term) for term in terms)
        for one, other in (("all", "any"), ("any", "all")):
            assert answer(negated(Expression(one, terms)), answers) == answer(Expression(other, turned), answers)

    @LAWS
    @given(terms=st.lists(EXPRESSIONS, min_size=1, max_size=4).map(tuple), answers=ANSWERS)
    def test_all_is_the_minimum_and_any_the_maximum(
        self, terms: tuple[Expression, ...], answers: dict[str, str]
    ) -> None:
        each = [answer(term, answers) for term in terms]
        assert answer(Expression("all", terms), answers) == min(each, key=RANK.index)
        assert answer(Expression("any", terms), answers) == max(each, key=RANK.index)

    @LAWS
    @given(p=EXPRESSIONS, answers=ANSWERS, learned=ANSWERS)
    def test_learning_what_was_unknown_never_turns_an_answer(
        self, p: Expression, answers: dict[str, str], learned: dict[str, str]
    ) -> None:
        before = answer(p, answers)
        later = {name: learned[name] if known == UNKNOWN else known for name, known in answers.items()}
        assert before in (UNKNOWN, answer(p, later))

    @LAWS
    @given(p=EXPRESSIONS, answers=ANSWERS)
    def test_what_is_known_throughout_has_an_answer(self, p: Expression, answers: dict[str, str]) -> None:
        known = {name: NO if given == UNKNOWN else given for name, given in answers.items()}
        assert answer(p, known) != UNKNOWN


class TestShipped:
    """The same laws on the manifests and recorded machines that are shipped."""

    @pytest.mark.parametrize("path", FACTS, ids=lambda path: path.stem)
    def test_every_platform_of_a_recorded_machine(self, path: Path) -> None:
        table, facts = rung.load(), Facts.load(path)
        for name, device in table.devices.items():
            for arch in (*device.archs, "generic"):
                for arrays in ("numpy", "torch"):
                    platform = rung.Platform.of(name, arch, arrays=arrays, facts=facts, table=table)
                    for op in table.ops:
                        outcome = platform.resolve(op)
                        assert outcome.cell is not None
                        assert outcome == platform.explain(op)
                        assert outcome.rungs[-1].cell.is_reference
                        for step in outcome.rungs:
                            cell = step.cell
                            assert cell.device in platform.device_chain
                            if cell.device == name and not cell.is_reference:
                                assert cell.arch in platform.arch_chain()

    @pytest.mark.parametrize("arrays", ["numpy", "torch"])
    @pytest.mark.parametrize("place", ["cpu.generic", "accel.accel_v1", "accel.accel_v3", "accel.accel_v9"])
    def test_what_is_explained_is_what_is_bound(self, place: str, arrays: str) -> None:
        device, _, arch = place.partition(".")
        facts = rung.Platform.cpu().facts.override({})
        quiet = rung.Platform.of(device, arch, arrays=arrays, facts=facts)
        for op in quiet.table.ops:
            for variant in ("default", "fused"):
                context = quiet.explain(op, variant)
                assert context.cell is not None
                bound = quiet.explain(op, variant, bind=True)
                assert bound.cell is context.cell
                assert bound.falls == context.falls
