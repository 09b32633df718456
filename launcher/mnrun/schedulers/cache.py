"""Keep the last answers of a scheduler, so that one question serves every process of this user on this machine.

They lie in ~/.mnrun (0600) for `poll` seconds, refusals too.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from mnrun.errors import NotYours, SchedulerError, UsageError
from mnrun.schedulers.queue import Job, PartitionNode, Snapshot
from mnrun.schedulers.vocabulary import JobId, JobState, NodeState

SECONDS = 20  # seconds for one question

T = TypeVar("T", Job, PartitionNode)


class Answers:
    """The answers in a file. The variables of these names tell their cluster, since one home may serve several."""

    def __init__(self, file: Path, poll: float, environ: Mapping[str, str], names: Sequence[str]) -> None:
        self.poll, self._file = poll, file
        self._site = "|".join([platform.node(), *(environ.get(name, "") for name in names)])

    def shared(
        self, question: str, ask: Callable[[], list[T]], kind: type[T], age: float = math.inf
    ) -> tuple[list[T], float]:
        """Return an answer that is younger than `poll` and `age`, else a new one. Processes that ask at the same time
        wait for it."""
        with self._book() as book:
            page = book.setdefault(self._site, {})
            last = page.get(question)
            entries = _entries(last, kind) if last and _fresh(last, min(self.poll, age)) else None
            if not last or entries is None:
                last, entries = {"time": time.time(), "failure": None}, []
                try:
                    entries = ask()
                except SchedulerError as error:
                    last["failure"] = [error.message, error.remedy]
                page[question] = {**last, "entries": [asdict(entry) for entry in entries]}
        if last["failure"]:
            age = int(time.time() - last["time"])
            again = f" (asked {age} s ago; asked again {int(self.poll)} s after that)" if age > SECONDS else ""
            raise SchedulerError(last["failure"][0] + again, last["failure"][1])
        return entries, last["time"]

    @contextmanager
    def _book(self) -> Iterator[dict[str, Any]]:
        """Yield the content of the file of last answers, under a lock. It is empty if the file cannot be opened."""
        try:
            self._file.parent.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            yield {}
            return
        file = os.fdopen(handle, "r+", encoding="utf-8", errors="surrogateescape")
        _lock(handle)
        book = _read(file.read())
        try:
            yield book
        finally:
            with suppress(OSError):
                os.fchmod(handle, 0o600)
                file.seek(0)
                file.truncate()
                json.dump(book, file)
            with suppress(OSError):  # a full disk is found as the text is written out, which close() does
                file.close()

    def forget(self) -> None:
        """Drop the last answers: this process has just changed something."""
        if not os.path.lexists(self._file):
            return
        with self._book() as book:
            book.pop(self._site, None)


def _lock(handle: int) -> None:
    """Lock a file, but give up after some seconds: a filesystem may have no locks, or hang."""
    deadline = time.monotonic() + SECONDS + 5
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:
            return
        else:
            return


def _read(text: str) -> dict[str, Any]:
    """Return the answers of the last hour. The file of an earlier version, or half a file, counts as nothing."""
    try:
        book = json.loads(text)
        return {site: page for site, page in book.items() if any(_fresh(last, 3600) for last in page.values())}
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):  # the last one: ten thousand brackets
        return {}


def _entries(last: Mapping[str, Any], kind: type[T]) -> list[T] | None:
    """Return the entries of an answer, or None for those of another version of mnrun."""
    states, failure = JobState if kind is Job else NodeState, last.get("failure")
    texts = isinstance(failure, list) and len(failure) == 2 and all(isinstance(word, str) for word in failure)
    if failure is not None and not texts:
        return None
    try:
        return [kind(**{**entry, "state": states(entry["state"])}) for entry in last["entries"]]
    except (ValueError, KeyError, TypeError):
        return None


def _fresh(last: Mapping[str, Any], seconds: float) -> bool:
    when = last["time"]
    return isinstance(when, float) and 0 <= time.time() - when < seconds


class CachedQueue:
    """The queue of a batch system, by functions that ask it. `poll` is the least time between two questions of a kind.

    `delete` ends a job of this user, and returns False if it had ended already. It raises NotYours for another's.
    """

    def __init__(
        self,
        title: str,
        answers: Answers,
        jobs: Callable[[], list[Job]],
        history: Callable[[Sequence[str]], list[Job]],
        nodes: Callable[[], list[PartitionNode]],
        delete: Callable[[JobId], bool],
    ) -> None:
        self.poll, self.forget = answers.poll, answers.forget
        self._title, self._answers = title, answers
        self._jobs, self._history, self._nodes, self._delete = jobs, history, nodes, delete

    def jobs(self, age: float = math.inf) -> Snapshot:
        jobs, when = self._answers.shared("jobs", self._jobs, Job, age)
        return Snapshot(tuple(jobs), when)

    def history(self, ids: Sequence[str] = ()) -> tuple[Job, ...]:
        return tuple(self._history(ids))

    def nodes(self) -> tuple[PartitionNode, ...]:
        return tuple(self._answers.shared("nodes", self._nodes, PartitionNode)[0])

    def names(self, option: str) -> Sequence[str]:
        return ()

    def cancel(self, ids: Sequence[str], signal: str = "", scripts: Collection[str] = ()) -> list[str]:
        if signal:
            raise UsageError(f"--signal: {self._title} sends a job no signal by name", "leave it out: the job ends")
        ended: list[str] = []
        foreign: list[str] = []
        for identity in ids:
            try:
                if not self._delete(JobId.of(identity)):
                    ended.append(identity)
            except NotYours:
                foreign.append(identity)
        self.forget()
        if foreign:
            raise NotYours(f"no job {', '.join(foreign)} of yours", foreign)
        return ended
