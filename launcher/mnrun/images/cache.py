"""List and tidy the cache of converted images, which wrappers/images/pull_file.sh fills.

sha256-DIGEST.sif   an image. A job that takes it touches it first
sha256-DIGEST.sqfs  the same for Charliecloud, whose references have no scheme
sums/FILE           the SHA-256 of an image as it was converted
sums/FILE.doubt     the next job that takes this image compares it with that
refs/NAME           of a reference: the digest, the runtime's key for it, the job that asked, and the reference itself
facts/KEY           a node's report of an image's MPI (running/probe.py)
facts/sum-KEY       the digest of an image file that is staged (staged.py)
refs/NAME.lock/     a conversion in progress: its owner, a counter as a sign of life, and all half-done files
refs/NAME.layers/   the complete layers of a pull that was cut off
refs/NAME.lock.NODE.PID.gone   such a lock during its removal
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun.errors import UsageError
from mnrun.near import nearest
from mnrun.system.paths import foreign, is_image, private

if TYPE_CHECKING:
    from mnrun.schedulers.queue import Job

FACTS, SUMS = "facts", "sums"
HOUR = 3600.0
BEATING = 600.0  # seconds: a lock without a heartbeat for as long belongs to nobody


@dataclass(frozen=True)
class Image:
    """An image file of the cache. `names` are the references to it."""

    path: Path
    used: float
    size: int
    names: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return the digest of the image in its registry."""
        return self.path.stem.replace("-", ":")

    @property
    def words(self) -> set[str]:
        """Return all by which people name it."""
        return {*self.names, *map(bare, self.names), self.digest, str(self.path), self.path.name}


def bare(reference: str) -> str:
    """Return a reference as people write it, too: without docker://."""
    return reference.removeprefix("docker://")


def fact(cache: Path, question: Iterable[object], kind: str = "") -> Path:
    """Return the file that keeps the answer to a question. Its name begins with `kind`."""
    words = "\0".join(map(str, question)).encode("utf-8", "surrogateescape")
    # hashlib would load OpenSSL, which takes a launch 3 to 6 ms.
    key = random.Random(words)  # nosec B311 # not random: a seed of bytes goes through SHA-512 (random.seed)
    return cache / FACTS / f"{kind}{key.getrandbits(128):032x}"


def remember(place: Path, answer: str) -> None:
    """Keep an answer in its file, whole or not at all. Where that fails, the next launch asks again."""
    cache = place.parent.parent
    with suppress(OSError):
        if fault(cache):
            return
        private(place.parent)
        if fault(cache):  # the new one is below a directory of others
            return
        beside = place.with_name(f"{place.name}.{os.getpid()}")
        beside.write_text(answer, encoding="utf-8", errors="surrogateescape")
        os.replace(beside, place)


def recalled(place: Path) -> tuple[str, float]:
    """Return the answer that is kept in a file, and its time. Without one, or in a cache of others, it is ""."""
    with suppress(OSError):
        if not fault(place.parent.parent):
            return place.read_text(encoding="utf-8", errors="replace"), place.stat().st_mtime
    return "", 0.0


def images(cache: Path) -> list[Image]:
    """Return all images, those used longest ago first. Raises UsageError if the cache cannot be read."""
    names: dict[Path, list[str]] = {}
    for words in filter(None, map(_record, _files(cache / "refs"))):
        names.setdefault(_file(cache, words), []).extend(words[3:])
    files = []
    for path in (*cache.glob("sha256-*.sif"), *cache.glob("sha256-*.sqfs")):
        with suppress(FileNotFoundError):
            state = path.stat()
            files.append(Image(path, state.st_mtime, state.st_size, tuple(sorted(names.get(path, ())))))
    return sorted(files, key=lambda image: image.used)


def files(folder: Path) -> list[Image]:
    """Return the image files in a directory, the oldest first. Raises UsageError if it cannot be read."""
    try:
        found = [(path, path.stat()) for path in folder.iterdir() if path.is_file() and is_image(str(path))]
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    return sorted((Image(path, s.st_mtime, s.st_size, ()) for path, s in found), key=lambda i: i.used)


def find(cache: Path, reference: str) -> Path | None:
    """Return the cached image of this reference, or of its digest, or None. A cache that others may fill has none."""
    if fault(cache):
        return None
    named = _file(cache, [reference.rpartition("@")[2], "", "", reference])
    if "@sha256:" in reference and named.exists():
        return named
    name = re.sub(r"[^A-Za-z0-9._-]", "_", reference)[:120]
    for words in filter(None, map(_record, (cache / "refs").glob(f"{name}-*"))):
        path = _file(cache, words)
        if words[3:] == [reference] and path.exists():
            return path
    return None


def meant(cache: Path, word: str) -> tuple[Image, str]:
    """Return the image of the cache that has this name, and the name as the cache has it, or "" for a digest or a file.
    Raises UsageError."""
    entries = images(cache)
    for image in entries:
        if word in image.words:
            return image, next((name for name in image.names if word in (name, bare(name))), "")
    if os.path.isfile(word) or os.path.isdir(word):
        way = "rm" if os.path.isfile(word) else "rm -r"
        raise UsageError(f"{word} is not in {cache}, which has images of registries", f"it is a file: {way} {word}")
    near = nearest(word, {other for image in entries for other in image.words})
    remedy = f"did you mean {near}?" if near else "mnrun image ls lists its images"
    raise UsageError(f"{cache} has no image {word}", remedy)


def unname(cache: Path, image: Image, name: str) -> None:
    """Remove one of an image's names. Raises UsageError on failure."""
    for path in _files(cache / "refs"):
        words = _record(path)
        if words[3:] == [name] and _file(cache, words) == image.path:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise UsageError(f"cannot remove {path}: {error.strerror}") from None


def doubt(image: Path) -> None:
    """Make the next job compare an image with its SHA-256 before it takes it."""
    with suppress(OSError):
        if not fault(image.parent):
            (image.parent / SUMS / f"{image.name}.doubt").touch()


def unneeded(before: float, jobs: Iterable[Job], query_time: float) -> float:
    """Return a time such that no job has an image that was last used before it. The time is `before`, or earlier.
    `jobs` are all that Slurm knew at the time `query_time`. Each job takes its image after its start."""
    starts = [job.start for job in jobs if job.active and job.start > 0]
    return min(before, min([query_time, *starts]) - HOUR)  # clocks differ between machines


def remove(image: Image, before: float) -> bool:
    """Remove an image, and return whether it has gone. It stays if a job has just taken it. Raises UsageError on
    failure."""
    away = image.path.with_name(f"{image.path.name}.gone")
    try:
        image.path.rename(away)  # no later job finds it, and an earlier one has touched it
        if away.stat().st_mtime < before:
            away.unlink()
            return True
        away.rename(image.path)
    except FileNotFoundError:
        return True  # another process has removed it
    except OSError as error:
        raise UsageError(f"cannot remove {image.path}: {error.strerror}") from None
    return False


def tidy(cache: Path, before: float) -> None:
    """Remove references to missing images, and remains of pulls that died before `before`. Files that cannot be removed
    stay without an error: nobody asked for them by name."""
    refs = cache / "refs"
    doomed = [path for path in _files(cache / FACTS) if _beaten(path) < before]
    doomed += [path for path in _files(cache / SUMS) if not (cache / path.name.replace(".doubt", "")).exists()]
    for path in _files(refs):
        words = _record(path)
        if words and not _file(cache, words).exists() and not path.with_name(f"{path.name}.lock").exists():
            doomed.append(path)
    for path in doomed:
        with suppress(OSError):
            path.unlink()
    for rest in (*refs.glob("*.lock"), *refs.glob("*.layers"), *refs.glob("*.gone"), *cache.glob("*.gone")):
        if _beaten(rest) < before:
            away = rest.with_name(f"{rest.name}.{os.getpid()}.gone")
            with suppress(OSError):
                rest.rename(away)
                delete(away)


def owned(cache: Path) -> bool:
    """Return whether the cache exists. Raises UsageError if another user may have filled it."""
    if why := fault(cache):
        raise UsageError(f"{cache} {why}", "name another with --image-cache")
    return cache.exists()


def fault(cache: Path) -> str:
    """Return why nothing in this cache is believed, or "". Each reader and writer asks this first."""
    try:
        return foreign(cache)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_file()]


def _record(path: Path) -> list[str]:
    """Return the words of a reference's line: digest, the runtime's key, the job that asked, the reference."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return []


def _file(cache: Path, record: list[str]) -> Path:
    """Return the image file of a reference's line."""
    for_charliecloud = record[3:] and "://" not in record[3]
    return cache / f"{record[0].replace(':', '-')}.{'sqfs' if for_charliecloud else 'sif'}"


def _beaten(rest: Path) -> float:
    """Return the time of a file, or of the last heartbeat of a lock, or of the lock beside layers."""
    times = [0.0]
    for path in (rest, rest / "beat", rest.with_suffix(".lock") / "beat"):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def delete(path: Path) -> None:
    """Remove a file, a link or a folder, with the read-only folders of an unpacked image."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)
