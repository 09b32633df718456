"""Run a job on a scheduler that gives nodes to its own jobs alone: submit it, show its output, and return its code."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mnrun.attach import output
from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.jobs import archive, waiting
from mnrun.running import nodes, submission
from mnrun.running.request import Request
from mnrun.schedulers.queue import Queue
from mnrun.system import far_terminal
from mnrun.system.screen import Screen

FAREWELL = 60.0  # seconds for the end of a job that was cancelled
INTERRUPTED = 130  # the exit code after Ctrl-C


def follow(request: Request) -> int:
    """Submit the job, show its output, and return the code in its own record. A signal that ends mnrun cancels the job.
    Raises LaunchError."""
    made = submission.make(request.queued())
    number, messages = submission.hand_in(made)
    queue, bases = submission.record(number, made), [Path(made.spec.job_dir)]
    screen = Screen(made.spec.quiet, made.spec.verbose)
    title, file = request.scheduler.TITLE, submission.output(number, made)
    screen.say(f"{title} gives nodes to its own jobs alone; this is job {number}, and {file} keeps its output")
    if request.spec.sets("array"):
        screen.say("--array: no effect on a run, which is one job; use mnrun submit")
    for line in messages.splitlines():
        screen.say(line)
    for fault in request.scheduler.doubts(made.spec, queue.nodes):
        screen.warn(fault.text)
    try:
        return _followed(number, bases, queue, screen)
    except (KeyboardInterrupt, SystemExit) as stop:
        with suppress(SchedulerError):
            queue.cancel([number], "", [])
        _await_end(number, bases, screen)
        return stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else INTERRUPTED


def _followed(number: str, bases: Sequence[Path], queue: Queue, screen: Screen) -> int:
    with suppress(UsageError):  # a job may end without output
        output.show([number], bases, following=True, queue=lambda: queue)
    code = waiting.wait((number,), bases, queue, screen.say)
    if code:
        waiting.tell_ends((number,), bases, queue, screen.say)
    return code


def _await_end(number: str, bases: Sequence[Path], screen: Screen) -> None:
    """Wait until the cancelled job has recorded its end. A job that has not started records none."""
    deadline = time.monotonic() + FAREWELL
    with suppress(KeyboardInterrupt):
        while time.monotonic() < deadline:
            record = archive.read(bases, [number]).get(number)
            if record is None or record.begun is None or record.over:
                screen.say(f"job {number} was cancelled")
                return
            time.sleep(waiting.LOOK)
    screen.warn(f"job {number} was cancelled, and has not ended yet: mnrun status {number}")


def again(request: Request) -> int:
    """Start this mnrun again in a job that the scheduler connects to it, and return its code. Raises Impossible."""
    call = (*submission.own_call(), *sys.argv[1:])
    words = request.scheduler.interactive(request.spec, nodes.OF_ALLOCATIONS, call, request.environ)
    if not words:
        title = request.scheduler.TITLE
        raise Impossible(f"{title} connects no job to mnrun here", f"use this verb in a job of {title}'s")
    line = f"no {request.scheduler.TITLE} job here; mnrun gets one: {far_terminal.seen(words)}"
    Screen(request.spec.quiet, request.spec.verbose).say(line)
    return subprocess.run(words, env=request.environ, check=False).returncode
