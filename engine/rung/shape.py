"""From pydantic's errors to problems at places.

Owns the translation of error types to codes RG103, RG107 and RG201 to RG207, RG408 and RG802, and their wording.
Works with any model; knows none.
"""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from rung.diagnostics import Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rung.diagnostics import Problems
    from rung.source import Document, Node

__all__ = ["bad_places", "keys_at", "validate"]

M = TypeVar("M", bound=BaseModel)

_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "list_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
}


def validate(model: type[M], document: Document, problems: Problems) -> M | list[tuple[str | int, ...]]:
    """Validate a whole document; on failure report every fault and give the places of the faulty values."""
    try:
        return model.model_validate(document.root.data)
    except ValidationError as errors:
        places: list[tuple[str | int, ...]] = []
        for error in errors.errors(include_url=False):
            loc = _in_document(document, error["loc"])
            places.append(loc)
            node = document.node(loc)
            if node.bad:
                continue
            problem = _translate(model, document, loc, dict(error))
            if problem is not None:
                problems.found.append(problem)
        return places


def bad_places(root: Node) -> Iterator[tuple[str | int, ...]]:
    """Give the place of every node the reader already reported."""
    stack: list[tuple[tuple[str | int, ...], Node]] = [((), root)]
    while stack:
        loc, node = stack.pop()
        if node.bad:
            yield loc
        if node.values is not None:
            stack += [((*loc, key), child) for key, child in node.values.items()]
        elif node.items is not None:
            stack += [((*loc, index), child) for index, child in enumerate(node.items)]


def _in_document(document: Document, loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """Drop the parts of a pydantic location that are no nodes: normalised forms, `[key]`, missing keys last."""
    node = document.root
    out: list[str | int] = []
    for position, part in enumerate(loc):
        child = None
        if isinstance(part, str) and node.values is not None:
            child = node.values.get(part)
        elif isinstance(part, int) and node.items is not None and part < len(node.items):
            child = node.items[part]
        if child is not None:
            out.append(part)
            node = child
        elif position == len(loc) - 1 and isinstance(part, str) and node.values is not None and part != "[key]":
            out.append(part)
    return tuple(out)


def _inner(annotation: Any) -> Any:
    """Strip Annotated, and None from unions."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in (Union, types.UnionType):
            rest = [a for a in get_args(annotation) if a is not type(None)]
            annotation = rest[0]
        else:
            return annotation


def keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """Give the keys legal in the mapping at `loc`, [] where any name may stand."""
    current: Any = model
    for part in loc:
        current = _inner(current)
        if isinstance(current, type) and issubclass(current, BaseModel):
            fields = {f.alias or name: f for name, f in current.model_fields.items()}
            field = fields.get(str(part))
            if field is not None:
                current = field.annotation
            elif isinstance(part, int):
                continue  # the list form of a predicate: its items are predicates
            else:
                return []
        elif get_origin(current) is dict and isinstance(part, str):
            current = get_args(current)[1]
        elif get_origin(current) is list and isinstance(part, int):
            current = get_args(current)[0]
        elif not (get_origin(current) is list and part == "all"):
            return []
    current = _inner(current)
    if get_origin(current) is list:
        current = _inner(get_args(current)[0])
    if isinstance(current, type) and issubclass(current, BaseModel):
        return sorted(f.alias or name for name, f in current.model_fields.items())
    return []


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = str(value)
    return f"`{text if len(text) <= 40 else text[:37] + '...'}`"


def _path(loc: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in loc if not isinstance(part, int)) or "the document"


def _translate(
    model: type[BaseModel], document: Document, loc: tuple[str | int, ...], error: dict[str, Any]
) -> Problem | None:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    key = next((str(part) for part in reversed(loc) if isinstance(part, str)), "")
    where = document.where(loc)
    node = document.node(loc)
    is_key = error["loc"][-1:] == ("[key]",)

    def problem(code: str, message: str, hint: str = "", *, at_key: bool = False) -> Problem:
        here = document.where(loc, key=True) if at_key or is_key else where
        return Problem(code, "error", here, message, hint)

    if kind == "extra_forbidden":
        legal = keys_at(model, loc[:-1])
        return problem("RG201", f"unknown key `{loc[-1]}`", did_you_mean(str(loc[-1]), legal), at_key=True)
    if kind == "missing":
        missing = str(error["loc"][-1])
        parent = document.node(loc[:-1])
        if parent.bad:
            return None
        return problem("RG203", f"`{_path(loc[:-1])}` has no `{missing}`", f"add `{missing}:`")
    if kind == "literal_error":
        legal = re.findall(r"'([^']*)'", str(context.get("expected", ""))) or [str(context.get("expected", ""))]
        if error["loc"] and error["loc"][-1] == "[key]":
            return problem("RG204", f"unknown key {_shown(value)}", did_you_mean(str(value), legal), at_key=True)
        return problem("RG204", f"{_shown(value)} is not a legal `{key}`", did_you_mean(str(value), legal))
    if kind == "string_pattern_mismatch":
        return _grammar(problem, key, str(value), str(context.get("pattern", "")))
    if kind == "string_too_short":
        return problem("RG202", f"`{key}` is empty", "write some text")
    if kind == "string_too_long":
        return problem("RG205", f"`{key}` is longer than {context.get('max_length')} characters", "shorten it")
    if kind == "too_short":
        return problem("RG206", f"`{key}` is an empty list", "remove the key, or list something")
    if kind == "too_long":
        limit = context.get("max_length")
        is_chain = bool({"variants", "chains"} & {str(part) for part in loc})
        code = "RG408" if is_chain else "RG004"
        return problem(code, f"{context.get('actual_length')} entries in `{key}` exceed the limit of {limit}")
    if kind == "value_error":
        message = str(context.get("error", error["msg"]))
        return problem("RG203" if message.endswith("here: none") else "RG207", message)
    if kind in ("greater_than_equal", "less_than_equal"):
        return problem("RG202", f"`{key}` is out of range: {_shown(value)}", str(error["msg"]).lower())
    wanted = _TYPES.get(kind, str(error["msg"]))
    if kind == "string_type" and node.plain and isinstance(value, int | float) and not isinstance(value, bool):
        written = document.lines[node.line - 1][node.column - 1 : node.end_column - 1]
        return problem("RG103", f"`{written}` is a number where text belongs", f'write "{written}"')
    return problem("RG202", f"`{key}` must be {wanted}, not {_shown(value)}")


def _grammar(problem: Any, key: str, value: str, pattern: str) -> Problem:
    if not value.isascii():
        odd = next(c for c in value if not c.isascii())
        hint = f"character {value.index(odd) + 1} is U+{ord(odd):04X}; names are ASCII"
        found: Problem = problem("RG107", f"`{value}` has characters outside ASCII", hint)
    elif ":" in pattern:
        tail = value.partition(":")[2]
        if ":" in value and ("." in tail or tail.startswith("_")):
            hint = "name one public function after the colon"
            found = problem("RG802", f"`{value}`: the part after the colon has a dot or a leading underscore", hint)
        else:
            found = problem("RG205", f"`{value}` is no dotted path", "write it as `package.module:function`")
    else:
        hint = "lower-case letters, digits and `_`, a letter first" if "A-Z" not in pattern else "letters, digits, `_`"
        found = problem("RG205", f"`{value}` is no legal name", hint)
    return found
