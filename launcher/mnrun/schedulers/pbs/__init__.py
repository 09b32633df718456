"""PBS, as every start of mnrun knows it: OpenPBS, PBS Pro and Torque. Its names are those of Known, and scheduler.py
has the rest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from mnrun.environment import INSIDE, MPIRUN, Rule, Variables
from mnrun.schedulers.common import MESSAGES, STARTER, of_ranks
from mnrun.schedulers.vocabulary import Foreign, short_options

TITLE, SUBMIT = "PBS", "qsub"
ANCESTORS: tuple[str, ...] = ("pbs_mom",)

# Of OMP_NUM_THREADS, PBS sets a value of its own on the first node alone: on_node.sh takes it away.
VARIABLES = Variables(
    rules=(Rule("PBS_*", (INSIDE, MPIRUN), "mpirun would ask PBS for hosts"),),
    settings=("PBS_SERVER", "PBS_CONF_FILE", "PBS_EXEC", "PBS_HOME", "PBS_DEFAULT"),
    given_back=("PBS_JOBID", "PBS_JOBNAME", "PBS_QUEUE", "PBS_ARRAY*", "PBS_O_WORKDIR", "PBS_O_HOST"),
    job_ids=("PBS_JOBID",),
    cpus="OMP_NUM_THREADS",
)
_SITE = {
    "dialect": '"openpbs", also for PBS Pro, or "torque", also for Moab. By default, `qsub --version` tells',
    "chunk": 'the resources of a node, by default "ncpus={cpus}:mpiprocs={ranks}:ngpus={gpus}:mem={mem}"',
    "gpus": 'the resource for GPUs in it, such as "ngpus={gpus}" (by default) or "gpu_type={type}:ngpus={gpus}"',
    "place": 'the places of nodes, such as "scatter" (by default) or "scatter:group=switch"',
    "account": '"project" if --account is the project of a job (qsub -P)',
    "queue": "the queue of a job that names none",
}
OPTION = short_options("pbs", SUBMIT, "-l foo=1", _SITE)

FOREIGN = Foreign(
    verbs={"qstat": "use mnrun status", "qdel": "use mnrun cancel ID", "pbsnodes": "use mnrun nodes"},
    commands={"qsub": "write mnrun submit --image app.sif -- ./app"},
    directive="#PBS",
    ranks=r"\bPBS_(NP|NUM_NODES|NUM_PPN|NODENUM|TASKNUM)\b",
    lists=r"\bPBS_NODEFILE\b",
)


def is_here(environ: Mapping[str, str]) -> bool:
    """Return whether this machine can hand jobs in to PBS. Grid Engine has a qsub, too, and Slurm has wrappers of most
    commands. Neither has a qsig."""
    return all(shutil.which(name, path=environ.get("PATH")) for name in (SUBMIT, "qsig"))


def job(environ: Mapping[str, str]) -> str:
    """Return PBS's id of the job that mnrun is in, without server and brackets, which names of files cannot have
    everywhere: 57 for 57.login, 58_3 for 58[3].login. Return "" outside of jobs."""
    number, _, task = environ.get("PBS_JOBID", "").partition(".")[0].rstrip("]").partition("[")
    return f"{number}_{task}" if task else number
