"""Refuse a value of a Slurm option that Slurm cannot read, before the job is queued. Runs no command.

The formats are those of sbatch(1), and as generous as sbatch of Slurm 24.11. A value that only a site can judge passes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mnrun.errors import UsageError


@dataclass(frozen=True)
class Format:
    """The format of an option's value: its pattern, its name, a valid value, and others."""

    pattern: str
    name: str
    sample: str
    others: str


_MEMORY = Format(r"\d+([kmgt]b?)?", "an amount of memory", "64G", "1T or 4000 (MB)")
_RANGE = r"\d+(-\d+(:\d+)?)?"
_ID = r"\d+(_(\d+|\*))?(\+\d+)?"
_TYPES = "after|afterany|afterburstbuffer|aftercorr|afternotok|afterok|expand"
_ONE = rf"(singleton|{_ID}|({_TYPES})(:{_ID})+)"
FORMATS = {
    "time": Format(
        r"(\d+-)?\d+(:\d+){0,2}|\d+-|-1|infinite|unlimited", "a time limit", "12:00:00", "30 (minutes) or 2-0 (days)"
    ),
    "mem": _MEMORY,
    "mem_per_cpu": _MEMORY,
    "mem_per_gpu": _MEMORY,
    "array": Format(rf"\[?{_RANGE}(, *{_RANGE})*\]?(%\d*)?\]?", "a list of array tasks", "0-9", "1,3,7 or 0-99%5"),
    "dependency": Format(rf"{_ONE}([,?]{_ONE})*", "a list of dependencies", "afterok:123", "afterany:123:124"),
}


def refuse(option: str, text: str, origin: str) -> None:
    """Raise UsageError if `text` is no value of the option. An empty value takes back that of another layer."""
    form = FORMATS.get(option)
    if form is not None and text and not re.fullmatch(form.pattern, text, re.IGNORECASE | re.ASCII):
        flag = f"--{option.replace('_', '-')}"
        raise UsageError(f"{flag} {text!r} is not {form.name} ({origin})", f"write {form.sample}, {form.others}")


def long_option(word: str, origin: str) -> str:
    """Return a word of --slurm without its leading dashes. Raises UsageError if it is no long option of sbatch."""
    taken = word[: word.startswith("!")]
    bare = word[len(taken) :].lstrip("-")
    dashes = len(word) - len(taken) - len(bare)
    if dashes == 1 or not re.match(r"[a-z][a-z0-9-]+(=|$)", bare):
        raise UsageError(f"--slurm {word!r} is not a long option of sbatch ({origin})", "write it as comment=test")
    return taken + bare
