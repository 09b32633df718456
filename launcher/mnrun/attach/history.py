"""Tell how a submitted job ended, by the records that it has left."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from mnrun.diagnosis.culprit import culprit
from mnrun.diagnosis.recognise import diagnose, labelled, traceback
from mnrun.jobs import about, archive, launches, records
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import KILLED, Ended, JobRecord
from mnrun.jobs.state import JobView
from mnrun.mpi.endings import without_endings
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers import BATCH
from mnrun.schedulers.vocabulary import JobState
from mnrun.watching import series

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
    state: Annotated[JobState, "the job's state: `COMPLETED`, `FAILED`, `PENDING` …"]
    code: Annotated[int | None, "the exit code, once it has ended"]
    why: Annotated[str, "the reason that it waits, or that it ended; empty if there is none"]
    cause: Annotated[str, "the cause that its output names, and the remedy; empty if unknown"]
    reason: Annotated[str, "the code of that cause, or of `why`, in one word that never changes; empty if unknown"]
    first: Annotated[RankEnd | None, "the rank that failed first"]
    summary: Annotated[str, "where ranks ran, and which network they used; empty if unknown"]
    used: Annotated[series.Used | None, "what it has used; null if it was not watched (--watch)"]
    output: Annotated[tuple[str, ...], "its last lines, or those of the rank that failed first, where they are known"]
    of_rank: Annotated[bool, "whether `output` is that of the rank that failed first"] = False


def ended(
    view: JobView, folder: Path, lines: Sequence[str], files: Mapping[tuple[int, str], Path] = MappingProxyType({})
) -> EndedJob:
    """Tell how a job ended. `folder` has the records of its last start, `lines` are the last of its output, and `files`
    those of --split-output."""
    failed = view.state == JobState.FAILED and view.code
    if view.why.startswith(KILLED):  # Python's last words on it are not the program's (faulthandler)
        lines = list(takewhile(lambda line: not line.startswith("Fatal Python error: "), lines))
    # The scheduler's signals end the ranks of a cancelled job, in no order that matters.
    first = _first_failure(folder, lines, view.code) if failed and view.code else None
    runtimes = [RUNTIMES[launch.runtime] for launch in launches.read(folder) if launch.runtime in RUNTIMES]
    cause = diagnose(lines, view.code, all(one.CONTAINED for one in runtimes)) if failed else None
    clients = [scheduler.CLIENT_LINES.own for scheduler in BATCH.values()]
    last = tuple(line for line in without_endings(lines) if not any(own.has(line) for own in clients))[-SHOWN:]
    summary = archive.text(folder, "summary").strip()
    reason = cause.name if cause else view.reason
    used = series.used(series.read_all(archive.text(folder, records.SAMPLES)))
    its = _of_rank(first, lines, files) if first is not None else ()
    cause_text, output = str(cause or ""), its[-SHOWN:] or last
    return EndedJob(
        view.id, view.state, view.code, view.why, cause_text, reason, first, summary, used, output, bool(its)
    )


def _of_rank(first: RankEnd, lines: Sequence[str], files: Mapping[tuple[int, str], Path]) -> tuple[str, ...]:
    """Return the last lines of the rank that failed first: of its own files, or those that its label begins, or the
    traceback of a Python program, if it is the only one."""
    own = [files[key] for key in ((first.rank, "out"), (first.rank, "err")) if key in files]
    found = tuple(line for path in own for line in _tail(path))
    return found or labelled(lines, first.rank) or (traceback(lines) if first.code == 1 else ())


def _first_failure(folder: Path, lines: Sequence[str], code: int) -> RankEnd | None:
    """Return the rank that failed first by itself. mpirun names its rank in the job's output."""
    for rank, node, its in archive.failures(folder):
        return RankEnd(rank, node, its)
    started = archive.started(folder)
    named = culprit(lines, {rank: node for node, ranks in started.items() for rank in ranks})
    return RankEnd(named.rank, named.node, code) if named is not None else None


def failed_ranks(record: JobRecord, user: str) -> list[int]:
    """Return the ranks of a job that failed by themselves, as far as they are known."""
    folder = archive.last_start(record)
    found = {rank for rank, _, _ in archive.failures(folder)}
    first = None if found else _first_failure(folder, last_lines(record, user), 1)
    return sorted(found) if first is None else [first.rank]


def of_kept(launch: LaunchRecord) -> EndedJob:
    """Tell how a live run ended that was started with --keep."""
    folder = Path(launch.folder)
    return ended(about.run(launch, archive.outcome(folder)), folder, ())


def of_live(identity: str, end: Ended) -> EndedJob:
    """Tell how the last live run in this job failed, of which only the end was noted."""
    return EndedJob(identity, JobState.FAILED, end.code, end.why, "", end.reason, None, "", None, ())


def last_lines(record: JobRecord, user: str) -> list[str]:
    lines: list[str] = []
    for path in filter(os.path.isfile, record.files(user)):
        lines += _tail(path)
    return lines


def _tail(path: Path) -> list[str]:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        file.seek(max(0, os.path.getsize(path) - 1000 * LINES))
        return [line.rstrip("\n") for line in deque(file, LINES)]
    return []
