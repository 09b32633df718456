"""The container runtimes: how to say "in a container"."""

from __future__ import annotations

from typing import Protocol

from mnrun.errors import LaunchError
from mnrun.model import Box, Words
from mnrun.runtimes import apptainer, charliecloud, docker, host, podman, singularity


class Runtime(Protocol):
    """A module of this package. Adding a runtime takes such a file, and a line in RUNTIMES."""

    BINARY: str  # the program that must be on every node, "" for none
    CONTAINED: bool  # whether there is a container at all
    NAMED: bool  # whether an image is a name in the runtime's own store, not a file of the nodes
    ADVERB: str  # our wrapper that adds to its words what only the node knows
    APART: bool  # whether containers of a node are kept from each other's memory, in user namespaces
    FILES: bool  # whether open files of a rank's starter reach it: PMI2 needs one
    USERS: bool  # whether we bring /etc/passwd and group along, for ranks too

    def node(self, box: Box) -> Words:
        """Return the words of a container that one node's processes live in together."""

    def rank(self, box: Box) -> Words:
        """Return the words of a container around one rank."""

    def refuse(self, reference: str) -> LaunchError | None:
        """Return why an image of a registry cannot be used, None if it can."""

    def address(self, reference: str) -> str:
        """Return what the runtime calls an image of a registry."""


class Sharing(Runtime, Protocol):
    """A runtime of which all ranks of a node can live in one container."""

    def hold(self, box: Box) -> Words:
        """Return the words of a container for all ranks of a node."""

    def join(self, box: Box) -> Words:
        """Return the words of a rank in it. MNRUN_HOLDER is the container's process (join_container.sh)."""


SHARING: dict[str, Sharing] = {"apptainer": apptainer, "singularity": singularity, "charliecloud": charliecloud}
RUNTIMES: dict[str, Runtime] = {
    "apptainer": apptainer,
    "singularity": singularity,
    "docker": docker,
    "podman": podman,
    "charliecloud": charliecloud,
    "host": host,
}
DEFAULT = "apptainer"  # what `auto` means
