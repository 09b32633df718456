"""Programs of others that examples need: packages of the package index in a venv, which all nodes of a cluster see.

Its Python also finds mnrun, as where a person has installed both. It is made once for each tree and list of packages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from . import trees
from .chamber import Bind, inside, registry_access
from .model import Cluster
from .shell import beside, locked, run, timed

FETCH = """
set -eu
venv=$1
shift
/usr/bin/python3 -m venv "$venv"
"$venv/bin/pip" -q install "$@"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "/opt/mnrun/venv${site#"$venv"}" >"$site/mnrun.pth"
"""


def put(cluster: Cluster, packages: Sequence[str]) -> str:
    """Return the place of a venv with these packages on the nodes, beside mnrun's own."""
    key = hashlib.sha256("\n".join([cluster.tree.name, FETCH, *packages]).encode()).hexdigest()[:16]
    kept, place = trees.cache() / "venvs" / f"tools-{key}", cluster.state / "mnrun" / f"tools-{key}"
    seen = f"/opt/mnrun/{place.name}"
    with locked(kept.with_name(kept.name + ".lock")):
        if not kept.is_dir():
            with timed(f"fetching {' '.join(packages)}"):
                _fetch(cluster.tree, kept, seen, packages)
    if not place.is_dir():
        with beside(place) as folder:
            run(["cp", "-a", kept, folder / "venv"])
            (folder / "venv").rename(place)
    return seen


def _fetch(tree: Path, place: Path, seen: str, packages: Sequence[str]) -> None:
    with beside(place) as folder:
        (folder / "new").mkdir()
        binds, env = registry_access()
        binds.append(Bind(folder / "new", seen, write=True))
        inside(tree, ["/bin/sh", "-c", FETCH, "fetch", seen, *packages], binds=binds, env=env)
        (folder / "new").rename(place)
