"""Docker and podman on the nodes of a running cluster, and an unpacked tree for Charliecloud.

Not part of `up`: the images lie in memory, on every node, and most tests need none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from . import trees
from .chamber import Bind, inside
from .cluster import ask
from .model import Cluster
from .recipe import HERE
from .shell import beside, locked, timed

UNPACK = """
set -eu
offset=$(apptainer sif list /image.sif | sed -n 's/.*|\\([0-9]*\\)-[0-9]* *|FS .*/\\1/p')
unsquashfs -q -n -o "$offset" -d /out/tree /image.sif
rm -rf /out/tree/.singularity.d /out/tree/singularity /out/tree/environment
tar -C /out/tree -cf /out/tar .
"""


def start(cluster: Cluster, names: Sequence[str]) -> None:
    """dockerd on every node, and the images in docker's and podman's stores there."""
    for name in names:
        unpack(cluster, name)
    script = (HERE / "inside/engines.sh").read_text()
    with (
        timed(f"docker and podman on the nodes of {cluster.name}, with {' '.join(names)}"),
        ThreadPoolExecutor(2) as pool,
    ):
        words = ("/bin/sh", "-c", script, "engines.sh", *names)
        list(pool.map(lambda node: ask(cluster, node, *words), cluster.options().compute))


def unpack(cluster: Cluster, name: str) -> None:
    """NAME.sif once more, as the folder NAME and as NAME.tar beside it."""
    shelf = cluster.images
    with locked(shelf / f".{name}.lock"):
        if (shelf / f"{name}.tar").exists():
            return
        with beside(shelf / name) as folder, timed(f"unpacking {name}.sif"):
            binds = [Bind(shelf / f"{name}.sif", "/image.sif"), Bind(folder, "/out", write=True)]
            inside(trees.node_tree(), ["/bin/sh", "-c", UNPACK], binds=binds)
            (folder / "tree").rename(shelf / name)
            (folder / "tar").rename(shelf / f"{name}.tar")
