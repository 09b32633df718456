"""Define what a scheduler tells about its queue: each job, each node of a partition.

Times are seconds since the epoch, or 0 where there is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mnrun.nodeset import counted
from mnrun.schedulers.model import ACTIVE

NEW = "was submitted just now"  # of a job at which its scheduler has not looked


@dataclass(frozen=True)
class Job:
    """A job, or a task of an array, as its scheduler knows it.

    `id` is 123, 123_4, or 123_[5-9%2] for tasks that wait together. `reason` says in a person's words
    why it waits. `gpus` is the total. `end` of a running job is its time limit. `code` and `signal` say how its script
    ended.
    """

    id: str
    name: str
    state: str
    reason: str = ""
    partition: str = ""
    nodes: int = 0
    nodelist: str = ""
    gpus: int = 0
    restarts: int = 0
    submitted: float = 0
    start: float = 0
    end: float = 0
    code: int = 0
    signal: int = 0
    depends: str = ""

    @property
    def active(self) -> bool:
        """Return whether the job waits, runs or is ending."""
        return self.state in ACTIVE

    @property
    def array(self) -> str:
        """Return the id of the job's array, or of the job itself."""
        return self.id.partition("_")[0]

    def covers(self, identity: str) -> bool:
        """Return whether an id means this job: its own, its array's, or the id of a task that waits in it."""
        if identity in (self.id, self.array):
            return True
        array, _, task = identity.partition("_")
        waiting = self.id.partition("_")[2]
        return array == self.array and waiting.startswith("[") and task.isdecimal() and _within(int(task), waiting)

    def without(self, tasks: Collection[int]) -> Job | None:
        """Return these tasks of an array, which wait together, without some of them. The result is None if none is
        left. A shortened list stays as it is."""
        array, _, waiting = self.id.partition("_")
        parts = _ranges(waiting)
        if self.state != "PENDING" or not waiting.startswith("[") or len(parts) != waiting.count(",") + 1:
            return self
        whole = sorted(set().union(*parts))
        left = [task for task in whole if task not in tasks]
        if left == whole:
            return self
        limit = waiting[:-1].partition("%")[2]
        return replace(self, id=f"{array}_[{_folded(left)}{f'%{limit}' if limit else ''}]") if left else None


def _folded(numbers: Sequence[int]) -> str:
    """Return sorted numbers as `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _within(task: int, text: str) -> bool:
    """Return whether task 4 is in `[0-3,7-9:2%5]`. A list that Slurm shortened (`[0,2,...]`), or that its column has
    cut (`[0,2,4`), may hold any task."""
    return any(task in part for part in _ranges(text)) or "..." in text or not text.endswith("]")


def array_size(text: str) -> int:
    """Return the number of tasks in the request of an array: 6 for `0-3,7-9:2%5`, and 0 for a job without one."""
    return len(set().union(*_ranges(text)))


def _ranges(text: str) -> list[range]:
    """Return the ranges of `0-3,7-9:2`, or of `[0-3,7-9:2%5]`, that are whole."""
    items = re.sub(r"[\[\] ]|%.*", "", text).split(",")
    parts = [re.fullmatch(r"(\d+)(?:-(\d+))?(?::([1-9]\d*))?", item, re.ASCII) for item in items]
    return [range(int(part[1]), int(part[2] or part[1]) + 1, int(part[3] or 1)) for part in parts if part]


@dataclass(frozen=True)
class PartitionNode:
    """A node in a partition. `state` is a word of sinfo(1), NODE STATE CODES, without its mark. `mark` has it: `*` for
    a node that does not answer. `memory` is in MB. `gpu_types` and `features` are words with commas between them."""

    partition: str
    default: bool
    node: str
    state: str
    mark: str
    gpus: int
    gpus_used: int
    cpus: int
    cpus_idle: int
    up: bool
    limit: str
    reason: str
    memory: int = 0
    gpu_types: str = ""
    features: str = ""


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


class Queue(Protocol):
    """A scheduler's queue, as this user may read it. `poll` is the least time between two questions, in seconds."""

    poll: float

    def jobs(self, age: float = math.inf) -> Snapshot:
        """Return all jobs of this user in the queue, recently ended ones too. The answer is at most `age` seconds old.

        Raises SchedulerError.
        """

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
