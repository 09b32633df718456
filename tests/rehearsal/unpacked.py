"""A test image once more, for what reads no SIF: a folder for Charliecloud, an archive for docker and podman."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from . import trees
from .chamber import Bind, inside
from .shell import beside, locked, timed

UNPACK = """
set -eu
offset=$(apptainer sif list /image.sif | sed -n 's/.*|\\([0-9]*\\)-[0-9]* *|FS .*/\\1/p')
unsquashfs -q -n -o "$offset" -d /out/tree /image.sif
rm -rf /out/tree/.singularity.d /out/tree/singularity /out/tree/environment
tar -C /out/tree -cf /out/tar .
"""


def ensure(shelf: Path, name: str) -> None:
    """NAME.sif once more, as the folder NAME, and as NAME.docker for `docker load`."""
    with locked(shelf / f".{name}.lock"):
        if (shelf / f"{name}.docker").exists():
            return
        with beside(shelf / name) as folder, timed(f"unpacking {name}.sif"):
            binds = [Bind(shelf / f"{name}.sif", "/image.sif"), Bind(folder, "/out", write=True)]
            inside(trees.node_tree(), ["/bin/sh", "-c", UNPACK], binds=binds)
            if not (shelf / name).exists():
                (folder / "tree").rename(shelf / name)
            archive(name, folder / "tar", folder / "archive")
            (folder / "archive").rename(shelf / f"{name}.docker")


def archive(name: str, layer: Path, place: Path) -> None:
    """What `docker load` reads: one layer, and the same image wherever it is loaded (an import's differs by its date).

    An entry point and a variable are in it to see what becomes of them.
    """
    digest = hashlib.sha256()
    with layer.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    said = {"Env": [f"PATH={path}", f"IMAGE_SAYS={name}"], "Entrypoint": ["/bin/echo", "the entry point has run"]}
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest.hexdigest()}"]}
    image = {"architecture": "amd64", "os": "linux", "config": said, "rootfs": rootfs}
    config = json.dumps({**image, "created": "2026-01-01T00:00:00Z", "history": [{"created": "2026-01-01T00:00:00Z"}]})
    known = f"{hashlib.sha256(config.encode()).hexdigest()}.json"
    manifest = json.dumps([{"Config": known, "RepoTags": [f"localhost/{name}:latest"], "Layers": ["layer.tar"]}])
    with tarfile.open(place, "w") as tar:
        for called, text in ((known, config), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(called)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
        tar.add(layer, "layer.tar")
