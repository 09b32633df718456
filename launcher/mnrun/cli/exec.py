"""`mnrun exec`: run a command in the container of a running job."""

from __future__ import annotations

import os
import sys

import click

from mnrun import environment
from mnrun.attach import enter, target
from mnrun.cli.jobs import bases_of, job_dir_option
from mnrun.errors import UsageError
from mnrun.jobs import launches
from mnrun.system import client

_WITH_VALUE = ("--rank", "--node", "--job-dir")


class ExecVerb(click.Command):
    """A command whose options may stand before the job's id or after it, and end at the first other word.

    The id becomes the context's object.
    """

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[ID]", "[OPTIONS]", "[--]", "CMD…"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj, rest = _split(args)
        return super().parse_args(ctx, rest)


def _split(args: list[str]) -> tuple[str, list[str]]:
    """Return the job's id, or "" if there is none, and all other words."""
    place = 0
    while place < len(args) and args[place].startswith("-") and args[place] != "--":
        place += 2 if args[place] in _WITH_VALUE else 1
    if place < len(args) and launches.is_name(args[place]):
        return args[place], [*args[:place], *args[place + 1 :]]
    return "", args


@click.command(
    "exec",
    cls=ExecVerb,
    context_settings={"help_option_names": ["-h", "--help"], "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--rank", type=click.IntRange(0), metavar="R", help="Enter the container of this rank, with its environment."
)
@click.option("--node", default="", metavar="N", help="Enter the container of this node.  [default: the first node]")
@click.option("-t", "--terminal", is_flag=True, help="Give CMD a terminal.")
@job_dir_option
@click.pass_obj
def exec(  # the verb's name
    identity: str, words: tuple[str, ...], rank: int | None, node: str, terminal: bool, job_dir: str | None
) -> None:
    """Run CMD in the container of a running job, and exit with CMD's code.

    Without an ID, the job is your only one that runs. Without a CMD, it is a shell. CMD ends with the job.
    """
    if rank is not None and node:
        raise UsageError("--rank and --node together", "choose one")
    if terminal and not os.isatty(0):
        raise UsageError("-t needs a terminal, and standard input is none", "leave out -t")
    launch = target.launch(identity, bases_of(job_dir))
    place = target.node(launch, rank, node)
    command = enter.command(launch, place, rank, words, terminal or (not words and os.isatty(0)))
    sys.exit(client.run(command, environment.for_srun(os.environ), client.EXITED))
