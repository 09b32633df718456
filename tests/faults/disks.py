"""Faults of file systems and of clocks. acts.py names them."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from live.stage import LOGIN, Cluster, wait_for
from rehearsal import host

from .scene import RECORDS, SHORT, Act, Scene, outer
from .table import WORKER


@contextmanager
def _small(cluster: Cluster, node: str, place: str, size: str, mode: str, owner: str) -> Iterator[None]:
    """Mount a file system of that size at a place."""
    options = f"size={size},mode={mode},uid={cluster.root(node, 'id', '-u', owner).strip()}"
    cluster.root(node, "mount", "-t", "tmpfs", "-o", options, "faults", place)
    try:
        yield
    finally:
        cluster.root(node, "umount", "--lazy", place)


def _fill(cluster: Cluster, node: str, place: str) -> None:
    """Fill a file system to its last byte and its last file."""
    script = "cat /dev/zero >$0; i=0; while true >$0.$((i += 1)); do :; done; true"
    cluster.root(node, "sh", "-c", f"{{ {script}; }} 2>/dev/null", f"{place}/filler")


def full(node: str, place: str, size: str, mode: str = "1777", owner: str = "root") -> Act:
    def act(scene: Scene) -> Generator[None, None, None]:
        with _small(scene.cluster, node, place, f"{size},nr_inodes=300", mode, owner):
            yield
            _fill(scene.cluster, node, place)
            yield
            scene.cluster.root(node, "sh", "-c", f"rm -f {place}/filler*")
            if place != RECORDS:  # the checker cannot look into a file system that goes away with the fault
                there = scene.cluster.path(place, node)
                wait_for(
                    lambda: not any(there.iterdir()), f"without files in {place}", 10, lambda: str([*there.rglob("*")])
                )

    return act


def read_only(scene: Scene) -> Generator[None, None, None]:
    with _small(scene.cluster, LOGIN, RECORDS, "10m", "700", "alice"):
        yield
        scene.cluster.root(LOGIN, "chmod", "-R", "a-w", RECORDS)  # a remount waits for the files that are open
        yield


def hanging(scene: Scene) -> Generator[None, None, None]:
    """The records lie on a FUSE file system, whose server stops for a while."""
    cluster = scene.cluster
    words = ["fuse-overlayfs", "-f", "-o", "allow_other,lowerdir=/run/fuse/l,upperdir=/run/fuse/u,workdir=/run/fuse/w"]
    cluster.root(LOGIN, "sh", "-c", "mkdir -p /run/fuse/l /run/fuse/u /run/fuse/w; chown alice: /run/fuse/*")
    with cluster.running([*words, RECORDS], user="root") as server:
        wait_for(
            lambda: f" {RECORDS} fuse" in Path(f"/proc/{cluster.model.pid(LOGIN)}/mounts").read_text(), "mounted", 20
        )
        try:
            yield
            overlay = outer(cluster, LOGIN, cluster.root(LOGIN, "pidof", "-s", "fuse-overlayfs").strip())
            overlay.send(signal.SIGSTOP)
            time.sleep(SHORT)
            overlay.send(signal.SIGCONT)
            yield
        finally:
            cluster.root(LOGIN, "umount", "--lazy", RECORDS)
            server.end()
            cluster.root(LOGIN, "rm", "-rf", "/run/fuse")


AHEAD = Path(__file__).parent / "ahead.c"
CLOCK, JUMP = "/run/faults.clock.so", "/run/faults.ahead"


def clock(scene: Scene) -> Generator[None, None, None]:
    """The worker's clock jumps by 10 minutes, for all programs that start there after the ground was prepared."""
    host.install_tools({"cc": "gcc"})
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, str(AHEAD)], check=True)
        scene.cluster.put(CLOCK, Path(library).read_bytes(), 0o755, WORKER, 0)
    scene.cluster.put("/etc/ld.so.preload", f"{CLOCK}\n", 0o644, WORKER, 0)
    try:
        yield
        scene.cluster.put(JUMP, "", 0o644, WORKER, 0)
        yield
    finally:
        scene.cluster.root(WORKER, "rm", "-f", "/etc/ld.so.preload", JUMP, CLOCK)
