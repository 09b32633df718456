"""The state of a job for a person, made of Slurm's answers and the records in the job's directory.

The job's own record counts for its exit code. Slurm counts for an end from outside, which a job cannot know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mnrun.jobs.records import REQUEUED, Begun, Ended, Submitted, is_id
from mnrun.schedulers.slurm import steps
from mnrun.schedulers.slurm.answers import Job, Place, span

DAY = 86400.0
SIGNALLED = 128  # codes from here on are a signal's, and Slurm alone knows its sender

# Slurm's states of ended jobs, as our exit codes.
_ENDED_BY_SLURM = {
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
# The end of the job's own last word, as Slurm's state. It comes sooner than Slurm's, and is kept for longer.
_ENDED_BY_ITS_WORD = {"reached its time limit": "TIMEOUT", "was cancelled": "CANCELLED"}


@dataclass(frozen=True)
class Kept:
    """The records in a job's directory, of its last start.

    `restart` is the number of that start, or -1 if the job has not begun. `touched` is the time of the last write by a
    start that has not ended, or 0 if unknown.
    """

    id: str
    submitted: Submitted | None = None
    restart: int = -1
    begun: Begun | None = None
    ended: Ended | None = None
    touched: float = 0
    place: str = ""  # the directory

    @property
    def over(self) -> bool:
        """Return whether the last start has ended, and the job does not begin anew."""
        return self.ended is not None and self.ended.why != REQUEUED

    @property
    def time(self) -> float:
        """Return the time of the newest record."""
        return max([self.touched, *(said.time for said in (self.submitted, self.begun, self.ended) if said)])

    @property
    def array(self) -> str:
        return self.id.partition("_")[0]


@dataclass(frozen=True)
class Seen:
    """A job for a person. `why` is the reason that it waits, or that it ended.

    `left` is the time until its limit in seconds, and `code` is its exit code. Both may be None. `nodes` is a count,
    and `nodelist` has their names.
    """

    id: str
    name: str
    state: str
    why: str
    nodes: int
    nodelist: str
    gpus: int
    left: int | None
    code: int | None
    submitted: float

    @property
    def words(self) -> str:
        """Return the state in a person's words."""
        return _WORDS.get(self.state, self.state.lower().replace("_", " "))


def final(kept: Kept | None) -> int | None:
    """Return the exit code if the job's own record has the last word, without a question to Slurm. Otherwise return
    None."""
    if kept is None or kept.ended is None or not kept.over or kept.ended.code >= SIGNALLED:
        return None
    return kept.ended.code


def code(job: Job | None, kept: Kept | None) -> int | None:
    """Return the exit code of a job that has ended, or None before that, or if nobody knows it."""
    ended = kept.ended if kept is not None and kept.over else None
    if job is not None and ended is not None and kept is not None and job.active and _newer(job, kept):
        ended = None  # that record is of the start before
    if ended is not None and ended.code < SIGNALLED:
        return ended.code
    if job is not None and not job.active and job.state != "UNKNOWN":
        return _by_slurm(job, ended)
    return None if ended is None or job is not None else ended.code


def _newer(job: Job, kept: Kept) -> bool:
    """Return whether Slurm knows of a later start than the one that left the records."""
    return job.state == "PENDING" or job.restarts > kept.restart


def _by_slurm(job: Job, ended: Ended | None) -> int:
    if job.state in _ENDED_BY_SLURM:
        return _ENDED_BY_SLURM[job.state]
    if ended is not None:
        return ended.code
    if job.signal:
        return SIGNALLED + job.signal
    return job.code or int(job.state != "COMPLETED")  # a job that could not start has exit code 0


def see(identity: str, job: Job | None, kept: Kept | None, now: float) -> Seen:
    """Return a job for a person. Its state is UNKNOWN if neither Slurm nor a record has its end."""
    result = code(job, kept)
    state, why = _state(job, kept, result)
    asked = kept.submitted if kept is not None else None
    begun = kept.begun if kept is not None else None
    running = job is not None and job.state in (*steps.RUNNING, "STOPPED")
    left = int(job.end - now) if job is not None and running and result is None and job.end else None
    return Seen(
        id=identity,
        name=job.name if job is not None else asked.name if asked is not None else "",
        state=state,
        why=why if why or job is None or job.state != "PENDING" else reason(job, now),
        nodes=job.nodes if job is not None else asked.nodes if asked is not None else 0,
        nodelist=(job.nodelist if job is not None else "") or (begun.nodes if begun is not None else ""),
        gpus=job.gpus if job is not None else asked.gpus if asked is not None else 0,
        left=max(left, 0) if left is not None else None,
        code=result,
        submitted=job.submitted if job is not None else asked.time if asked is not None else 0,
    )


def _state(job: Job | None, kept: Kept | None, result: int | None) -> tuple[str, str]:
    said = kept.ended.why if kept is not None and kept.over and kept.ended is not None else ""
    if job is not None and result is None:
        return job.state, ""
    if job is not None and not job.active:
        return job.state, said or (f"signal {job.signal}" if job.signal and job.state == "FAILED" else "")
    if result is not None:
        otherwise = (state for words, state in _ENDED_BY_ITS_WORD.items() if said.endswith(words))
        return "COMPLETED" if result == 0 else next(otherwise, "FAILED"), said
    begun = "it started and left no record of its end" if kept is not None and kept.begun else "it left no record"
    return "UNKNOWN", f"Slurm no longer knows it, and {begun}"


def ends(
    wanted: Sequence[str], kept: Mapping[str, Kept], jobs: Iterable[Job], history: Iterable[Job], now: float
) -> tuple[dict[str, int], list[str]]:
    """Return id -> exit code of the jobs that have ended, and the ids whose end nobody can tell.

    The code of an array is the largest of its tasks. Jobs in neither part go on.
    """
    ended: dict[str, int] = {}
    lost = []
    known, past = list(jobs), list(history)
    for identity in wanted:
        seen, _ = gather([identity], known, past, kept, now)
        codes = [one.code for one in seen if one.code is not None]
        if not seen or any(one.code is None and one.state == "UNKNOWN" for one in seen):
            lost.append(identity)
        elif len(codes) == len(seen):
            ended[identity] = max(codes)
    return ended, lost


# Slurm's reasons for a waiting job, by their beginnings, in a person's words.
_REASONS = (
    ("Resources", "waits for nodes or GPUs that others use"),
    ("Priority", "other jobs are before it in the queue"),
    ("DependencyNeverSatisfied", "can never start, since its dependency cannot be met; cancel it"),
    ("Dependency", "waits for another job"),
    ("JobHeldUser", "held by you; release it with: scontrol release ID"),
    ("JobHeldAdmin", "held by the cluster's admins"),
    ("JobHoldMaxRequeue", "was restarted too often, and is held"),
    ("launch_failed_requeued_held", "could not be started on its nodes, and is held"),
    ("launch failed requeued held", "could not be started on its nodes, and is held"),
    ("BeginTime", "its start time has not come"),
    ("JobArrayTaskLimit", "its array's limit of running tasks is reached"),
    ("None", "was submitted just now"),
    ("NonZeroExitCode", "will be started again, since its last start failed"),
    ("PartitionTimeLimit", "asks for more time than the partition allows"),
    ("PartitionNodeLimit", "asks for more nodes than the partition has or allows"),
    ("PartitionDown", "its partition is closed"),
    ("PartitionInactive", "its partition is closed"),
    ("ReqNodeNotAvail", "nodes that it asks for are down, drained or reserved"),
    ("Nodes_required_for_job_are_DOWN", "nodes that it needs are down, drained or reserved"),
    ("Nodes required for job are DOWN", "nodes that it needs are down, drained or reserved"),
    ("NodeDown", "a node that it needs is down"),
    ("BadConstraints", "no node has what it asks for; cancel it"),
    ("ReservationDeleted", "its reservation is gone; cancel it"),
    ("Reservation", "waits for its reservation to begin"),
    ("Licenses", "waits for licenses that others use"),
    ("InvalidAccount", "its account is not valid here; cancel it"),
    ("InvalidQOS", "its QOS is not valid here; cancel it"),
    ("Cleaning", "its last start is still being cleaned up"),
)


def reason(job: Job, now: float) -> str:
    """Return the reason that a job waits, in a person's words."""
    word = job.reason or "None"
    if word == "BeginTime" and job.start > now:
        return f"starts in {span(int(job.start - now))} at the earliest"
    if word.startswith(("QOS", "Assoc", "Max", "Grp")):
        return f"a limit of your {'QOS' if word.startswith('QOS') else 'account'} is reached (Slurm: {word})"
    for start, meaning in _REASONS:
        if word.startswith(start):
            others = ", ".join(re.findall(r"\d+(?:_\d+|_\*)?(?:\+\d+)?(?=\(|,|:|\?|$)", job.depends))
            waits = f"waits for job {others}" if start == "Dependency" and others else meaning
            return waits.replace("ID", job.array)
    return f"Slurm: {word}"


def gather(
    wanted: Sequence[str], jobs: Iterable[Job], history: Iterable[Job], kept: Mapping[str, Kept], now: float
) -> tuple[list[Seen], list[str]]:
    """Return the jobs that `wanted` names, and the ids that nobody knows.

    If `wanted` is empty, the jobs are all of the last seven days.
    """
    by_id = {job.id: job for job in history if not job.active}  # slurmctld knows better about active jobs
    by_id.update({job.id: job for job in jobs})
    alone = {identity: found for identity, found in kept.items() if not _shown_by_its_tasks(found, by_id, kept)}
    names = sorted({*by_id, *alone}, key=_order)
    if not wanted:
        seen = [see(name, by_id.get(name), kept.get(name), now) for name in names]
        recent = [s for s in seen if _active(by_id.get(s.id)) or _last(by_id.get(s.id), kept.get(s.id)) > now - 7 * DAY]
        return recent, []
    chosen, unknown = [], []
    for identity in wanted:
        found = [name for name in names if _means(identity, name, by_id.get(name))]
        if len(found) > 1 and identity in found and "_" in identity:
            found = [identity]
        chosen += [name for name in found if name not in chosen]
        unknown += [] if found else [identity]
    return [see(name, by_id.get(name), kept.get(name), now) for name in chosen], unknown


def _means(wanted: str, name: str, job: Job | None) -> bool:
    return job.covers(wanted) if job is not None else wanted in (name, name.partition("_")[0])


def _active(job: Job | None) -> bool:
    return job is not None and job.active


def _last(job: Job | None, kept: Kept | None) -> float:
    return max(job.end or job.submitted if job is not None else 0.0, kept.time if kept is not None else 0.0)


def _shown_by_its_tasks(found: Kept, jobs: Mapping[str, Job], kept: Mapping[str, Kept]) -> bool:
    """Return whether an array's own record has nothing to add to those of its tasks."""
    if "_" in found.id or found.restart >= 0:
        return False
    return any(name != found.id and name.partition("_")[0] == found.id for name in (*jobs, *kept))


def _order(identity: str) -> tuple[int, int, str]:
    array, _, task = identity.partition("_")
    return int(array) if array.isdecimal() else 0, int(task) if task.isdecimal() else 1 << 40, identity


def removable(kept: Mapping[str, Kept], jobs: Iterable[Job], before: float) -> list[Kept]:
    """Return the directories of ended jobs without a record younger than `before`. `jobs` are all that Slurm knows
    now."""
    alive = [job for job in jobs if job.active]
    old = [found for found in kept.values() if is_id(found.id) and found.time < before]
    busy = {found.id for found in old if any(job.covers(found.id) or job.array == found.id for job in alive)}
    return [found for found in old if found.id not in busy]


@dataclass(frozen=True)
class Partition:
    """The free resources of a partition now.

    Nodes that Slurm keeps for a waiting job are `planned`, not free. `gpus_free` counts those on nodes that take jobs.
    `out` names the nodes that take none, with the reason.
    """

    name: str
    default: bool
    up: bool
    limit: str
    nodes: int
    free: int
    partly: int
    planned: int
    gpus: int
    gpus_free: int
    cpus: int
    cpus_free: int
    out: tuple[str, ...]

    @property
    def words(self) -> str:
        """Return the free resources in a sentence."""
        if not self.up:
            return "closed: takes no jobs now"
        parts = [f"{self.free} of {self.nodes} nodes free"]
        parts += [f"{self.partly} partly"] if self.partly else []
        parts += [f"{self.planned} kept for a job that waits"] if self.planned else []
        parts += [f"{self.gpus_free} of {self.gpus} GPUs free"] if self.gpus else []
        return ", ".join(parts)


_TAKES = ("idle", "mixed", "allocated", "completing", "planned")


def partitions(places: Iterable[Place], only: str = "") -> list[Partition]:
    """Return the free resources of each partition, or of `only` that one."""
    groups: dict[str, list[Place]] = {}
    for place in places:
        if only in ("", place.partition):
            groups.setdefault(place.partition, []).append(place)
    return [_partition(name, group) for name, group in groups.items()]


def _partition(name: str, group: Sequence[Place]) -> Partition:
    taking = [p for p in group if p.state in _TAKES and p.mark not in ("*", "$", "@", "!")]
    out: dict[str, list[str]] = {}
    for place in group:
        if place not in taking:
            what = "does not answer" if place.mark == "*" else place.state
            out.setdefault(f"{what}: {place.reason}" if place.reason else what, []).append(place.node)
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
        out=tuple(f"{', '.join(names)} {what}" for what, names in out.items()),
    )
