"""What is written about the options, all from the one table: documents, man page, schema, a first job file. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from . import __version__
from .options import ALIASES, OPTIONS, Option
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
            lines.append(f"| `{_spelt(option)}` | `{option.key}` | {variable} | {what.replace('|', '/')} |")
    return "\n".join([*lines, ""])


_DESCRIPTION = """\
Options end at the first word that is none; what follows is the program's own. A first such word that ends in
.toml is a job file, and options may follow it. Without a verb it is run."""
_LAYERS = """\
A value is taken from the last of these that has one: built in, the site's defaults, the one profile that is
chosen, the user's own, the job file, MNRUN_ variables, SBATCH_ variables, the command line. Lists and variables
add up; "!X" takes X away. mnrun plan shows every value with where it came from."""
_FILES = {
    "/etc/mnrun/config.toml": "Site defaults. A site's files must belong to root, who alone may write them.",
    "/etc/mnrun/profiles/NAME.toml": "Profiles: a job file's keys, and the tables match, site, policy and partition.",
    "~/.config/mnrun/": "The same two of the user's own.",
    "~/.mnrun/jobs": "Records of jobs (--job-dir).",
}
_STATUS = {
    "2": "A wrong command line, job file or value.",
    "120": "A bug of mnrun's own.",
    "121": "A node was lost, or never ready.",
    "122": "Refused, because it cannot work or the site does not want it.",
    "123": "The scheduler said no.",
    "124": "A time limit.",
    "125": "The container runtime failed.",
    "143": "The job was cancelled.",
    "other": "The program's own.",
}


def man(verbs: Mapping[str, str]) -> str:
    """docs/mnrun.1, for man(1). `verbs`: each with a sentence."""
    lines = [
        f'.TH MNRUN 1 "" "mnrun {__version__}"',
        ".SH NAME",
        r"mnrun \- run one job on many nodes, in containers",
        ".SH SYNOPSIS",
        r".B mnrun \fR[\fIVERB\fR] [\fIJOB.toml\fR] [\fIOPTIONS\fR] [\-\-] \fICOMMAND\fR [\fIARGS\fR]",
        ".SH DESCRIPTION",
        _escaped(_DESCRIPTION),
        *_listed("VERBS", verbs),
    ]
    for name, options in sections():
        said = {_spelt(o): o.help + (f" Default: {o.default}." if o.default else "") for o in options}
        lines += _listed(name.upper(), said)
    lines += [".SH VALUES", _escaped(_LAYERS), *_listed("FILES", _FILES), *_listed("EXIT STATUS", _STATUS)]
    return "\n".join([*lines, ""])


def _listed(title: str, said: Mapping[str, str]) -> list[str]:
    lines = [f'.SH "{title}"']
    for name, text in said.items():
        lines += [".TP", f".B {_escaped(name)}", _escaped(text)]
    return lines


def schema() -> str:
    """docs/job.schema.json, by which editors check and complete a job file."""
    names = {o.name: o.name for o in OPTIONS if o.kind != "env"}
    names.update({alias: name for alias, name in ALIASES.items() if alias not in names})
    words = {"type": "array", "items": {"type": "string"}}
    section = {"$ref": "#/$defs/section"}
    rest = {"type": ["string", "integer", "boolean"]}  # of sbatch, unread by mnrun
    keys: dict[str, object] = {
        "command": {**words, "description": "The program and its arguments: words, never a shell line."},
        **_refs(names),
        "env": {"$ref": "#/$defs/env"},
        "slurm": {"anyOf": [words, {"type": "object", "properties": _refs(names), "additionalProperties": rest}]},
        "setup": {"anyOf": [{"$ref": "#/$defs/setup"}, section]},
    }
    env = {
        "type": "object",
        "description": "Variables of every rank. true: the job's own value, never written down; false: removed.",
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
            "section": {"description": "Sections are for the eye.", **whole},
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _refs(names: Mapping[str, str]) -> dict[str, object]:
    return {key: {"$ref": f"#/$defs/{name}"} for key, name in names.items()}


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
            lines.append(f"# {option.key} = {value}  # {option.help}{origin}")
    lines += ["", "[env]  # of every rank; true: from the job's environment, never written down; false: removed",
              '# OMP_NUM_THREADS = "4"']  # fmt: skip
    return "\n".join([*lines, ""])


def _spelt(option: Option) -> str:
    value = "|".join(option.choices) or option.metavar
    return ", ".join(option.flags) + (f" {value}" if option.takes_value else "")


def _escaped(text: str) -> str:
    """For roff: a line that begins with a full stop would be a request."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", "\\\\").replace("-", "\\-"), flags=re.MULTILINE)


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
