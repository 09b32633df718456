"""Tell the state of a job, by its scheduler's answers and the records in the job's directory.

The job's own record counts for its exit code. The scheduler counts for an end from outside, which a job cannot know.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from mnrun.errors import JobEnded, SchedulerError, TimeLimit, UsageError
from mnrun.jobs.records import KILLED, Begun, Ended, JobRecord, Submitted
from mnrun.nodeset import counted
from mnrun.schedulers.queue import Job, PartitionNode, size
from mnrun.schedulers.vocabulary import ACTIVE, RUNNING, JobId, JobState, NodeState, is_id, span

DAY = 86400.0
SHOWN = 7 * DAY  # seconds for which jobs are shown after their last word
SIGNALLED = 128  # codes from here on are a signal's, and the scheduler alone knows its sender

# The states of ended jobs, as our exit codes.
_CODES = {
    JobState.TIMEOUT: 124,
    JobState.CANCELLED: 143,
    JobState.PREEMPTED: 143,
    JobState.NODE_FAIL: 121,
    JobState.OUT_OF_MEMORY: 137,
}
_WORDS = {
    JobState.COMPLETED: "done",
    JobState.TIMEOUT: "timed out",
    JobState.NODE_FAIL: "node failed",
    JobState.COMPLETING: "ending",
    JobState.CONFIGURING: "starting",
}
_GROUPS = (("active", True), ("ended", False))
# The reason in the job's own record -> its state. It comes sooner than the scheduler's, and stays for longer.
_BY_REASON = {TimeLimit.reason: JobState.TIMEOUT, JobEnded.reason: JobState.CANCELLED}


@dataclass(frozen=True)
class JobView:
    """A job for a person."""

    id: Annotated[str, "`271`, `271_4` for a task of an array, or `271-uyqcci` for a live run"]
    name: Annotated[str, "the job's name"]
    state: Annotated[JobState, "the job's state: `RUNNING`, `COMPLETED` …"]
    why: Annotated[str, "the reason that it waits or ended, or which GPUs of it idle; empty if there is none"]
    nodes: Annotated[int, "how many nodes; 0 if unknown"]
    nodelist: Annotated[str, "their names: `node[01-04]`"]
    gpus: Annotated[int, "how many GPUs; 0 if unknown"]
    left: Annotated[int | None, "seconds to the time limit"]
    code: Annotated[int | None, "the exit code, once it has ended"]
    submitted: Annotated[float, "seconds since 1970"]
    reason: Annotated[str, "of an end, `why` in one word that never changes; empty if there is none"] = ""
    began: Annotated[float, "when it began, in seconds since 1970; 0 if it waits, or if that is unknown"] = 0.0
    ended: Annotated[float, "when it ended; 0 if it goes on, or if that is unknown"] = 0.0
    expected: Annotated[float, "when the scheduler expects to start it; 0 if it does not tell"] = 0.0
    service: Annotated[str, "of a service, its state and place: `serves node01:20417`; empty for other jobs"] = ""

    @property
    def words(self) -> str:
        return words(self.state)

    @property
    def active(self) -> bool:
        return self.code is None and self.state in ACTIVE

    def took(self, now: float) -> float | None:
        """Return the seconds for which it has run, or None if that is unknown."""
        until = now if self.active else self.ended
        return max(until - self.began, 0.0) if self.began and until else None


def words(state: JobState) -> str:
    """Return a state in a person's words."""
    return _WORDS.get(state, state.value.lower().replace("_", " "))


def states(text: str) -> set[str]:
    """Return the words of states in `failed,running`, which a person's words and the schedulers' own may name. `active`
    is all that wait or run, and `ended` the others. Raises UsageError."""
    known = {alias: words(state) for state in JobState for alias in (words(state), state.value.lower())}
    groups = {name: {words(state) for state in JobState if (state in ACTIVE) == active} for name, active in _GROUPS}
    chosen: set[str] = set()
    for word in filter(None, re.split(r"\s*,\s*", text.strip().lower())):
        if word not in known and word not in groups:
            all_words = ", ".join(sorted({*known.values(), *groups}))
            raise UsageError(f"--state {word!r} is not the state of a job", f"write one of: {all_words}")
        chosen |= groups.get(word) or {known[word]}
    return chosen


def moment(time_then: float, now: float) -> str:
    """Return a time as people write it, by the clock of this machine: `14:03`, `Fri 14:03`, or `2026-11-20 14:03`."""
    then, today = time.localtime(time_then), time.localtime(now)
    days = abs(time_then - now) / DAY
    form = "%H:%M" if then[:3] == today[:3] else "%a %H:%M" if days < 6 else "%Y-%m-%d %H:%M"
    return time.strftime(form, then)


def line(job: str, state: JobState, code: int | None, why: str, took: float | None = None) -> str:
    """Return the state of a job with its reason, and once it has ended, the exit code and the seconds that it took."""
    end = "" if code is None else f", with code {code}"
    after = f", after {span(int(took))}" if end and took is not None else ""
    return f"job {job}: {words(state)}{end}{after}{f': {why}' if why else ''}"


@dataclass(frozen=True)
class Jobs:
    """The jobs that were asked for, or those of the last 7 days."""

    jobs: Annotated[tuple[JobView, ...], "one for each job"]
    asked: Annotated[float, "when the scheduler was asked, in seconds since 1970; 0 if nobody was asked"] = 0.0


def final(identity: str, records: Mapping[str, JobRecord]) -> int | None:
    """Return the exit code if the own records of the job, or of all tasks of the array, have the last word, else
    None."""
    record = records.get(identity)
    size = record.submitted.tasks if record and record.submitted and not JobId.of(identity).task else 0
    own = [task for name, task in records.items() if name != identity and task.array == identity] if size else [record]
    codes = [task.ended.code for task in own if task is not None and task.ended is not None and task.over]
    return max(codes) if len(codes) == max(size, 1) and max(codes) < SIGNALLED else None


def killed(record: JobRecord) -> bool:
    """Return whether a signal has ended the job, so that the scheduler alone knows the cause."""
    return record.over and record.ended is not None and record.ended.code >= SIGNALLED


def code(job: Job | None, record: JobRecord | None) -> int | None:
    """Return the exit code of a job that has ended, or None before that, or if nobody knows it."""
    ended = _own_end(job, record)
    if ended is not None and ended.code < SIGNALLED:
        return ended.code
    if job is not None and not job.active and job.state != JobState.UNKNOWN:
        return _by_scheduler(job, ended)
    return None if ended is None or (job is not None and job.active) else ended.code


def _own_end(job: Job | None, record: JobRecord | None) -> Ended | None:
    """Return the end that the job itself has recorded. The end of an earlier start does not count."""
    if record is None or not record.over:
        return None
    later = job is not None and (job.state == JobState.PENDING or job.restarts > record.restart)
    return None if later else record.ended


def _by_scheduler(job: Job, ended: Ended | None) -> int:
    if job.state in _CODES:
        return _CODES[job.state]
    if ended is not None:
        return ended.code
    if _refused(job) or job.why:
        return SchedulerError.code
    if job.signal:
        return SIGNALLED + job.signal
    return job.code or int(job.state != JobState.COMPLETED)  # a job that could not start has exit code 0


def view(identity: str, job: Job | None, record: JobRecord | None, now: float) -> JobView:
    """Return a job for a person. Its state is UNKNOWN if neither scheduler nor record has its end."""
    result = code(job, record)
    state, why = _state(job, record, result)
    request = (record.submitted if record is not None else None) or Submitted(identity)
    begun = record.begun if record is not None else None
    nodelist = job.nodelist if job is not None else ""
    # Slurm names only the nodes that still clean up, and Grid Engine only the first node.
    part = job is not None and (job.state == JobState.COMPLETING or not job.nodes)
    if begun is not None and (part or not nodelist):
        nodelist = begun.nodes
    running = job is not None and job.state in RUNNING and result is None
    waits = job is not None and job.state == JobState.PENDING
    began = _began(job, begun)
    told = job or request
    return JobView(
        id=identity,
        name=told.name,
        state=state,
        why=why or (job.reason if job is not None and waits else ""),
        nodes=0 if job is not None and _refused(job) else told.nodes or request.nodes,
        nodelist=nodelist,
        gpus=told.gpus or request.gpus,
        left=max(int(job.end - now), 0) if job is not None and running and job.end else None,
        code=result,
        submitted=(job.submitted if job is not None else 0) or request.time,
        reason=ended.reason if result is not None and (ended := _own_end(job, record)) else "",
        began=began,
        ended=_ended(job, record) if result is not None else 0.0,
        expected=job.start if job is not None and waits and job.start > now else 0.0,
    )


def _began(job: Job | None, begun: Begun | None) -> float:
    """Return when the last start began. A job that waits may have the record of an earlier one. Slurm has a start for a
    job that was cancelled before its own."""
    if job is not None and job.state == JobState.PENDING:
        return 0.0
    return begun.time if begun is not None else job.start if job is not None and job.nodelist else 0.0


def _ended(job: Job | None, record: JobRecord | None) -> float:
    """Return when a job ended: by the scheduler, of a job that it ended, and else by the job's own record."""
    own = _own_end(job, record)
    return own.time if own is not None else job.end if job is not None and not job.active else 0.0


def _refused(job: Job) -> bool:
    """Return whether the scheduler refused the request. Slurm keeps it as a failed job that had no node."""
    return job.state == JobState.FAILED and not job.nodelist and not job.code


def _state(job: Job | None, record: JobRecord | None, result: int | None) -> tuple[JobState, str]:
    """Return the state of a job and the reason for it. Of an end, the scheduler may know the kind better."""
    if job is not None and result is None:
        return job.state, ""
    ended = _own_end(job, record)
    kind = job.state if job is not None and not job.active else JobState.UNKNOWN
    if ended is not None and (ended.code == 0 or kind in (JobState.COMPLETED, JobState.UNKNOWN)):
        return _BY_REASON.get(ended.reason, JobState.FAILED) if ended.code else JobState.COMPLETED, ended.why
    if job is None:
        if record is not None and record.launched is not None:
            return kind, f"the scheduler no longer knows it; {_last_launch(record.launched)}"
        begun = "started and left no record of its end" if record is not None and record.begun else "left no record"
        return kind, f"the scheduler no longer knows it, and it {begun}"
    if ended is None and _refused(job):
        return kind, f"the scheduler refused it{f': {job.reason}' if job.reason else ''}"
    signal = f"signal {job.signal}" if job.signal and kind == JobState.FAILED else ""
    if job.why:
        signal = job.why
    elif signal and record is not None and record.begun is not None and record.ended is None:
        signal = f"{KILLED} by {signal}"
    launched = record.launched if record is not None else None
    if launched is not None and launched.code:
        return kind, launched.why if launched.why and launched.code == result else _last_launch(launched)
    return kind, ended.why if ended is not None and ended.why else signal


def with_live_end(job: JobView, end: Ended) -> JobView:
    """Return a job with the reason of a live run in it, if it has failed without a reason. A cluster that was set up
    anew gives the numbers of jobs again. Where a signal has ended salloc, Slurm's accounting has its number as code."""
    if not job.code or job.why or end.time < job.submitted:
        return job
    if end.code == SIGNALLED + job.code:
        job = replace(job, code=end.code)
    if end.code != job.code:
        return replace(job, why=_last_launch(end))
    return replace(job, why=end.why, reason=end.reason)


def _last_launch(launched: Ended) -> str:
    return f"its last launch ended with {launched.code}{f': {launched.why}' if launched.why else ''}"


def ends(
    ids: Sequence[str], records: Mapping[str, JobRecord], jobs: Iterable[Job], history: Iterable[Job], now: float
) -> tuple[dict[str, int], list[str]]:
    """Return id -> exit code of the jobs that have ended, and the ids whose end nobody can tell. Jobs in neither part
    go on. The code of an array is the largest of its tasks."""
    codes_by_id: dict[str, int] = {}
    lost = []
    current, past = list(jobs), list(history)
    for identity in ids:
        views, _ = gather([identity], current, past, records, now)
        codes = [view.code for view in views if view.code is not None]
        if not views or any(view.code is None and view.state == JobState.UNKNOWN for view in views):
            lost.append(identity)
        elif len(codes) == len(views):
            codes_by_id[identity] = max(codes)
    return codes_by_id, lost


def gather(
    ids: Sequence[str],
    jobs: Iterable[Job],
    history: Iterable[Job],
    records: Mapping[str, JobRecord],
    now: float,
    span: float = SHOWN,
) -> tuple[list[JobView], list[str]]:
    """Return the jobs of these ids, or of the last seven days without `ids`, and the ids that nobody knows. `span` is
    another time, in seconds."""
    by_id = {job.id: job for job in history if not job.active}  # the queue knows better about active jobs
    waiting = (job.without(_begun_tasks(job, records)) for job in jobs)
    by_id.update({job.id: job for job in waiting if job is not None})
    alone = {name: record for name, record in records.items() if not _shown_by_its_tasks(record, by_id, records)}
    names = sorted({*by_id, *alone}, key=_order)
    if not ids:
        views = [view(name, by_id.get(name), records.get(name), now) for name in names]
        active = {job.id for job in by_id.values() if job.active}
        since = now - span
        shown = [v for v in views if v.id in active or _last(by_id.get(v.id), records.get(v.id)) > since]
        # A request that the scheduler refused is no job, unless somebody has handed it in.
        return [v for v in shown if v.id in records or v.id not in by_id or not _refused(by_id[v.id])], []
    chosen, unknown = [], []
    for identity in ids:
        matches = [name for name in names if _means(identity, name, by_id.get(name))]
        if len(matches) > 1 and identity in matches and JobId.of(identity).task:
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
    return {int(task) for record in begun if (task := JobId.of(record.id).task)}


def _means(identity: str, name: str, job: Job | None) -> bool:
    return job.covers(identity) if job is not None else JobId.of(name).covers(JobId.of(identity))


def _last(job: Job | None, record: JobRecord | None) -> float:
    return max(job.end or job.submitted if job is not None else 0.0, record.time if record is not None else 0.0)


def _shown_by_its_tasks(record: JobRecord, jobs: Mapping[str, Job], records: Mapping[str, JobRecord]) -> bool:
    """Return whether the record is a request alone, and tells no more than the jobs that it asked for."""
    if record.restart >= 0:
        return False
    if JobId.of(record.id).task:
        return any(job.covers(record.id) for job in jobs.values())
    return any(name != record.id and JobId.of(name).number == record.id for name in (*jobs, *records))


def _order(identity: str) -> tuple[int, int, str]:
    array, task = JobId.of(identity)
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
    gpu_types: Annotated[tuple[str, ...], "types of the GPUs, as the scheduler names them"]
    features: Annotated[tuple[str, ...], "words for --constraint"]

    @property
    def columns(self) -> tuple[str, ...]:
        gpus = " ".join(filter(None, (str(self.gpus or ""), ", ".join(self.gpu_types))))
        memory = size(self.memory) if self.memory else ""
        return (str(self.nodes), str(self.cpus), memory, gpus, ",".join(self.features))


@dataclass(frozen=True)
class Partition:
    """The free resources of a partition now."""

    name: Annotated[str, "the partition's name"]
    default: Annotated[bool, "whether it is the partition of jobs that name none"]
    up: Annotated[bool, "whether it takes jobs"]
    limit: Annotated[str, "the time limit, as the scheduler writes it"]
    nodes: Annotated[int, "all nodes"]
    free: Annotated[int, "idle nodes"]
    partly: Annotated[int, "nodes with jobs that leave CPUs free"]
    planned: Annotated[int, "nodes that the scheduler keeps for a job that waits; they are not free"]
    gpus: Annotated[int, "GPUs of all nodes"]
    gpus_free: Annotated[int, "free GPUs, on nodes that take jobs"]
    cpus: Annotated[int, "CPUs of all nodes"]
    cpus_free: Annotated[int, "free CPUs, on nodes that take jobs"]
    out: Annotated[tuple[str, ...], "nodes that take no jobs, with the reason"]
    kinds: Annotated[tuple[NodeKind, ...], "the kinds of its nodes"]

    @property
    def words(self) -> str:
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
    taking = [node for node in group if node.state != NodeState.OUT]
    count = Counter(node.state for node in group)
    out: dict[str, list[str]] = {}
    for node in group:
        if node.state == NodeState.OUT:
            out.setdefault(node.why, []).append(node.node)
    return Partition(
        name=name,
        default=group[0].default,
        up=group[0].up,
        limit=group[0].limit,
        nodes=len(group),
        free=count[NodeState.FREE],
        partly=count[NodeState.PARTLY],
        planned=count[NodeState.PLANNED],
        gpus=sum(p.gpus for p in group),
        gpus_free=sum(p.gpus - p.gpus_used for p in taking if p.cpus_idle),
        cpus=sum(p.cpus for p in group),
        cpus_free=sum(p.cpus_idle for p in taking),
        out=tuple(f"{', '.join(names)} {reason}" for reason, names in out.items()),
        kinds=_kinds(group),
    )
