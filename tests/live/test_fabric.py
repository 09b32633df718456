"""Networks by facts: bridges that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cells import HELLO, INSIDE, MPIRUN, OMPI5, PIPE, SRUN, Way, some
from .conftest import clean
from .reports import check, mine
from .stage import Cluster

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("decoys")]

SAY = 'echo "$NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME"'


@pytest.fixture(scope="module")
def decoys() -> Iterator[Cluster]:
    """Two nodes with docker0 and virbr0, whose addresses are the same on both."""
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
    """mnrun's choice works, and -v says why; what others say of a variable, holds."""
    result = decoys.mnrun("-v", "--image", OMPI5, "--", HELLO, nodes=2)
    check(result, *decoys.nodes)
    (line,) = [line for line in mine(result) if "PRTE_MCA_prte_if_include" in line]
    assert line.endswith(
        " = eth0: eth0 carries the route between the nodes (10.77.0.0/24); "
        "not docker0 (172.17.0.1 on every node), virbr0 (192.168.122.1 on every node)"
    )
    for way in some([Way("inside", "ompi4"), SRUN, MPIRUN, PIPE], [Way("inside", "ompi4")]):
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


def test_one_network_is_left_alone(cluster: Cluster) -> None:
    """Nothing is set where there is nothing to choose."""
    words = ("-v", "--image", OMPI5, "--", "sh", "-c", SAY)
    result = cluster.mnrun(*words, nodes=2, tasks=1)
    assert result.out.split() == [], result
    assert not [line for line in mine(result) if "SOCKET" in line]
