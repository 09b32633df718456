"""Intel MPI: an image of the rehearsal cluster's that is made for these tests alone."""

from __future__ import annotations

import pytest

from .cells import HELLO, some
from .reports import check, refusal
from .stage import Cluster

INTEL = "/images/intel.sif"
PMI2 = "/usr/lib/x86_64-linux-gnu/libpmi2.so.0"
pytestmark = pytest.mark.xdist_group("intel")  # one worker builds the image


@pytest.fixture(autouse=True)
def image(cluster: Cluster) -> None:
    cluster.tool("images", "intel")


@pytest.mark.parametrize("connect", some(("ssh", "pipe"), ("pipe",)))
def test_intel_inside_out(cluster: Cluster, connect: str) -> None:
    words = ("--connect", connect, "--image", INTEL)
    check(cluster.mnrun(*words, "--mpi", "intelmpi", "--", HELLO), *cluster.nodes)
    check(cluster.mnrun(*words, "--", "mpirun", HELLO, nodes=2), *cluster.nodes[:2])
    result = cluster.mnrun(*words, "--bind-to", "none", "--", HELLO, "-x", "3", nodes=2)
    assert result.code == 3, result


def test_intel_outside_in(cluster: Cluster) -> None:
    words = ("--launcher", "srun", "--image", INTEL)
    check(cluster.mnrun("-x", f"I_MPI_PMI_LIBRARY={PMI2}", *words, "--", HELLO, nodes=2), *cluster.nodes[:2])
    refusal(cluster.mnrun(*words, "--", HELLO, nodes=2), 122, "I_MPI_PMI_LIBRARY")
    check(cluster.mnrun("--mode", "outside-in", "--image", INTEL, "--", HELLO, nodes=2), *cluster.nodes[:2])
