"""A start that hangs does not hang the job: at the limit the phase, the nodes and what they wait for are named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .cells import HELLO, INSIDE, MAIN, MPIRUN, OMPI5, Way, full, one
from .reports import refusal
from .stage import Cluster, Desk, wait_for

pytestmark = pytest.mark.xdist_group("faults")

SOON = ("--start-timeout", "60s")  # twice what a healthy node of a busy machine was seen to need
HANGS = "#!/bin/sh\nexec sleep 3596\n"
WORKER = "node02"


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_a_runtime_that_never_starts_a_container(cluster: Cluster, way: Way) -> None:
    """The phase is `container`, and the node's process is named. The other node is not."""
    cluster.put("/usr/local/bin/apptainer", HANGS, 0o755, WORKER)
    try:
        words = [*way.words, "--", HELLO]
        line = refusal(cluster.mnrun(*SOON, *words, nodes=2), 124, WORKER, "60 s", "--start-timeout", "phase container")
        assert "waits for sleep 3596 (" in line and "node01" not in line, line
    finally:
        cluster.root(WORKER, "rm", "-f", "/usr/local/bin/apptainer")


@pytest.mark.parametrize("daemon", one(0, ["prted", "orted"]))
def test_an_mpirun_that_never_wires_up(cluster: Cluster, desk: Desk, daemon: str) -> None:
    """A daemon of mpirun's on the other node says nothing: the phase is `ranks`, and both sides are named."""
    hung = desk.put(daemon, HANGS, 0o755)
    image = OMPI5 if daemon == "prted" else OMPI5.replace("ompi5", "ompi4")
    words = ["--bind", f"{hung}:/usr/bin/{daemon}", "--mode", "inside-out", "--image", image, "--", HELLO]
    result = cluster.mnrun(*SOON, *words, nodes=2)
    line = refusal(result, 124, "not started 60 s after", "phase ranks", "--start-timeout")
    assert f"{WORKER}: waits for sleep 3596 (" in line and "node01: waits for " in line, line


@contextmanager
def hanging(cluster: Cluster) -> Iterator[str]:
    place = "/mnt"
    cluster.root("node01", "mount", "--bind", "/images", place)
    with cluster.running(
        ["fuse-overlayfs", "-f", "-o", "allow_other,lowerdir=/images", place], node=WORKER, user="root"
    ) as server:
        try:
            wait_for(lambda: f" {place} fuse" in cluster.root(WORKER, "cat", "/proc/mounts"), "mounted")
            inside = cluster.root(WORKER, "pidof", "-s", "fuse-overlayfs").strip()
            cluster.root(WORKER, "kill", "-STOP", inside)
            yield f"{place}/ompi5.sif"
            cluster.root(WORKER, "kill", "-CONT", inside)
        finally:
            cluster.root(WORKER, "umount", "--lazy", place)
            cluster.root("node01", "umount", place)
            server.end()


@pytest.mark.skipif(not full(), reason="half a minute until Slurm has killed what hangs: --full")
@pytest.mark.parametrize("way", (INSIDE, MPIRUN), ids=str)
def test_an_image_on_a_file_system_that_hangs(cluster: Cluster, way: Way) -> None:
    """The guard itself hangs and cannot answer: that is said. What hangs is killed, and nothing of it is left."""
    with hanging(cluster) as image:
        words = [*way.words[:-1], image, "--", HELLO]
        result = cluster.mnrun(*SOON, *words, nodes=2)
        line = refusal(result, 124, WORKER, "60 s", "phase container", "its guard does not answer")
        assert "node01" not in line, line


def test_an_image_that_is_a_pipe(cluster: Cluster, desk: Desk) -> None:
    cluster.root("login", "mkfifo", "-m", "644", f"{desk.path}/image.sif")
    result = cluster.mnrun(*SOON, "--image", f"{desk.path}/image.sif", "--", HELLO, nodes=2)
    refusal(result, (2, 121, 122), f"{desk.path}/image.sif")
