"""Charliecloud: ch-run, whose image is an unpacked directory or a squashfs file of one. ch-image pulls.

Its processes are children of the caller, and see the node's /dev, /proc and /tmp. wrappers/container/ch-run.sh adds the
part that only the node knows: whether the image has variables of its own.
"""

from __future__ import annotations

from mnrun.errors import Impossible
from mnrun.images import reference as names
from mnrun.model import Container, Words

BINARY = "ch-run"
CONTAINED = True
HAS_STORE = False
ADVERB = "ch-run.sh"
OWN_USER_NAMESPACE = True
PASSES_OPEN_FILES = True
NEEDS_PASSWD = True
NEEDS_TRIAL = True  # user namespaces may be forbidden on a node


def node(container: Container) -> Words:
    return _run(container)


rank = hold = node


def join(container: Container) -> Words:
    return _run(container, "--join-pid=MNRUN_HOLDER")


def ask(container: Container) -> Words:
    return _run(container._replace(home="", chdir="/"), "--private-tmp")


def address(reference: str) -> str:
    return names.for_files(names.for_stores(reference, "charliecloud")).partition("://")[2]


def _run(container: Container, *flags: str) -> Words:
    for mount in container.mounts:
        if mount.options == "ro":
            problem = f"charliecloud cannot mount {mount.source} read-only"
            raise Impossible(problem, "leave :ro out, or use --runtime podman")
    binds = [
        word for mount in container.mounts for word in ("--bind", f"{mount.source}:{mount.target or mount.source}")
    ]
    # --write-fake: ch-run can make mount points, and programs can write anywhere (ch-run(1))
    return (
        BINARY,
        "--write-fake",
        "--no-passwd",
        *flags,
        *binds,
        "--cd",
        container.chdir,
        *container.args,
        container.image,
        "--",
    )
