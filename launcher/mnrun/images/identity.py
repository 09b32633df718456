"""Tell an image from others without reading it whole: by its digest where that is known, else by what its file says."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress

from mnrun.jobspec import ContainerOptions, ImageKind
from mnrun.model import UNKNOWN_IMAGE, ImageIdentity
from mnrun.system import paths

_CACHED = re.compile(r"/sha256-([0-9a-f]{64})\.\w+$")  # of the cache, and of a copy on a node (staged.py)
_DIGEST = re.compile(r"(?:^|@)(?:sha256:)?([0-9a-f]{64})$")
_ID = slice(48, 64)  # of a SIF, in its header (sif.go of apptainer/sif, type header)


def of(container: ContainerOptions, sizes: Iterable[str] = ()) -> ImageIdentity:
    """Return the identity of a job's image once its nodes have it. `sizes` are those that nodes have told of its file,
    which this machine may not see."""
    image = container.image
    if image is None:
        return UNKNOWN_IMAGE
    if match := (_CACHED if image.kind is ImageKind.FILE else _DIGEST).search(image.name):
        return ImageIdentity(digest=f"sha256:{match[1]}")
    if image.kind is not ImageKind.FILE:
        return UNKNOWN_IMAGE
    with suppress(OSError):
        return _of_file(image.name)
    return ImageIdentity(size=next((int(size) for size in sizes if size.isdecimal()), 0))


def _of_file(path: str) -> ImageIdentity:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        return ImageIdentity(written=found.st_mtime)
    header = paths.head(path, _ID.stop)
    whole = paths.is_sif(header) and len(header) == _ID.stop
    return ImageIdentity(sif=_uuid(header[_ID]) if whole else "", size=found.st_size, written=found.st_mtime)


def _uuid(data: bytes) -> str:
    """Return a UUID as people read it. To import Python's module for it would cost each launch milliseconds."""
    return re.sub(r"^(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-", data.hex())
