"""Slurm, as every start of mnrun knows it. Its names are those of Known, and scheduler.py has the rest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from mnrun.schedulers.slurm.foreign import FOREIGN
from mnrun.schedulers.slurm.messages import MESSAGES
from mnrun.schedulers.slurm.values import OPTION
from mnrun.schedulers.slurm.variables import VARIABLES, of_ranks

TITLE, SUBMIT, STARTER = "Slurm", "sbatch", "srun"
ANCESTORS: tuple[str, ...] = ("slurmstepd", "salloc")


def is_here(environ: Mapping[str, str]) -> bool:
    return shutil.which(SUBMIT, path=environ.get("PATH")) is not None


def job(environ: Mapping[str, str]) -> str:
    return environ.get("SLURM_JOB_ID", "")
