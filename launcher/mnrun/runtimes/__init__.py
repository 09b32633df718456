"""Build the words that run a program in a container, with one module for each runtime."""

from __future__ import annotations

from typing import Protocol

from mnrun.model import Container, Words
from mnrun.runtimes import apptainer, charliecloud, docker, host, podman, singularity


class Runtime(Protocol):
    """The interface of a module of this package. A new runtime also needs a line in RUNTIMES."""

    BINARY: str  # the program that must be on every node, "" for none
    CONTAINED: bool  # whether it has containers at all
    HAS_STORE: bool  # whether an image is a name in the runtime's own store, and not a file on the nodes
    ADVERB: str  # the script in wrappers/container/ that adds facts of the node to its words
    OWN_USER_NAMESPACE: (
        bool  # whether each container has its own user namespace, so that ranks cannot read each other's memory
    )
    PASSES_OPEN_FILES: bool  # whether open file descriptors above 2 reach the container, as PMI2 and MPICH's Hydra need
    NEEDS_TRIAL: bool  # whether the guard calls `usable` (engines.sh) before the start. If HAS_STORE, it always does
    NEEDS_PASSWD: bool  # whether a rank's own container gets mnrun's /etc/passwd and /etc/group, too

    def node(self, container: Container) -> Words:
        """Return the words of a container for all processes of one node."""

    def rank(self, container: Container) -> Words:
        """Return the words of a container around one rank."""

    def ask(self, container: Container) -> Words:
        """Return the words of a container that answers a question about its image. It sees none of the node's files but
        those of the system's own configuration, and the mounts of `container`."""

    def address(self, reference: str) -> str:
        """Return the runtime's name for an image of a registry. Raises LaunchError if it cannot use the image."""


class Sharing(Runtime, Protocol):
    """A runtime that can run all ranks of a node in one container."""

    def hold(self, container: Container) -> Words:
        """Return the words of a container for all ranks of a node."""

    def join(self, container: Container) -> Words:
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
# The runtimes' own words that keep more of the node's files from an image.
SHUT_IN: dict[str, frozenset[str]] = {
    **dict.fromkeys(("apptainer", "singularity"), frozenset({"-c", "--contain", "-C", "--containall", "--compat"})),
    "charliecloud": frozenset({"-t", "--private-tmp"}),
}
# What a container may be asked to be -> the runtimes that can, with their words for it: () where it is so anyway.
TRAITS: dict[str, dict[str, Words]] = {
    "writable": {
        **dict.fromkeys(("apptainer", "singularity"), ("--writable-tmpfs",)),
        **dict.fromkeys(("docker", "podman", "charliecloud"), ()),
    },
    "read-only": {
        **dict.fromkeys(("apptainer", "singularity"), ()),
        **dict.fromkeys(("docker", "podman"), ("--read-only",)),
    },
    "root": {
        **dict.fromkeys(("apptainer", "singularity"), ("--fakeroot",)),
        "charliecloud": ("--uid=0", "--gid=0"),
        "podman": ("--userns=host", "--user=0:0"),
    },
}


def as_root(runtime: str, args: Words) -> bool:
    """Return whether programs are root in a container with these words. Its own /etc/passwd says so, too."""
    words = TRAITS["root"].get(runtime, ())
    return bool(words) and set(words) <= set(args)
