"""What each MPI's own mpirun must be told so that a plain `mpirun ./app` finds its hosts.

Inside-out all MPIs are told at once, each in its own words, because which one the image has is known only inside it.
"""

from __future__ import annotations

from typing import Protocol

from mnrun.model import Variable
from mnrun.mpi import intelmpi, mpich, mvapich2, openmpi
from mnrun.mpi.places import Places

WITHOUT_MPI = ("env", "torchrun")  # the starters of our own (wrappers/ranks/start.sh)


class Mpi(Protocol):
    """A module of this package."""

    NAME: str  # what people call it
    STARTER: str  # the program of the host that starts ranks, outside-in

    def environment(self, places: Places) -> tuple[Variable, ...]:
        """Return the variables by which its mpirun finds the nodes."""

    def apart(self) -> tuple[Variable, ...]:
        """Return the variables of ranks that cannot look into each other's memory (CMA)."""


MPIS: dict[str, Mpi] = {"openmpi": openmpi, "mpich": mpich, "mvapich2": mvapich2, "intelmpi": intelmpi}
HYDRA = ("mpich", "mvapich2", "intelmpi")  # those that start by one, and speak PMI with their ranks


def environment(places: Places) -> tuple[Variable, ...]:
    """The variables of all MPIs, for mpirun in the master container."""
    return tuple(variable for mpi in MPIS.values() for variable in mpi.environment(places))


def starter(mpi: str) -> str:
    """The host's program for `--mpi`; Open MPI's where nothing else is asked for."""
    return MPIS.get(mpi, openmpi).STARTER


def rank_settings(alone: bool, shm: str) -> tuple[Variable, ...]:
    """What every rank's MPI must know of where it runs. `alone`: ranks of a node are in sibling containers."""
    settings = (
        # Pids repeat in pid namespaces, and with them the names of segments of two jobs on one node.
        Variable("OMPI_MCA_btl_sm_backing_directory", shm),
        Variable("OMPI_MCA_btl_vader_backing_directory", shm),
    )
    # Sibling user namespaces refuse each other's memory.
    return (*settings, *(variable for mpi in MPIS.values() for variable in mpi.apart())) if alone else settings


__all__ = ["HYDRA", "MPIS", "WITHOUT_MPI", "Mpi", "Places", "environment", "rank_settings", "starter"]
