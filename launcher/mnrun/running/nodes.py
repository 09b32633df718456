"""Return the nodes of a job: those of the surrounding scheduler's job, named hosts, or this machine."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mnrun import environment
from mnrun.config.options import OPTIONS
from mnrun.errors import UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Allocation, Site
from mnrun.schedulers import at_hand, local
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.running.hosts import HostSession

# The options that `mnrun shell` hands to the scheduler, and that no other live run has use for.
_OF_ALLOCATIONS = tuple(option.name for option in OPTIONS if option.batch and "shell" in option.verbs)


def connected(spec: JobSpec, screen: Screen, look: bool = False) -> AbstractContextManager[HostSession]:
    """Return a context with connections to the hosts without a scheduler. `look` changes nothing on them."""
    from mnrun.running import hosts

    scheduler = at_hand(os.environ)
    if around := scheduler.job(os.environ):
        raise UsageError(
            f"--hosts inside {scheduler.TITLE} job {around}, which has its own nodes",
            "choose among the job's nodes with --nodelist, or leave the job first",
        )
    return hosts.connected(spec, os.environ, screen, look)


def in_job() -> bool:
    """Return whether this process is in a scheduler's job."""
    return at_hand(os.environ).job(os.environ) != ""


def could_be_allocated(spec: JobSpec) -> bool:
    """Return whether the job needs nodes that a scheduler can give, and has none."""
    return not spec.hosts.local and not spec.hosts.names and not in_job() and at_hand(os.environ).is_here()


def current(spec: JobSpec) -> tuple[Allocation, Site]:
    """Return the nodes of this process. This machine counts only without a scheduler, or with --local."""
    scheduler = at_hand(os.environ)
    if not spec.hosts.local and in_job():
        allocation, site = scheduler.current(os.environ)
        scheduler.refuse(spec, site)
        return allocation, site
    if could_be_allocated(spec):
        words = (*scheduler.request(spec, _OF_ALLOCATIONS), "mnrun", *environment.masked(sys.argv[1:]))
        raise UsageError(
            f"there is no {scheduler.TITLE} allocation here",
            f"get one with\n    {shlex.join(words)}\nor run on this machine alone with --local",
        )
    if spec.start.launcher == "srun":
        raise UsageError("--launcher srun needs a Slurm allocation", "use --launcher mpirun with --local")
    return local.allocation(), Site("local", "local")


def current_or_none(spec: JobSpec) -> tuple[Allocation | None, Site]:
    """Return the nodes of this process, or None with the site's facts: a plan can do without nodes."""
    if not could_be_allocated(spec):
        return current(spec)
    site = at_hand(os.environ).site(os.environ)
    at_hand(os.environ).refuse(spec, site)
    return None, site


def allocated(spec: JobSpec, screen: Screen) -> AbstractContextManager[Mapping[str, str]]:
    """Return a context that holds an allocation for the job, and yields its variables. Raises LaunchError."""
    return at_hand(os.environ).allocated(spec, _OF_ALLOCATIONS, os.environ, screen)
