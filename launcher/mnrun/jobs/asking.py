"""Tell the state of jobs, and ask their scheduler only about those whose end the records lack."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from mnrun import nodeset
from mnrun.jobs import state
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import JobRecord
from mnrun.jobs.state import JobView
from mnrun.schedulers.model import RUNNING
from mnrun.schedulers.queue import Queue


def live(launches: Iterable[LaunchRecord], ids: Collection[str], jobs: Collection[JobView]) -> list[JobView]:
    """Return the live runs of these ids, or all of them.

    The launcher of each was seen on this machine, or its job is among `jobs` and goes on.
    """
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
    ]


def views(
    ids: Sequence[str], records: Mapping[str, JobRecord], queue: Callable[[], Queue]
) -> tuple[list[JobView], list[str], float]:
    """Return the jobs of these ids, the ids that nobody knows, and the age of the scheduler's answer in seconds.

    If `ids` is empty, the jobs are all of the last seven days. Raises SchedulerError.
    """
    now = time.time()
    if ids and all(state.final(identity, records) is not None for identity in ids):
        return *state.gather(ids, (), (), records, now), 0.0
    scheduler = queue()
    answer = scheduler.jobs()
    jobs = [job for job in answer.jobs if not (job.active and _ended_since(records.get(job.id), answer.time))]
    _, lost = state.ends(ids, records, jobs, (), now)
    history = scheduler.history(lost) if lost or not ids else ()
    return *state.gather(ids, jobs, history, records, now), now - answer.time


def _ended_since(record: JobRecord | None, time: float) -> bool:
    """Return whether the job itself has recorded its end after the scheduler's answer."""
    return record is not None and record.over and record.ended is not None and record.ended.time > time
