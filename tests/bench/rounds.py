"""Run the ways in turns on a rehearsal cluster, and return their costs as the JSON file has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from rehearsal.cluster import ask
from rehearsal.errors import ClusterError
from rehearsal.model import LOGIN, Cluster

from .meter import Meter
from .ways import Size, Way

IDLE = 3.0  # seconds for which the cluster is watched while nothing runs
PLACES = {"job": LOGIN, "login": LOGIN}  # where a command is typed, if not on the first node

Say = Callable[[str], None]


def measure(meter: Meter, size: Size, ways: Sequence[Way], runs: int, say: Say) -> dict[str, Any]:
    """Return the costs of `runs` rounds of these ways at one size. One more round before them warms the caches.

    Each round has every way once, and every other round goes backwards.
    """
    taken: dict[str, list[dict[str, float]]] = {way.name: [] for way in ways}
    in_job = any(way.place == "job" for way in ways)
    with ExitStack() as held:
        environ = held.enter_context(allocated(meter.cluster, size)) if in_job else []
        idle = meter.idle(IDLE)
        for number in range(runs + 1):
            for way in ways[:: 1 if number % 2 else -1]:
                cost = _run(meter, size, way, environ)
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


def _run(meter: Meter, size: Size, way: Way, environ: Sequence[str]) -> dict[str, float]:
    """Return the cost of one run. A run that did not do its work ends everything."""
    node = PLACES.get(way.place) or meter.cluster.options().compute[0]
    done = meter.run(node, way.words, environ if way.place == "job" else ())
    text = as_alice(meter.cluster, "cat", way.output) if way.output and done.code == 0 else done.text
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


def as_alice(cluster: Cluster, *words: str) -> str:
    return ask(cluster, LOGIN, "runuser", "-u", "alice", "--", *words)
