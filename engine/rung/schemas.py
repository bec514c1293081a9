"""The JSON Schemas that editors use, generated from the models.

Owns what pydantic's own schema leaves out. `rung check` is the authority; a schema serves the editor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rung.models import FactsFile, ManifestFile

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["schemas"]


def schemas() -> dict[str, dict[str, Any]]:
    """Give the JSON Schemas by file name."""
    titles: dict[str, tuple[type[BaseModel], str]] = {
        "manifest.schema.json": (ManifestFile, "rung manifest"),
        "facts.schema.json": (FactsFile, "rung facts"),
    }
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {
        name: {"$schema": dialect, **_tightened(model.model_json_schema(by_alias=True)), "title": title}
        for name, (model, title) in titles.items()
    }


def _tightened(schema: Any) -> Any:
    """Say in a schema what pydantic leaves out: no value is null, and a key that fits no pattern is illegal."""
    if isinstance(schema, list):
        return [_tightened(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: _tightened(v) for k, v in schema.items() if not (k == "default" and v is None)}
    if "patternProperties" in out:
        out["additionalProperties"] = False
    if {"type": "null"} in out.get("anyOf", ()):
        rest = [choice for choice in out.pop("anyOf") if choice != {"type": "null"}]
        return {**rest[0], **out} if len(rest) == 1 else {"anyOf": rest, **out}
    return out
