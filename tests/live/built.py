"""Images that `mnrun image build` makes from the recipes of containers/.

The nodes have no way out. So the base is a local image, which brings along a repository of packages
(rehearsal/build/repository.sh). An image is built where its text or its base is new, and is kept with the test images
after that.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from contextlib import suppress

from rehearsal import images, trees

from .stage import TOP, Cluster, Desk

LINE = re.compile(r"mnrun image build ((?:\S+ )+)-o ([\w-]+\.sif)")


def lines(text: str) -> dict[str, tuple[str, ...]]:
    """Return the images that a text builds: the name of the file, and the words that say of what."""
    return {match[2]: tuple(shlex.split(match[1])) for match in LINE.finditer(text)}


def of_examples() -> list[tuple[str, ...]]:
    """Return what the README files of examples/ build, each once, but for what begins with an image of a registry."""
    found = {words for path in TOP.glob("examples/*/README.md") for words in lines(path.read_text()).values()}
    return sorted(words for words in found if 'USERARG["base"]' in (TOP / f"containers/{words[0]}.py").read_text())


def image(cluster: Cluster, desk: Desk, base: str, *words: str) -> str:
    """Return the path of the image of a recipe on one of the local bases, built now or earlier."""
    cluster.tool("images", base)
    local = ("--arg", f"base=/images/{base}.sif")
    text = cluster.alice(["mnrun", "image", "build", *words, *local, "--format", "singularity"])
    assert text.code == 0, text
    state = cluster.path(f"/images/{base}.sif").stat()
    key = hashlib.sha256(f"{text.out}{state.st_size}.{state.st_mtime_ns}".encode()).hexdigest()[:16]
    name = f"built-{words[0]}-{key}.sif"
    kept, seen = trees.cache() / "images" / name, images.shelf_of_all() / name
    if not kept.exists():
        path = f"{desk.path}/{name}"
        done = cluster.alice(["mnrun", "image", "build", *words, *local, "-o", path], seconds=600)
        assert done.code == 0 and done.out == f"{path}\n", done
        part = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(cluster.path(path), part)
        part.rename(kept)
        cluster.path(path).unlink()
    with suppress(FileExistsError):
        os.link(kept, seen)
    return f"/images/{name}"
