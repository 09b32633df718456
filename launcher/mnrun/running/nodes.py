"""The nodes of a job: the nodes of the surrounding Slurm job, named hosts, or this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mnrun import environment
from mnrun.config.options import OPTIONS
from mnrun.errors import UsageError
from mnrun.model import Allocation, JobSpec, Site
from mnrun.schedulers import local
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.running.hosts import Held


def reached(job: JobSpec, screen: Screen, look: bool = False) -> AbstractContextManager[Held]:
    """Return a context that holds the hosts without a scheduler. `look` changes nothing on them."""
    from mnrun.running import hosts

    if "SLURM_JOB_ID" in os.environ:
        raise UsageError(
            f"--hosts inside Slurm job {os.environ['SLURM_JOB_ID']}, which has its own nodes",
            "choose among the job's nodes with --nodelist, or leave the job first",
        )
    return hosts.held(job, os.environ, screen, look)


def held(job: JobSpec) -> tuple[Allocation, Site]:
    """Return the nodes that this process holds. This machine counts only without Slurm, or with --local."""
    from mnrun.schedulers.slurm import cluster

    if not job.local:
        if "SLURM_JOB_ID" in os.environ:
            allocation, site = cluster.current(os.environ)
            cluster.refuse_gpus(job, site.slurm, site.gpus.values())
            return allocation, site
        if cluster.has_slurm():
            raise UsageError(
                "there is no Slurm allocation here",
                f"get one with\n    {salloc_line(job, sys.argv[1:])}\nor run on this machine alone with --local",
            )
    if job.launcher == "srun":
        raise UsageError("--launcher srun needs a Slurm allocation", "use --launcher mpirun with --local")
    return local.allocation(), Site("local", "local")


def held_or_paper(job: JobSpec) -> tuple[Allocation | None, Site]:
    """Return the held nodes, or None with the site's facts: a plan can do without nodes."""
    from mnrun.schedulers.slurm import cluster

    on_paper = not job.local and "SLURM_JOB_ID" not in os.environ and cluster.has_slurm()
    if not on_paper:
        return held(job)
    site = cluster.on_paper(os.environ)
    cluster.refuse_gpus(job, site.slurm)
    return None, site


def salloc_line(job: JobSpec, words: Sequence[str]) -> str:
    """Return the salloc command for these options, with the mnrun command in it."""
    import shlex

    return shlex.join(["salloc", *asked_of_salloc(job), "mnrun", *environment.masked(words)])


def asked_of_salloc(job: JobSpec) -> list[str]:
    """Return the options that salloc has too, in its spelling."""
    asked = {
        "-N": job.nodes,
        "-n": job.ntasks,
        "--ntasks-per-node": job.ntasks_per_node,
        "-c": job.cpus_per_task,
        "--gres": job.gres,
        "--gpus-per-node": job.gpus_per_node,
        "-w": job.nodelist,
        "--exclude": job.exclude,
    }
    words = [word for flag, value in asked.items() if value for word in (flag, str(value))]
    for name in (option.name for option in OPTIONS if option.batch and "shell" in option.verbs):
        value = getattr(job, name)
        if value:
            words.append(f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}"))
    return words
