"""LSF, as every start of mnrun knows it. Its names are those of Known, and scheduler.py has the rest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from mnrun.environment import INSIDE, Rule, Variables
from mnrun.messages import Entry
from mnrun.schedulers.common import STARTER, of_ranks
from mnrun.schedulers.vocabulary import Foreign, short_options

TITLE, SUBMIT = "LSF", "bsub"
ANCESTORS: tuple[str, ...] = ("res",)
VARIABLES = Variables(
    rules=tuple(Rule(name, (INSIDE,), "mpirun would ask LSF for hosts") for name in ("LSB_*", "LSF_*")),
    settings=("LSF_BINDIR", "LSF_ENVDIR", "LSF_LIBDIR", "LSF_SERVERDIR"),
    passed=("LSB_JOBID", "LSB_JOBINDEX", "LSB_JOBNAME"),
    given_back=("LSB_JOBID", "LSB_JOBINDEX", "LSB_JOBNAME", "LSB_QUEUE"),
    job_ids=("LSB_JOBID",),
    task="LSB_JOBINDEX",
)
_SITE = {
    "gpus": 'the GPUs of a node, for bsub -gpu: "num={gpus}" by default, or "num={gpus}:gmodel={type}"',
    "memory": 'the memory: "mem={host}MB/host" by default, or "mem={slot}MB" where the site counts it for each slot',
}
OPTION = short_options("lsf", SUBMIT, "-app bio", _SITE)
_TIME, _MEMORY = "the job reached its time limit", "the job's memory was used up"
MESSAGES: tuple[Entry, ...] = (
    Entry("lsf-time", "the-time-limit", "^TERM_RUNLIMIT: ", _TIME, "ask for more with --time"),
    Entry("lsf-memory", "memory-of-the-job", "^TERM_MEMLIMIT: ", _MEMORY, "ask for more with --mem"),
)

FOREIGN = Foreign(
    verbs={"bjobs": "use mnrun status", "bkill": "use mnrun cancel ID"},
    commands={"bsub": "write mnrun submit --image app.sif -- ./app", "blaunch": "leave it out: mnrun uses it itself"},
    directive="#BSUB",
    ranks=r"\bLSB_(DJOB_NUMPROC|MAX_NUM_PROCESSORS)\b",
    lists=r"\bLSB_(HOSTS|MCPU_HOSTS|DJOB_HOSTFILE)\b",
)


def is_here(environ: Mapping[str, str]) -> bool:
    """Return whether this machine is part of an LSF site. Slurm has a wrapper bsub, and no blaunch."""
    return all(shutil.which(name, path=environ.get("PATH")) for name in (SUBMIT, "blaunch"))


def job(environ: Mapping[str, str]) -> str:
    """Return the id of the job that mnrun is in, 24, or 24.3 for LSF's 24[3], or "". Without an array, LSB_JOBINDEX is
    0 ("Passing arguments on the command line", LSF 10.1)."""
    identity, index = environ.get("LSB_JOBID", ""), environ.get("LSB_JOBINDEX", "")
    return f"{identity}.{index}" if identity and index not in ("", "0") else identity
