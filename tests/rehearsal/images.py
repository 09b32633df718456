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


# Apptainer itself unpacks in a namespace of its own, which it cannot have here.
UNPACK = """
set -eu
offset=$(apptainer sif list /base.sif | sed -n 's/.*|\\([0-9]*\\)-[0-9]* *|FS (Squashfs.*/\\1/p')
unsquashfs -quiet -no-progress -offset "$offset" -dest /out/tree /base.sif
"""


def ensure(images: Sequence[recipe.Image] = recipe.IMAGES) -> Path:
    """The folder with all the images in it, those built that were missing."""
    shelf = shelf_of_all()
    shelf.mkdir(parents=True, exist_ok=True)
    missing = [image for image in images if not _same(shelf / f"{image.name}.sif", _store(image))]
    if missing:
        trees.node_tree()
        # Two at a time: installing packages waits as much as it works.
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(lambda image: _put(image, shelf), missing))
    return shelf


def _store(image: recipe.Image) -> Path:
    return trees.cache() / "images" / f"{image.name}-{recipe.key(image)}.sif"


def _same(link: Path, store: Path) -> bool:
    return link.exists() and store.exists() and link.samefile(store)


def _put(image: recipe.Image, shelf: Path) -> None:
    link, store = shelf / f"{image.name}.sif", _store(image)
    if isinstance(image, recipe.Variant):
        _put(image.base, shelf)
    with locked(store.with_suffix(".lock")):
        if not store.exists():
            _build(image, store)
        if not _same(link, store):
            link.unlink(missing_ok=True)
            os.link(store, link)


def _unpack(image: recipe.Variant, place: Path) -> Path:
    """The tree of the image that it is made from, changed."""
    place.mkdir()
    with timed(f"making {image.name} from {image.base.name}"):
        binds = [Bind(_store(image.base), "/base.sif"), Bind(place, "/out", write=True)]
        inside(trees.node_tree(), ["/bin/sh", "-c", UNPACK], binds=binds)
        inside(place / "tree", ["/bin/sh", "-c", (recipe.HERE / "build" / image.step).read_text()], keep=True)
    return place / "tree"


def _build(image: recipe.Image, store: Path) -> None:
    node = trees.node_tree()
    with beside(store) as folder:
        place, out = folder / "tree", folder / "out"
        tree = _unpack(image, place) if isinstance(image, recipe.Variant) else trees.build(image, place)
        out.mkdir()
        with timed(f"packing {image.name}.sif"):
            binds = [Bind(tree, "/tree"), Bind(out, "/out", write=True)]
            inside(node, ["/bin/sh", "-c", PACK], binds=binds)
        (out / "new.sif").rename(store)
