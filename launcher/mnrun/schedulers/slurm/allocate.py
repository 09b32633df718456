"""An allocation of our own, held as its nodes are: by a pipe.

salloc runs one small command, which waits for the end of its standard input, a pipe that we hold.
When that ends, because the job is over or because mnrun was killed, so does the allocation.
The only signal for salloc is HUP: it withdraws a request, and ends the command and with it the job. At TERM, INT and
PIPE salloc (24.11, src/salloc/salloc.c) ends the job alone; its thread that hears of that may then reap the command,
for which its main loop waits for ever.
"""

from __future__ import annotations

import os
import queue
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from mnrun.errors import SchedulerError
from mnrun.model import Words
from mnrun.nodes import kit
from mnrun.schedulers.slurm import cluster
from mnrun.system.process import Child, Event, Signals, start, starting, tied
from mnrun.system.screen import Screen

LOOK = 0.2  # seconds between two looks at what it has said
FAREWELL = 10.0  # seconds for salloc to give the nodes back


@contextmanager
def allocated(words: Words, environ: Mapping[str, str], screen: Screen) -> Iterator[dict[str, str]]:
    """The variables of the job that `salloc WORDS` grants; at the end it is given back.

    Raises SchedulerError where there is no salloc, or it says no; leaves with 128+n at a signal.
    """
    argv = ("salloc", *words, "sh", "-c", kit.spoken(kit.ALLOCATION))
    screen.command(kit.typed(argv))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with tempfile.TemporaryFile() as errors:
        with starting("salloc", "load Slurm's module, or use --local"):
            lease = start("salloc", tied(argv, signal.SIGHUP), dict(environ), events, held=True, errors=errors)
        found: dict[str, str] = {}
        try:
            with Signals(events):
                found = _granted(events, words, screen, lambda: _lines(errors))
            screen.done()
            yield found
        finally:
            screen.done()
            _give_back(lease, found.get("SLURM_JOB_ID", ""))


def _granted(
    events: queue.SimpleQueue[Event], words: Words, screen: Screen, said: Callable[[], list[str]]
) -> dict[str, str]:
    """What the job's first command says, once there is one."""
    screen.phase("waiting for an allocation")
    found: dict[str, str] = {}
    heard = 0
    while True:
        lines = said()
        if len(lines) > heard:
            heard = len(lines)
            screen.phase(lines[-1])
        try:
            kind, _, what = events.get(timeout=LOOK)
        except queue.Empty:
            continue
        if kind == "signal":
            raise SystemExit(128 + int(str(what)))
        if kind == "ended":
            raise SchedulerError(f"salloc: {_reason(said())}", f"it was asked for {' '.join(words)}")
        name, equals, value = str(what).partition("=")
        if not equals:
            return found
        found[name] = value


def _lines(errors: IO[bytes]) -> list[str]:
    """What salloc has said so far."""
    text = os.pread(errors.fileno(), 100_000, 0).decode("utf-8", "replace")
    return [line.replace("salloc: ", "", 1) for line in text.splitlines()]


def _reason(lines: list[str]) -> str:
    errors = [line for line in lines if line.startswith("error: ")] or lines[-1:] or ["it said nothing"]
    return "; ".join(dict.fromkeys(line.replace("error: ", "", 1) for line in errors))


def _give_back(lease: Child, job: str) -> None:
    """End salloc and with it the job, "" where there is none yet."""
    lease.end(signal.SIGHUP)
    lease.close()
    if not lease.wait(FAREWELL):
        lease.end(signal.SIGKILL)
    if job and lease.process.returncode != 0:
        cluster.end(job)  # one that was killed has given nothing back


__all__ = ["allocated"]
