"""mnrun itself, for the users of a cluster, in /opt/mnrun/venv.

Both layers are cached: what mnrun depends on, by the content of setup.py and pyproject.toml; and the same with mnrun,
a wheel built from the checkout, by the content of all its files. Of the second only the last one is kept.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from . import recipe, trees
from .chamber import Bind, inside, registry_access
from .errors import Unable
from .model import Cluster
from .shell import beside, locked, run, say, timed

CHECKOUT = recipe.HERE.parents[1]
ABOUT = ("setup.py", "pyproject.toml")
# What a wheel is never made of; some of it may be large.
SKIP = ("tests", "build", "dist")
SKIP_EVERYWHERE = ("__pycache__", "*.egg-info")
STAMP = "content"  # in a folder with mnrun: the checksum of the checkout that it is of

DEPENDENCIES = """
set -eu
/usr/bin/python3 -m venv /opt/mnrun/venv
cd /opt/mnrun/venv/bin
cp -r /src /tmp/src
./pip -q install setuptools wheel
./pip -q install --no-build-isolation '/tmp/src[hosts,build,kubernetes,metrics]'
./pip -q uninstall -y mnrun
"""
MNRUN = """
set -eu
cd /opt/mnrun/venv/bin
./pip -q install --no-deps --no-build-isolation --no-index --force-reinstall /src
"""


def refresh(cluster: Cluster) -> None:
    """Put mnrun in if the checkout has one; without, /opt/mnrun stays as it is."""
    (cluster.state / "mnrun").mkdir(exist_ok=True)
    if (CHECKOUT / "setup.py").exists():
        install(cluster)
    else:
        say("no setup.py yet: mnrun is not installed (`scripts/cluster install` does it later)")


def install(cluster: Cluster) -> None:
    """Put the checkout as it is now into /opt/mnrun, for all nodes at once."""
    if not (CHECKOUT / "setup.py").exists():
        raise Unable(f"there is no setup.py in {CHECKOUT}, so nothing to install")
    cluster.options()
    tree = cluster.tree
    place, layer = cluster.state / "mnrun", dependencies(tree)
    made = layer.with_name(f"{layer.name}.mnrun")
    with tempfile.TemporaryDirectory(prefix="mnrun-") as folder, locked(made.with_name(f"{made.name}.lock")):
        source = _source(Path(folder))
        digest = _digest(layer, source)
        if not _is(made, digest):
            with timed("installing mnrun"):
                _build(tree, layer, source, made, digest)
        if not _is(place, digest):
            (place / STAMP).unlink(missing_ok=True)  # the copy may be broken off
            shutil.rmtree(place / "venv", ignore_errors=True)
            run(["cp", "-a", made / "venv", made / STAMP, place])


def _is(place: Path, digest: str) -> bool:
    """Whether this folder holds that content."""
    stamp = place / STAMP
    return stamp.exists() and stamp.read_text() == digest


def _build(tree: Path, layer: Path, source: Path, place: Path, digest: str) -> None:
    """Make a folder with a venv that has everything, in the place of an earlier one."""
    with beside(place) as folder:
        new = folder / "opt"
        new.mkdir()
        run(["cp", "-a", layer / "venv", new])
        binds = [Bind(source, "/src", write=True), Bind(new, "/opt/mnrun", write=True)]
        inside(tree, ["/bin/sh", "-c", MNRUN], binds=binds, env=registry_access()[1])
        (new / STAMP).write_text(digest)
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)


def _digest(layer: Path, source: Path) -> str:
    """A checksum of the layer below, of how mnrun is installed, and of all its files: names, modes and contents."""
    digest = hashlib.sha256(f"{layer.name}\n{MNRUN}".encode())
    for file in sorted(file for file in source.rglob("*") if file.is_file()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(source)}\n{file.stat().st_mode:o} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def dependencies(tree: Path) -> Path:
    """A folder with a venv that has everything but mnrun."""
    digest = hashlib.sha256(f"{tree.name}\n{DEPENDENCIES}".encode())
    for name in ABOUT:
        if (CHECKOUT / name).exists():
            digest.update(f"\n{name}\n".encode() + (CHECKOUT / name).read_bytes())
    place = trees.cache() / "venvs" / digest.hexdigest()[:16]
    with locked(place.with_name(place.name + ".lock")):
        if not place.is_dir():
            with timed("fetching what mnrun depends on"):
                _fetch(tree, place)
    return place


def _fetch(tree: Path, place: Path) -> None:
    with beside(place) as folder:
        source, new = _source(folder), folder / "opt"
        new.mkdir()
        binds, env = registry_access()
        binds += [Bind(source, "/src"), Bind(new, "/opt/mnrun", write=True)]
        inside(tree, ["/bin/sh", "-c", DEPENDENCIES], binds=binds, env=env)
        new.rename(place)


def _source(folder: Path) -> Path:
    """A copy of the checkout, since building leaves things beside setup.py."""
    copy = folder / "src"
    copy.mkdir()
    for entry in CHECKOUT.iterdir():
        if entry.is_file():
            shutil.copy2(entry, copy)
        elif entry.is_dir() and entry.name not in SKIP and not entry.name.startswith("."):
            ignore = shutil.ignore_patterns(*SKIP_EVERYWHERE)
            shutil.copytree(entry, copy / entry.name, ignore=ignore, symlinks=True)
    return copy
