"""From pydantic's errors to problems at places.

Owns the translation of error types to codes RG004, RG103, RG107, RG201 to RG206 and RG802, and their wording.
Works with any model; knows none. A validator that knows better raises an error whose type is a rule code.
"""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from rung.diagnostics import Problem, closest, did_you_mean, shorten
from rung.source import MAX_FINDINGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pydantic.fields import FieldInfo

    from rung.diagnostics import Problems
    from rung.source import Document, Node

__all__ = ["bad_places", "fields_at", "may_stand_for", "validate"]

M = TypeVar("M", bound=BaseModel)
Loc = tuple[str | int, ...]

MAX_ERRORS: Final = 20_000
"""Errors that are looked at one by one; a file with more of them is none of ours."""

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
}


def validate(model: type[M], document: Document, problems: Problems) -> M | list[Loc]:
    """Validate a whole document; on failure report every fault and give the places of the faulty values.

    No places means that nothing of the document can be used.
    """
    try:
        return model.model_validate(document.root.data)
    except ValidationError as errors:
        if errors.error_count() > MAX_ERRORS:
            message = f"more than {MAX_ERRORS} findings in this file"
            problems.add("RG004", document.where(), message, hint="is it a manifest? None of it is used")
            return []
        places: list[Loc] = []
        told = 0
        for error in errors.errors(include_url=False):
            fault = _Fault(model, document, dict(error))
            places.append(fault.loc)
            problem = fault.problem() if told < MAX_FINDINGS else None
            if problem is not None:
                told += 1
                problems.found.append(problem)
        return places


def bad_places(root: Node) -> Iterator[Loc]:
    """Give the place of every node the reader already reported."""
    stack: list[tuple[Loc, Node]] = [((), root)]
    while stack:
        loc, node = stack.pop()
        if node.bad:
            yield loc
        if node.values is not None:
            stack += [((*loc, key), child) for key, child in node.values.items()]
        elif node.items is not None:
            stack += [((*loc, index), child) for index, child in enumerate(node.items)]


def may_stand_for(node: Node, key: str, legal: Collection[str]) -> bool:
    """Say whether a mapping has a key, illegal or rejected, that may be meant as `key`."""
    keys = (node.keys or {}).items()
    return any(written.bad or (name not in legal and closest(name, legal) == key) for name, written in keys)


def fields_at(model: type[BaseModel], loc: Sequence[str | int]) -> Mapping[str, FieldInfo]:
    """Give the fields of the mapping at `loc` by key; none where any name may stand."""
    current: Any = model
    for part in loc:
        current = _inner(current)
        if _is_model(current):
            found = _fields(current).get(str(part))
            if found is not None:
                current = found.annotation
            elif not isinstance(part, int):  # a number is an item of a predicate's list form, a predicate again
                return {}
        elif get_origin(current) is dict and isinstance(part, str):
            current = get_args(current)[1]
        elif get_origin(current) is list and isinstance(part, int):
            current = get_args(current)[0]
        else:
            return {}
    current = _inner(current)
    return _fields(current) if _is_model(current) else {}


def _inner(annotation: Any) -> Any:
    """Strip Annotated, and None from unions."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in (Union, types.UnionType):
            annotation = next(a for a in get_args(annotation) if a is not type(None))
        else:
            return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _about(fields: Mapping[str, FieldInfo], key: str) -> str:
    return (fields[key].description or "") if key in fields else ""


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"`{shorten(str(value))}`"


def _named(loc: Loc) -> str:
    """Name a value by the last key that leads to it."""
    key = next((part for part in reversed(loc) if isinstance(part, str)), None)
    if key is None:
        return "the document"
    return f"`{shorten(key)}`" if isinstance(loc[-1], str) else f"an item of `{shorten(key)}`"


class _Fault:
    """One pydantic error; `loc` is where it stands in the document, for `missing` the mapping that lacks the key."""

    def __init__(self, model: type[BaseModel], document: Document, error: dict[str, Any]) -> None:
        self.model = model
        self.document = document
        self.kind: str = error["type"]
        self.value = error["input"]
        self.context: dict[str, Any] = error.get("ctx", {})
        raw: Loc = error["loc"]
        self.last = str(raw[-1]) if raw else ""
        self.is_key = self.last == "[key]" and self.kind != "extra_forbidden"
        # Parts that are no nodes stand for the long form of something written short.
        found: list[str | int] = []
        self.node = document.root
        for part in raw[:-1] if self.is_key else raw:
            child = self.node.child(part)
            if child is not None:
                found.append(part)
                self.node = child
        self.loc = tuple(found)

    def problem(self) -> Problem | None:
        """Give the finding; None when it only follows from one that is reported elsewhere."""
        kind, name = self.kind, _named(self.loc)
        if self.node.bad:
            return None
        if kind.startswith("RG"):
            return self.say(kind, self.context["message"], self.context["hint"])
        if kind == "missing":
            return self.missing()
        if kind == "extra_forbidden":
            return self.extra()
        if kind == "literal_error":
            return self.literal()
        if kind == "string_pattern_mismatch":
            return self.grammar(str(self.value), self.context["pattern"])
        if kind == "string_too_short":
            return self.say("RG202", "a key is empty" if self.is_key else f"{name} is empty", "write some text")
        if kind == "string_too_long":
            limit = self.context["max_length"]
            return self.say("RG205", f"{_shown(self.value)} is longer than {limit} characters", "shorten it")
        if kind == "too_short":
            return self.say("RG206", f"{name} is empty", "list something, or remove the key")
        if kind == "too_long":
            count, limit = self.context["actual_length"], self.context["max_length"]
            return self.say("RG004", f"{count} entries in {name} exceed the limit of {limit}", "shorten the list")
        if kind == "greater_than_equal":
            message = f"{name} must be at least {self.context['ge']:g}, not {_shown(self.value)}"
            return self.say("RG202", message, self.about())
        return self.wrong_type()

    def say(self, code: str, message: str, hint: str) -> Problem:
        block = self.node.values is not None and self.node.line != self.node.end_line
        return Problem(code, self.document.where(self.loc, key=self.is_key or block), message, hint)

    def about(self) -> str:
        """Give what the model says of the field that the value belongs to."""
        at = next((i for i in reversed(range(len(self.loc))) if isinstance(self.loc[i], str)), None)
        return "" if at is None else _about(fields_at(self.model, self.loc[:at]), str(self.loc[at]))

    def missing(self) -> Problem | None:
        key, fields = self.last, fields_at(self.model, self.loc)
        if may_stand_for(self.node, key, fields):
            return None
        where = self.document.where(self.loc, key=True)
        hint = f"add `{key}:`. {_about(fields, key)}".removesuffix(". ")
        return Problem("RG203", where, f"{_named(self.loc)} has no `{key}`", hint)

    def extra(self) -> Problem:
        key, parent = str(self.loc[-1]), self.loc[:-1]
        place = f" in {_named(parent)}" if parent else ""
        hint = did_you_mean(key, fields_at(self.model, parent))
        where = self.document.where(self.loc, key=True)
        return Problem("RG201", where, f"unknown key `{shorten(key)}`{place}", hint)

    def literal(self) -> Problem:
        expected = str(self.context["expected"])
        legal = re.findall(r"'([^']*)'", expected) or [expected.lower()]
        name = _named(self.loc[:-1] if self.is_key else self.loc)
        return self.say("RG204", f"{_shown(self.value)} is not legal in {name}", did_you_mean(str(self.value), legal))

    def grammar(self, value: str, pattern: str) -> Problem:
        shown = _shown(value)
        if not value.isascii():
            odd = next(c for c in value if not c.isascii())
            hint = f"character {value.index(odd) + 1} is U+{ord(odd):04X}; names are ASCII"
            return self.say("RG107", f"{shown} has characters outside ASCII", hint)
        if ":" in pattern:
            tail = value.partition(":")[2]
            if "." in tail or tail.startswith("_"):
                message = f"{shown}: a dot or a leading `_` after the colon"
                return self.say("RG802", message, "name one public function, as `package.module:function`")
            return self.say("RG205", f"{shown} is no dotted path", _as_path(value))
        if "A-Z" in pattern:
            characters = "letters, digits, `_`, `.` and `-`" if "." in pattern else "letters, digits and `_`"
            hint = f"names have {characters}. {self.about()}".removesuffix(". ")
            return self.say("RG205", f"{shown} is no legal name", hint)
        fixed = re.sub(r"[^a-z0-9_]", "_", value.lower())
        example = f", such as `{shorten(fixed)}`" if re.search(pattern, fixed) else ""
        words = re.split(r"\s+and\s+|\s*&&?\s*", value)
        if len(words) > 1 and all(re.search(pattern, word) for word in words):
            example = f"; conditions that must all hold are a list: [{', '.join(words)}]"
        hint = f"names have lower-case letters, digits and `_`, a letter first{example}"
        return self.say("RG205", f"{shown} is no legal name", hint)

    def wrong_type(self) -> Problem:
        value, node = self.value, self.node
        if self.kind == "string_type" and node.plain and value.__class__ in (int, float):
            written = self.document.lines[node.line - 1][node.column - 1 : node.end_column - 1]
            quoted = f'">={written}"' if self.loc[-1:] == ("python",) else f'"{written}"'
            hint = f"write {quoted}. {self.about()}".removesuffix(". ")
            return self.say("RG103", f"`{written}` is a number where text belongs", hint)
        wanted = _TYPES.get(self.kind, "something else")
        hint = self.about()
        if wanted == "a list":
            hint = "start each entry with `- `" if isinstance(value, dict) else f"write [{shorten(str(value))}]"
        elif wanted == "a mapping" and isinstance(value, list):
            hint = "write `key: value` entries, without `- `"
        elif wanted == "text" and isinstance(value, bool):
            hint = f'write "{str(value).lower()}"'
        return self.say("RG202", f"{_named(self.loc)} must be {wanted}, not {_shown(value)}", hint)


def _as_path(value: str) -> str:
    """Say how a text would be written as `package.module:function`, where that can be guessed."""
    fixed = value.strip().replace("/", ".").replace("-", "_").replace(".py:", ":").replace("::", ":")
    module, colon, name = fixed.partition(":")
    if not colon:
        module, _, name = fixed.rpartition(".")
    guess = f"{module}:{name}"
    if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z]\w*", guess, re.ASCII):
        return f"write it as `package.module:function`: did you mean `{shorten(guess)}`?"
    return "write it as `package.module:function`"
