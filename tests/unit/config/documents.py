"""Write the documents that come from the verbs, the options and the fields of JSON. templates/ has the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from jinja2 import Environment, FileSystemLoader

from mnrun import __version__
from mnrun.config.options import Option, sections
from mnrun.versioned import VERSION

NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True)
class Verb:
    """A verb of the command line."""

    usage: str  # status [ID]…
    help: str
    options: Mapping[str, str]  # an option of its own -> its help
    takes_all: bool  # whether it takes a job file and every option of the table


def spelt(option: Option) -> str:
    value = "|".join(option.choices) or option.metavar
    return ", ".join(option.flags) + (f" {value}" if option.takes_value else "")


def roff(text: str) -> str:
    """Return text for roff, in which a line that begins with a full stop would be a request."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", "\\\\").replace("-", "\\-"), flags=re.MULTILINE)


def cell(text: str) -> str:
    """Return text for a cell of a Markdown table, in which a bar would begin another cell."""
    return text.replace("|", "\\|")


def words(key: Mapping[str, Any]) -> str:
    """Return the type of a key of JSON."""
    if "const" in key:
        return f"`{json.dumps(key['const'])}`"
    if key["type"] == "array":
        return f"list of {key['items']['type']}s".replace("integer", "number")
    kind = key["type"] if isinstance(key["type"], str) else " or ".join(key["type"])
    inner = f" of {key['additionalProperties']['type']}s" if "additionalProperties" in key else ""
    return kind.replace("integer", "number") + inner


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=False,  # Markdown and roff
    keep_trailing_newline=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters.update(spelt=spelt, roff=roff, cell=cell, words=words)


def of_verbs(name: str, verbs: list[Verb]) -> str:
    """Return options.md, or the man page mnrun.1."""
    takers = [verb.usage.split()[0] for verb in verbs if verb.takes_all]
    values = {"version": __version__, "verbs": verbs, "takers": takers, "sections": list(sections())}
    return TEMPLATES.get_template(name).render(values)


def of_json(schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return reference/json.md, from the schema of each verb."""
    return TEMPLATES.get_template("json.md").render(schemas=schemas)


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
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [member.value for member in hint]}
    return _object(hint) if is_dataclass(hint) else {"type": NAMES[hint]}
