"""How a command gets from the master's container into a worker's.

Inside, one word reaches every node: `ssh NODE COMMAND`, first on PATH. What is behind it is the connect's business.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from mnrun.connect import pipe, ssh
from mnrun.model import Worker


class Connect(Protocol):
    """A module of this package."""

    KEYED: bool  # whether it wants keys that are the job's own

    def files(self, node_dir: str, workers: Sequence[Worker]) -> dict[str, str]:
        """Return name -> text of what every node is sent once all are ready."""


CONNECTS: dict[str, Connect] = {"ssh": ssh, "pipe": pipe}


def choose(asked: str, without_ssh: Collection[str]) -> str:
    """What `--connect auto` comes to where these nodes have no ssh to offer."""
    if asked != "auto":
        return asked
    return "pipe" if without_ssh else "ssh"


def keyed(asked: str) -> bool:
    """Whether the job's keys are needed, as far as that is known before its nodes have spoken."""
    return asked == "auto" or CONNECTS[asked].KEYED
