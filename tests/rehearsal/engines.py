"""Docker and podman on the nodes of a running cluster, with images in their stores.

Not part of `up`: the images lie in memory, on every node, and most tests need none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from . import unpacked
from .cluster import ask
from .model import Cluster
from .recipe import HERE
from .shell import timed


def start(cluster: Cluster, names: Sequence[str]) -> None:
    """dockerd on every node, and the images in docker's and podman's stores there."""
    for name in names:
        unpacked.ensure(cluster.images, name)
    script = (HERE / "inside/engines.sh").read_text()
    with (
        timed(f"docker and podman on the nodes of {cluster.name}, with {' '.join(names)}"),
        ThreadPoolExecutor(2) as pool,
    ):
        words = ("/bin/sh", "-c", script, "engines.sh", *names)
        list(pool.map(lambda node: ask(cluster, node, *words), cluster.options().compute))
