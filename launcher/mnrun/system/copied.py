"""Copy what a program writes to an open file, and keep the last part.

srun, mpirun and ssh drop output that they cannot write, and exit with 0. So files get their output from mnrun.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections.abc import Callable, Iterator

from mnrun.system import client, process
from mnrun.system.client import NOTHING, Own
from mnrun.system.paths import mode

PART = 1 << 20  # bytes that are kept
FULL = 1 << 17  # bytes, more than a full pipe holds (pipe(7))
Sieve = Callable[[Iterator[bytes]], Iterator[bytes]]


def is_file(target: int) -> bool:
    """Return whether an open file is a regular one, on a disk that may be full."""
    return stat.S_ISREG(mode(target))


class Copied:
    """A pipe whose content goes on to `target`, an open file. `end` is the pipe's end to write to.

    A client's `own` lines are left out, and so is what `sieve` leaves out. `failure` is the first error of a
    disk: from then on, nothing is written.
    """

    def __init__(self, target: int, own: Own = NOTHING, sieve: Sieve = iter) -> None:
        self._source, self.end = os.pipe()
        self._own, self._sieve = own, sieve
        self.target = target
        self._in_a_file = is_file(target)
        self.failure: OSError | None = None
        self._last = bytearray()
        self._read = 0  # bytes
        self._busy = False  # whether the thread reads or writes
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Close this end, and wait until all was copied. A process that the program has left may hold its own end."""
        if self.end >= 0:
            os.close(self.end)
            self.end = -1
        self._thread.join(seconds)

    def drain(self, seconds: float = 2.0) -> None:
        """Close this end, wait until the reader of `target` has taken what is in the pipe now, then as `close` does."""
        self.close(0)
        begin = self._read
        while self._thread.is_alive() and (self._waits() or self._busy) and self._read <= begin + FULL:
            self._thread.join(0.1)
        self.close(seconds)

    def _waits(self) -> bool:
        """Return whether the pipe holds data. If it does not, data that was in it has made the thread busy before."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    @property
    def text(self) -> str:
        """Return the last part, in whole lines."""
        text = bytes(self._last).decode("utf-8", "replace")
        return text if len(self._last) < PART else text.partition("\n")[2]

    def lost(self, name: str = "") -> str:
        """Return the words on output that the disk did not take, or "". `name` is that of the file, if it is known."""
        if self.failure is None:
            return ""
        name = name or os.readlink(f"/proc/self/fd/{self.target}")
        why = (self.failure.strerror or "it cannot be written").lower()
        return f"{name}: {why}: {os.fstat(self.target).st_size} bytes are there, and the rest is lost"

    def _copy(self) -> None:
        chunks = self._chunks()
        for data in self._sieve(client.without(chunks, self._own)):
            self._last += data
            del self._last[:-PART]
            if self.failure is None:
                self._try(process.write, self.target, data)
        # close(2): NFS and disk quotas may report an earlier write's error only here
        if self.failure is None and self._in_a_file:
            self._try(os.close, os.dup(self.target))
        os.close(self._source)

    def _try(self, act: Callable[..., None], *words: object) -> None:
        """Do it, and note an error of a disk. A reader that has gone does not end the program, and is no error."""
        try:
            act(*words)
        except OSError as error:
            if self._in_a_file:
                self.failure = error

    def _chunks(self) -> Iterator[bytes]:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        while poll.poll():
            self._busy = True
            data = os.read(self._source, 65536)
            if not data:
                return
            self._read += len(data)
            yield data
            self._busy = False
