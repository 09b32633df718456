"""B7: nodes on which nothing is run from /tmp, or from shared memory either, as hardened ones are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .cells import HELLO, INSIDE, MPIRUN, OMPI5, SRUN, SSH, Way, turn
from .reports import check, refusal
from .stage import Cluster

ALWAYS = (SSH, Way("inside", "ompi5", runtime="charliecloud"))
BY_TURN = (INSIDE, Way("inside", "mpich"), Way("inside", "host"))


@contextmanager
def noexec(cluster: Cluster, *nodes: str, places: tuple[str, ...] = ("/tmp",)) -> Iterator[None]:
    def mounted(how: str) -> None:
        for node in nodes:
            for place in places:
                cluster.root(node, "mount", "-o", f"remount,bind,{how}", place)

    mounted("noexec")
    try:
        for node in nodes:
            cluster.root(node, "sh", "-c", "cp /bin/true /tmp/x; ! /tmp/x; code=$?; rm /tmp/x; exit $code")
        yield
    finally:
        mounted("exec")


@pytest.mark.parametrize("way", turn(0, (*ALWAYS, *BY_TURN), ALWAYS, BY_TURN), ids=str)
def test_noexec_of_tmp(cluster: Cluster, way: Way) -> None:
    """Jobs run, and a script's own mpirun and ssh are the job's."""
    with noexec(cluster, "node02", "node01"):
        check(cluster.mnrun(*way.words, "--", HELLO, nodes=3), *cluster.nodes[:3])
        script = f"command -v mpirun; command -v ssh; mpirun {HELLO}; ssh node02 command -v ssh"
        result = cluster.mnrun(*way.words, "--script", "/bin/sh", "--", "-c", script, nodes=2, tasks=1)
    mpirun, ssh, *ranks, there = result.out.splitlines()
    assert result.code == 0, result
    assert [place.startswith("/tmp/mnrun.") for place in (mpirun, ssh, there)] == [True] * 3, result
    assert len(ranks) == 2, result


def test_noexec_of_tmp_on_hosts(cluster: Cluster) -> None:
    with noexec(cluster, "node01", "node02"):
        for way in (MPIRUN, INSIDE):
            check(cluster.alice(["mnrun", "--hosts", "node[01-02]:2", *way.words, "--", HELLO]), *cluster.nodes[:2])


def test_noexec_everywhere(cluster: Cluster) -> None:
    with noexec(cluster, "node02", places=("/tmp", "/dev/shm")):
        for way in (INSIDE, SSH):
            refused = cluster.mnrun(*way.words, "--", HELLO, nodes=3)
            why = "and /dev/shm are mounted noexec, and mnrun must run a script in one of them"
            refusal(refused, 121, "1 of 3 nodes not ready: node02: /tmp/mnrun.", why, "--mode outside-in")
        for way in (MPIRUN, SRUN):
            check(cluster.mnrun(*way.words, "--", HELLO, nodes=2), *cluster.nodes[:2])
        check(cluster.mnrun(*INSIDE.words, "--", HELLO, nodes=1, salloc=["-w", "node02"]), "node02")
        own = ["--mpi", "mpich", "--image", OMPI5, "--", HELLO]
        refusal(
            cluster.mnrun("--mode", "inside-out", *own, nodes=1, salloc=["-w", "node02"]), 125, "--mpi mpich: the image"
        )
