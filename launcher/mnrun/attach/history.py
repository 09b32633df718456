"""Tell how a submitted job ended, by the records that it has left."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mnrun.diagnosis.culprit import culprit
from mnrun.diagnosis.recognise import diagnose
from mnrun.jobs import archive, launches, records
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import JobRecord
from mnrun.jobs.state import JobView
from mnrun.mpi.boxes import without_boxes
from mnrun.runtimes import RUNTIMES

SHOWN = 10  # last lines of an ended job's output
LINES = 200  # of the job's output: as many as a diagnosis reads


@dataclass(frozen=True)
class RankEnd:
    """The rank that failed first by itself, with its node and its exit code."""

    rank: Annotated[int, "the rank"]
    node: Annotated[str, "its node"]
    code: Annotated[int, "its exit code"]


@dataclass(frozen=True)
class EndedJob:
    """A submitted job that has ended, or that waits."""

    job: Annotated[str, "its id"]
    state: Annotated[str, "Slurm's state: `COMPLETED`, `FAILED`, `PENDING` …"]
    code: Annotated[int | None, "the exit code, once it has ended"]
    why: Annotated[str, "the reason that it waits, or that it ended; empty if there is none"]
    cause: Annotated[str, "the cause that its output names, and the remedy; empty if unknown"]
    first: Annotated[RankEnd | None, "the rank that failed first"]
    summary: Annotated[str, "where ranks ran, and which network they used; empty if unknown"]
    output: Annotated[tuple[str, ...], "its last lines"]


def ended(view: JobView, folder: Path, lines: Sequence[str]) -> EndedJob:
    """Tell how a job ended. `folder` has the records of its last start, and `lines` are the last of its output."""
    failed = view.state == "FAILED" and view.code
    # The scheduler's signals end the ranks of a cancelled job, in no order that matters.
    first = _first_failure(folder, lines, view.code) if failed and view.code else None
    cause = diagnose(lines, view.code, _contained(folder)) if failed else None
    last = tuple(without_boxes(lines)[-SHOWN:])
    return EndedJob(view.id, view.state, view.code, view.why, str(cause or ""), first, _summary(folder), last)


def _contained(folder: Path) -> bool:
    """Return whether the ranks of this start ran in containers."""
    return all(RUNTIMES[launch.runtime].CONTAINED for launch in launches.read(folder) if launch.runtime in RUNTIMES)


def _first_failure(folder: Path, lines: Sequence[str], code: int) -> RankEnd | None:
    """Return the rank that failed first by itself. The guards' line of a rank that had a TERM before ends in `told`.

    A rank of mpirun has no such line, and mpirun names it in the job's output.
    """
    text = archive.text(folder, records.LOG)
    if match := re.search(r"^ended (\S+) (\d+) ([1-9]\d*)$", text, re.MULTILINE | re.ASCII):
        return RankEnd(int(match[2]), match[1], int(match[3]))
    started = archive.started(folder)
    named = culprit(lines, {rank: node for node, ranks in started.items() for rank in ranks})
    return RankEnd(named.rank, named.node, code) if named is not None else None


def _summary(folder: Path) -> str:
    """Return the line about the job's ranks and the network that they used, or "" if there is none."""
    return archive.text(folder, "summary").strip()


def of_kept(launch: LaunchRecord) -> EndedJob:
    """Tell how a live run ended that was started with --keep."""
    end = archive.outcome(Path(launch.folder))
    state = "UNKNOWN" if end is None else "FAILED" if end.code else "COMPLETED"
    why = "it left no record of its end" if end is None else end.why
    code = None if end is None else end.code
    view = JobView(launch.job, "", state, why, len(launch.nodes), "", 0, None, code, 0)
    return ended(view, Path(launch.folder), ())


def last_lines(record: JobRecord, user: str) -> list[str]:
    """Return the last lines of the output and errors of this user's job."""
    request = record.submitted
    if record.begun is not None:
        files = record.begun.files
    else:
        files = request.files(record.id, user) if request is not None else ()
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
