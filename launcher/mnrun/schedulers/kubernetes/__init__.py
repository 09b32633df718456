"""Kubernetes, as every start of mnrun knows it. Its names are those of Known, and scheduler.py has the rest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from mnrun.schedulers.common import ANCESTORS, MESSAGES, STARTER, VARIABLES, of_ranks
from mnrun.schedulers.kubernetes.keys import OPTION
from mnrun.schedulers.vocabulary import Foreign

TITLE, SUBMIT = "Kubernetes", "kubectl"
PROGRAMS = ("kubectl", "oc")  # OpenShift's oc takes the words of kubectl
JOB, PODS = "MNRUN_POD_JOB", "MNRUN_PODS"  # variables of a job on pods: its name, and what cluster.py knows of it

_VERBS = {
    "get": "use mnrun status",
    "delete": "use mnrun cancel",
    "apply": "use mnrun submit",
    "create": "use mnrun submit",
}
FOREIGN = Foreign(verbs={"kubectl": "; ".join(f"for kubectl {word}, {answer}" for word, answer in _VERBS.items())})


def is_here(environ: Mapping[str, str]) -> bool:
    return any(shutil.which(program, path=environ.get("PATH")) for program in PROGRAMS)


def job(environ: Mapping[str, str]) -> str:
    """Return the name of the job whose pods this mnrun has, or ""."""
    return environ.get(JOB, "")
