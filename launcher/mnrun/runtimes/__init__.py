"""The container runtimes: how to say "in a container".

A runtime is a module with these names; adding one is one file and one line below.

    BINARY                      the program that must be on every node, "" for none
    CONTAINED                   whether there is a container at all
    NAMED                       whether an image is a name in the runtime's own store, not a file of the nodes
    ADVERB                      our wrapper that adds to its words what only the node knows
    SHARES                      whether all ranks of a node can live in one container
    APART                       whether containers of a node are kept from each other's memory, in user namespaces
    FILES                       whether open files of a rank's starter reach it: PMI2 needs one
    USERS                       whether we bring /etc/passwd and group along, for ranks too
    node(box)   -> words        a container that one node's processes live in together
    rank(box)   -> words        a container around one rank
    hold(box), join(box) -> words  where it SHARES: a container for all ranks of a node, and a rank in it; MNRUN_HOLDER
                                is the container's process, which wrappers/join.sh knows
    refuse(reference) -> error  why an image of a registry cannot be used, None if it can
    address(reference) -> word  what the runtime calls that image
"""

from __future__ import annotations

from types import ModuleType

from mnrun.runtimes import apptainer, charliecloud, docker, host, podman, singularity

RUNTIMES: dict[str, ModuleType] = {
    "apptainer": apptainer,
    "singularity": singularity,
    "docker": docker,
    "podman": podman,
    "charliecloud": charliecloud,
    "host": host,
}
DEFAULT = "apptainer"  # what `auto` means
