"""`mnrun rerun`: submit a job once more, as its records have it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mnrun.cli import complete
from mnrun.cli.jobs import known
from mnrun.cli.parsing import some_options
from mnrun.cli.words.help import help_all, write_options
from mnrun.config.options import OPTIONS
from mnrun.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from mnrun.jobs.records import Requested

_OF_SOURCES = ("scheduler", "profile")  # they decide which files count


class RerunVerb(click.Command):
    """A verb with all options of a job, and without a command of its own."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), help_all()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)


@click.command(cls=RerunVerb)
@click.argument("identity", default="", metavar="[ID]", callback=known, shell_complete=complete.jobs)
@click.option("--failed", is_flag=True, help="Of an array, only the tasks that have failed.")
@click.option("--dry-run", is_flag=True, help="Print the script, and submit nothing.")
@click.option("--wait", is_flag=True, help="Wait until the job ends, and exit with its code.")
@some_options(*(option.name for option in OPTIONS if "rerun" in option.verbs))
def rerun(identity: str, failed: bool, dry_run: bool, wait: bool, **options: Any) -> None:
    """Submit a job once more: its program, image, size and variables, in its directory. Options change it.

    Without an ID, the job is the last one that you have submitted. Job files and profiles of today do not count.
    """

    from mnrun.attach import meant, user
    from mnrun.cli.run import hand_in
    from mnrun.config import layers
    from mnrun.running import request, submission
    from mnrun.system.screen import Screen

    bases = user.bases(options["job_dir"])
    (identity,) = meant.jobs([identity] if identity else [], bases, "rerun", Screen().say)
    asked = _requested(identity, bases)
    try:
        settings = {**layers.of_record(asked.settings)}
    except (LookupError, TypeError, ValueError):
        problem = f"the record of job {identity} has options that this mnrun does not know"
        raise UsageError(problem, "use the mnrun that has submitted it") from None
    if "array" in settings and (tasks := _tasks(identity, bases, failed)):
        settings["array"] = layers.Setting(tasks, settings["array"].origin)
    elif failed:
        raise UsageError(f"job {identity} is no array", "leave out --failed")
    settings.pop("dependency", None)  # it was for that time
    _enter(asked.cwd, identity)
    named = {name: settings[name].value for name in _OF_SOURCES if name in settings}
    given = {**options, **{name: options[name] or value for name, value in named.items()}}
    hand_in(submission.make(request.read(asked.command, given, batch=True, recorded=settings)), wait, dry_run)


def _requested(identity: str, bases: Sequence[Path]) -> Requested:
    """Return what a job was made of. Raises LaunchError if its records lack it."""
    from pathlib import Path

    from mnrun.attach import target
    from mnrun.cli.jobs import refuse_other_ids
    from mnrun.jobs import archive
    from mnrun.schedulers.vocabulary import JobId

    refuse_other_ids([identity])
    array = JobId.of(identity).number
    by_id = archive.read(bases, [array])
    record = by_id.get(array) or next(iter(by_id.values()), None)
    if record is None:
        raise target.absence(identity, bases)
    folder = Path(record.folder).with_name(array)
    if (found := archive.requested(folder)) is not None:
        return found
    if record.submitted is not None and record.submitted.own:
        raise UsageError(f"job {identity} is a batch script of your own", "submit the script again")
    script = folder / "script"
    remedy = f"submit {script} again" if script.exists() else "submit it with mnrun submit"
    raise UsageError(f"the records of job {identity} lack its options", remedy)


def _tasks(identity: str, bases: Sequence[Path], failed: bool) -> str:
    """Return the tasks of an array that run once more, or "" for all. Raises UsageError if none has failed."""
    from functools import partial

    from mnrun.attach import output, user
    from mnrun.schedulers.vocabulary import JobId

    if not failed:
        return JobId.of(identity).task
    found = output.failed([identity], bases, partial(user.queue, "", [identity]))
    if not found:
        raise UsageError(f"no task of job {identity} has failed", f"see mnrun status {identity}")
    return ",".join(sorted((JobId.of(view.id).task for view in found), key=int))


def _enter(folder: str, identity: str) -> None:
    """Change to the directory in which a job was submitted: its paths begin there."""
    try:
        os.chdir(folder)
    except OSError as error:
        problem = f"job {identity} was submitted in {folder}: {error.strerror}"
        raise UsageError(problem, "its files are named by paths that begin there") from None
    os.environ["PWD"] = folder
