"""Answer for what a system lacks. A package imports what holds for it too, and so has the whole of its protocols.

The first part suits a launch whose job goes on for as long as this process does. The second suits a batch system.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mnrun.environment import OF_HOSTS, Variables
from mnrun.errors import Impossible
from mnrun.jobspec import JobSpec, Variable, Way
from mnrun.messages import Entry
from mnrun.model import Allocation, Command, Fault, Layout, Plan, Site, Step, Unwell, Where, Words
from mnrun.schedulers.vocabulary import (
    ClientLines,
    Foreign,
    Granted,
    JobState,
    Preset,
    StepPlace,
    StepTask,
    Trace,
    number,
)
from mnrun.system import process
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.reach.transport import Transport
    from mnrun.schedulers.queue import PartitionNode

LIMITS = ""
SINGLE = SIGNALS = False
CLIENT_LINES, FOREIGN, VARIABLES = ClientLines(), Foreign(), Variables()
ANCESTORS: tuple[str, ...] = ()
MESSAGES: tuple[Entry, ...] = ()
WARNINGS: tuple[str, ...] = ()
ENDINGS: tuple[str, ...] = ("TERM",)
CODES: Mapping[int, int] = {}
REACHES: tuple[str, ...] = ()
ENDED = "has ended already"
CLIENT = GROUP = JOB_VARIABLE = ON_NODE = PROBE = STARTER = ""
BINARY = COMMENTS = True
ENDS = "its guard ends what is left there, within two minutes if the connection is lost"


def name(environ: Mapping[str, str]) -> str:
    return os.uname().nodename


def reach(allocation: Allocation, way: Way) -> Transport | None:
    return None


def command(step: Step, plan: Plan, site: Site) -> Command:
    nodes = plan.layout.nodes if plan.channels else ()
    return Command(step.argv, nodes[:1] if step.where is Where.HEAD else nodes)


def launch_environment(plan: Plan, site: Site) -> tuple[Variable, ...]:
    return ()


def for_mpirun(plan: Plan) -> dict[str, str]:
    return {}


def client_environment(environ: Mapping[str, str], plan: Plan | None = None) -> Mapping[str, str]:
    """Return the environment without the variables that name the node of a surrounding job."""
    return {name: value for name, value in environ.items() if name not in OF_HOSTS}


def on_each(allocation: Allocation, names: Sequence[str], words: Sequence[str], environ: Mapping[str, str]) -> str:
    return process.ask(tuple(words))


def tunnels(place: StepPlace, port: int, login: tuple[str, str], entrance: Callable[[], str]) -> dict[str, str]:
    (node,), way, (user, machine) = place.nodes, f"ssh -N -L {port}:127.0.0.1:{port}", login
    lines = {"here": f"{way} {node}", "tunnel": f"{way} -J {user}@{machine} {user}@{node}"}
    return {**lines, "or": f"{way} {words}"} if (words := entrance()) else lines


def copying(source: str, target: str, step: str) -> Words:
    return ()


def lost(names: Sequence[str], environ: Mapping[str, str], since: float | None = None) -> dict[str, Unwell]:
    return {}


def runs(job: str, environ: Mapping[str, str]) -> bool:
    return True


def preempted(job: str, environ: Mapping[str, str]) -> bool:
    return False


def ending(site: Site, environ: Mapping[str, str]) -> JobState:
    return JobState.UNKNOWN


def time_limit(job: str, environ: Mapping[str, str]) -> str:
    return ""


def end(job: str, environ: Mapping[str, str]) -> None:
    pass


# A batch system


def questions(environ: Mapping[str, str]) -> tuple[Words, ...]:
    return ()


def step(environ: Mapping[str, str]) -> StepTask:
    return StepTask()


def preset(environ: Mapping[str, str]) -> Preset:
    return Preset()


def of_ranks(plan: Plan) -> tuple[Variable, ...]:
    return ()


SERVED = "MNRUN_FAR_TERMINAL"  # in the environment of a program that is to run itself on a terminal of its own
AFTER = "MNRUN_JOB_AFTER"  # a variable of a job with its dependencies, where its scheduler knows no kinds of ends
CPUS = "MNRUN_JOB_CPUS"  # a variable of a job with the CPUs of each rank, where its scheduler knows slots alone


def settings(environ: Mapping[str, str]) -> Mapping[str, tuple[int, str]]:
    cpus = number(environ.get(CPUS, ""))
    return {"cpus_per_task": (cpus, CPUS)} if cpus else {}


def typed(word: str) -> str:
    return word


def pod(environ: Mapping[str, str]) -> str | None:
    return None


def partition(environ: Mapping[str, str]) -> str:
    return ""


def with_gpus(site: Site, spec: JobSpec, layout: Layout) -> Site:
    return site


def refuse(spec: JobSpec, site: Site) -> None:
    """Raise Impossible if a program of another scheduler is to start the ranks."""
    if spec.start.mode == "outside-in" and spec.start.launcher != "mpirun":
        raise Impossible(f"this scheduler has no {spec.start.launcher}, which starts ranks", "use --launcher mpirun")


def for_ranks(plan: Plan) -> dict[str, str]:
    return {}


def doubts(spec: JobSpec, nodes: Callable[[], Sequence[PartitionNode]], environ: Mapping[str, str] = {}) -> list[Fault]:
    return []


def objects(spec: JobSpec, layout: Layout, line: str, words: Words) -> tuple[JobSpec, str] | None:
    return None


def logs(job: str, following: bool, lines: int | None, environ: Mapping[str, str]) -> Words:
    return ()


def recorded(job: str, file: str, environ: Mapping[str, str]) -> str:
    return ""


def inside(
    job: str, rank: int | None, node: str, words: Words, environ: Mapping[str, str], terminal: bool
) -> Command | None:
    return None


def sweep(environ: Mapping[str, str], dry_run: bool) -> list[str]:
    return []


def trace(job: str) -> Trace | None:
    return None


def request(spec: JobSpec, options: Sequence[str]) -> Words:
    return ()


def allocated(
    spec: JobSpec, options: Sequence[str], environ: Mapping[str, str], screen: Screen
) -> AbstractContextManager[Granted]:
    raise Impossible("this scheduler gives nodes to its own jobs alone", "use this verb in a job")


def interactive(spec: JobSpec, options: Sequence[str], words: Words, environ: Mapping[str, str]) -> Words:
    return ()
