"""Podman, as an ordinary user.

Its storage is the node's own. `wrappers/container/engine.sh` puts --root and related options in front of every call,
since podman's default is in the home directory, which nodes share.
"""

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
TRIED = False

# The user, the groups and the limits inside are the same as outside (podman-run(1)).
_OURS = ("--userns=keep-id", "--group-add=keep-groups", "--ulimit=host")


def node(box: Box) -> Words:
    # The container stays in the scheduler's cgroup, and under its limits. For that, podman needs a private --pid.
    return oci.run(BINARY, box, "--init", "--cgroups=disabled", *_OURS, *oci.tracing(box))


def rank(box: Box) -> Words:
    return oci.run(BINARY, box, "--pid=host", *_OURS)


def ask(box: Box) -> Words:
    return node(oci.asked(box))


def refuse(reference: str) -> LaunchError | None:
    return oci.refuse(BINARY, reference)


def address(reference: str) -> str:
    return names.for_stores(reference, BINARY)
