"""How a command gets from the master's container into a worker's.

Inside, one word reaches every node: `ssh NODE COMMAND`, first on PATH. What is behind it
is the connect's business, a module with these names:

    KEYED                                      whether it wants keys that are the job's own
    files(node_dir, workers) -> {name: text}   what every node is sent once all are ready
"""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType

from mnrun.connect import pipe, ssh

CONNECTS: dict[str, ModuleType] = {"ssh": ssh, "pipe": pipe}


def choose(asked: str, without_ssh: Collection[str]) -> str:
    """What `--connect auto` comes to where these nodes have no ssh to offer."""
    if asked != "auto":
        return asked
    return "pipe" if without_ssh else "ssh"


def keyed(asked: str) -> bool:
    """Whether the job's keys are needed, as far as that is known before its nodes have spoken."""
    return asked == "auto" or bool(CONNECTS[asked].KEYED)
