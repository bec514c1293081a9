"""Every path of the manifests, and what is wrong with what it binds, judged without importing it.

Owns what each path of a manifest is for, how it will be called, and the judgement of what `rung.audit.modules` finds
at its end. What reading cannot tell is left to `rung.audit.imports`.

Note [One fault, one finding]: a path is judged in the order in which binding it would fail: module, name, home, kind,
parameters. The first fault is the finding. A fault of a Python file that several rows bind is reported at the first of
them, a path that must be rewritten in each row at each row.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import Signature
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rung.audit.modules import Class, Found, Function, Missing, Module, Modules
from rung.audit.signatures import misfit, shown, stub, without_first
from rung.bind import root_of
from rung.diagnostics import Where, closest, did_you_mean, shorten
from rung.rules.expressions import atoms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rung.audit.scene import Scene
    from rung.manifest import BackendEntry, Manifests
    from rung.models import ComponentModel, KernelModel
    from rung.source import Document
    from rung.units import Unit

__all__ = ["CALLS", "Bindings", "Fault", "Group", "Rows", "Use", "called_as"]

Loc = tuple[str | int, ...]

CALLS: Final = {
    "cases": "(dtype, rng, /)",
    "probe": "(facts, /)",
    "detect": "(host, /)",
    "builder": "(spec, instance, platform, /)",
}
"""How the engine calls what is no kernel; a kernel and a reference are called as their op's signature allows."""

# Decorators known to leave the parameters as they are. Under any other a function is not judged: it may be anything.
_TRANSPARENT: Final = frozenset({
    "functools.cache",
    "functools.lru_cache",
    "staticmethod",
    "torch.compile",
    "torch.enable_grad",
    "torch.inference_mode",
    "torch.no_grad",
    "typing.final",
    "typing.no_type_check",
    "typing_extensions.deprecated",
    "warnings.deprecated",
})  # fmt: skip
_MAX_CLASSES: Final = 100
"""Classes above one that are looked at."""
_ORDER: Final = ("RG503", "RG803", "RG504", "RG502", "RG501")
"""Of several definitions of a name, none of which will do, the one that tells most is reported."""


class Use(NamedTuple):
    """One place that binds a path: what for, the calls that are made of it ("" when not known), and where."""

    path: str
    role: str
    call: str
    op: str
    document: Document
    loc: Loc
    unit: Unit
    row: KernelModel | ComponentModel | None = None
    backend: BackendEntry | None = None

    @property
    def where(self) -> Where:
        """The place of the path."""
        return self.document.where(self.loc)

    def cell(self, whole: Manifests) -> str:
        """Give the id of the first cell of the row, "" for what is no row."""
        if self.row is None or self.backend is None:
            return ""
        arch = getattr(self.row, "arch", None)
        device = self.row.device[0]
        place = f"{device}.{whole.target(device, arch[0])}" if arch else device
        return f"{self.backend.name}/{self.op}@{place}#{self.row.variant[0]}"


class Rows(NamedTuple):
    """Rows of one backend and op or kind that bind the same path: of thousands, few are ever asked for their place."""

    section: str
    role: str
    call: str
    backend: BackendEntry
    rows: list[tuple[str, int, KernelModel]] | list[tuple[str, int, ComponentModel]]

    def uses(self) -> Iterator[Use]:
        """Give them one by one."""
        document, unit = self.backend.document, self.backend.unit
        for op, index, row in self.rows:
            loc = (self.section, op, index, "impl")
            yield Use(row.impl, self.role, self.call, op, document, loc, unit, row, self.backend)


@dataclass(eq=False, slots=True)
class Group:
    """The places of one unit that bind the same path for the same calls. `first` is the one that was found first."""

    first: Use
    parts: list[Use | Rows] = field(default_factory=list)

    def uses(self) -> Iterator[Use]:
        """Give the places one by one."""
        for part in self.parts:
            if isinstance(part, Use):
                yield part
            else:
                yield from part.uses()


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a path. Faults of one `cause` are reported once in a unit, those without at every place.

    A hint that takes a search is made when it is asked for: of thousands of faults few are shown.
    """

    code: str
    message: str
    hint: str | Callable[[], str]
    related: tuple[tuple[Where, str], ...] = ()
    cause: str = ""

    @property
    def repair(self) -> str:
        """What to do about it."""
        return self.hint if isinstance(self.hint, str) else self.hint()


class Bindings:
    """Every path of the manifests, what each binds, and what is wrong with it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.modules = Modules(scene.path)
        alike: dict[tuple[str, str, str, int], Group] = {}
        for part in _parts(scene):
            use = part if isinstance(part, Use) else next(part.uses())
            alike.setdefault((use.path, use.role, use.call, id(use.unit)), Group(use)).parts.append(part)
        self.groups = [*alike.values()]
        self._judged: dict[tuple[str, str, str, frozenset[str]], Fault | None] = {}
        self._commented: dict[str, bool] = {}
        named: dict[int, set[str]] = {}
        for group in self.groups:
            named.setdefault(id(group.first.unit), set()).add(root_of(group.first.path))
        self._named = {unit: frozenset(roots) for unit, roots in named.items()}
        self._along = {id(unit) for unit in scene.whole.units if unit in scene.along}

    @classmethod
    def of(cls, scene: Scene) -> Bindings:
        """Give the bindings of a scene, judged once."""
        known = scene.whole.memo.get("bindings")
        if not isinstance(known, Bindings) or known.scene is not scene:
            known = scene.whole.memo["bindings"] = Bindings(scene)
        return known

    def roots(self, unit: Unit) -> frozenset[str]:
        """Give the packages a unit may bind: where nobody said so, those it names."""
        return self._named[id(unit)] if unit.roots is None else unit.roots

    @cached_property
    def unbound(self) -> frozenset[tuple[str, str, str, str]]:
        """The rows whose path has a fault, as section, op or kind, backend, and path; what came along has none."""
        return frozenset(
            (part.section, part.rows[0][0], part.backend.name, group.first.path)
            for group in self.groups
            if group.first.unit not in self.scene.along and self.fault(group.first) is not None
            for part in group.parts
            if isinstance(part, Rows)
        )

    def fault(self, use: Use) -> Fault | None:
        """Say what is wrong with what a use binds, whatever else is wrong with its place."""
        key = (use.path, use.role, use.call, self.roots(use.unit))
        if key not in self._judged:
            self._judged[key] = self._judge(*key) if root_of(use.path) in key[3] else None
        return self._judged[key]

    def sound(self, group: Group) -> list[Use]:
        """Give the places that are asked about and have no fault of their own yet."""
        if id(group.first.unit) in self._along:
            return []
        return [use for part in group.parts for use in self._sound(part)]

    def _sound(self, part: Use | Rows) -> Iterator[Use]:
        uses = iter((part,)) if isinstance(part, Use) else part.uses()
        return (use for use in uses if self.scene.is_sound(use.document, use.loc))

    def told(self, uses: Iterable[Use], code: str) -> list[Use]:
        """Give the places at which no comment silences a finding that is reported at one of them."""
        silences = self.scene.ignores.silences
        return [use for use in uses if not (self._has_comments(use.document) and silences(use.where, code))]

    def _has_comments(self, document: Document) -> bool:
        known = self._commented.get(document.path)
        if known is None:
            known = self._commented[document.path] = any("rung:" in line for line in document.lines)
        return known

    def _first_told(self, part: Use | Rows, code: str) -> tuple[Use | None, int]:
        """Give the first place at which a fault is to be told, and how many there are: rows are in the file's order."""
        if isinstance(part, Rows):
            document = part.backend.document
            if self.scene.is_sound(document, ()) and not self._has_comments(document):
                return next(part.uses()), len(part.rows)
        uses = self.told(self._sound(part), code)
        return (uses[0] if uses else None), len(uses)

    def faults(self) -> Iterator[tuple[Use, Fault, int]]:
        """Give every fault at its place; where a cause is reported once, with the number of other places."""
        once: dict[tuple[int, str, str], list[tuple[Use, Fault, int]]] = {}
        for group in self.groups:
            unit = id(group.first.unit)
            fault = self.fault(group.first) if unit not in self._along else None
            if fault is None:
                continue
            for part in group.parts:
                if fault.cause:
                    first, count = self._first_told(part, fault.code)
                    if first is not None:
                        once.setdefault((unit, fault.code, fault.cause), []).append((first, fault, count))
                else:
                    yield from ((use, fault, 0) for use in self._sound(part))
        for places in once.values():
            use, fault, _ = min(places, key=lambda place: place[0].where)
            yield use, fault, sum(count for *_, count in places) - 1

    def place(self, file: Path, line: int) -> Where:
        """Give a place in a Python file, relative to the root where it lies below it."""
        path = Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are
        try:
            return Where(path.relative_to(self.scene.root).as_posix(), max(1, line))
        except ValueError:
            return Where(path.as_posix(), max(1, line))

    def _judge(self, path: str, role: str, call: str, roots: frozenset[str]) -> Fault | None:
        name, _, attribute = path.partition(":")
        parts = name.split(".")
        module: Module | Missing = self.modules.find(parts[0])
        for end in range(1, len(parts) + 1):
            module = self.modules.find(".".join(parts[:end]))
            if isinstance(module, Missing):
                return self._missing(path, module)
            if module.names.fault:
                return self._broken(module)
        assert isinstance(module, Module)
        faults: list[Fault] = []
        for found in self.modules.resolve(module, attribute):
            fault = self._judge_found(path, module, found, role, call, roots)
            if fault is None:
                return None
            faults.append(fault)
        return min(faults, key=lambda fault: _ORDER.index(fault.code))

    def _missing(self, path: str, missing: Missing) -> Fault:
        name = shorten(missing.part)
        if not missing.parent:
            return Fault("RG501", f"package `{name}` is not found", partial(_nowhere, missing), cause=missing.part)
        parent = shorten(missing.parent)
        if not missing.is_package:
            owner = self.modules.find(missing.parent)
            is_name = isinstance(owner, Module) and missing.part in owner.names.bound
            name_there = missing.part if is_name else "NAME"
            hint = f"write `{missing.parent}:{name_there}`: what stands before the colon is a module"
            return Fault(
                "RG501", f"`{shorten(parent, 24)}` is no package: it has no module `{shorten(name, 18)}`", hint
            )
        message = f"package `{shorten(parent, 30)}` has no module `{shorten(name, 20)}`"
        return Fault("RG501", message, partial(did_you_mean, f"{missing.parent}.{missing.part}", missing.near))

    def _broken(self, module: Module) -> Fault:
        assert module.source is not None
        names = module.names
        message = f"module `{shorten(module.name, 24)}` cannot be parsed: {shorten(names.fault, 26)}"
        where = self.place(module.source, names.line)
        return Fault("RG502", message, f"repair {where}: {names.fault}", ((where, "here"),), module.name)

    def _judge_found(
        self, path: str, module: Module, found: Found, role: str, call: str, roots: frozenset[str]
    ) -> Fault | None:
        name, bound = path.partition(":")[2], module.name
        shown_name = f"`{shorten(name, 30)}`"
        related = ((self.place(found.file, found.line), "defined"),) if found.file is not None and found.line else ()
        is_outside = root_of(found.module) not in roots
        if found.kind == "module":
            hint = f"bind a function: `{bound if is_outside else found.module}:NAME`"
            return Fault(
                "RG504", f"`{shorten(name, 20)}` is the module `{shorten(found.module, 20)}`, not a function", hint
            )
        if is_outside:
            message = f"`{shorten(name, 18)}` is really from `{shorten(found.module, 20)}`, which is not allowed"
            return Fault("RG803", message, partial(self._let_in, bound, root_of(found.module)))
        if found.kind == "absent":
            return self._absent(name, module, found)
        if found.kind == "broken":
            broken = self.modules.find(found.module)
            return self._broken(broken) if isinstance(broken, Module) else None
        if found.kind == "unknown":
            return None
        what = found.what
        if found.kind == "value":
            return Fault(
                "RG504", f"{shown_name} is {what}, not a function", partial(_other_name, name, module), related
            )
        if found.kind == "class":
            return self._judge_class(shown_name, found, role, call, related)
        assert isinstance(found.made, Function)
        return self._judge_function(name, found, found.made, role, call, related)

    def _let_in(self, bound: str, root: str) -> str:
        """Say how to bind what is from a package that is not allowed; one that lies beside may well be meant."""
        hint, own = f"define a function in `{bound}` that calls it, and bind that", root_of(bound)
        return f"{hint}, or `--allow {own} --allow {root}`" if self.modules.is_beside(own, root) else hint

    def _absent(self, name: str, module: Module, found: Found) -> Fault:
        if found.module != module.name or found.name != name:
            return self._taken_from_nowhere(name, module, found)
        message = f"module `{shorten(module.name, 30)}` does not define `{shorten(name, 20)}`"
        return Fault("RG502", message, partial(_other_name, name, module))

    def _taken_from_nowhere(self, name: str, module: Module, found: Found) -> Fault:
        """Report a name that is imported from where it is not; binding it fails with that import."""
        message = f"`{shorten(name, 20)}` comes from `{shorten(found.module, 24)}`"
        related: tuple[tuple[Where, str], ...] = ()
        if found.file is not None and found.line:
            related = ((self.place(found.file, found.line), "taken"),)
        there = self.modules.find(found.module)
        if isinstance(there, Missing):
            hint = partial(did_you_mean, f"{there.parent}.{there.part}".lstrip("."), there.near)
            return Fault("RG502", f"{message}, which is not there", hint, related)
        return Fault("RG502", f"{message}, which has none", partial(_other_name, found.name, there), related)

    def _judge_class(
        self, shown_name: str, found: Found, role: str, call: str, related: tuple[tuple[Where, str], ...]
    ) -> Fault | None:
        made = found.made
        assert isinstance(made, Class)
        if role != "builder":
            if not self._gives_instances(found):
                return None
            return Fault("RG504", f"{shown_name} is a class, not a function", "bind a function that uses it", related)
        maker = made.init or made.new
        if made.is_decorated or made.has_keywords or (maker is not None and maker.decorators):
            return None
        if maker is None and any(base != ("object",) for base in made.bases):
            return None
        given = without_first(maker.signature) if maker is not None else Signature()
        reason = misfit(stub(call), given, made.name) if call else ""
        if not reason:
            return None
        return Fault("RG503", reason, called_as(role, call), related, f"{found.module}:{found.name}:{call}")

    def _gives_instances(self, found: Found) -> bool:
        """Say whether a call of a class certainly gives an instance of it: no metaclass or `__new__` has a say."""
        todo, seen = [found], {(found.module, found.name)}
        while todo:
            found = todo.pop()
            made, module = found.made, self.modules.find(found.module)
            if not isinstance(made, Class) or not isinstance(module, Module) or len(seen) > _MAX_CLASSES:
                return False
            if made.has_keywords or made.is_decorated or made.new is not None:
                return False
            for base in made.bases:
                if base == ("object",) and "object" not in module.names.bound:
                    continue
                answers = self.modules.named(module, base)
                if len(answers) != 1:
                    return False
                if (answers[0].module, answers[0].name) not in seen:
                    seen.add((answers[0].module, answers[0].name))
                    todo.append(answers[0])
        return True

    def _judge_function(
        self,
        name: str,
        found: Found,
        made: Function,
        role: str,
        call: str,
        related: tuple[tuple[Where, str], ...],
    ) -> Fault | None:
        owner = self.modules.find(found.module)
        if not isinstance(owner, Module) or not self.is_transparent(owner, made):
            return None
        shown_name = f"`{shorten(name, 30)}`"
        if made.is_async:
            hint = "make it a plain `def`: nothing awaits what it gives"
            return Fault("RG504", f"{shown_name} is a coroutine, not a function", hint, related)
        if role not in ("cases", "detect") and made.is_generator:
            hint = "return the result: a call of it does nothing yet"
            return Fault("RG504", f"{shown_name} is a generator, not a function", hint, related)
        reason = misfit(stub(call), made.signature, name) if call else ""
        if not reason:
            return None
        return Fault("RG503", reason, called_as(role, call), related, f"{found.module}:{found.name}:{call}")

    def is_transparent(self, module: Module, made: Function) -> bool:
        """Say whether the decorators of a function are known to leave its parameters as they are."""
        return all(self.modules.full_name(module, parts) in _TRANSPARENT for parts in made.decorators)


def _nowhere(missing: Missing) -> str:
    near = closest(missing.part, missing.near)
    hint = "run from the directory it lies in, name that with --root, or install it"
    return f"did you mean `{near}`? else {hint}" if near else hint


def _other_name(name: str, module: Module) -> str:
    """Give a hint at a name that a module has: any that is close, else its functions."""
    near = closest(name, (public for public in module.names.bound if not public.startswith("_")))
    functions = [known for known, _ in module.names.functions()]
    if near is not None and near != name:
        return f"did you mean `{near}`?"
    return did_you_mean(name, functions) if functions else f"define a function `{name}` there, or name another module"


def called_as(role: str, call: str) -> str:
    """Say how something will be called: the hint that repairs its parameters."""
    what = {
        "cases": "cases are called as",
        "probe": "a probe is called as",
        "detect": "a device's `detect` is called as",
        "builder": "a builder is called as",
    }.get(role, "the op is called as")
    return f"{what} `{shorten(shown(stub(call)), 300)}`"


def _parts(scene: Scene) -> Iterator[Use | Rows]:
    """Give every place that binds a path, rows that are alike together."""
    whole = scene.whole
    for device in whole.devices.values():
        if device.model.detect is not None and device.has("detect"):
            loc = (*device.loc, "detect")
            yield Use(device.model.detect, "detect", CALLS["detect"], "", device.document, loc, device.unit)
    signatures: dict[str, str] = {}
    for name, op in whole.ops.items():
        sound = op.has("signature") and scene.is_sound(op.document, (*op.loc, "signature"))
        signatures[name] = op.model.signature if sound else ""
        loc = (*op.loc, "reference")
        if op.has("reference"):
            yield Use(op.model.reference, "reference", signatures[name], name, op.document, loc, op.unit)
        if op.model.cases is not None and op.has("cases"):
            yield Use(op.model.cases, "cases", CALLS["cases"], name, op.document, (*op.loc, "cases"), op.unit)
    for backend in whole.backends.values():
        for (_, op_name), kernels in _alike("kernels", backend, backend.kernels).items():
            yield Rows("kernels", "kernel", signatures.get(op_name, ""), backend, kernels)
        for (_, kind), components in _alike("components", backend, backend.components).items():
            is_op = kind in whole.names("ops") and kind not in whole.names("kinds")  # in the wrong section
            yield Rows("components", "builder", "" if is_op else CALLS["builder"], backend, components)
    for node in atoms(whole, "probe"):
        inner = (*node.loc, "probe") if node.is_long else node.loc
        yield Use(str(node.model.probe), "probe", CALLS["probe"], "", node.document, inner, node.unit)


R = TypeVar("R", bound="KernelModel | ComponentModel")


def _alike(
    section: str, backend: BackendEntry, rows: Iterable[tuple[str, int, R]]
) -> dict[tuple[str, str], list[tuple[str, int, R]]]:
    """Sort rows by the path they bind and what they serve; those whose path was lost to a fault are left out."""
    lost = backend.lost
    found: dict[tuple[str, str], list[tuple[str, int, R]]] = {}
    for placed in rows:
        serves, index, row = placed
        if not lost or (section, serves, index, "impl") not in lost:
            found.setdefault((row.impl, serves), []).append(placed)
    return found
