"""What Python modules define, found by path and read with `ast`: nothing of them is imported.

Owns where a module lies, which names it binds, and where a re-exported name comes from. Knows no manifest and judges
nothing: what cannot be known without running a module is "unknown", and never a fault.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery as machinery
import io
import os
import re
import sys
import tokenize
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from rung.audit.signatures import signature_of
from rung.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from inspect import Signature

    FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

__all__ = [
    "DISPLAYS",
    "Class",
    "Found",
    "Function",
    "Missing",
    "Module",
    "Modules",
    "Names",
    "Parts",
    "Sources",
    "is_file",
    "parts_of",
    "read_names",
]

MAX_SOURCE: Final = 512 * 1024
"""Bytes of a source file that is read; a longer one may define anything."""
MAX_SOURCES: Final = 8 * 1024 * 1024
"""Bytes of all the sources that one check parses; what is met after them may define anything."""
_BRACES: Final = 256
"""Braces that make a source cost once more its size: what Python's parser takes for an f-string grows with both."""
_ENCODINGS: Final = frozenset({"utf-8", "utf-8-sig", "iso-8859-1", "ascii", "us-ascii"})
"""Encodings of sources that are read: decoding others may take any time."""
MAX_STEPS: Final = 1000
"""Files through which a re-exported name is followed."""
MAX_ALTERNATIVES: Final = 16
"""Definitions of one name that are told apart, one per branch of an `if`."""

_EXTENSIONS: Final = (*machinery.EXTENSION_SUFFIXES, *machinery.SOURCE_SUFFIXES, *machinery.BYTECODE_SUFFIXES)
_OWN: Final = frozenset({"rung", "rung_backends"})
"""The packages of this program, which are what it runs, whatever lies in the directory that is checked."""
_HOME: Final = str(Path(__file__).resolve().parents[2])
# A module that writes its own names, or takes its own place: reading says nothing about what it ends up with.
_SELF_MADE: Final = re.compile(r"\bglobals\(\)|\bexec\(|sys\.modules\[\s*__name__\s*\]|\bvars\(\)|\blocals\(\)")
_SPREADERS: Final = ("extend_path", "declare_namespace")
"""Functions that add to a package's `__path__` its directories along the search path, and nothing else."""
_OF_MODULES: Final = ("__path__", "modules", "declare_namespace", "meta_path", "path_hooks")
"""Words without one of which a source does nothing about modules below its own."""
_MAX_NAME: Final = 200
"""Letters of a text that may spell a name."""
_NOT_OF_NAMES: Final = re.compile(r"\W")
_READERS: Final = frozenset({
    "extend_path", "iter_modules", "walk_packages",
    "dict", "enumerate", "frozenset", "iter", "len", "list", "print", "repr", "reversed", "set", "sorted", "tuple",
})  # fmt: skip
"""Functions that leave a `__path__` or `__all__` which they are given as it is."""


Parts = tuple[str, ...]
"""A dotted name: `("torch", "no_grad")`, and none of what is no name."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function as its source gives it, without its body. `column` tells two apart that stand in one line."""

    line: int
    column: int
    signature: Signature
    decorators: tuple[Parts, ...] = ()
    is_async: bool = False
    is_generator: bool = False


@dataclass(frozen=True, slots=True)
class Class:
    """A class as its source gives it: what it is made with, and the method that takes the arguments of a call."""

    name: str
    bases: tuple[Parts, ...]
    has_keywords: bool
    is_decorated: bool
    init: Function | None
    new: Function | None


@dataclass(frozen=True, slots=True)
class Definition:
    """A name that a module binds itself. `what` says in words what a value is."""

    kind: Literal["function", "class", "value", "unknown"]
    line: int = 0
    made: Function | Class | None = None
    what: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A name that an import binds: `name` of `module`, or the module itself when that is empty."""

    module: str
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that an assignment binds to another name, or to an attribute: `a = b.c` is ("b", "c")."""

    parts: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class _Marker:
    """Not a binding: what `del` leaves, and the place of whatever was bound before a branch."""

    name: str


Binding = Definition | Link | Alias | _Marker
Scope = dict[str, tuple[Binding, ...]]
_UNKNOWN: Final = Definition("unknown")
_GONE: Final = _Marker("gone")
_BEFORE: Final = _Marker("before")


@dataclass(frozen=True, slots=True)
class Inner:
    """The modules of a package that do not lie in its directory, as far as its source says.

    With `spread` it has directories of its name all along the search path, which may be longer when it runs; `made`
    are the full names of modules that it makes itself, None where it may make any.
    """

    spread: bool = False
    made: frozenset[str] | None = frozenset()

    def makes(self, name: str) -> bool:
        """Say whether it may make a module of this full name, which may be any object."""
        return self.made is None or name in self.made


@dataclass(frozen=True, slots=True)
class Names:
    """What a source file binds at its top level.

    `stars` are the modules it takes everything from, `exports` its `__all__` where that is plain. With `is_open` it
    may have any other name too. `fault` says why it cannot be parsed, `line` where. `inner` is what it does about
    modules below it. `loaded` are the names that it uses, `taken` those that it may take from other modules.
    """

    bound: Scope = field(default_factory=dict)
    stars: tuple[str, ...] = ()
    exports: frozenset[str] | None = None
    is_open: bool = False
    fault: str = ""
    line: int = 0
    inner: Inner = Inner()
    loaded: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()

    def may_take(self, name: str) -> bool:
        """Say whether it may take a name from another module; what is not read may take any."""
        return self is _OPEN or bool(self.fault) or name in self.taken or "*" in self.taken

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Give the public functions that are defined here, once each."""
        for name, bindings in self.bound.items():
            only = bindings[0] if len(bindings) == 1 else None
            made = only.made if isinstance(only, Definition) else None
            if isinstance(made, Function) and not made.is_async and not name.startswith("_"):
                yield name, made


_OPEN: Final = Names(is_open=True, inner=Inner(made=None))


class Sources:
    """The source files that one check reads, which come to no more than `left` bytes."""

    def __init__(self, left: int = MAX_SOURCES) -> None:
        self.left = left

    def parse(self, path: Path) -> tuple[ast.Module, str] | None:
        """Parse a file and give its text too; None for one that is not read, being large, odd, or one too many.

        Raise SyntaxError or ValueError for what Python cannot parse, OSError for what it cannot read.
        """
        try:
            raw = read_regular(path, MAX_SOURCE)
        except OSError as error:
            if error.errno is not None:
                raise
            return None  # too large, or no file any more
        cost = len(raw) * (1 + raw.count(b"{") // _BRACES)
        if cost > self.left:
            return None
        self.left -= cost
        if tokenize.detect_encoding(io.BytesIO(raw).readline)[0] not in _ENCODINGS:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as odd escapes, which are its author's business
                return ast.parse(raw), raw.decode("utf-8", "replace")
        except (RecursionError, MemoryError):
            return None  # nested too deep for Python to parse on this machine


@dataclass(eq=False)
class Module:
    """A module that was found: its source file, None where there is none to read, and its submodules' directories.

    `directories` is None for a module that is no package. A namespace package has directories alone. One that
    `is_assumed` was not found: another module may make it.
    """

    name: str
    source: Path | None
    directories: tuple[str, ...] | None
    is_namespace: bool = False
    is_assumed: bool = False
    sources: Sources = field(default_factory=Sources)

    @cached_property
    def names(self) -> Names:
        """What it binds; anything, where that cannot be read."""
        if self.is_namespace:
            return Names()
        if self.source is None:
            return _OPEN
        return read_names(self.sources, self.source, self.name, is_package=self.directories is not None)


@dataclass(frozen=True, slots=True)
class Missing:
    """A module that is not there: `part` was looked for in `parent`, "" for the search path.

    `near` are the names that are there instead, in full; none when `parent` is a module without submodules.
    """

    parent: str
    part: str
    near: tuple[str, ...] = ()
    is_package: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """Where a name leads: to a definition, to a module, to nothing ("absent"), or nowhere that reading tells.

    `module` and `name` are where it is defined, or where it is not. "broken" is a module that cannot be parsed.
    """

    kind: Literal["function", "class", "value", "unknown", "module", "absent", "broken"]
    module: str
    name: str
    file: Path | None = None
    line: int = 0
    made: Function | Class | None = None
    what: str = ""


class Modules:
    """The modules below a search path. Everything is found and read once."""

    def __init__(self, path: Iterable[str]) -> None:
        self.path = tuple(dict.fromkeys(entry or os.getcwd() for entry in path))  # noqa: PTH109 - "" means just that
        self.sources = Sources()
        self._odd = [entry for entry in self.path if not is_folder(entry)]
        self._listed: dict[str, frozenset[str]] = {}
        self._known: dict[str, Module | Missing] = {}
        self._near: dict[str, tuple[str, ...]] = {}

    def find(self, name: str) -> Module | Missing:
        """Give a module by its full name, or say what of it is missing."""
        known = self._known.get(name)
        if known is not None:
            return known
        found: Module | Missing | None = None
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            prefix = ".".join(parts[:end])
            parent = found
            found = self._known.get(prefix)
            if found is None:
                found = self._top(prefix) if parent is None else self._below(parent, prefix)
                if isinstance(found, Module):
                    found.sources = self.sources
                self._known[prefix] = found
            if isinstance(found, Missing):
                break
        assert found is not None
        self._known[name] = found
        return found

    def resolve(self, module: Module, name: str) -> tuple[Found, ...]:
        """Follow a name of a module to where it is defined, one answer for each way the modules may go."""
        out: list[Found] = []
        seen: set[tuple[str, str]] = set()
        todo = [(module, name)]
        while todo and len(seen) < MAX_STEPS:
            module, name = todo.pop()
            if (module.name, name) in seen:
                continue
            seen.add((module.name, name))
            for step in self._steps(module, name):
                if isinstance(step, Found):
                    out.append(step)
                else:
                    todo.append(step)
        return tuple(out) or (Found("unknown", module.name, name),)

    def _steps(self, module: Module, name: str) -> Iterator[Found | tuple[Module, str]]:
        """Say what a module does with a name: an end of the search, or the next module and name."""
        names = module.names
        if names.fault:
            yield Found("broken", module.name, name, module.source, names.line, what=names.fault)
            return
        bindings = names.bound.get(name)
        if bindings is None:
            yield self._unbound(module, name)
            return
        for binding in bindings:
            if isinstance(binding, Definition):
                yield Found(binding.kind, module.name, name, module.source, binding.line, binding.made, binding.what)
            elif isinstance(binding, Link):
                yield self._linked(module, binding)
            elif isinstance(binding, Alias):
                yield from self._aliased(module, name, binding)

    def _unbound(self, module: Module, name: str) -> Found | tuple[Module, str]:
        if module.names.is_open:
            return Found("unknown", module.name, name, module.source)
        seen = {module.name}
        todo = [*module.names.stars]
        while todo:
            star = self.find(todo.pop())
            if isinstance(star, Missing):
                return Found("unknown", module.name, name, module.source)
            if star.name in seen:
                continue
            seen.add(star.name)
            names = star.names
            if names.exports is not None and name not in names.exports:
                continue
            if name in names.bound or names.is_open or names.fault:
                return star, name
            todo += names.stars
        inner = f"{module.name}.{name}"
        below = self._module(inner)
        if below is not None and not below.is_assumed:
            return Found("module", inner, "", module.source)
        return Found("unknown" if module.names.inner.makes(inner) else "absent", module.name, name, module.source)

    def _linked(self, module: Module, link: Link) -> Found | tuple[Module, str]:
        target = self.find(link.module)
        if isinstance(target, Missing):
            return Found("absent", link.module, link.name, module.source, link.line, what=module.name)
        if link.name:
            return target, link.name
        return Found("unknown" if target.is_assumed else "module", link.module, "", module.source, link.line)

    def named(self, module: Module, parts: Parts) -> tuple[Found, ...]:
        """Follow a dotted name as it stands in a module; nothing where it does not lead to the end of a search."""
        steps = self._aliased(module, "", Alias(parts, 0)) if parts else ()
        return tuple(found for step in steps for found in ((step,) if isinstance(step, Found) else self.resolve(*step)))

    def _aliased(self, module: Module, name: str, alias: Alias) -> Iterator[Found | tuple[Module, str]]:
        base, *inner = alias.parts
        unknown = Found("unknown", module.name, name, module.source, alias.line)
        if base not in module.names.bound:
            is_builtin = hasattr(builtins, base) and not inner and not module.names.is_open
            yield Found("unknown", "builtins", base, module.source, alias.line) if is_builtin else unknown
        elif not inner:
            yield module, base
        else:
            owner = self._module_of(module, base)
            for part in inner[:-1]:
                owner = None if owner is None else self._module(f"{owner.name}.{part}")
            yield unknown if owner is None else (owner, inner[-1])

    def _module_of(self, module: Module, base: str) -> Module | None:
        """Give the module that a name in a module stands for, None when it may stand for anything else."""
        bindings = module.names.bound.get(base, ())
        link = bindings[0] if len(bindings) == 1 else None
        if not isinstance(link, Link):
            return None
        if not link.name:
            return self._module(link.module)
        owner = self._module(link.module)
        if owner is None or owner.names.is_open or owner.names.stars or link.name in owner.names.bound:
            return None
        return self._module(f"{link.module}.{link.name}")

    def _module(self, name: str) -> Module | None:
        found = self.find(name)
        return found if isinstance(found, Module) else None

    def own(self, names: Iterable[str]) -> dict[str, str]:
        """Give the packages of this program among some top-level modules, with the directory each lies in."""
        found = {name: self.find(name) for name in names if name in _OWN}
        return {
            name: str(Path(module.directories[0]).parent)
            for name, module in found.items()
            if isinstance(module, Module) and module.directories
        }

    def is_beside(self, one: str, other: str) -> bool:
        """Say whether two top-level modules lie in one directory of the search path."""
        homes = [next((d for d in self.path if self._in(name, (d,)) is not None), None) for name in (one, other)]
        return homes[0] is not None and homes[0] == homes[1]

    def body(self, found: Found) -> ast.FunctionDef | ast.Lambda | None:
        """Give a function with all that stands in it, None where it is not read; its file is parsed again."""
        if found.file is None or not isinstance(found.made, Function):
            return None
        try:
            parsed = self.sources.parse(found.file)
        except (OSError, SyntaxError, ValueError):
            return None
        place = (found.made.line, found.made.column)
        for node in ast.walk(parsed[0]) if parsed is not None else ():
            if isinstance(node, ast.FunctionDef | ast.Lambda) and (node.lineno, node.col_offset) == place:
                return node
        return None

    def full_name(self, module: Module, parts: Parts) -> str:
        """Give the full name of what a dotted name such as `torch.no_grad` stands for; "" if imports do not tell."""
        if not parts:
            return ""
        base, *inner = parts
        bindings = module.names.bound.get(base)
        if bindings is None:
            is_builtin = hasattr(builtins, base) and not module.names.is_open and not module.names.stars
            return ".".join(parts) if is_builtin else ""
        link = bindings[0] if len(bindings) == 1 else None
        return ".".join(filter(None, (link.module, link.name, *inner))) if isinstance(link, Link) else ""

    def _near_in(self, package: str, directories: Sequence[str]) -> tuple[str, ...]:
        """Give the full names of the modules that lie in a package's directories."""
        known = self._near.get(package)
        if known is None:
            inner = sorted({name for directory in directories for name in self._modules_in(directory)})
            known = self._near[package] = tuple(f"{package}.{name}" if package else name for name in inner)
        return known

    def _modules_in(self, directory: str) -> Iterator[str]:
        for entry in self._names_in(directory):
            stem, dot, _ = entry.partition(".")
            is_module = entry.endswith(_EXTENSIONS) if dot else is_folder(Path(directory, entry))
            if is_module and stem.isidentifier() and not stem.startswith("__"):
                yield stem

    def _top(self, name: str) -> Module | Missing:
        if name in sys.builtin_module_names:
            return Module(name, None, None)
        own = (self._in(name, (_HOME,)) or _hooked(name, sys.path)) if name in _OWN else None
        return (
            own
            or self._in(name, self.path)
            or _hooked(name, self._odd)
            or Missing("", name, self._near_in("", self.path[:1]))
        )

    def _below(self, parent: Module | Missing, name: str) -> Module | Missing:
        assert isinstance(parent, Module)
        part = name.rpartition(".")[2]
        inner = parent.names.inner
        directories = parent.directories or ()
        found = self._in(name, directories)
        if found is None and inner.spread:
            found = self._in(name, self._spread(parent.name))
        if found is not None:
            return found
        if inner.spread or inner.makes(name):
            return Module(name, None, None, is_assumed=True)
        if parent.directories is None:
            return Missing(parent.name, part, is_package=False)
        return Missing(parent.name, part, self._near_in(parent.name, directories))

    def _spread(self, package: str) -> tuple[str, ...]:
        """Give every directory of a package that extends its own `__path__`, as pkgutil lets it."""
        outer, _, last = package.rpartition(".")
        owner = self.find(outer) if outer else None
        above = self.path if owner is None else (owner.directories or ()) if isinstance(owner, Module) else ()
        return tuple(str(Path(directory) / last) for directory in above)

    def _in(self, name: str, directories: Sequence[str]) -> Module | None:
        """Look for a module in directories, in the order in which Python does."""
        part = name.rpartition(".")[2]
        portions: list[str] = []
        for directory in directories:
            listed = self._names_in(directory)
            folder = Path(directory, part)
            is_there = part in listed and is_folder(folder)
            if is_there:
                inner = self._names_in(str(folder))
                for suffix in _EXTENSIONS:
                    if f"__init__{suffix}" in inner and is_file(folder / f"__init__{suffix}"):
                        return Module(name, _source(folder / f"__init__{suffix}"), (str(folder),))
            for suffix in _EXTENSIONS:
                if f"{part}{suffix}" in listed and is_file(Path(directory, f"{part}{suffix}")):
                    return Module(name, _source(Path(directory, f"{part}{suffix}")), None)
            if is_there:
                portions.append(str(folder))
        return Module(name, None, tuple(portions), is_namespace=True) if portions else None

    def _names_in(self, directory: str) -> frozenset[str]:
        """List a directory once; the listing also tells names apart by case where the file system does not."""
        listed = self._listed.get(directory)
        if listed is None:
            try:
                listed = frozenset(os.listdir(directory))  # noqa: PTH208 - names are what is wanted
            except (OSError, ValueError):
                listed = frozenset()
            self._listed[directory] = listed
        return listed


def is_folder(path: str | Path) -> bool:
    """Say whether a directory is there; as for Python's imports, one that may not be looked at is not."""
    return os.path.isdir(path)  # noqa: PTH112 - that of Path raises


def is_file(path: str | Path) -> bool:
    """Say whether a regular file is there, see `is_folder`."""
    return os.path.isfile(path)  # noqa: PTH113 - that of Path raises


def _source(path: Path) -> Path | None:
    return path if path.suffix in machinery.SOURCE_SUFFIXES else None


def _hooked(name: str, odd: Sequence[str]) -> Module | None:
    """Ask the import hooks for a top-level module: editable installations and archives. They do not run it.

    Python's own finder is asked about the `odd` entries of the search path alone, those that are no directories.
    """
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, odd if finder is machinery.PathFinder else None)
            if spec is None:
                continue
            places = spec.submodule_search_locations
            directories = None if places is None else tuple(place for place in places if is_folder(place))
            source = _source(Path(spec.origin)) if spec.origin and is_file(spec.origin) else None
        except Exception:  # somebody else's code
            continue
        if source is None and spec.origin is None and directories:
            return Module(name, None, directories, is_namespace=True)
        return Module(name, source, directories or None)
    return None


def read_names(sources: Sources, path: Path, name: str, *, is_package: bool) -> Names:
    """Read what the source file of a module binds. Raises nothing, whatever the file holds."""
    try:
        parsed = sources.parse(path)
        if parsed is None:
            return _OPEN
        tree, text = parsed
        reader = _Reader(name if is_package else name.rpartition(".")[0])
        bound = reader.top(tree)
    except SyntaxError as error:
        return Names(fault=error.msg or "invalid syntax", line=error.lineno or 1)
    except ValueError:
        return Names(fault="it holds null bytes", line=1)
    except OSError as error:
        return Names(fault=error.strerror or "it cannot be read", line=1)
    except RecursionError:
        return _OPEN  # nested too deep
    nodes = [*ast.walk(tree)]
    is_open = "__getattr__" in bound or _SELF_MADE.search(text) is not None
    for possible in _bound_within(nodes):
        bound[possible] = (*bound.get(possible, ()), _UNKNOWN)
    inner = _inner(nodes, name) if any(word in text for word in _OF_MODULES) else Inner()
    exports = reader.exports()
    exports = None if exports is not None and _changes_exports(nodes) else exports
    loaded = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
    return Names(bound, tuple(reader.stars), exports, is_open, "", 0, inner, loaded, frozenset(_taken(nodes)))


def _taken(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Give the names that a source imports, asks something for, or spells in a text, "*" for all."""
    for node in nodes:
        match node:
            case ast.Attribute(attr=name):
                yield name
            case ast.ImportFrom(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.Constant(value=str(text)) if len(text) < _MAX_NAME:
                yield _NOT_OF_NAMES.split(text)[-1]


def _changes_exports(nodes: Iterable[ast.AST]) -> bool:
    """Say whether something may change an `__all__` beside the statements that write it out."""
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="__all__")):
                return True  # such as `__all__.append`
            case ast.Subscript(value=ast.Name(id="__all__"), ctx=ast.Store() | ast.Del()):
                return True
            case ast.Call(args=args) if _called(node) not in _READERS:
                if any(isinstance(arg, ast.Name) and arg.id == "__all__" for arg in args):
                    return True
            case ast.Global(names=names) if "__all__" in names:
                return True
    return False


def _bound_within(nodes: Iterable[ast.AST]) -> set[str]:
    """Give the names that expressions may bind, and functions that declare them `global`."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.NamedExpr):
            found.add(node.target.id)
        elif isinstance(node, ast.Global):
            found.update(node.names)
    return found


def _inner(nodes: Sequence[ast.AST], own_name: str) -> Inner:
    """Read what a module does to its `__path__`, and which modules it puts into `sys.modules`."""
    spread = False
    made: set[str] = set()
    harmless: set[int] = set()
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                if value is None or _called(value) in _SPREADERS:
                    harmless.add(id(target))
            case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
                harmless.add(id(iterated))
            case ast.Subscript(value=container, ctx=ast.Load()):
                harmless.add(id(container))
            case ast.Call(args=args, keywords=keywords):
                spread |= _called(node) in _SPREADERS
                if _called(node) in _READERS:
                    harmless.update(map(id, (*args, *(keyword.value for keyword in keywords))))
    for node in nodes:
        match node:
            case ast.Name(id="__path__") | ast.Constant(value="__path__") if id(node) not in harmless:
                return Inner(spread, None)
            case ast.Attribute(attr="meta_path" | "path_hooks"):
                return Inner(spread, None)
            case ast.Call(func=ast.Attribute(value=table, attr="update")) if _is_table(table):
                return Inner(spread, None)
            case (
                ast.Subscript(value=table, slice=key, ctx=ast.Store())
                | ast.Call(func=ast.Attribute(value=table, attr="setdefault"), args=[key, *_])
            ) if _is_table(table):
                name = _text_of(key, own_name)
                if name is None:
                    return Inner(spread, None)
                # What is put beside a package's module is a module that may have others below it.
                made.update(name[:end] for end in _ends(name))
    return Inner(spread, frozenset(made))


def _is_table(node: ast.expr) -> bool:
    """Say whether an expression may be `sys.modules`."""
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "modules"


def _ends(name: str) -> Iterator[int]:
    """Give where the prefixes of a dotted name end."""
    yield from (at for at, letter in enumerate(name) if letter == ".")
    yield len(name)


def _called(node: ast.AST | None) -> str:
    """Give the last part of the name of the function that an expression calls."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _text_of(node: ast.expr, own_name: str) -> str | None:
    """Give the text that an expression in a module's source is, None where it takes a run to know."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id="__name__"):
            return own_name
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _text_of(value, own_name)
        case ast.JoinedStr(values=parts):
            texts = [_text_of(part, own_name) for part in parts]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = [_text_of(left, own_name), _text_of(right, own_name)]
        case _:
            return None
    known = [text for text in texts if text is not None]
    return "".join(known) if len(known) == len(texts) else None


class _Reader:
    """Reads the statements of one module, block by block.

    A block gives what it binds. Where a statement has branches, a name has one binding for each branch that binds it,
    and `_BEFORE` for those that leave it as it was.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.stars: list[str] = []
        self._exports: set[str] | None = None
        self._exports_are_plain = True

    def exports(self) -> frozenset[str] | None:
        """Give `__all__`, None where it is not written out."""
        return frozenset(self._exports) if self._exports is not None and self._exports_are_plain else None

    def top(self, tree: ast.Module) -> Scope:
        """Give what a module binds."""
        kept: Scope = {}
        for name, bindings in self.block(tree.body).items():
            real = tuple(b for b in bindings if not isinstance(b, _Marker))
            if real:
                kept[name] = real
        return kept

    def block(self, statements: Iterable[ast.stmt]) -> Scope:
        scope: Scope = {}
        for statement in statements:
            _update(scope, self.statement(statement))
        return scope

    def statement(self, node: ast.stmt) -> Scope:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return {node.name: (Definition("function", node.lineno, _function(node)),)}
            case ast.ClassDef():
                return {node.name: (Definition("class", node.lineno, _class(node)),)}
            case ast.Import():
                return dict(self.imported(alias, node.lineno) for alias in node.names)
            case ast.ImportFrom():
                return self.imported_from(node)
            case ast.Assign():
                scope: Scope = {}
                for target in node.targets:
                    _update(scope, self.assigned(target, node.value))
                return scope
            case ast.AnnAssign():
                return {} if node.value is None else self.assigned(node.target, node.value)
            case ast.AugAssign():
                if isinstance(node.target, ast.Name) and node.target.id == "__all__":
                    self.export(node.value, add=True)
                return dict.fromkeys(_targets(node.target), (_UNKNOWN,))
            case ast.Delete():
                return dict.fromkeys(chain.from_iterable(map(_targets, node.targets)), (_GONE,))
            case _:
                return self.compound(node)

    def compound(self, node: ast.stmt) -> Scope:
        match node:
            case ast.If():
                return self.branches(node)
            case ast.Try() | ast.TryStar():
                body = self.block([*node.body, *node.orelse])
                handlers = [self.block(handler.body) for handler in node.handlers if not _leaves(handler.body)]
                scope = _either([body, *handlers])
                _update(scope, self.block(node.finalbody))
                return scope
            case ast.For() | ast.AsyncFor() | ast.While():
                target = () if isinstance(node, ast.While) else _targets(node.target)
                scope = dict.fromkeys(target, (_UNKNOWN,))
                _update(scope, self.block(node.body))
                scope = _either([scope, {}])
                _update(scope, self.block(node.orelse))
                return scope
            case ast.With() | ast.AsyncWith():
                bound = (item.optional_vars for item in node.items if item.optional_vars is not None)
                scope = dict.fromkeys(chain.from_iterable(map(_targets, bound)), (_UNKNOWN,))
                _update(scope, self.block(node.body))
                return _either([scope, {}])  # it may leave early: `with suppress(ImportError)`
            case ast.Match():
                captured = dict.fromkeys(_captures(node), (_UNKNOWN,))
                return _either([{**captured, **self.block(case.body)} for case in node.cases] + [{}])
            case _:
                # `type X = ...` of Python 3.12, which this one may not know.
                name = getattr(node, "name", None)
                a_type = Definition("value", node.lineno, what="a type")
                return {name.id: (a_type,)} if isinstance(name, ast.Name) else {}

    def branches(self, node: ast.If) -> Scope:
        """Read an `if` with its `elif`s, which Python nests as deep as there are."""
        blocks: list[list[ast.stmt]] = []
        rest: list[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            inner = rest[0]
            runs = _runs(inner.test)
            if runs is not False:
                blocks.append(inner.body)
            rest = inner.orelse
            if runs is True:
                break
        else:
            blocks.append(rest)
        return _either([self.block(block) for block in blocks if not _leaves(block)])

    def imported(self, alias: ast.alias, line: int) -> tuple[str, tuple[Binding, ...]]:
        if alias.asname:
            return alias.asname, (Link(alias.name, "", line),)
        top = alias.name.partition(".")[0]
        return top, (Link(top, "", line),)

    def imported_from(self, node: ast.ImportFrom) -> Scope:
        module = node.module or ""
        if node.level:
            above = self.package.split(".")
            above = above[: len(above) - node.level + 1]
            if not self.package or not above:
                return {alias.asname or alias.name: (_UNKNOWN,) for alias in node.names if alias.name != "*"}
            module = ".".join(filter(None, (*above, module)))
        scope: Scope = {}
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(module)
            else:
                scope[alias.asname or alias.name] = (Link(module, alias.name, node.lineno),)
        return scope

    def assigned(self, target: ast.expr, value: ast.expr) -> Scope:
        if isinstance(target, ast.Name):
            if target.id == "__all__":
                self.export(value)
            return {target.id: _bindings(value)}
        pairs = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
        if pairs and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            both = [*zip(target.elts, value.elts, strict=True)]  # type: ignore[attr-defined]
            if not any(isinstance(node, ast.Starred) for pair in both for node in pair):
                scope: Scope = {}
                for inner, part in both:
                    _update(scope, self.assigned(inner, part))
                return scope
        return dict.fromkeys(_targets(target), (_UNKNOWN,))

    def export(self, value: ast.expr, *, add: bool = False) -> None:
        plain = isinstance(value, ast.List | ast.Tuple) and all(
            isinstance(item, ast.Constant) and isinstance(item.value, str) for item in value.elts
        )
        if not plain:
            self._exports_are_plain = False
            return
        listed = {str(item.value) for item in value.elts}  # type: ignore[attr-defined]
        self._exports = listed | (self._exports or set() if add else set())


def _update(scope: Scope, newer: Scope) -> None:
    """Run a block after another: what it binds takes the place of what was bound, but where a branch left it."""
    for name, bindings in newer.items():
        if _BEFORE in bindings:
            older = scope.get(name, (_BEFORE,))
            bindings = tuple(dict.fromkeys(chain(older, (b for b in bindings if b is not _BEFORE))))
        scope[name] = bindings if len(bindings) <= MAX_ALTERNATIVES else (_UNKNOWN,)


def _either(scopes: Sequence[Scope]) -> Scope:
    """Give what one of several blocks binds, whichever runs."""
    out: Scope = {}
    for name in dict.fromkeys(chain.from_iterable(scopes)):
        bindings = dict.fromkeys(chain.from_iterable(scope.get(name, (_BEFORE,)) for scope in scopes))
        out[name] = tuple(bindings) if len(bindings) <= MAX_ALTERNATIVES else (_UNKNOWN,)
    return out


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], ast.Raise)


def _runs(test: ast.expr) -> bool | None:
    """Say whether the body of an `if` runs when its module is imported, None for sometimes."""
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return True
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return False
        case ast.Constant(value=value):
            return bool(value)
    return None


def _targets(target: ast.expr) -> Iterator[str]:
    """Give the names an assignment binds; an attribute or an item of something is none."""
    todo = [target]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Tuple | ast.List):
            todo += node.elts
        elif isinstance(node, ast.Starred):
            todo.append(node.value)


def _captures(node: ast.Match) -> Iterator[str]:
    for case in node.cases:
        for inner in ast.walk(case.pattern):
            name = getattr(inner, "rest" if isinstance(inner, ast.MatchMapping) else "name", None)
            if isinstance(name, str):
                yield name


def _function(node: FunctionNode) -> Function:
    signature = signature_of(node, plain=True)
    if isinstance(node, ast.Lambda):
        return Function(node.lineno, node.col_offset, signature, is_generator=_yields(node))
    decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    is_async = isinstance(node, ast.AsyncFunctionDef)
    return Function(node.lineno, node.col_offset, signature, tuple(map(parts_of, decorators)), is_async, _yields(node))


def _class(node: ast.ClassDef) -> Class:
    methods = {method.name: method for method in node.body if isinstance(method, ast.FunctionDef)}
    init, new = (_function(methods[name]) if name in methods else None for name in ("__init__", "__new__"))
    bases = tuple(map(parts_of, node.bases))
    return Class(node.name, bases, bool(node.keywords), bool(node.decorator_list), init, new)


def _yields(node: FunctionNode) -> bool:
    """Say whether a function is a generator: functions inside it do not count."""
    todo: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
    while todo:
        inner = todo.pop()
        if isinstance(inner, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(inner)
    return False


def parts_of(node: ast.expr) -> Parts:
    """Give the dotted name that an expression is, none when it is another."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()


DISPLAYS: Final = (
    (ast.List | ast.ListComp, "a list"),
    (ast.Tuple, "a tuple"),
    (ast.Dict | ast.DictComp, "a dict"),
    (ast.Set | ast.SetComp, "a set"),
    (ast.GeneratorExp, "a generator"),
    (ast.JoinedStr, "a text"),
)
"""What an expression is by its form alone."""


def _bindings(value: ast.expr) -> tuple[Binding, ...]:
    """Say what an assigned expression may be."""
    if isinstance(value, ast.IfExp):
        return tuple(dict.fromkeys((*_bindings(value.body), *_bindings(value.orelse))))
    line = value.lineno
    if isinstance(value, ast.Lambda):
        return (Definition("function", line, _function(value)),)
    if isinstance(value, ast.Constant):
        return (Definition("value", line, what=_constant(value.value)),)
    for kind, what in DISPLAYS:
        if isinstance(value, kind):
            return (Definition("value", line, what=what),)
    parts = parts_of(value)
    return (Alias(parts, line),) if parts else (Definition("unknown", line),)


def _constant(value: object) -> str:
    if value is None or value is ...:
        return str(value)
    if isinstance(value, bool):
        return "True" if value else "False"
    return "a text" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "a number"
