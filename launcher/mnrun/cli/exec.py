"""`mnrun exec`: its line. work/exec.py does its work."""

from __future__ import annotations

from typing import Any

import click

from mnrun.cli.jobs import job_dir_option

_WITH_VALUE = ("--rank", "--node", "--job-dir")


class ExecVerb(click.Command):
    """A command whose options may stand before the job's id or after it, and end at the first other word.

    The id becomes the context's object.
    """

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[ID]", "[OPTIONS]", "[--]", "CMD…"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # a shell asks for completions, which the id does not change
            ctx.obj, args = _split(args)
        return super().parse_args(ctx, args)


def _split(args: list[str]) -> tuple[str, list[str]]:
    """Return the job's id, or "" if there is none, and all other words."""
    from mnrun.jobs import launches

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
def exec(identity: str, /, **given: Any) -> None:  # the verb's name
    """Run CMD in the container of a running job, and exit with CMD's code.

    Without an ID, the job is your only one that runs. Without a CMD, it is a shell. CMD ends with the job.
    """
    from mnrun.cli.work import exec as work

    work.exec(identity, **given)
