"""`mnrun plan`: show the steps of run, or the script of submit."""

from __future__ import annotations

import click

from mnrun.cli.parsing import COMMAND, JobVerb, job_options
from mnrun.planning import show
from mnrun.running import session, submission

FORMATS = ("steps", "sbatch", "json")


@click.command(cls=JobVerb, context_settings=COMMAND)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    metavar="|".join(FORMATS),
    help="Format of the plan.  [default: steps]",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@job_options
def plan(command: tuple[str, ...], form: str, as_json: bool, **options: object) -> None:
    """Show what run would do: every step, and every value with its origin."""
    form = "json" if as_json else form
    if form == "sbatch":
        click.echo(submission.make(command, options).script, nl=False)
        return
    view = session.look(command, options)
    as_text = show.as_json if form == "json" else show.as_steps
    click.echo(as_text(view.plan, view.site, view.judgement), nl=False)
