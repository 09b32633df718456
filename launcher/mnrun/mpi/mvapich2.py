"""MVAPICH2: its mpirun is Hydra too, and takes the settings of mpich.py. Its own variables begin with MV2_."""

from __future__ import annotations

from mnrun.jobspec import Variable
from mnrun.mpi.mpirun import Mpirun

NAME = "MVAPICH2"
STARTER = "mpiexec.hydra"


def environment(mpirun: Mpirun) -> tuple[Variable, ...]:
    # MVAPICH2's library binds ranks itself, and ignores Hydra's binding. It has its own words for the units.
    units = {"core": ("bunch", "core"), "socket": ("scatter", "socket"), "numa": ("scatter", "numanode")}
    if mpirun.bind_to == "none":
        return (Variable("MV2_ENABLE_AFFINITY", "0"),)
    if mpirun.bind_to not in units:
        return ()
    policy, level = units[mpirun.bind_to]
    return (Variable("MV2_CPU_BINDING_POLICY", policy), Variable("MV2_CPU_BINDING_LEVEL", level))


def without_cma() -> tuple[Variable, ...]:
    return (Variable("MV2_SMP_USE_CMA", "0"),)
