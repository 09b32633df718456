"""This one machine, with no scheduler: a step is simply started."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from mnrun import environment
from mnrun.model import Allocation, Node, Plan, Site, Variable, Where, Words


def allocation() -> Allocation:
    """Return this machine as an allocation: the CPUs that this process may use, the GPUs that there are."""
    import psutil

    cpus = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else psutil.cpu_count()
    gpus = Path("/proc/driver/nvidia/gpus")
    node = Node(platform.node(), cpus or 1, len(list(gpus.iterdir())) if gpus.is_dir() else 0)
    return Allocation("local", "local", (node,))


def reach(where: Where, plan: Plan, site: Site) -> Words:
    return ()


def launch_environment(plan: Plan, site: Site) -> tuple[Variable, ...]:
    return ()


def client_environment(environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
    """Without the surrounding step's, or job's, word on which node and task this is."""
    others = ("SLURMD_NODENAME", "SLURM_LOCALID", *environment.OF_HOSTS)
    return {name: value for name, value in environ.items() if name not in others}
