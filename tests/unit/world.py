"""An audit hook of Python that ends a unit test before it starts a process, opens a socket or changes a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROCESSES = ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "pty.spawn")
SOCKETS = ("socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname")
SIGNALS = ("os.kill", "os.killpg")
# Where in the event's arguments the paths stand that would be changed, and the dir_fd that they may be relative to.
CHANGES = {
    "os.mkdir": ((0,), 2),
    "os.rmdir": ((0,), 1),
    "os.remove": ((0,), 1),
    "os.rename": ((0, 1), 2),
    "os.link": ((1,), 3),
    "os.symlink": ((1,), 2),
    "os.chmod": ((0,), 2),
    "os.chown": ((0,), 3),
    "os.utime": ((0,), 3),
    "os.truncate": ((0,), None),
    "shutil.rmtree": ((0,), 1),
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class World:
    """The guard. Off until a test begins, and off again for what a helper starts on purpose."""

    def __init__(self) -> None:
        self._room: Path | None = None
        self._open_doors = 0
        sys.addaudithook(self._hear)

    @contextmanager
    def forbidden(self, room: Path) -> Iterator[None]:
        """Nothing but files under `room` may be changed, nothing started, nobody called."""
        self._room = room.resolve()
        try:
            yield
        finally:
            self._room = None

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Yield a helper's own doing, which the test that calls it names."""
        self._open_doors += 1
        try:
            yield
        finally:
            self._open_doors -= 1

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        if self._room is None or self._open_doors:
            return
        if event in PROCESSES:
            self._refuse(f"started a process ({event}{args[:1]})", "fake it, or use the `sh` fixture")
        elif event in SOCKETS:
            self._refuse(f"went to the network ({event})", "fake it")
        elif event in SIGNALS and args[1] != 0:
            self._refuse(f"sent a signal ({event}: {args!r})", "fake it")
        elif event == "open" and isinstance(args[2], int) and args[2] & WRITES:
            # The event has no dir_fd. system/paths.py opens names in a directory that it has entered.
            inside = args[2] & os.O_NOFOLLOW and isinstance(args[0], str) and not os.path.isabs(args[0])
            self._look(event, args[0], 0 if inside else None)
        elif event in CHANGES:
            places, dir_fd = CHANGES[event]
            for place in places:
                # before Python 3.11 rmtree has no dir_fd to tell of
                self._look(event, args[place], args[dir_fd] if dir_fd is not None and dir_fd < len(args) else None)

    def _look(self, event: str, path: object, dir_fd: object) -> None:
        if isinstance(path, int) or dir_fd not in (None, -1):
            return  # of something that was opened before, by its path
        where = Path(os.path.abspath(os.fsdecode(path)))  # type: ignore[arg-type]
        if where != Path(os.devnull) and self._room not in (where, *where.parents):
            self._refuse(f"changed a file outside tmp_path ({event}: {where})", "write under tmp_path")

    def _refuse(self, what: str, remedy: str) -> None:
        # not an Exception: no `except Exception` of the code under test may swallow it
        pytest.fail(f"A unit test {what}, and unit tests touch nothing of the world: {remedy}.")


def rooms(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that holds every test's tmp_path."""
    return factory.getbasetemp()
