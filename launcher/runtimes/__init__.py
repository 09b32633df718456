"""The container runtimes: how to say "in a container".

A runtime is a module with these names; adding one is one file and one line below.

    BINARY                      the program that must be on every node, "" for none
    CONTAINED                   whether there is a container at all
    node(box)   -> words        a container that one node's processes live in together
    rank(box, shared) -> words  a container around one rank; shared: one for all ranks of the node
    refuse(reference) -> error  why `--image REFERENCE` cannot be used, None if it can
"""

from __future__ import annotations

from types import ModuleType

from . import apptainer, host

RUNTIMES: dict[str, ModuleType] = {"apptainer": apptainer, "host": host}
