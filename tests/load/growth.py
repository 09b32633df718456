"""See what has grown on the nodes: all that tests/faults/checker.py sees, every file that a node has, and memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from faults import checker
from rehearsal.model import Cluster

# Slurm's controllers keep ended jobs for a while (MinJobAge in slurm.conf). The heap of Docker's daemons goes up and
# down by megabytes, as Go's collector likes.
OTHERS = ("slurmctld", "slurmdbd", "dockerd", "containerd")
SLURMS = ("/var/spool/slurmctld/", "/var/spool/slurmd/cred_state")
SEEN = (*(f"/{place}/" for place in checker.PLACES), *SLURMS)


def things(cluster: Cluster) -> checker.Picture:
    """Return a line for each thing on each node that is switched on, as checker.py has them."""
    return checker.picture(cluster) + Counter(
        f"{node}: inode {path}" for node, pid in _nodes(cluster).items() for path in _written(pid)
    )


def memory(cluster: Cluster) -> dict[str, int]:
    """Return node -> the KiB that its processes have for themselves (RssAnon in proc_pid_status(5))."""
    return {node: sum(_memory(pid)) for node, pid in _nodes(cluster).items()}


def _nodes(cluster: Cluster) -> dict[str, int]:
    pids = {node: cluster.pid(node) for node in cluster.options().everyone}
    return {node: pid for node, pid in pids.items() if pid is not None}


def _written(pid: int) -> Iterator[str]:
    """Yield the files that are the node's own: those above its tree, and those of its /run and /dev."""
    (root,) = [line for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines() if line.split()[4] == "/"]
    upper = root.partition("upperdir=")[2].partition(",")[0]
    for top, place in ((upper, ""), (f"/proc/{pid}/root/run", "/run"), (f"/proc/{pid}/root/dev", "/dev")):
        for folder, below, names in os.walk(top):
            paths = (place + os.path.join(folder, name).removeprefix(top) for name in (*below, *names))
            yield from (path for path in paths if not path.startswith(SEEN))


def _memory(pid: int) -> Iterator[int]:
    for entry in Path(f"/proc/{pid}/root/proc").glob("[0-9]*"):
        try:
            text = (entry / "status").read_text()
        except OSError:  # it has just ended
            continue
        fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if fields["Name"] not in OTHERS:
            yield int(fields.get("RssAnon", "0 kB").split()[0])
