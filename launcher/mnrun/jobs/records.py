"""Parse and write the records that a submitted job leaves in its directory, as text.

    <base>/<ID>/submitted          by `mnrun submit`. ID is 123, or 123_4 for a task of an array
    <base>/<ID>/script             the script as it was handed in
    <base>/<ID>/<RESTART>/begun    by the job itself, as it starts. RESTART is Slurm's SLURM_RESTART_COUNT
    <base>/<ID>/<RESTART>/log      the guards' lines
    <base>/<ID>/<RESTART>/timeline  by the job itself, at the end: where the time went (timeline.py)
    <base>/<ID>/<RESTART>/outcome  by the job itself, last and whole. A job that was killed hard has none

An array has <base>/123/ with `submitted` alone. Its tasks have directories of their own. Times are seconds since the
epoch. Functions here touch no file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUBMITTED, SCRIPT, BEGUN, LOG, OUTCOME = "submitted", "script", "begun", "log", "outcome"
TIMELINE = "timeline"
FAR = 1e11  # seconds since the epoch, in the year 5138
NO_ARRAY = "4294967294"  # the task's number in Slurm's patterns, for a job without an array (NO_VAL, slurm.h)
REQUEUED = "requeued"  # the `why` of an outcome after which the scheduler starts the job again


@dataclass(frozen=True)
class Submitted:
    """The request. `nodes` and `gpus` (in all) are 0 if the request has none.

    `tasks` is the size of an array, and 0 for other jobs.
    `own` says that the job is a batch script of the user's own, with a line of mnrun in it.
    `output` and `error` are Slurm's patterns, and `split_output` is a directory. All three are absolute, or "".
    """

    id: str
    name: str = ""
    cluster: str = ""
    nodes: int = 0
    gpus: int = 0
    command: tuple[str, ...] = ()
    time: float = 0
    output: str = ""
    error: str = ""
    split_output: str = ""
    tasks: int = 0
    own: bool = False

    def files(self, identity: str, user: str) -> tuple[Path, ...]:
        """Return the files of the output and the errors of job `identity`, each once, as far as its id tells them."""
        names = [named(pattern, identity, self.name, user) for pattern in (self.output, self.error)]
        return tuple(dict.fromkeys(Path(os.path.realpath(name)) for name in names if name))


@dataclass(frozen=True)
class Begun:
    """The place where a start of the job runs. `nodes` is folded (node[01-04]). The paths are absolute, without
    patterns."""

    time: float
    nodes: str = ""
    head: str = ""
    output: str = ""
    error: str = ""
    split_output: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files of the job's output and errors, each once."""
        return tuple(dict.fromkeys(Path(path) for path in (self.output, self.error) if path))


@dataclass(frozen=True)
class Ended:
    """The end of a start of the job: its exit code, and a reason if that is not the program's own."""

    time: float
    code: int
    why: str = ""


@dataclass(frozen=True)
class JobRecord:
    """The records in a job's directory, of its last start.

    `restart` is the number of that start, or -1 if the job has not begun. `touched` is the time of the last write by a
    start that has not ended, or 0 if unknown.
    """

    id: str
    submitted: Submitted | None = None
    restart: int = -1
    begun: Begun | None = None
    ended: Ended | None = None
    touched: float = 0
    folder: str = ""

    @property
    def over(self) -> bool:
        """Return whether the last start has ended, and the job does not begin anew."""
        return self.ended is not None and self.ended.why != REQUEUED

    @property
    def time(self) -> float:
        """Return the time of the newest record."""
        return max(self.touched, self.told)

    @property
    def told(self) -> float:
        """Return the time of the newest record of a submission, a begin or an end."""
        return max(part.time if part else 0.0 for part in (self.submitted, self.begun, self.ended))

    @property
    def array(self) -> str:
        return self.id.partition("_")[0]


def submitted(text: str) -> Submitted | None:
    """Return the record in a file's text, or None if there is none, or half of one."""
    values = _object(text)
    if values is None or not is_id(str(values.get("id", ""))):
        return None
    command = values.get("command")
    return Submitted(
        id=str(values["id"]),
        name=_text(values, "name"),
        cluster=_text(values, "cluster"),
        nodes=_number(values, "nodes"),
        gpus=_number(values, "gpus"),
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        time=_time(values),
        output=_text(values, "output"),
        error=_text(values, "error"),
        split_output=_text(values, "split_output"),
        tasks=_number(values, "tasks"),
        own=values.get("own") is True,
    )


def begun(text: str) -> Begun | None:
    """Return the record in a file's text, or None if there is none, or half of one."""
    values = _object(text)
    if values is None or "time" not in values:
        return None
    return Begun(
        time=_time(values),
        nodes=_text(values, "nodes"),
        head=_text(values, "head"),
        output=_text(values, "output"),
        error=_text(values, "error"),
        split_output=_text(values, "split_output"),
    )


def outcome(text: str) -> Ended | None:
    """Return the record in a file's text, or None if there is none, or half of one."""
    values = _object(text)
    if values is None or not isinstance(values.get("code"), int):
        return None
    return Ended(_time(values), values["code"], _text(values, "why"))


def named(pattern: str, identity: str, name: str, user: str) -> str:
    """Return the file that one of Slurm's patterns names for job `identity`.

    The result is "" if it is for a rank, a node or the number of a task in Slurm, which its id does not tell.
    """
    array, _, task = identity.partition("_")
    values = {"A": array, "a": task or NO_ARRAY, "x": name, "u": user, "%": "%", **({} if task else {"j": array})}
    letters = "".join(values)
    path = re.sub(rf"%(\d*)([{letters}])", lambda match: values[match[2]].rjust(int(match[1] or 0), "0"), pattern)
    return "" if re.search(r"%\d*[a-zA-Z]", path) else path


def is_id(text: str) -> bool:
    """Return whether this is an id as Slurm's users type it: 123, or 123_4 for a task of an array."""
    return re.fullmatch(r"[1-9]\d*(_\d+)?", text, re.ASCII) is not None


def restarts(names: Iterable[str]) -> list[int]:
    """Return the numbers of a job's starts among the names in its directory, in order."""
    return sorted(int(name) for name in names if re.fullmatch(r"0|[1-9]\d*", name, re.ASCII))


def rank_file(rank: int, stream: str) -> str:
    """Return the name of a rank's file in the directory of --split-output. `stream` is out or err."""
    return f"rank.{rank}.{stream}"


def rank_of(name: str) -> tuple[int, str] | None:
    """Return (rank, stream) of such a name, or None for any other name."""
    match = re.fullmatch(r"rank\.(\d+)\.(out|err)", name, re.ASCII)
    return (int(match[1]), match[2]) if match else None


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _number(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else 0


def _time(values: Mapping[str, Any]) -> float:
    value = values.get("time")
    return float(value) if isinstance(value, (int, float)) and 0 <= value < FAR else 0.0
