"""Wait until submitted jobs have ended: read their directories first, and ask the scheduler now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from mnrun.errors import SchedulerError
from mnrun.jobs import archive, asking, state
from mnrun.jobs.records import JobRecord
from mnrun.schedulers.model import SPAN
from mnrun.schedulers.queue import NEW, Job, Queue, Snapshot

LOOK = 0.5  # seconds between two looks at the directories
# Seconds until the next question once a job seems to have ended. The pause then doubles, up to `poll`.
PROMPT = 1.0
Say = Callable[[str], None]
PATIENCE = 10  # questions in a row without an answer of the scheduler, after its first answer


def wait(ids: Sequence[str], bases: Sequence[Path], queue: Queue, say: Say = lambda text: None) -> int:
    """Wait until all jobs have ended, and return the largest of their exit codes. Meanwhile, say why they wait.

    Raises SchedulerError if nobody knows one of the jobs, or its end.
    """
    begun, last, pause = time.time(), 0.0, queue.poll
    codes: dict[str, int] = {}
    memory, reasons = _Memory(queue), Reasons(say)
    fresh, killed = False, 0
    while True:
        records = archive.read(bases, _open(ids, codes))
        codes.update({i: code for i in _open(ids, codes) if (code := state.final(i, records)) is not None})
        waited, old = _open(ids, codes), False
        if waited and time.time() - last >= pause:
            answer = memory.ask(pause)
            last = answer.time if answer is not None else time.time()
            pause = min(2 * pause, queue.poll)
            reasons.tell(waited, memory.jobs)
            ended, lost = _ends(waited, records, memory.jobs, queue)
            now = answer is not None and answer.time >= begun
            fresh = fresh or now
            # An older answer may lack tasks of an array.
            tasks = {name.partition("_")[0] for name in (*records, *(job.id for job in memory.jobs)) if "_" in name}
            codes.update({name: code for name, code in ended.items() if fresh or name not in tasks})
            if lost and now:
                raise _nobody_knows(lost, records, bases)
            waited = _open(ids, codes)
            old = answer is not None and not now and not {*ended, *lost}.isdisjoint(waited)
        if not waited:
            return max(codes.values())
        before, killed = killed, sum(map(state.killed, records.values()))
        if old or killed > before:
            pause = PROMPT
        time.sleep(LOOK)


class Watch:
    """Watches a job for those who follow its output: it tells why the job waits, and that it has ended.

    A killed job may leave no record of its end. The scheduler is asked while the job waits, and after a silence as long
    as the time between two questions.
    """

    def __init__(self, identity: str, bases: Sequence[Path], queue: Queue, say: Say) -> None:
        self._id, self._bases, self._queue = identity, bases, queue
        self._reasons = Reasons(say)
        self._age, self._next = asking.SOON, 0.0

    def is_the_end(self, waits: bool, broken: bool) -> bool:
        """Return whether the job has ended by the scheduler's word.

        `waits`: it has no output yet. `broken`: the silence has just been broken, and begins anew. The result is False
        if the scheduler does not answer, or does not know the job.
        """
        now = time.time()
        if broken or not (waits or self._next):
            self._next = now + self._queue.poll
        if now < self._next:
            return False
        self._next = now + self._queue.poll
        records = archive.read(self._bases, [self._id])
        try:
            jobs = self._queue.jobs(self._age).jobs
            self._reasons.tell([self._id], jobs)
            return bool(_ends([self._id], records, jobs, self._queue)[0])
        except SchedulerError:
            return False
        finally:
            self._age = math.inf


class Reasons:
    """Tells why jobs wait, each reason once."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._told: dict[str, str] = {}

    def tell(self, ids: Sequence[str], jobs: Collection[Job]) -> None:
        """Tell why these jobs wait now."""
        for job in jobs:
            if job.state != "PENDING" or job.reason == NEW or not any(map(job.covers, ids)):
                continue
            reason = SPAN.sub("", job.reason)  # each question makes a time shorter
            if self._told.get(job.id) != reason:
                self._told[job.id] = reason
                waits = job.reason if job.reason.startswith("waits ") else f"waits: {job.reason}"
                self._say(f"job {job.id} {waits}")


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
        """Return the scheduler's answer, at most `age` seconds old, or None if it gave none this time.

        Raises SchedulerError if that lasts.
        """
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
            f"the end of job {which} is unknown: Slurm no longer knows it, and there is no record in {base}",
            "look at its output: it was probably killed",
        )
    return asking.unknown(lost, bases)
