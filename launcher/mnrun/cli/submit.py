"""`mnrun submit`: hand the job in as a batch script."""

from __future__ import annotations

import sys
from contextlib import suppress
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
    from mnrun.errors import SchedulerError
    from mnrun.jobs import archive, asking, waiting
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
        code = waiting.wait((number,), records, queue)
        with suppress(SchedulerError):
            for view in asking.views([number], archive.read(records, [number]), lambda: queue)[0]:
                Screen(batch.spec.quiet).say(view.line)
        sys.exit(code)
