"""What the measurements were made on, and of which commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from pathlib import Path

from rehearsal.cluster import ask
from rehearsal.model import LOGIN, Cluster

TOP = Path(__file__).resolve().parents[2]
VERSIONS = {
    "slurm": ("sinfo", "--version"),
    "openmpi": ("mpirun", "--version"),
    "apptainer": ("apptainer", "--version"),
    "python": ("python3", "--version"),
}


def facts(cluster: Cluster) -> dict[str, str | int]:
    """Return the facts of this machine, and the versions on the cluster's nodes."""
    found = {name: ask(cluster, LOGIN, *words, check=False) for name, words in VERSIONS.items()}
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": _commit(),
        "cores": len(os.sched_getaffinity(0)),
        "processor": model[1] if model else platform.machine(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        **{name: version(text) for name, text in found.items()},
    }


def version(text: str) -> str:
    """Return the first number with a dot in what a program says of its version."""
    match = re.search(r"\d+(\.\d+)+", text)
    return match[0] if match else ""


def _commit() -> str:
    git = ["git", "-C", str(TOP), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
