"""Tell the digest of an image file on this machine, and the path of its copies on nodes.

A digest is remembered in IMAGE_CACHE/facts until the file changes, so that a launch does not read 10 GB to know it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mnrun.errors import UsageError
from mnrun.images import cache

CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """An image file of this machine, with its size in bytes and its SHA-256."""

    path: str
    size: int
    digest: str

    def copy(self, base: str, user: str) -> str:
        """Return the path of a copy below the directory `base` of a node. The node checks that it is the user's."""
        return f"{base}/mnrun.{user}/images/sha256-{self.digest}.sif"


def source(path: str, image_cache: Path, glance: Callable[[], None] = lambda: None) -> Source:
    """Return an image file with its digest. `glance` is called again and again meanwhile, and may raise.

    Raises UsageError if it is no file that can be read.
    """
    if not os.path.isfile(path):
        problem = f"--stage copies only an image file of this machine, and {path} is not one"
        raise UsageError(problem, "name an image file, or use --no-stage")
    try:
        size, place = os.path.getsize(path), image_cache / cache.FACTS / f"sum-{_state(path)}"
        digest = _remembered(place)
        if not digest:
            digest = _digest(path, glance)
            _remember(place, digest)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "name an image file that you can read") from None
    return Source(path, size, digest)


def chunks(path: str) -> Iterator[bytes]:
    """Yield the content of a file."""
    with io.FileIO(path) as file:
        yield from iter(lambda: file.read(CHUNK), b"")


def _state(path: str) -> str:
    """Return a name for the file as it is now. A change of its content changes its ctime, which no user can set."""
    state = os.stat(path)
    words = (os.path.realpath(path), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return hashlib.sha256("\0".join(map(str, words)).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _digest(path: str, glance: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks(path):
        glance()
        digest.update(chunk)
    return digest.hexdigest()


def _remembered(place: Path) -> str:
    with suppress(OSError):
        if place.stat().st_uid == os.getuid():
            text = place.read_text(encoding="ascii", errors="replace")
            if re.fullmatch(r"[0-9a-f]{64}", text):
                os.utime(place)  # `mnrun clean` leaves recently used files alone
                return text
    return ""


def _remember(place: Path, digest: str) -> None:
    """Keep a digest. Without a place for it, the next launch reads the file again."""
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = place.with_name(f"{place.name}.{os.getpid()}")
        beside.write_text(digest, encoding="ascii")
        os.replace(beside, place)
