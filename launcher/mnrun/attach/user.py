"""Find the user's jobs: the directories of their records, and the scheduler's queue."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mnrun.config import load
from mnrun.errors import LaunchError
from mnrun.jobs import archive
from mnrun.jobs.records import JobRecord
from mnrun.schedulers import BATCH, NAMED, BatchScheduler, choose
from mnrun.schedulers.queue import Queue
from mnrun.schedulers.vocabulary import is_id, is_job_name, job_of
from mnrun.system import commands


def name() -> str:
    """Return the user's name, as the scheduler puts it into the names of files."""
    return os.environ.get("USER", "")


def standing(option: str) -> object:
    """Return the value of an option for every job, from site, profile, user and environment, or None."""
    setting = load.standing(os.environ, str(Path.home())).settings.get(option)
    return setting.value if setting is not None else None


def bases(job_dir: str | None) -> tuple[Path, ...]:
    """Return the directories of jobs' records: the named one, or else the usual ones and those of earlier jobs."""
    folder = job_dir or os.environ.get("MNRUN_JOB_DIR")
    if folder:
        return (Path(folder).expanduser().absolute(),)
    home = Path.home()
    usual = Path(str(standing("job_dir"))).expanduser().absolute()
    return tuple(dict.fromkeys((usual, archive.usual(home), *archive.directories(home))))


def scheduler(named: str = "", ids: Sequence[str] = ()) -> BatchScheduler:
    """Return the named scheduler, or else the one whose ids look like these, or else the usual one."""
    if named in BATCH:
        return BATCH[named]
    if ids and all(map(_of_named, ids)):
        return BATCH[NAMED[0]]
    usual = load.standing(os.environ, str(Path.home())).scheduler
    numbered = ids and usual.OPTION.name in NAMED and not any(map(_of_named, ids))
    return choose("", os.environ) if numbered else usual


def _of_named(identity: str) -> bool:
    """Return whether this is the id of a job whose scheduler has names for ids."""
    return is_job_name(job_of(identity))


def by_scheduler(
    named: str, ids: Sequence[str], records: Mapping[str, JobRecord]
) -> Iterator[tuple[Sequence[str], Mapping[str, JobRecord]]]:
    """Yield the ids to ask for with their records, for each scheduler that knows some of them. Without `ids`, the first
    one is the usual scheduler, which is asked for all that it knows. No other is asked if one is `named`."""
    usual = scheduler(named).OPTION.name in NAMED
    for kind in (usual, not usual):
        known = {name: record for name, record in records.items() if _of_named(name) == kind}
        chosen = [name for name in ids if _of_named(name) == kind]
        if not ids and kind == usual:
            yield (), known
        elif chosen or (not ids and known and not named):
            yield chosen or list(known), known


def is_here(scheduler: BatchScheduler) -> bool:
    """Return whether this machine has the commands of a scheduler."""
    return scheduler.is_here(os.environ)


def identity(word: str) -> str:
    """Return the id of a job as mnrun writes it, where people type that of their scheduler's own commands."""
    return word if is_id(word) or not word else scheduler().typed(word)


def recorded(job: str, file: str) -> str:
    """Return the text of a record of a running job's launch, where mnrun keeps it in the job alone, or ""."""
    return scheduler("", [job]).recorded(job, file, os.environ)


def printed(job: str, lines: int) -> list[str]:
    """Return the last lines of a job whose output its scheduler keeps."""
    with suppress(LaunchError):
        if words := scheduler("", [job]).logs(job, False, lines, os.environ):
            return commands.run(words, 30, os.environ, instead=f"see mnrun logs {job}").stdout.splitlines()
    return []


def queue(named: str = "", ids: Sequence[str] = ()) -> Queue:
    """Return the queue of a scheduler with the user's jobs. It is asked no more often than --poll allows."""
    known = load.standing(os.environ, str(Path.home()))
    poll = known.settings["poll"].value
    assert isinstance(poll, int)
    return scheduler(named, ids).user_queue(os.environ, Path.home(), float(poll))
