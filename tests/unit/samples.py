"""Jobs, layouts and plans for the tests, as short as a test wants to say them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mnrun.config import layers
from mnrun.model import Allocation, JobSpec, Layout, Node, Plan, Site
from mnrun.planning import plan, spec

RECORDED = Path(__file__).parent / "recorded"
SITE = Site("slurm", "7", (24, 11))


def recorded(name: str) -> tuple[str, dict[str, str]]:
    """What a real Slurm said of a job, and the variables that were set in it.

    `scripts/cluster exec -u alice login salloc … sh -c 'scontrol show job -d -o $SLURM_JOB_ID;
    echo ---; env | grep -E "^(SLURM|OMPI|PRTE|HYDRA|I_MPI)" | sort'`
    """
    said, _, variables = (RECORDED / f"{name}.txt").read_text().partition("---\n")
    return said, dict(line.split("=", 1) for line in variables.splitlines())


def build(
    *command: str,
    environ: Mapping[str, str] = {},  # read only
    env_files: Mapping[str, str] = {},
    shell: str = "",
    **given: object,
) -> JobSpec:
    """The job of these options (by their keys) and this command, given by alice in her project."""
    words = {"image": "app.sif", **given}
    merged = layers.merge(layers.builtin(), layers.from_command_line(words))
    return spec.build(merged, command, spec.Surroundings("/home/alice/run", "/home/alice", environ, env_files), shell)


def held(*nodes: str, cpus: int = 8, gpus: int = 0, ntasks: int | None = None, each: int | None = None) -> Allocation:
    """Slurm job 7 with these nodes, all alike."""
    return Allocation("slurm", "7", tuple(Node(name, cpus, gpus) for name in nodes), ntasks, each)


def make(job: JobSpec, *ranks: int) -> Plan:
    """The plan of a job with so many ranks on node01, node02, …"""
    names = tuple(f"node{number:02}" for number in range(1, len(ranks) + 1))
    return plan.make(job, Layout(names, ranks, "asked", "all"), "7-abcdef")
