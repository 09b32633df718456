"""Find the job that a person means by its name, or by no word at all."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mnrun.attach import user
from mnrun.errors import LaunchError, UsageError
from mnrun.jobs import archive, launches, state
from mnrun.jobs.records import Submitted

Say = Callable[[str], None]
LIVE = ("status", "why", "wait", "cancel", "report")  # verbs that know live runs, too
BY_JOB = ("wait", "cancel")  # verbs that take the job that mnrun has got for a live run in its place
_TASK = re.compile(r"(.+)(_(?:\d+|\[[\d,:-]+\]))", re.ASCII)
LOOKED_AT = 5  # jobs without records, of which the scheduler is asked whether they are batch scripts


def jobs(words: Sequence[str], bases: Sequence[Path], verb: str, say: Say) -> tuple[str, ...]:
    """Return the ids of these jobs, and without a word, that of the job that was submitted last.

    A word is an id, or the name of a job, of which the last one counts, or of a task of an array: name_2. Each job that
    was found by its name is told by `say`. Raises UsageError if there is none.
    """
    if not words:
        return (last(bases, verb, say),)
    lives = verb in LIVE
    found = [word if launches.is_name(word) else _named(word, bases, lives, say) for word in words]
    own = {run.job: run.own_job for run in launches.live(bases) if run.own} if verb in BY_JOB else {}
    return tuple(dict.fromkeys(own.get(identity, identity) for identity in found))


def running(word: str, bases: Sequence[Path]) -> str:
    """Return the id of the job that a verb is to enter, by its id or its name. Of several with this name, the one that
    has begun last counts. Raises UsageError."""
    name = user.identity(word)
    if not name or launches.is_name(name):
        return name
    found = [one for one in launches.running(bases) if one.title == word]
    return max(found, key=lambda one: one.begun).name if found else _named(word, bases, False, lambda text: None)


def known(word: str, bases: Sequence[Path]) -> bool:
    """Return whether a job of the last days has this name, or runs."""
    with suppress(UsageError):
        return running(word, bases) != ""
    return False


def given(word: str, bases: Sequence[Path]) -> bool:
    """Return whether a job runs to which a person has given this name. Without that, it has the name of its program,
    which may be the next command in it, too."""
    found = [one for one in launches.running(bases) if one.title == word]
    return any("".join(one.command[:1]).rpartition("/")[2] != word for one in found)


def last(bases: Sequence[Path], verb: str, say: Say) -> str:
    found = _submitted(bases)
    found += _unrecorded(found)
    if verb == "why":
        ends = archive.live_ends(Path.home())
        found += [Submitted(job, time=end.time) for job, end in ends.items() if end.time > time.time() - state.SHOWN]
        found.sort(key=lambda job: job.time)
    if not found:
        raise UsageError(f"{verb} needs the ID of a job", "mnrun status shows them")
    return _told(found[-1], say)


def _named(name: str, bases: Sequence[Path], lives: bool, say: Say) -> str:
    """Return the id of the last job of this name. Live runs count like others for `lives`, and else where no other job
    has the name."""
    if found := _of_name(name, bases, lives):
        return _told(found, say)
    array = _TASK.fullmatch(name)
    if array and (found := _of_name(array[1], bases, False)) and found.id.isdecimal():
        return _told(replace(found, id=found.id + array[2]), say)
    raise UsageError(f"{name!r} is no ID, and no job of the last 7 days has this name", "mnrun status shows them")


def _of_name(name: str, bases: Sequence[Path], lives: bool) -> Submitted | None:
    known = _submitted(bases)
    found = [job for job in known if job.name == name] or [job for job in _unrecorded(known) if job.name == name]
    if lives or not found:
        found += [Submitted(one.job, name, time=one.begun) for one in launches.live(bases) if one.title == name]
    return max(found, key=lambda job: job.time, default=None)


def _told(job: Submitted, say: Say) -> str:
    say(f"job {job.id}{f' ({job.name})' if job.name else ''}, of {state.moment(job.time, time.time())}")
    return job.id


def _unrecorded(known: Sequence[Submitted]) -> list[Submitted]:
    """Return the batch scripts that were handed in after all of these, and have started no mnrun yet, in the order of
    their times. Only the scheduler knows them. Where it does not answer, there is none."""
    scheduler = user.scheduler()
    if not user.is_here(scheduler):
        return []
    ids, since = {job.id for job in known}, max((job.time for job in known), default=0.0)
    with suppress(LaunchError):
        later = [job for job in user.queue().jobs(0).jobs if job.array not in ids and int(job.submitted) > since - 1]
        requests = {job.array: Submitted(job.array, job.name, time=job.submitted, own=True) for job in later}
        newest = sorted(requests.values(), key=lambda job: job.time)[-LOOKED_AT:]
        return [job for job in newest if (found := scheduler.trace(job.id)) is not None and found.output]
    return []


def _submitted(bases: Sequence[Path]) -> list[Submitted]:
    """Return the requests of the last days, in the order of their times. Tasks of an array have their array's."""
    since = time.time() - state.SHOWN
    requests = [record.submitted for record in archive.read(bases, (), since).values()]
    return sorted({job.id: job for job in requests if job is not None}.values(), key=lambda job: job.time)
