"""Podman, as an ordinary user. Its storage is the node's own: `wrappers/engine.sh` puts --root and its
kin in front of every call, since podman's default lies in the home directory, which nodes share."""

from __future__ import annotations

from .. import engine
from .. import reference as names
from ..errors import LaunchError
from ..model import Box, Words

BINARY = "podman"
CONTAINED = True
NAMED = True
ADVERB = "engine.sh"
SHARES = False
APART = True
FILES = True
USERS = True

# The user is the same inside as outside, with all groups, and the calling shell's limits.
_OURS = ("--userns=keep-id", "--group-add=keep-groups", "--ulimit=host")


def node(box: Box) -> Words:
    # The cgroup is the scheduler's, whose limits hold for the container too; podman wants --pid private for that.
    return engine.run(BINARY, box, "--init", "--cgroups=disabled", *_OURS)


def rank(box: Box) -> Words:
    return engine.run(BINARY, box, "--pid=host", *_OURS)


def refuse(reference: str) -> LaunchError | None:
    return engine.refuse(BINARY, reference)


def address(reference: str) -> str:
    return names.for_stores(reference, BINARY)
