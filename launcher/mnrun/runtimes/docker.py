"""Docker. Its containers are children of dockerd, so that the guard ends them by their label."""

from __future__ import annotations

from mnrun.errors import LaunchError
from mnrun.images import reference as names
from mnrun.model import Box, Words
from mnrun.runtimes import oci

BINARY = "docker"
CONTAINED = True
NAMED = True
ADVERB = "engine.sh"
APART = False  # all containers are in the node's own user namespace
FILES = False  # dockerd starts the container, which inherits nothing
USERS = True
TRIED = False


def node(box: Box) -> Words:
    # A pid namespace of its own, whose first process reaps orphans (docker run --init).
    return oci.run(BINARY, box, "--init", *oci.tracing(box))


def rank(box: Box) -> Words:
    # CMA and CUDA IPC need one pid namespace for all ranks of a node.
    return oci.run(BINARY, box, "--pid=host")


def ask(box: Box) -> Words:
    return node(oci.asked(box))


def refuse(reference: str) -> LaunchError | None:
    return oci.refuse(BINARY, reference)


def address(reference: str) -> str:
    return names.for_stores(reference, BINARY)
