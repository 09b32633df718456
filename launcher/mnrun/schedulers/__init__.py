"""The schedulers: which nodes we hold, and how a step gets to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mnrun.model import Plan, Site, Variable, Where, Words
from mnrun.schedulers import local
from mnrun.schedulers.hosts import names
from mnrun.schedulers.slurm import steps


class Scheduler(Protocol):
    """What a plan and a launch ask of a scheduler's module."""

    def reach(self, where: Where, plan: Plan, site: Site) -> Words:
        """Return what stands in front of a step's words; `{node}` in it means each node."""

    def launch_environment(self, plan: Plan, site: Site) -> tuple[Variable, ...]:
        """Return what the host's mpirun must see."""

    def client_environment(self, environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
        """Return the environment of the steps' own clients."""


SCHEDULERS: dict[str, Scheduler] = {"slurm": steps, "hosts": names, "local": local}
