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
from mnrun.schedulers.model import Granted
from mnrun.system import terminal
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.running.hosts import HostSession

# The options of an allocation that mnrun gets. They have no effect on a job that has its nodes already.
OF_ALLOCATIONS = tuple(option.name for option in OPTIONS if option.batch and "shell" in option.verbs)
VERBS = ("run", "shell", "submit", "check")  # the verbs that take the size of a job


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


def refuse_copies(given: Mapping[str, object]) -> None:
    """Raise UsageError in the first of several tasks of a step, and SystemExit in the others: each would run the whole
    job. Of `srun --pty mnrun`, the first task has the terminal and runs the job, and the others end well."""
    task = at_hand(os.environ).step(os.environ)
    if task.tasks == 1 or terminal.controls():
        return
    if task.number:
        raise SystemExit(0 if task.prompt and terminal.is_device() else UsageError.code)
    size = [] if given.get("nodes") else ["-N", str(task.nodes)]
    if task.tasks != task.nodes and not given.get("ntasks") and not given.get("ntasks_per_node"):
        size += ["-n", str(task.tasks)]
    words = environment.masked(sys.argv[1:])
    verb = words[:1] if words[:1] and words[0] in VERBS else []
    line = shlex.join(["mnrun", *verb, *size, *words[len(verb) :]])
    raise UsageError(f"srun has started mnrun {task.tasks} times", f"leave out srun: mnrun starts the ranks: {line}")


def could_be_allocated(spec: JobSpec) -> bool:
    """Return whether the job needs nodes that a scheduler can give, and has none."""
    return not spec.hosts.local and not spec.hosts.names and not in_job() and at_hand(os.environ).is_here()


def allocates(spec: JobSpec) -> bool:
    """Return whether mnrun gets an allocation for the job. A call in a batch script never does."""
    return could_be_allocated(spec) and spec.resources.alloc and not spec.as_given


def request(spec: JobSpec) -> str:
    """Return the line that gets an allocation for the job."""
    return shlex.join(at_hand(os.environ).request(spec, OF_ALLOCATIONS))


def current(spec: JobSpec) -> tuple[Allocation, Site]:
    """Return the nodes of this process. This machine counts only without a scheduler, or with --local."""
    scheduler = at_hand(os.environ)
    if not spec.hosts.local and in_job():
        allocation, site = scheduler.current(os.environ)
        scheduler.refuse(spec, site)
        return allocation, site
    if could_be_allocated(spec):
        line = f"{request(spec)} {shlex.join(['mnrun', *environment.masked(sys.argv[1:])])}"
        raise UsageError(
            f"there is no {scheduler.TITLE} allocation here{_why_none(spec)}",
            "get one with",
            f"    {line}",
            "or run on this machine alone with --local",
        )
    if spec.start.launcher == "srun":
        raise UsageError("--launcher srun needs a Slurm allocation", "use --launcher mpirun with --local")
    return local.allocation(os.environ), Site("local", "local")


def _why_none(spec: JobSpec) -> str:
    """Return the reason that mnrun gets no allocation."""
    return "" if spec.resources.alloc else f", and --no-alloc forbids one ({spec.origins['alloc']})"


def current_or_none(spec: JobSpec) -> tuple[Allocation | None, Site]:
    """Return the nodes of this process, or None with the site's facts: a plan can do without nodes."""
    if not could_be_allocated(spec):
        return current(spec)
    site = at_hand(os.environ).site(os.environ)
    at_hand(os.environ).refuse(spec, site)
    return None, site


def allocated(spec: JobSpec, screen: Screen) -> AbstractContextManager[Granted]:
    """Return a context that holds an allocation for the job, which ends with the code that it is given.

    Raises LaunchError.
    """
    scheduler = at_hand(os.environ)
    screen.say(f"no {scheduler.TITLE} allocation here; mnrun gets one: {request(spec)}")
    return scheduler.allocated(spec, OF_ALLOCATIONS, os.environ, screen)
