"""`mnrun shell`: open a prompt in the master container of a job, in an allocation of its own if there is none."""

from __future__ import annotations

import os
import sys

import click

from mnrun.cli.parsing import COMMAND, JobVerb, job_options
from mnrun.model import JobSpec
from mnrun.running import nodes, session
from mnrun.system.screen import Screen


@click.command(cls=JobVerb, context_settings=COMMAND)
@job_options
def shell(command: tuple[str, ...], **given: object) -> None:
    """Open a prompt in the first node's container, in which `mpirun ./app` and `ssh NODE` work.

    Without an allocation, it gets one, and returns it at the end. Commands may also come from a pipe.
    """
    kind = "terminal" if os.isatty(0) and os.isatty(1) else "input"
    job = session.spec_of(command, dict(given), kind, live=True)
    if not _needs_allocation(job):
        sys.exit(session.launch(job))
    from mnrun.schedulers.slurm import allocate, cluster

    cluster.refuse_gpus(job, cluster.version())
    words = nodes.asked_of_salloc(job)
    if not job.job_name:
        words.append("--job-name=mnrun")  # by default, salloc names the job after its command (salloc(1), --job-name)
    with allocate.allocated(tuple(words), os.environ, Screen(job.quiet, job.verbose)) as variables:
        os.environ.update(variables)
        code = session.launch(session.spec_of(command, given, kind), asked_of_salloc=True)
    sys.exit(code)


def _needs_allocation(job: JobSpec) -> bool:
    from mnrun.schedulers.slurm import cluster

    return not job.local and not job.hosts and "SLURM_JOB_ID" not in os.environ and cluster.has_slurm()


__all__ = ["shell"]
