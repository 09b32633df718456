"""`mnrun run`, the default verb."""

from __future__ import annotations

import sys

import click

from mnrun.cli.parsing import COMMAND, JobVerb, job_options
from mnrun.running import session


@click.command(cls=JobVerb, context_settings=COMMAND)
@job_options
@click.option("--as-given", is_flag=True, help="Read no profile, no configuration and no MNRUN_* variable.")
def run(command: tuple[str, ...], **options: object) -> None:
    """Run COMMAND on every rank, and exit with its code. Without an allocation, get one, and return it at the end."""
    sys.exit(session.carry_out(command, options))
