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
from shutil import which
from typing import IO

from mnrun.errors import LaunchError, SchedulerError
from mnrun.files import BASH, wrappers
from mnrun.jobspec import JobSpec
from mnrun.model import Command, Fault, Words
from mnrun.nodes import kit
from mnrun.schedulers.queue import Queue
from mnrun.schedulers.slurm import cluster, options
from mnrun.schedulers.vocabulary import Granted, JobState
from mnrun.system.events import Doubt, Ended, Event, Line, Queued, Signal
from mnrun.system.process import Child, has, start, starting, tied
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
    if not which(words[0], path=environ.get("PATH")):
        raise SchedulerError(f"{words[0]} is not on PATH", "load Slurm's module, or use --local")
    argv = (*words, "sh", "-c", kit.spoken(kit.ALLOCATION), "SLURM_")
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
                    from mnrun.schedulers import offers

                    error = SchedulerError(f"salloc: {reason}", f"the request was {' '.join(words[1:])}")
                    raise offers.explained(error, spec, user_queue, options.partition(environ))
            screen.done()
            yield granted
        except BaseException as error:
            code = error.code if isinstance(error, (LaunchError, SystemExit)) else None
            granted.code = code if isinstance(code, int) else 1
            raise
        finally:
            wait.over()
            screen.done()
            _give_back(lease, granted, environ)
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
        """Ask about this job from now on. Each answer becomes an event, Queued or Doubt."""
        if not self._job:
            self._job = job
            threading.Thread(target=self._ask, daemon=True).start()

    def over(self) -> None:
        """Ask no more."""
        self._over.set()

    def _ask(self) -> None:
        for fault in () if self._over.wait(PATIENCE) else self._doubts():
            self._events.put(Doubt(fault.text))
        self._queue.forget()  # no earlier answer knows the job
        pause = 0.0
        while not self._over.wait(pause):
            pause = max(self._queue.poll, PATIENCE)
            with suppress(SchedulerError):  # salloc itself tells of a lost slurmctld
                for job in self._queue.jobs().jobs:
                    if (job.id, job.state) == (self._job, JobState.PENDING):
                        self._events.put(Queued(str(job.id), job.reason))


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
            event = events.get(timeout=LOOK)
        except queue.Empty:
            continue
        if isinstance(event, Queued):
            if event.reason != reason:
                screen.say(f"job {event.job} is queued: {event.reason}")
            reason = event.reason
        elif isinstance(event, Doubt):
            screen.warn(event.text)
        elif isinstance(event, Signal):
            raise SystemExit(128 + event.signum)
        elif isinstance(event, Ended):
            return {}
        elif isinstance(event, Line):
            name, equals, value = event.text.partition("=")
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


def _give_back(lease: Child, granted: Granted, environ: Mapping[str, str]) -> None:
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
        cluster.end(job, environ)  # a killed salloc leaves the job in place


__all__ = ["allocated"]
