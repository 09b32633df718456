"""See what lies and runs on the nodes of a rehearsal cluster, by the kernel's word alone.

This module knows nothing of mnrun: no name of a file, no mark, no record. It compares two pictures of everything.

before = picture(cluster)
…
left = wait_same(cluster, before, 10)
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from rehearsal.model import Cluster

# Places where users can leave files. Home directories belong to them.
PLACES = ("tmp", "var/tmp", "dev/shm", "dev/mqueue", "run/user", "run/lock", "home")
LISTENING = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}  # states in /proc/net (include/net/tcp_states.h)
ACCEPTS = 0x10000  # a listening socket in /proc/net/unix (SO_ACCEPTCON of include/uapi/linux/net.h)
KEPT = (": process ", ": mount ")  # the machine needs these: one that has gone is a fault, too

Picture = Counter[str]


def picture(cluster: Cluster) -> Picture:
    """Return a line for each thing on each node that is switched on, with the number of such things."""
    found: Picture = Counter()
    for node in cluster.options().everyone:
        pid = cluster.pid(node)
        if pid is not None:
            found.update(f"{node}: {line}" for look in LOOKS for line in look(pid))
    return found


def differences(before: Picture, now: Picture) -> list[str]:
    """Return what has come since `before`, and the processes and mounts that have gone."""
    gone = [f"gone: {line}" for line in before - now if any(kind in line for kind in KEPT)]
    return sorted([*(now - before), *gone])


def wait_same(
    cluster: Cluster, before: Picture, seconds: float, look: Callable[[Cluster], Picture] = picture
) -> tuple[list[str], float]:
    """Return what differs after so many seconds, and the time until nothing did."""
    begin = time.monotonic()
    while True:
        left = differences(before, look(cluster))
        took = time.monotonic() - begin
        if not left or took > seconds:
            return left, took
        time.sleep(0.2)


def processes(pid: int) -> Iterator[str]:
    """Yield the processes of the node's pid namespace and of all namespaces below it, by user and words."""
    for entry in os.scandir(f"/proc/{pid}/root/proc"):
        if not entry.name.isdigit():
            continue
        try:
            status = dict(
                line.split(":\t", 1) for line in Path(entry, "status").read_text().splitlines() if ":\t" in line
            )
            words = Path(entry, "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:  # it has just ended
            continue
        if not status["State"].startswith("Z"):
            yield f"process of {status['Uid'].split()[0]}: {(words or status['Name'])[:150]}"


def mounts(pid: int) -> Iterator[str]:
    """Yield the mounts of the node, by place, kind and source."""
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        before, _, behind = line.partition(" - ")
        kind, source = behind.split()[:2]
        yield f"mount at {before.split()[4]}: {kind} of {source}"


def files(pid: int) -> Iterator[str]:
    """Yield every file and directory below the places that users can write."""
    for place in PLACES:
        top = f"/proc/{pid}/root/{place}"
        for folder, below, names in os.walk(top):
            for name in (*below, *names):
                yield f"file {os.path.join(folder, name).removeprefix(f'/proc/{pid}/root')}"


def ports(pid: int) -> Iterator[str]:
    """Yield the ports that somebody listens on, and the listening sockets without a file."""
    for kind, state in LISTENING.items():
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state:
                yield f"port {kind} {int(fields[1].rpartition(':')[2], 16)} of {fields[7]}"
    for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[7].startswith("@") and int(fields[3], 16) & ACCEPTS:
            yield f"socket {fields[7]}"


def segments(pid: int) -> Iterator[str]:
    """Yield the segments, queues and semaphores of System V, by key and owner."""
    for kind in ("shm", "msg", "sem"):
        words = ["nsenter", "-t", str(pid), "-i", "cat", f"/proc/sysvipc/{kind}"]
        table = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        heads = table[0].split()
        for line in table[1:]:
            fields = dict(zip(heads, line.split()))
            yield f"{kind} segment {fields['key']} of {fields['uid']}"


LOOKS: tuple[Callable[[int], Iterator[str]], ...] = (processes, mounts, files, ports, segments)
