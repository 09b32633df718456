"""Networks by facts: bridges that lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .batch import end, submit
from .cells import HELLO, INSIDE, MPIRUN, OMPI5, SRUN, SSH, Way, some
from .conftest import clean
from .reports import check, mine
from .stage import Cluster

pytestmark = pytest.mark.xdist_group("decoys")

SAY = 'echo "$NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME"'


@pytest.fixture(scope="module")
def decoys() -> Iterator[Cluster]:
    with clean(2, "--decoys") as ours:
        yield ours


@pytest.mark.parametrize("way", some([INSIDE, SRUN], [SRUN]), ids=str)
def test_decoys_break_what_is_left_alone(decoys: Cluster, way: Way) -> None:
    """Open MPI's ranks, told nothing, try every network: they die, or wait for each other for ever."""
    words = ("--fabric", "off", *way.words, "--", HELLO)
    line = decoys.launch(*words, nodes=2, tasks=1)
    place = line.index("mnrun")
    result = decoys.alice([*line[:place], "timeout", "10", *line[place:]])
    assert result.code != 0, result


def test_decoys(decoys: Cluster) -> None:
    result = decoys.mnrun("-v", "--image", OMPI5, "--", HELLO, nodes=2)
    check(result, *decoys.nodes)
    (line,) = [line for line in mine(result) if "PRTE_MCA_prte_if_include" in line]
    planned = decoys.mnrun("plan", "--image", OMPI5, "--", HELLO, nodes=2)
    assert "\nnetworks:\n" in planned.out and f"\n  {line}\n" in planned.out, planned
    assert line.endswith(
        " = eth0: eth0 carries the route between the nodes (10.77.0.0/24); "
        "not docker0 (172.17.0.1 on every node), virbr0 (192.168.122.1 on every node)"
    )
    for way in some([Way("inside", "ompi4"), SRUN, MPIRUN, SSH], [Way("inside", "ompi4")]):
        check(decoys.mnrun(*way.words, "--", HELLO, nodes=2), *decoys.nodes)
    words = ("-x", "TP_SOCKET_IFNAME=mine", "--image", OMPI5, "--", "sh", "-c", SAY)
    result = decoys.mnrun(*words, nodes=2, tasks=1, env={"GLOO_SOCKET_IFNAME": "theirs"})
    assert result.out.split("\n") == ["eth0 theirs mine", "eth0 theirs mine", ""], result
    own = (
        "mpirun --mca btl_tcp_if_exclude lo,docker0,virbr0 --prtemca prte_if_include eth0 " + HELLO
    )  # they exclude each other
    check(
        decoys.mnrun("--image", OMPI5, "--script", "/bin/sh", "--", "-c", own, nodes=2, tasks=1), *decoys.nodes, tasks=1
    )


def test_a_pinned_network_that_a_node_lacks(decoys: Cluster) -> None:
    words = ("-x", "NCCL_SOCKET_IFNAME=ib0", "--image", OMPI5, "--", HELLO)
    line = "warning: node02: NCCL_SOCKET_IFNAME=ib0 (command line), but the node has no ib0: it has docker0, eth0"
    with decoys.desk() as desk:
        try:
            decoys.root("node01", "ip", "link", "add", "ib0", "type", "bridge")
            live = decoys.mnrun(*words, nodes=2)
            check(live, *decoys.nodes)
            assert line in live.err, live
            job = end(decoys, desk, submit(decoys, desk, "-N", "2", "--ntasks-per-node", "2", *words))
            assert line in job.err, job
        finally:
            decoys.root("node01", "sh", "-c", "ip link delete ib0 || true")


LIMITS = "import resource as r; print(*(r.getrlimit(n) for n in (r.RLIMIT_NOFILE, r.RLIMIT_STACK, r.RLIMIT_MEMLOCK)))"


def test_limits_are_raised(cluster: Cluster) -> None:
    line = cluster.launch("--image", OMPI5, "--", "python3", "-c", LIMITS, nodes=2, tasks=1)
    result = cluster.alice(["sh", "-c", 'ulimit -S -n 512; ulimit -S -s 1024; ulimit -S -l 64; exec "$@"', "sh", *line])
    assert result.code == 0, result
    for said in result.out.splitlines():
        numbers = [int(word) & ((1 << 63) - 1) for word in re.findall(r"-?\d+", said)]  # -1 is none
        files, _, stack, _, locked, most = numbers
        assert (files, stack) == (min(65536, numbers[1]), min(64 << 20, numbers[3])), result
        assert locked == most, result


def test_one_network_is_no_choice(cluster: Cluster) -> None:
    """Nothing is set where there is nothing to choose, but for Gloo and TensorPipe, which take the address of the
    host's own name, such as Debian's 127.0.1.1 (F5)."""
    words = ("-v", "--image", OMPI5, "--", "sh", "-c", SAY)
    result = cluster.mnrun(*words, nodes=2, tasks=1)
    assert result.out.splitlines() == [" eth0 eth0"] * 2, result
    assert not [line for line in mine(result) if "NCCL_SOCKET" in line or "_if_include" in line], result
