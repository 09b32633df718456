"""Define the interface of a scheduler: the nodes of the job, the commands of its steps, and batch scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mnrun.jobspec import JobSpec, Variable
from mnrun.model import Allocation, Command, Fault, Layout, Plan, Site, Step, Words
from mnrun.schedulers import hosts, local, slurm
from mnrun.schedulers.model import BatchStart, Beside, Granted, StepTask, Trace
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.schedulers.queue import PartitionNode, Queue


class Scheduler(Protocol):
    """A scheduler as every launch needs it: the command of a step, and the state of the job."""

    CLIENT: bool  # a client of its own starts each step, which may die with mnrun, and has errors of its own (srun)
    SIGNALS: bool  # its signals reach every process of a step, so that the guards receive them
    LIMITS: bool  # a job has the resource limits of the shell that submitted it
    NUMBERS: bool  # people know a job by its number
    ENDS: str  # the end of what runs on a node that does not answer

    def command(self, step: Step, plan: Plan, site: Site) -> Command:
        """Return the step's words with those of the scheduler's client in front, or with the nodes to start them on."""

    def launch_environment(self, plan: Plan, site: Site) -> tuple[Variable, ...]:
        """Return the variables that the host's mpirun must see."""

    def client_environment(self, environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
        """Return the environment of the programs that start the steps, such as srun."""

    def name(self, environ: Mapping[str, str]) -> str:
        """Return the name of the cluster."""

    def on_each(
        self, allocation: Allocation, names: Sequence[str], words: Sequence[str], environ: Mapping[str, str]
    ) -> str:
        """Return the output of a short command on these nodes. Raises SchedulerError."""

    def beside(self, place: Beside, words: Words) -> list[Command]:
        """Return the commands that run `words` once on each of these nodes of a running job, beside its ranks."""

    def why_down(self, names: Sequence[str]) -> dict[str, str]:
        """Return node -> state, for the nodes that are not well."""

    def started_anew(self, names: Sequence[str], since: float, environ: Mapping[str, str]) -> dict[str, str]:
        """Return node -> the time of its start, for the nodes that were started anew since that time."""

    def runs(self, job: str) -> bool:
        """Return whether the job goes on, or its state is unknown."""

    def preempted(self, job: str) -> bool:
        """Return whether the job is in its time of grace before another one takes its nodes."""

    def ending(self, site: Site) -> str:
        """Return how the job ends: CANCELLED, TIMEOUT, NODE_FAIL, PREEMPTED, REQUEUED, or "" if that is unknown."""

    def time_limit(self, job: str) -> str:
        """Return the job's time limit in the scheduler's words, or "" if it is unknown."""

    def end(self, job: str) -> None:
        """End a job or a step."""


class BatchScheduler(Scheduler, Protocol):
    """A scheduler that also grants nodes and takes batch scripts."""

    TITLE: str  # its name, as people write it
    SUBMIT: str  # the program that takes batch scripts
    TEMPLATE: str  # the template of its batch scripts, in sbatch_templates/

    def is_here(self) -> bool:
        """Return whether this machine can hand jobs in to it."""

    def job(self, environ: Mapping[str, str]) -> str:
        """Return the id of the job that this process is in, or ""."""

    # In a job

    def current(self, environ: Mapping[str, str]) -> tuple[Allocation, Site]:
        """Return the nodes of the job that this process is in, and its site. Raises SchedulerError."""

    def start(self, environ: Mapping[str, str]) -> BatchStart:
        """Return this start of the job. Each value that the environment lacks is "" or 0."""

    def copying(self, source: str, target: str, step: str) -> Words:
        """Return the command that copies a file of this machine to each node of a running step, in place of any file
        there."""

    def step(self, environ: Mapping[str, str]) -> StepTask:
        """Return the task of a step that this process is. Outside of steps, it is the only task."""

    def settings(self, environ: Mapping[str, str]) -> Mapping[str, tuple[int, str]]:
        """Return option -> (value, its origin) of the job's request, as far as its ranks depend on it."""

    def partition(self, environ: Mapping[str, str]) -> str:
        """Return the partition of the job that this process is in, or ""."""

    def trace(self, job: str) -> Trace | None:
        """Return what the scheduler still knows of a job, or None if that is nothing."""

    # Before there is a job

    def site(self, environ: Mapping[str, str]) -> Site:
        """Return this site, for a plan without nodes. Raises SchedulerError."""

    def with_gpus(self, site: Site, spec: JobSpec, layout: Layout) -> Site:
        """Return the site of a plan without nodes, with the GPUs of each node. Raises Impossible."""

    def refuse(self, spec: JobSpec, site: Site) -> None:
        """Raise Impossible if the job asks for something that its steps cannot have at this site."""

    def request(self, spec: JobSpec, options: Sequence[str]) -> Words:
        """Return the command that gets an allocation for the job. `options` are those of `mnrun shell` that only an
        allocation has use for, by their names in the JobSpec."""

    def allocated(
        self, spec: JobSpec, options: Sequence[str], environ: Mapping[str, str], screen: Screen
    ) -> AbstractContextManager[Granted]:
        """Return a context that holds such an allocation, which ends with the code that it is given.

        Raises LaunchError.
        """

    # Batch scripts and their jobs

    def directives(self, spec: JobSpec, layout: Layout) -> list[tuple[str, str]]:
        """Return (line of the script, origin) for each option of the job."""

    def output(self, spec: JobSpec) -> str:
        """Return the pattern of the file of the job's output."""

    def submit(self, script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
        """Hand in the text of a batch script. Return the job's id, and further messages. Raises LaunchError."""

    def doubts(
        self, spec: JobSpec, nodes: Callable[[], Sequence[PartitionNode]], environ: Mapping[str, str] = {}
    ) -> list[Fault]:
        """Return faults of the request: more nodes, or more time, than the nodes of the queue allow, or variables that
        a batch job will lack. `environ` is that of a request for an allocation, and {} of a batch job."""

    def user_queue(self, environ: Mapping[str, str], home: Path, poll: float) -> Queue:
        """Return the queue, as this user may read it. `poll` is the least time between two questions, in seconds."""


BATCH: dict[str, BatchScheduler] = {"slurm": slurm}
SCHEDULERS: dict[str, Scheduler] = {**BATCH, "hosts": hosts, "local": local}


def lost(scheduler: Scheduler, names: Sequence[str], since: float, environ: Mapping[str, str]) -> dict[str, str]:
    """Return node -> a few words, for the nodes that are not well, or were started anew since that time."""
    down = {node: f"Slurm says {state}" for node, state in scheduler.why_down(names).items()}
    anew = scheduler.started_anew(names, since, environ)
    return {**down, **{node: f"started anew at {time}" for node, time in anew.items()}}


def at_hand(environ: Mapping[str, str]) -> BatchScheduler:
    """Return the scheduler whose job this process is in, else the scheduler of this machine, else the first one.

    The first one writes scripts where no scheduler is, and says what is missing here.
    """
    around = (scheduler for scheduler in BATCH.values() if scheduler.job(environ))
    on_machine = (scheduler for scheduler in BATCH.values() if scheduler.is_here())
    return next(around, None) or next(on_machine, None) or next(iter(BATCH.values()))
