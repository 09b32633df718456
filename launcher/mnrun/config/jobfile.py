"""Parse job files and profiles, from TOML to a layer of settings. Reads no file.

A key is a long option with `_` for `-`, in any section. Sections are for the eye, except [env] and those with the name
of a scheduler, such as [slurm]. [env] has variables of every rank. A scheduler's table also takes what it has and mnrun
has no option for. Only the scheduler of the job reads that.
"""

from __future__ import annotations

import functools
import json
import os.path
import re
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from mnrun.config.layers import Setting, parse
from mnrun.config.options import ALIASES, BY_NAME, PATHS, Option, name_of
from mnrun.environment import NAME
from mnrun.errors import UsageError
from mnrun.images.reference import clearly, is_path
from mnrun.jobspec import CLAIM, Layer, Origin
from mnrun.near import nearest
from mnrun.record import Record
from mnrun.schedulers import OWN
from mnrun.schedulers.vocabulary import OwnOption


@functools.cache
def _parser() -> Any:
    """Return the parser. Its import takes 2 ms, and a launch without a file has no use for it."""
    if sys.version_info >= (3, 11):
        import tomllib  # novm: below the test of the version
    else:
        import tomli as tomllib
    return tomllib


PROFILE_TABLES = ("match", "site", "policy", "partition")  # tables that a profile has, and a job file has not
# In a profile, these paths are relative to the directory of the person who submits: a user cannot write beside a
# profile.
OUTPUTS = ("output", "error", "split_output")

LEVELS = 16  # of tables and lists in others: partition.NAME.env.NAME.value has five
Path = tuple[str, ...]  # the path of a key in the tables: ("resources", "nodes")


class JobFile(Record):
    """The content of a job file: the settings, and the command if the file has one."""

    settings: Mapping[str, Setting]
    command: tuple[str, ...] = ()
    services: Mapping[str, JobFile] = {}  # the file's rows of services, by name


@dataclass(frozen=True)
class TomlFile:
    """A TOML file: its text, the directory of its relative paths, and the variables for `${X}`."""

    name: str  # its name in messages: job.toml, profile cluster1
    text: str
    folder: str
    environ: Mapping[str, str]
    layer: Layer = Layer.JOB_FILE  # or DEFAULTS, or PROFILE

    def at(self, path: Path) -> str:
        """Return the place of a key: `job.toml line 12`."""
        line = self._lines.get(path)
        return f"{self.name} line {line}" if line else self.name

    def origin(self, path: Path) -> Origin:
        """Return the origin of a value, as plans and scripts show it. Of a profile, they show the name alone."""
        return Origin.of(self.name if self.layer is Layer.PROFILE else self.at(path), self.layer)

    def error(self, path: Path, problem: str, remedy: str) -> UsageError:
        """Return the error for a key of this file."""
        return UsageError(f"{self.at(path)}: {problem}", remedy)

    @functools.cached_property
    def _lines(self) -> dict[Path, int]:
        """Return the line of every key: the first line that names it."""
        lines: dict[Path, int] = {}
        table: Path = ()
        for line, _, tables in statements(self.text):
            if tables is None:
                break
            header = self.text.split("\n")[line - 1].lstrip().startswith("[")
            paths = list(_paths(tables))
            for path in paths:
                lines.setdefault(path if header else (*table, *path), line)
            if header and paths:
                table = paths[-1]
        return lines


def statements(text: str) -> Iterator[tuple[int, int, Mapping[str, Any] | None]]:
    """Yield (first line, last line, tables) of each statement, by TOML's own parser. Bad TOML has no tables."""
    lines = text.split("\n")
    first = 0
    while first < len(lines):
        if not lines[first].strip() or lines[first].lstrip().startswith("#"):
            first += 1
            continue
        for last in range(first, len(lines)):
            if last > first and not re.search(r"\]|\"{3}|'{3}", lines[last]):
                continue  # a statement of several lines ends with one of these
            try:
                tables = _parser().loads("\n".join(lines[first : last + 1]) + "\n")
            except ValueError:
                continue
            yield first + 1, last + 1, tables
            break
        else:
            yield first + 1, len(lines), None
            return
        first = last + 1


def _paths(tables: Any, above: Path = ()) -> Iterator[Path]:
    for key, value in tables.items() if isinstance(tables, dict) else ():
        yield (*above, key)
        yield from _paths(value, (*above, key))


def load(page: TomlFile) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises UsageError with the line if it is not TOML."""
    if page.text.startswith("\ufeff"):
        raise UsageError(f"{page.name} line 1: it begins with a byte order mark", "save it as UTF-8 without one")
    try:
        tables: dict[str, Any] = _parser().loads(page.text)
    except RecursionError:
        raise _too_deep(page) from None
    except ValueError as error:
        problem = re.sub(r"\s*\(at .*\)$", "", str(error))
        match = re.search(r"at line (\d+)", str(error))
        line = int(match[1]) if match else _first_wrong(page.text)
        if problem == "Illegal character '\\n'":
            problem = "a quote is missing"
        elif not isinstance(error, _parser().TOMLDecodeError):  # Python converts 4300 digits
            problem = "a number has too many digits"
        hint = "strings stand in quotes, lists in []"
        raise UsageError(f"{page.name} line {line}: {problem[:1].lower()}{problem[1:]}", hint) from None
    _refuse_odd(tables, page)
    return tables


def _too_deep(page: TomlFile) -> UsageError:
    return UsageError(f"{page.name}: tables or lists are nested too deeply", "put the keys at the top level")


def _refuse_odd(tables: Mapping[str, Any], page: TomlFile) -> None:
    """Raise UsageError at a NUL, since no word, path or variable of a program can hold one (execve(2)), and for tables
    or lists in more than LEVELS others."""
    level: list[tuple[Path, Any]] = [((), tables)]
    for _ in range(LEVELS):
        for path, value in level:
            if isinstance(value, str) and "\0" in value:
                raise page.error(path, f"{path[-1]} contains a NUL character", "remove it")
        inner = [((*path, key), v) for path, value in level if isinstance(value, dict) for key, v in value.items()]
        level = inner + [(path, v) for path, value in level if isinstance(value, list) for v in value]
    if level:
        raise _too_deep(page)


def _first_wrong(text: str) -> int:
    """Return the line of an error that the parser reports only at the end of the text."""
    lines = text.split("\n")
    for first, last, tables in statements(text):
        try:
            _parser().loads("\n".join(lines[:last]) + "\n")
        except ValueError:
            return first
        if tables is None:
            return first
    return len(lines)


def read(page: TomlFile) -> JobFile:
    """Return the content of a job file. Raises UsageError with the line of a bad key or value."""
    return read_tables(load(page), page)


def read_tables(tables: dict[str, Any], page: TomlFile) -> JobFile:
    """Return the content of a job file's tables."""
    for name in PROFILE_TABLES:
        if isinstance(tables.get(name), dict):
            remedy = "move it to a profile: mnrun profile list shows yours"
            raise page.error((name,), f"{name} is a table for profiles", remedy)
    rows = services(tables, page)
    command = _command(tables, page)
    return JobFile(layer(tables, page), command, rows)


def services(tables: dict[str, Any], page: TomlFile) -> dict[str, JobFile]:
    """Take [services.NAME] out of the tables, and return name -> its row."""
    rows = tables.pop("services", {})
    if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
        raise page.error(("services",), "services has no tables", 'write [services.NAME], and its command = ["…"]')
    found = {}
    for name, given in rows.items():
        row = deepcopy(given)  # a profile is parsed more than once
        command = _command(row, page, ("services", name))
        found[name] = JobFile(layer(row, page, ("services", name)), command)
    return found


def _command(tables: dict[str, Any], page: TomlFile, where: Path = ()) -> tuple[str, ...]:
    """Take the command out of the tables, and return it."""
    command: tuple[str, ...] = ()
    for key, value in list(tables.items()):
        if key == "command" and "env" not in where:
            if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
                raise page.error((*where, key), "command is not a list of words", 'command = ["python", "train.py"]')
            inner = tuple(tables.pop(key))
        elif isinstance(value, dict):
            inner = _command(value, page, (*where, key))
        else:
            continue
        if command and inner:
            raise page.error((*where, key), "command is given twice", "one job runs one command")
        command = inner or command
    return command


def layer(tables: Mapping[str, Any], page: TomlFile, where: Path = ()) -> dict[str, Setting]:
    """Return the settings in the tables of a job file, or in a profile's tables with the same keys."""
    settings: dict[str, tuple[Path, Setting]] = {}
    for path, name, entry in _entries(tables, page, where):
        # Other tables, and some values of `exclusive`, add words to a scheduler's own, too.
        if name in OWN and name in settings:
            before = settings[name][1]
            entry = before.having((*before.words, *entry.words))
        elif name in settings:
            raise page.error(path, f"{path[-1]} is given twice", f"also in {page.at(settings[name][0])}")
        settings[name] = (path, entry)
    return {name: entry for name, (_, entry) in settings.items()}


def _entries(tables: Mapping[str, Any], page: TomlFile, where: Path) -> Iterator[tuple[Path, str, Setting]]:
    """Yield (place, option's name, setting) of every entry in the tables."""
    for key, value in tables.items():
        path = (*where, key)
        if isinstance(value, dict) and key == "env":
            words = tuple(_variable(v, page, (*path, n)) for n, v in value.items())
            if words:
                each = tuple(page.origin((*path, n)) for n in value)
                yield path, "env", Setting(words, each[0] if len(each) == 1 else page.origin(path), each)
        elif isinstance(value, dict) and key in OWN:
            options = {k: v for k, v in value.items() if name_of(k.replace("-", "_")) in BY_NAME}
            yield from _entries({k.replace("-", "_"): v for k, v in options.items()}, page, path)
            rest = [(k, v) for k, v in value.items() if k not in options]
            flat = [(k, one) for k, v in rest for one in (v if k in OWN[key].tables and isinstance(v, list) else [v])]
            if flat:
                words = tuple(_passed(key, v, page, (*path, k)) for k, v in flat)
                yield path, key, Setting(words, page.origin(path), tuple(page.origin((*path, k)) for k, _ in flat))
        elif isinstance(value, dict):
            yield from _entries(value, page, path)
        elif isinstance(value, str) and (own := _own(key, value)):
            yield path, own.name, Setting((own.entry(key, value),), page.origin(path), (page.origin(path),))
        else:
            option = _option(page, path)
            yield path, option.name, setting(option, value, page, path)


def _own(key: str, value: str) -> OwnOption | None:
    """Return the scheduler's own option that has this value of an option."""
    return next((own for own in OWN.values() if value in own.values.get(key, ())), None)


def _option(page: TomlFile, path: Path) -> Option:
    key = path[-1]
    if name_of(key) in BY_NAME:
        return BY_NAME[name_of(key)]
    if key == "command":
        raise page.error(path, "command is allowed only in a job file", "move it to a job file")
    near = nearest(key.replace("-", "_"), [*BY_NAME, *ALIASES, "command", "env"])
    remedy = f"did you mean {near} ({_accepted(near)})?" if near else "the keys are the long options, with _ for -"
    raise page.error(path, f"unknown key {key}", remedy)


def _accepted(key: str) -> str:
    """Return the values that a key takes: its choices, or its type."""
    if key == "command":
        return "a list of words"
    option = BY_NAME[name_of(key)]
    return ", ".join(option.choices) or _TYPES.get(option.kind, _TEXT)[1]


_TEXT: tuple[Any, str] = ((str, int), "a string")
_TYPES: dict[str, tuple[Any, str]] = {
    "seconds": ((str, int), 'a time: "120s"'),
    "flag": (bool, "true or false"),
    "number": (int, "a number"),
    "list": (list, "a list of strings"),
    "words": (list, "a list of words"),
    "env": (dict, "a table: [env]"),
}


def setting(option: Option, value: Any, page: TomlFile, path: Path) -> Setting:
    """Return the value at `path` as the option's setting. Raises UsageError with the line if it has another type."""
    name = expand(value, page.environ, page.at(path)) if option.name == "image" and isinstance(value, str) else ""
    return Setting(_value(option, value, page, path), page.origin(path), name="" if is_path(name) else name)


def _value(option: Option, value: Any, page: TomlFile, path: Path) -> Any:
    kind, called = _TYPES.get(option.kind, _TEXT)
    right = isinstance(value, kind) and (option.kind == "flag" or not isinstance(value, bool))
    if not right or (isinstance(value, list) and not all(isinstance(word, str) for word in value)):
        text = "" if option.kind == "env" else f" = {_toml(value)}"
        raise page.error(path, f"{path[-1]}{text} is not {called}", _remedy(option, value, path[-1]))
    if option.kind == "words":
        return tuple(value)  # words already, so nothing is split
    if option.name in PATHS:  # _path fills in `${X}`
        value = [_path(v, option, page, path) for v in value] if kind is list else _path(value, option, page, path)
    return parse(option, value, page.at(path))


def _toml(value: Any) -> str:
    """Return a value as it is written in the file. An unquoted 12:00:00 is a time in TOML."""
    return json.dumps(value, ensure_ascii=False, default=str) if not hasattr(value, "isoformat") else str(value)


def _remedy(option: Option, value: Any, key: str) -> str:
    if option.kind in ("list", "words") and isinstance(value, str):
        return f"write {key} = [{_toml(value)}]"
    if option.kind == "number":
        return f"write {key} = {value if isinstance(value, str) and value.isdecimal() else 4}"
    if option.kind in ("text", "seconds", "choice") and not isinstance(value, (bool, list, dict)):
        return f'write {key} = "{value}"'
    return option.help


def _path(value: Any, option: Option, page: TomlFile, path: Path) -> str:
    """Return a path with `${X}` filled in, relative to the file. An image's reference stays as it is."""
    text = expand(str(value), page.environ, page.at(path))
    if not text:
        return text
    mark, text = ("!", text[1:]) if option.kind == "list" and text.startswith("!") else ("", text)
    source, colon, rest = text.partition(":") if option.name == "bind" else (text, "", "")
    if (option.name == "image" and clearly(source)) or (option.name == "bind" and text.startswith(CLAIM)):
        return mark + text
    source = re.sub(r"^~(?=/|$)", lambda _: page.environ.get("HOME", "~"), source)
    if option.name in OUTPUTS and page.layer is not Layer.JOB_FILE:
        return source
    return mark + os.path.normpath(os.path.join(page.folder, source)) + colon + rest


def expand(text: str, environ: Mapping[str, str], place: str) -> str:
    """Return text with the variable's value for `${X}`, and `${X}` for `$${X}`. Raises UsageError if X is not set."""

    def filled(match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        if match[1] not in environ:
            raise UsageError(f"{place}: ${{{match[1]}}} is not set", f"set it, or write $${{{match[1]}}} for the text")
        return environ[match[1]]

    return re.sub(r"\$?\$\{(\w+)\}", filled, text)


def _variable(value: Any, page: TomlFile, path: Path) -> str:
    """Return a word of -x: true passes the job's own value on, and false removes the variable. Error messages never
    hold a value."""
    name = path[-1]
    above = "an option stands above [env]: move it there" if name_of(name.replace("-", "_")) in BY_NAME else ""
    if not NAME.match(name):
        raise page.error(path, f"{name!r} in [env] is not a variable name", above or "use letters, digits and _")
    if isinstance(value, bool):
        return name if value else f"!{name}"
    if isinstance(value, (str, int, float)):
        return f"{name}={value}"
    raise page.error(path, f"{name} in [env] is neither a string nor true or false", above or f'write {name} = "VALUE"')


def _passed(own: str, value: Any, page: TomlFile, path: Path) -> str:
    """Return a word of a scheduler's own option: its key and value, the key alone for true, and `!` for false. The
    value of a table is JSON."""
    if path[-1] in OWN[own].tables and isinstance(value, dict):
        value = json.dumps(value)
    if not isinstance(value, (bool, str, int)):
        raise page.error(path, f"{path[-1]} = {_toml(value)} is not a string", f'write {path[-1]} = "VALUE"')
    word = OWN[own].entry(path[-1], None if isinstance(value, bool) else str(value))
    words = parse(BY_NAME[own], word if value is not False else f"!{word}", page.at(path))
    assert isinstance(words, tuple)
    return words[0]
