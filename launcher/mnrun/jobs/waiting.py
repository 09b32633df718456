"""Wait until submitted jobs have ended: read their directories first, and ask the scheduler now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from mnrun.errors import SchedulerError
from mnrun.jobs import archive, asking, launches, state
from mnrun.jobs.records import JobRecord
from mnrun.schedulers.queue import NEW, Job, Queue, Snapshot
from mnrun.schedulers.vocabulary import RUNNING, SPAN, JobId, JobState

LOOK = 0.5  # seconds between two looks at the directories
# Seconds until the next question once a job seems to have ended. The pause then doubles, up to `poll`.
PROMPT = 1.0
Say = Callable[[str], None]
MOVED = 600.0  # seconds by which an expected start must move, until it is told again
PATIENCE = 10  # questions in a row without an answer of the scheduler, after its first answer


def wait(ids: Sequence[str], bases: Sequence[Path], queue: Queue, say: Say = lambda text: None) -> int:
    """Wait until all jobs have ended, say why they wait, and return the largest of their exit codes. Raises
    SchedulerError if nobody knows one of the jobs, or its end."""
    begun, last, pause = time.time(), 0.0, queue.poll
    codes: dict[str, int] = {}
    memory, reasons = _Memory(queue), Reasons(say)
    fresh, killed = False, 0
    launched: set[str] = set()
    ending: set[str] = set()
    while True:
        records = archive.read(bases, _open(ids, codes))
        codes.update({i: code for i in _open(ids, codes) if (code := state.final(i, records)) is not None})
        reasons.tell_starts(records)
        waited, old, were_ending = _open(ids, codes), False, ending
        if waited and time.time() - last >= pause:
            answer = memory.ask(pause)
            last = answer.time if answer is not None else time.time()
            pause = min(2 * pause, queue.poll)
            ending = answer.ending(waited) if answer is not None else ending
            reasons.tell(waited, memory.jobs, records)
            ended, lost = _ends(waited, records, memory.jobs, queue)
            now = answer is not None and answer.time >= begun
            fresh = fresh or now
            # An older answer may lack tasks of an array.
            ids_now = (JobId.of(name) for name in (*records, *(job.id for job in memory.jobs)))
            tasks = {identity.number for identity in ids_now if identity.task}
            codes.update({name: code for name, code in ended.items() if fresh or name not in tasks})
            if lost and now:
                records = archive.read(bases, lost)  # one may have left its record between this look and the question
                ended, lost = _ends(lost, records, memory.jobs, queue)
                codes.update(ended)
            if lost and now:
                raise _nobody_knows(lost, records, bases)
            waited = _open(ids, codes)
            old = answer is not None and not now and not {*ended, *lost}.isdisjoint(waited)
        if not waited:
            return max(codes.values())
        before, killed = killed, sum(map(state.killed, records.values()))
        under_way, launched = launched, _launched(waited, records, bases)
        if old or killed > before or under_way - launched or ending - were_ending:
            pause = PROMPT
        time.sleep(LOOK)


def wait_and_tell(ids: Sequence[str], bases: Sequence[Path], queue: Queue, say: Say) -> int:
    """Do as `wait` does, and show how the jobs have ended."""
    code = wait(ids, bases, queue, say)
    told = tell_ends(ids, bases, queue, say)
    return code if told is None else told


def tell_ends(ids: Sequence[str], bases: Sequence[Path], queue: Queue, say: Say) -> int | None:
    """Show how jobs have ended, and return the largest of their codes, or None if nobody knows one."""
    try:
        views, unknown, _ = asking.views(ids, archive.read(bases, ids), lambda: queue)
    except SchedulerError:
        return None
    views = asking.with_ends(views, archive.live_ends(Path.home()), launches.killed(bases))
    now = time.time()
    for view in views:
        say(state.line(view.id, view.state, view.code, view.why, view.took(now)))
    codes = [view.code for view in views if view.code is not None]
    return max(codes) if len(codes) == len(views) > 0 and not unknown else None


class Watch:
    """Tells those who follow a job's output why it waits, that it has begun, and that it has ended. A killed job may
    leave no record. The scheduler is asked while the job waits, and after a silence as long as the time between two
    questions. It is asked sooner, and ever more seldom, once all launches of a batch script have ended, or the job
    cleans up."""

    def __init__(self, identity: str, bases: Sequence[Path], queue: Queue, say: Say) -> None:
        self._id, self._bases, self._queue = identity, bases, queue
        self._reasons = Reasons(say)
        self._age, self._next = asking.SOON, 0.0
        self._launched: set[str] = set()
        self._pause = 0.0  # 0 until a batch script has no launch any more

    def is_the_end(self, records: Mapping[str, JobRecord], waits: bool, broken: bool) -> bool:
        """Return whether the job has ended by the word of the scheduler, which may not answer, or not know the job.

        `waits`: it has no output yet. `broken`: the silence has just been broken, and begins anew.
        """
        now = time.time()
        self._reasons.tell_starts(records)
        if not waits:
            self._reasons.tell_start(self._id)
        before, self._launched = self._launched, _launched([self._id], records, self._bases)
        self._pause = PROMPT if before - self._launched else 0.0 if self._launched else self._pause
        if before - self._launched:
            self._next = now + PROMPT
        elif not self._pause and (broken or not (waits or self._next)):
            self._next = now + self._queue.poll
        if now < self._next:
            return False
        age = self._pause or self._age
        self._pause = min(2 * self._pause, self._queue.poll)
        self._next = now + (self._pause or self._queue.poll)
        try:
            answer = self._queue.jobs(age)
            if answer.ending([self._id]) and not self._pause:
                self._pause, self._next = PROMPT, now + PROMPT
            records = archive.read(self._bases, [self._id])
            self._reasons.tell([self._id], answer.jobs, records)
            return bool(_ends([self._id], records, answer.jobs, self._queue)[0])
        except SchedulerError:
            return False
        finally:
            self._age = math.inf


class Reasons:
    """Tells why jobs wait, each reason and each expected start once, and that they have begun after that."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._told: dict[str, tuple[str, float]] = {}

    def tell(self, ids: Sequence[str], jobs: Collection[Job], records: Mapping[str, JobRecord]) -> None:
        now = time.time()
        for job in jobs:
            if job.state in RUNNING:
                self.tell_start(job.id, job.nodelist)
            if (record := records.get(job.id)) and record.begun and not record.ended:  # the answer is older
                continue
            if job.state != JobState.PENDING or job.reason == NEW or not any(map(job.covers, ids)):
                continue
            reason = SPAN.sub("", job.reason)  # each question makes a time shorter
            expected = job.start if job.start > now else 0.0
            before, then = self._told.get(job.id, ("", 0.0))
            if before != reason or abs(expected - then) > MOVED:
                self._told[job.id] = reason, expected
                waits = job.reason if job.reason.startswith("waits ") else f"waits: {job.reason}"
                start = f"; expected at {state.moment(expected, now)}" if expected else ""
                self._say(f"job {job.id} {waits}{start}")

    def tell_start(self, job: str, nodes: str = "") -> None:
        """Tell that a job has started, if it was told that it waits."""
        if self._told.pop(job, None) is not None:
            self._say(f"job {job} has started{f' on {nodes}' if nodes else ''}")

    def tell_starts(self, records: Mapping[str, JobRecord]) -> None:
        for name, record in records.items():
            if record.begun is not None:
                self.tell_start(name, record.begun.nodes)


def _launched(ids: Collection[str], records: Mapping[str, JobRecord], bases: Sequence[Path]) -> set[str]:
    """Return those of the batch scripts, which record no end of their own, that have a launch under way."""
    own = [name for name in ids if (found := records.get(name)) and found.submitted and found.submitted.own]
    return {name for name in own if records[name].begun is None and launches.under_way(bases, name)}


def _open(ids: Sequence[str], codes: Mapping[str, int]) -> list[str]:
    return [identity for identity in ids if identity not in codes]


class _Memory:
    """The scheduler's answers during the wait. It forgets jobs that have ended, and may be restarting."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._jobs: dict[str, Job] = {}
        self._silent = PATIENCE  # no patience before the first answer

    @property
    def jobs(self) -> Collection[Job]:
        return self._jobs.values()

    def ask(self, age: float) -> Snapshot | None:
        """Return the scheduler's answer, at most `age` seconds old, or None if it gave none. Raises SchedulerError if
        that lasts."""
        try:
            answer = self._queue.jobs(age)
        except SchedulerError:
            self._silent += 1
            if self._silent > PATIENCE:
                raise
            return None
        self._silent = 0
        self._jobs = {job.id: job for job in self._jobs.values() if not job.active}
        self._jobs.update({job.id: job for job in answer.jobs})
        return answer


def _ends(
    waited: Sequence[str], records: Mapping[str, JobRecord], jobs: Collection[Job], queue: Queue
) -> tuple[dict[str, int], list[str]]:
    ended, lost = state.ends(waited, records, jobs, (), time.time())
    if lost:
        ended, lost = state.ends(waited, records, jobs, queue.history(lost), time.time())
    return ended, lost


def _nobody_knows(lost: Sequence[str], records: Mapping[str, JobRecord], bases: Sequence[Path]) -> SchedulerError:
    base = archive.named(bases)
    which = ", ".join(lost)
    if any(identity in records for identity in lost):
        return SchedulerError(
            f"the end of job {which} is unknown: the scheduler no longer knows it, and there is no record in {base}",
            "look at its output: it was probably killed",
        )
    return asking.unknown(lost, bases)
