"""Copy what a program writes to an open file that cannot be read again, and keep the last part."""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
from collections.abc import Iterator

from mnrun.system import client

PART = 1 << 20  # bytes that are kept
FULL = 1 << 17  # bytes, more than a full pipe holds (pipe(7))
NOTHING = re.compile(rb"(?!)")


class Copied:
    """A pipe whose content goes on to `target`, an open file. `end` is the pipe's end to write to.

    Whole lines that match `own` are left out.
    """

    def __init__(self, target: int, own: re.Pattern[bytes] = NOTHING) -> None:
        self._source, self.end = os.pipe()
        self._own = own
        self._last = bytearray()
        self._read = 0  # bytes
        self._busy = False  # whether the thread reads or writes
        self._thread = threading.Thread(target=self._copy, args=(target,), daemon=True)
        self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Close this end, and wait until all was copied. A process that the program has left may hold its own end."""
        if self.end >= 0:
            os.close(self.end)
            self.end = -1
        self._thread.join(seconds)

    def drain(self, seconds: float = 2.0) -> None:
        """Close this end, and wait until the reader of `target` has taken what the pipe holds now.

        After that, wait as `close` does.
        """
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

    def _copy(self, target: int) -> None:
        for data in client.without(self._chunks(), self._own):
            self._last += data
            del self._last[:-PART]
            with contextlib.suppress(OSError):  # a reader that has gone does not end the program
                client.write(target, data)
        os.close(self._source)

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
