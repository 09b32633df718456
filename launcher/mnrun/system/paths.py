"""Look at files on this machine, and make directories."""

from __future__ import annotations

import os
from pathlib import Path


def fault(kind: str, path: str) -> str:
    """Return the fault of an image, a program or any other path on this machine, or "" if it has none.

    A path of the kind `written` is a directory for files of this machine, which is made if it is missing.
    """
    if kind == "written":
        while not os.path.lexists(path):
            path = os.path.dirname(path)
        return "" if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK) else "cannot be written"
    if not os.path.exists(path):
        return "is not on this machine"
    if kind == "image" and not os.access(path, os.R_OK):
        return "cannot be read"
    if kind == "image" and not _is_image(path):
        return "is not a container image (SIF, squashfs or directory) on this machine"
    if kind == "program" and not os.access(path, os.X_OK):
        return "cannot be executed on this machine (chmod +x)"
    return ""


def _is_image(path: str) -> bool:
    """Return whether guards would take the path for an image (is_image in guard.sh)."""
    if os.path.isdir(path):
        return os.path.lexists(f"{path}/bin/sh")
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        head = os.read(file, 41)
    finally:
        os.close(file)
    return head[32:] == b"SIF_MAGIC" or head.startswith(b"hsqs")


def private(path: Path) -> None:
    """Make a directory, and those above that are not there, for the user alone (0700)."""
    for each in (*reversed(path.parents), path):
        if not each.exists():
            each.mkdir(exist_ok=True)
            each.chmod(0o700)  # under any umask
