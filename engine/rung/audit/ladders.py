"""What is certain of ladders before any machine is known: where cells stand in them, and what requests walk them.

Owns the archs, requests and conditions under which a cell may be offered. The order of rungs is `rung.resolve`'s, and
who runs whose code `rung.lattice`'s. No table is made, so manifests with errors elsewhere are judged too.

Note [What is certain of a ladder]: a cell is judged where it stands best, on a platform of its own device whose caller
holds its arrays; on every other platform the same rungs precede it, and more. Archs are those its device declares,
`generic`, and of undeclared ones as many as the lattice can tell apart. Requests are all that `get`, `require` and
`build_component` can make under any declared profile; `require` tries one variant alone, so of an op only `default`
can stand behind other variants wherever it stands. Of conditions it is certain what an arch alone decides.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rung import lattice
from rung.audit.conditions import Conditions
from rung.entries import DEFAULT, GENERIC, REFERENCE
from rung.facts import Facts
from rung.predicates import NO, YES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rung.audit.conditions import Condition, Term
    from rung.audit.scene import Scene
    from rung.entries import Device
    from rung.manifest import CellEntry
    from rung.predicates import Verdict

__all__ = ["FIT_STEPS", "Code", "EnoughJudged", "Key", "Ladders", "Offer", "Rung", "Way"]

Key = tuple[tuple[int, ...], str]
"""The place of code among what runs on an arch, smaller is closer."""
Rung = tuple["CellEntry", "Offer"]
Group = tuple[str, str, str, str]
"""Section, op or kind, device and arrays: what a ladder walks variant by variant."""
Chains = dict[str, list[str]]
Policy = tuple[Chains, "str | None"]
"""The chains of an op or kind under a profile, and the one backend it takes."""

STEPS: Final = 500_000
"""What judging may cost besides `STEPS_OF_CELL` for each cell: far beyond what an honest matrix takes. Where it is not
enough, what was judged by then is reported, so a made-up lattice costs no more time than its size."""
STEPS_OF_CELL: Final = 50
FIT_STEPS: Final = 16
_NO_FACTS: Final = Facts()


class EnoughJudged(Exception):
    """The steps are spent."""


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """What cells have in common that are built alike: `order` has the archs that run it, those it is closest to first.

    A component has no target: it is alone in its variant, and any arch will do.
    """

    device: Device
    target: str | None
    artifact: str
    exclude: frozenset[str]
    order: Mapping[str, Key]


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """Code under a condition: `order` is the code's, without the archs on which the condition certainly fails.

    `asked` is what can still fail on each; None where no arch decides anything. `backend` is set where some profile
    takes the cells of that backend alone.
    """

    code: Code
    condition: Condition
    backend: str
    order: Mapping[str, Key]
    asked: Mapping[str, frozenset[Term]] | None

    def asked_on(self, arch: str) -> frozenset[Term]:
        """Give what can still fail on an arch."""
        return self.condition.terms if self.asked is None else self.asked[arch]


@dataclass(frozen=True, slots=True)
class Way:
    """How requests come to a variant: past all the variants `before`, among the cells of backend `only` where set."""

    before: tuple[str, ...] = ()
    only: str | None = None


class Ladders:
    """Every sound cell, grouped as ladders are: `groups` has the rungs of each variant."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.conditions = Conditions(scene)
        self.groups: dict[Group, dict[str, list[Rung]]] = {}
        self.offers: dict[tuple[Code, Condition, str], Offer] = {}
        self._steps = STEPS + STEPS_OF_CELL * len(scene.whole.cells)
        self._requests = _Requests(scene, self.spend)
        self._codes: dict[tuple[str, str | None, str | None, tuple[str, ...]], Code | None] = {}
        self._archs: dict[str, tuple[str, ...]] = {}
        self._read: dict[tuple[str, str], str] = {}
        self._verdicts: dict[tuple[Term, str, str], Verdict] = {}
        self._fill()

    def spend(self, steps: int) -> None:
        """Count what judging costs; raise EnoughJudged when it was too much."""
        self._steps -= steps
        if self._steps < 0:
            raise EnoughJudged

    def ways(self, section: str, serves: str, variant: str) -> tuple[Way, ...]:
        """Give how requests come to the cells of a variant."""
        return self._requests.ways(section, serves, variant)

    def archs(self, device: Device) -> tuple[str, ...]:
        """Give what a device's hardware may be, as far as the lattice tells archs apart."""
        known = self._archs.get(device.name)
        if known is None:
            known = self._archs[device.name] = (*device.archs, GENERIC, *_undeclared(device))
        return known

    def read_arch(self, device: Device, written: str) -> str:
        """Read an arch as the lattice does, which takes as long as a device has names: each spelling once."""
        if written in device.archs:
            return written
        key = (device.name, written)
        known = self._read.get(key)
        if known is None:
            self.spend(len(device.archs) + len(device.targets) + len(device.aliases))
            known = self._read[key] = lattice.read_arch(device, written)
        return known

    def order(
        self, device: Device, target: str, artifact: str, exclude: frozenset[str] = frozenset()
    ) -> dict[str, Key]:
        """Give the archs that run some code, those it is closest to first, with its place on each."""
        archs = self.archs(device)
        self.spend(len(archs) * FIT_STEPS)
        fits = ((arch, lattice.fit(device, target, artifact, arch, exclude)) for arch in archs)
        places = sorted((fit.closeness, arch) for arch, fit in fits if fit.runs)
        # As in a walk: what is equally close differs in the target's name.
        return {arch: (closeness, target) for closeness, arch in places}

    def offer(self, code: Code, condition: Condition, backend: str = "") -> Offer:
        """Put code under a condition."""
        if not condition.asks_arch:
            return Offer(code, condition, backend, code.order, None)
        asked: dict[str, frozenset[Term]] = {}
        decided = [term for term in condition.terms if term.asks_arch]
        for arch in code.order:
            if not any(self.obstacle(term, code.device, arch) for term in decided):
                holds = (term for term in decided if self._verdict(term, code.device, arch).answer == YES)
                asked[arch] = condition.terms.difference(holds)
        return Offer(code, condition, backend, {arch: code.order[arch] for arch in asked}, asked)

    def obstacle(self, term: Term, device: Device, arch: str) -> str:
        """Say why a term never holds on an arch, whatever else is true of a machine; "" when it may.

        What only an arch decides is as lost where the arch is not known as where it says no.
        """
        verdict = self._verdict(term, device, arch)
        return verdict.reason if verdict.answer == NO or (verdict.answer != YES and not term.asks_more) else ""

    def _verdict(self, term: Term, device: Device, arch: str) -> Verdict:
        """Answer a term where nothing but the arch is known."""
        key = (term, device.name, arch)
        known = self._verdicts.get(key)
        if known is None:
            self.spend(FIT_STEPS)
            known = self._verdicts[key] = self.conditions.judge(term, _NO_FACTS, device, arch)
        return known

    def _fill(self) -> None:
        only, is_sound, condition_of = self._requests.only, self.scene.is_sound_cell, self.conditions.of
        model: object = None
        place: tuple[str, str | None] | None = None
        rungs: dict[str, list[Rung]] | None = None
        # Cells of one row follow each other, by device, then target, then variant.
        for cell in self.scene.whole.cells:
            row = cell.model
            if row is not model:
                model, place, backend = row, None, cell.backend
                sound = is_sound(cell)
                condition = condition_of(backend.file.requires, row.when, getattr(row, "accepts", {}))
                arrays = row.arrays or backend.file.arrays or "numpy"
                artifact, exclude = getattr(row, "artifact", None), tuple(getattr(row, "exclude", ()))
                alone = backend.name if backend.name in only else ""
            if place != (cell.device, cell.arch):
                place, rungs = (cell.device, cell.arch), None
                code = self._code(*place, artifact, exclude) if sound else None
                if code is not None:
                    offer = self._offered(code, condition, alone)
                    group = ("kernels" if cell.arch is not None else "components", cell.serves, cell.device, arrays)
                    rungs = self.groups.get(group)
                    if rungs is None:
                        rungs = self.groups[group] = {}
            if rungs is not None:
                known = rungs.get(cell.variant)
                if known is None:
                    rungs[cell.variant] = [(cell, offer)]
                else:
                    known.append((cell, offer))

    def _offered(self, code: Code, condition: Condition, backend: str) -> Offer:
        known = self.offers.get((code, condition, backend))
        if known is None:
            known = self.offers[code, condition, backend] = self.offer(code, condition, backend)
        return known

    def _code(self, device: str, target: str | None, artifact: str | None, exclude: tuple[str, ...]) -> Code | None:
        key = (device, target, artifact, exclude)
        if key not in self._codes:
            self._codes[key] = self._new_code(*key)
        return self._codes[key]

    def _new_code(self, device: str, target: str | None, artifact: str | None, exclude: tuple[str, ...]) -> Code | None:
        """Give the code of a cell; None where its device, target or artifact has a fault of its own."""
        whole = self.scene.whole
        entry = whole.devices.get(device)
        if entry is None or not self.scene.is_sound(entry.document, entry.loc):
            return None
        record = whole.device_records[device]
        if target is None:
            return Code(record, None, "", frozenset(), dict.fromkeys(self.archs(record), ((), "")))
        if not lattice.is_target(record, target):
            return None
        artifact = artifact or lattice.default_artifact(record, target)
        if artifact not in lattice.artifacts(record, target):
            return None
        excluded = frozenset(whole.target(device, arch) for arch in exclude)
        return Code(record, target, artifact, excluded, self.order(record, target, artifact, excluded))


def _undeclared(device: Device) -> Iterator[str]:
    """Give archs that nobody declared and the pattern reads: one for each answer the lattice can give for such.

    They differ only in what a `jit` rule compiles for them: without one, a single one newer than all will do.
    """
    pattern = device.pattern
    if pattern is None:
        return
    numbers = {number for arch in device.archs if (number := lattice.number(pattern, arch)) is not None}
    compiles = device.jit is not None and device.jit.rule == "at_least"
    following = {n + 1 for n in numbers} - numbers if compiles else {max(numbers, default=0xFF) + 1}
    for number in sorted(following):
        yield f"{pattern.prefix}{number:x}" if pattern.hex else f"{pattern.prefix}{number}"


class _Requests:
    """What requests can be made: under each profile, of each variant, along the chains that are in force."""

    def __init__(self, scene: Scene, spend: Callable[[int], None]) -> None:
        whole = scene.whole
        self._scene = scene
        self._spend = spend
        self._all_known = whole.names("profiles") == set(whole.profiles) and all(
            scene.is_sound(entry.document, entry.loc) for entry in whole.profiles.values()
        )
        self._profiles: Counter[str | None] = Counter()
        self._replaced: dict[str, list[Policy]] = {}
        for name in {**whole.profiles, DEFAULT: None, "strict": None}:
            replaced, only = self._policy(name)
            if only != REFERENCE:
                self._profiles[only] += 1
                for serves, chains in replaced.items():
                    self._replaced.setdefault(serves, []).append((chains, only))
        self.only = {only for only in self._profiles if only is not None}
        self._in_force: dict[tuple[str, str], tuple[list[Policy], set[str]]] = {}
        self._ways: dict[tuple[str, str, str], tuple[Way, ...]] = {}

    def ways(self, section: str, serves: str, variant: str) -> tuple[Way, ...]:
        """Give how requests come to the cells of a variant; nothing where none does."""
        known = self._in_force.get((section, serves))
        if known is None:
            found = [*self._policies(section, serves)]
            named = {name for chains, _ in found for chain in (chains, *chains.values()) for name in chain}
            known = self._in_force[section, serves] = found, {*named, DEFAULT}
        policies, named = known
        # All variants that no chain names are requested alike.
        key = (section, serves, variant if variant in named else "")
        ways = self._ways.get(key)
        if ways is None:
            self._spend(len(policies))
            ways = self._ways[key] = tuple(dict.fromkeys(_ways(section, policies, variant)))
        return ways

    def _policies(self, section: str, serves: str) -> Iterator[Policy]:
        """Give the declared chains of an op or kind under each profile, and the one backend that takes."""
        whole = self._scene.whole
        op = whole.ops.get(serves) if section == "kernels" else None
        own = {} if op is None else op.model.variants
        replaced = self._replaced.get(serves, [])
        self._spend(len(replaced))
        yield from (({**own, **chains}, only) for chains, only in replaced)
        yield from ((own, only) for only in self._profiles - Counter(only for _, only in replaced))
        sound = op is None or self._scene.is_sound(op.document, op.loc)
        if not (self._all_known and sound) or whole.is_mentioned(serves):
            yield {DEFAULT: [DEFAULT]}, None  # chains that could not be read may begin anywhere

    def _policy(self, name: str) -> tuple[dict[str, Chains], str | None]:
        """Give the chains of a profile by op or kind, and the one backend it takes: its own over those it extends."""
        profiles = self._scene.whole.profiles
        line: dict[str, None] = {}
        following: str | None = name
        while following in profiles and following not in line:
            line[following] = None
            following = profiles[following].model.extends
        chains: dict[str, Chains] = {}
        only: str | None = None
        for model in (profiles[ancestor].model for ancestor in reversed(line)):
            self._spend(1 + len(model.chains))
            only = model.only or only
            for serves, replaced in model.chains.items():
                chains[serves] = {**chains.get(serves, {}), **replaced}
        return chains, only


def _ways(section: str, policies: Iterable[Policy], variant: str) -> Iterator[Way]:
    for chains, only in policies:
        if variant not in chains or (section == "kernels" and variant != DEFAULT):
            yield Way((), only)  # asked for without a chain of its own, or by `require`
        for chain in chains.values():
            if variant in chain:
                yield Way(tuple(chain[: chain.index(variant)]), only)
