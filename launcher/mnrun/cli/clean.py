"""`mnrun clean`: remove records of jobs that ended long ago, and images that no job has used for as long."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mnrun import formats
from mnrun.cli.parsing import job_dir_option, some_options
from mnrun.errors import Impossible, UsageError

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400.0


@click.command()
@click.option(
    "--older",
    metavar="TIME",
    help="Time since the end of the job: 30d, 12h or 4w; 0d for all that have ended.  [default: 30d]",
)
@click.option("--images", is_flag=True, help="Also remove converted images that no job has used for so long.")
@click.option(
    "--nodes", is_flag=True, help="Also remove directories of killed jobs, on the nodes of this job, or else here."
)
@click.option("--kept", is_flag=True, help="Also remove what --keep has left: records, and with --nodes directories.")
@click.option("--keys", is_flag=True, help="Also remove the keys of mnrun proxy.")
@click.option("--all", "everything", is_flag=True, help="Remove all of ~/.mnrun, if no job of yours waits or runs.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@job_dir_option
@some_options("image_cache", "scheduler")
def clean(
    older: str | None,
    images: bool,
    nodes: bool,
    kept: bool,
    keys: bool,
    everything: bool,
    dry_run: bool,
    job_dir: str | None,
    image_cache: str | None,
    scheduler: str | None,
) -> None:
    """Remove mnrun's records of old jobs, and what killed live runs have left. The output of the jobs stays."""
    from pathlib import Path

    from mnrun.attach import connection, user

    if everything and older is not None:
        raise UsageError("--all and --older exclude each other", "leave one of them out")
    age = formats.age(older or ("0d" if everything else "30d"), "--older")
    if image_cache is not None and not (images or everything):
        raise UsageError("--image-cache is for images alone", "add --images")
    bases, home = user.bases(job_dir), Path.home() / ".mnrun"
    _records(bases, time.time(), age, dry_run)
    swept = user.scheduler(scheduler or "").sweep(os.environ, dry_run)
    for name in swept:
        click.echo(f"{_would(dry_run, 'remove')} {name}")
    _killed(bases, swept, dry_run)
    if kept or everything:
        _kept(bases, dry_run)
    if nodes:
        _nodes(dry_run, kept or everything)
    if images or everything:
        _images(cache_of(image_cache), age, dry_run)
    if keys and not everything:
        _gone(home / connection.FOLDER, dry_run)
    if everything:
        _refuse_jobs(bases, dry_run)
        _gone(home, dry_run)


def _gone(place: Path, dry_run: bool) -> None:
    """Remove a file, or a directory with its content, which may be behind a link."""
    from mnrun.images.cache import delete

    if place.exists():
        for part in () if dry_run or not place.is_symlink() else list(place.iterdir()):
            delete(part)
        if not dry_run:
            delete(place)
        click.echo(f"{_would(dry_run, 'remove')} {place}")


def _refuse_jobs(bases: Sequence[Path], dry_run: bool) -> None:
    """Raise Impossible if records of jobs are left that wait or run."""
    from mnrun import nodeset
    from mnrun.jobs import archive, launches

    left = [] if dry_run else [*archive.read(bases), *(launch.name for launch in launches.live(bases))]
    if left:
        count = nodeset.counted(len(left), "job")
        raise Impossible(f"~/.mnrun stays with the records of {count}", "see mnrun status")


def _kept(bases: Sequence[Path], dry_run: bool) -> None:
    from mnrun.jobs import archive, launches

    for launch in launches.kept(bases):
        if not dry_run:
            archive.remove(launch.folder)
        click.echo(f"{_would(dry_run, 'remove')} {launch.folder}: kept by --keep")


def _nodes(dry_run: bool, kept: bool) -> None:
    from mnrun import nodeset
    from mnrun.attach import user
    from mnrun.files import BASH
    from mnrun.nodes import kit
    from mnrun.system import process
    from mnrun.system.screen import Screen

    scheduler = user.scheduler()
    given = ("clean.sh", "dry" if dry_run else "", "kept" if kept else "")
    if scheduler.job(os.environ):
        allocation, _ = scheduler.current(os.environ)
        names = tuple(node.name for node in allocation.nodes)
        words = (*BASH, "-c", kit.probe("clean.sh", scheduler.ON_NODE), *given)
        lines, where = scheduler.on_each(allocation, names, words, os.environ), nodeset.fold(names)
    else:
        lines, where = process.ask((*BASH, "-c", kit.probe("clean.sh"), *given)), "this machine"
    gone = lines.split()
    for place in sorted(set(gone)):
        on = f" on {gone.count(place)} nodes" if gone.count(place) > 1 else ""
        click.echo(f"{_would(dry_run, 'remove')} {place}{on}")
    ended = "ended" if kept else "killed"
    Screen().say(f"directories of {ended} jobs {_would(dry_run, 'be removed')} from {where}: {len(gone)}")


def _records(bases: Sequence[Path], now: float, age: float, dry_run: bool) -> None:
    from mnrun import nodeset
    from mnrun.attach import user
    from mnrun.jobs import archive, state
    from mnrun.system.screen import Screen

    records, before = archive.read(bases), now - age
    # The scheduler is asked only if there is something to remove.
    jobs = user.queue().jobs(age).jobs if state.removable(records, (), before) else ()
    gone = state.removable(records, jobs, before)
    for record in gone:
        if not dry_run:
            archive.remove(record.folder)
        click.echo(f"{_would(dry_run, 'remove')} {record.folder}: {_days(now, record.time)} old")
    some = f"records of {len(gone)} of {nodeset.counted(len(records), 'job')}"
    Screen().say(f"{some} {_would(dry_run, 'be removed')} from {archive.named(bases)}")


def _killed(bases: Sequence[Path], swept: Sequence[str], dry_run: bool) -> None:
    """Remove the records of live runs whose mnrun was killed, and whose jobs are over, as those `swept` just now are:
    the scheduler may still know them for a moment."""
    from mnrun.jobs import archive, launches
    from mnrun.schedulers import SCHEDULERS

    for launch in list(launches.killed(bases)):
        if launch.number in swept or not SCHEDULERS[launch.scheduler].runs(launch.number, os.environ):
            if not dry_run:
                archive.remove(launch.folder)
            click.echo(f"{_would(dry_run, 'remove')} {launch.folder}: a run that was killed")


def cache_of(given: str | None) -> Path:
    from pathlib import Path

    from mnrun.attach import user

    return Path(given or str(user.standing("image_cache"))).expanduser().absolute()


def _images(place: Path, age: float, dry_run: bool) -> None:
    from mnrun import nodeset
    from mnrun.attach import user
    from mnrun.images import cache
    from mnrun.schedulers.queue import Snapshot
    from mnrun.system.screen import Screen

    now = time.time()
    exists = cache.owned(place)
    entries = cache.images(place) if exists else []
    snapshot = Snapshot((), now)
    if any(image.used < now - age for image in entries) and user.scheduler().is_here(os.environ):
        snapshot = user.queue().jobs()
    before = cache.unneeded(now - age, snapshot.jobs, snapshot.time)
    gone = []
    for image in entries:
        if image.used < before and (dry_run or cache.remove(image, before)):
            gone.append(image)
            names = ", ".join(image.names) or "no tag refers to it any more"
            details = f"{names}, {formats.size(image.size)}, unused for {_days(now, image.used)}"
            click.echo(f"{_would(dry_run, 'remove')} {image.path}: {details}")
    if exists and not dry_run:
        cache.tidy(place, min(before, now - cache.BEATING))
    freed = f", {formats.size(sum(image.size for image in gone))}" if gone else ""
    Screen().say(
        f"{len(gone)} of {nodeset.counted(len(entries), 'image')} {_would(dry_run, 'be removed')} from {place}{freed}"
    )


def _would(dry_run: bool, action: str) -> str:
    return f"would {action}" if dry_run else "removed"


def _days(now: float, then: float) -> str:
    from mnrun import nodeset

    return nodeset.counted(int((now - then) / DAY), "day")
