"""Parse and write the records that a submitted job leaves in its directory, as text.

    <base>/<ID>/submitted          by `mnrun submit`. ID is 123, or 123_4 for a task of an array
    <base>/<ID>/script             the script as it was handed in
    <base>/<ID>/request            the settings that it was made of, for `mnrun rerun`
    <base>/<ID>/<RESTART>/begun    by the job itself, as it starts. RESTART counts its earlier starts
    <base>/<ID>/<RESTART>/log      the guards' lines
    <base>/<ID>/<RESTART>/timeline  by the job itself, at the end: where the time went (timeline.py)
    <base>/<ID>/<RESTART>/samples  by the job itself, with --watch: what it uses on its nodes (watching/samples.py)
    <base>/<ID>/<RESTART>/outcome  by the job itself, last and whole. A job that was killed hard has none
    <base>/<ID>/last/              the same of the last launch of a script whose shell goes on after it, without `begun`

An array has <base>/123/ with `submitted` alone. Its tasks have directories of their own. Times are seconds since the
epoch. Functions here touch no file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mnrun.jobs import patterns
from mnrun.record import Record
from mnrun.schedulers.vocabulary import JobId, is_id

SUBMITTED, SCRIPT, REQUEST, BEGUN = "submitted", "script", "request", "begun"
LOG, OUTCOME = "log", "outcome"
TIMELINE, SAMPLES, LAST = "timeline", "samples", "last"
FAR = 1e11  # seconds since the epoch, in the year 5138
KILLED = "mnrun itself was killed"  # begins the reason of such an end
REQUEUED = "requeued"  # the `why` of an outcome after which the scheduler starts the job again


@dataclass(frozen=True)
class Submitted:
    """The request."""

    id: str
    name: str = ""
    cluster: str = ""
    nodes: int = 0  # 0 if the request names none
    gpus: int = 0  # in all
    command: tuple[str, ...] = ()
    time: float = 0
    output: str = ""  # an absolute pattern (patterns.py)
    error: str = ""  # another
    split_output: str = ""  # an absolute directory
    tasks: int = 0  # the size of an array
    own: bool = False  # whether the job is a batch script of the user's own, with a line of mnrun in it

    def files(self, identity: str, user: str) -> tuple[Path, ...]:
        """Return the files of the output and the errors of job `identity`, each once, as far as its id tells them."""
        known = patterns.values(JobId.of(identity), self.name, user)
        told = [text for text in (self.output, self.error) if text and patterns.letters(text) <= set(known)]
        return tuple(dict.fromkeys(Path(os.path.realpath(patterns.filled(text, known))) for text in told))


@dataclass(frozen=True)
class Requested:
    """All that a job was made of, so that it can be made again."""

    cwd: str
    command: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Any]]  # option -> its value, and the origin of that


@dataclass(frozen=True)
class Begun:
    """The place where a start of the job runs."""

    time: float
    nodes: str = ""  # folded: node[01-04]
    head: str = ""
    output: str = ""  # an absolute path, as the next two
    error: str = ""
    split_output: str = ""
    label: bool = False  # whether the lines of each rank begin with its number

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files of the job's output and errors, each once."""
        return tuple(dict.fromkeys(Path(path) for path in (self.output, self.error) if path))


@dataclass(frozen=True)
class Ended:
    """The end of a start of the job: its exit code, and a reason if that is not the program's own, in words and in one
    word for programs."""

    time: float
    code: int
    why: str = ""
    reason: str = ""


class JobRecord(Record):
    """The records in a job's directory, of its last start."""

    id: str
    submitted: Submitted | None = None
    restart: int = -1  # the number of that start, or -1 before the first
    begun: Begun | None = None
    ended: Ended | None = None
    touched: float = 0  # the time of the last write by a start that has not ended, or 0 if unknown
    folder: str = ""
    launched: Ended | None = None  # the end of the last launch of a script whose shell goes on after it

    @property
    def over(self) -> bool:
        """Return whether the last start has ended, and the job does not begin anew."""
        return self.ended is not None and self.ended.why != REQUEUED

    @property
    def time(self) -> float:
        return max(self.touched, self.newest)

    @property
    def newest(self) -> float:
        """Return the time of the newest record of a submission, a begin or an end."""
        return max(part.time if part else 0.0 for part in (self.submitted, self.begun, self.ended, self.launched))

    @property
    def array(self) -> str:
        return JobId.of(self.id).number

    def files(self, user: str) -> tuple[Path, ...]:
        """Return the files of the output and the errors of this user's job, each once, as far as they are known."""
        if self.begun is not None:
            return self.begun.files
        return self.submitted.files(self.id, user) if self.submitted is not None else ()


def submitted(text: str) -> Submitted | None:
    """Return the record in a file's text, or None if there is none, or half of one."""
    values = _object(text)
    if values is None or not is_id(str(values.get("id", ""))):
        return None
    return Submitted(**{**_fields(Submitted, values), "id": str(values["id"])})


def requested(text: str) -> Requested | None:
    values = _object(text)
    try:
        assert values is not None
        settings = {str(name): dict(value) for name, value in values["settings"].items()}
        return Requested(str(values["cwd"]), tuple(map(str, values["command"])), settings)
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError):
        return None


def begun(text: str) -> Begun | None:
    values = _object(text)
    if values is None or "time" not in values:
        return None
    return Begun(**_fields(Begun, values))


def outcome(text: str) -> Ended | None:
    values = _object(text)
    if values is None or not isinstance(values.get("code"), int):
        return None
    return Ended(**{**_fields(Ended, values), "code": values["code"]})


def end_line(job: str, end: Ended) -> str:
    """Return a line with the end of a live run in this job."""
    return json.dumps({"id": job, **vars(end)})


def live_end(line: str) -> tuple[str, Ended] | None:
    """Return the job and the end in such a line, or None if it is not whole."""
    ended, values = outcome(line), _object(line)
    return (str(values["id"]), ended) if ended is not None and values is not None and "id" in values else None


def restarts(names: Iterable[str]) -> list[int]:
    """Return the numbers of a job's starts among the names in its directory, in order."""
    return sorted(int(name) for name in names if re.fullmatch(r"0|[1-9]\d*", name, re.ASCII))


def rank_of(name: str) -> tuple[int, str] | None:
    """Return (rank, stream) of a file's name in the directory of --split-output, or None for any other name."""
    match = re.fullmatch(r"rank\.(\d+)\.(out|err)", name, re.ASCII)
    return (int(match[1]), match[2]) if match else None


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _fields(kind: type[Submitted | Begun | Ended], values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(kind):
        value = values.get(field.name)
        if field.name == "time":
            found["time"] = float(value) if isinstance(value, (int, float)) and 0 <= value < FAR else 0.0
        elif field.name == "command" and isinstance(value, list):
            found["command"] = tuple(map(str, value))
        elif type(value) is type(field.default):
            found[field.name] = value
    return found
