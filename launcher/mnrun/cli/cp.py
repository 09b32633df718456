"""`mnrun cp`: copy files into a running job and out of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mnrun.cli import complete
from mnrun.cli.parsing import job_dir_option
from mnrun.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from mnrun.attach.copying import Place


@click.command()
@click.argument("source", shell_complete=complete.copied)
@click.argument("target", shell_complete=complete.copied)
@job_dir_option
def cp(source: str, target: str, job_dir: str | None) -> None:
    """Copy a file or a directory into the container of a running job, or out of it: mnrun cp 271:result.npz .

    SOURCE or TARGET is a path in the job: ID:PATH, or ID:NODE:PATH for another node than the first. ID may be the
    job's name, and :PATH is in your only running job. The image needs tar. A copy that breaks off leaves nothing.
    """
    from functools import partial
    from pathlib import Path

    from mnrun.attach import copying, user
    from mnrun.attach import target as targets
    from mnrun.system.signals import cleaning_up

    bases = user.bases(job_dir)
    there, into = (_place(word, bases) for word in (source, target))
    chosen = there or into
    if chosen is None or (there and into):
        if chosen is None:
            _refuse_name(source, bases)
        both = "both are in jobs" if chosen else "neither is in a job"
        raise UsageError(f"{source} and {target}: {both}", "write ID:PATH for one of them: mnrun cp 271:result.npz .")
    enter = partial(targets.entry, chosen.job, bases, os.environ, None, chosen.node)
    with cleaning_up():
        if there:
            copying.fetch(lambda words: enter(words=words), there.path, Path(target), chosen.job)
        else:
            copying.send(lambda words: enter(words=words), Path(source), chosen.path, chosen.job)


def _refuse_name(word: str, bases: Sequence[Path]) -> None:
    """Raise UsageError if a word looks like a place in a job, and no job has its name."""
    from mnrun.attach import copying, meant

    found = copying.place(word)
    if found is not None and not os.path.lexists(word):
        meant.running(found.job, bases)


def _place(word: str, bases: Sequence[Path]) -> Place | None:
    """Return the place in a job, with the job's id, or None for a path of this machine."""
    from mnrun.attach import copying, meant, user
    from mnrun.jobs import launches

    found = copying.place(word)
    if found is None:
        return None
    if not found.job or launches.is_name(user.identity(found.job)):
        return found._replace(job=user.identity(found.job))
    if os.path.lexists(word) or not meant.known(found.job, bases):
        return None
    return found._replace(job=meant.running(found.job, bases))
