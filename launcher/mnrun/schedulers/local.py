"""Start steps directly on this machine, without a scheduler."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from mnrun import environment
from mnrun.jobspec import Variable
from mnrun.model import Allocation, Command, Node, Plan, Site, Step, Words
from mnrun.schedulers.model import Beside
from mnrun.schedulers.unwatched import (
    ENDS,
    end,
    ending,
    name,
    on_each,
    preempted,
    runs,
    started_anew,
    time_limit,
    why_down,
)

DRIVER = Path("/proc/driver/nvidia")
CLIENT = SIGNALS = LIMITS = NUMBERS = False


def allocation(environ: Mapping[str, str]) -> Allocation:
    """Return this machine as an allocation: the CPUs and the GPUs that this process may use."""
    import psutil

    cpus = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else psutil.cpu_count()
    return Allocation("local", "local", (Node(platform.node(), cpus or 1, gpus(environ, DRIVER)),))


def gpus(environ: Mapping[str, str], driver: Path) -> int:
    """Return the number of GPUs of this machine's driver that CUDA_VISIBLE_DEVICES leaves over."""
    all_gpus = len(list(driver.glob("gpus/*")))
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not all_gpus:
        return all_gpus
    return len([gpu for gpu in visible.split(",") if gpu not in ("", "-1", "NoDevFiles")])


def command(step: Step, plan: Plan, site: Site) -> Command:
    return Command(step.argv)


def beside(place: Beside, words: Words) -> list[Command]:
    return [Command(words)]


def launch_environment(plan: Plan, site: Site) -> tuple[Variable, ...]:
    return ()


def client_environment(environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
    """Return the environment without the variables that name the node and task of a surrounding step or job."""
    others = ("SLURMD_NODENAME", "SLURM_LOCALID", *environment.OF_HOSTS)
    return {name: value for name, value in environ.items() if name not in others}


__all__ = ["CLIENT", "LIMITS", "NUMBERS", "SIGNALS", "allocation", "beside", "client_environment", "command"]
__all__ += ["launch_environment"]
__all__ += ["ENDS", "end", "ending", "name", "on_each", "preempted", "runs", "started_anew", "time_limit", "why_down"]
