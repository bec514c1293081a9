"""From pydantic's errors to problems at places.

Owns the translation of error types to codes RG004, RG103, RG107, RG201 to RG206, RG208, RG802 and RG804, their wording,
and which repair a value has that the reader could not read. Works with any model; knows none. A validator that knows
better raises an error whose type is a rule code.
"""

from __future__ import annotations

import re
import types
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from rung import repairs, wording
from rung.diagnostics import Edit, Problem, did_you_mean, shorten
from rung.records import replace
from rung.source import MAX_FINDINGS, lookalike

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pydantic.fields import FieldInfo

    from rung.diagnostics import Problems
    from rung.source import Document, Node

__all__ = ["bad_places", "fields_at", "may_stand_for", "validate"]

M = TypeVar("M", bound=BaseModel)
Loc = tuple[str | int, ...]

MAX_ERRORS: Final = 20_000
"""Errors that are looked at one by one; a file with more of them is none of ours."""
MAX_MISSPELT: Final = 100
"""Illegal keys of one mapping among which a misspelt one is looked for."""

_YES: Final = frozenset({"true", "yes", "on", "y"})
_NO: Final = frozenset({"false", "no", "off", "n"})
_TRUE_ONLY: Final = "true_only"
_RANGE: Final = re.compile(r"[+*<>=~]|\.\.|\b(newer|later|above|up)\b")
"""What says in an arch's name that others are meant too."""
_SEVERAL: Final = re.compile(r"\s*[,;|&/+]\s*|\s+(?:and|or)\s+")
_WIDTH: Final = 20
"""Characters of a name, and of a value, where a message has both."""
_SHOWN: Final = 4
"""Values at most that a hint writes out."""
_NO_CONDITION: Final = "what has no condition always holds: remove the key"
_NO_DASHES: Final = "write `key: value` entries, without `- `"
_NO_TERM: Final = "what asks nothing always holds: remove the item"
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
    outcome = _validated(model, document)
    if isinstance(outcome, list) and _take_former_names(outcome, document, problems):
        outcome = _validated(model, document)
    if outcome is None:
        message = f"more than {MAX_ERRORS} findings in this file"
        problems.add("RG004", document.where(), message, hint="is it a manifest? None of it is used")
        return []
    faults = outcome if isinstance(outcome, list) else []
    _offer_repairs(model, document, faults, problems)
    _try_quotes(model, document, faults)
    told = (problem for fault in faults if (problem := fault.problem()) is not None)
    problems.found += islice(told, MAX_FINDINGS)
    return [fault.loc for fault in faults] if isinstance(outcome, list) else outcome


def _validated(model: type[M], document: Document) -> M | list[_Fault] | None:
    """Give the model, or the faults; None when they are too many to be looked at."""
    try:
        return model.model_validate(document.data, context={})
    except ValidationError as errors:
        if errors.error_count() > MAX_ERRORS:
            return None
        return [_Fault(model, document, dict(error)) for error in errors.errors(include_url=False)]


def _take_former_names(faults: Iterable[_Fault], document: Document, problems: Problems) -> bool:
    """Report keys that were renamed and let their values stand under the new names; say whether there were any."""
    taken = False
    for fault in faults:
        name = fault.former
        if name is None:
            continue
        parent, key = document.node(fault.loc[:-1]), str(fault.loc[-1])
        data: Any = parent.data
        assert parent.values is not None
        where = document.where(fault.loc, key=True)
        message = f"`{key}` is now called `{name}`"
        if name in parent.values:
            related = ((document.where((*fault.loc[:-1], name), key=True), f"`{name}`"),)
            problems.add("RG208", where, message, hint="both are given: keep one of them", related=related)
            del parent.values[key], data[key]
        else:
            written = parent.values[key].key
            edit = None if written is None else repairs.renamed(document, written, name)
            problems.add("RG208", where, message, hint=f"rename it to `{name}`", edit=edit)
            parent.values[name] = parent.values.pop(key)
            data[name] = data.pop(key)
        taken = True
    return taken


def _offer_repairs(model: type[BaseModel], document: Document, faults: list[_Fault], problems: Problems) -> None:
    """Add a repair, or at least a hint, to what the reader rejected for what YAML readers make of it.

    Which value was meant depends on what belongs in its place, and that the reader does not know.
    """
    found = problems.found
    mine: list[int] = []
    for index in range(len(found) - 1, -1, -1):  # those of this document are the last ones
        where = found[index].where
        if where is None or where.path != document.path:
            break
        mine += [index] if found[index].code == "RG102" else []
    if not mine:
        return
    at = {(node.line, node.column): (loc, node) for loc, node in _rejected(document.root)}
    kinds: dict[tuple[Loc, bool], set[str]] = {}
    blocked: set[Loc] = set()
    for fault in faults:
        kind = _TRUE_ONLY if fault.context.get("expected") == "True" else fault.kind
        kinds.setdefault((fault.loc, fault.is_key), set()).add(kind)
        if fault.kind != "missing":
            blocked.add(fault.loc)
    for index in mine:
        where = found[index].where
        assert where is not None
        loc, node = at.get((where.line, where.column), ((), document.root))
        if not loc or any(loc[:size] in blocked for size in range(1, len(loc))):
            continue
        is_key = document.node(loc) is not node
        edit, hint = _reading(model, document, loc, node, kinds.get((loc, is_key), set()), is_key=is_key)
        found[index] = replace(found[index], edit=edit, hint=hint or found[index].hint)


def _rejected(root: Node) -> Iterator[tuple[Loc, Node]]:
    """Give every scalar and key that the reader rejected, with the place it leads to."""
    for loc in bad_places(root):
        node = root
        for part in loc:
            node = node.child(part) or node
        yield loc, node.key if node.key is not None and node.key.bad else node


def _reading(
    model: type[BaseModel], document: Document, loc: Loc, node: Node, kinds: set[str], *, is_key: bool
) -> tuple[Edit | None, str]:
    """Give the one reading of a rejected scalar that fits its place, as an edit and a hint; (None, "") for none."""
    text = repairs.written(document, node)
    if not kinds:
        parent = _inner(_annotation_at(model, loc[:-1]))
        wanted = _inner(_annotation_at(model, loc))
        if not is_key and _is_model(wanted) and "use" in _fields(wanted) and text.lower() in _YES:
            return None, _NO_CONDITION
        fits = get_origin(parent) is dict if is_key else _takes_text(wanted)
        hint = f'write "{shorten(text)}"'
        if not is_key and loc[-1] in wording.PROSE:
            hint += ", or rather say it in words"
        return (repairs.quoted(document, node), hint) if fits else (None, "")
    if kinds <= {"float_type", "int_type"}:
        fixed = repairs.as_number(text, whole=kinds == {"int_type"})
    elif kinds == {_TRUE_ONLY} and text.lower() in _YES:
        fixed = "true"
    elif kinds == {"bool_type"} and text.lower() in _YES | _NO:
        fixed = "true" if text.lower() in _YES else "false"
    else:
        belongs = next((_TYPES[kind] for kind in sorted(kinds) if kind in _TYPES), None)
        if belongs is None:
            return None, ""
        about = _about(fields_at(model, loc[:-1]), str(loc[-1]))
        return None, f"{_named(loc)} must be {belongs}. {about}".removesuffix(". ")
    if fixed is None:
        return None, "write a whole number" if "int_type" in kinds else "write a number, such as 0.5 or 1.0e-6"
    return Edit(document.place(node), fixed, f"wrote `{shorten(text)}` as `{fixed}`"), f"write {fixed}"


def _try_quotes(model: type[BaseModel], document: Document, faults: list[_Fault]) -> None:
    """Find out which numbers that stand where text belongs would be legal in quotes."""
    numbers = [fault for fault in faults if fault.is_number]
    for fault in numbers:
        fault.put(fault.written)
    outcome = _validated(model, document) if numbers else []
    refused = {fault.loc for fault in outcome} if isinstance(outcome, list) else set()
    for fault in numbers:
        fault.put(fault.value)
        fault.quotable = fault.loc not in refused


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
    keys = node.keys.items()
    if any(written.bad for _, written in keys):
        return True
    illegal = islice((name for name, _ in keys if name not in legal), MAX_MISSPELT)
    # In `{impl:"a:b"}` all is one key, for want of a blank behind the colon.
    starts = (name.partition(":")[0] for name in illegal)
    return any(key == (start if start in legal else wording.meant(start, legal)) for start in starts)


def fields_at(model: type[BaseModel], loc: Sequence[str | int]) -> Mapping[str, FieldInfo]:
    """Give the fields of the mapping at `loc` by key; none where any name may stand."""
    current = _inner(_annotation_at(model, loc))
    return _fields(current) if _is_model(current) else {}


def _annotation_at(model: type[BaseModel], loc: Sequence[str | int]) -> Any:
    """Give the type of the value at `loc`; None where nothing is known of it."""
    current: Any = model
    for part in loc:
        current = _inner(current)
        if _is_model(current):
            found = _fields(current).get(str(part))
            if found is not None:
                current = found.annotation
            elif not isinstance(part, int):  # a number is an item of a predicate's list form, a predicate again
                return None
        elif get_origin(current) is dict and isinstance(part, str):
            current = get_args(current)[1]
        elif get_origin(current) is list and isinstance(part, int):
            current = get_args(current)[0]
        else:
            return None
    return current


def _takes_text(annotation: Any) -> bool:
    """Say whether a value of this type can be any text, or a list of such that may be written as one."""
    inner = _inner(annotation)
    return inner is str or (get_origin(inner) is list and _inner(get_args(inner)[0]) is str)


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


def _short_forms(annotation: Any) -> list[Any]:
    """Give the words that may stand for a whole mapping."""
    inputs = [getattr(item, "json_schema_input_type", None) for item in getattr(annotation, "__metadata__", ())]
    members = [member for given in inputs for member in get_args(given) if get_origin(member) is Literal]
    return [word for member in members for word in get_args(member)]


def _glued(value: Any, legal: Collection[str]) -> str:
    """Say how a key and its value are written that stand in one text for want of a blank, "" where it is no such."""
    key, colon, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    found = colon and key in legal and rest
    return f"put a blank behind the colon: `{shorten(f'{key}: {rest}')}`" if found else ""


def _shown(value: Any, limit: int = 40) -> str:
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"`{shorten(str(value), limit)}`"


def _named(loc: Loc) -> str:
    """Name a value by the last key that leads to it."""
    key = next((part for part in reversed(loc) if isinstance(part, str)), None)
    if key is None:
        return "the document"
    shown = shorten(key, _WIDTH)
    return f"`{shown}`" if isinstance(loc[-1], str) else f"an item of `{shown}`"


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
        self.quotable = False

    @property
    def former(self) -> str | None:
        """What an unknown key is called now that it was renamed."""
        if self.kind != "extra_forbidden" or self.node.bad or not self.loc:
            return None
        return wording.former(str(self.loc[-1]), fields_at(self.model, self.loc[:-1]))

    @property
    def is_number(self) -> bool:
        """Whether a number stands where text belongs."""
        plain = self.node.plain and not self.node.bad
        return self.kind == "string_type" and plain and self.value.__class__ in (int, float)

    @property
    def written(self) -> str:
        """The value as it stands in the file."""
        return repairs.written(self.document, self.node)

    def put(self, value: Any) -> None:
        """Let the value of a scalar be another one."""
        data: Any = self.document.node(self.loc[:-1]).data
        data[self.loc[-1]] = value

    def problem(self) -> Problem | None:
        """Give the finding; None when it only follows from one that is reported elsewhere."""
        kind, name = self.kind, _named(self.loc)
        if self.node.bad:
            return None
        if kind == "RG203" and self.loc and self.loc[-1] in ("driver", "runtime"):
            beside: Any = self.document.node(self.loc[:-1]).data
            if wording.version_apart(str(self.loc[-1]), beside) is not None:  # which is reported at the version
                return None
        if kind.startswith("RG"):
            lacks = kind == "RG203" and self.node.values is not None
            return self.say(kind, self.context["message"], self.context["hint"], key=lacks)
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

    def say(self, code: str, message: str, hint: str, edit: Edit | None = None, *, key: bool = False) -> Problem:
        block = self.node.values is not None and self.node.line != self.node.end_line
        where = self.document.where(self.loc, key=key or self.is_key or block)
        return Problem(code, where, message, hint, edit=edit)

    def about(self) -> str:
        """Give what the model says of the field that the value belongs to."""
        at = next((i for i in reversed(range(len(self.loc))) if isinstance(self.loc[i], str)), None)
        return "" if at is None else _about(fields_at(self.model, self.loc[:at]), str(self.loc[at]))

    def examples(self) -> list[Any]:
        """Give the model's examples of what the value may be."""
        at = next(i for i in reversed(range(len(self.loc))) if isinstance(self.loc[i], str))
        fields = fields_at(self.model, self.loc[:at])
        return (fields[str(self.loc[at])].examples or []) if self.loc[at] in fields else []

    def example(self) -> str:
        """Give the first text among the model's examples, "" when there is none."""
        found: Any = next(iter(self.examples()), "")
        while isinstance(found, list | dict) and found:
            found = next(iter(found))
        return found if isinstance(found, str) else ""

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
        guarded = self.widening()
        if guarded:
            where = self.document.where(guarded, key=True)
            hint = "the caller says what they may bind: `allow=` in Python, `--allow` on the command line"
            return Problem("RG804", where, f"`{shorten(str(guarded[-1]))}`: no manifest allows what it binds", hint)
        above = self.above()
        beside: Any = self.document.node(parent).data
        hint = wording.hint_for_key(key, self.value, fields_at(self.model, parent), beside)
        if above and not hint.endswith("?"):
            hint = f"indent it if it belongs to `{above}`; {hint}"
        where = self.document.where(self.loc, key=True)
        return Problem("RG201", where, f"unknown key `{shorten(key, _WIDTH if place else 40)}`{place}", hint)

    def above(self) -> str:
        """Give the key right above an unknown one, if it has no value: what follows may have lost its indentation."""
        names = list(self.document.node(self.loc[:-1]).values or {})
        before = names[max(0, names.index(str(self.loc[-1])) - 1)]
        node = self.document.node((*self.loc[:-1], before))
        return shorten(before) if node.bad and node.data is None else ""

    def widening(self) -> Loc:
        """Give the place of a key that would widen what manifests may bind, at the top or in a row; () for none."""
        if wording.trusting(str(self.loc[-1])) and (
            len(self.loc) == 1 or "impl" in fields_at(self.model, self.loc[:-1])
        ):
            return self.loc
        if len(self.loc) > 1:
            return ()
        inner = self.node.values or {}
        return next(((*self.loc, key) for key in inner if wording.trusting(key)), ())

    def literal(self) -> Problem:
        expected = str(self.context["expected"])
        legal = re.findall(r"'([^']*)'", expected) or [expected.lower()]
        name = _named(self.loc[:-1] if self.is_key else self.loc)
        hint = did_you_mean(wording.meant_value(str(self.value), legal), legal)
        if isinstance(self.value, list) and len(self.value) == 1 and self.value[0] in legal:
            hint = f"write `{self.value[0]}` alone, without `[` and `]` or `- `"
        elif isinstance(self.value, list):
            hint = f"write one of them. {self.about()}".removesuffix(". ")
        return self.say("RG204", f"{_shown(self.value, _WIDTH)} is not legal in {name}", hint)

    def grammar(self, value: str, pattern: str) -> Problem:
        shown = _shown(value)
        if not self.node.data:
            return self.say("RG205", f"{_named(self.loc)} is empty", self.about())
        if not value:
            return self.say("RG205", f"{_shown(self.node.data)} starts with no name", self.about())
        if not value.isascii():
            return self.say("RG107", f"{shown} has characters outside ASCII", lookalike(value))
        if ":" in pattern:
            tail = value.partition(":")[2]
            if "." in tail or tail.startswith("_"):
                message = f"{shown}: a dot or a leading `_` after the colon"
                return self.say("RG802", message, "name one public function, as `package.module:function`")
            return self.say("RG205", f"{shown} is no dotted path", _as_path(value))
        several = "" if _RANGE.search(value) else self.several(_SEVERAL.split(value.strip()), pattern)
        if self.last == "use":
            return self.named(value, pattern)
        if "A-Z" not in pattern:
            hint = "names have lower-case letters, digits and `_`, a letter first"
            asked = wording.version_of_device(value) if self.is_atom else None
            fixed = _as_name(value)
            if asked or several:
                hint = asked or several
            elif re.search(pattern, fixed):
                hint += f", such as `{shorten(fixed)}`"
            return self.say("RG205", f"{shown} is no legal name", hint)
        base, colon, _ = value.partition(":")
        if colon and re.search(pattern, base):
            hint = f"write `{shorten(base)}`; what follows the colon is no part of a name: ask for it in `when`"
        elif "." not in pattern:
            hint = several or self.as_module(value, pattern)
        else:
            hint = several or self.as_arch(value, pattern)
        return self.say("RG205", f"{shown} is no legal name", hint)

    @property
    def is_atom(self) -> bool:
        """Whether the value is, or belongs to, what an atom of a predicate asks for."""
        return any("use" in fields_at(self.model, self.loc[:size]) for size in range(len(self.loc)))

    def named(self, value: str, pattern: str) -> Problem:
        """Judge a text that stands for a predicate, and is no name: often it is a condition in other words."""
        shown = _shown(value)
        meant = wording.version_of_device(value)
        if meant is None and (written := wording.condition(value)):
            meant = f"write {shorten(written, 120)}"
        meant = meant or _glued(value, fields_at(self.model, self.loc)) or None
        if meant is not None:
            return self.say("RG205", f"{shown} is no predicate's name", meant)
        hint = "names have lower-case letters, digits and `_`, a letter first"
        fixed, words = _as_name(value), value.split()
        if 1 < len(words) <= _SHOWN and all(re.search(pattern, word) for word in words):
            hint += f", such as `{shorten(fixed)}`; conditions that must all hold are a list: [{', '.join(words)}]"
        elif re.search(pattern, fixed):
            module = shorten(wording.import_name(fixed))
            hint += f", such as `{shorten(fixed)}`; a module is asked for as {{module: {module}}}"
        return self.say("RG205", f"{shown} is no legal name", hint)

    def several(self, values: Sequence[str], pattern: str) -> str:
        """Say where several names go that were written as one text, "" when they are no such names."""
        if not 1 < len(values) <= _SHOWN or self.is_key or not all(re.search(pattern, value) for value in values):
            return ""
        if isinstance(self.loc[-1], int):
            return f"write them as items of their own: {', '.join(values)}"
        if get_origin(_inner(_annotation_at(self.model, self.loc))) is list:
            return f"write a list: [{', '.join(values)}]"
        return self.as_atoms(values) if self.is_atom else "write one name"

    def as_module(self, value: str, pattern: str) -> str:
        """Say how a module is asked for whose import name a text is not."""
        hint = "an import name has letters, digits and `_`, no digit first"
        several = self.several(_SEVERAL.split(str(self.node.data).strip()), pattern)
        if several:
            return several
        meant = wording.import_name(value)
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", meant):
            return f"{hint}: write `{shorten(meant)}`"
        top = re.match(r"[A-Za-z_][A-Za-z0-9_]*(?=[.\[])", value)
        return f"{hint}; only the top one is looked for: write `{shorten(top[0])}`" if top else hint

    def as_arch(self, value: str, pattern: str) -> str:
        """Say what to write instead of a text that is no arch's name: archs are listed, and no range of them."""
        hint = "a name has a letter first, then letters, digits, `_`, `.` and `-`"
        at = max((i for i, part in enumerate(self.loc) if isinstance(part, str)), default=0)
        named = re.search(r"[A-Za-z][A-Za-z0-9]*_?[0-9][A-Za-z0-9_]*", value)
        shown = named[0] if named is not None else self.example()
        such = f", such as `{shorten(shown)}`" if shown and re.search(pattern, shown) else ""
        if _RANGE.search(value) and "impl" in fields_at(self.model, self.loc[:at]):
            return f"a cell lists its targets{such}: newer hardware runs code for older targets wherever it can"
        return f"{hint}{such}. {self.about()}".removesuffix(". ")

    def wrong_type(self) -> Problem:
        value = self.value
        if self.is_number:
            return self.number()
        wanted = _TYPES.get(self.kind, "something else")
        hint = self.about()
        if isinstance(value, list) and self.is_atom and not self.is_key and isinstance(self.loc[-1], str):
            hint = self.listed(value) or hint
        elif wanted == "text" and isinstance(value, dict) and self.loc == ("backend",):
            hint = wording.one_backend(value)
        elif wanted == "a list":
            hint = "start each entry with `- `" if isinstance(value, dict) else f"write [{shorten(str(value))}]"
        elif wanted == "a mapping":
            hint = self.as_mapping() or hint
        elif (unquoted := self.unquoted()) is not None:
            hint = f"write {unquoted}, without quotes"
            return self.say("RG202", f"{_named(self.loc)} must be {wanted}, not text", hint)
        elif wanted == "text" and isinstance(value, bool):
            hint = self.in_words() or f'write "{str(value).lower()}"'
        elif wanted == "text" and isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
            hint = f"write `{shorten(value[0])}` alone, without `[` and `]` or `- `. {hint}"
        elif wanted == "text" and isinstance(value, list):
            hint = self.in_words() or hint
        message = f"{_named(self.loc)} must be {wanted}, not {_shown(value, _WIDTH)}"
        return self.say("RG202", message, hint.removesuffix(". "))

    def unquoted(self) -> str | None:
        """Give the number, or true or false, that a text would be without its quotes; None where it is none."""
        if not isinstance(self.value, str):
            return None
        if self.kind == "bool_type":
            return self.value if self.value in ("true", "false") else None
        is_whole = self.kind.startswith("int_")
        return repairs.as_number(self.value, whole=is_whole) if is_whole or self.kind == "float_type" else None

    def as_mapping(self) -> str:
        """Say what to write instead of a value that should be a mapping."""
        value, annotation = self.value, _inner(_annotation_at(self.model, self.loc))
        entry = get_args(annotation)[1] if get_origin(annotation) is dict else None
        if isinstance(value, str) and get_origin(_inner(entry)) is list:
            return f"write [{shorten(value)}]"
        if isinstance(value, list) and get_origin(_inner(entry)) is list:
            example = next((e for e in self.examples() if isinstance(e, dict)), None)
            if example and value and all(isinstance(item, str) for item in value):
                listed = f"[{shorten(', '.join(value))}]"
                return f"write the list below a name: {{{next(iter(example))}: {listed}}}"
            return "write the name of what is served as a key, and its rows below it, each with `- `"
        if isinstance(value, list):
            alone = len(value) == 1 and value[0] in _short_forms(_annotation_at(self.model, self.loc))
            return f"write `{value[0]}` alone, without `[` and `]` or `- `" if alone else _NO_DASHES
        glued = _glued(value, fields_at(self.model, self.loc))
        if glued:
            return glued
        about = self.about()
        if _is_model(annotation) and "use" in _fields(annotation):
            if isinstance(value, bool):
                never = "remove what never holds"
                return never if not value else _NO_CONDITION if isinstance(self.loc[-1], str) else _NO_TERM
            if isinstance(self.loc[-1], int) or not self.examples():
                return "write a predicate's name, or an atom such as {module: torch >=2.4}"
        if _is_model(annotation) and "use" not in _fields(annotation):
            keys = ", ".join(f"`{key}`" for key in _fields(annotation))
            return f"{about} Its keys: {keys}".strip()
        example = next((e for e in self.examples() if isinstance(e, dict)), None)
        return f"{about} Such as {_flow(example)}" if example else about

    def listed(self, value: list[Any]) -> str:
        """Say what to write instead of a list where an atom asks for one thing, "" when nothing better is known."""
        key = str(self.loc[-1])
        texts = [item for item in value if isinstance(item, str) and item]
        if "use" not in fields_at(self.model, self.loc[:-1]) or len(texts) != len(value) or not value:
            return ""
        if len(texts) == 1:
            return f"write `{shorten(texts[0])}` alone, without `[` and `]` or `- `"
        if key == "python":
            return f'write "{shorten(",".join(texts))}"'
        return self.as_atoms(texts)

    def as_atoms(self, values: Sequence[str]) -> str:
        """Write one atom for each of several values, of which all or any must hold."""
        key = str(self.loc[-1] if isinstance(self.loc[-1], str) else self.loc[-2])
        texts = [wording.in_flow(shorten(value)) for value in values[:_SHOWN]]
        shown = texts if key == "use" else [f"{{{key}: {text}}}" for text in texts]
        terms = ", ".join([*shown, "..."] if len(values) > _SHOWN else shown)
        if key in ("arch", "device"):
            return f"write {{any: [{terms}]}}: one of them must hold"
        return f"write [{terms}] if all must hold, {{any: [{terms}]}} if one is enough"

    def in_words(self) -> str:
        """Ask for the sentence that belongs here; "" where none does."""
        if not self.loc or self.loc[-1] not in wording.PROSE:
            return ""
        example = self.example()
        such = f" Such as: {example}" if example else ""
        never = "remove the key, or " if self.value is False else ""
        return f"{never}say it in words. {self.about()}{such}"

    def number(self) -> Problem:
        text, edit = self.written, None
        if self.loc[-1] in ("python", "version"):
            hint = f'write ">={text}"'
        elif self.quotable:
            hint, edit = f'write "{text}"', repairs.quoted(self.document, self.node)
            hint += ", or rather say it in words" if self.loc[-1] in wording.PROSE else ""
        else:
            example = self.example()
            hint = "write its name" + (f", such as `{example}`" if example else "")
        hint = f"{hint}. {self.about()}".removesuffix(". ")
        return self.say("RG103", f"`{text}` is a number where text belongs", hint, edit)


def _flow(example: Any) -> str:
    """Write an example as YAML on one line."""
    if isinstance(example, dict):
        return "{" + ", ".join(f"{key}: {_flow(value)}" for key, value in example.items()) + "}"
    if isinstance(example, list):
        return "[" + ", ".join(_flow(item) for item in example) + "]"
    if isinstance(example, bool):
        return str(example).lower()
    return f"{example:.1e}" if isinstance(example, float) else str(example)


def _as_name(value: str) -> str:
    """Write a text as a name would be: `FlowMatchStep` and `flow-match step` are both `flow_match_step`."""
    base = value.partition(":")[0]
    return re.sub(r"[^a-z0-9_]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", base).lower()).strip("_")


def _as_path(value: str) -> str:
    """Say how a text would be written as `package.module:function`, where that can be guessed."""
    form = "write it as `package.module:function`"
    text = re.sub(r"\(.*\)$", "", value.strip())
    imported = re.fullmatch(r"from\s+([\w.]+)\s+import\s+(\w+)", text)
    if imported:
        text = f"{imported[1]}:{imported[2]}"
    is_file = re.search(r"\.py(?=:|$)", text) is not None
    fixed = re.sub(r"\s*::?\s*", ":", re.sub(r"\.py(?=:|$)", "", text).replace("/", "."), count=1)
    module, colon, name = fixed.partition(":")
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", module, re.ASCII):
        odd = "" if module.startswith(".") or not module else "; names have letters, digits and `_`, no digit first"
        return f"{form}, the package first{odd}"
    if colon and name:
        if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
            return f"{form}: did you mean `{shorten(f'{module}:{name}')}`?"
        return f"{form}; a function's name has letters, digits and `_`, a letter first"
    # Without a colon only the package's own files could tell whether the last part is a module.
    ask = f"name the function behind a colon, as in `{shorten(module)}:NAME`"
    outer, _, last = module.rpartition(".")
    if colon or is_file or "." not in outer:
        return f"{form}: {ask}"
    return f"{form}: did you mean `{shorten(f'{outer}:{last}')}`? If that is a module, {ask}"
