"""Define the places of the files that an mpirun needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Places:
    """Paths inside the container, and the binding of ranks ("" leaves it to the MPI)."""

    agent: str  # a program, called as `agent NODE COMMAND`
    hostfile: str
    tmp: str  # a directory of this job alone, for the files of mpirun and its daemons
    bind_to: str = ""
    cores: int = 1  # cores of each rank that is bound to cores
    oversubscribe: bool = False
    alike: bool = False  # some nodes have the same name up to its first dot
