"""The control groups of a node with --cgroup: its own part of this machine's, made and taken away.

Of the first kind there is a hierarchy per controller, and a folder of the node's in each; of the
second kind there is one. The node sees its part as the whole, as a machine sees its own.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from .errors import ClusterError, Unable
from .model import Cluster

MACHINE = Path("/sys/fs/cgroup")
# What Slurm needs, of either kind.
FIRST = ("freezer", "devices", "cpuset", "memory", "cpuacct")
SECOND = ("cpuset", "cpu", "memory", "pids")
# The second kind, with next to no controllers, where the first is in use.
HYBRID = "unified"


def kind() -> int:
    """1 or 2: which control groups this machine offers to Slurm."""
    if all((MACHINE / controller / "cgroup.procs").exists() for controller in FIRST):
        return 1
    offered = MACHINE / "cgroup.controllers"
    if offered.exists() and set(SECOND) <= set(offered.read_text().split()):
        return 2
    raise Unable(f"--cgroup: {MACHINE} lacks control groups that Slurm needs: mount {', '.join(FIRST)}, or version 2")


def hierarchies() -> list[Path]:
    """Each of them that this machine has."""
    if (MACHINE / "cgroup.procs").exists():
        return [MACHINE]
    # Some go by two names, one of them a link.
    folders = [folder for folder in MACHINE.iterdir() if folder.is_dir() and not folder.is_symlink()]
    return sorted(folder for folder in folders if folder.name != HYBRID and (folder / "cgroup.procs").exists())


def _whole(hierarchy: Path, cluster: Cluster) -> Path:
    # No name has a dot in it, so no cluster's folder is another one's.
    return hierarchy / f"mnrun.{cluster.name}"


def make(cluster: Cluster, node: str) -> list[Path]:
    """New ones for a node that is about to start: what was in them ended with its power."""
    made = []
    for hierarchy in hierarchies():
        whole = _whole(hierarchy, cluster)
        _remove(whole / node)
        for folder in (whole, whole / node):
            folder.mkdir(exist_ok=True)
            _fill(folder)
        made.append(whole / node)
    return made


def counted(cluster: Cluster, node: str) -> Path:
    """The control group in which a node's CPU time is counted, made if need be; `remove` takes it away."""
    first = MACHINE / "cpuacct"
    group = _whole(first if first.is_dir() else MACHINE, cluster) / node
    group.mkdir(parents=True, exist_ok=True)
    return group


def _fill(folder: Path) -> None:
    """Give it what its parent has."""
    clone = folder / "cgroup.clone_children"
    if (folder / "cpuset.cpus").exists() and clone.exists():
        # No process can be in an empty set; those that Slurm makes in it are filled by the kernel.
        for file in ("cpuset.cpus", "cpuset.mems"):
            (folder / file).write_text((folder.parent / file).read_text())
        clone.write_text("1")
    elif (folder / "cgroup.subtree_control").exists():
        (folder.parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in SECOND))


def thaw(cluster: Cluster, node: str = "") -> None:
    """Whom Slurm has frozen, kill -9 does not reach."""
    for state in (_whole(MACHINE / "freezer", cluster) / node).glob("**/freezer.state"):
        with contextlib.suppress(OSError):
            state.write_text("THAWED")


def remove(cluster: Cluster) -> None:
    """Take away all that a cluster of this name has, or left behind."""
    if MACHINE.is_dir():
        for hierarchy in hierarchies():
            _remove(_whole(hierarchy, cluster))


def _remove(top: Path, seconds: float = 10) -> None:
    """The folders: their files go with them. The last process may take its time to be gone from one."""
    deadline = time.monotonic() + seconds
    while top.is_dir():
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if time.monotonic() > deadline:
            raise ClusterError(f"{top} cannot be removed: is there a process in it?")
        time.sleep(0.01)
