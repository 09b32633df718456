"""Note the moments of a launch, in seconds since its begin, and wait for its events."""

from __future__ import annotations

import os
import queue
import time
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
WAKE = 1.0  # seconds: Python handles a signal that comes just before a wait only after it (CPython, signal)
MOMENT = 0.05  # seconds from the end of a wait that mnrun was stopped in, until another thread has handled its SIGCONT


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

    @property
    def age(self) -> float:
        """Return the seconds since the begin."""
        return time.monotonic() - self._begin

    def mark(self, moment: str, node: str = "") -> None:
        """Note that it is this moment now, for the whole launch or for one node."""
        moments = self.nodes.setdefault(node, {}) if node else self.moments
        moments[moment] = round(self.age, 6)


def take(events: queue.SimpleQueue[T], deadline: float) -> T | None:
    """Return the next event, or None if none came before `deadline`, a time of time.monotonic()."""
    while (left := deadline - time.monotonic()) > 0:
        with suppress(queue.Empty):
            return events.get(timeout=min(left, WAKE))
    with suppress(queue.Empty):
        return events.get(timeout=MOMENT)
    return None
