"""MPICH, which starts by Hydra.

HYDRA_LAUNCHER_EXEC is called as `agent -x NODE COMMAND`, so the agent must swallow -x.
"""

from __future__ import annotations

from mnrun.model import Variable
from mnrun.mpi.places import Places

NAME = "MPICH"
STARTER = "mpiexec.hydra"


def environment(places: Places) -> tuple[Variable, ...]:
    settings = {
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": places.agent,
        "HYDRA_RMK": "user",  # else it looks for a scheduler of its own accord
        "HYDRA_HOST_FILE": places.hostfile + ".hydra",
    }
    if places.bind_to not in ("", "none"):
        each = f":{places.cores}" if places.bind_to == "core" else ""
        settings["HYDRA_BINDING"] = places.bind_to + each
    return tuple(Variable(name, value) for name, value in settings.items())


def apart() -> tuple[Variable, ...]:
    # UCX aborts on /proc/PID/fd
    return (Variable("UCX_POSIX_USE_PROC_LINK", "n"),)
