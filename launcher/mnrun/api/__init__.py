"""Plan, run, submit and follow jobs from Python, as the verbs do it. `from mnrun import Job` gives the first name.

Options have the names of the command line with _ for -: `Job(["./app"], image="app.sif", nodes=4)`. A list option takes
a list, a flag takes True or False, and `env` takes a mapping. None as the value of a variable passes it on.
`mnrun.map` is in mapping.py.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from mnrun.attach import user
from mnrun.config.options import ALIASES, BY_NAME
from mnrun.errors import DeadlineError, SchedulerError, UsageError
from mnrun.jobs import archive, asking, waiting
from mnrun.jobs.state import JobView
from mnrun.jobs.tail import Tail
from mnrun.near import nearest
from mnrun.planning import show
from mnrun.running import request, session, submission
from mnrun.running.view import look
from mnrun.schedulers.queue import Queue

ASK = 5.0  # seconds between two questions for the end of a job that may leave no record of it


class Job:
    """A job before its start: a command, and the options of `mnrun run`. Profiles and MNRUN_* variables count, too."""

    def __init__(self, command: Sequence[str] = (), **options: Any) -> None:
        """Take a command as its words. Raise UsageError for an unknown option, or a value of another type."""
        if isinstance(command, str):
            raise UsageError("the command is one text", "give its words: Job(['./app', '-n', '5'])")
        self._command = tuple(map(str, command))
        self._options = {_name(name): _value(_name(name), value) for name, value in options.items()}
        self._file = ""

    @classmethod
    def read(cls, path: str | os.PathLike[str], command: Sequence[str] = (), **options: Any) -> Job:
        """Return the job of a job file. A command and options here count above those in the file."""
        job = cls(command, **options)
        job._file = os.fspath(path)
        return job

    @classmethod
    def attach(cls, number: str | int, job_dir: str | os.PathLike[str] | None = None) -> SubmittedJob:
        """Return the handle of a job that was submitted before, here or by `mnrun submit`: 271, or "271_4".

        `job_dir` is where its records are, as with --job-dir. Raises SchedulerError if nobody knows the job.
        """
        identity = user.identity(str(number))
        bases = user.bases(None if job_dir is None else os.fspath(job_dir))
        job = SubmittedJob(identity, bases, user.queue("", [identity]))
        job.status()
        return job

    def plan(self) -> dict[str, Any]:
        """Return what `mnrun plan --json` prints: docs/reference/json.md has its keys. `["layout"]["ranks"]` is a list
        with the number of ranks on each node. Raises LaunchError."""
        view = look(request.read(self._command, self._given()))
        plan: dict[str, Any] = json.loads(show.as_json(view.plan, view.site, view.judgement))
        return plan

    def script(self) -> str:
        """Return the batch script that `submit` hands in. Raises LaunchError."""
        return self._submission().script

    def run(self) -> int:
        """Run the job on the nodes of this allocation, or in one of its own. Return its exit code.

        Raises LaunchError if mnrun itself fails. The class tells the kind, and `code` is the exit code of `mnrun run`.
        Raises UsageError outside the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            problem = "run() handles signals, and so works in the main thread only"
            raise UsageError(problem, "use submit() and wait(), or a process for each run")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what was printed before comes before the output of the job
        return session.carry_out(request.read(self._command, self._given(), live=True))

    def submit(self) -> SubmittedJob:
        """Hand the job in as a batch script, and return its handle. Raises LaunchError."""
        made = self._submission()
        number, _ = submission.hand_in(made)
        return SubmittedJob(number, [Path(made.spec.job_dir)], submission.record(number, made))

    def _submission(self) -> submission.Submission:
        return submission.make(request.read(self._command, self._given(), batch=True))

    def _given(self) -> dict[str, Any]:
        return {**self._options, "job_file": self._file}


class SubmittedJob:
    """A job that was submitted. `id` is its id as a text: "271", or "271_4" for a task of an array."""

    def __init__(self, number: str, bases: Sequence[Path], queue: Queue) -> None:
        self.id = number
        self._bases = tuple(bases)
        self._queue = queue

    def __repr__(self) -> str:
        return f"SubmittedJob(id={self.id!r})"

    def status(self) -> JobView:
        """Return the job's state, its nodes, its exit code and the reason, as `mnrun status --json` has them. Times are
        seconds since 1970. Raises SchedulerError if nobody knows the job."""
        return self._views()[0]

    @property
    def state(self) -> str:
        """The state in the words of `mnrun status`: `pending`, `running`, `done`, `failed`, `cancelled`, `timed out` ….
        Raises SchedulerError if nobody knows the job."""
        return self.status().words

    def done(self) -> bool:
        """Return whether the job, or every task of the array, has ended. Raises SchedulerError if nobody knows it."""
        return not any(view.active for view in self._views())

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the job has ended, and return its exit code. Of an array, it is the largest code.

        Raises DeadlineError if it has not ended after `timeout` seconds, and goes on. Raises SchedulerError if nobody
        knows its end.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while end is not None and not self.done():
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineError(f"job {self.id} has not ended after {timeout:g} s", "it goes on")
            time.sleep(min(waiting.LOOK, left))
        return waiting.wait([self.id], self._bases, self._queue)

    @overload
    def logs(self, follow: Literal[False] = False) -> str: ...

    @overload
    def logs(self, follow: Literal[True]) -> Iterator[str]: ...

    def logs(self, follow: bool = False) -> str | Iterator[str]:
        """Return the job's output so far, and then its errors if they have a file of their own, without mnrun's lines.

        With `follow`, return an iterator over the lines, each with its end, until the job has ended. Characters that
        are no UTF-8 are replaced.
        """
        if follow:
            return self._follow()
        text = "".join(
            path.read_text(encoding="utf-8", errors="replace") for path in self._files() if os.path.isfile(path)
        )
        return "".join(line for line in text.splitlines(keepends=True) if not self._is_own(line))

    def task(self, number: int) -> SubmittedJob:
        """Return the handle of one task of this array."""
        return SubmittedJob(f"{self.id}_{number}", self._bases, self._queue)

    def cancel(self) -> None:
        """End the job. Raises SchedulerError."""
        self._queue.cancel([self.id], "", [])

    def _views(self) -> list[JobView]:
        views, _, _ = asking.views([self.id], archive.read(self._bases, [self.id]), lambda: self._queue)
        if not views:
            raise SchedulerError(f"nobody knows job {self.id}", "it may have ended long ago")
        return views

    def _files(self) -> tuple[Path, ...]:
        record = archive.read(self._bases, [self.id]).get(self.id)
        return () if record is None or record.begun is None else tuple(record.begun.files)

    def _is_own(self, line: str) -> bool:
        """Return whether this is a line of mnrun's, or one of the scheduler's client's about the end of a rank."""
        return line.startswith("mnrun: ") or user.scheduler("", [self.id]).CLIENT_LINES.own.has(line.rstrip("\n"))

    def _follow(self) -> Iterator[str]:
        tails: dict[Path, Tail] = {}
        rests: dict[Path, bytes] = {}
        over, asked = False, time.monotonic()
        while True:
            tails.update({path: Tail(path) for path in self._files() if path not in tails})
            for path, tail in tails.items():
                while text := tail.more():
                    *lines, rests[path] = (rests.get(path, b"") + text).split(b"\n")
                    yield from self._shown(line + b"\n" for line in lines)
            if over:
                yield from self._shown(filter(None, rests.values()))
                return
            record = archive.read(self._bases, [self.id]).get(self.id)
            over = record is not None and record.over
            if not over and time.monotonic() - asked > ASK:
                over, asked = self.done(), time.monotonic()
            time.sleep(waiting.LOOK)

    def _shown(self, lines: Iterable[bytes]) -> Iterator[str]:
        texts = (line.decode("utf-8", "replace") for line in lines)
        return (text for text in texts if not self._is_own(text))


def _name(name: str) -> str:
    option = ALIASES.get(name, name)
    if option not in BY_NAME:
        near = nearest(name, [*BY_NAME, *ALIASES])
        remedy = f"did you mean {near}?" if near else "the names are those of mnrun plan --help-all, with _ for -"
        raise UsageError(f"there is no option {name}", remedy)
    return option


def _value(name: str, value: object) -> object:
    """Return a Python value as the command line has it: a text, a list of texts, or a flag."""
    kind = BY_NAME[name].kind
    if isinstance(value, bool) and kind == "flag":
        return value
    if kind == "env" and isinstance(value, Mapping):
        return [name if text is None else f"{name}={text}" for name, text in value.items()]
    if kind in ("list", "words", "env") and isinstance(value, Sequence) and not isinstance(value, str):
        return [shlex.quote(str(word)) if kind == "words" else str(word) for word in value]
    if kind in ("list", "words", "env", "flag") or not isinstance(value, (str, int, os.PathLike)):
        needed = {"flag": "True or False", "env": "a mapping"}.get(
            kind, "a list" if BY_NAME[name].repeats else "a text"
        )
        raise UsageError(f"{name}={value!r} is not {needed}")
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


__all__ = ["Job", "JobView", "SubmittedJob"]
