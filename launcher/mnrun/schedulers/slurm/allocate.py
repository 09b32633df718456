"""Get an allocation for one job, and keep it by a pipe.

salloc runs one small command, which waits for a line on its standard input. That is a pipe that mnrun holds. The line
has the program's exit code, with which the command and so the job end. The pipe ends without it when somebody kills
mnrun. The job then ends with 137.

salloc gets no signal but HUP, which withdraws a request. If mnrun is killed, withdraw.sh sends it. At TERM, INT and
PIPE, salloc (24.11, src/salloc/salloc.c) ends the job alone. Then another thread of salloc may reap the command, and
its main loop waits for that command for ever.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO

from mnrun.errors import LaunchError, SchedulerError
from mnrun.files import BASH, wrappers
from mnrun.jobspec import JobSpec
from mnrun.model import Command, Fault, Words
from mnrun.nodes import kit
from mnrun.schedulers.model import Granted
from mnrun.schedulers.queue import Queue
from mnrun.schedulers.slurm import cluster, options
from mnrun.system.process import Child, Event, has, start, starting, tied
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals

LOOK = 0.2  # seconds between two reads of salloc's errors
FAREWELL = 10.0  # seconds for salloc to give the nodes back
PATIENCE = 1.0  # seconds before the first question why the job waits
_PENDING = re.compile(r"^Pending job allocation (\d+)")  # salloc's words (src/salloc/salloc.c)


@contextmanager
def allocated(
    words: Words, spec: JobSpec, environ: Mapping[str, str], screen: Screen, user_queue: Queue
) -> Iterator[Granted]:
    """Yield the job that salloc grants, and give the job back at the end, with its code. `words` are salloc's command.

    While the job waits, `user_queue` tells why. Raises SchedulerError if there is no salloc or if salloc refuses. A
    signal raises SystemExit(128+n).
    """
    if not has(words[0]):
        raise SchedulerError(f"{words[0]} is not on PATH", "load Slurm's module, or use --local")
    argv = (*words, "sh", "-c", kit.spoken(kit.ALLOCATION))
    screen.command(kit.typed(Command(argv)))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with tempfile.TemporaryFile() as errors:
        with starting(words[0]):
            command = Command(tied((*BASH, str(wrappers()["withdraw.sh"]), *argv)))
            lease = start(words[0], command, dict(environ), events, piped=True, errors=errors)
        granted = Granted({})
        wait = Wait(events, user_queue, partial(options.doubts, spec, user_queue.nodes, environ))
        try:
            with Signals(events):
                granted.variables = _variables(events, screen, lambda: _lines(errors), wait)
                if not granted.variables:
                    reason = _reason(_lines(errors))
                    few = options.shortage(reason, spec, user_queue.nodes, environ, user_queue.names)
                    raise SchedulerError(f"salloc: {reason}", few or f"the request was {' '.join(words[1:])}")
            screen.done()
            yield granted
        except BaseException as error:
            code = error.code if isinstance(error, (LaunchError, SystemExit)) else None
            granted.code = code if isinstance(code, int) else 1
            raise
        finally:
            wait.over()
            screen.done()
            _give_back(lease, granted)
            user_queue.forget()


class Wait:
    """A job's time in the queue. A thread asks why it waits, since the question may take long."""

    def __init__(
        self, events: queue.SimpleQueue[Event], user_queue: Queue, doubts: Callable[[], Sequence[Fault]]
    ) -> None:
        self._events = events
        self._queue = user_queue
        self._doubts = doubts
        self._over = threading.Event()
        self._job = ""

    def begin(self, job: str) -> None:
        """Ask about this job from now on. Each answer becomes an event ("reason" or "warning", job, text)."""
        if not self._job:
            self._job = job
            threading.Thread(target=self._ask, daemon=True).start()

    def over(self) -> None:
        """Ask no more."""
        self._over.set()

    def _ask(self) -> None:
        for fault in () if self._over.wait(PATIENCE) else self._doubts():
            self._events.put(("warning", self._job, fault.text))
        self._queue.forget()  # no earlier answer knows the job
        pause = 0.0
        while not self._over.wait(pause):
            pause = max(self._queue.poll, PATIENCE)
            with suppress(SchedulerError):  # salloc itself tells of a lost slurmctld
                for job in self._queue.jobs().jobs:
                    if (job.id, job.state) == (self._job, "PENDING"):
                        self._events.put(("reason", job.id, job.reason))


def _variables(
    events: queue.SimpleQueue[Event], screen: Screen, messages: Callable[[], list[str]], wait: Wait
) -> dict[str, str]:
    """Return the variables that the job's first command prints, once the job has nodes, or {} if salloc refuses."""
    screen.phase("waiting for an allocation")
    variables: dict[str, str] = {}
    shown, reason = 0, ""
    while True:
        lines = messages()
        for line in lines[shown:]:
            screen.phase(line)
            if pending := _PENDING.match(line):
                wait.begin(pending[1])
        shown = len(lines)
        try:
            kind, job, data = events.get(timeout=LOOK)
        except queue.Empty:
            continue
        if kind == "reason":
            if data != reason:
                screen.say(f"job {job} is queued: {data}")
            reason = str(data)
            continue
        if kind == "warning":
            screen.warn(str(data))
            continue
        if kind == "signal":
            raise SystemExit(128 + int(str(data)))
        if kind == "ended":
            return {}
        name, equals, value = str(data).partition("=")
        if not equals:
            return variables
        variables[name] = value


def _lines(errors: IO[bytes]) -> list[str]:
    """Return the lines that salloc has written so far."""
    text = os.pread(errors.fileno(), 100_000, 0).decode("utf-8", "replace")
    return [line.replace("salloc: ", "", 1) for line in text.splitlines()]


def _reason(lines: list[str]) -> str:
    errors = [line for line in lines if line.startswith("error: ")] or lines[-1:] or ["no message"]
    return "; ".join(dict.fromkeys(line.replace("error: ", "", 1) for line in errors))


def _give_back(lease: Child, granted: Granted) -> None:
    """End salloc, and with it the job, or the request for one."""
    job = cluster.job(granted.variables)
    if job:
        lease.send(b"%d\n" % granted.code)
    else:
        lease.end(signal.SIGHUP)
    lease.close()
    if not lease.wait(FAREWELL):
        lease.end(signal.SIGKILL)
    if job and lease.process.returncode != granted.code:
        cluster.end(job)  # a killed salloc leaves the job in place


__all__ = ["allocated"]
