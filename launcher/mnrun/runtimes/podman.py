"""Podman, as an ordinary user. Its storage is the node's own: `wrappers/container/engine.sh` puts --root and its
kin in front of every call, since podman's default lies in the home directory, which nodes share."""

from __future__ import annotations

from mnrun.errors import LaunchError
from mnrun.images import reference as names
from mnrun.model import Box, Words
from mnrun.runtimes import oci

BINARY = "podman"
CONTAINED = True
NAMED = True
ADVERB = "engine.sh"
APART = True
FILES = True
USERS = True

# The user is the same inside as outside, with all groups, and the calling shell's limits.
_OURS = ("--userns=keep-id", "--group-add=keep-groups", "--ulimit=host")


def node(box: Box) -> Words:
    # The cgroup is the scheduler's, whose limits hold for the container too; podman wants --pid private for that.
    return oci.run(BINARY, box, "--init", "--cgroups=disabled", *_OURS)


def rank(box: Box) -> Words:
    return oci.run(BINARY, box, "--pid=host", *_OURS)


def refuse(reference: str) -> LaunchError | None:
    return oci.refuse(BINARY, reference)


def address(reference: str) -> str:
    return names.for_stores(reference, BINARY)
