"""Facts files: read with the strict reader, judged by their JSON Schema, and every fault worded as manifests' are.

Owns the checks and their wording. Imported only where facts are given by hand: most programs give none.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from rung.diagnostics import FactsError, Problems, did_you_mean, shorten
from rung.records import record
from rung.resources import data_dir
from rung.source import read_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

    from jsonschema.exceptions import ValidationError

    from rung.source import Document

__all__ = ["checked", "read"]


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    schema = json.loads((data_dir("schemas") / "facts.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema)


@record
class _Fault:
    """A breach of the facts schema: where in the data, of a value or with `key` of its key, and what is wrong."""

    loc: tuple[str | int, ...]
    code: str
    message: str
    hint: str = ""
    key: bool = False


_TYPES: Final = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "object": "a mapping",
    "string": "text",
}


def _faults(recorded: Mapping[str, object], document: Document | None = None) -> Iterator[_Fault]:
    """Give each breach of the facts schema, worded as manifests' faults are. The document has numbers as written."""
    for error in sorted(_validator().iter_errors(recorded), key=lambda e: [str(p) for p in e.absolute_path]):
        yield from _explain(error, document)


def _explain(error: ValidationError, document: Document | None) -> Iterator[_Fault]:
    """Say in our words what jsonschema found; in its own, what the schema does not ask for today."""
    loc, rule, schema = tuple(error.absolute_path), error.validator, error.schema
    value: Any = error.instance
    asked: Any = error.validator_value
    assert isinstance(schema, dict)
    name = f"`{shorten('.'.join(map(str, loc)))}`" if loc else "the document"
    deeper = [inner for inner in error.context or () if inner.validator != "type"]
    if deeper:
        for inner in deeper:
            yield from _explain(inner, document)
    elif rule == "additionalProperties":
        legal, names = schema.get("properties", {}), list(schema.get("patternProperties", ()))
        for key in value:
            if any(re.search(pattern, key) for pattern in names):
                continue
            if names:
                hint = "names have lower-case letters, digits and `_`, a letter first"
                yield _Fault((*loc, key), "RG205", f"`{shorten(key)}` in {name} is no legal name", hint, key=True)
            elif key not in legal:
                place = f" in {name}" if loc else ""
                message = f"unknown key `{shorten(key)}`{place}"
                yield _Fault((*loc, key), "RG201", message, did_you_mean(key, legal), key=True)
    elif rule == "required":
        for key in asked:
            if key not in value:
                yield _Fault(loc, "RG203", f"{name} has no `{key}`", f"add `{key}:`")
    elif rule == "const":
        yield _Fault(loc, "RG202", f"{name} must be {str(asked).lower()}, not {_shown(value)}")
    elif rule == "minLength":
        yield _Fault(loc, "RG202", f"{name} is empty", "write some text")
    elif rule == "maxLength":
        message = f"`{shorten(value)}` in {name} is longer than {asked} characters"
        yield _Fault((*loc, value), "RG205", message, "shorten it", key=True)
    elif rule in ("type", "anyOf") and "const" not in schema:
        yield _wrong_type(loc, name, value, [branch["type"] for branch in schema.get("anyOf", [schema])], document)
    elif rule != "type":
        yield _Fault(loc, "RG202", f"{name}: {error.message}")


def _wrong_type(
    loc: tuple[str | int, ...], name: str, value: object, wanted: list[str], document: Document | None
) -> _Fault:
    if "string" in wanted and isinstance(value, int | float) and not isinstance(value, bool):
        node = document.node(loc) if document is not None else None
        written = str(value)
        if document is not None and node is not None:
            written = document.lines[node.line - 1][node.column - 1 : node.end_column - 1]
        message = f"`{shorten(written)}` in {name} is a number where text belongs"
        return _Fault(loc, "RG103", message, f'write "{written}"')
    hint = ""
    if wanted == ["array"]:
        hint = "start each entry with `- `" if isinstance(value, dict) else f"write [{shorten(str(value))}]"
    elif wanted == ["object"] and isinstance(value, list):
        hint = "write `key: value` entries, without `- `"
    elif wanted == ["string"] and isinstance(value, bool):
        hint = f'write "{str(value).lower()}"'
    legal = ", ".join(_TYPES[kind] for kind in wanted)
    return _Fault(loc, "RG202", f"{name} must be {legal}, not {_shown(value)}", hint)


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value)
    return f"`{shorten(text.lower() if isinstance(value, bool) else text)}`"


def _with_hint(message: str, hint: str) -> str:
    return f"{message} ({hint})" if hint else message


def checked(recorded: Mapping[str, object], origin: str) -> Mapping[str, object]:
    """Give plain data in the file form; raise FactsError, naming `origin`, if it does not fit."""
    faults = [_with_hint(fault.message, fault.hint) for fault in _faults(recorded)]
    if faults:
        raise FactsError(f"{origin}: {'; '.join(faults)}")
    return recorded


def read(path: str | PathLike[str]) -> dict[str, object]:
    """Read a facts file, as `rung facts` writes it; raise FactsError naming every fault."""
    problems = Problems()
    document = read_path(path, str(path), problems)
    if document is not None:
        data = document.data
        assert isinstance(data, dict | list | str | int | float)
        if not isinstance(data, dict):
            problems.add("RG202", document.where(), "a facts file is a mapping that starts with `facts: 1`")
        elif not problems.errors:
            for fault in _faults(data, document):
                where = document.where(fault.loc, key=fault.key)
                problems.add(fault.code, where, fault.message, hint=fault.hint)
        if not problems.errors and isinstance(data, dict):
            return data
    raise FactsError("\n".join(_with_hint(problem.concise(), problem.hint) for problem in problems.errors))
