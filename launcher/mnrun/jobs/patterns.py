"""Fill the patterns in names of output files, which have the letters of sbatch(1), FILENAME PATTERN."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mnrun.schedulers.vocabulary import JobId

NO_ARRAY = "4294967294"  # the task's number for a job without an array (NO_VAL, slurm.h)


def values(job: JobId, name: str, user: str) -> dict[str, str]:
    """Return letter -> value, as far as a job's id, name and user tell. A task has a number of its own, `%j`."""
    own = {} if job.task else {"j": job.number}
    return {"A": job.number, "a": job.task or NO_ARRAY, "x": name, "u": user, "%": "%", **own}


def letters(pattern: str) -> set[str]:
    """Return the letters in a pattern. A backslash turns all of them off."""
    return set() if "\\" in pattern else set(re.findall(r"%\d*(.)", pattern))


def filled(pattern: str, known: Mapping[str, str]) -> str:
    """Return the file that a pattern names. Letters without a value stay."""

    def value(match: re.Match[str]) -> str:
        text = known.get(match[2], match[0])
        return text.zfill(min(int(match[1] or 0), 10)) if text.isdecimal() else text

    return pattern.replace("\\", "") if "\\" in pattern else re.sub(r"%(\d*)(.)", value, pattern)
