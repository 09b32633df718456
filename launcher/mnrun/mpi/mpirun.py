"""Define what an mpirun needs."""

from __future__ import annotations

from mnrun.record import Record


class Mpirun(Record):
    """Paths inside the container, and the binding of ranks ("" leaves it to the MPI)."""

    agent: str  # a program, called as `agent NODE COMMAND`
    hostfile: str
    tmp: str  # a directory of this job alone, for the files of mpirun and its daemons
    bind_to: str = ""
    cores: int = 1  # cores of each rank that is bound to cores
    oversubscribe: bool = False
    alike: bool = False  # some nodes have the same name up to its first dot
