"""Signals for processes that a look at /proc has found."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable


def send(pid: int, signum: int, same: Callable[[], bool]) -> None:
    """Send a signal to the process `pid`, unless it has ended.

    Another process may have its number by then. So a handle first fixes the process that has the number now
    (pidfd_open(2)), then `same` tells whether that one is meant, and the signal goes to the handle's process.
    """
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it ends while one looks
        handle = os.pidfd_open(pid)
        try:
            if same():
                signal.pidfd_send_signal(handle, signum)
        finally:
            os.close(handle)


def began(pid: int) -> int:
    """Return when a process began, in clock ticks since the machine's start (proc(5), stat, field 22)."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
        return int(stat.read().rpartition(") ")[2].split()[19])
