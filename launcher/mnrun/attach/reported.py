"""Find the job of a report, and the records of its launch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mnrun.attach import meant, target, user
from mnrun.errors import LaunchError, SchedulerError, UsageError
from mnrun.jobs import about, archive, asking, launches, records, state, timeline
from mnrun.jobs.about import About
from mnrun.jobs.records import JobRecord
from mnrun.jobs.state import JobView
from mnrun.jobs.timeline import Timeline
from mnrun.schedulers.vocabulary import is_id


@dataclass(frozen=True)
class Reported:
    """What is known of a job and of its launch."""

    about: About | None  # None in a file of an older mnrun
    times: Timeline | None  # None before the end of the launch, or if it was killed
    samples: str = ""


def of(name: str, bases: Sequence[Path], say: Callable[[str], None]) -> Reported:
    """Return what is known of a job, by its id or name or by a file of --timeline. Raises LaunchError."""
    if not name:
        name = meant.last(bases, "report", say)
    elif not is_id(name) and not Path(name).exists():
        with suppress(UsageError):  # it is a file that is not there
            (name,) = meant.jobs([name], bases, "report", say)
    by_id = archive.read(bases, [name]) if is_id(name) else {}
    target.no_array(name, by_id)
    if name in by_id:
        return _of_record(by_id[name])
    for run in launches.live(bases) if launches.is_name(name) else ():
        if run.has(name):
            (view,) = asking.live([replace(run, near=True)], (), ())
            return _of_folder(about.of(view, Path(run.folder)), Path(run.folder))
    for run in launches.kept(bases, name) if launches.is_name(name) else ():
        folder = Path(run.folder)
        return _of_folder(about.of_run(run, archive.outcome(folder)), folder)
    if is_id(name) and (record := target.without_start(name, bases)) is not None:
        return _of_record(record)
    if is_id(name):
        raise target.absence(name, bases)
    return _of_file(Path(name))


def _of_record(record: JobRecord) -> Reported:
    folder, asked = archive.last_start(record), record.submitted
    told = about.of(_view(record), folder, asked.command if asked is not None else ())
    if asked is not None and asked.own:  # its record is of its begin
        told = replace(told, submitted=_submitted(record.id))
    return _of_folder(told, folder)


def _view(record: JobRecord) -> JobView:
    by_id = {record.id: record}
    try:
        views, _, _ = asking.views([record.id], by_id, lambda: user.queue("", [record.id]))
    except SchedulerError:
        views, _ = state.gather([record.id], (), (), by_id, time.time())
    if len(views) != 1:
        raise target.array(record.id, [view.id for view in views])
    return views[0]


def _submitted(identity: str) -> float:
    """Return when a script of the user's own was handed in, or 0 if its scheduler does not know it any more."""
    with suppress(LaunchError):
        queue = user.queue("", [identity])
        for job in (*queue.jobs(asking.SOON).jobs, *queue.history([identity])):
            if job.id == identity and job.submitted:
                return job.submitted
    return 0.0


def _of_folder(told: About, folder: Path) -> Reported:
    times = timeline.parse(archive.text(folder, records.TIMELINE))
    return Reported(told, times, archive.text(folder, records.SAMPLES))


def _of_file(path: Path) -> Reported:
    text = ""
    with suppress(OSError, UnicodeDecodeError):
        text = path.read_text(encoding="utf-8")
    times = timeline.parse(text)
    if times is None:
        raise UsageError(f"there is no timeline in {path}", "name a job's ID, or a file that --timeline has written")
    return Reported(about.parse(text), times)
