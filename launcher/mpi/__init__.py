"""What each MPI's own mpirun must be told so that a plain `mpirun ./app` finds its hosts.

An MPI is a module with two names. Inside-out all MPIs are told at once, each in its own words,
because which one the image has is known only inside it.

    STARTER                              the program of the host that starts ranks, outside-in
    environment(places) -> variables
"""

from __future__ import annotations

from types import ModuleType

from ..model import Variable
from . import mpich, openmpi
from .places import Places

WITHOUT_MPI = ("env", "torchrun")  # the starters of our own (wrappers/start.sh)
MPIS: dict[str, ModuleType] = {"openmpi": openmpi, "mpich": mpich}


def environment(places: Places) -> tuple[Variable, ...]:
    """The variables of all MPIs, for mpirun in the master container."""
    return tuple(variable for mpi in MPIS.values() for variable in mpi.environment(places))


def starter(mpi: str) -> str:
    """The host's program for `--mpi`; Open MPI's where nothing else is asked for."""
    return str(MPIS.get(mpi, openmpi).STARTER)


def rank_settings(alone: bool, shm: str) -> tuple[Variable, ...]:
    """What every rank's MPI must know of where it runs. `alone`: ranks of a node are in sibling containers."""
    settings = {
        # Pids repeat in pid namespaces, and with them the names of segments of two jobs on one node.
        "OMPI_MCA_btl_sm_backing_directory": shm,
        "OMPI_MCA_btl_vader_backing_directory": shm,
    }
    if alone:
        # Sibling user namespaces refuse each other's memory: Open MPI 4.1 then hangs on large
        # messages, UCX aborts on /proc/PID/fd.
        settings["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
        settings["UCX_POSIX_USE_PROC_LINK"] = "n"
    return tuple(Variable(name, value) for name, value in settings.items())


__all__ = ["MPIS", "WITHOUT_MPI", "Places", "environment", "rank_settings", "starter"]
