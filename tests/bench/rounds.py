"""Run the ways in turns on a rehearsal cluster, and return their costs as the JSON file has them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from rehearsal.cluster import ask
from rehearsal.errors import ClusterError
from rehearsal.model import LOGIN, Cluster

from .meter import Meter
from .ways import Size, Way

IDLE = 3.0  # seconds for which the cluster is watched while nothing runs
PATIENCE = 60.0  # seconds for the begin of a job
_TOLD = "/home/alice/bench.env"
_SCRIPT = f"""\
#$ -S /bin/bash
#$ -cwd -notify -j y -o /dev/null -N bench
env >{_TOLD}.new
mv {_TOLD}.new {_TOLD}
exec sleep infinity
"""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Desk:
    """The node where a command is typed, the counters of its cluster, and the variables of a job."""

    meter: Meter
    node: str
    environ: Sequence[str] = ()


def measure(
    meter: Meter, size: Size, ways: Sequence[Way], runs: int, say: Say, engine: Meter | None = None
) -> dict[str, Any]:
    """Return the costs of `runs` rounds of these ways at one size. One more round before them warms the caches.

    Each round has every way once, and every other round goes backwards. `engine` is the cluster of Grid Engine.
    """
    taken: dict[str, list[dict[str, float]]] = {way.name: [] for way in ways}
    desks = {"login": Desk(meter, LOGIN), "node": Desk(meter, meter.cluster.options().compute[0])}
    with ExitStack() as held:
        if any(way.place == "job" for way in ways):
            desks["job"] = Desk(meter, LOGIN, held.enter_context(allocated(meter.cluster, size)))
        if engine is not None:
            desks["engine"] = Desk(engine, *held.enter_context(in_engine(engine.cluster, size)))
        idle = meter.idle(IDLE)
        for number in range(runs + 1):
            for way in ways[:: 1 if number % 2 else -1]:
                cost = _run(desks[way.place], size, way)
                say(f"{size} {number}/{runs} {way.name}: {json.dumps(cost)}")
                if number:
                    taken[way.name].append(cost)
    return {
        "nodes": size.nodes,
        "ranks": size.ranks,
        "place": "machine" if ways[0].place == "node" else "cluster",
        "idle": {"cpu": round(idle.cpu / IDLE, 4), "forks": round(idle.forks / IDLE, 2)},
        "ways": {name: {part: [cost[part] for cost in costs] for part in costs[0]} for name, costs in taken.items()},
    }


def _run(desk: Desk, size: Size, way: Way) -> dict[str, float]:
    """Return the cost of one run. A run that did not do its work ends everything."""
    done = desk.meter.run(desk.node, way.words, desk.environ)
    text = as_alice(desk.meter.cluster, "cat", way.output) if way.output and done.code == 0 else done.text
    if done.code or (way.ranks and text.count(f" of {size.tasks} on ") != size.tasks):
        raise ClusterError(f"{way.name} failed with {done.code}: {' '.join(way.words)}\n{done.text}\n{text}")
    return asdict(done.cost)


@contextmanager
def allocated(cluster: Cluster, size: Size) -> Iterator[list[str]]:
    """Get an allocation that nobody sits in, and yield the variables of it."""
    shape = (f"-N{size.nodes}", f"--ntasks-per-node={size.ranks}")
    as_alice(cluster, "salloc", "-Q", *shape, "--no-shell", "-J", "bench")
    job, names = as_alice(cluster, "squeue", "-h", "-n", "bench", "-o", "%i %N").split()
    values = {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_NODELIST": names,
        "SLURM_JOB_NODELIST": names,
        "SLURM_NNODES": str(size.nodes),
        "SLURM_NTASKS": str(size.tasks),
        "SLURM_NTASKS_PER_NODE": str(size.ranks),
        "SLURM_TASKS_PER_NODE": f"{size.ranks}(x{size.nodes})",
        # prterun takes its srun for one of the job's own steps, and so keeps SLURM_* (plm_slurm_module.c).
        "PRTE_MCA_plm_slurm_args": "--external-launcher",
    }
    try:
        yield [f"{name}={value}" for name, value in values.items()]
    finally:
        as_alice(cluster, "scancel", job)


@contextmanager
def in_engine(cluster: Cluster, size: Size) -> Iterator[tuple[str, list[str]]]:
    """Hold a job of Grid Engine's that does nothing. Yield its first node, and the variables of its script."""
    asked = f"qsub -terse -pe mpi-{size.ranks} {size.tasks}"
    job = as_alice(cluster, "sh", "-c", f'rm -f {_TOLD}; cd && printf %s "$0" | {asked}', _SCRIPT).strip()
    try:
        deadline = time.monotonic() + PATIENCE
        while not (told := as_alice(cluster, "sh", "-c", f"cat {_TOLD} 2>/dev/null || :")):
            if time.monotonic() > deadline:
                raise ClusterError(f"{cluster.name}: job {job} does not begin within {PATIENCE:.0f} s")
            time.sleep(0.1)
        values = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
        yield values["HOSTNAME"], [f"{name}={value}" for name, value in values.items()]
    finally:
        as_alice(cluster, "sh", "-c", f"qdel {job}; rm -f {_TOLD}")


def as_alice(cluster: Cluster, *words: str) -> str:
    return ask(cluster, LOGIN, "runuser", "-u", "alice", "--", *words)
