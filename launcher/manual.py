"""What is written about the options, all from the one table: documents, man page, schema, a first job file. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from . import __version__
from .options import OPTIONS, Option
from .settings import Setting

_TOML_TYPES = {"flag": "boolean", "number": "integer", "list": "array", "words": "array"}


def sections() -> Iterator[tuple[str, list[Option]]]:
    """The options by section, in the table's order."""
    for name in dict.fromkeys(option.section for option in OPTIONS):
        yield name, [option for option in OPTIONS if option.section == name]


def table() -> str:
    """docs/options.md."""
    lines = [
        "# Options",
        "",
        "Written from `launcher/options.py`. A job file's key is the long option with `_` for `-`.",
    ]
    for name, options in sections():
        lines += ["", f"## {name}", "", "| option | key | variable | what |", "|---|---|---|---|"]
        for option in options:
            what = option.help + (f" Default: `{option.default}`." if option.default else "")
            variable = f"`{option.variable}`" if option.variable else ""
            lines.append(f"| `{_spelt(option)}` | `{_key(option)}` | {variable} | {what.replace('|', '/')} |")
    return "\n".join([*lines, ""])


def man() -> str:
    """docs/mnrun.1, for man(1)."""
    lines = [
        f'.TH MNRUN 1 "" "mnrun {__version__}"',
        ".SH NAME",
        r"mnrun \- run one job on many nodes, in containers",
        ".SH SYNOPSIS",
        r".B mnrun \fR[\fIVERB\fR] [\fIJOB.toml\fR] [\fIOPTIONS\fR] [\-\-] \fICOMMAND\fR \fR[\fIARGS\fR]",
    ]
    for name, options in sections():
        lines.append(f'.SH "{name.upper()}"')
        for option in options:
            what = option.help + (f" Default: {option.default}." if option.default else "")
            lines += [".TP", f".B {_escaped(_spelt(option))}", _escaped(what)]
    return "\n".join([*lines, ""])


def schema() -> str:
    """docs/job.schema.json, by which editors check and complete a job file."""
    keys = {_key(option): _type(option) for option in OPTIONS if option.kind != "env"}
    section = {"type": "object", "properties": keys, "additionalProperties": False}
    env = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
    names = ("container", "launch", "resources", "setup", "job")
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A job file of mnrun",
        "type": "object",
        "properties": {
            **keys,
            "command": {"type": "array", "items": {"type": "string"}},
            "env": env,
            "slurm": {**section, "additionalProperties": True},
            **dict.fromkeys(names, section),
        },
        "additionalProperties": section,
    }
    return json.dumps(document, indent=2) + "\n"


def job_file(known: Mapping[str, Setting]) -> str:
    """A first job file: every key as a comment, but for what nearly every job says."""
    lines = ["# A job of mnrun: `mnrun job.toml` runs it in an allocation, `mnrun submit job.toml` hands it in.",
             "# Every key is a long option with _ for -; sections are for the eye.",
             "", 'command = ["./app"]  # words, never a shell line', 'image = "app.sif"']  # fmt: skip
    for name, options in sections():
        lines += ["", f"# {name}"]
        for option in options:
            if option.name in ("image", "env", "local", "profile"):
                continue
            said = known.get(option.name)
            value = _toml(said.value) if said else _sample(option)
            origin = f"  ({said.origin})" if said else ""
            lines.append(f"# {_key(option)} = {value}  # {option.help}{origin}")
    lines += ["", "[env]  # of every rank; true: from the job's environment, never written down; false: removed",
              '# OMP_NUM_THREADS = "4"']  # fmt: skip
    return "\n".join([*lines, ""])


def _key(option: Option) -> str:
    return {"job_name": "name", "module": "modules", "setup": "lines"}.get(option.name, option.name)


def _spelt(option: Option) -> str:
    value = "|".join(option.choices) or option.metavar
    return ", ".join(option.flags) + (f" {value}" if option.takes_value else "")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("-", "\\-")


def _type(option: Option) -> dict[str, object]:
    kind = _TOML_TYPES.get(option.kind, "string")
    found: dict[str, object] = {"type": kind, "description": option.help}
    if kind == "array":
        found["items"] = {"type": "string"}
    if option.choices:
        found["enum"] = list(option.choices)
    if kind == "string" and not option.choices:
        found["type"] = ["string", "integer"]
    return found


def _toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _sample(option: Option) -> str:
    kind = _TOML_TYPES.get(option.kind, "string")
    text = option.default or (option.choices[0] if option.choices else option.metavar)
    return {"boolean": "true", "integer": "1", "array": "[]"}.get(kind, json.dumps(text))
