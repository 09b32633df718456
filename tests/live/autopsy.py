"""See what a failed test was waiting for: the users' processes, and how this machine was at that time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from rehearsal import signals
from rehearsal.model import SUBORDINATES, USERS
from rehearsal.network import NETNS

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


def processes(pid: int) -> str:
    """Return a line for each process of the users in the cluster where the process `pid` is, by its node.

    Each mnrun there gets a SIGABRT, so that it prints the stack of each of its threads (faulthandler).
    """
    networks = {_identity(path): path.name for path in NETNS.glob("mnrun.*")}
    cluster = networks.get(_identity(Path(f"/proc/{pid}/ns/net")), "").rpartition(".")[0]
    nodes = {number: name.rpartition(".")[2] for number, name in networks.items() if name.startswith(f"{cluster}.")}
    lines = sorted(_lines(nodes))
    for line in lines:
        if "/mnrun " in line:
            mnrun = int(line.split()[1])
            signals.send(mnrun, signal.SIGABRT, partial(_runs_mnrun, mnrun))
    time.sleep(1)
    return "\n".join(["node pid ppid group session foreground state wait words", *lines])


def _runs_mnrun(pid: int) -> bool:
    return b"/mnrun\0" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _identity(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_ino
    return 0


def _lines(nodes: dict[int, str]) -> Iterator[str]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            uid = int((entry / "status").read_text(errors="replace").split("Uid:")[1].split()[0])
            network = _identity(entry / "ns/net")  # a zombie has none
            if (uid not in OURS and uid < SUBORDINATES) or (network and network not in nodes):
                continue
            name, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
            state, parent, group, session, _, foreground = rest.split()[:6]
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace") or name
            numbers = f"{entry.name} {parent} {group} {session} {foreground} {state} {(entry / 'wchan').read_text()}"
            yield f"{nodes.get(network, '-')} {numbers} {' '.join(words.split())[:150]}"
