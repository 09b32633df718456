"""Tell the state of a job, by its scheduler's answers and the records in the job's directory.

The job's own record counts for its exit code. The scheduler counts for an end from outside, which a job cannot know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from mnrun.errors import SchedulerError
from mnrun.jobs.records import Ended, JobRecord, is_id
from mnrun.nodeset import counted
from mnrun.schedulers.model import RUNNING
from mnrun.schedulers.queue import Job, PartitionNode, size

DAY = 86400.0
SHOWN = 7 * DAY  # seconds for which jobs are shown after their last word
SIGNALLED = 128  # codes from here on are a signal's, and the scheduler alone knows its sender

# The states of ended jobs, as our exit codes.
_CODES = {
    "TIMEOUT": 124,
    "DEADLINE": 124,
    "CANCELLED": 143,
    "PREEMPTED": 143,
    "REVOKED": 143,
    "NODE_FAIL": 121,
    "BOOT_FAIL": 121,
    "OUT_OF_MEMORY": 137,
}
_WORDS = {
    "COMPLETED": "done",
    "TIMEOUT": "timed out",
    "DEADLINE": "timed out",
    "NODE_FAIL": "node failed",
    "BOOT_FAIL": "node failed",
    "OUT_OF_MEMORY": "out of memory",
    "COMPLETING": "ending",
    "CONFIGURING": "starting",
}
# Words in the job's own last word -> its state. It comes sooner than the scheduler's, and stays for longer.
_ENDED_BY_ITS_WORD = {"reached its time limit": "TIMEOUT", "was cancelled": "CANCELLED"}


@dataclass(frozen=True)
class JobView:
    """A job for a person."""

    id: Annotated[str, "`271`, `271_4` for a task of an array, or `271-uyqcci` for a live run"]
    name: Annotated[str, "the job's name"]
    state: Annotated[str, "Slurm's state: `RUNNING`, `COMPLETED` …"]
    why: Annotated[str, "the reason that it waits, or that it ended; empty if there is none"]
    nodes: Annotated[int, "how many nodes; 0 if unknown"]
    nodelist: Annotated[str, "their names: `node[01-04]`"]
    gpus: Annotated[int, "how many GPUs; 0 if unknown"]
    left: Annotated[int | None, "seconds to the time limit"]
    code: Annotated[int | None, "the exit code, once it has ended"]
    submitted: Annotated[float, "seconds since 1970"]

    @property
    def words(self) -> str:
        """Return the state in a person's words."""
        return words(self.state)

    @property
    def line(self) -> str:
        """Return the state with its reason, and the exit code once the job has ended."""
        code = "" if self.code is None else f", with code {self.code}"
        return f"job {self.id}: {self.words}{code}{f': {self.why}' if self.why else ''}"


def words(state: str) -> str:
    """Return a state in a person's words."""
    return _WORDS.get(state, state.lower().replace("_", " "))


@dataclass(frozen=True)
class Jobs:
    """The jobs that were asked for, or those of the last 7 days."""

    jobs: Annotated[tuple[JobView, ...], "one for each job"]
    asked: Annotated[float, "when Slurm was asked, in seconds since 1970; 0 if nobody was asked"] = 0.0


def final(identity: str, records: Mapping[str, JobRecord]) -> int | None:
    """Return the exit code if the own records of the job, or of all tasks of the array, have the last word.

    Otherwise return None: the scheduler must be asked.
    """
    record = records.get(identity)
    size = record.submitted.tasks if record and record.submitted and "_" not in identity else 0
    own = [task for name, task in records.items() if name != identity and task.array == identity] if size else [record]
    codes = [task.ended.code for task in own if task is not None and task.ended is not None and task.over]
    return max(codes) if len(codes) == max(size, 1) and max(codes) < SIGNALLED else None


def killed(record: JobRecord) -> bool:
    """Return whether a signal has ended the job, so that the scheduler alone knows the cause."""
    return record.over and record.ended is not None and record.ended.code >= SIGNALLED


def code(job: Job | None, record: JobRecord | None) -> int | None:
    """Return the exit code of a job that has ended, or None before that, or if nobody knows it."""
    ended = record.ended if record is not None and record.over else None
    if job is not None and ended is not None and record is not None and job.active and _newer(job, record):
        ended = None  # that record is of the start before
    if ended is not None and ended.code < SIGNALLED:
        return ended.code
    if job is not None and not job.active and job.state != "UNKNOWN":
        return _by_scheduler(job, ended)
    return None if ended is None or job is not None else ended.code


def _newer(job: Job, record: JobRecord) -> bool:
    """Return whether the scheduler knows of a later start than the one that left the records."""
    return job.state == "PENDING" or job.restarts > record.restart


def _by_scheduler(job: Job, ended: Ended | None) -> int:
    if job.state in _CODES:
        return _CODES[job.state]
    if ended is not None:
        return ended.code
    if _refused(job):
        return SchedulerError.code
    if job.signal:
        return SIGNALLED + job.signal
    return job.code or int(job.state != "COMPLETED")  # a job that could not start has exit code 0


def view(identity: str, job: Job | None, record: JobRecord | None, now: float) -> JobView:
    """Return a job for a person. Its state is UNKNOWN if neither scheduler nor record has its end."""
    result = code(job, record)
    state, why = _state(job, record, result)
    request = record.submitted if record is not None else None
    begun = record.begun if record is not None else None
    nodelist = job.nodelist if job is not None else ""
    ending = job is not None and job.state == "COMPLETING"  # Slurm names only the nodes that still clean up
    if begun is not None and (ending or not nodelist):
        nodelist = begun.nodes
    running = job is not None and job.state in RUNNING
    time_left = int(job.end - now) if job is not None and running and result is None and job.end else None
    return JobView(
        id=identity,
        name=job.name if job is not None else request.name if request is not None else "",
        state=state,
        why=why or (job.reason if job is not None and job.state == "PENDING" else ""),
        nodes=0
        if job is not None and _refused(job)
        else job.nodes
        if job is not None
        else request.nodes
        if request is not None
        else 0,
        nodelist=nodelist,
        gpus=job.gpus if job is not None else request.gpus if request is not None else 0,
        left=max(time_left, 0) if time_left is not None else None,
        code=result,
        submitted=job.submitted if job is not None else request.time if request is not None else 0,
    )


def _refused(job: Job) -> bool:
    """Return whether the scheduler refused the request. Slurm keeps it as a failed job that had no node."""
    return job.state == "FAILED" and not job.nodelist and not job.code


def _state(job: Job | None, record: JobRecord | None, result: int | None) -> tuple[str, str]:
    why = record.ended.why if record is not None and record.over and record.ended is not None else ""
    if job is not None and result is None:
        return job.state, ""
    if job is not None and _refused(job):
        return job.state, why or "Slurm refused it"
    if job is not None and not job.active:
        return job.state, why or (f"signal {job.signal}" if job.signal and job.state == "FAILED" else "")
    if result is not None:
        otherwise = (state for words, state in _ENDED_BY_ITS_WORD.items() if words in why)
        return "COMPLETED" if result == 0 else next(otherwise, "FAILED"), why
    begun = "it started and left no record of its end" if record is not None and record.begun else "it left no record"
    return "UNKNOWN", f"Slurm no longer knows it, and {begun}"


def ends(
    ids: Sequence[str], records: Mapping[str, JobRecord], jobs: Iterable[Job], history: Iterable[Job], now: float
) -> tuple[dict[str, int], list[str]]:
    """Return id -> exit code of the jobs that have ended, and the ids whose end nobody can tell.

    The code of an array is the largest of its tasks. Jobs in neither part go on.
    """
    codes_by_id: dict[str, int] = {}
    lost = []
    current, past = list(jobs), list(history)
    for identity in ids:
        views, _ = gather([identity], current, past, records, now)
        codes = [view.code for view in views if view.code is not None]
        if not views or any(view.code is None and view.state == "UNKNOWN" for view in views):
            lost.append(identity)
        elif len(codes) == len(views):
            codes_by_id[identity] = max(codes)
    return codes_by_id, lost


def gather(
    ids: Sequence[str], jobs: Iterable[Job], history: Iterable[Job], records: Mapping[str, JobRecord], now: float
) -> tuple[list[JobView], list[str]]:
    """Return the jobs of these ids, and the ids that nobody knows.

    If `ids` is empty, the jobs are all of the last seven days.
    """
    by_id = {job.id: job for job in history if not job.active}  # slurmctld knows better about active jobs
    waiting = (job.without(_begun_tasks(job, records)) for job in jobs)
    by_id.update({job.id: job for job in waiting if job is not None})
    alone = {name: record for name, record in records.items() if not _shown_by_its_tasks(record, by_id, records)}
    names = sorted({*by_id, *alone}, key=_order)
    if not ids:
        views = [view(name, by_id.get(name), records.get(name), now) for name in names]
        since = now - SHOWN
        return [v for v in views if _active(by_id.get(v.id)) or _last(by_id.get(v.id), records.get(v.id)) > since], []
    chosen, unknown = [], []
    for identity in ids:
        matches = [name for name in names if _means(identity, name, by_id.get(name))]
        if len(matches) > 1 and identity in matches and "_" in identity:
            matches = [identity]
        chosen += [name for name in matches if name not in chosen]
        unknown += [] if matches else [identity]
    return [view(name, by_id.get(name), records.get(name), now) for name in chosen], unknown


def _begun_tasks(job: Job, records: Mapping[str, JobRecord]) -> set[int]:
    """Return the tasks of the job's array that have begun by their own records, and so wait no more."""
    begun = (
        record
        for record in (records.values() if "[" in job.id else ())
        if record.array == job.array and record.begun is not None and record.begun.time >= job.submitted
    )
    return {int(record.id.partition("_")[2]) for record in begun if "_" in record.id}


def _means(identity: str, name: str, job: Job | None) -> bool:
    return job.covers(identity) if job is not None else identity in (name, name.partition("_")[0])


def _active(job: Job | None) -> bool:
    return job is not None and job.active


def _last(job: Job | None, record: JobRecord | None) -> float:
    return max(job.end or job.submitted if job is not None else 0.0, record.time if record is not None else 0.0)


def _shown_by_its_tasks(record: JobRecord, jobs: Mapping[str, Job], records: Mapping[str, JobRecord]) -> bool:
    """Return whether the record is a request alone, and tells no more than the jobs that it asked for."""
    if record.restart >= 0:
        return False
    if "_" in record.id:
        return any(job.covers(record.id) for job in jobs.values())
    return any(name != record.id and name.partition("_")[0] == record.id for name in (*jobs, *records))


def _order(identity: str) -> tuple[int, int, str]:
    array, _, task = identity.partition("_")
    return int(array) if array.isdecimal() else 0, int(task) if task.isdecimal() else 1 << 40, identity


def removable(records: Mapping[str, JobRecord], jobs: Iterable[Job], before: float) -> list[JobRecord]:
    """Return the directories of ended jobs without a record younger than `before`. `jobs` are all that the scheduler
    knows now."""
    alive = [job for job in jobs if job.active]
    old = [record for record in records.values() if is_id(record.id) and record.time < before]
    busy = {record.id for record in old if any(job.covers(record.id) or job.array == record.id for job in alive)}
    return [record for record in old if record.id not in busy]


@dataclass(frozen=True)
class NodeKind:
    """Nodes of a partition that are alike."""

    nodes: Annotated[int, "the number of these nodes"]
    cpus: Annotated[int, "CPUs of each"]
    memory: Annotated[int, "memory of each, in MB"]
    gpus: Annotated[int, "GPUs of each"]
    gpu_types: Annotated[tuple[str, ...], "types of the GPUs, as Slurm names them"]
    features: Annotated[tuple[str, ...], "words for --constraint"]

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the number of nodes, CPUS, MEM, GPUS and FEATURES."""
        gpus = " ".join(filter(None, (str(self.gpus or ""), ", ".join(self.gpu_types))))
        return (
            str(self.nodes),
            str(self.cpus),
            size(self.memory) if self.memory else "",
            gpus,
            ",".join(self.features),
        )


@dataclass(frozen=True)
class Partition:
    """The free resources of a partition now."""

    name: Annotated[str, "the partition's name"]
    default: Annotated[bool, "whether it is the partition of jobs that name none"]
    up: Annotated[bool, "whether it takes jobs"]
    limit: Annotated[str, "the time limit, as Slurm writes it"]
    nodes: Annotated[int, "all nodes"]
    free: Annotated[int, "idle nodes"]
    partly: Annotated[int, "nodes with jobs that leave CPUs free"]
    planned: Annotated[int, "nodes that Slurm keeps for a job that waits; they are not free"]
    gpus: Annotated[int, "GPUs of all nodes"]
    gpus_free: Annotated[int, "free GPUs, on nodes that take jobs"]
    cpus: Annotated[int, "CPUs of all nodes"]
    cpus_free: Annotated[int, "free CPUs, on nodes that take jobs"]
    out: Annotated[tuple[str, ...], "nodes that take no jobs, with the reason"]
    kinds: Annotated[tuple[NodeKind, ...], "the kinds of its nodes"]

    @property
    def words(self) -> str:
        """Return the free resources in a sentence."""
        if not self.up:
            return "closed: takes no jobs now"
        parts = [f"{self.free} of {counted(self.nodes, 'node')} free"]
        parts += [f"{self.partly} partly"] if self.partly else []
        parts += [f"{self.planned} kept for a job that waits"] if self.planned else []
        parts += [f"{self.gpus_free} of {counted(self.gpus, 'GPU')} free"] if self.gpus else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Partitions:
    """The partitions of the cluster, and their free resources."""

    partitions: Annotated[tuple[Partition, ...], "one for each partition"]


_TAKES = ("idle", "mixed", "allocated", "completing", "planned")


def partitions(nodes: Iterable[PartitionNode], only: str = "") -> list[Partition]:
    """Return the free resources of each partition, or of `only` that one."""
    groups: dict[str, list[PartitionNode]] = {}
    for node in nodes:
        if only in ("", node.partition):
            groups.setdefault(node.partition, []).append(node)
    return [_partition(name, group) for name, group in groups.items()]


def _kinds(group: Sequence[PartitionNode]) -> tuple[NodeKind, ...]:
    def words(text: str) -> tuple[str, ...]:
        return tuple(filter(None, text.split(",")))

    alike = Counter((p.cpus, p.memory, p.gpus, p.gpu_types, p.features) for p in group)
    return tuple(
        NodeKind(number, cpus, memory, gpus, words(types), words(features))
        for (cpus, memory, gpus, types, features), number in alike.items()
    )


def _partition(name: str, group: Sequence[PartitionNode]) -> Partition:
    taking: list[PartitionNode] = []
    out: dict[str, list[str]] = {}
    for node in group:
        if node.state in _TAKES and node.mark not in ("*", "$", "@", "!"):
            taking.append(node)
        else:
            reason = "does not answer" if node.mark == "*" else node.state
            out.setdefault(f"{reason}: {node.reason}" if node.reason else reason, []).append(node.node)
    return Partition(
        name=name,
        default=group[0].default,
        up=group[0].up,
        limit=group[0].limit,
        nodes=len(group),
        free=sum(p.state == "idle" and p.mark != "-" for p in taking),
        partly=sum(p.state == "mixed" for p in taking),
        planned=sum(p.state == "planned" or (p.state == "idle" and p.mark == "-") for p in taking),
        gpus=sum(p.gpus for p in group),
        gpus_free=sum(p.gpus - p.gpus_used for p in taking if p.cpus_idle),
        cpus=sum(p.cpus for p in group),
        cpus_free=sum(p.cpus_idle for p in taking),
        out=tuple(f"{', '.join(names)} {reason}" for reason, names in out.items()),
        kinds=_kinds(group),
    )
