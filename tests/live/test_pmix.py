"""PMIx of an older major in the image than on the nodes: an image that is made for these tests alone, with PMIx 3."""

from __future__ import annotations

import pytest

from .cells import HELLO, some
from .reports import check, refusal
from .stage import Cluster

IMAGE = ("--image", "/images/pmix3.sif")
OUTSIDE = ("--mode", "outside-in", *IMAGE)
pytestmark = pytest.mark.xdist_group("pmix")  # one worker builds the image


@pytest.fixture(autouse=True)
def image(cluster: Cluster) -> None:
    cluster.tool("images", "pmix3")


@pytest.mark.parametrize("connect", some(("ssh", "pipe"), ("ssh",)))
def test_pmix_inside_out(cluster: Cluster, connect: str) -> None:
    check(cluster.mnrun("--connect", connect, *IMAGE, "--", HELLO, nodes=2), *cluster.nodes[:2])


def test_pmix_by_srun(cluster: Cluster) -> None:
    result = cluster.mnrun(*OUTSIDE, "--launcher", "srun", "--", HELLO, nodes=2)
    check(result, *cluster.nodes[:2])
    assert "component" not in result.err, result


def test_pmix_by_the_hosts_mpirun(cluster: Cluster) -> None:
    words = (*OUTSIDE, "--launcher", "mpirun")
    said = "PMIx 3.2.5 is too old for the node's Open MPI 5"
    refusal(cluster.mnrun(*words, "--", HELLO, nodes=2), 122, said, "PML add procs failed", "inside-out works")
    result = cluster.mnrun(*words, "--force", "--", HELLO, nodes=2)
    assert result.code not in (0, 122), result
    assert "PML add procs failed" in result.err, result
    check(cluster.mnrun(*words, "--", HELLO, nodes=1), *cluster.nodes[:1])
