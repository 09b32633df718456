"""Plan, run, submit and follow jobs from Python, as the verbs do it. `from mnrun import Job` gives the first name.

Options have the names of the command line with _ for -: `Job(["./app"], image="app.sif", nodes=4)`. A list option takes
a list, a flag takes True or False, and `env` takes a mapping. None as the value of a variable passes it on.
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnrun.config.options import ALIASES, BY_NAME
from mnrun.errors import SchedulerError, UsageError
from mnrun.jobs import archive, asking, waiting
from mnrun.jobs.state import JobView
from mnrun.planning import show
from mnrun.running import session, submission
from mnrun.schedulers.queue import Queue


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

    def plan(self) -> dict[str, Any]:
        """Return what `mnrun plan --json` prints. Raises LaunchError."""
        with _environment():
            view = session.look(self._command, self._given())
        plan: dict[str, Any] = json.loads(show.as_json(view.plan, view.site, view.judgement))
        return plan

    def script(self) -> str:
        """Return the batch script that `submit` hands in. Raises LaunchError."""
        return submission.make(self._command, self._given()).script

    def run(self) -> int:
        """Run the job on the nodes of this allocation, or in one of its own. Return its exit code.

        Raises LaunchError if mnrun itself fails. The class tells the kind, and `code` is the exit code of `mnrun run`.
        Raises UsageError outside the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            problem = "run() handles signals and changes the environment, and so works in the main thread only"
            raise UsageError(problem, "use submit() and wait(), or a process for each run")
        with _environment():
            return session.carry_out(self._command, self._given())

    def submit(self) -> SubmittedJob:
        """Hand the job in as a batch script. Raises LaunchError."""
        request = submission.make(self._command, self._given())
        number, _ = submission.hand_in(request)
        return SubmittedJob(number, Path(request.spec.job_dir), submission.record(number, request))

    def _given(self) -> dict[str, Any]:
        return {**self._options, "job_file": self._file}


class SubmittedJob:
    """A job that was submitted."""

    def __init__(self, number: str, records: Path, queue: Queue) -> None:
        self.id = number
        self._records = records
        self._queue = queue

    def __repr__(self) -> str:
        return f"SubmittedJob(id={self.id!r})"

    def status(self) -> JobView:
        """Return the job's state, its nodes, its exit code and the reason, as `mnrun status --json` has them."""
        records = archive.read([self._records], [self.id])
        views, _, _ = asking.views([self.id], records, lambda: self._queue)
        if not views:
            raise SchedulerError(f"nobody knows job {self.id}", "it may have ended long ago")
        return views[0]

    def wait(self) -> int:
        """Wait until the job has ended, and return its exit code. Raises SchedulerError if nobody knows its end."""
        return waiting.wait([self.id], [self._records], self._queue)

    def logs(self) -> str:
        """Return the job's output so far, and then its errors if they have a file of their own."""
        record = archive.read([self._records], [self.id]).get(self.id)
        if record is None or record.begun is None:
            return ""
        files = (path for path in record.begun.files if path.is_file())
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

    def task(self, number: int) -> SubmittedJob:
        """Return the handle of one task of this array."""
        return SubmittedJob(f"{self.id}_{number}", self._records, self._queue)

    def cancel(self) -> None:
        """End the job. Raises SchedulerError."""
        self._queue.cancel([self.id], "", [])


def _name(name: str) -> str:
    option = ALIASES.get(name, name)
    if option not in BY_NAME:
        near = difflib.get_close_matches(name, [*BY_NAME, *ALIASES], 1)
        remedy = f"did you mean {near[0]}?" if near else "the names are those of mnrun plan --help-all, with _ for -"
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


@contextmanager
def _environment() -> Iterator[None]:
    """Give this process its environment back at the end. Modules and an allocation change it for a launch."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


__all__ = ["Job", "JobView", "SubmittedJob"]
