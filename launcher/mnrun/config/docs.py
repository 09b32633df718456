"""Render the schema of a job file, and a first one, from the table of options. Touches no file."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Mapping, Sequence

from mnrun import formats
from mnrun.config import jobfile
from mnrun.config.layers import Setting, Value
from mnrun.config.options import ALIASES, BY_NAME, OPTIONS, PATHS, Option, sections
from mnrun.images.reference import clearly
from mnrun.jobspec import CLAIM
from mnrun.schedulers import OWN

_TOML_TYPES = {"flag": "boolean", "number": "integer", "list": "array", "words": "array"}


def schema() -> str:
    """Return docs/job.schema.json, by which editors check and complete a job file."""
    names = {o.name: o.name for o in OPTIONS if o.kind != "env"}
    names.update({alias: name for alias, name in ALIASES.items() if alias not in names})
    words = {"type": "array", "items": {"type": "string"}}
    section = {"$ref": "#/$defs/section"}
    rest = {"additionalProperties": {"type": ["string", "integer", "boolean"]}}  # options of the scheduler alone
    keys: dict[str, object] = {
        "command": {**words, "description": "The program and its arguments: a list of words, which no shell reads."},
        **_refs(names),
        "env": {"$ref": "#/$defs/env"},
        **{key: {"anyOf": [words, {"type": "object", "properties": _refs(names), **rest}]} for key in OWN},
        "setup": {"anyOf": [{"$ref": "#/$defs/setup"}, section]},
    }
    env = {
        "type": "object",
        "description": "Variables of every rank. true forwards the job's own value, and false removes the variable.",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    }
    whole = {"type": "object", "properties": keys, "additionalProperties": section}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A job file of mnrun",
        **whole,
        "$defs": {
            **{option.name: _type(option) for option in OPTIONS if option.kind != "env"},
            "env": env,
            "section": {"description": "Sections only group keys.", **whole},
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _refs(names: Mapping[str, str]) -> dict[str, object]:
    return {key: {"$ref": f"#/$defs/{name}"} for key, name in names.items()}


def job_file(settings: Mapping[str, Setting], full: bool = True) -> str:
    """Return a first job file: command and image are set, and the other keys are comments: all, or the usual ones."""
    lines = [_HEAD]
    if full:
        others = " and ".join(f"{o.key} (--{o.name})" for o in OPTIONS if f"--{o.key.replace('_', '-')}" not in o.flags)
        lines += [f"# Every key but {others} is a long option with _ for -; sections only group keys."]
    else:
        lines += ["# `mnrun init --full` writes every key."]
    lines += ["", 'command = ["./app"]  # a list of words, which no shell reads', 'image = "app.sif"']
    for name, options in sections() if full else [("", [BY_NAME[name] for name in _USUAL])]:
        lines += ["", f"# {name}"] if name else []
        lines += [_line(option, settings.get(option.name)) for option in options if option.name not in _SET]
    lines += ["", "[env]  # of every rank; true forwards the job's own value, false removes the variable",
              '# OMP_NUM_THREADS = "4"']  # fmt: skip
    return "\n".join([*lines, ""])


_HEAD = "# A job of mnrun: `mnrun job.toml` runs it, `mnrun submit job.toml` submits it."
_SET = ("image", "env")  # these are no comments in a first file
_USUAL = ("nodes", "ntasks_per_node", "cpus_per_task", "gpus_per_node", "mem", "time", "partition", "bind")


def _line(option: Option, setting: Setting | None) -> str:
    value = _toml(setting.value) if setting else _sample(option)
    origin = f"  ({setting.origin})" if setting else ""
    return f"# {option.key} = {value}  # {option.help}{origin}"


def written(command: Sequence[str], given: Mapping[str, Setting], folder: str) -> str:
    """Return the job file of a command and its options. `folder` is the file's directory, from here. Raises UsageError
    for what no job file can hold."""
    lines = [_HEAD, f"command = {_toml(tuple(command))}" if command else '# command = ["./app"]']
    lines += [
        f"{option.key} = {_toml(_moved(option, given[option.name].value, folder))}"
        for option in OPTIONS
        if option.name in given and option.name != "env"
    ]
    if "env" in given:
        lines += ["", "[env]", *(_variable(word) for word, _ in given["env"].words)]
    text = "\n".join([*lines, ""])
    jobfile.read(jobfile.TomlFile("this line as a job file", text, "/", {}))
    return text


def _moved(option: Option, value: Value, folder: str) -> Value:
    """Return a value for a file in `folder`: paths begin there, and `$${X}` is the text of `${X}`."""
    if option.name not in PATHS:
        return value
    if isinstance(value, tuple):
        return tuple(str(_moved(option, word, folder)) for word in value)
    mark, text = ("!", str(value)[1:]) if option.repeats and str(value).startswith("!") else ("", str(value))
    source, colon, rest = text.partition(":") if option.name == "bind" else (text, "", "")
    named = option.name == "image" and clearly(source)
    if source and folder and not named and not source.startswith(("/", "~", CLAIM)):
        source = os.path.relpath(source, folder)
    return re.sub(r"\$(?=\{\w+\})", "$$", f"{mark}{source}{colon}{rest}")


def _variable(word: str) -> str:
    """Return the line of [env] for a word of -x."""
    name, has_value, value = word.lstrip("!").partition("=")
    shown = _toml(value) if has_value else "false" if word.startswith("!") else "true"
    return f"{name if name.isidentifier() and name.isascii() else _toml(name)} = {shown}"


def _type(option: Option) -> dict[str, object]:
    kind = _TOML_TYPES.get(option.kind, "string")
    entry: dict[str, object] = {"type": kind, "description": option.help}
    if kind == "array":
        entry["items"] = {"type": "string"}
    if option.choices:
        entry["enum"] = list(option.choices)
    if values := [value for own in OWN.values() for value in own.values.get(option.name, ())]:
        entry.update(type=["boolean", "string"], enum=[True, False, *values])
    if kind == "string" and not option.choices:
        entry["type"] = ["string", "integer"]
    return entry


def _toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _sample(option: Option) -> str:
    kind = _TOML_TYPES.get(option.kind, "string")
    form = formats.FORMATS.get(option.name)
    text = form.sample if form else option.default or (option.choices[0] if option.choices else option.metavar)
    text = "10m" if text == "TIME" else text
    return {"boolean": "true", "integer": "1", "array": "[]"}.get(kind, json.dumps(text))
