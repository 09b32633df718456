"""Read the values that every scheduler needs: times, memory, arrays, dependencies and signals. Write sizes for people.
Runs no command.

The formats are those of sbatch(1), and as generous as sbatch of Slurm 24.11. So a value that no scheduler can read is
refused before the job is queued. A value that only a site can judge passes.
"""

from __future__ import annotations

import math
import re

from mnrun.errors import UsageError
from mnrun.record import Record


class Format(Record):
    """The format of an option's value: its pattern, its name, a valid value, and others."""

    pattern: str
    name: str
    sample: str
    others: str


_MEMORY = Format(r"\d+([kmgt]b?)?", "an amount of memory", "64G", "1T or 4000 (MB)")
_UNITS = r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?"
_RANGE = r"\d+(-\d+(:\d+)?)?"
_ID = r"\d+(_(\d+|\*))?(\+\d+)?"
_TYPES = "after|afterany|afterburstbuffer|aftercorr|afternotok|afterok|expand"
_ONE = rf"(singleton|{_ID}|({_TYPES})(:{_ID})+)"
FORMATS = {
    "time": Format(
        r"(\d+-)?\d+(:\d+){0,2}|\d+-|-1|infinite|unlimited",
        "a time limit",
        "12:00:00",
        "2h, 30 (minutes) or 2-0 (days)",
    ),
    "mem": _MEMORY,
    "mem_per_cpu": _MEMORY,
    "mem_per_gpu": _MEMORY,
    "array": Format(rf"\[?{_RANGE}(, *{_RANGE})*\]?(%\d*)?\]?", "a list of array tasks", "0-9", "1,3,7 or 0-99%5"),
    "dependency": Format(rf"{_ONE}([,?]{_ONE})*", "a list of dependencies", "afterok:123", "afterany:123:124"),
}


def read(option: str, text: str, origin: str) -> str:
    """Return the option's value as sbatch reads it. Raises UsageError for any other text.

    An empty value takes back that of another layer. A time limit may have units, which sbatch does not know: 1d12h.
    """
    form = FORMATS.get(option)
    units = re.fullmatch(_UNITS, text, re.IGNORECASE | re.ASCII) if option == "time" and text else None
    if units:
        days, hours, minutes, rest = (int(number or 0) for number in units.groups())
        whole = days * 86400 + hours * 3600 + minutes * 60 + rest
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    if form is not None and text and not re.fullmatch(form.pattern, text, re.IGNORECASE | re.ASCII):
        flag = f"--{option.replace('_', '-')}"
        raise UsageError(f"{flag} {text!r} is not {form.name} ({origin})", f"write {form.sample}, {form.others}")
    return text


def seconds(time: str) -> float:
    """Return a time limit in seconds. Words mean that there is no limit."""
    if not re.fullmatch(r"(\d+-)?[\d:]*", time):
        return math.inf
    days, dash, rest = time.rpartition("-")
    parts = [int(part or 0) for part in rest.split(":")]
    units = (3600, 60, 1) if dash or len(parts) > 2 else (60, 1)
    return int(days or 0) * 86400 + sum(unit * part for unit, part in zip(units, parts)) or math.inf


def age(text: str, option: str) -> float:
    """Return a time back from now in seconds: 12h, 30d or 4w. Raises UsageError."""
    match = re.fullmatch(r"(\d+)(h|d|w)", text, re.ASCII)
    if re.fullmatch(r"\d+m", text, re.ASCII):
        raise UsageError(f"{option} {text} may be minutes or months", "write 1h, 30d or 4w")
    if not match:
        raise UsageError(f"{option} {text!r} is not a time", "write 30d, 12h or 4w")
    return int(match[1]) * {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}[match[2]]


def megabytes(memory: str) -> int:
    """Return an amount of memory in MB, rounded up."""
    number, unit = re.findall(r"\d+|[kmgt]", memory.lower() + "m")[:2]
    return math.ceil(int(number) * {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}[unit])


class Array(Record):
    """The tasks of a job array, and how many run at once, or 0 for all."""

    tasks: tuple[range, ...]
    at_once: int = 0


_SCALES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def size(count: float, unit: str = "B") -> str:
    """Return bytes, or another unit, as people write them: 61.2 GB."""
    prefix, scale = next(((word, least) for word, least in _SCALES if count >= least * 0.9995), ("", 1.0))
    return f"{count / scale:.3g} {prefix}{unit}"


def array(text: str) -> Array:
    """Return the array of a value such as 0-9%2, 1,3,7 or 0-99:4."""
    tasks, _, most = re.sub(r"[\[\] ]", "", text).partition("%")
    spans = (re.split("[-:]", task) for task in tasks.split(","))
    numbers = [[int(number) for number in span] for span in spans]
    return Array(tuple(range(first, (rest or [first])[0] + 1, *rest[1:]) for first, *rest in numbers), int(most or 0))


def dependencies(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return (kind, jobs) of each dependency: ("afterok", ("12", "13")). The kind of a bare job is ""."""
    parts = (part.split(":") for part in re.split("[,?]", text) if part)
    return [("", (kind,)) if kind[:1].isdigit() else (kind, tuple(jobs)) for kind, *jobs in parts]


# Signals that a job's script passes on to the program (jobs/batch.py), with Linux's numbers.
SIGNALS = {"TERM": 15, "INT": 2, "HUP": 1, "QUIT": 3, "USR1": 10, "USR2": 12, "ALRM": 14, "CONT": 18}
OF_PROGRAMS = ("USR1", "USR2")  # those that a live run hands on: others end it, or do nothing


def signal(text: str) -> str:
    """Return the name of such a signal in the spellings USR1, SIGUSR1, usr1 or 10. Return "" for any other."""
    name = re.sub("^SIG", "", text.upper())
    return next((signal for signal, number in SIGNALS.items() if name in (signal, str(number))), "")


def warning(text: str) -> tuple[str, int]:
    """Return the signal of a value of --signal, and how many seconds before the time limit it comes: USR1@120."""
    name, _, before = re.sub(r"^[RB]+:", "", text, flags=re.IGNORECASE).partition("@")
    return signal(name), int(before) if before.isdecimal() else 60


def refuse_signal(text: str, origin: str) -> None:
    """Raise UsageError if mnrun does not pass on the signal of a value of --signal."""
    if not warning(text)[0]:
        problem = f"--signal {text}: mnrun does not forward this signal to programs ({origin})"
        raise UsageError(problem, f"use one of {', '.join(SIGNALS)}, as USR1@120")
