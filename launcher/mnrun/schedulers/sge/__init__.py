"""Grid Engine, as every start of mnrun knows it. Its names are those of Known, and scheduler.py has the rest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from mnrun.environment import INSIDE, MPIRUN, Rule, Variables
from mnrun.schedulers.common import MESSAGES, STARTER, of_ranks
from mnrun.schedulers.vocabulary import Foreign, short_options

TITLE, SUBMIT = "Grid Engine", "qsub"
ANCESTORS: tuple[str, ...] = ("sge_shepherd",)

_HOSTS = "mpirun would ask Grid Engine for hosts"
VARIABLES = Variables(
    rules=tuple(Rule(name, (INSIDE, MPIRUN), _HOSTS) for name in ("PE_HOSTFILE", "SGE_*", "QRSH_*")),
    settings=("SGE_ROOT", "SGE_CELL", "SGE_*_PORT", "SGE_ARCH", "SGE_CLUSTER_NAME"),
    passed=("SGE_*", "JOB_ID", "JOB_NAME"),
    given_back=("SGE_TASK_*", "SGE_CWD_PATH", "SGE_O_WORKDIR"),
    task="SGE_TASK_ID",
)


_SITE = {
    "pe": 'the parallel environment: "auto", a pattern such as "mpi-{per_node}", or a table by slots on a node',
    "gpus": 'the resource for GPUs, such as "gpu={per_slot}" (by default) or "ngpus={gpus}"',
    "memory": "the resource for the memory of a slot: m_mem_free by default",
    "exclusive": 'the resource for nodes alone: "exclusive=true" by default',
    "account": '"project" if --account is the project of a job (qsub -P)',
}
OPTION = short_options("sge", SUBMIT, "-l foo=1", _SITE)

FOREIGN = Foreign(
    verbs={"qstat": "use mnrun status", "qdel": "use mnrun cancel ID", "qhost": "use mnrun nodes"},
    commands={"qsub": "write mnrun submit --image app.sif -- ./app"},
    directive="#$",
    ranks=r"\b(NSLOTS|NHOSTS)\b",
    lists=r"\bPE_HOSTFILE\b|\$TMPDIR/machines",
)


def is_here(environ: Mapping[str, str]) -> bool:
    """Return whether this machine is part of a Grid Engine site. Slurm has a wrapper qsub, and no qconf."""
    return all(shutil.which(name, path=environ.get("PATH")) for name in (SUBMIT, "qconf"))


def job(environ: Mapping[str, str]) -> str:
    """Return Grid Engine's id of the job that mnrun is in, 24 or 24.3, or "". JOB_ID alone may be anybody's."""
    identity, task = environ.get("JOB_ID", ""), environ.get("SGE_TASK_ID", "")
    return f"{identity}.{task}" if identity and task.isdecimal() else identity if task else ""
