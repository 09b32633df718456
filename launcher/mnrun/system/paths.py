"""Look at files on this machine, judge who else may change them, and make directories."""

from __future__ import annotations

import errno
import grp
import io
import os
import pwd
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LARGEST = 1 << 26  # characters of a file that a person writes
MOMENT = 30  # seconds
LINKS = 40  # that a path may follow (path_resolution(7))
_piped: dict[tuple[int, int], str] = {}  # (device, inode) -> text of pipes that were read


def fault(kind: str, path: str) -> str:
    """Return the fault of an image, a program or any other path on this machine, or "" if it has none. A path of the
    kind `written` is a directory for files of this machine, which is made if it is missing."""
    if kind == "written":
        while not os.path.lexists(path):
            path = os.path.dirname(path)
        return "" if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK) else "cannot be written"
    if not os.path.exists(path):
        return "is not on this machine"
    if kind == "image" and not os.access(path, os.R_OK):
        return "cannot be read"
    if kind == "image" and not is_image(path):
        return "is not a container image (SIF, squashfs or directory) on this machine"
    if kind == "program" and not os.access(path, os.X_OK):
        return "cannot be executed on this machine (chmod +x)"
    return ""


def link(path: str) -> str:
    """Return the target of a symbolic link, or "" for any other path."""
    with suppress(OSError):
        return os.readlink(path)
    return ""


def is_image(path: str) -> bool:
    """Return whether guards would take the path for an image (is_image in guard.sh)."""
    if os.path.isdir(path):
        return os.path.lexists(f"{path}/bin/sh")
    if not os.path.isfile(path):  # a pipe would wait for a writer
        return False
    try:
        first = head(path, 41)
    except OSError:
        return False
    return is_sif(first) or first.startswith(b"hsqs")


def head(path: str, size: int) -> bytes:
    """Return the first bytes of a file. Raises OSError."""
    with io.FileIO(path) as file:
        return file.read(size)


def is_sif(first: bytes) -> bool:
    """Return whether a file that begins so is a SIF: a line for a shell, and the magic word (sif.go)."""
    return first[32:41] == b"SIF_MAGIC"


def mode(file: int) -> int:
    """Return the mode of an open file, or 0 if it is closed."""
    with suppress(OSError):
        return os.fstat(file).st_mode
    return 0


def text(path: str) -> str:
    """Return the text of a file. A pipe gives its text only once, so later calls return that. Raises OSError."""
    status = os.stat(path)
    pipe = (status.st_dev, status.st_ino)
    if not stat.S_ISFIFO(status.st_mode) or pipe not in _piped:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="", opener=_opened) as file:
            whole = file.read(LARGEST + 1)
        if len(whole) > LARGEST:  # such as /dev/zero, which has no end
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        if not stat.S_ISFIFO(status.st_mode):
            return whole
        _piped[pipe] = whole
    return _piped[pipe]


def _opened(path: str, flags: int) -> int:
    """Open a file that is to be read, but wait only a moment for somebody who writes to a pipe."""
    file = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        waiting = select.poll()
        waiting.register(file, select.POLLIN)
        if not waiting.poll(MOMENT * 1000):
            os.close(file)
            raise OSError(errno.EAGAIN, "nobody writes to this pipe")
    os.set_blocking(file, True)
    return file


def open_file(path: str | Path) -> int:
    """Open for reading what is a file or nothing: who waits for a pipe in its place waits for ever. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a file")
    return handle


def private(path: Path) -> None:
    """Make a directory, and those above that are not there, for the user alone (0700)."""
    for each in (*reversed(path.parents), path):
        if not each.exists():
            try:
                each.mkdir(0o700)
            except FileExistsError:  # of another process, or another user
                continue
            each.chmod(0o700)  # under any umask


def foreign(path: Path) -> str:
    """Return why another user may have chosen the content of a directory, or "" if it is the user's alone.

    A link to a directory is followed. wrappers/lib/exposed.sh judges the directories of nodes in the same way. Raises
    OSError if the directory cannot be looked at.
    """
    state = path.stat()
    if not stat.S_ISDIR(state.st_mode):
        return "is not a directory"
    if state.st_uid != os.getuid():
        return "does not belong to you"
    if others_write(path, state):
        return "can be written by other users (chmod go-w)"
    place = exposed(path)
    return f"is below {place}, where other users may write" if place else ""


@contextmanager
def entered(path: Path) -> Iterator[int]:
    """Yield the open directory `path`, which is the user's alone. Raises OSError for a link, or another user's. Files
    are opened by their names in it. So it does not matter who renames a directory above."""
    place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        state = os.fstat(place)
        if state.st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
        if others_write(path, state):
            raise PermissionError(errno.EPERM, "other users may write to it (chmod go-w)", str(path))
        yield place
    finally:
        os.close(place)


def content(place: int, name: str, last: int = 0) -> str:
    """Return the text of a file in an open directory, or its `last` bytes. A link is not followed. Raises OSError."""
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    with open(handle, encoding="utf-8", errors="surrogateescape") as file:
        if last:
            os.lseek(handle, max(0, os.fstat(handle).st_size - last), os.SEEK_SET)
        return file.read()


def shared_badly(path: Path) -> str:
    """Return why other users could remove this user's directories in `path`, or "" if they cannot. A directory of
    several users needs the sticky bit, and only root may own it. Raises OSError."""
    for state in (path.lstat(), path.stat()):
        if state.st_uid not in (0, os.getuid()):
            return "it belongs to another user"
    if state.st_mode & stat.S_ISVTX or not others_write(path, state):
        return ""
    return "other users may write to it, and it has no sticky bit"


def exposed(path: Path) -> str:
    """Return a directory in which another user may rename what leads to `path`, or "" if there is none. A process that
    may write to a directory can rename its entries, except under the sticky bit (rename(2), EPERM)."""
    for place in dict.fromkeys(_way(path)):
        state = place.stat()
        if not state.st_mode & stat.S_ISVTX and others_write(place, state):
            return str(place)
    return ""


def _way(path: Path) -> Iterator[Path]:
    """Yield each directory in which the system looks up a part of `path`, also of links to links. Raises OSError."""
    parts, place, links = [*reversed(path.absolute().parts[1:])], Path("/"), 0
    while parts:
        part = parts.pop()
        if part == "..":
            place = place.parent
            continue
        yield place
        if target := link(str(place / part)):
            links += 1
            if links > LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            place = Path("/") if target.startswith("/") else place
            parts += [name for name in reversed(Path(target).parts) if name != "/"]
        else:
            place /= part


def others_write(path: Path, state: os.stat_result) -> bool:
    """Return whether another user may write to a file or directory, whose state is `state`.

    The group of this user alone does not count (login.defs(5), USERGROUPS_ENAB). The group's bits of a file with an
    access list stand for other users, too (acl(5)).
    """
    if state.st_mode & stat.S_IWOTH:
        return True
    return bool(state.st_mode & stat.S_IWGRP) and (not _is_own_group(state.st_gid) or _has_access_list(path))


def _is_own_group(number: int) -> bool:
    """Return whether this is the primary group of the user, with the user's name and no other member."""
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and not {*group.gr_mem} - {user.pw_name}


def _has_access_list(path: Path) -> bool:
    with suppress(OSError):  # a file system without them
        return "system.posix_acl_access" in os.listxattr(path)
    return False
