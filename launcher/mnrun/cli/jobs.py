"""Follow submitted jobs: the verbs status, nodes, logs, cancel and wait. work/jobs.py does their work."""

from __future__ import annotations

from typing import Any

import click

from mnrun.cli.parsing import json_option

CONTEXT = {"help_option_names": ["-h", "--help"]}

_ids = click.argument("ids", nargs=-1, metavar="[ID]…")
job_dir_option = click.option(
    "--job-dir", metavar="DIR", help="Directory for the records of jobs.  [default: ~/.mnrun/jobs]"
)


@click.command(context_settings=CONTEXT)
@_ids
@json_option
@click.option("--fresh", is_flag=True, help="Ask Slurm now, also if its last answer is young.")
@job_dir_option
def status(**given: Any) -> None:
    """Show jobs: their state, why they wait, where they run, and how they ended.

    Without an ID, it shows your jobs that wait or run, the live runs of now, and submitted jobs of the last 7 days.
    Live runs that have ended are shown for as long as Slurm remembers their jobs.
    """
    from mnrun.cli.work import jobs as work

    work.status(**given)


@click.command(context_settings=CONTEXT)
@click.option("-p", "--partition", metavar="NAME", default="", help="Show this partition alone.")
@json_option
def nodes(**given: Any) -> None:
    """Show partitions: what is free, and what their nodes have."""
    from mnrun.cli.work import jobs as work

    work.nodes(**given)


@click.command(context_settings=CONTEXT)
@_ids
@click.option(
    "-s", "--signal", metavar="SIG", default="", help="Signal for the job's program, which then goes on: USR1, TERM …."
)
@job_dir_option
def cancel(**given: Any) -> None:
    """End jobs, or send them a signal."""
    from mnrun.cli.work import jobs as work

    work.cancel(**given)


@click.command(context_settings=CONTEXT)
@_ids
@job_dir_option
def wait(**given: Any) -> None:
    """Wait until jobs have ended, and exit with the job's code, or the largest of several.

    Code 124 is the time limit, 143 a cancelled job, 121 a lost node.
    """
    from mnrun.cli.work import jobs as work

    work.wait(**given)


@click.command(context_settings=CONTEXT)
@click.argument("identity", metavar="ID", default="")
@click.option("-f", "--follow", "following", is_flag=True, help="Follow the output until the job has ended.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), metavar="LINES", help="Number of last lines to show of each file."
)
@click.option(
    "--rank", type=click.IntRange(0), metavar="R", help="Show the output of this rank (of a job with --split-output)."
)
@click.option(
    "--node", default="", metavar="N", help="Show the output of the ranks on this node (of a job with --split-output)."
)
@click.option("-v", "--verbose", is_flag=True, help="Show mnrun's own lines about the nodes, too.")
@click.option("--exit-status", is_flag=True, help="With -f, exit with the job's code at its end.")
@job_dir_option
def logs(**given: Any) -> None:
    """Show the output of a job. It is read from files, so Slurm is seldom asked."""
    from mnrun.cli.work import jobs as work

    work.logs(**given)
