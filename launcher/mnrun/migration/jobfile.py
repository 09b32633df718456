"""Write the job file of a migrated script with one step. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mnrun.config.options import BY_FLAG, BY_NAME, PATHS
from mnrun.errors import Impossible
from mnrun.migration.rewrite import Rewriting, Step, grouped
from mnrun.migration.shell import EXPANSION, VARIABLE, Command
from mnrun.schedulers import FRONTS, KNOWN

_QUIET = ("set", "module", "ml", "echo", "date", "hostname", "pwd", "printf")  # the job does without them


def page(script: Rewriting, source: str) -> tuple[str, list[tuple[int, str]]]:
    """Return the job file, and what it cannot say, by the numbers of lines. Raises Impossible."""
    if len(script.steps) != 1:
        raise Impossible(f"the script has {len(script.steps)} steps, and a job file has one", "leave --toml out")
    (step,), left = script.steps, list[tuple[int, str]]()
    job: dict[str, Any] = {"command": _command(script, step)}
    tables: dict[str, dict[str, Any]] = {"env": {}}
    _take_directives(script, job, tables, left)
    for flag, *values in grouped(step.options):
        _take(job, tables, flag, [_resolved(script, value, BY_FLAG[flag].name in PATHS) for value in values])
    for command in script.script.commands:
        number = script.script.line(command.begin)
        edited = any(edit.begin < command.end and command.begin < edit.end for edit in script.edits)
        if not edited and command.words != ["wait"] and not _take_line(script, command, job, tables):
            left.append((number, script.script.text[command.begin : command.end]))
    lines = [f"# From {source}, by mnrun migrate", *(f"{key} = {_toml(value)}" for key, value in job.items())]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())] if table else []
    return "\n".join([*lines, ""]), left


def _command(script: Rewriting, step: Step) -> list[str]:
    """Return the words of the command. A shell reads those with variables, on each rank."""
    words = [script.known.text(str(word)) for word in step.command]
    if not any(map(EXPANSION.search, words)):
        return words
    for word in words:
        _resolved(script, word, True)
    return ["bash", "-c", f"exec {script.script.typed(words)}"]


def _resolved(script: Rewriting, text: str, variables: bool) -> str:
    """Return a text in which all is known, or of which a job file may name the variables. Raises Impossible."""

    def filled(found: re.Match[str]) -> str:
        raw = script.script.raw(found[0]).strip('"')
        name = VARIABLE.fullmatch(raw)
        if not variables or not name:
            raise Impossible(f"{raw} cannot stand in a job file", "leave --toml out")
        return f"${{{name[1] or name[2]}}}"

    return EXPANSION.sub(filled, script.known.text(str(text)))


def _take_directives(
    script: Rewriting, job: dict[str, Any], tables: dict[str, dict[str, Any]], left: list[tuple[int, str]]
) -> None:
    """Take the options for the scheduler. Those of a scheduler whose options have no long names are left."""
    for name, words in script.known.directives.items():
        if words and name not in FRONTS:
            mark = KNOWN[name].FOREIGN.directive
            lines = script.script.text.splitlines()
            left += [(number, line) for number, line in enumerate(lines, 1) if line.startswith(mark)]
        elif words:
            for word in FRONTS[name].script_of(words).own:
                flag, _, value = word.partition("=")
                if flag in ("--image", "--volume"):  # shifter's, which the step has
                    continue
                known = BY_FLAG.get(flag)
                if known is not None and known.takes_value == bool(value):
                    _take(job, tables, flag, [value] if value else [])
                else:
                    tables.setdefault(name, {})[flag.lstrip("-")] = value or True


def _take(job: dict[str, Any], tables: dict[str, dict[str, Any]], flag: str, values: Sequence[str]) -> None:
    option = BY_FLAG[flag]
    if option.kind == "env":
        name, equals, value = values[0].partition("=")
        tables["env"][name] = value if equals else True
    elif option.kind in ("list", "words"):
        job.setdefault(option.key, []).extend(values)
    elif option.kind == "number" and values[0].isdecimal():
        job[option.key] = int(values[0])
    else:
        job[option.key] = values[0] if values else True


def _take_line(script: Rewriting, command: Command, job: dict[str, Any], tables: Mapping[str, dict[str, Any]]) -> bool:
    """Return whether a job file can do without a command, or say it."""
    if command.words[:2] == ["module", "load"]:
        job.setdefault(BY_NAME["module"].key, []).extend(map(str, command.words[2:]))
        return True
    values = {name: script.known.text(script.script.read(value)) for name, value in command.assigned.items()}
    if values and command.words and not any(map(EXPANSION.search, values.values())) and not command.depth:
        tables["env"].update(values)
        return True
    return bool(values and not command.words) or bool(command.words and command.words[0] in _QUIET)


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
