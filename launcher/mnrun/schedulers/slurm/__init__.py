"""Slurm: allocations, steps, batch scripts and the queue. The names of this package are those of BatchScheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun.jobspec import JobSpec
from mnrun.model import Site, job_name
from mnrun.schedulers.model import Granted
from mnrun.schedulers.slurm.cluster import (
    ENDS,
    SUBMIT,
    current,
    end,
    ending,
    is_here,
    job,
    name,
    on_each,
    partition,
    preempted,
    runs,
    settings,
    site,
    start,
    started_anew,
    step,
    submit,
    time_limit,
    trace,
    version,
    why_down,
)
from mnrun.schedulers.slurm.options import TEMPLATE, directives, doubts, output, refuse, request
from mnrun.schedulers.slurm.steps import (
    CLIENT,
    LIMITS,
    NUMBERS,
    SIGNALS,
    beside,
    client_environment,
    command,
    copying,
    launch_environment,
    with_gpus,
)
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.schedulers.queue import Queue

TITLE = "Slurm"


def allocated(
    spec: JobSpec, options: Sequence[str], environ: Mapping[str, str], screen: Screen
) -> AbstractContextManager[Granted]:
    """Return a context that holds an allocation of salloc, which ends with the code that it is given."""
    from mnrun.schedulers.slurm import allocate

    refuse(spec, Site("slurm", "", version()))
    # by default, salloc names the job after its command, and begins while nodes boot (salloc(1))
    name = "mnrun" if spec.program.prompt else job_name(spec)
    named = () if spec.batch.text("job_name") else (f"--job-name={name}",)
    queue = user_queue(environ, Path.home(), float(spec.slurm_poll))
    return allocate.allocated((*request(spec, options), "--wait-all-nodes=1", *named), spec, environ, screen, queue)


def user_queue(environ: Mapping[str, str], home: Path, poll: float) -> Queue:
    """Return the queue, as this user may read it."""
    from mnrun.schedulers.slurm import queue

    return queue.UserQueue(environ, home, poll)


__all__ = ["CLIENT", "LIMITS", "NUMBERS", "SIGNALS", "beside", "client_environment", "command", "launch_environment"]
__all__ += ["copying", "with_gpus"]
__all__ += ["ENDS", "SUBMIT", "current", "end", "ending", "is_here", "job", "name", "on_each", "preempted", "runs"]
__all__ += [
    "partition",
    "settings",
    "site",
    "start",
    "started_anew",
    "step",
    "submit",
    "time_limit",
    "trace",
    "why_down",
]
__all__ += ["TEMPLATE", "directives", "doubts", "output", "refuse", "request"]
__all__ += ["TITLE", "allocated", "user_queue"]
