"""Where an mpirun finds what it needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Places:
    """Paths inside the container, and how ranks are bound ("" leaves it to the MPI)."""

    agent: str  # the program that is called as `agent NODE COMMAND`
    hostfile: str
    bind_to: str = ""
    cores: int = 1  # of each rank, where it is bound to cores
    oversubscribe: bool = False
