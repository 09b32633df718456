"""The cache of converted images, which wrappers/images/pull_image.sh fills: its content, and what may go.

sha256-DIGEST.sif   an image; whoever takes it for a job touches it first
refs/NAME           the digest that a reference was found to be, and at the end of its line the reference
facts/KEY           what a node has said of an image's MPI (running/probe.py)
refs/NAME.lock/     somebody converts it, and all that is half-done; refs/NAME.lock.PID.gone on its way out
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mnrun.errors import UsageError
from mnrun.schedulers.slurm.answers import Job

FACTS = "facts"
HOUR = 3600.0
BEATING = 600.0  # seconds: a lock whose heart has not beaten for as long is nobody's


@dataclass(frozen=True)
class Image:
    """A file of the cache's; `names` are the references that were found to be it."""

    path: Path
    used: float
    size: int
    names: tuple[str, ...] = ()


def images(cache: Path) -> list[Image]:
    """All that are there, those that were used longest ago first. Raises UsageError where that cannot be read."""
    names: dict[str, list[str]] = {}
    for words in filter(None, map(_record, _files(cache / "refs"))):
        names.setdefault(words[0].replace(":", "-"), []).extend(words[3:])
    found = []
    for path in cache.glob("sha256-*.sif"):
        with suppress(FileNotFoundError):
            state = path.stat()
            found.append(Image(path, state.st_mtime, state.st_size, tuple(sorted(names.get(path.stem, ())))))
    return sorted(found, key=lambda image: image.used)


def known(cache: Path, reference: str) -> Path | None:
    """The image that this reference was found to be, where it is there."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", reference)[:120]
    for words in filter(None, map(_record, (cache / "refs").glob(f"{name}-*"))):
        path = cache / f"{words[0].replace(':', '-')}.sif"
        if words[3:] == [reference] and path.exists():
            return path
    return None


def unneeded(before: float, jobs: Iterable[Job], asked: float) -> float:
    """What was last used before then, no job has: `jobs` are all that Slurm knew when it was asked, and each takes its
    image after its start."""
    starts = [job.start for job in jobs if job.active and job.start > 0]
    return min(before, min([asked, *starts]) - HOUR)  # clocks differ


def remove(image: Image, before: float) -> bool:
    """Whether it has gone: not where somebody has taken it meanwhile. Raises UsageError where it cannot be."""
    away = image.path.with_suffix(".gone")
    try:
        image.path.rename(away)  # from now on nobody finds it; who did has touched it
        if away.stat().st_mtime < before:
            away.unlink()
            return True
        away.rename(image.path)
    except FileNotFoundError:
        return True  # by another
    except OSError as error:
        raise UsageError(f"cannot remove {image.path}: {error.strerror}") from None
    return False


def tidy(cache: Path, before: float) -> None:
    """Away with references to images that are gone, and with what conversions left that died before then; what
    cannot be removed stays: nobody asked for it by name."""
    refs = cache / "refs"
    for path in _files(cache / FACTS):
        with suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()
    for path in _files(refs):
        words = _record(path)
        if words and not (cache / f"{words[0].replace(':', '-')}.sif").exists() and not _lock(path).exists():
            with suppress(OSError):
                path.unlink()
    for lock in (*refs.glob("*.lock"), *refs.glob("*.gone"), *cache.glob("*.gone")):
        if _beaten(lock) < before:
            away = lock.with_name(f"{lock.name}.{os.getpid()}.gone")
            with suppress(OSError):
                lock.rename(away)
                _delete(away)


def owned(cache: Path) -> bool:
    """Whether it is there. Raises UsageError where it is somebody else's."""
    try:
        if cache.stat().st_uid == os.getuid():
            return True
    except FileNotFoundError:
        return False
    raise UsageError(f"{cache} is not a directory of yours", "name another with --image-cache")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_file()]


def _record(path: Path) -> list[str]:
    """The words of a reference's line: digest, the runtime's key, the job that asked, the reference."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return []


def _lock(ref: Path) -> Path:
    return ref.with_name(f"{ref.name}.lock")


def _beaten(lock: Path) -> float:
    """When its heart last beat."""
    times = [0.0]
    for path in (lock, lock / "beat"):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def _delete(path: Path) -> None:
    """With the folders of an unpacked image that may not be written."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)
