"""`mnrun init`: write a first job file, or a command line as one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from mnrun.cli.parsing import COMMAND, JobVerb, job_options
from mnrun.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mnrun.cli.words.command import Line
    from mnrun.config.load import JobSettings

FILE = "job.toml"


@click.command(cls=JobVerb, context_settings=COMMAND)
@click.option("--full", is_flag=True, help="Write every key, as a comment.")
@job_options
@click.pass_obj
def init(line: Line, /, command: tuple[str, ...], full: bool, job_file: str, **options: object) -> None:
    """Write a short job file, or these options and this COMMAND as one. An existing file is not changed.

    Without JOB.toml, its name is job.toml. Values that stand elsewhere, as in a profile, are left out.
    """
    from mnrun.config import docs
    from mnrun.config.layers import from_command_line

    given = from_command_line(options)
    if len(command) == 1 and line.plain and not (job_file or given):
        job_file, command = command[0], ()
    if full and (command or given):
        raise UsageError("--full with an option or a command", "choose one")
    file = job_file or FILE
    if command or given:
        text = docs.written(command, given, os.path.dirname(file))
    else:
        text = docs.job_file(gathered({}).settings, full)
    try:
        with open(file, "x", encoding="utf-8") as page:
            page.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists", "name another: mnrun init FILE") from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    click.echo(file)


def gathered(options: Mapping[str, object]) -> JobSettings:
    """Return the settings of a job with these options."""
    from mnrun.config import load
    from mnrun.running.request import cwd

    return load.gather(load.read(options, "", os.environ, cwd(), os.path.expanduser("~")), os.environ)
