"""Other sites: Slurm that gives each job its own /tmp; other Debians on the nodes. Control groups: test_site_cgroup."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .cells import HELLO, INSIDE, MPIRUN, Way, one, some
from .reports import check
from .stage import LOGIN, Cluster

pytestmark = pytest.mark.live

Variant = Callable[..., Cluster]
OLDER = {"bullseye": "20.11", "sid": ""}  # bookworm: test_site_bookworm


def test_site_private_tmp(variant: Variant) -> None:
    """A /tmp and a /dev/shm for each job: its steps share them, and the nodes' own stay as they were."""
    ours = variant(2, "--private-tmp")
    for way in one(1, (INSIDE, MPIRUN)):
        check(ours.mnrun(*way.words, "--", HELLO, nodes=2), *ours.nodes)
    before = [entry.name for entry in ours.path("/tmp", "node01").iterdir()]
    look = "touch /tmp/one /dev/shm/two; ls /tmp"
    result = ours.mnrun(*INSIDE.words, "--", "sh", "-c", look, nodes=1, tasks=1)
    assert "one" in result.out.split(), result
    assert [entry.name for entry in ours.path("/tmp", "node01").iterdir()] == before


@pytest.mark.parametrize("debian", some(tuple(OLDER), ()))
def test_site_debian(variant: Variant, debian: str) -> None:
    """Nodes of another Debian: Slurm, docker, bash and Python of another age."""
    ours = variant(2, f"--debian={debian}")
    assert OLDER[debian] in ours.root(LOGIN, "srun", "--version")
    check(ours.mnrun("--runtime", "host", "--", HELLO, nodes=2), *ours.nodes)
    ours.tool("engines")
    ours.settle()
    for start in ("inside", "mpirun"):
        check(ours.mnrun(*Way(start, "ompi5", runtime="docker").words, "--", HELLO, nodes=2), *ours.nodes)
