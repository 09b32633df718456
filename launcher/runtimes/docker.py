"""Docker. Its containers are children of dockerd, not of ours: the guard ends them by their label."""

from __future__ import annotations

from .. import engine
from .. import reference as names
from ..errors import LaunchError
from ..model import Box, Words

BINARY = "docker"
CONTAINED = True
NAMED = True
ADVERB = "engine.sh"
SHARES = False
APART = False  # all in the node's own user namespace
FILES = False  # dockerd starts the container, which inherits nothing
USERS = True


def node(box: Box) -> Words:
    # A pid namespace of its own, whose first process reaps what others leave.
    return engine.run(BINARY, box, "--init")


def rank(box: Box) -> Words:
    # One pid namespace for all ranks of a node: CMA and CUDA IPC want it.
    return engine.run(BINARY, box, "--pid=host")


def refuse(reference: str) -> LaunchError | None:
    return engine.refuse(BINARY, reference)


def address(reference: str) -> str:
    return names.for_stores(reference, BINARY)
