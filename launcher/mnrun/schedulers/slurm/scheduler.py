"""Slurm: allocations, steps, batch scripts and the queue. Its names are those of BatchScheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun.jobspec import JobSpec
from mnrun.model import Site, job_name
from mnrun.schedulers.common import (
    BINARY,
    CLIENT,
    CODES,
    COMMENTS,
    ENDED,
    ENDINGS,
    REACHES,
    inside,
    interactive,
    logs,
    objects,
    pod,
    reach,
    recorded,
    sweep,
    tunnels,
    typed,
)
from mnrun.schedulers.slurm import *
from mnrun.schedulers.slurm.client import CLIENT_LINES
from mnrun.schedulers.slurm.cluster import *
from mnrun.schedulers.slurm.options import directives, doubts, refuse, request
from mnrun.schedulers.slurm.steps import beside, client_environment, command, copying, launch_environment, with_gpus
from mnrun.schedulers.slurm.values import preset
from mnrun.schedulers.slurm.wording import *
from mnrun.schedulers.vocabulary import Granted
from mnrun.schedulers.writing import output
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.schedulers.queue import Queue


def allocated(
    spec: JobSpec, options: Sequence[str], environ: Mapping[str, str], screen: Screen
) -> AbstractContextManager[Granted]:
    from mnrun.schedulers.slurm import allocate

    refuse(spec, Site("slurm", "", Details(version(environ))))
    # by default, salloc names the job after its command, and begins while nodes boot (salloc(1))
    called = "mnrun" if spec.program.prompt else job_name(spec)
    named = () if spec.batch.text("job_name") else (f"--job-name={called}",)
    queue = user_queue(environ, Path.home(), float(spec.poll))
    return allocate.allocated((*request(spec, options), "--wait-all-nodes=1", *named), spec, environ, screen, queue)


def user_queue(environ: Mapping[str, str], home: Path, poll: float) -> Queue:
    from mnrun.schedulers.slurm import queue

    return queue.UserQueue(environ, home, poll)
