"""Intel MPI: a Hydra with names of its own. It calls its agent as MPICH does."""

from __future__ import annotations

from mnrun.jobspec import Variable
from mnrun.mpi.mpirun import Mpirun

NAME = "Intel MPI"
STARTER = "mpiexec.hydra"


def environment(mpirun: Mpirun) -> tuple[Variable, ...]:
    settings = {
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": mpirun.agent,
        "I_MPI_HYDRA_RMK": "user",
        "I_MPI_HYDRA_HOST_FILE": mpirun.hostfile + ".hydra",
    }
    if mpirun.bind_to == "none":
        settings["I_MPI_PIN"] = "0"
    elif mpirun.bind_to in ("core", "socket", "numa"):
        settings["I_MPI_PIN_DOMAIN"] = mpirun.bind_to
    return tuple(Variable(name, value) for name, value in settings.items())


def without_cma() -> tuple[Variable, ...]:
    return ()  # versions since 2019 warn about I_MPI_SHM_LMT, and have no other setting in its place
