"""Podman, as an ordinary user.

Its storage is the node's own. `wrappers/container/engine.sh` puts --root and related options in front of every call,
since podman's default is in the home directory, which nodes share.
"""

from __future__ import annotations

from mnrun.model import Container, Words
from mnrun.runtimes import oci

BINARY = "podman"
CONTAINED = True
HAS_STORE = True
ADVERB = "engine.sh"
OWN_USER_NAMESPACE = True
PASSES_OPEN_FILES = True
NEEDS_PASSWD = True
NEEDS_TRIAL = False

# The user, the groups and the limits inside are the same as outside (podman-run(1)).
_OURS = ("--userns=keep-id", "--group-add=keep-groups", "--ulimit=host")


def node(container: Container) -> Words:
    # The container stays in the scheduler's cgroup, and under its limits. For that, podman needs a private --pid.
    return oci.run(BINARY, container, "--init", "--cgroups=disabled", *_OURS, *oci.tracing(container))


def rank(container: Container) -> Words:
    return oci.run(BINARY, container, "--pid=host", *_OURS)


def ask(container: Container) -> Words:
    return node(oci.asked(container))


def address(reference: str) -> str:
    return oci.address(BINARY, reference)
