"""Mount a directory so that all nodes of a cluster share its bandwidth, as that of one file server.

    python slow.py SOURCE PLACE BYTES_PER_SECOND LEDGER

Each node mounts it itself, and so has a page cache of its own. LEDGER is a file that all of them see: the time until
which the server is busy, and the bytes that it has served.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time

import mfusepy  # type: ignore[import-not-found]

LEDGER = struct.Struct("dq")
FIELDS = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size")
TIMES = ("st_atime", "st_mtime", "st_ctime")


class Slow(mfusepy.Operations):  # type: ignore[misc]
    """A read-only view of a directory."""

    use_ns = True

    def __init__(self, source: str, rate: float, ledger: str) -> None:
        self.source, self.rate = source, rate
        self.ledger = os.open(ledger, os.O_RDWR)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        state = os.lstat(self.source + path)
        times = {name: getattr(state, f"{name}_ns") for name in TIMES}
        return {**times, **{name: getattr(state, name) for name in FIELDS}}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self.source + path)]

    def open(self, path: str, flags: int) -> int:
        return os.open(self.source + path, os.O_RDONLY)

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        data = os.pread(fh, size, offset)
        self._wait(len(data))
        return data

    def _wait(self, size: int) -> None:
        """Wait for the turn of so many bytes. All requests stand in one queue."""
        fcntl.flock(self.ledger, fcntl.LOCK_EX)
        try:
            busy, served = LEDGER.unpack(os.pread(self.ledger, LEDGER.size, 0))
            now = time.monotonic()
            busy = max(now, busy) + size / self.rate
            os.pwrite(self.ledger, LEDGER.pack(busy, served + size), 0)
        finally:
            fcntl.flock(self.ledger, fcntl.LOCK_UN)
        time.sleep(busy - now)


if __name__ == "__main__":
    mfusepy.FUSE(
        Slow(sys.argv[1], float(sys.argv[3]), sys.argv[4]),
        sys.argv[2],
        foreground=True,
        allow_other=True,
        ro=True,
        kernel_cache=True,
        use_ino=True,
    )
