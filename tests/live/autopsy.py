"""See what a failed test was waiting for: the users' processes, and how this machine was at that time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rehearsal.model import SUBORDINATES, USERS

STILL = 5.0  # seconds by which a sleep of one second may be late before it counts as a standstill
OURS = set(USERS.values()) - {0}


class Watch:
    """The time since the beginning, in which each standstill of this machine is noted."""

    def __init__(self) -> None:
        self.still: list[str] = []
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            begin, slept = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
            time.sleep(1)
            late = max(time.monotonic() - begin, time.clock_gettime(time.CLOCK_BOOTTIME) - slept) - 1
            if late > STILL:
                self.still.append(f"{time.strftime('%H:%M:%S')}: stood still for {late:.0f} s")

    def machine(self) -> str:
        """Return the time, the load, the free memory, and each standstill so far."""
        memory = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
        now = f"{time.strftime('%H:%M:%S')}: load {Path('/proc/loadavg').read_text().strip()}, {memory} KiB available"
        return "\n".join([now, *self.still])


def processes() -> str:
    """Return a line for each process of the users in all clusters, by its network namespace."""
    return "\n".join(["network pid ppid group session foreground state wait words", *sorted(_lines())])


def _lines() -> Iterator[str]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            uid = int((entry / "status").read_text(errors="replace").split("Uid:")[1].split()[0])
            if uid not in OURS and uid < SUBORDINATES:
                continue
            name, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
            state, parent, group, session, _, foreground = rest.split()[:6]
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:150]
            wait, network = (entry / "wchan").read_text(), "-"
            with suppress(OSError):  # a zombie has none
                network = os.readlink(entry / "ns/net").strip("net:[]")
            yield f"{network} {entry.name} {parent} {group} {session} {foreground} {state} {wait} {words or name}"
