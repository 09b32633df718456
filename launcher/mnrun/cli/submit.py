"""`mnrun submit`: hand the job in as a batch script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mnrun.cli.parsing import COMMAND, JobVerb, job_options, print_text


@click.command(cls=JobVerb, context_settings=COMMAND)
@click.option("--dry-run", is_flag=True, help="Print the script, and submit nothing.")
@click.option("--wait", is_flag=True, help="Wait until the job ends, and exit with its code.")
@job_options
def submit(command: tuple[str, ...], dry_run: bool, wait: bool, **options: Any) -> None:
    """Submit the job as a batch script, and print its id."""
    from mnrun.cli.work.jobs import tell_ends
    from mnrun.jobs import waiting
    from mnrun.running import submission
    from mnrun.system.screen import Screen

    batch = submission.make(command, options)
    if dry_run:
        print_text(batch.script.rstrip("\n"))
        return
    number, messages = submission.hand_in(batch)
    click.echo(number)  # printed first: the job is submitted, whether or not a later line fails
    for line in messages.splitlines():
        Screen().say(line)
    queue = submission.record(number, batch)
    follow = f"follow it: mnrun logs -f {submission.followed(number, batch)}"
    Screen(batch.spec.quiet).say(f"output: {submission.output(number, batch)}; {follow}")
    for fault in submission.doubts(batch, queue):
        Screen().warn(fault.text)
    if wait:
        records = [Path(batch.spec.job_dir)]
        screen = Screen(batch.spec.quiet)
        code = waiting.wait((number,), records, queue, screen.say)
        tell_ends([number], records, queue, screen)
        sys.exit(code)
