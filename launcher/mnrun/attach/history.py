"""Tell how a submitted job ended, by the records that it has left."""

from __future__ import annotations

import os
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mnrun.jobs import archive
from mnrun.jobs.state import JobRecord

LINES = 200  # of the job's output: as many as a diagnosis reads


@dataclass(frozen=True)
class RankEnd:
    """The rank that failed first by itself, with its node and its exit code."""

    rank: Annotated[int, "the rank"]
    node: Annotated[str, "its node"]
    code: Annotated[int, "its exit code"]


@dataclass(frozen=True)
class Ended:
    """A submitted job that has ended, or that waits."""

    job: Annotated[str, "its id"]
    state: Annotated[str, "Slurm's state: `COMPLETED`, `FAILED`, `PENDING` …"]
    code: Annotated[int | None, "the exit code, once it has ended"]
    why: Annotated[str, "the reason that it waits, or that it ended; empty if there is none"]
    cause: Annotated[str, "the cause that its output names, and the remedy; empty if unknown"]
    first: Annotated[RankEnd | None, "the rank that failed first"]
    summary: Annotated[str, "where ranks ran, and which network they used; empty if unknown"]
    output: Annotated[tuple[str, ...], "its last lines"]


def first_failure(record: JobRecord) -> RankEnd | None:
    """Return the rank that failed first by itself. The guards' line of a rank that had a TERM before ends in `told`."""
    try:
        text = archive.log(record).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"^ended (\S+) (\d+) ([1-9]\d*)$", text, re.MULTILINE | re.ASCII)
    return RankEnd(int(match[2]), match[1], int(match[3])) if match else None


def summary(record: JobRecord) -> str:
    """Return the line about the job's ranks and the network that they used, or "" if there is none."""
    try:
        text = Path(record.folder, str(record.restart), "summary").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.strip()


def last_lines(record: JobRecord) -> list[str]:
    """Return the last lines of the job's output and errors."""
    files = record.begun.files if record.begun is not None else ()
    return [line for path in files for line in _tail(path)]


def _tail(path: Path) -> list[str]:
    """Return the last lines of a file, or nothing if it is no regular file or cannot be read."""
    try:
        if not path.is_file():
            return []
        with open(path, encoding="utf-8", errors="replace") as file:
            file.seek(max(0, os.path.getsize(path) - 1000 * LINES))
            return [line.rstrip("\n") for line in deque(file, LINES)]
    except OSError:
        return []
