"""Name Slurm's variables: those that must not leak, those that ranks get, and those that set options of a job."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from mnrun import environment, nodeset
from mnrun.environment import CONTEXTS, INSIDE, MPIRUN, Rule
from mnrun.jobspec import Variable
from mnrun.model import Plan

VARIABLES = environment.Variables(
    rules=(
        Rule(
            "SLURM_*",
            (INSIDE, MPIRUN),
            "mpirun would start its daemons by srun, and ranks would see another step's values",
        ),
        Rule("SRUN_*", CONTEXTS, "inputs of srun"),
        Rule("SBATCH_*", CONTEXTS, "inputs of sbatch"),
        Rule("SALLOC_*", CONTEXTS, "inputs of salloc"),
    ),
    settings=("SLURM_CONF*", "SLURM_CLUSTER*"),
    passed=("SLURM_*",),
    given_back=(
        *("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_ARRAY_*", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME"),
        *("SLURM_SUBMIT_DIR", "SLURM_CPUS_PER_TASK"),
    ),
    job_ids=("SLURM_JOB_ID",),
    cpus="SLURM_CPUS_PER_TASK",
    first_rank=("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
    # By an option, mpirun may start another number of ranks.
    each_rank="""export SLURM_PROCID="$mnrun_rank" SLURM_LOCALID="$mnrun_local" SLURM_NODEID="$mnrun_index"
if [ "$SLURM_NTASKS" != "$mnrun_size" ]; then
  export SLURM_NTASKS="$mnrun_size" SLURM_NPROCS="$mnrun_size" SLURM_STEP_NUM_TASKS="$mnrun_size"
  unset SLURM_TASKS_PER_NODE SLURM_STEP_TASKS_PER_NODE
fi
if [ "${SLURM_NTASKS_PER_NODE-}" != "$mnrun_each" ]; then unset SLURM_NTASKS_PER_NODE; fi
""",
)

# The SLURM_* variables that srun may read: no others shape mnrun's steps. With SLURM_DEBUG, srun would refuse --quiet.
SRUN_KEEPS = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF*", "SLURM_CLUSTER*", "SLURM_HET*")
# Variables that would shape mnrun's steps, or make a rank join a surrounding mpirun.
SRUN_DROPS = (
    *("SRUN_*", "OMPI_COMM_WORLD_*", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT"),
    *environment.OF_HOSTS,
)


def for_srun(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without srun's inputs: they leak from the surrounding job and would shape mnrun's steps."""

    def stays(name: str) -> bool:
        kept = environment.matches(name, SRUN_KEEPS)
        return kept if name.startswith("SLURM_") else not environment.matches(name, SRUN_DROPS)

    return {name: value for name, value in environ.items() if stays(name)}


def of_ranks(plan: Plan) -> tuple[Variable, ...]:
    """Return the variables that tell ranks their place, as far as all ranks share them, or none without a Slurm job.

    Programs look at one of Slurm's variables, and then rely on others: JAX, PyTorch Lightning and many a wrapper around
    a program. So a rank gets all of these or none. A program that finds them outside of a job may call Slurm.

    SLURM_JOBID, SLURM_NODELIST and SLURM_STEP_ID are absent. By these, Open MPI 4 takes a rank for one that srun has
    started (schizo_slurm.c).
    """
    if not any(v.name == "SLURM_JOB_ID" and v.value for v in plan.spec.program.env) or plan.starter == "srun":
        return ()
    layout = plan.layout
    # mnrun starts one torchrun on each node.
    ranks = (1,) * layout.nnodes if plan.starter == "torchrun" else layout.ranks
    nodes, each, size = nodeset.fold(layout.nodes), tasks_per_node(ranks), str(sum(ranks))
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


def tasks_per_node(ranks: tuple[int, ...]) -> str:
    """Turn (2, 2, 2, 1) into `2(x3),1`, the format of SLURM_TASKS_PER_NODE."""
    groups = [(count, len(list(group))) for count, group in groupby(ranks)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in groups)
