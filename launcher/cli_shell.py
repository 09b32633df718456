"""`mnrun shell`: a prompt in the master container of a job, in an allocation of its own where there is none."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from . import cli
from .model import JobSpec
from .options import BY_FLAG
from .progress import Screen

# What salloc alone has to know. One that the table of options has is the table's.
_OF_SALLOC = (
    ("-p --partition", "NAME", "Partition to take nodes of."),
    ("-A --account", "NAME", "Account to charge."),
    ("-q --qos", "NAME", "Quality of service."),
    ("-t --time", "TIME", "How long: minutes, or 8:00:00."),
    ("-J --job-name", "NAME", "The job's name in squeue."),
    ("-C --constraint", "LIST", "Features that the nodes must have."),
    ("--reservation", "NAME", "Take nodes of this reservation."),
    ("--mem", "SIZE", "Memory on each node: 96G."),
)
_KEYS = {flags.split()[-1][2:].replace("-", "_"): flags.split()[-1] for flags, _, _ in _OF_SALLOC}


def salloc_options(verb: Any) -> Any:
    """The options for an allocation that are not in the table."""
    for flags, metavar, text in reversed(_OF_SALLOC):
        if not BY_FLAG.keys() & set(flags.split()):
            verb = click.option(*flags.split(), metavar=metavar, help=f"{text} Without an allocation.")(verb)
    return verb


@click.command(cls=cli.JobVerb, context_settings=cli.COMMAND)
@salloc_options
@cli.job_options
def shell(command: tuple[str, ...], **given: object) -> None:
    """A prompt in the job's first container: plain `mpirun ./app` and `ssh NODE` work in it.

    Without an allocation it gets one, and gives it back at the end. Commands may come from a pipe, too.
    """
    asked = {name: str(given.pop(name)) for name in _KEYS if name in given and given[name] is not None}
    given = {name: value for name, value in given.items() if name not in _KEYS}
    kind = "terminal" if os.isatty(0) and os.isatty(1) else "input"
    job = cli.spec_of(command, given, kind)
    if not _needs_allocation(job):
        if asked:
            names = ", ".join(_KEYS[name] for name in asked)
            Screen(job.quiet).say(f"{names}: no effect here, where the nodes are there already")
        sys.exit(cli.launch(job))
    from . import allocate

    words = [*cli.asked_of_salloc(job), *(f"{_KEYS[name]}={value}" for name, value in asked.items())]
    if "job_name" not in asked:
        words.append("--job-name=mnrun")  # else that of the command which holds it
    with allocate.allocated(tuple(words), os.environ, Screen(job.quiet, job.verbose)) as variables:
        os.environ.update(variables)  # from here on we are in that job
        code = cli.launch(cli.spec_of(command, given, kind))
    sys.exit(code)


def _needs_allocation(job: JobSpec) -> bool:
    from . import cluster

    return not job.local and "SLURM_JOB_ID" not in os.environ and cluster.has_slurm()


__all__ = ["shell"]
