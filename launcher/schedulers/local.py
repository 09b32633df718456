"""This one machine, with no scheduler: a step is simply started."""

from __future__ import annotations

from collections.abc import Mapping

from .. import environment
from ..model import Allocation, Node, Plan, Site, Variable, Where, Words


def allocation(host: str, cpus: int, gpus: int) -> Allocation:
    return Allocation("local", "local", (Node(host, cpus, gpus),))


def reach(where: Where, plan: Plan, site: Site) -> Words:
    return ()


def launch_environment(plan: Plan, site: Site) -> tuple[Variable, ...]:
    return ()


def client_environment(environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
    """Without the surrounding step's, or job's, word on which node and task this is."""
    others = ("SLURMD_NODENAME", "SLURM_LOCALID", *environment.OF_HOSTS)
    return {name: value for name, value in environ.items() if name not in others}
