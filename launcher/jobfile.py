"""Job files and profiles: TOML to a layer of settings. Pure.

A key is a long option with `_` for `-`, in whatever section: sections are for the eye, but for
[env] (variables of every rank) and [slurm] (also long options of sbatch that mnrun does not read).
"""

from __future__ import annotations

import difflib
import os.path
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import UsageError
from .options import BY_NAME, Option
from .settings import Setting, parse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ALIASES = {"name": "job_name", "modules": "module", "lines": "setup"}
PATHS = ("image", "bind", "chdir", "script", "env_file", "job_dir")


@dataclass(frozen=True)
class JobFile:
    """What a job file says: its settings, and its command if it has one."""

    settings: Mapping[str, Setting]
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """A file that is read: its text, where its relative paths begin, and what `${X}` means in it."""

    name: str  # as messages call it
    text: str
    folder: str
    environ: Mapping[str, str]

    def at(self, key: str) -> str:
        """`job.toml line 12`: where a key stands, as far as a look at the lines tells."""
        pattern = re.compile(rf"""\s*(?:[\w.-]+\.)?["']?{re.escape(key)}["']?\s*=""")
        for number, line in enumerate(self.text.split("\n"), 1):
            if pattern.match(line):
                return f"{self.name} line {number}"
        return self.name


def load(page: Page) -> dict[str, Any]:
    """The tables of a TOML file. Raises UsageError with the line where it is none."""
    if page.text.startswith("\ufeff"):
        raise UsageError(f"{page.name} line 1: it begins with a byte order mark", "save it as UTF-8 without one")
    try:
        return tomllib.loads(page.text)
    except tomllib.TOMLDecodeError as error:
        said = re.sub(r"\s*\(at (line \d+).*\)$", "", str(error))
        line = re.search(r"at (line \d+)", str(error))
        place = f"{page.name} {line[1]}" if line else f"{page.name}, at its end"
        raise UsageError(f"{place}: {said[:1].lower()}{said[1:]}", "strings stand in quotes, lists in []") from None


def read(page: Page) -> JobFile:
    """What a job file says. Raises UsageError with the line of what it cannot say."""
    tables = load(page)
    command = tables.pop("command", ())
    if not isinstance(command, (list, tuple)) or not all(isinstance(word, str) for word in command):
        raise UsageError(f"{page.at('command')}: command is a list of words", 'command = ["python", "train.py"]')
    return JobFile(layer(tables, page), tuple(command))


def layer(tables: Mapping[str, Any], page: Page) -> dict[str, Setting]:
    """The settings in the tables of a job file, or of what a profile has of one."""
    found: dict[str, Setting] = {}
    for key, value in tables.items():
        if key == "env" and isinstance(value, dict):
            found["env"] = Setting(tuple(_variable(n, v, page) for n, v in value.items()), page.at("env"))
        elif isinstance(value, dict):
            inner = _slurm(value) if key == "slurm" else value
            found.update(layer(inner, page))
        else:
            option = _option(key, page)
            found[option.name] = Setting(_value(option, value, page), page.at(key))
    return found


def _slurm(table: Mapping[str, Any]) -> dict[str, Any]:
    """[slurm] with what is no option of ours as words for sbatch."""
    known = {key: value for key, value in table.items() if ALIASES.get(key, key) in BY_NAME}
    rest = [key.replace("_", "-") + ("" if value is True else f"={value}") for key, value in table.items()
            if key not in known]  # fmt: skip
    return {**known, "slurm": [*known.pop("slurm", []), *rest]} if rest else known


def _option(key: str, page: Page) -> Option:
    name = ALIASES.get(key, key)
    if name in BY_NAME:
        return BY_NAME[name]
    near = difflib.get_close_matches(key, [*BY_NAME, *ALIASES, "command", "env"], 1)
    hint = f"did you mean {near[0]}?" if near else "the keys are the long options, with _ for -"
    raise UsageError(f"{page.at(key)}: {key} is no key", hint)


_TYPES = {
    "flag": (bool, "true or false"),
    "number": (int, "a number"),
    "list": (list, "a list of strings"),
    "words": (list, "a list of words"),
    "env": (dict, "a table: [env]"),
}


def _value(option: Option, value: Any, page: Page) -> Any:
    kind, called = _TYPES.get(option.kind, ((str, int), "a string"))
    right = isinstance(value, kind) and (option.kind == "flag" or not isinstance(value, bool))
    if not right or (isinstance(value, list) and not all(isinstance(word, str) for word in value)):
        raise UsageError(f"{page.at(option.name)}: {option.name} = {value!r} is not {called}", option.help)
    if option.kind == "words":
        return tuple(value)  # words already: nothing is split
    if option.name in PATHS:
        value = [_path(v, option, page) for v in value] if isinstance(value, list) else _path(value, option, page)
    return parse(option, value, page.at(option.name))


def _path(value: str, option: Option, page: Page) -> str:
    """`${X}` filled in, and relative to the file: but for an image's address, and for what is taken away."""
    text = expand(value, page.environ, page.at(option.name))
    source, colon, rest = text.partition(":") if option.name == "bind" else (text, "", "")
    if source.startswith(("!", "/", "~")) or (option.name == "image" and re.search(r"://|:[\w.-]+$|@", source)):
        return text
    return os.path.normpath(os.path.join(page.folder, source)) + colon + rest


def expand(text: str, environ: Mapping[str, str], place: str) -> str:
    """`${X}` as the variable's value, `$${X}` as it stands. Raises UsageError where X is not set."""

    def filled(match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        if match[1] not in environ:
            raise UsageError(f"{place}: ${{{match[1]}}} is not set", f"set it, or write $${{{match[1]}}} for the text")
        return environ[match[1]]

    return re.sub(r"\$?\$\{(\w+)\}", filled, text)


def _variable(name: str, value: Any, page: Page) -> str:
    """A word of -x; true passes the job's own value on, false takes the variable away."""
    if value is True:
        return name
    if value is False:
        return f"!{name}"
    if isinstance(value, (str, int, float)):
        return f"{name}={value}"
    raise UsageError(f"{page.at(name)}: {name} = {value!r} is neither a string nor true or false")
