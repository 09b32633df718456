"""A part of Debian's archive beside the test images. Nodes have no way out, and debootstrap takes all from it."""

from __future__ import annotations

from pathlib import Path

from . import images, trees
from .chamber import Bind, inside
from .recipe import HERE
from .shell import beside, locked, timed


def ensure(suite: str) -> str:
    """The archive of a suite, as nodes see it."""
    shelf = images.shelf_of_all()
    place = shelf / f"mirror-{suite}"
    with locked(shelf / f".{place.name}.lock"):
        if not place.is_dir():
            _copy(suite, place)
    return f"/images/{place.name}"


def _copy(suite: str, place: Path) -> None:
    script = (HERE / "build/mirror.sh").read_text()
    with beside(place) as folder, timed(f"copying a part of Debian's archive ({suite})"):
        (folder / "out").mkdir()
        binds = [Bind(folder / "out", "/out", write=True)]
        inside(trees.node_tree(), ["/bin/sh", "-c", script, "mirror.sh", suite], binds=binds)
        (folder / "out").rename(place)
