"""Writes the generated JSON Schemas into `schemas/`; `make schemas` runs it, tests/test_schemas.py checks them."""

from __future__ import annotations

import json
from pathlib import Path

from rung.schemas import schemas

SCHEMAS = Path(__file__).parents[1] / "schemas"


def text_of(schema: dict[str, object]) -> str:
    """Give a schema as it is committed."""
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    for name, schema in schemas().items():
        (SCHEMAS / name).write_text(text_of(schema), encoding="utf-8")
