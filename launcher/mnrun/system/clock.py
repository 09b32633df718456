"""Note the moments of a launch, in seconds since its begin."""

from __future__ import annotations

import os
import time


def ticks(pid: int) -> int:
    """Return the start of a process, in ticks since the machine's own (proc(5), field 22), or 0 without the process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def begun() -> float:
    """Return the time at which this process began, by the clock of time.monotonic."""
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks(os.getpid()) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age


class Clock:
    """The moments of a launch that began at `begin`, by the clock of time.monotonic. Without it, it begins now."""

    def __init__(self, begin: float | None = None) -> None:
        self._begin = time.monotonic() if begin is None else begin
        self.moments: dict[str, float] = {}
        self.nodes: dict[str, dict[str, float]] = {}  # node -> its moments

    def mark(self, moment: str, node: str = "") -> None:
        """Note that it is this moment now, for the whole launch or for one node."""
        moments = self.nodes.setdefault(node, {}) if node else self.moments
        moments[moment] = round(time.monotonic() - self._begin, 6)
