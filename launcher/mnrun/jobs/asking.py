"""Tell the state of jobs, and ask their scheduler only about those whose end the records lack."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mnrun import nodeset
from mnrun.errors import SchedulerError
from mnrun.jobs import archive, state
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import SAMPLES, Ended, JobRecord
from mnrun.jobs.state import JobView
from mnrun.schedulers import BATCH
from mnrun.schedulers.queue import Job, Queue, Snapshot
from mnrun.schedulers.vocabulary import RUNNING, JobState, Trace, is_id
from mnrun.watching import series

SOON = 2.0  # seconds: changes of the records do not make the questions more frequent than that


def live(launches: Iterable[LaunchRecord], ids: Collection[str], jobs: Collection[JobView]) -> list[JobView]:
    """Return the live runs of these ids, or all of them, whose launcher lives on this machine, or whose job is among
    `jobs` and goes on. A launch is left out where its job is shown: that of its batch script, or its own."""
    shown = {job.id for job in jobs}
    left = {job.id: job.left for job in jobs if job.state in RUNNING}
    return [
        JobView(
            id=launch.job,
            name=launch.title,
            state=JobState.RUNNING,
            why="",
            nodes=len(launch.nodes),
            nodelist=nodeset.fold(launch.nodes),
            gpus=sum(launch.gpus.values()),
            left=left.get(launch.number),
            code=None,
            submitted=launch.begun,
            began=launch.begun,
        )
        for launch in launches
        if (launch.near or launch.number in left) and (not ids or any(map(launch.has, ids)))
        if launch.job in ids or not {launch.script, launch.own_job} & shown
    ]


def folders(shown: Iterable[JobView], bases: Iterable[Path], runs: Iterable[LaunchRecord]) -> dict[str, Path]:
    """Return id -> the directory with the records of the launch, for each of these jobs that runs one. `runs` are the
    live runs."""
    ids = [view.id for view in shown if view.state == JobState.RUNNING]
    found = {name: Path(run.folder) for run in runs for name in (run.script, run.own_job, run.job)}
    records = archive.read(bases, ids) if ids else {}
    found.update({name: archive.last_start(record) for name, record in records.items() if record.restart >= 0})
    return {name: found[name] for name in ids if name in found}


def with_idle(shown: Iterable[JobView], places: Mapping[str, Path]) -> list[JobView]:
    """Return the jobs. The `why` of a watched one that runs names its idle GPUs, by the samples in `places`."""
    idle = {name: series.idle(archive.tail(folder, SAMPLES, series.TAIL)) for name, folder in places.items()}
    return [replace(view, why=view.why or idle.get(view.id, "")) for view in shown]


def with_ends(
    shown: Iterable[JobView], ends: Mapping[str, Ended], killed: Iterable[LaunchRecord] = ()
) -> list[JobView]:
    """Return the jobs. The `why` of one that failed, and has none, is that of the last live run in it."""
    ends = {**ends, **{run.number: run.killed for run in killed}}
    return [state.with_live_end(view, ends[view.id]) if view.id in ends else view for view in shown]


def views(
    ids: Sequence[str],
    records: Mapping[str, JobRecord],
    queue: Callable[[], Queue],
    read: Callable[[Sequence[str]], Mapping[str, JobRecord]] = lambda ids: {},
    *,
    changed: float = 0.0,
    killed: Iterable[LaunchRecord] = (),
    fresh: bool = False,
    accounting: bool = True,
    span: float = state.SHOWN,
) -> tuple[list[JobView], list[str], float]:
    """Return the jobs of these ids, the ids that nobody knows, and the time of the scheduler's answer,
    or 0 if the records tell all.

    If `ids` is empty, the jobs are all of the last seven days, or of so many seconds in `span`, and `read` returns the
    records of those that have run for longer. An answer from before `changed` or a record does not count, nor does one
    that lacks a job of `ids`. Nor does one in which a job still waits that has begun since, or goes on that one of the
    `killed` live runs had got for itself. One in which a job cleans up counts for `SOON`. `fresh` asks anew. Without
    `accounting`, jobs that have gone from the queue are those of the records alone. Raises SchedulerError.
    """
    now = time.time()
    if ids and all(state.final(identity, records) is not None for identity in ids):
        return *state.gather(ids, (), (), records, now), 0.0
    scheduler = queue()
    newest = max([changed, *(record.newest for record in records.values())])
    answer = scheduler.jobs(0 if fresh else max(now - newest, SOON))
    if answer.ending(ids):
        answer = scheduler.jobs(SOON)
    lost = state.ends(ids, records, _jobs(answer, records), (), now)[1]
    gone = {run.own_job for run in killed}
    over = any(job.active and job.id in gone for job in answer.jobs)
    if (lost or over or _has_begun_since(answer, records)) and answer.time < now:
        answer = scheduler.jobs(0)
        lost = state.ends(ids, records, _jobs(answer, records), (), now)[1]
    longer = [job.id for job in answer.jobs if job.active and job.id not in records]
    if longer and not ids:
        records = {**records, **read(longer)}
    history = scheduler.history(lost) if accounting and (lost or not ids) else ()
    return *state.gather(ids, _jobs(answer, records), history, records, now, span), answer.time


def _has_begun_since(answer: Snapshot, records: Mapping[str, JobRecord]) -> bool:
    """Return whether a job that waits in the answer has recorded a later start, and no end."""
    waiting = {job.id for job in answer.jobs if job.state == JobState.PENDING}
    runs = (record.begun for name, record in records.items() if name in waiting and not record.over)
    return any(begun is not None and begun.time > answer.time for begun in runs)


def _jobs(answer: Snapshot, records: Mapping[str, JobRecord]) -> list[Job]:
    """Return the jobs of an answer, without those that have recorded a later end themselves."""
    over = {name: record.ended.time for name, record in records.items() if record.over and record.ended is not None}
    return [job for job in answer.jobs if not job.active or over.get(job.id, 0) <= answer.time]


def over(ids: Sequence[str], bases: Iterable[Path], queue: Callable[[], Queue]) -> list[str]:
    """Return those of these jobs whose end their records or the scheduler's accounting still know. A scheduler soon
    forgets a job itself."""
    try:
        found, _, _ = views(ids, archive.read(bases, ids), queue)
    except SchedulerError:
        return []
    return [view.id for view in found if view.code is not None]


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
    problem = f"no job {', '.join(ids)} of yours: neither the scheduler nor {archive.named(bases)} knows it"
    return SchedulerError(problem, "mnrun status shows your jobs; --job-dir names another place for records")
