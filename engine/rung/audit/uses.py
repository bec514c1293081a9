"""Every path of the manifests, and what is wrong with what it binds, judged without importing it.

Owns what each path of a manifest is for, how it will be called, and the judgement of what `rung.audit.modules` finds
at its end. What reading cannot tell is left to `rung.audit.imports`.

Note [One fault, one finding]: a path is judged in the order in which binding it would fail: module, name, home, kind,
parameters. The first fault is the finding. A fault of a Python file that several rows bind is reported at the first of
them, a path that must be rewritten in each row at each row.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rung.audit.modules import Found, Missing, Module, Modules
from rung.audit.signatures import misfit, shown, signature_of, stub
from rung.bind import root_of
from rung.diagnostics import Where, closest, did_you_mean, shorten
from rung.rules.expressions import atoms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.audit.scene import Scene
    from rung.manifest import BackendEntry, Manifests, Unit
    from rung.models import ComponentModel, KernelModel
    from rung.source import Document

__all__ = ["CALLS", "Bindings", "Fault", "Use", "called_as", "yields"]

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
        alike: dict[tuple[str, str, str, int], list[Use]] = {}
        for use in _uses(scene):
            alike.setdefault((use.path, use.role, use.call, id(use.unit)), []).append(use)
        self.groups = [*alike.values()]
        """The places, those together that bind the same path for the same calls in one unit."""
        self._judged: dict[tuple[str, str, str, frozenset[str]], Fault | None] = {}
        named: dict[int, set[str]] = {}
        for use, *_ in self.groups:
            named.setdefault(id(use.unit), set()).add(root_of(use.path))
        self._named = {unit: frozenset(roots) for unit, roots in named.items()}
        self._along = {id(unit) for unit in scene.whole.units if unit in scene.along}

    @property
    def uses(self) -> Iterator[Use]:
        """Every place that binds a path."""
        return (use for group in self.groups for use in group)

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

    def fault(self, use: Use) -> Fault | None:
        """Say what is wrong with what a use binds, whatever else is wrong with its place."""
        key = (use.path, use.role, use.call, self.roots(use.unit))
        if key not in self._judged:
            self._judged[key] = self._judge(*key) if root_of(use.path) in key[3] else None
        return self._judged[key]

    def sound(self, group: list[Use]) -> list[Use]:
        """Give the places that are asked about and have no fault of their own yet."""
        if id(group[0].unit) in self._along:
            return []
        return [use for use in group if self.scene.is_sound(use.document, use.loc)]

    def faults(self) -> Iterator[tuple[Use, Fault, int]]:
        """Give every fault at its place; where a cause is reported once, with the number of other places."""
        once: dict[tuple[int, str, str], list[tuple[Use, Fault]]] = {}
        for group in self.groups:
            if id(group[0].unit) in self._along:
                continue
            fault = self.fault(group[0])
            for use in self.sound(group) if fault is not None else ():
                assert fault is not None
                if fault.cause:
                    once.setdefault((id(use.unit), fault.code, fault.cause), []).append((use, fault))
                else:
                    yield use, fault, 0
        for places in once.values():
            use, fault = min(places, key=lambda pair: pair[0].where)
            yield use, fault, len(places) - 1

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
            return Fault("RG803", message, f"define a function in `{bound}` that calls it, and bind that")
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
        assert isinstance(found.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        return self._judge_function(name, found, found.node, role, call, related)

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
        node = found.node
        assert isinstance(node, ast.ClassDef)
        if role != "builder":
            return Fault("RG504", f"{shown_name} is a class, not a function", "bind a function that uses it", related)
        makers = {s.name: s for s in node.body if isinstance(s, ast.FunctionDef) and s.name in ("__init__", "__new__")}
        maker = makers.get("__init__") or makers.get("__new__")
        if node.decorator_list or node.keywords or (maker is not None and maker.decorator_list):
            return None
        if maker is None:
            if any(not (isinstance(base, ast.Name) and base.id == "object") for base in node.bases):
                return None
            maker = ast.parse("def __init__(self): ...").body[0]  # type: ignore[assignment]
        assert isinstance(maker, ast.FunctionDef)
        reason = misfit(stub(call), signature_of(maker, bound=True), node.name)
        if not reason:
            return None
        return Fault("RG503", reason, called_as(role, call), related, f"{found.module}:{found.name}:{call}")

    def _judge_function(
        self,
        name: str,
        found: Found,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        role: str,
        call: str,
        related: tuple[tuple[Where, str], ...],
    ) -> Fault | None:
        owner = self.modules.find(found.module)
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        if not isinstance(owner, Module) or not all(self.is_transparent(owner, d) for d in decorators):
            return None
        shown_name = f"`{shorten(name, 30)}`"
        if isinstance(node, ast.AsyncFunctionDef):
            hint = "make it a plain `def`: nothing awaits what it gives"
            return Fault("RG504", f"{shown_name} is a coroutine, not a function", hint, related)
        if role not in ("cases", "detect") and yields(node):
            hint = "return the result: a call of it does nothing yet"
            return Fault("RG504", f"{shown_name} is a generator, not a function", hint, related)
        reason = misfit(stub(call), signature_of(node), name) if call else ""
        if not reason:
            return None
        return Fault("RG503", reason, called_as(role, call), related, f"{found.module}:{found.name}:{call}")

    def is_transparent(self, module: Module, decorator: ast.expr) -> bool:
        """Say whether a decorator is known to leave the parameters as they are."""
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        return self.modules.dotted(module, called) in _TRANSPARENT


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


def yields(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Say whether a function is a generator: functions inside it do not count."""
    todo: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
    while todo:
        inner = todo.pop()
        if isinstance(inner, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(inner)
    return False


def _uses(scene: Scene) -> Iterator[Use]:
    """Give every place that binds a path."""
    whole = scene.whole
    for device in whole.devices.values():
        if device.model.detect is not None:
            loc = (*device.loc, "detect")
            yield Use(device.model.detect, "detect", CALLS["detect"], "", device.document, loc, device.unit)
    signatures: dict[str, str] = {}
    for name, op in whole.ops.items():
        sound = scene.is_sound(op.document, (*op.loc, "signature"))
        signatures[name] = op.model.signature if sound else ""
        loc = (*op.loc, "reference")
        yield Use(op.model.reference, "reference", signatures[name], name, op.document, loc, op.unit)
        if op.model.cases is not None:
            yield Use(op.model.cases, "cases", CALLS["cases"], name, op.document, (*op.loc, "cases"), op.unit)
    for backend in whole.backends.values():
        document, unit, lost = backend.document, backend.unit, backend.lost
        for op_name, index, kernel in backend.kernels:
            loc = ("kernels", op_name, index, "impl")
            if not lost or loc not in lost:
                call = signatures.get(op_name, "")
                yield Use(kernel.impl, "kernel", call, op_name, document, loc, unit, kernel, backend)
        for kind, index, component in backend.components:
            loc = ("components", kind, index, "impl")
            if not lost or loc not in lost:
                call = CALLS["builder"]
                yield Use(component.impl, "builder", call, kind, document, loc, unit, component, backend)
    for node in atoms(whole, "probe"):
        inner = (*node.loc, "probe") if node.document.node(node.loc).values is not None else node.loc
        yield Use(str(node.model.probe), "probe", CALLS["probe"], "", node.document, inner, node.unit)
