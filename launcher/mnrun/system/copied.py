"""Copy what a program writes to an open file that cannot be read again, and keep the last part."""

from __future__ import annotations

import contextlib
import os
import re
import threading

from mnrun.system import client

PART = 1 << 20  # bytes that are kept
FULL = 1 << 17  # bytes, more than a full pipe and one chunk of it
NOTHING = re.compile(rb"(?!)")


class Copied:
    """A pipe whose content goes on to `target`, an open file. `end` is the pipe's end to write to.

    Whole lines that match `own` are left out.
    """

    def __init__(self, target: int, own: re.Pattern[bytes] = NOTHING) -> None:
        source, self.end = os.pipe()
        self._own = own
        self._last = bytearray()
        self._written = 0
        self._writes = False  # or else it waits for data
        self._thread = threading.Thread(target=self._copy, args=(source, target), daemon=True)
        self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Close this end, and wait until all was copied. A process that the program has left may hold its own end."""
        if self.end >= 0:
            os.close(self.end)
            self.end = -1
        self._thread.join(seconds)

    def drain(self, seconds: float = 2.0) -> None:
        """Do as `close`, but wait as long as the reader of `target` needs for what the pipe holds now."""
        seen = self._written
        enough = seen + FULL
        self.close(seconds)
        while self._thread.is_alive() and seen < enough and (self._writes or self._written > seen):
            seen = self._written
            self.close(seconds)

    @property
    def text(self) -> str:
        """Return the last part, in whole lines."""
        text = bytes(self._last).decode("utf-8", "replace")
        return text if len(self._last) < PART else text.partition("\n")[2]

    def _copy(self, source: int, target: int) -> None:
        for data in client.without(client.chunks(source), self._own):
            self._last += data
            del self._last[:-PART]
            self._writes = True
            with contextlib.suppress(OSError):  # a reader that has gone does not end the program
                client.write(target, data)
            self._written += len(data)
            self._writes = False
        os.close(source)
