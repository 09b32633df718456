"""Build the words that run a program in a container, with one module for each runtime."""

from __future__ import annotations

from typing import Protocol

from mnrun.errors import LaunchError
from mnrun.model import Box, Words
from mnrun.runtimes import apptainer, charliecloud, docker, host, podman, singularity


class Runtime(Protocol):
    """The interface of a module of this package. A new runtime also needs a line in RUNTIMES."""

    BINARY: str  # the program that must be on every node, "" for none
    CONTAINED: bool  # whether it has containers at all
    NAMED: bool  # whether an image is a name in the runtime's own store, and not a file on the nodes
    ADVERB: str  # the script in wrappers/container/ that adds facts of the node to its words
    APART: bool  # whether each container has its own user namespace, so that ranks cannot read each other's memory
    FILES: bool  # whether open file descriptors above 2 reach the container, as PMI2 and MPICH's Hydra need
    TRIED: bool  # whether the guard calls `usable` (engines.sh) before the start. If NAMED, it always does
    USERS: bool  # whether a rank's own container gets mnrun's /etc/passwd and /etc/group, too

    def node(self, box: Box) -> Words:
        """Return the words of a container for all processes of one node."""

    def rank(self, box: Box) -> Words:
        """Return the words of a container around one rank."""

    def ask(self, box: Box) -> Words:
        """Return the words of a container that answers a question about its image.

        It sees none of the node's files but those of the system's own configuration, and the mounts of `box`.
        """

    def refuse(self, reference: str) -> LaunchError | None:
        """Return the error for an image of a registry that the runtime cannot use, or None."""

    def address(self, reference: str) -> str:
        """Return the runtime's name for an image of a registry."""


class Sharing(Runtime, Protocol):
    """A runtime that can run all ranks of a node in one container."""

    def hold(self, box: Box) -> Words:
        """Return the words of a container for all ranks of a node."""

    def join(self, box: Box) -> Words:
        """Return the words of a rank in it. MNRUN_HOLDER is the container's process (join_container.sh)."""


SHARING: dict[str, Sharing] = {"apptainer": apptainer, "charliecloud": charliecloud}
RUNTIMES: dict[str, Runtime] = {
    "apptainer": apptainer,
    "singularity": singularity,
    "docker": docker,
    "podman": podman,
    "charliecloud": charliecloud,
    "host": host,
}
DEFAULT = "apptainer"  # the runtime for --runtime auto
