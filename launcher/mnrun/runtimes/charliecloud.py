"""Charliecloud: ch-run, whose image is an unpacked directory or a squashfs file of one. ch-image pulls.

Its processes are children of the caller, and see the node's /dev, /proc and /tmp. wrappers/container/ch-run.sh adds the
part that only the node knows: whether the image has variables of its own.
"""

from __future__ import annotations

from dataclasses import replace

from mnrun.errors import Impossible, LaunchError
from mnrun.images import reference as names
from mnrun.model import Box, Words

BINARY = "ch-run"
CONTAINED = True
NAMED = False
ADVERB = "ch-run.sh"
APART = True
FILES = True
USERS = True
TRIED = True  # user namespaces may be forbidden on a node


def node(box: Box) -> Words:
    return _run(box)


def rank(box: Box) -> Words:
    return _run(box)


def hold(box: Box) -> Words:
    return _run(box)


def join(box: Box) -> Words:
    return _run(box, "--join-pid=MNRUN_HOLDER")


def ask(box: Box) -> Words:
    return _run(replace(box, home="", chdir="/"), "--private-tmp")


def refuse(reference: str) -> LaunchError | None:
    return None


def address(reference: str) -> str:
    return names.for_files(names.for_stores(reference, "charliecloud")).partition("://")[2]


def _run(box: Box, *flags: str) -> Words:
    for mount in box.mounts:
        if mount.options == "ro":
            raise Impossible(
                f"charliecloud cannot mount {mount.source} read-only", "leave :ro out, or use --runtime podman"
            )
    binds = [word for mount in box.mounts for word in ("--bind", f"{mount.source}:{mount.target or mount.source}")]
    # --write-fake: ch-run can make mount points, and programs can write anywhere (ch-run(1))
    return (BINARY, "--write-fake", "--no-passwd", *flags, *binds, "--cd", box.chdir, *box.args, box.image, "--")
