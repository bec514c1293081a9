"""`rung new backend`: a manifest, a stub and a test to start a backend from, outside this repository.

Owns which names may be taken, which manifests the new one is to live with, and that either every file is written or
none; `rung.cli.scaffold` has the texts.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rung.cli.common import Config, common_flags, config_of, manifests_in, write, write_json
from rung.diagnostics import RungError, shorten
from rung.entries import ARRAYS, REFERENCE
from rung.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rung.cli.scaffold import Plan
    from rung.manifest import Manifests
    from rung.table import Table
    from rung.units import Unit

__all__ = ["add", "run"]

_OP: Final = "flow_match_step"
_DEVICE: Final = "cpu"
_SCHEMAS: Final = "schemas"
_TAKEN: Final = frozenset({REFERENCE, "local", "tests", _SCHEMAS})
"""Names that rung, or a directory beside the backend's, has already."""
_LONGEST: Final = 64
_WINDOWS: Final = re.compile(r"con|prn|aux|nul|com\d|lpt\d")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    new = commands.add_parser(
        "new", help="start a backend of your own", description="Write the files that something new starts with."
    )
    new.set_defaults(run=partial(_help, new))
    backend = new.add_subparsers(metavar="WHAT").add_parser(
        "backend",
        help="a manifest, stubs and a test",
        description="Write what a backend starts with: a manifest that rung accepts, functions with the right "
        "signatures that are still to be written, a test that compares them with the reference, and the schema of the "
        "workspace, by which an editor completes the manifest. Nothing else that exists is changed.",
        epilog="Example: rung new backend acme --op flow_match_step --device cuda --arch sm_90a",
    )
    backend.add_argument("name", metavar="NAME", help="its name, and that of its Python package")
    backend.add_argument(
        "--op", metavar="OP", action="append", default=[],
        help=f"an op it serves; repeatable (default, where no --kind is named: {_OP})",
    )  # fmt: skip
    backend.add_argument("--kind", metavar="KIND", action="append", default=[],
                         help="a kind of component it builds; repeatable")  # fmt: skip
    backend.add_argument("--device", metavar="DEVICE", action=_Once, help=f"what it runs on (default {_DEVICE})")
    backend.add_argument("--arch", metavar="ARCH", action=_Once,
                         help="what its code is built for; default: a portable target")  # fmt: skip
    backend.add_argument("--arrays", choices=ARRAYS, action=_Once,
                         help="what its functions take and give; default: the device's")  # fmt: skip
    backend.add_argument(
        "--manifests", metavar="PATH", action="append", default=[],
        help="manifests whose names it may use, besides the built-in ones; default: [tool.rung] manifests; repeatable",
    )  # fmt: skip
    common_flags(backend, ("text", "json"))
    backend.set_defaults(run=run)


class _Once(argparse.Action):
    """A flag with one value: another one is no correction, but a misunderstanding."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any) -> None:
        before = getattr(namespace, self.dest)
        if before not in (None, values):
            message = f"`{before}` and `{values}`: a backend starts with one; add rows for the other later"
            raise argparse.ArgumentError(self, message)
        setattr(namespace, self.dest, values)


def _help(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Say what there is to start: `rung new` alone starts nothing."""
    parser.print_help()
    return 2


def run(arguments: argparse.Namespace) -> int:
    """Write the files of a new backend, and say what to do next."""
    from rung.cli.scaffold import files
    from rung.compile import compile_manifests
    from rung.schemas import WORKSPACE

    config = config_of(arguments)
    schema = f"{_SCHEMAS}/{WORKSPACE}"
    workspace = _workspace(config, arguments.manifests, schema)
    whole = workspace.merged()
    if whole.problems.errors:
        shows = shlex.join(["rung", "check", *workspace.paths])
        raise RungError(f"the manifests it is to live with have errors: repair them first (`{shows}` shows them)")
    table = compile_manifests(whole)
    _judge_name(arguments.name, config.root, table)
    plan = _plan(arguments, table)
    packages = workspace.packages(whole)
    manifests = workspace.paths_with(plan.name)
    wanted = files(plan, schema, manifests, packages)
    _write(config.root, wanted, schema, partial(workspace.schema, plan.name))
    _report(arguments, plan, [*wanted, schema], _commands(plan, config, manifests, packages))
    return 0


@dataclass(frozen=True, slots=True)
class _Workspace:
    """The manifests that a new one is to live with: units, without rung's own where nobody named them."""

    root: Path
    units: tuple[Unit, ...]

    @property
    def paths(self) -> list[str]:
        from rung.schemas import relative

        return [relative(unit.path, self.root) for unit in self.units]

    def paths_with(self, name: str) -> list[str]:
        """Give the paths that name these manifests and those of a backend to come."""
        fresh = (self.root / name / "manifests").resolve()
        is_held = any(fresh.is_relative_to(unit.path.resolve()) for unit in self.units)
        return [*self.paths, *([] if is_held else [f"{name}/manifests"])]

    def merged(self, *more: Unit) -> Manifests:
        """Merge and check them, with rung's own."""
        from rung.load import builtin_unit
        from rung.manifest import merge
        from rung.rules import check

        own = builtin_unit(self.root)
        named = (*self.units, *more)
        whole = merge(named if any(_same(unit, own) for unit in named) else (own, *named))
        check(whole)
        return whole

    def packages(self, whole: Manifests) -> list[str]:
        """Give the top-level packages that they bind, besides rung's own."""
        from rung.bind import root_of
        from rung.load import BUILTIN_ROOTS
        from rung.rules.safety import paths

        return sorted({root_of(path) for path, _, _ in paths(whole)} - BUILTIN_ROOTS)

    def schema(self, name: str) -> str:
        """Give the schema of these manifests and those of a backend that has been written."""
        from rung.load import units_of
        from rung.schemas import WORKSPACE, texts

        fresh = units_of([self.root / name / "manifests"], None, self.root)
        fresh = [unit for unit in fresh if not any(_lies_in(unit, other) for other in self.units)]
        return texts(self.merged(*fresh), [*self.units, *fresh], self.root / _SCHEMAS)[WORKSPACE]


def _workspace(config: Config, named: Sequence[str], schema: str) -> _Workspace:
    """Give the manifests that are named, else configured, and those that the schema goes on to serve.

    Those are what it was made from. What is not named may be missing, or still without a manifest.
    """
    from rung.load import units_of
    from rung.schemas import read_schema

    root = config.root.resolve()
    written = read_schema(config.root / schema)
    units = units_of(manifests_in(config, named), None, config.root) if named else []
    likely = [] if named else manifests_in(config, ())
    likely += [str(path) for path in (written.made_from if written else ()) if path.is_relative_to(root)]
    for path in likely:
        with suppress(RungError):
            units += units_of(manifests_in(config, [path]), None, config.root)
    kept: list[Unit] = []
    for unit in sorted(units, key=lambda unit: len(unit.path.resolve().parts)):
        if not any(_lies_in(unit, other) for other in kept):
            kept.append(unit)
    return _Workspace(config.root, tuple(unit for unit in units if unit in kept))


def _same(one: Unit, other: Unit) -> bool:
    return one.path.resolve() == other.path.resolve()


def _lies_in(unit: Unit, other: Unit) -> bool:
    return unit.path.resolve().is_relative_to(other.path.resolve())


def _judge_name(name: str, root: Path, table: Table) -> None:
    """Raise RungError when a name cannot be a backend's and a package's."""
    from rung.source import is_plain

    shown = shorten(name)
    if len(name) > _LONGEST:
        raise RungError(f"`{shown}` has {len(name)} characters: a name has at most {_LONGEST}")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        hint = f": did you mean `{near}`?" if re.fullmatch(r"[a-z][a-z0-9_]{0,63}", near) else ""
        raise RungError(f"`{shown}` is no name: it starts with one of a-z, and goes on with a-z, 0-9 and _{hint}")
    if iskeyword(name) or _WINDOWS.fullmatch(name):
        owner = "Python" if iskeyword(name) else "Windows"
        raise RungError(f"`{name}` means something else to {owner}: choose another name")
    if not is_plain(name):
        raise RungError(f"`{name}` is no name to YAML, which reads another value: choose another name")
    if name in table.backends:
        raise RungError(f"a backend is called `{name}` already ({table.backends[name].where}): choose another name")
    if name in _TAKEN:
        raise RungError(f"`{name}` is a reserved name: choose another name")
    for path in (root / name, root / f"{name}.py"):
        if path.exists():
            raise RungError(f"{path.as_posix()} exists already: nothing is written; choose another name or --root")
    if _is_importable(name):
        raise RungError(f"`{name}` is a Python package already, which yours would hide: choose another name")


def _is_importable(name: str) -> bool:
    """Say whether a top-level package or module of this name is installed. Imports nothing."""
    if name in sys.stdlib_module_names:
        return True
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return name in sys.modules
    return spec is not None and spec.origin is not None  # a bare directory on the path is no package


def _plan(arguments: argparse.Namespace, table: Table) -> Plan:
    """Turn flags into what is to be written; raise RungError, with a suggestion, for a name nobody declares."""
    from rung.cli.scaffold import plan
    from rung.lattice import read_target

    kinds = [table.kind(kind) for kind in dict.fromkeys(arguments.kind)]
    ops = [table.op(op) for op in dict.fromkeys(arguments.op or ([] if kinds else [_OP]))]
    device = table.device(arguments.device or _DEVICE)
    arch = None if arguments.arch is None else read_target(device, arguments.arch)
    if arch is not None and not ops:
        raise RungError("--arch says what a kernel is built for: components have none; add --op, or leave it out")
    arrays = arguments.arrays or device.arrays[0]
    if arrays not in device.arrays:
        raise RungError(f"callers on `{device.name}` hold {' or '.join(device.arrays)}, not {arrays}")
    return plan(table, arguments.name, device, arch, arrays, ops, kinds)


def _write(root: Path, files: Mapping[str, str], schema: str, schema_text: Callable[[], str]) -> None:
    """Write files below `root`, and the schema of what was written then, all or none.

    Raise RungError when one of the files exists, or would come to lie elsewhere. A schema of ours is written anew.
    """
    from rung.schemas import read_schema

    written = read_schema(root / schema)
    new = [*files] if written is not None and written.is_marked else [*files, schema]
    existing = [path for path in new if (root / path).exists() or (root / path).is_symlink()]
    if existing:
        raise RungError(f"{', '.join(existing)} exists already: nothing is written")
    for name in (*files, schema):
        if not _is_below(root / name, root):
            raise RungError(f"{name} would be written through a link that leads out of {root}: nothing is written")
    made: list[Path] = []
    try:
        for name, text in files.items():
            _make_folders(root / name, made)
            with (root / name).open("x", encoding="utf-8", newline="\n") as stream:
                made.append(root / name)
                stream.write(text)
        text = schema_text()
        _make_folders(root / schema, made)
        replace_file(root / schema, text.encode())
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise


def _is_below(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # a loop of links is the latter up to Python 3.12
        return False


def _make_folders(path: Path, made: list[Path]) -> None:
    for folder in reversed([parent for parent in path.parents if not parent.exists()]):
        folder.mkdir()
        made.append(folder)


def _commands(plan: Plan, config: Config, manifests: Sequence[str], packages: Sequence[str]) -> list[str]:
    """Give the commands that come next, to be called in the root."""
    allowed = [word for name in (plan.name, *packages) if name not in config.allow for word in ("--allow", name)]
    explained = [(plan.ops or plan.kinds)[0].name, *(word for path in manifests for word in ("--manifests", path))]
    asked = ["--device", plan.device.name, "--arrays", plan.arrays]
    asked += ["--variant", plan.variant] if plan.variant != "default" else []
    return [
        # Where nothing is allowed, `rung check`, which imports nothing, lets every package pass.
        shlex.join(["rung", "check", "--strict", *manifests, *(allowed if config.allow else ())]),
        f"python -m pytest tests/test_{plan.name}.py",
        shlex.join(["rung", "explain", *explained, *allowed, *asked]),
    ]


def _report(arguments: argparse.Namespace, plan: Plan, written: Sequence[str], commands: Sequence[str]) -> None:
    """Say what was written and which commands come next."""
    if arguments.format == "json":
        write_json(arguments, {"format_version": 1, "written": written, "next": commands})
        return
    abouts = ("finds every mistake in the manifest", "fails until the functions are right", "shows what serves here")
    where = "" if arguments.root == "." else f" in {Path(arguments.root).as_posix()}"
    width = max(map(len, commands[:2]))
    lines = [f"wrote {path}" for path in written]
    lines += ["", f"next{where}:"]
    lines += [f"  {command:<{width}}  # {about}" for command, about in zip(commands, abouts, strict=True)]
    write(arguments, "\n".join(lines))
