"""`mnrun shell`: open a prompt in the master container of a job, in an allocation of its own if there is none."""

from __future__ import annotations

import os
import sys

import click

from mnrun.cli.parsing import COMMAND, JobVerb, job_options


@click.command(cls=JobVerb, context_settings=COMMAND)
@job_options
def shell(command: tuple[str, ...], **options: object) -> None:
    """Open a prompt in the first node's container, in which `mpirun ./app` and `ssh NODE` work.

    Without an allocation, it gets one, and returns it at the end. Commands may also come from a pipe.
    """
    from mnrun.running import session

    kind = "terminal" if os.isatty(0) and os.isatty(1) else "input"
    sys.exit(session.carry_out(command, options, kind))


__all__ = ["shell"]
