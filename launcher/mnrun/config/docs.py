"""Render the documents about verbs and options, from the one table and the verbs: options.md, man page, schema, and
a first job file. Touches no file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mnrun import __version__
from mnrun.config import syntax
from mnrun.config.layers import EXCLUSIVE, Setting
from mnrun.config.options import ALIASES, OPTIONS, Option, sections

_TOML_TYPES = {"flag": "boolean", "number": "integer", "list": "array", "words": "array"}


@dataclass(frozen=True)
class Verb:
    """A verb of the command line."""

    usage: str  # status [ID]…
    help: str
    options: Mapping[str, str] = field(default_factory=dict)  # an option of its own -> its help
    takes_all: bool = False  # whether it takes a job file and every option of the table


def table(verbs: Sequence[Verb]) -> str:
    """Return docs/options.md."""
    lines = [
        "# Verbs and options",
        "",
        "`mnrun VERB --help` prints the usual options, and `mnrun VERB --help-all` all that have an effect.",
        "Without a verb, `mnrun` is `mnrun run`.",
        "",
        "| verb | its own options | meaning |",
        "|---|---|---|",
    ]
    for verb in verbs:
        lines.append(f"| `{_cell(verb.usage)}` | | {_cell(verb.help)} |")
        lines += [f"| | `{_cell(spelt)}` | {_cell(text)} |" for spelt, text in verb.options.items()]
    lines += ["", _ALL.format(_enumeration([f"`{verb.usage.split()[0]}`" for verb in verbs if verb.takes_all]))]
    for name, options in sections():
        lines += ["", f"## {name}", "", "| option | key | variable | meaning |", "|---|---|---|---|"]
        for option in options:
            text = option.help + (f" Default: `{option.default}`." if option.default else "")
            variable = f"`{option.variable}`" if option.variable else ""
            lines.append(f"| `{_cell(_spelt(option))}` | `{option.key}` | {variable} | {_cell(text)} |")
    return "\n".join([*lines, ""])


_ALL = """\
{} take a job file and every option below; a job file's key is the long option with `_` for `-`."""
_DESCRIPTION = """\
mnrun's options end at the first word that is not an option. The rest is the program and its arguments. If this word
ends in .toml, it is a job file, and options may follow. Words after -- that begin with an option are appended to the
file's command, and others replace it. A ~ at the beginning of a path is the home directory, also after = and in a
variable. Without a verb, the verb is run."""
_LAYERS = """\
A value is taken from the last of these that has one: built in, the site's defaults, the one profile that is
chosen, the user's own, the job file, MNRUN_ variables, SBATCH_ variables, the command line. Lists and variables
add up; "!X" takes X away. mnrun plan shows every value with where it came from."""
_FILES = {
    "/etc/mnrun/config.toml": "Site defaults. A site's files must belong to root, and only root may write them.",
    "/etc/mnrun/profiles/NAME.toml": "Profiles: a job file's keys, and tables: match, site, policy, partition.",
    "~/.config/mnrun/": "The user's own configuration and profiles.",
    "~/.mnrun/jobs": "Records of jobs (--job-dir).",
}
_STATUS = {
    "2": "A wrong command line, job file or value.",
    "120": "A bug in mnrun.",
    "121": "A node was lost, or never became ready.",
    "122": "Refused, because it cannot work or the site does not want it.",
    "123": "The scheduler refused.",
    "124": "A time limit.",
    "125": "The container runtime failed.",
    "143": "The job was cancelled.",
    "other": "The program's own code.",
}


def man(verbs: Sequence[Verb]) -> str:
    """Return docs/mnrun.1, for man(1)."""
    lines = [
        f'.TH MNRUN 1 "" "mnrun {__version__}"',
        ".SH NAME",
        r"mnrun \- run one job on many nodes, in containers",
        ".SH SYNOPSIS",
        r".B mnrun \fR[\fIVERB\fR] [\fIJOB.toml\fR] [\fIOPTIONS\fR] [\-\-] \fICOMMAND\fR [\fIARGS\fR]",
        ".SH DESCRIPTION",
        _escaped(_DESCRIPTION),
        '.SH "VERBS"',
    ]
    for verb in verbs:
        lines += _item(verb.usage, verb.help)
        items = [line for spelt, text in verb.options.items() for line in _item(spelt, text)]
        lines += [".RS", *items, ".RE"] if items else []
    lines += [".PP", _escaped(_ALL.format(_enumeration([v.usage.split()[0] for v in verbs if v.takes_all])))]
    for name, options in sections():
        texts = {_spelt(o): o.help + (f" Default: {o.default}." if o.default else "") for o in options}
        lines += _man_section(name.upper(), texts)
    lines += [".SH VALUES", _escaped(_LAYERS), *_man_section("FILES", _FILES), *_man_section("EXIT STATUS", _STATUS)]
    return "\n".join([*lines, ""])


def _man_section(title: str, texts: Mapping[str, str]) -> list[str]:
    lines = [f'.SH "{title}"']
    for name, text in texts.items():
        lines += _item(name, text)
    return lines


def _item(name: str, text: str) -> list[str]:
    return [".TP", f".B {_escaped(name)}", _escaped(text)]


def _enumeration(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _cell(text: str) -> str:
    """Return text for a cell of a Markdown table, in which a bar would begin another cell."""
    return text.replace("|", "\\|")


def schema() -> str:
    """Return docs/job.schema.json, by which editors check and complete a job file."""
    names = {o.name: o.name for o in OPTIONS if o.kind != "env"}
    names.update({alias: name for alias, name in ALIASES.items() if alias not in names})
    words = {"type": "array", "items": {"type": "string"}}
    section = {"$ref": "#/$defs/section"}
    rest = {"type": ["string", "integer", "boolean"]}  # an option of sbatch that mnrun does not read
    keys: dict[str, object] = {
        "command": {**words, "description": "The program and its arguments: a list of words, which no shell reads."},
        **_refs(names),
        "env": {"$ref": "#/$defs/env"},
        "slurm": {"anyOf": [words, {"type": "object", "properties": _refs(names), "additionalProperties": rest}]},
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


def job_file(settings: Mapping[str, Setting]) -> str:
    """Return a first job file: command and image are set, and every other key is a comment."""
    others = " and ".join(f"{o.key} (--{o.name})" for o in OPTIONS if f"--{o.key.replace('_', '-')}" not in o.flags)
    lines = ["# A job of mnrun: `mnrun job.toml` runs it on nodes of Slurm, `mnrun submit job.toml` submits it.",
             f"# Every key but {others} is a long option with _ for -; sections only group keys.",
             "", 'command = ["./app"]  # a list of words, which no shell reads', 'image = "app.sif"']  # fmt: skip
    for name, options in sections():
        lines += ["", f"# {name}"]
        for option in options:
            if option.name in ("image", "env"):
                continue
            setting = settings.get(option.name)
            value = _toml(setting.value) if setting else _sample(option)
            origin = f"  ({setting.origin})" if setting else ""
            lines.append(f"# {option.key} = {value}  # {option.help}{origin}")
    lines += ["", "[env]  # of every rank; true forwards the job's own value, false removes the variable",
              '# OMP_NUM_THREADS = "4"']  # fmt: skip
    return "\n".join([*lines, ""])


def _spelt(option: Option) -> str:
    value = "|".join(option.choices) or option.metavar
    return ", ".join(option.flags) + (f" {value}" if option.takes_value else "")


def _escaped(text: str) -> str:
    """Return text for roff, in which a line that begins with a full stop would be a request."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", "\\\\").replace("-", "\\-"), flags=re.MULTILINE)


def _type(option: Option) -> dict[str, object]:
    kind = _TOML_TYPES.get(option.kind, "string")
    entry: dict[str, object] = {"type": kind, "description": option.help}
    if kind == "array":
        entry["items"] = {"type": "string"}
    if option.choices:
        entry["enum"] = list(option.choices)
    if option.name == "exclusive":
        entry.update(type=["boolean", "string"], enum=[True, False, *EXCLUSIVE])
    if kind == "string" and not option.choices:
        entry["type"] = ["string", "integer"]
    return entry


def _toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _sample(option: Option) -> str:
    kind = _TOML_TYPES.get(option.kind, "string")
    form = syntax.FORMATS.get(option.name)
    text = form.sample if form else option.default or (option.choices[0] if option.choices else option.metavar)
    return {"boolean": "true", "integer": "1", "array": "[]"}.get(kind, json.dumps(text))
