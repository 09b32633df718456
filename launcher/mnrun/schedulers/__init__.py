"""The schedulers: each tells which nodes the job holds, and how a step gets to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mnrun.jobspec import Variable
from mnrun.model import Allocation, Plan, Site, Where, Words
from mnrun.schedulers import local, unwatched
from mnrun.schedulers.hosts import names
from mnrun.schedulers.slurm import cluster, steps


class Scheduler(Protocol):
    """The words of a step, and the traits of a scheduler that shape a launch."""

    CLIENT: bool  # a client of its own starts each step, which may die with mnrun, and has errors of its own (srun)
    SIGNALS: bool  # its signals reach every process of a step, so that the guards receive them
    LIMITS: bool  # a job has the resource limits of the shell that submitted it
    NUMBERS: bool  # people know a job by its number

    def reach(self, where: Where, plan: Plan, site: Site) -> Words:
        """Return the words in front of a step's own. `{node}` in them means each node."""

    def launch_environment(self, plan: Plan, site: Site) -> tuple[Variable, ...]:
        """Return the variables that the host's mpirun must see."""

    def client_environment(self, environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
        """Return the environment of the programs that start the steps, such as srun."""


class Watch(Protocol):
    """The word of a scheduler on one of its jobs."""

    ENDS: str  # the end of what runs on a node that does not answer

    def name(self, environ: Mapping[str, str]) -> str:
        """Return the name of the cluster."""

    def on_each(
        self, allocation: Allocation, names: Sequence[str], words: Sequence[str], environ: Mapping[str, str]
    ) -> str:
        """Return the output of a short command on these nodes. Raises SchedulerError."""

    def why_down(self, names: Sequence[str]) -> dict[str, str]:
        """Return node -> state, for the nodes that are not well."""

    def runs(self, job: str) -> bool:
        """Return whether the job goes on, or its state is unknown."""

    def preempted(self, job: str) -> bool:
        """Return whether the job is in its time of grace before another one takes its nodes."""

    def ending(self, site: Site) -> str:
        """Return how the job ends: CANCELLED, TIMEOUT, NODE_FAIL, PREEMPTED, REQUEUED, or "" if that is unknown."""

    def end(self, job: str) -> None:
        """End a job or a step."""


SCHEDULERS: dict[str, Scheduler] = {"slurm": steps, "hosts": names, "local": local}
WATCHES: dict[str, Watch] = {"slurm": cluster, "hosts": unwatched, "local": unwatched}
