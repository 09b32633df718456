"""`mnrun clean`: remove records of jobs that ended long ago, and images that no job has used for as long."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

import click

from mnrun import nodeset
from mnrun.cli.work import jobs as verbs
from mnrun.cli.work.jobs import bases_of, standing
from mnrun.errors import UsageError
from mnrun.files import BASH
from mnrun.images import cache
from mnrun.jobs import archive, state
from mnrun.nodes import kit
from mnrun.schedulers import at_hand
from mnrun.schedulers.queue import Snapshot
from mnrun.system import process
from mnrun.system.screen import Screen


def clean(
    older: str | None, images: bool, nodes: bool, dry_run: bool, job_dir: str | None, image_cache: str | None
) -> None:
    """Remove mnrun's records of old jobs. The output of the jobs stays."""
    age = age_of("30d" if older is None else older)
    if nodes:
        _refuse("--nodes", images=images, older=older, dry_run=dry_run, job_dir=job_dir, image_cache=image_cache)
        _nodes()
    elif images:
        _refuse("--images", job_dir=job_dir)
        remove_images(cache_of(image_cache), age, dry_run)
    elif image_cache is not None:
        raise UsageError("--image-cache is for images alone", "add --images")
    else:
        _records(bases_of(job_dir), time.time(), age, dry_run)


def _refuse(what: str, **others: object) -> None:
    """Raise UsageError if one of the other options is given, which would have no effect with the option `what`."""
    for name, value in others.items():
        if value not in (None, False):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{what} and {option} exclude each other", "leave one of them out")


def _nodes() -> None:
    """Remove the directories of jobs that were killed outright. Directories of jobs that still run stay."""
    words = (*BASH, "-c", kit.remains())
    scheduler = at_hand(os.environ)
    if scheduler.job(os.environ):
        allocation, _ = scheduler.current(os.environ)
        names = tuple(node.name for node in allocation.nodes)
        lines, where = scheduler.on_each(allocation, names, words, os.environ), nodeset.fold(names)
    else:
        lines, where = process.ask(words), "this machine"
    gone = lines.split()
    for place in sorted(set(gone)):
        click.echo(f"removed {place}" + (f" on {gone.count(place)} nodes" if gone.count(place) > 1 else ""))
    Screen().say(f"directories of killed jobs removed from {where}: {len(gone)}")


def _records(bases: Sequence[Path], now: float, age: float, dry_run: bool) -> None:
    records, before = archive.read(bases), now - age
    # The scheduler is asked only if there is something to remove.
    jobs = verbs.user_queue().jobs().jobs if state.removable(records, (), before) else ()
    gone = state.removable(records, jobs, before)
    for record in gone:
        path = record.folder if dry_run else archive.remove(record)
        click.echo(f"{_would(dry_run, 'remove')} {path}: {_days(now, record.time)} old")
    some = f"records of {len(gone)} of {nodeset.counted(len(records), 'job')}"
    Screen().say(f"{some} {_would(dry_run, 'be removed')} from {archive.named(bases)}")


def cache_of(given: str | None) -> Path:
    """Return the directory of the images: the given one, or the one that jobs use."""
    return Path(given or str(standing("image_cache"))).expanduser().absolute()


def remove_images(place: Path, age: float, dry_run: bool) -> None:
    """Remove the images of a cache that no job has used for that long."""
    now = time.time()
    exists = cache.owned(place)
    entries = cache.images(place) if exists else []
    snapshot = Snapshot((), now)
    if any(image.used < now - age for image in entries) and at_hand(os.environ).is_here():
        snapshot = verbs.user_queue().jobs()
    before = cache.unneeded(now - age, snapshot.jobs, snapshot.time)
    gone = []
    for image in entries:
        if image.used < before and (dry_run or cache.remove(image, before)):
            gone.append(image)
            names = ", ".join(image.names) or "no tag refers to it any more"
            details = f"{names}, {size_of(image.size)}, unused for {_days(now, image.used)}"
            click.echo(f"{_would(dry_run, 'remove')} {image.path}: {details}")
    if exists and not dry_run:
        cache.tidy(place, min(before, now - cache.BEATING))
    freed = f", {size_of(sum(image.size for image in gone))}" if gone else ""
    Screen().say(
        f"{len(gone)} of {nodeset.counted(len(entries), 'image')} {_would(dry_run, 'be removed')} from {place}{freed}"
    )


def _would(dry_run: bool, action: str) -> str:
    return f"would {action}" if dry_run else "removed"


def _days(now: float, then: float) -> str:
    return nodeset.counted(int((now - then) / state.DAY), "day")


def size_of(size: int) -> str:
    """Return a size in GB or MB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def age_of(text: str) -> float:
    """Return the seconds of a time such as 30d. Raises UsageError."""
    match = re.fullmatch(r"(\d+)(h|d|w)", text, re.ASCII)
    if re.fullmatch(r"\d+m", text, re.ASCII):
        raise UsageError(f"--older {text} may be minutes or months", "write 1h, 30d or 4w")
    if not match:
        raise UsageError(f"--older {text!r} is not a time", "write 30d, 12h or 4w")
    return int(match[1]) * {"h": 3600.0, "d": state.DAY, "w": 7 * state.DAY}[match[2]]
