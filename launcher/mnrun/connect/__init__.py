"""Connect the master container with the containers of other nodes.

Inside, one command reaches every node: `ssh NODE COMMAND`, first on PATH. Each module implements it in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mnrun.connect import pipe, ssh
from mnrun.model import Worker


class Connect(Protocol):
    """The interface of a module of this package."""

    KEYED: bool  # whether it needs keys made for the job

    def files(self, place: str, workers: Sequence[Worker]) -> dict[str, str]:
        """Return name -> text of the files that every node gets in the directory `place` once all are ready."""


CONNECTS: dict[str, Connect] = {"ssh": ssh, "pipe": pipe}
