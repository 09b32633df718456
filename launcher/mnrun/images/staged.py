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
from mnrun.images.reference import is_file_name
from mnrun.near import nearest

CHUNK = 1 << 20
LISTED = 5  # images of a folder, for a name that is like none of them


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
    """Return an image file with its digest. `glance` is called meanwhile, and may raise. Raises UsageError."""
    if not os.path.isfile(path):
        problem = f"--stage copies only an image file of this machine, and {path} is not one"
        raise UsageError(problem, "name an image file, or use --no-stage")
    try:
        size, place = os.path.getsize(path), cache.fact(image_cache, _state(path), "sum-")
        digest, _ = cache.recalled(place)
        if re.fullmatch(r"[0-9a-f]{64}", digest):
            os.utime(place)  # `mnrun clean` leaves recently used files alone
        else:
            digest = _digest(path, glance)
            cache.remember(place, digest)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "name an image file that you can read") from None
    return Source(path, size, digest)


def refuse_mistyped(path: str, home: Path) -> None:
    """Raise UsageError if an image is not here, and its nodes cannot have it.

    A directory below the home, and one with other images, is taken for the same on the nodes. Elsewhere, and where the
    directory is not here either, nodes may have files of their own.
    """
    folder, name = os.path.split(path)
    if not path or os.path.lexists(path):
        return
    with suppress(OSError):
        names = sorted(os.listdir(folder))
        images = [other for other in names if is_file_name(other)]
        if images or home in (Path(folder), *Path(folder).parents):
            stems = {os.path.splitext(other)[0]: other for other in reversed((*images, *names))}
            near = stems.get(nearest(os.path.splitext(name)[0], stems), "")
            there = f"{folder} has {', '.join(images[:LISTED])}{', …' * (len(images) > LISTED)}; " if images else ""
            meant = f"did you mean {os.path.join(folder, near)}? " if near else there
            raise UsageError(f"there is no image {path}", f"{meant}--force starts the job without it")


def chunks(path: str) -> Iterator[bytes]:
    """Yield the content of a file."""
    with io.FileIO(path) as file:
        yield from iter(lambda: file.read(CHUNK), b"")


def _state(path: str) -> tuple[object, ...]:
    """Return what tells the file from any other and from a later one. No user can set its ctime."""
    state = os.stat(path)
    return (os.path.realpath(path), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _digest(path: str, glance: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks(path):
        glance()
        digest.update(chunk)
    return digest.hexdigest()
