"""`mnrun run`, the default verb, and `mnrun plan`, which shows what it would do."""

from __future__ import annotations

import sys

import click

from mnrun.cli.parsing import COMMAND, JobVerb, job_options, print_text

FORMATS = ("steps", "sbatch", "json")


@click.command(cls=JobVerb, context_settings=COMMAND)
@job_options
@click.option("--as-given", is_flag=True, help="Read no profile, no configuration and no MNRUN_* variable.")
def run(command: tuple[str, ...], **options: object) -> None:
    """Run COMMAND on every rank, and exit with its code. Without an allocation, get one, and return it at the end."""
    from mnrun.running import session
    from mnrun.system.clock import begun

    sys.exit(session.carry_out(command, options, begin=begun()))


@click.command(cls=JobVerb, context_settings=COMMAND)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    metavar="|".join(FORMATS),
    help="Format of the plan.  [default: steps]",
)
@click.option("--commands", is_flag=True, help="Show the words that start each step, and every default.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@job_options
def plan(command: tuple[str, ...], form: str, commands: bool, as_json: bool, **options: object) -> None:
    """Show what run would do: ranks, nodes, whether it will work, and the origin of each value."""
    from mnrun.planning import show
    from mnrun.running import session, submission

    form = "json" if as_json else form
    if form == "sbatch":
        print_text(submission.make(command, options).script.rstrip("\n"))
        return
    view = session.look(command, options)
    if form == "json":
        click.echo(show.as_json(view.plan, view.site, view.judgement), nl=False)
    else:
        print_text(show.as_text(view.plan, view.site, view.judgement, commands).rstrip("\n"))
