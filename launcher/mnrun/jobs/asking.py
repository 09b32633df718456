"""Tell the state of jobs, and ask their scheduler only about those whose end the records lack."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from mnrun import nodeset
from mnrun.errors import SchedulerError
from mnrun.jobs import state
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import JobRecord, is_id
from mnrun.jobs.state import JobView
from mnrun.schedulers import BATCH
from mnrun.schedulers.model import RUNNING, Trace
from mnrun.schedulers.queue import Job, Queue, Snapshot

SOON = 2.0  # seconds: changes of the records do not make the questions more frequent than that


def live(launches: Iterable[LaunchRecord], ids: Collection[str], jobs: Collection[JobView]) -> list[JobView]:
    """Return the live runs of these ids, or all of them.

    The launcher of each was seen on this machine, or its job is among `jobs` and goes on. A launch of a batch script is
    left out where the script's job is shown.
    """
    shown = {job.id for job in jobs}
    left = {job.id: job.left for job in jobs if job.state in RUNNING}
    return [
        JobView(
            id=launch.job,
            name=launch.title,
            state="RUNNING",
            why="",
            nodes=len(launch.nodes),
            nodelist=nodeset.fold(launch.nodes),
            gpus=sum(launch.gpus.values()),
            left=left.get(launch.number),
            code=None,
            submitted=launch.begun,
        )
        for launch in launches
        if (launch.near or launch.number in left) and (not ids or any(map(launch.has, ids)))
        if launch.script not in shown or launch.job in ids
    ]


def views(
    ids: Sequence[str],
    records: Mapping[str, JobRecord],
    queue: Callable[[], Queue],
    read: Callable[[Sequence[str]], Mapping[str, JobRecord]] = lambda ids: {},
    *,
    changed: float = 0.0,
    fresh: bool = False,
) -> tuple[list[JobView], list[str], float]:
    """Return the jobs of these ids, the ids that nobody knows, and the time of the scheduler's answer,
    or 0 if the records tell all.

    If `ids` is empty, the jobs are all of the last seven days, and `read` returns the records of those that have run
    for longer. An answer from before `changed` or a record does not count, nor does one that lacks a job of `ids`. Nor
    does one in which a job still waits that has begun since. `fresh` asks anew. Raises SchedulerError.
    """
    now = time.time()
    if ids and all(state.final(identity, records) is not None for identity in ids):
        return *state.gather(ids, (), (), records, now), 0.0
    scheduler = queue()
    newest = max([changed, *(record.told for record in records.values())])
    answer = scheduler.jobs(0 if fresh else max(now - newest, SOON))
    lost = _lost(ids, records, answer, now)
    if (lost or _has_begun_since(answer, records)) and answer.time < now:
        answer = scheduler.jobs(0)
        lost = _lost(ids, records, answer, now)
    longer = [job.id for job in answer.jobs if job.active and job.id not in records]
    if longer and not ids:
        records = {**records, **read(longer)}
    history = scheduler.history(lost) if lost or not ids else ()
    return *state.gather(ids, _jobs(answer, records), history, records, now), answer.time


def _has_begun_since(answer: Snapshot, records: Mapping[str, JobRecord]) -> bool:
    """Return whether a job that waits in the answer has recorded a later start, and no end."""
    waiting = {job.id for job in answer.jobs if job.state == "PENDING"}
    runs = (record.begun for name, record in records.items() if name in waiting and not record.over)
    return any(begun is not None and begun.time > answer.time for begun in runs)


def _lost(ids: Sequence[str], records: Mapping[str, JobRecord], answer: Snapshot, now: float) -> list[str]:
    """Return the ids whose end neither the answer nor a record tells."""
    return state.ends(ids, records, _jobs(answer, records), (), now)[1]


def _jobs(answer: Snapshot, records: Mapping[str, JobRecord]) -> list[Job]:
    """Return the jobs of an answer, without those that have recorded a later end."""
    return [job for job in answer.jobs if not (job.active and _ended_since(records.get(job.id), answer.time))]


def trace(identity: str) -> Trace | None:
    """Return what a scheduler still knows of a job, or None if that is nothing. The job may be another user's."""
    traces = (scheduler.trace(identity) for scheduler in BATCH.values() if is_id(identity))
    return next(filter(None, traces), None)


def unknown(ids: Sequence[str], bases: Iterable[Path]) -> SchedulerError:
    """Return the error for ids that are no jobs of this user's: another user's job, or nobody's."""
    for identity in ids:
        found = trace(identity)
        if found is not None and found.owner:
            return SchedulerError(f"job {identity} is {found.owner}'s", "mnrun status shows your jobs")
    names, places = ", ".join(ids), ", ".join(map(str, bases))
    remedy = "mnrun status shows your jobs; --job-dir names another place for records"
    return SchedulerError(f"no job {names} of yours: neither Slurm nor {places} knows it", remedy)


def _ended_since(record: JobRecord | None, time: float) -> bool:
    """Return whether the job itself has recorded its end after the scheduler's answer."""
    return record is not None and record.over and record.ended is not None and record.ended.time > time
