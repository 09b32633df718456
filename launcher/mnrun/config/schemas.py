"""Render what programs may rely on in mnrun's JSON: the schema of an answer, and docs/reference/json.md. Both come from
the fields of a dataclass, which have their meaning in Annotated. Touches no file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from mnrun.versioned import VERSION

Schema = Mapping[str, Any]
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_INTRODUCTION = """\
# JSON output

With `--json`, or `--format json`, these verbs print one JSON object on standard output. Messages go to standard error.

Its `version` changes if a key goes, or gets another meaning. New keys may come without that. So a program should skip
keys that it does not know.
"""
_END = """
## mnrun submit

`mnrun submit` prints the job's id alone on standard output: `id=$(mnrun submit job.toml)`.
"""


def schema(verb: str, *kinds: type) -> dict[str, Any]:
    """Return the JSON Schema of the answer to `mnrun VERB --json`, which has one of these forms."""
    version = {"const": VERSION, "description": "the version of this form"}
    forms = [_object(kind) for kind in kinds]
    for form in forms:
        form.update(properties={"version": version, **form["properties"]}, required=["version", *form["required"]])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"mnrun {verb} --json"}
    return {**head, **(forms[0] if len(forms) == 1 else {"anyOf": forms})}


def _object(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)  # Python 3.9 cannot evaluate `int | None`
    keys = {field.name: _type(hints[field.name]) for field in fields(kind)}
    return {"type": "object", "description": kind.__doc__, "properties": keys, "required": [*keys]}


def _type(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {**_type(arguments[0]), "description": arguments[1]}
    if origin is Literal:
        return {"const": arguments[0]}
    if type(None) in arguments:
        inner = _type(arguments[0])
        return {**inner, "type": [inner["type"], "null"]}
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _type(arguments[1])}
    return _object(hint) if is_dataclass(hint) else {"type": _NAMES[hint]}


def page(schemas: Mapping[str, Schema]) -> str:
    """Return docs/reference/json.md, from the schema of each verb."""
    lines = [_INTRODUCTION]
    for verb, document in schemas.items():
        lines += [f"## mnrun {verb} --json", "", f"[JSON Schema](schemas/{verb}.json)", ""]
        for form in document.get("anyOf", [document]):
            lines += [form["description"], "", *_table(form)]
    return "\n".join(lines) + _END


def _table(form: Schema) -> Iterator[str]:
    """Yield the table of an object's keys, and then those of the objects in it."""
    yield from ("| key | type | meaning |", "|---|---|---|")
    for name, key in form["properties"].items():
        yield f"| `{name}` | {_type_words(key)} | {key['description']} |"
    yield ""
    for name, key in form["properties"].items():
        inner = key.get("items") or key.get("additionalProperties") or key
        if "properties" in inner:
            whose = f"`{name}`" if inner is key else f"Each object of `{name}`"
            yield from (f"{whose} has these keys:", "", *_table(inner))


def _type_words(key: Schema) -> str:
    if "const" in key:
        return f"`{json.dumps(key['const'])}`"
    kind = key["type"]
    if kind == "array":
        return f"list of {key['items']['type']}s".replace("integer", "number")
    words = kind if isinstance(kind, str) else " or ".join(kind)
    return words.replace("integer", "number") + (" of objects" if "additionalProperties" in key else "")
