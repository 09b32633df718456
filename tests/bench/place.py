"""The cluster that is measured on: one that is up, or a new one that goes down at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rehearsal import cluster as whole
from rehearsal import engines, install
from rehearsal.errors import Unable
from rehearsal.model import Cluster, Options

NAME = f"bench-{os.getpid()}"  # so that two runs on one machine do not meet
ENGINES = {"docker", "podman", "charliecloud"}  # those that have their images from `scripts/cluster engines`


@contextmanager
def placed(
    name: str | None, nodes: int, runtimes: Sequence[str], *, cgroup: bool = False, sge: bool = False
) -> Iterator[Cluster]:
    """Yield the cluster of this name or a new one, with mnrun of this checkout and the images of these runtimes."""
    cluster = Cluster(name or (f"{NAME}-sge" if sge else NAME))
    if not name:
        whole.up(cluster, Options(nodes, cgroup=cgroup, sge=sge))
    try:
        if len(cluster.options().compute) < nodes:
            raise Unable(f"{cluster.name} has fewer than {nodes} nodes: bring a larger one up")
        install.refresh(cluster)
        if ENGINES.intersection(runtimes):
            engines.start(cluster, ["ompi5"])
        yield cluster
    finally:
        if not name:
            whole.down(cluster)
