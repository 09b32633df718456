"""A program that runs: its ranks on a node copy each other's messages once in every runtime, as they do without one."""

from __future__ import annotations

import pytest

from bench.speed.rounds import figures, measure, single_copy
from bench.speed.ways import PLACES, PROGRAM, TWO_COPIES

from .cells import ENGINES, RUNTIMES, Way, cells
from .stage import Cluster

CELLS = cells({"runtime": RUNTIMES, "start": ("inside", "mpirun", "srun")}, together=1)


@pytest.mark.parametrize(("runtime", "start"), CELLS)
def test_ranks_of_a_node_have_single_copies(engines: Cluster, runtime: str, start: str) -> None:
    """Open MPI itself says so. Outside-in, Docker and Podman give each rank a container, between which it may not."""
    image = "host" if runtime == "host" else "ompi5"
    way = Way(start, image, runtime="" if runtime == "apptainer" else runtime)
    result = engines.mnrun(*way.words, "--", PROGRAM, "-v", nodes=1)
    assert result.code == 0, result
    assert all(time > 0 for time in figures(result.out).values()), result
    assert single_copy(result.err) == (start == "inside" or runtime not in ENGINES), result


def test_the_bench_tells_one_copy_from_two(cluster: Cluster) -> None:
    found = measure(cluster.model, PLACES[0], [TWO_COPIES], 0, print)
    assert found["single_copy"] == {"bare mpirun": True, TWO_COPIES.name: False}
