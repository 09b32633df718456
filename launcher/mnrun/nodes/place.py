"""Make the variables that tell ranks their place (wrappers/ranks/place.sh), as far as all ranks share them.

Programs look at one of Slurm's variables, and then rely on others: JAX, PyTorch Lightning and many a wrapper around a
program. So a rank gets all of these or none. Without a Slurm job there are none: a program that finds them may call
Slurm.

SLURM_JOBID, SLURM_NODELIST and SLURM_STEP_ID are absent. By these, Open MPI 4 takes a rank for one that srun has
started (schizo_slurm.c).
"""

from __future__ import annotations

from itertools import groupby

from mnrun import nodeset
from mnrun.jobspec import Variable
from mnrun.model import Plan, Worker

# Options of mpirun and srun by which rank 0 may run on another node than the first.
ELSEWHERE = frozenset(
    (
        *("-H", "-host", "--host", "-hosts", "-f", "-hostfile", "--hostfile", "-machinefile", "--machinefile"),
        *("-default-hostfile", "--default-hostfile", "-rf", "-rankfile", "--rankfile", "-nolocal", "--nolocal"),
        *("-app", "--app", "-configfile", "-w", "--nodelist", "-r", "--relative", "-x", "--exclude"),
    )
)


def files(plan: Plan, head: Worker) -> dict[str, str]:
    """Return the file with an address and a free port of the first node, unless rank 0 may be elsewhere."""
    if not head.master or {word.partition("=")[0] for word in plan.spec.start.mpi_args} & ELSEWHERE:
        return {}
    return {"master": f"{head.address or head.host} {head.master}\n"}


def of_job(plan: Plan) -> tuple[Variable, ...]:
    """Return the variables that all ranks share, or none without a job of Slurm's."""
    if not any(v.name == "SLURM_JOB_ID" and v.value for v in plan.spec.program.env) or plan.starter == "srun":
        return ()
    layout = plan.layout
    # mnrun starts one torchrun on each node.
    ranks = (1,) * layout.nnodes if plan.starter == "torchrun" else layout.ranks
    nodes, each, size = nodeset.fold(layout.nodes), _per_node(ranks), str(sum(ranks))
    values = {
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), size),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"), str(layout.nnodes)),
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"), nodes),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), each),
        **({"SLURM_NTASKS_PER_NODE": str(ranks[0])} if len(set(ranks)) == 1 else {}),
        # An mpiexec of MPICH or Intel that a rank calls by its path would take these nodes, and reach them by srun.
        **dict.fromkeys(("HYDRA_RMK", "I_MPI_HYDRA_RMK"), "user"),
    }
    return tuple(Variable(*pair) for pair in values.items())


def of_script(plan: Plan) -> tuple[Variable, ...]:
    """Return the variables of a script that runs once, on the first node. They are those of a batch script."""
    first = (Variable(name, "0") for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"))
    common = of_job(plan)
    return (*common, *first) if common else ()


def _per_node(ranks: tuple[int, ...]) -> str:
    """Return the numbers of ranks of the nodes as Slurm writes them: 2(x3),1."""
    parts = [(count, len(list(group))) for count, group in groupby(ranks)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)
