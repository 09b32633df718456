"""Start steps directly on this machine, without a scheduler."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from mnrun.model import Allocation, Command, Node, Words
from mnrun.schedulers.common import *
from mnrun.schedulers.vocabulary import StepPlace

TITLE = "this machine"
DRIVER = Path("/proc/driver/nvidia")


def allocation(environ: Mapping[str, str]) -> Allocation:
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:  # not on Linux. Its import would take 6 ms
        import psutil

        cpus = psutil.cpu_count() or 1
    return Allocation("local", "local", (Node(platform.node(), cpus, gpus(environ, DRIVER)),))


def gpus(environ: Mapping[str, str], driver: Path) -> int:
    """Return the number of GPUs of this machine's driver that CUDA_VISIBLE_DEVICES leaves over."""
    all_gpus = len(list(driver.glob("gpus/*")))
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not all_gpus:
        return all_gpus
    return len([gpu for gpu in visible.split(",") if gpu not in ("", "-1", "NoDevFiles")])


def beside(place: StepPlace, words: Words) -> list[Command]:
    return [Command(words)]
