"""Docker. Its containers are children of dockerd, so that the guard ends them by their label."""

from __future__ import annotations

from mnrun.model import Container, Words
from mnrun.runtimes import oci

BINARY = "docker"
CONTAINED = True
HAS_STORE = True
ADVERB = "engine.sh"
OWN_USER_NAMESPACE = False  # all containers are in the node's own user namespace
PASSES_OPEN_FILES = False  # dockerd starts the container, which inherits nothing
NEEDS_PASSWD = True
NEEDS_TRIAL = False


def node(container: Container) -> Words:
    # A pid namespace of its own, whose first process reaps orphans (docker run --init).
    return oci.run(BINARY, container, "--init", *oci.tracing(container))


def rank(container: Container) -> Words:
    # CMA and CUDA IPC need one pid namespace for all ranks of a node.
    return oci.run(BINARY, container, "--pid=host")


def ask(container: Container) -> Words:
    return node(oci.asked(container))


def address(reference: str) -> str:
    return oci.address(BINARY, reference)
