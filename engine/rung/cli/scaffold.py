"""The files a new backend starts with: a manifest that teaches, stubs that refuse, a test that fails until they do not.

Owns their texts, and the choices that make a first manifest clean. Validates nothing and writes nothing.
"""

from __future__ import annotations

import ast
import json
import shlex
import textwrap
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Final

from rung.entries import DEFAULT, GENERIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rung.entries import Device, Kind, Op
    from rung.table import Table

__all__ = ["Plan", "files", "plan"]

_CPU: Final = "cpu"
_WIDTH: Final = 100
_ARRAY_TYPES: Final = {"numpy": "Array", "torch": "Tensor"}
_TRITON: Final = "triton"  # the one portable target that asks for a package of its own


@dataclass(frozen=True, slots=True)
class Plan:
    """What a new backend is to be: `requires` and `when` are conditions as a manifest writes them, "" for none.

    `arch` and `needs` are for kernels alone: what they are built for, and what that asks besides `when`.
    """

    name: str
    device: Device
    arch: str
    variant: str
    arrays: str
    requires: str
    when: str
    needs: str
    ops: tuple[Op, ...]
    kinds: tuple[Kind, ...]


def plan(
    table: Table, name: str, device: Device, arch: str | None, arrays: str, ops: Iterable[Op], kinds: Iterable[Kind]
) -> Plan:
    """Choose an arch where none is named, and conditions and a variant with which the manifest has no finding."""
    wanted, kinds = tuple(ops), tuple(kinds)
    portable = (*device.portable, GENERIC)
    if arch is None:
        fits = ("numpy", GENERIC) if arrays == "numpy" else tuple(target for target in portable if target != "numpy")
        arch = next(target for target in portable if target in fits)
    when = "" if device.detect is None or device.name == _CPU else f"{{device: {device.name}}}"
    if when and f"{arrays}_{device.name}" in table.named:
        when = f"{arrays}_{device.name}"
    needs = "{module: triton}" if arch == _TRITON else ""
    requires = f"{arrays}_present" if f"{arrays}_present" in table.named else ""
    others = [
        cell
        for op in wanted
        for cell in table.kernels[op.name]
        if (cell.device, cell.variant) == (device.name, DEFAULT) and not cell.is_reference
    ]
    # Of two portable kernels that ask the same, one would never be chosen: this one is asked for by its own name.
    rivals = {cell.arch for cell in others if cell.arrays == arrays and cell.arch in portable}
    is_spare = any(cell.arch == arch for cell in others) or bool(rivals and arch in portable and arch != _TRITON)
    built = {cell.device for kind in kinds for cell in table.components[kind.name] if cell.variant == DEFAULT}
    variant = name if is_spare or device.name in built else DEFAULT
    return Plan(name, device, arch, variant, arrays, requires, when, needs, wanted, kinds)


def files(plan: Plan, schema: str, manifests: Sequence[str] = (), packages: Sequence[str] = ()) -> Mapping[str, str]:
    """Give the texts of a new backend by path, parts joined by `/`; `schema` is the path of the manifest's schema.

    `manifests` are the paths of all manifests it is tried with, by default its own, `packages` what others bind.
    """
    name = plan.name
    out = {f"{name}/__init__.py": f'"""Kernels and components of {name}. Importing this imports nothing else."""\n'}
    if plan.ops:
        out[f"{name}/kernels.py"] = _kernels(plan)
    if plan.kinds:
        out[f"{name}/components.py"] = _components(plan)
    out[f"{name}/manifests/{name}.yaml"] = _manifest(plan, schema, manifests)
    out[f"tests/test_{name}.py"] = _test(plan, manifests, packages)
    return out


# --- The manifest


def _manifest(plan: Plan, schema: str, manifests: Sequence[str]) -> str:
    paths = shlex.join(manifests or [f"{plan.name}/manifests"])
    name, device = plan.name, plan.device.name
    lines = [
        f"# yaml-language-server: $schema=../../{schema}",
        f"# What {name} serves. rung reads this file to choose, and imports of {name} only what it has chosen.",
        f"# `rung check --strict {paths}` finds every mistake in it; `rung rule CODE` explains one.",
        "manifest: 1",
        f"backend: {name}",
        "",
        "# What the functions take and give: numpy or torch.",
        f"arrays: {plan.arrays}",
        "",
    ]
    if plan.requires:
        lines += [
            "# What must hold for every row below, besides its own `when`.",
            f"requires: {plan.requires}",
            "",
        ]
    lines += [
        f"# What to do when {name} is what is missing: shown wherever a row of it is passed over.",
        f'hint: "pip install {name.replace("_", "-")}"',
    ]
    if plan.ops:
        lines += [
            "",
            "# One row for each way to serve an op. `rung matrix` lists the ops there are.",
            "kernels:",
            *_rows(plan, [(op.name, f"{name}.kernels:{function_name(op.name)}") for op in plan.ops], is_op=True),
        ]
    if plan.kinds:
        lines += [
            "",
            f"# Builders of the parts of a model on {device}.",
            "components:",
            *_rows(plan, [(kind.name, f"{name}.components:build_{kind.name}") for kind in plan.kinds], is_op=False),
        ]
    return "\n".join(lines) + "\n"


def _rows(plan: Plan, served: list[tuple[str, str]], *, is_op: bool) -> list[str]:
    """Give a row for each op or kind; the first explains itself."""
    lines: list[str] = []
    for position, (name, impl) in enumerate(served):
        row: list[tuple[str, str, str]] = [("device", plan.device.name, "the family of devices it is for")]
        if is_op:
            row.append(("arch", plan.arch, _about_arch(plan)))
        if plan.variant != DEFAULT:
            row.append(("variant", plan.variant, "asked for by this name, and not served otherwise"))
        row.append(("impl", f'"{impl}"', "module:function"))
        conditions = [condition for condition in (plan.when, plan.needs if is_op else "") if condition]
        when = f"[{', '.join(conditions)}]" if len(conditions) > 1 else "".join(conditions)
        if when:
            row.append(("when", when, "what must hold, else the row is passed over: `rung explain` says why"))
        explained = position == 0 and (is_op or not plan.ops)
        lines.append(f"  {name}:")
        width = max(len(key) + len(value) for key, value, _ in row) + 3
        for key, value, about in row:
            mark = "    - " if key == "device" else "      "
            text = f"{key}: {value}"
            lines.append(f"{mark}{text:<{width}} # {about}" if explained else f"{mark}{text}")
        if explained and not when:
            lines.append('      # when: {python: ">=3.12"}  # would pass the row over where that does not hold')
    return lines


def _about_arch(plan: Plan) -> str:
    device = plan.device.name
    if plan.arch in (*plan.device.portable, GENERIC):
        return f"portable: runs on every {device}, after what was built for one arch"
    return f"what the code was built for: see `rung ladder {device} ARCH`"


# --- The stubs


def function_name(op: str) -> str:
    """Give the name of the function that serves an op; a keyword of Python cannot be one."""
    return f"{op}_" if iskeyword(op) else op


def _kernels(plan: Plan) -> str:
    library = plan.arrays
    array = "tensors" if library == "torch" else "numpy arrays"
    imports = "from torch import Tensor"
    if library == "numpy":
        imports = "from typing import Any\n\nfrom numpy.typing import NDArray"
    alias = "Array = NDArray[Any]\n\n" if library == "numpy" else ""
    names = ", ".join(f'"{name}"' for name in sorted(function_name(op.name) for op in plan.ops))
    head = (
        f'"""Kernels of {plan.name} for {plan.device.name}. Each serves the op of its name, and takes {array}.\n\n'
        f"A kernel changes no argument, and gives what its op's reference gives, within the op's tolerance:\n"
        f'tests/test_{plan.name}.py compares the two.\n"""\n\nfrom __future__ import annotations\n\n'
        f"{imports}\n\n__all__ = [{names}]\n\n{alias}"
    )
    return head + "\n".join(_kernel(plan, op) for op in plan.ops)


def _kernel(plan: Plan, op: Op) -> str:
    name = function_name(op.name)
    about = f"The reference, which says what is asked: `{op.reference.replace(':', '.')}`."
    return (
        f"\n{stub(name, op.signature, _ARRAY_TYPES[plan.arrays])}\n"
        f'    """{_quoted(op.summary)}\n\n    {about}\n    """\n'
        f'    raise NotImplementedError("write {plan.name}.kernels.{name}")\n'
    )


def stub(name: str, signature: str, array: str) -> str:
    """Give the head of a function with an op's signature, arrays annotated as `array`."""
    (function,) = ast.parse(f"def {name}{signature}: ...").body
    assert isinstance(function, ast.FunctionDef)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == "array":
            node.id = array
    head = ast.unparse(function).partition("\n")[0].removesuffix(":").removesuffix(": ...")
    if len(head) < _WIDTH:
        return f"{head}:"
    arguments = function.args
    function.args = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    result = ast.unparse(function).partition("\n")[0].partition(" -> ")[2]
    lines = "".join(f"    {argument},\n" for argument in _arguments(arguments))
    return f"def {name}(\n{lines}) -> {result}"


def _arguments(arguments: ast.arguments) -> Iterable[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    for position, (argument, default) in enumerate(zip(positional, defaults, strict=True), 1):
        yield _argument(argument, default)
        if position == len(arguments.posonlyargs):
            yield "/"
    if arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default)


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + ("" if default is None else f" = {ast.unparse(default)}")


def _components(plan: Plan) -> str:
    names = ", ".join(sorted(f'"build_{kind.name}"' for kind in plan.kinds))
    head = (
        f'"""Builders of {plan.name} for {plan.device.name}: each gives one part of a model, with its weights.\n\n'
        "`spec` says which part (`spec.kind`, `spec.options`), `instance` of what (`instance.data`), and `platform`\n"
        f'where it is to live (`platform.device`).\n"""\n\n'
        f"from __future__ import annotations\n\nfrom typing import Any\n\n__all__ = [{names}]\n\n"
    )
    return head + "\n".join(
        f"\ndef build_{kind.name}(spec: Any, instance: Any, platform: Any) -> Any:\n"
        f'    """Build the {kind.name} of a model.\n\n    {_quoted(kind.summary)}\n    """\n'
        f'    raise NotImplementedError("write {plan.name}.components.build_{kind.name}")\n'
        for kind in plan.kinds
    )


def _quoted(text: str) -> str:
    """Give a text as it stands in the docstring of a function."""
    one_line = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    wrapped = textwrap.fill(one_line, _WIDTH, break_long_words=False).replace("\n", "\n    ")
    return f"{wrapped} " if wrapped.endswith('"') else wrapped


# --- The test


def _test(plan: Plan, manifests: Sequence[str], packages: Sequence[str]) -> str:
    what = " and ".join(
        [*(["the kernels with their references"] if plan.ops else []), *(["the builders"] if plan.kinds else [])]
    )
    more = (
        f"\n\nThe kernels have a test for each dtype and one for gradients where pytest's configuration says\n"
        f'`rung_backend = ["{plan.name}"]` and rung finds the manifests: installed, or by `[tool.rung]`.\n'
        if plan.ops
        else ""
    )
    imports = "import pytest\nimport rung\n" + ("from rung.parity import parity\n" if plan.ops else "")
    text = (
        f'"""Tries {plan.name} on this machine: {what}. What cannot run is skipped.{more}"""\n\n'
        "from __future__ import annotations\n\nfrom pathlib import Path\n\n"
        f"{imports}\nROOT = Path(__file__).parents[1]\n\n\n"
        "@pytest.fixture\n"
        "def table(monkeypatch: pytest.MonkeyPatch) -> rung.Table:\n"
        "    monkeypatch.syspath_prepend(str(ROOT))\n"
        f"{_load(plan, manifests, packages)}"
    )
    if plan.ops:
        text += f"""

@pytest.mark.parametrize("op", [{", ".join(f'"{op.name}"' for op in plan.ops)}])
def test_each_kernel_agrees_with_the_reference(op: str, table: rung.Table) -> None:
    outcomes = list(parity(backend="{plan.name}", op=op, table=table))
    failed = [f"{{o.cell}} {{o.dtype}}: {{o.detail}}" for o in outcomes if o.status == "failed"]
    assert not failed, "\\n".join(failed)
    if not any(o.status == "passed" for o in outcomes):
        pytest.skip("; ".join(f"{{o.cell}}: {{o.detail}}" for o in outcomes))
"""
    if plan.kinds:
        text += f"""

@pytest.mark.parametrize("kind", [{", ".join(f'"{kind.name}"' for kind in plan.kinds)}])
def test_each_builder_gives_a_component(kind: str, table: rung.Table) -> None:
{_platform(plan)}
    found = platform.resolve_component(kind, "{plan.variant}")
    if found.cell is None or found.cell.backend != "{plan.name}":
        pytest.skip(str(found))
    spec = rung.ComponentSpec(id=kind, kind=kind, factory=lambda instance: None)
    instance = rung.ModelInstance(platform, [spec])  # what the builder reads comes in by `options=` and `data=`
    assert instance.component(kind, "{plan.variant}") is not None
"""
    return text


def _load(plan: Plan, manifests: Sequence[str], packages: Sequence[str]) -> str:
    if not manifests or list(manifests) == [f"{plan.name}/manifests"]:
        return f'    return rung.load([ROOT / "{plan.name}" / "manifests"], allow=["{plan.name}"])\n'
    paths = "".join(f"        ROOT / {json.dumps(path)},\n" for path in manifests)
    allowed = "".join(f'        "{package}",\n' for package in (plan.name, *packages))
    lists = f"    manifests = [\n{paths}    ]\n    allowed = [\n{allowed}    ]\n"
    return f"{lists}    return rung.load(manifests, allow=allowed)\n"


def _platform(plan: Plan) -> str:
    device, arrays = plan.device.name, plan.arrays
    if plan.device.detect is None:
        call = f'rung.Platform.of("{device}", "{GENERIC}", arrays="{arrays}", table=table)'
    else:
        call = f'rung.detect(device="{device}", arrays="{arrays}", table=table)'
    if device == _CPU or plan.device.detect is None:
        return f"    platform = {call}"
    return (
        f"    try:\n        platform = {call}\n"
        "    except rung.DeviceNotFound as error:\n        pytest.skip(str(error))"
    )
