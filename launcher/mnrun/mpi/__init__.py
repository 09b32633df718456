"""Make the settings by which each MPI's own mpirun finds its hosts, so that a plain `mpirun ./app` works.

Inside-out, the settings of all MPIs are made at once: only the container shows which MPI the image has.
"""

from __future__ import annotations

from typing import Protocol

from mnrun.jobspec import Variable
from mnrun.mpi import intelmpi, mpich, mvapich2, openmpi
from mnrun.mpi.mpirun import Mpirun

WITHOUT_MPI = ("env", "torchrun", "ray")  # mnrun's own starters (wrappers/ranks/start.sh)


class Mpi(Protocol):
    """The interface of a module of this package."""

    NAME: str  # its usual name
    STARTER: str  # the host's program that starts ranks, outside-in

    def environment(self, mpirun: Mpirun) -> tuple[Variable, ...]:
        """Return the variables by which its mpirun finds the nodes."""

    def without_cma(self) -> tuple[Variable, ...]:
        """Return the variables for ranks that cannot read each other's memory (CMA)."""


MPIS: dict[str, Mpi] = {"openmpi": openmpi, "mpich": mpich, "mvapich2": mvapich2, "intelmpi": intelmpi}
HYDRA = ("mpich", "mvapich2", "intelmpi")  # MPIs that start ranks by Hydra, and speak PMI with them


def environment(mpirun: Mpirun) -> tuple[Variable, ...]:
    """Return the variables of all MPIs, for mpirun in the master container."""
    return tuple(variable for mpi in MPIS.values() for variable in mpi.environment(mpirun))


def starter(mpi: str) -> str:
    """Return the host's program for `--mpi`, by default Open MPI's."""
    return MPIS.get(mpi, openmpi).STARTER


def rank_settings(alone: bool, shm: str) -> tuple[Variable, ...]:
    """Return the settings that every rank's MPI needs. `alone`: the ranks of a node are in sibling containers."""
    settings = (
        # Pids repeat in pid namespaces: two jobs on one node could choose equal names for their segments.
        Variable("OMPI_MCA_btl_sm_backing_directory", shm),
        Variable("OMPI_MCA_btl_vader_backing_directory", shm),
    )
    # Processes in sibling user namespaces cannot read each other's memory (ptrace(2), access mode checking).
    return (*settings, *(variable for mpi in MPIS.values() for variable in mpi.without_cma())) if alone else settings


__all__ = ["HYDRA", "MPIS", "WITHOUT_MPI", "Mpi", "Mpirun", "environment", "rank_settings", "starter"]
