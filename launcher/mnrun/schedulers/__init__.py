"""The schedulers: each tells which nodes the job holds, and how a step gets to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mnrun.model import Plan, Site, Variable, Where, Words
from mnrun.schedulers import local
from mnrun.schedulers.hosts import names
from mnrun.schedulers.slurm import steps


class Scheduler(Protocol):
    """The functions that a plan and a launch need from a scheduler's module."""

    def reach(self, where: Where, plan: Plan, site: Site) -> Words:
        """Return the words in front of a step's own. `{node}` in them means each node."""

    def launch_environment(self, plan: Plan, site: Site) -> tuple[Variable, ...]:
        """Return the variables that the host's mpirun must see."""

    def client_environment(self, environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
        """Return the environment of the programs that start the steps, such as srun."""


SCHEDULERS: dict[str, Scheduler] = {"slurm": steps, "hosts": names, "local": local}
