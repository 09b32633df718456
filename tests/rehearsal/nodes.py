"""One node: switched on, and switched off."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NoReturn

from . import cgroups, pbs
from .chamber import PATH
from .door import usual_signals
from .errors import ClusterError
from .model import LOGIN, Cluster, Options
from .namespaces import first_process
from .recipe import HERE
from .signals import send

# What --bare-login takes from the login node's /usr/bin.
BARE = (
    "apptainer", "singularity", "singularity.apptainer", "run-singularity",
    "mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec", "mpiexec.openmpi", "mpiexec.mpich",
    "mpiexec.hydra", "prterun", "prte", "docker", "podman",
)  # fmt: skip


def boot(cluster: Cluster, options: Options, node: str) -> int:
    """Switch a node on, its disk as it was and its /tmp empty; its first process goes on without us."""
    place = cluster.place(node)
    shutil.rmtree(place / "tmp", ignore_errors=True)
    for part in ("upper", "spare", "root", "tmp"):
        (place / part).mkdir(parents=True, exist_ok=True)
    (place / "tmp").chmod(0o1777)
    environ = {
        "PATH": PATH,
        "PLACE": str(place),
        "LOWER": ":".join(map(str, [cluster.state / "layer", *cluster.below])),
        "HOMES": str(homes(cluster, options, node)),
        "MNRUN": str(cluster.state / "mnrun"),
        "IMAGES": str(cluster.images),
        "ADDRESS": options.address(node),
        "BARE": " ".join(
            [*(BARE if options.bare_login and node == LOGIN else ()), *(pbs.SLURMS if options.pbs else ())]
        ),
        "CGROUPS": " ".join(map(str, cgroups.make(cluster, node))) if options.cgroup else "",
    }

    def become() -> NoReturn:
        quiet, log = os.open("/dev/null", os.O_RDONLY), place / "console.log"
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for old, new in ((quiet, 0), (output, 1), (output, 2)):
            os.dup2(old, new)
        # Whatever else the caller had open is not the node's.
        os.closerange(3, 256)
        os.umask(0o022)
        os.chdir("/")
        usual_signals()
        script = str(HERE / "inside/boot.sh")
        os.execve("/bin/sh", ["/bin/sh", script, node], environ)

    pid = first_process(cluster.netns(node), become)
    (place / "pid").write_text(f"{pid}\n")
    return pid


def homes(cluster: Cluster, options: Options, node: str) -> Path:
    """The shared /home, or with --separate-home the node's own copy of it."""
    shared = cluster.state / "home"
    if not options.separate_home:
        return shared
    own = cluster.state / "homes" / node
    if not own.exists():
        shutil.copytree(shared, own, symlinks=True)
        for path in (own, *own.rglob("*")):
            there = (shared / path.relative_to(own)).lstat()
            os.chown(path, there.st_uid, there.st_gid, follow_symlinks=False)
    return own


def power_off(networks: Iterable[Path], seconds: float = 20) -> None:
    """kill -9 for every process that lives in these networks, until there is none.

    The first process takes its pid namespace along; what is counted here is what
    the kernel has really let go of.
    """
    inodes = {file.stat().st_ino for file in networks}
    deadline = time.monotonic() + seconds
    ended: set[int] = set()
    while True:
        found = processes(inodes)
        if not found:
            return _await_reaping(ended)
        ended.update(found)
        if time.monotonic() > deadline:
            raise ClusterError(f"processes that do not end: {' '.join(map(str, found))}")
        for pid in found:
            send(pid, signal.SIGKILL, partial(_lives_in, pid, inodes))
        time.sleep(0.05)


def _await_reaping(pids: Iterable[int], seconds: float = 2) -> None:
    """The first processes are the machine's init's to reap; it does so in its own time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.02)


def processes(networks: set[int]) -> list[int]:
    """All processes in the networks with these inode numbers."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if _lives_in(int(entry.name), networks):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _lives_in(pid: int, networks: set[int]) -> bool:
    return os.stat(f"/proc/{pid}/ns/net").st_ino in networks
