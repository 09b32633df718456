"""Messages of all sizes between ranks: where shared memory between containers is a trap."""

from __future__ import annotations

import re

import pytest

from .cells import INSIDE, Way, cells, possible
from .stage import Cluster

SIZES = [str(4**power) for power in range(12)]  # up to 4 MB
MATRIX = cells(
    {
        "image": ("ompi4", "ompi5", "mpich"),
        "start": ("inside", "mpirun", "srun"),
        "per": ("auto", "node", "rank"),
        "nodes": ("one", "two"),
    },
    lambda image, start, per, nodes: possible(start, image, per),
    # Open MPI 4 between sibling user namespaces: single copy is refused there, and it then hangs.
    always=[("ompi4", "mpirun", "rank", "one"), ("ompi4", "srun", "rank", "one"), ("mpich", "srun", "rank", "one")],
    together=1,
)


@pytest.mark.parametrize(("image", "start", "per", "nodes"), MATRIX)
def test_messages_of_all_sizes(cluster: Cluster, image: str, start: str, per: str, nodes: str) -> None:
    shape = {"one": ["-N", "1", "-n", "2"], "two": ["-N", "2", "-n", "2"]}[nodes]
    result = cluster.mnrun(*Way(start, image, per).words, *shape, "--", "/opt/mpi/pingpong", "-n", "5", nodes=2)
    assert result.code == 0, result
    found = [re.fullmatch(r"(\d+) bytes [\d.]+ MB/s", line) for line in result.out.splitlines()]
    assert [match[1] for match in found if match] == SIZES, result
    assert len(found) == len(SIZES), result


def test_messages_of_four_pairs(cluster: Cluster) -> None:
    result = cluster.mnrun(*INSIDE.words, "-n", "8", "--", "/opt/mpi/pingpong", "-p", "-n", "2", nodes=1, tasks=8)
    assert result.code == 0, result
    assert [line.split()[0] for line in result.out.splitlines()] == SIZES, result
