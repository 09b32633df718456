"""Read what `mnrun VERB --json` has printed, in unit and live tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMAS = Path(__file__).parents[1] / "docs/reference/schemas"


def checked(verb: str, text: str) -> dict[str, Any]:
    """The answer, if the published schema of the verb allows it, and names each of its keys."""
    found: dict[str, Any] = json.loads(text)
    schema = json.loads((SCHEMAS / f"{verb.replace(' ', '-')}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(strict(schema)).validate(found)
    return found


def strict(schema: Any) -> Any:
    """The schema without leave for other keys, which programs of today have for versions to come."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "required" in schema else {}
    return {**closed, **{key: strict(part) for key, part in schema.items()}}
