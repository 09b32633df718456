"""Debian trees, built once and kept in the cache."""

from __future__ import annotations

import os
from collections.abc import Callable
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
    place = cache() / "trees" / f"{tree.name}-{recipe.key(tree)}"
    return _whole(place, lambda folder: build(tree, folder / "tree"))


def layer(debian: str, step: str) -> Path:
    """What a script of build/ puts over it; the plain tree stays as it is."""
    tree = recipe.NODES[debian]
    place = cache() / "trees" / f"{tree.name}-{step.partition('.')[0]}-{recipe.layer_key(tree, step)}"
    return _whole(place, lambda folder: _add(node_tree(debian), step, folder))


def programs(script: str) -> Path:
    """An archive of what a script of build/ compiles. No node has a compiler."""
    place = cache() / "trees" / f"{script.partition('.')[0]}-{recipe.programs_key(script)}.tar.gz"
    return _whole(place, lambda folder: _compiled(script, folder))


def _whole(place: Path, make: Callable[[Path], Path]) -> Path:
    if place.exists():
        return place
    with locked(place.with_name(place.name + ".lock")):
        if not place.exists():
            with beside(place) as folder:
                # Only a whole tree ever gets its name.
                make(folder).rename(place)
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


def _add(tree: Path, step: str, folder: Path) -> Path:
    binds, env = registry_access()
    if step in recipe.PROGRAMS_OF:
        binds.append(Bind(programs(recipe.PROGRAMS_OF[step]), "/run/programs"))
    script = (recipe.HERE / "build" / step).read_text()
    with timed(f"building a layer over {tree.name}: {step}"):
        inside(tree, ["/bin/sh", "-c", script, step], binds=binds, env=env, keep=folder)
    return folder / "upper"


def _compiled(script: str, folder: Path) -> Path:
    """On the disk: a compiler may need more room than the memory has."""
    for part in ("build", "out"):
        (folder / part).mkdir()
    binds = [Bind(folder / part, f"/{part}", write=True) for part in ("build", "out")]
    with timed(f"compiling: {script}"):
        inside(node_tree(), ["/bin/sh", "-c", (recipe.HERE / "build" / script).read_text(), script], binds=binds)
        run(["tar", "-C", folder / "out", "-czf", folder / "archive", "."])
    return folder / "archive"


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
