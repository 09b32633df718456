"""Flux, as every start of mnrun knows it. Its names are those of Known, and scheduler.py has the rest."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping

from mnrun.environment import INSIDE, MPIRUN, Rule, Variables
from mnrun.schedulers.common import MESSAGES, STARTER, of_ranks
from mnrun.schedulers.vocabulary import Foreign, long_options

TITLE, SUBMIT = "Flux", "flux batch"
ANCESTORS: tuple[str, ...] = ("flux-broker",)
RANKS = "MNRUN_JOB_RANKS"  # a variable of a job with the number of its ranks
SYSTEM = "/run/flux/local"  # the socket of a machine's own instance

VARIABLES = Variables(
    rules=(Rule("FLUX_*", (INSIDE, MPIRUN), "mpirun would ask Flux for hosts"),),
    settings=("FLUX_URI", "FLUX_*_PATH"),
    passed=("FLUX_*",),
)
OPTION = long_options("flux", SUBMIT, "setattr=user.x=1", site={"bank": "the bank of jobs without --account"})

_COMMANDS = {"batch": "use mnrun submit", "jobs": "use mnrun status", "alloc": "use mnrun shell"}
FOREIGN = Foreign(
    verbs={"flux": "; ".join(f"for flux {word}, {answer}" for word, answer in _COMMANDS.items())},
    commands={"flux": "write mnrun submit --image app.sif -- ./app"},
    directive="#flux:",
)


def is_here(environ: Mapping[str, str]) -> bool:
    """Return whether an instance of Flux takes jobs here. A tool for Kubernetes is called flux, too."""
    there = "FLUX_URI" in environ or os.path.exists(SYSTEM)
    return there and shutil.which("flux", path=environ.get("PATH")) is not None


def job(environ: Mapping[str, str]) -> str:
    """Return the number of the job whose instance is around mnrun, or "". The instance of `flux start` has none."""
    return typed(re.sub("^f", "ƒ", environ.get("FLUX_ENCLOSING_ID", ""))) if "FLUX_URI" in environ else ""


def typed(word: str) -> str:
    """Return the number of an id in Flux's base 58, such as ƒKiDwHR (RFC 19). Any other word stays as it is."""
    if not re.fullmatch("ƒ[1-9A-HJ-NP-Za-km-z]{1,12}", word):
        return word
    number = 0
    for letter in word[1:]:
        number = number * 58 + "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".index(letter)
    return str(number)
