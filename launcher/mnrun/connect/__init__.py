"""Connect the master container with the containers of other nodes.

Inside, one command reaches every node: `ssh NODE COMMAND`, first on PATH. Each module implements it in its own way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from mnrun.connect import pipe, ssh
from mnrun.model import Worker


class Connect(Protocol):
    """The interface of a module of this package."""

    KEYED: bool  # whether it needs keys made for the job

    def files(self, node_dir: str, workers: Sequence[Worker]) -> dict[str, str]:
        """Return name -> text of the files that every node gets once all are ready."""


CONNECTS: dict[str, Connect] = {"ssh": ssh, "pipe": pipe}


def choose(option: str, without_ssh: Collection[str]) -> str:
    """Return the value of --connect. For auto, it is the pipe if any node has no ssh, else ssh."""
    if option != "auto":
        return option
    return "pipe" if without_ssh else "ssh"


def keyed(option: str) -> bool:
    """Return whether the job needs keys, by the facts that are known before its nodes have reported."""
    return option == "auto" or CONNECTS[option].KEYED
