"""`mnrun why` and `mnrun report`: their options. work/why.py does their work."""

from __future__ import annotations

from typing import Any

import click

from mnrun.cli.jobs import CONTEXT, job_dir_option
from mnrun.cli.parsing import json_option


@click.command(context_settings=CONTEXT)
@click.argument("identity", metavar="[ID]", default="")
@json_option
@job_dir_option
def why(**given: Any) -> None:
    """Show where each rank of a running job stands: its state, its CPU time, and its stack by py-spy or gdb.

    Of a job that has ended, it shows how. Without an ID, the job is your only one that runs.
    """
    from mnrun.cli.work import why as work

    work.why(**given)


@click.command(context_settings=CONTEXT)
@click.argument("name", metavar="ID|FILE")
@click.option("--html", "as_html", is_flag=True, help="Print one page of HTML with charts, which needs no other file.")
@json_option
@job_dir_option
def report(**given: Any) -> None:
    """Show where the time of a launch went: the seconds of each phase, and the slowest nodes.

    The launch is that of a submitted job that has ended, by its ID, or that of a FILE which --timeline has written.
    """
    from mnrun.cli.work import why as work

    work.report(**given)
