"""Debian trees, built once and kept in the cache."""

from __future__ import annotations

import os
from pathlib import Path

from . import recipe
from .chamber import ALONE, Bind, inside, registry_access
from .model import DEBIANS
from .shell import beside, locked, run, timed

# Nobody reads manuals there, and every tree and image gets smaller.
LEAVE_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")


def cache() -> Path:
    return Path(os.environ.get("MNRUN_CACHE") or "/var/cache/mnrun")


def node_tree(debian: str = DEBIANS[0]) -> Path:
    """The tree that all nodes stand on; built first if it is not there yet."""
    tree = recipe.NODES[debian]
    return _whole(cache() / "trees" / f"{tree.name}-{recipe.key(tree)}", tree)


def _whole(place: Path, tree: recipe.Tree) -> Path:
    if place.is_dir():
        return place
    with locked(place.with_name(place.name + ".lock")):
        if not place.is_dir():
            with beside(place) as folder:
                # Only a whole tree ever gets its name.
                build(tree, folder / "tree").rename(place)
    return place


def build(tree: recipe.Tree, place: Path) -> Path:
    """A new tree; a rename makes it known."""
    with timed(f"building the {tree.name} tree (Debian {tree.suite})"):
        _bootstrap(tree, place)
        binds, env = registry_access()
        for step in tree.steps:
            name, *arguments = step.split()
            words = ["/bin/sh", "-c", (recipe.HERE / "build" / name).read_text(), name, *arguments]
            inside(place, words, binds=binds, env=env, keep=True)
        if tree.mpicc:
            _compile(tree, place)
        # mmdebstrap leaves a copy of the machine's.
        (place / "etc/resolv.conf").write_text("")
    return place


def _bootstrap(tree: recipe.Tree, place: Path) -> None:
    # No mirror is given: mmdebstrap knows Debian's, and the machine may know a nearer one.
    run([
        *ALONE, "--mount-proc", "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=directory",
        "--aptopt=Acquire::Check-Valid-Until false", '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={path}" for path in LEAVE_OUT),
        *(f"--setup-hook={hook}" for suite, hook in recipe.SETUP.items() if suite == tree.suite),
        f"--include={','.join(tree.packages)}", tree.suite, place,
    ])  # fmt: skip
    place.chmod(0o755)


def _compile(tree: recipe.Tree, place: Path) -> None:
    """Build the test programs against the tree's own MPI; the compiler never stays in it."""
    binds, env = registry_access()
    binds += [
        Bind(recipe.PROGRAMS, "/programs"),
        Bind(place, "/out", write=True),
        Bind(recipe.HERE / "build" / recipe.COMPILE, "/run/compile.sh"),
    ]
    inside(place, ["/bin/sh", "/run/compile.sh", tree.mpicc, *tree.compiler], binds=binds, env=env)
