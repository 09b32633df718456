"""The verbs that take a job: `mnrun run`, the default verb, `plan`, `submit` and `shell`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from mnrun.cli.parsing import COMMAND, JobVerb, job_options, print_text
from mnrun.config.options import FORMS

if TYPE_CHECKING:
    from mnrun.running.submission import Submission
    from mnrun.schedulers.queue import Queue

FORMATS = ("steps", "sbatch", "json", *FORMS)  # the last one is refused, with a better one


@click.command(cls=JobVerb, context_settings=COMMAND)
@job_options
@click.option("--as-given", is_flag=True, help="Read no profile, no configuration and no MNRUN_* variable.")
def run(command: tuple[str, ...], **options: object) -> None:
    """Run COMMAND on every rank, and exit with its code. Without an allocation, get one, and return it at the end."""
    from mnrun.running import request, session
    from mnrun.system.clock import begun

    sys.exit(session.carry_out(request.read(command, options, live=True), begun()))


@click.command(cls=JobVerb, context_settings=COMMAND)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    metavar="|".join(FORMATS[:-1]),
    help="Format of the plan.  [default: steps]",
)
@click.option("--commands", is_flag=True, help="Show the words that start each step, and every default.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@job_options
def plan(command: tuple[str, ...], form: str, commands: bool, as_json: bool, **options: object) -> None:
    """Show what run would do: ranks, nodes, whether it will work, and the origin of each value."""
    from mnrun.planning import show
    from mnrun.running import request

    form = "json" if as_json else form
    if form in FORMS:
        from mnrun.running import submission

        if form in ("rbac", "pv"):  # neither is of a program
            command, options["image"] = ("mnrun",), "mnrun"
        asked = request.read(command, {**options, "scheduler": FORMS[form]}, batch=True)
        print_text(submission.text(asked, form).rstrip("\n"))
        return
    if form == "sbatch":
        from mnrun.running import submission

        print_text(submission.make(request.read(command, options, batch=True)).script.rstrip("\n"))
        return
    from mnrun.running.view import look

    view = look(request.read(command, options))
    if form == "json":
        click.echo(show.as_json(view.plan, view.site, view.judgement), nl=False)
    else:
        print_text(show.as_text(view.plan, view.site, view.judgement, commands).rstrip("\n"))


@click.command(cls=JobVerb, context_settings=COMMAND)
@click.option("--dry-run", is_flag=True, help="Print the script, and submit nothing.")
@click.option("--wait", is_flag=True, help="Wait until the job ends, and exit with its code.")
@job_options
def submit(command: tuple[str, ...], dry_run: bool, wait: bool, **options: object) -> None:
    """Submit the job as a batch script, and print its id."""
    from mnrun.running import request, submission

    hand_in(submission.make(request.read(command, options, batch=True)), wait, dry_run)


def hand_in(batch: Submission, wait: bool, dry_run: bool) -> None:
    """Hand a job in, and `wait` for its end. Or only print its script."""
    from pathlib import Path

    from mnrun.jobs import waiting
    from mnrun.system.screen import Screen

    if dry_run:
        print_text(batch.script.rstrip("\n"))
        return
    number, queue = handed_in(batch)
    if wait:
        sys.exit(waiting.wait_and_tell([number], [Path(batch.spec.job_dir)], queue, Screen(batch.spec.quiet).say))


def handed_in(batch: Submission) -> tuple[str, Queue]:
    """Hand a job in, print its id, and say where its output goes. Return its id, and the queue."""
    from mnrun.running import submission
    from mnrun.system.screen import Screen

    number, messages = submission.hand_in(batch)
    click.echo(number)  # printed first: the job is submitted, whether or not a later line fails
    for line in messages.splitlines():
        Screen().say(line)
    queue = submission.record(number, batch)
    follow = f"follow it: mnrun logs -f {submission.followed(number, batch)}"
    screen = Screen(batch.spec.quiet)
    place = submission.output(number, batch)
    screen.say(f"output: {place}; {follow}" if place else follow)
    for fault in batch.request.scheduler.doubts(batch.spec, queue.nodes):
        Screen().warn(fault.text)
    return number, queue


@click.command(cls=JobVerb, context_settings=COMMAND)
@job_options
def shell(command: tuple[str, ...], **options: object) -> None:
    """Open a prompt in the first node's container, in which `mpirun ./app` and `ssh NODE` work.

    Without an allocation, it gets one, and returns it at the end. Commands may also come from a pipe.
    """
    from mnrun.running import request, session, submission
    from mnrun.schedulers import common

    if os.environ.pop(common.SERVED, ""):
        from mnrun.system import far_terminal

        sys.exit(far_terminal.serve((*submission.own_call(), *sys.argv[1:])))
    kind = "terminal" if os.isatty(0) and os.isatty(1) else "input"
    sys.exit(session.carry_out(request.read(command, options, kind, live=True)))
