"""The test images: a tree each, packed as SIF by the node tree's own Apptainer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import recipe, trees
from .chamber import Bind, inside
from .shell import beside, locked, timed

PACK = """
set -eu
apptainer -s build --force --mksquashfs-args "-comp lz4 -processors $(nproc)" /out/new.sif /tree
chmod 0644 /out/new.sif
"""


def shelf_of_all() -> Path:
    """What the nodes see as /images: one folder per set of recipes, filled with hard links."""
    return trees.cache() / "images" / f"set-{recipe.set_key()}"


def ensure(images: Sequence[recipe.Tree] = recipe.IMAGES) -> Path:
    """The folder with all the images in it, those built that were missing."""
    shelf = shelf_of_all()
    shelf.mkdir(parents=True, exist_ok=True)
    missing = [image for image in images if not (shelf / f"{image.name}.sif").exists()]
    if missing:
        trees.node_tree()
        # Two at a time: installing packages waits as much as it works.
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(lambda image: _put(image, shelf), missing))
    return shelf


def _put(image: recipe.Tree, shelf: Path) -> None:
    link = shelf / f"{image.name}.sif"
    store = shelf.parent / f"{image.name}-{recipe.key(image)}.sif"
    with locked(store.with_suffix(".lock")):
        if not store.exists():
            _build(image, store)
        if not link.exists():
            os.link(store, link)


def _build(image: recipe.Tree, store: Path) -> None:
    node = trees.node_tree()
    with beside(store) as folder:
        tree, out = trees.build(image, folder / "tree"), folder / "out"
        out.mkdir()
        with timed(f"packing {image.name}.sif"):
            binds = [Bind(tree, "/tree"), Bind(out, "/out", write=True)]
            inside(node, ["/bin/sh", "-c", PACK], binds=binds)
        (out / "new.sif").rename(store)
