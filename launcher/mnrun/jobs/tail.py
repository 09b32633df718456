"""Read files, and read on as they grow."""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path

from mnrun.system.paths import open_file

BLOCK = 1 << 20
_LINE = re.compile(rb"(\r?\n|\r(?=[^\r\n]))")  # the end of a line, or of what the next one is written over


class Tail:
    """One file, read from its beginning or from its last `lines` lines on. With a `prefix`, each line has it in front.
    `only` keeps the lines that have this, and `cut` takes it out of them."""

    def __init__(
        self,
        path: Path,
        prefix: bytes = b"",
        lines: int | None = None,
        only: re.Pattern[bytes] | None = None,
        cut: bool = False,
    ) -> None:
        self.path = path
        self._prefix = prefix
        self._lines = lines
        self._only, self._cut = only, cut
        self._place: int | None = None
        self._rest = b""

    def more(self) -> bytes:
        """Return the text since the last call, or b"" if there is none, or no such file yet."""
        while data := self._block():
            if text := self._lines_of(data) if self._prefix or self._only else data:
                return text
        return b""

    def _block(self) -> bytes:
        try:
            handle = open_file(self.path)
        except OSError:
            return b""
        try:
            size = os.fstat(handle).st_size
            if self._place is None:
                self._place = 0 if self._lines is None else self._start(handle, size, self._lines)
            elif size < self._place:
                self._place = 0  # the file was begun anew
            data = os.pread(handle, BLOCK, self._place)
        except OSError:
            return b""
        finally:
            os.close(handle)
        self._place += len(data)
        return data

    def rest(self) -> bytes:
        """Return a last line without an end. Call this when nothing more will come."""
        line, self._rest = self._rest, b""
        return self._prefix + self._shown(line) + b"\n" if line and self._matches(line) else b""

    def _start(self, handle: int, size: int, lines: int) -> int:
        if self._only is None:
            return _start(handle, size, lines)
        places: deque[int] = deque(maxlen=lines)
        place = 0
        with os.fdopen(os.dup(handle), "rb") as file:
            for line in file:
                if self._matches(line):
                    places.append(place)
                place += len(line)
        return places[0] if places else place

    def _lines_of(self, data: bytes) -> bytes:
        """Return the whole lines. One that a program writes anew ends in \\r."""
        *lines, self._rest = _LINE.split(self._rest + data)
        pairs = zip(lines[::2], lines[1::2])
        return b"".join(self._prefix + self._shown(line) + end for line, end in pairs if self._matches(line))

    def _shown(self, line: bytes) -> bytes:
        return self._only.sub(b"", line, count=1) if self._only is not None and self._cut else line

    def _matches(self, line: bytes) -> bool:
        return self._only is None or self._only.search(line) is not None


def _start(handle: int, size: int, lines: int) -> int:
    """Return the place where the last `lines` lines begin. A newline at the very end closes the last of them."""
    place, count = size, 0
    while place > 0:
        start = max(place - BLOCK, 0)
        block = os.pread(handle, place - start, start)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            if start + at == size - 1:
                continue
            count += 1
            if count == lines:
                return start + at + 1
        place = start
    return 0 if lines else size
