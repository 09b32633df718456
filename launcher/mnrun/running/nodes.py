"""Return the nodes of a job: those of the surrounding scheduler's job, named hosts, or this machine."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from mnrun import environment, nodeset
from mnrun.config.options import OPTIONS
from mnrun.errors import Impossible, UsageError
from mnrun.facts import Fact, by_node, parse
from mnrun.jobspec import JobSpec
from mnrun.model import Allocation, Site, Words
from mnrun.planning import starters
from mnrun.record import Record
from mnrun.schedulers import BATCH, SCHEDULERS, BatchScheduler, local
from mnrun.schedulers.vocabulary import Granted, StepTask, number
from mnrun.system import commands, terminal
from mnrun.system.process import PROBE
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.reach.transport import Transport
    from mnrun.running.request import Request

# The options of an allocation that mnrun gets. They have no effect on a job that has its nodes already.
OF_ALLOCATIONS = tuple(option.name for option in OPTIONS if option.batch and "shell" in option.verbs)
VERBS = ("run", "shell", "submit", "check")  # the verbs that take the size of a job


class Held(Record):
    """A job on its nodes."""

    spec: JobSpec
    allocation: Allocation | None  # None for a plan without nodes
    site: Site
    environ: Mapping[str, str]
    transport: Transport | None = None  # reaches the nodes, if a scheduler's client does not
    around: Callable[[], bool] = lambda: True  # whether the job beside whose ranks it runs goes on

    @property
    def names(self) -> Words:
        """Return the names of the nodes."""
        return tuple(node.name for node in self.allocation.nodes) if self.allocation else ()

    def ask(self, names: Words, words: Words) -> dict[str, list[Fact]]:
        """Return node -> the facts in its answer to a short command. Raises LaunchError."""
        if self.transport is None:
            assert self.allocation is not None
            scheduler = SCHEDULERS[self.site.scheduler]
            return by_node(parse(scheduler.on_each(self.allocation, names, words, self.environ)))
        from mnrun.running import hosts

        answers = self.transport.ask(words, only=names, seconds=PROBE)
        hosts.refuse_silent(answers)
        return {node: parse(answer.out) for node, answer in answers.items()}


@contextmanager
def held(request: Request, screen: Screen, look: bool = False) -> Iterator[Held]:
    """Yield the job on its nodes. To `look` changes nothing on hosts, and there may be no nodes yet."""
    if request.spec.hosts.names:
        from mnrun.running import hosts

        scheduler = request.scheduler
        with hosts.connected(request.spec, request.environ, screen, look, request.beside) as found:
            if (
                not look
                and request.spec.scheduler == "auto"
                and not request.beside
                and scheduler.is_here(found.environ)
            ):
                names = nodeset.fold(found.names)
                screen.say(f"{names} by ssh, without a {scheduler.TITLE} job; -w {names} gets one")
            yield found
    elif look and could_be_allocated(request):
        site = request.scheduler.site(request.environ)
        request.scheduler.refuse(request.spec, site)
        yield Held(request.spec, None, site, request.environ)
    else:
        yield current(request)


def refuse_copies(given: Mapping[str, object], scheduler: BatchScheduler, environ: Mapping[str, str]) -> None:
    """Raise UsageError in the first of several tasks of a step, or ranks of an mpirun, and SystemExit in the others:
    each would run the whole job.

    Of `srun --pty mnrun`, the first task has the terminal and runs the job, and the others end well. The others of an
    mpirun do, too: at the first failure it would drop the words of the first one."""
    task = scheduler.step(environ)
    rank = _rank(environ, task.tasks)
    by_mpirun = rank.tasks > 1
    starter, task = ("mpirun", rank) if by_mpirun else (scheduler.STARTER, task)
    if task.tasks == 1 or (terminal.controls() and not by_mpirun):
        return
    if task.number:
        well = by_mpirun or (task.prompt and terminal.is_device())
        raise SystemExit(0 if well else UsageError.code)
    size = [] if given.get("nodes") or not task.nodes else ["-N", str(task.nodes)]
    if task.tasks != task.nodes and not given.get("ntasks") and not given.get("ntasks_per_node"):
        size += ["-n", str(task.tasks)]
    words = environment.masked(sys.argv[1:])
    verb = words[:1] if words[:1] and words[0] in VERBS else []
    line = shlex.join(["mnrun", *verb, *size, *words[len(verb) :]])
    raise UsageError(
        f"{starter} has started mnrun {task.tasks} times", f"leave out {starter}: mnrun starts the ranks: {line}"
    )


def _rank(environ: Mapping[str, str], tasks: int) -> StepTask:
    """Return which rank of an mpirun this process is, by the variables of Open MPI, or of Hydra, the starter of MPICH
    and Intel MPI. A step of so many tasks may have Hydra's for its own. A rank of mnrun's may start mnrun itself."""
    sizes = {"OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK", "PMI_SIZE": "PMI_RANK"}
    found = [name for name in sizes if environ.get(name, "").isdecimal()]
    if not found or "MNRUN_JOB_ID" in environ or (found[0] == "PMI_SIZE" and number(environ["PMI_SIZE"]) == tasks):
        return StepTask()
    return StepTask(number(environ.get(sizes[found[0]], "")), number(environ[found[0]]), 0)


def refuse_reach(spec: JobSpec, scheduler: BatchScheduler) -> None:
    """Raise Impossible if the scheduler has no such way to its nodes."""
    title, reaches = scheduler.TITLE, scheduler.REACHES
    if spec.hosts.local or spec.hosts.names:
        title, reaches = local.TITLE if spec.hosts.local else "--hosts", ()
    if spec.way.word not in ("auto", *reaches):
        problem = f"--reach {spec.start.reach} ({spec.origins['reach']}): {title} has no such way to its nodes"
        raise Impossible(problem, f"use --reach {' or '.join(reaches)}" if reaches else "leave it out")


def could_be_allocated(request: Request) -> bool:
    """Return whether the job needs nodes that the scheduler can give, and has none."""
    hosts, scheduler = request.spec.hosts, request.scheduler
    return not hosts.local and not hosts.names and not request.in_job and scheduler.is_here(request.environ)


def allocates(request: Request) -> bool:
    """Return whether mnrun gets an allocation for the job. A call in a batch script never does."""
    return could_be_allocated(request) and request.spec.resources.alloc and not request.spec.as_given


def asking(request: Request) -> str:
    """Return the line that gets an allocation for the job, or "" where this process cannot hold one."""
    return shlex.join(request.scheduler.request(request.spec, OF_ALLOCATIONS))


def ask_ahead(request: Request) -> None:
    """Start what `current` will ask the scheduler. It answers while Python imports what a launch needs."""
    hosts = request.spec.hosts
    if request.in_job and not hosts.local and not hosts.names:
        for words in request.scheduler.questions(request.environ):
            commands.begin(words, request.environ)


def current(request: Request) -> Held:
    """Return the nodes of this process. This machine counts only without a scheduler, or with --local."""
    spec, scheduler, environ = request.spec, request.scheduler, request.environ
    if not spec.hosts.local and request.in_job:
        allocation, site = scheduler.current(environ)
        scheduler.refuse(spec, site)
        return Held(spec, allocation, site, environ, scheduler.reach(allocation, spec.way))
    if could_be_allocated(request):
        if not (prefix := asking(request)):
            raise UsageError(f"there is no {scheduler.TITLE} job here{_why_none(request)}", "use mnrun submit")
        line = f"{prefix} {shlex.join(['mnrun', *environment.masked(sys.argv[1:])])}"
        raise UsageError(
            f"there is no {scheduler.TITLE} allocation here{_why_none(request)}",
            "get one with",
            f"    {line}",
            "or run on this machine alone with --local",
        )
    if spec.scheduler in BATCH and not spec.hosts.local:
        problem = f"--scheduler {spec.scheduler} ({spec.origins['scheduler']}), but there is no {scheduler.TITLE} here"
        raise UsageError(problem, f"go where {scheduler.SUBMIT} is on PATH, or run on this machine alone with --local")
    if title := starters.OF_SCHEDULERS.get(spec.start.launcher):
        problem = f"--launcher {spec.start.launcher} needs a {title} allocation"
        raise UsageError(problem, "use --launcher mpirun with --local")
    return Held(spec, local.allocation(environ), Site("local", "local"), environ)


def _why_none(request: Request) -> str:
    spec = request.spec
    return "" if spec.resources.alloc else f", and --no-alloc forbids one ({spec.origins['alloc']})"


def allocated(request: Request, screen: Screen) -> AbstractContextManager[Granted]:
    """Hold an allocation for the job, which ends with the code that it is given. Raises LaunchError."""
    if line := asking(request):
        screen.say(f"no {request.scheduler.TITLE} allocation here; mnrun gets one: {line}")
    return request.scheduler.allocated(request.spec, OF_ALLOCATIONS, request.environ, screen)
