"""This machine, as a node of a job of its own: the one user of psutil."""

from __future__ import annotations

import platform
from pathlib import Path

from .model import Allocation
from .schedulers import local


def here() -> Allocation:
    """This machine as an allocation: the CPUs that this process may use, the GPUs that there are."""
    import psutil

    cpus = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else psutil.cpu_count()
    gpus = Path("/proc/driver/nvidia/gpus")
    return local.allocation(platform.node(), cpus or 1, len(list(gpus.iterdir())) if gpus.is_dir() else 0)
