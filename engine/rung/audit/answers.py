"""What the probes of predicates answer, read from their source.

Owns which functions certainly raise, or give something else than True, False or None. Says nothing where it takes a run
to know; that a probe is no function, or takes other arguments than the facts, is for `rung.audit.uses`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rung.audit.modules import DISPLAYS, Module, parts_of
from rung.audit.uses import Bindings
from rung.bind import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rung.audit.scene import Scene
    from rung.audit.uses import Use
    from rung.diagnostics import Where

    FullName = Callable[[ast.expr], str]

__all__ = ["Fault", "faulty_probes"]

_RETURNS: Final = "return True, False, or None for unknown; `bool(...)` makes a yes or no of a value"
_DISPLAYS: Final = (*DISPLAYS, (ast.Lambda, "a function"))
_TYPES: Final = {
    "bytes": "bytes", "complex": "a number", "dict": "a dict", "float": "a number", "frozenset": "a set",
    "int": "a number", "list": "a list", "set": "a set", "str": "a text", "tuple": "a tuple",
}  # fmt: skip
_CALLS: Final = {
    **_TYPES, "len": "a number", "repr": "a text", "sorted": "a list", "sum": "a number",
    "importlib.util.find_spec": "a module's spec", "os.environ.get": "a text", "os.getenv": "a text",
    "re.fullmatch": "a match", "re.match": "a match", "re.search": "a match", "shutil.which": "a path",
}  # fmt: skip
"""Calls that give no bool, which a probe is easily ended with."""
_NEUTRAL: Final = frozenset({"functools.cache", "functools.lru_cache"})


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a probe, said of its name; the first place that asks it, what stands where, and the repair."""

    use: Use
    message: str
    hint: str
    related: tuple[tuple[Where, str], ...]


def faulty_probes(scene: Scene) -> dict[str, Fault]:
    """Give the probes whose source shows a fault, by path. They are read once."""
    found: dict[str, Fault] | None = scene.whole.memo.get("answers")
    if found is None:
        found = scene.whole.memo["answers"] = {}
        bindings = Bindings.of(scene)
        for group in bindings.groups:
            path, role = group.first.path, group.first.role
            if role != "probe" or path in found or root_of(path) not in bindings.roots(group.first.unit):
                continue
            places = bindings.sound(group) if bindings.fault(group.first) is None else []
            if places:
                fault = _judge(bindings, places)
                found |= {} if fault is None else {path: fault}
    return found


def _judge(bindings: Bindings, uses: Sequence[Use]) -> Fault | None:
    """Find a probe that is asked in these places and say what is wrong with it, where it is one function to be read."""
    modules = bindings.modules
    name, _, attribute = uses[0].path.partition(":")
    module = modules.find(name)
    found = modules.resolve(module, attribute) if isinstance(module, Module) else ()
    only = found[0] if len(found) == 1 else None
    owner = modules.find(only.module) if only is not None else None
    if only is None or only.file is None or not isinstance(owner, Module):
        return None
    node = modules.body(only)
    if node is None:
        return None
    bound = _bound_in(node)

    def full_name(expression: ast.expr) -> str:
        parts = parts_of(expression)
        return "" if parts[:1] and parts[0] in bound else modules.full_name(owner, parts)

    try:
        flaw = _flaw_of(node, full_name)
    except RecursionError:  # an expression of thousands of terms
        return None
    if flaw is None:
        return None
    line, message, here, hint = flaw
    use = min(bindings.told(uses, "RG606") or uses, key=lambda use: use.where)
    return Fault(use, message, hint, ((bindings.place(only.file, line), here),))


_Flaw = tuple[int, str, str, str]  # line, what is wrong, what stands there, the repair


def _flaw_of(node: ast.FunctionDef | ast.Lambda, full_name: FullName) -> _Flaw | None:
    """Give what is certainly wrong with a probe; None when nothing is, or it takes a run to know.

    `full_name` gives what an expression such as `os.getenv` names where it stands, "" when that is not known.
    """
    if isinstance(node, ast.Lambda):
        return next(_values([node.body], full_name), None)
    decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    if not all(full_name(decorator) in _NEUTRAL for decorator in decorators):
        return None
    first = next((s for s in node.body if not _is_docstring(s)), None)
    if isinstance(first, ast.Raise):
        return first.lineno, "always raises", "raised", "return None where it cannot tell"
    returned = [n.value for n in _own(node.body) if isinstance(n, ast.Return) and n.value is not None]
    return next(_values(returned, full_name), None) or _annotation_flaw(node, full_name)


def _bound_in(node: ast.FunctionDef | ast.Lambda) -> set[str]:
    """Give the names that may mean something else in a function than in its module: all that is bound within it."""
    found: set[str] = set()
    for inner in ast.walk(node):
        match inner:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
    return found


def _own(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Give what stands in a function itself and may run, in the order of the file; not what functions in it have."""
    stack: list[ast.AST] = [*reversed(_reached(body))]
    while stack:
        found = stack.pop()
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        yield found
        for _, value in reversed([*ast.iter_fields(found)]):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                stack += reversed(_reached(value))
            elif isinstance(value, list):
                stack += reversed([item for item in value if isinstance(item, ast.AST)])
            elif isinstance(value, ast.AST):
                stack.append(value)


def _reached(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Give the statements of a block that may run: up to one that always leaves it."""
    reached: list[ast.stmt] = []
    for statement in block:
        always = _always(statement.test) if isinstance(statement, ast.If | ast.While) else None
        if always is False:
            reached += _reached(statement.orelse)  # type: ignore[attr-defined]
        elif always is True and isinstance(statement, ast.If):
            reached += _reached(statement.body)
        else:
            reached.append(statement)
        if reached and _leaves(reached[-1]):
            break
    return reached


def _is_left(block: Sequence[ast.stmt]) -> bool:
    reached = _reached(block)
    return bool(reached) and _leaves(reached[-1])


def _always(test: ast.expr) -> bool | None:
    """Say whether a test always holds, or never; None for sometimes."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=value)):
            return not value
    return None


def _leaves(statement: ast.stmt) -> bool:
    """Say whether what follows a statement in its block never runs."""
    match statement:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.If(body=body, orelse=orelse):
            return _is_left(body) and _is_left(orelse)
        case ast.While(test=test) if _always(test):
            return not any(isinstance(inner, ast.Break) for inner in ast.walk(statement))
    return False


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _values(returned: Sequence[ast.expr], full_name: FullName) -> Iterator[_Flaw]:
    for value in returned:
        kind = _kind(value, full_name)
        if kind:
            yield value.lineno, f"answers {kind}", f"{kind} is returned", _RETURNS


def _kind(value: ast.expr, full_name: FullName) -> str:
    """Say what an expression gives, "" when that may be True, False or None throughout."""

    def kind(inner: ast.expr) -> str:
        return _kind(inner, full_name)

    match value:
        case ast.Constant(value=constant):
            return "" if constant is None else _TYPES.get(type(constant).__name__, "")
        case ast.IfExp(test=test, body=body, orelse=orelse):
            always = _always(test)
            return (kind(body) if always is not False else "") or (kind(orelse) if always is not True else "")
        case ast.BoolOp(values=values):
            return kind(values[-1])
        case ast.NamedExpr(value=inner):
            return kind(inner)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
            return kind(operand)
        case ast.BinOp(left=left, right=right):
            return kind(left) or kind(right)
        case ast.Call(func=function):
            return _CALLS.get(full_name(function), "")
    return next((what for types, what in _DISPLAYS if isinstance(value, types)), "")


def _annotation_flaw(node: ast.FunctionDef, full_name: FullName) -> _Flaw | None:
    """Judge what a probe is said to give. A bool is a number too."""
    annotation = node.returns
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError):
            return None
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    kind = "" if annotation is None else _TYPES.get(full_name(annotation), "")
    kind = "" if kind == "a number" else kind
    return (node.lineno, f"is annotated as {kind}", "defined", _RETURNS) if kind else None
