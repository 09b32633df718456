"""Choose the starter of the ranks by --mode, --launcher and --mpi. Pure."""

from __future__ import annotations

import os.path
from collections.abc import Sequence

from mnrun.config.layers import Settings
from mnrun.errors import Impossible
from mnrun.model import Words
from mnrun.mpi import WITHOUT_MPI

PROGRAMS = ("mpirun", "mpiexec", "mpiexec.hydra", "prterun", "srun")  # starters with which a command may begin


def mode(settings: Settings) -> str:
    """Return the mode. For auto, it is inside-out, except for requests that only srun can fulfil."""
    request = str(settings["mode"].value)
    by_srun = settings["launcher"].value == "srun" or settings["mpi"].value in ("pmix", "pmi2")
    return request if request != "auto" else "outside-in" if by_srun else "inside-out"


def undecided(settings: Settings, launcher: str) -> Words:
    """Return which of mode, launcher and mpi are open, if an MPI starts the ranks. Any --mpi has one launcher."""
    names: Words = ("mode",) if settings["mpi"].value != "auto" else ("mode", "launcher", "mpi")
    return tuple(name for name in names if settings[name].value == "auto" and launcher not in WITHOUT_MPI)


def launcher(settings: Settings, command: Sequence[str], mode: str) -> str:
    """Return the starter of the ranks: mpirun, unless an option or its value asks for another."""
    request, mpi = str(settings["launcher"].value), str(settings["mpi"].value)
    if request == "auto" and mpi == "auto" and command and os.path.basename(command[0]) == "torchrun":
        request = "torchrun"
    if request in WITHOUT_MPI:
        return _without_mpi(request, settings)
    wanted = "srun" if mpi in ("pmix", "pmi2") else request if mpi == "auto" else "mpirun"
    if request not in ("auto", wanted):
        raise Impossible(f"--launcher {request} and --mpi {mpi} exclude each other", f"{mpi} needs --launcher {wanted}")
    if wanted == "srun" and mode != "outside-in":
        raise Impossible("srun starts ranks from outside the containers", "add --mode outside-in")
    return "mpirun" if wanted == "auto" else wanted


def _without_mpi(launcher: str, settings: Settings) -> str:
    """Return env or torchrun. Raise Impossible if another option contradicts it."""
    if settings["mpi"].value != "auto":
        problem = f"--launcher {launcher} and --mpi {settings['mpi'].value} exclude each other"
        raise Impossible(problem, f"{launcher} starts ranks without an MPI")
    if settings["mode"].value == "outside-in":
        problem = f"{launcher} starts ranks in containers that wait, which outside-in lacks"
        raise Impossible(problem, "use --mode inside-out")
    if launcher == "torchrun" and "gpu_bind" in settings:
        problem = "--gpu-bind cannot be used with torchrun, whose processes see all of their node's GPUs"
        raise Impossible(problem, "choose a GPU by LOCAL_RANK in the program")
    return launcher
