"""Define what a scheduler tells about its queue: each job, each node of a partition.

Times are seconds since the epoch, or 0 where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mnrun.nodeset import counted
from mnrun.schedulers.vocabulary import ACTIVE, JobId, JobState, NodeState

NEW = "was submitted just now"  # of a job at which its scheduler has not looked


@dataclass(frozen=True)
class Job:
    """A job, or a task of an array, as its scheduler knows it."""

    id: str  # a JobId as text
    name: str
    state: JobState
    reason: str = ""  # in a person's words, why it waits
    partition: str = ""
    nodes: int = 0
    nodelist: str = ""
    gpus: int = 0  # in all
    restarts: int = 0
    submitted: float = 0
    start: float = 0
    end: float = 0  # of a running job, by its time limit
    code: int = 0  # of its script
    signal: int = 0  # that ended its script
    depends: str = ""
    why: str = ""  # in a person's words, why its script could not start

    @property
    def active(self) -> bool:
        """Return whether the job waits, runs or is ending."""
        return self.state in ACTIVE

    @property
    def array(self) -> str:
        """Return the id of the job's array, or of the job itself."""
        return JobId.of(self.id).number

    def covers(self, identity: str) -> bool:
        """Return whether an id means this job: its own, its array's, or the id of a task that waits in it."""
        return JobId.of(self.id).covers(JobId.of(identity))

    def without(self, tasks: Collection[int]) -> Job | None:
        """Return these tasks of an array, which wait together, without some of them, or None if none is left."""
        left = JobId.of(self.id).without(tasks) if self.state == JobState.PENDING else JobId.of(self.id)
        return replace(self, id=str(left)) if left else None


@dataclass(frozen=True)
class PartitionNode:
    """A node in a partition."""

    partition: str
    default: bool
    node: str
    state: NodeState
    gpus: int
    gpus_used: int
    cpus: int
    cpus_idle: int
    up: bool
    limit: str  # the partition's
    why: str = ""  # in a person's words, why the node takes no jobs
    memory: int = 0  # in MB
    gpu_types: str = ""  # with commas between them
    features: str = ""  # the same


def size(megabytes: int) -> str:
    """Return a node's memory in whole GB, which a job can ask for: `15G`."""
    return f"{megabytes // 1024}G" if megabytes >= 1024 else f"{megabytes}M"


def gpus_of(number: int, types: Sequence[str]) -> str:
    """Return `4 GPUs (a100)`, or `no GPU`."""
    return (counted(number, "GPU") if number else "no GPU") + (f" ({', '.join(types)})" if number and types else "")


@dataclass(frozen=True)
class Snapshot:
    """Jobs, as the scheduler knew them at `time`."""

    jobs: tuple[Job, ...]
    time: float

    def ending(self, ids: Collection[str] = ()) -> set[str]:
        """Return those of its jobs that clean up, which soon ends: of these ids, or of all."""
        cleaning = (job for job in self.jobs if job.state == JobState.COMPLETING)
        return {job.id for job in cleaning if not ids or any(map(job.covers, ids))}


class Queue(Protocol):
    """A scheduler's queue, as this user may read it. `poll` is the least time between two questions, in seconds."""

    poll: float

    def jobs(self, age: float = math.inf) -> Snapshot:
        """Return all jobs of this user in the queue, recently ended ones too. The answer is at most `age` seconds old.
        Raises SchedulerError."""

    def history(self, ids: Sequence[str] = ()) -> tuple[Job, ...]:
        """Return these jobs from the accounting, or () without one. If `ids` is empty, the jobs are all of the last
        days."""

    def nodes(self) -> tuple[PartitionNode, ...]:
        """Return every node, once for each of its partitions. Raises SchedulerError."""

    def names(self, option: str) -> Sequence[str]:
        """Return the values of an option that this user has: account, qos or reservation. Raises SchedulerError."""

    def cancel(self, ids: Sequence[str], signal: str = "", scripts: Collection[str] = ()) -> list[str]:
        """End jobs, or send them a signal. Return the jobs that had ended already.

        `scripts` are jobs whose script passes a signal on to every rank: of these, the script alone gets it. Raises
        SchedulerError if the scheduler refuses.
        """

    def forget(self) -> None:
        """Drop the last answers: this process has just changed something."""
