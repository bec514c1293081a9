"""`rung new backend`: a manifest, a stub and a test to start a backend from, outside this repository.

Owns which names may be taken, and that either every file is written or none; `rung.cli.scaffold` has the texts.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from contextlib import suppress
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rung.cli.common import common_flags, config_of, write, write_json
from rung.diagnostics import RungError, shorten
from rung.entries import ARRAYS, REFERENCE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from rung.cli.scaffold import Plan
    from rung.table import Table

__all__ = ["add", "run"]

_OP: Final = "flow_match_step"
_DEVICE: Final = "cpu"
_SCHEMAS: Final = "schemas"
_TAKEN: Final = frozenset({REFERENCE, "local", "tests", _SCHEMAS})
"""Names that rung, or a directory beside the backend's, has already."""
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
        "signatures that are still to be written, a test that compares them with the reference, and the schema that an "
        "editor completes the manifest by. Nothing that exists is changed.",
        epilog="Example: rung new backend acme --op flow_match_step --device cuda --arch sm_90a",
    )
    backend.add_argument("name", metavar="NAME", help="its name, and that of its Python package")
    backend.add_argument(
        "--op", metavar="OP", action="append", default=[],
        help=f"an op it serves; repeatable (default, where no --kind is named: {_OP})",
    )  # fmt: skip
    backend.add_argument("--kind", metavar="KIND", action="append", default=[],
                         help="a kind of component it builds; repeatable")  # fmt: skip
    backend.add_argument("--device", metavar="DEVICE", default=_DEVICE, help=f"what it runs on (default {_DEVICE})")
    backend.add_argument("--arch", metavar="ARCH", help="what its code is built for; default: a portable target")
    backend.add_argument("--arrays", choices=ARRAYS, help="what its functions take and give; default: the device's")
    common_flags(backend, ("text", "json"))
    backend.set_defaults(run=run)


def _help(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Say what there is to start: `rung new` alone starts nothing."""
    parser.print_help()
    return 2


def run(arguments: argparse.Namespace) -> int:
    """Write the files of a new backend, and say what to do next."""
    from rung.cli.scaffold import files
    from rung.compile import compile_manifests
    from rung.load import builtin_unit
    from rung.manifest import merge
    from rung.schemas import MANIFEST, texts

    root = config_of(arguments).root
    whole = merge([builtin_unit()])
    table = compile_manifests(whole)
    _judge_name(arguments.name, root, table)
    plan = _plan(arguments, table)
    schema = f"{_SCHEMAS}/{MANIFEST}"
    wanted = dict(files(plan, schema))
    if not _is_schema(root / schema):  # another backend's serves this one too; `rung check` says when it is stale
        wanted[schema] = texts(whole, root / _SCHEMAS)[MANIFEST]
    _write(root, wanted)
    _report(arguments, plan, list(wanted))
    return 0


def _judge_name(name: str, root: Path, table: Table) -> None:
    """Raise RungError when a name cannot be a backend's and a package's."""
    shown = shorten(name)
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        hint = f": did you mean `{near}`?" if re.fullmatch(r"[a-z][a-z0-9_]{0,63}", near) else ""
        raise RungError(f"`{shown}` is no name: it starts with one of a-z, and goes on with a-z, 0-9 and _{hint}")
    if iskeyword(name) or _WINDOWS.fullmatch(name):
        owner = "Python" if iskeyword(name) else "Windows"
        raise RungError(f"`{name}` means something else to {owner}: choose another name")
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
    device = table.device(arguments.device)
    arch = None if arguments.arch is None else read_target(device, arguments.arch)
    if arch is not None and not ops:
        raise RungError("--arch says what a kernel is built for: components have none; add --op, or leave it out")
    arrays = arguments.arrays or device.arrays[0]
    if arrays not in device.arrays:
        raise RungError(f"callers on `{device.name}` hold {' or '.join(device.arrays)}, not {arrays}")
    return plan(table, arguments.name, device, arch, arrays, ops, kinds)


def _is_schema(path: Path) -> bool:
    """Say whether a file is a schema that rung wrote."""
    try:
        return "Generated by `rung schema`" in path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _write(root: Path, files: Mapping[str, str]) -> None:
    """Write files below `root`, all or none; raise RungError when one of them exists."""
    existing = [path for path in files if (root / path).exists() or (root / path).is_symlink()]
    if existing:
        raise RungError(f"{', '.join(existing)} exists already: nothing is written")
    made: list[Path] = []
    try:
        for name, text in files.items():
            path = root / name
            for folder in reversed([parent for parent in path.parents if not parent.exists()]):
                folder.mkdir()
                made.append(folder)
            with path.open("x", encoding="utf-8", newline="\n") as stream:
                made.append(path)
                stream.write(text)
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise


def _report(arguments: argparse.Namespace, plan: Plan, written: list[str]) -> None:
    """Say what was written and which commands come next, to be called in the root."""
    manifests = f"{plan.name}/manifests"
    served = (plan.ops or plan.kinds)[0].name
    variant = f" --variant {plan.variant}" if plan.variant != "default" else ""
    explained = f"{served} --manifests {manifests} --allow {plan.name}"
    commands = [
        f"rung check --strict {manifests}",
        f"python -m pytest tests/test_{plan.name}.py",
        f"rung explain {explained} --device {plan.device.name} --arrays {plan.arrays}{variant}",
    ]
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
