"""Layers of option values, merged, each value with its origin:

built-in < site defaults < profile < its partition < user < job file < MNRUN_* < SBATCH_* < command line
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from .errors import UsageError
from .options import BY_NAME, OPTIONS, Option

Value = Union[str, int, bool, tuple[str, ...]]


@dataclass(frozen=True)
class Setting:
    """A value of an option, and where it came from."""

    value: Value
    origin: str


Settings = Mapping[str, Setting]


def builtin() -> Settings:
    return {o.name: Setting(parse(o, o.default, "built-in"), "built-in") for o in OPTIONS if o.default is not None}


def from_environment(environ: Mapping[str, str]) -> Settings:
    """MNRUN_<OPTION> variables; lists are split at commas. MNRUN_JOB_* are ours, not options'."""
    found = {}
    for option in OPTIONS:
        text = environ.get(option.variable or "")
        if text:
            raw = text.split(",") if option.kind == "list" else text
            found[option.name] = Setting(parse(option, raw, str(option.variable)), str(option.variable))
    return found


def from_command_line(given: Mapping[str, object]) -> Settings:
    """What click collected: strings, lists of strings, True for flags; nothing where not given."""
    return {
        name: Setting(parse(BY_NAME[name], raw, "command line"), "command line")
        for name, raw in given.items()
        if raw not in (None, False, ())
    }


# sbatch's own variables (sbatch(1), INPUT ENVIRONMENT VARIABLES); the script's lines would yield to them.
SBATCH = {
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_MEM_PER_NODE": "mem",
    **{
        f"SBATCH_{name.upper()}": name
        for name in (
            *("account", "constraint", "error", "exclusive", "export", "gpus_per_task", "job_name", "mem_per_cpu"),
            *("mem_per_gpu", "output", "partition", "qos", "requeue", "reservation", "signal", "gres"),
        )
    },
}


def from_sbatch(environ: Mapping[str, str]) -> Settings:
    """SBATCH_* variables; a flag is set by being there."""
    found = {}
    for variable, name in SBATCH.items():
        if variable in environ:
            option = BY_NAME[name]
            raw = "true" if option.kind == "flag" else environ[variable]
            found[name] = Setting(parse(option, raw, variable), variable)
    return found


def merge(*layers: Settings) -> dict[str, Setting]:
    """The layers, later ones first to be believed; lists and words add up, and `!X` takes X away."""
    merged: dict[str, Setting] = {}
    for layer in layers:
        for name, setting in layer.items():
            below = merged.get(name)
            if BY_NAME[name].repeats:
                setting = _added(below, setting, BY_NAME[name].kind != "words")
            merged[name] = setting
    return merged


def _added(below: Setting | None, above: Setting, takes_away: bool) -> Setting:
    assert isinstance(above.value, tuple)
    value = below.value if below is not None else ()
    assert isinstance(value, tuple)
    for word in above.value:
        if takes_away and word.startswith("!"):
            value = tuple(old for old in value if re.split("[=:]", old)[0] != word[1:])
        else:
            value = (*value, word)
    return Setting(value, f"{below.origin}, {above.origin}" if below is not None else above.origin)


def parse(option: Option, raw: object, origin: str) -> Value:
    """The typed value of what a person wrote; raises UsageError naming option, value and origin."""
    name = next(flag for flag in option.flags if flag.startswith("--"))
    if option.kind == "flag":
        return _flag(name, raw, origin)
    if option.repeats:
        words = [raw] if isinstance(raw, str) else [str(word) for word in raw]  # type: ignore[attr-defined]
        return _split(name, words, origin) if option.kind == "words" else tuple(words)
    text = str(raw)
    if option.kind == "number":
        if not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{name} {text!r} is not a number from 1 up ({origin})")
        return int(text)
    if option.kind == "seconds":
        return _seconds(name, text, origin)
    if option.choices and text not in option.choices:
        near = difflib.get_close_matches(text, option.choices, 1)
        hint = f"did you mean {near[0]}?" if near else "it is one of " + ", ".join(option.choices)
        raise UsageError(f"{name} {text!r} is unknown ({origin})", hint)
    if not text:
        raise UsageError(f"{name} is empty ({origin})")
    return text


def _flag(name: str, raw: object, origin: str) -> bool:
    text = str(raw).lower()
    if text in ("true", "1", "yes"):
        return True
    if text in ("false", "0", "no"):
        return False
    raise UsageError(f"{name} {raw!r} is neither true nor false ({origin})")


def _split(name: str, lines: Sequence[str], origin: str) -> tuple[str, ...]:
    words: list[str] = []
    for line in lines:
        try:
            words += shlex.split(line)
        except ValueError as error:
            raise UsageError(f"{name} {line!r}: {str(error).lower()} ({origin})") from None
    return tuple(words)


def _seconds(name: str, text: str, origin: str) -> int:
    match = re.fullmatch(r"(\d+)(s|m|h|)", text)
    if not match or int(match[1]) == 0:
        raise UsageError(f"{name} {text!r} is not a time ({origin})", "write 120s, 5m or 1h")
    return int(match[1]) * {"s": 1, "": 1, "m": 60, "h": 3600}[match[2]]
