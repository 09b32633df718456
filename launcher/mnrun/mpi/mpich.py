"""MPICH, which starts ranks by Hydra.

HYDRA_LAUNCHER_EXEC is called as `agent -x NODE COMMAND`, so that the agent must accept -x.
"""

from __future__ import annotations

from mnrun.jobspec import Variable
from mnrun.mpi.mpirun import Mpirun

NAME = "MPICH"
STARTER = "mpiexec.hydra"


def environment(mpirun: Mpirun) -> tuple[Variable, ...]:
    settings = {
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": mpirun.agent,
        "HYDRA_RMK": "user",  # by default, Hydra looks for a scheduler
        "HYDRA_HOST_FILE": mpirun.hostfile + ".hydra",
    }
    if mpirun.bind_to not in ("", "none"):
        each = f":{mpirun.cores}" if mpirun.bind_to == "core" else ""
        settings["HYDRA_BINDING"] = mpirun.bind_to + each
    return tuple(Variable(name, value) for name, value in settings.items())


def without_cma() -> tuple[Variable, ...]:
    # UCX aborts where it cannot open /proc/PID/fd.
    return (Variable("UCX_POSIX_USE_PROC_LINK", "n"),)
