"""Runtimes, modes, places, images and connects against each other: each cell is a real job, and one that is killed.

The table in docs/testing.md is made of these tests' names (matrix.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from .cells import HELLO, MADE, RUNTIMES, Way, cells, full, some
from .reports import check, refusal
from .stage import Cluster
from .test_ends import act, clean_soon, start

AXES = {
    "runtime": RUNTIMES,
    "begun": ("inside", "mpirun", "srun"),
    "place": ("slurm", "ssh", "paramiko"),
    "image": ("ompi5", "ompi4"),
    "connect": ("ssh", "pipe", "none"),
}


def works(runtime: str, begun: str, place: str, image: str, connect: str) -> bool:
    """srun is Slurm's own; only inside-out connects."""
    if (begun == "srun" and place != "slurm") or (connect == "none") == (begun == "inside"):
        return False
    if (runtime, image) == ("host", "ompi4"):
        return False
    # a plain run of the tests: MPI 4 where its image is there anyway, places by turn, and the usual connection
    turn = AXES["runtime"].index(runtime) + AXES["begun"].index(begun)
    by_turn = begun == "srun" or place == AXES["place"][turn % 3]
    return full() or (by_turn and (image == "ompi5") == (runtime in (*MADE, "host")) and connect in ("none", "pipe"))


def line(nodes: Sequence[str], runtime: str, begun: str, place: str, image: str, connect: str) -> list[str]:
    words = ["salloc", "-Q", "-N", str(len(nodes)), "--ntasks-per-node=2", "mnrun"]
    if place != "slurm":
        words = ["mnrun", "--rsh", place, "--hosts", ",".join(f"{node}:2" for node in nodes)]
    way = Way(
        begun, "host" if runtime == "host" else image, runtime="" if runtime in ("apptainer", "host") else runtime
    )
    return [*words, *way.words, *([] if connect == "none" else ["--connect", connect])]


@pytest.mark.parametrize(tuple(AXES), cells(AXES, works))
def test_cell(engines: Cluster, runtime: str, begun: str, place: str, image: str, connect: str) -> None:
    mnrun = line(engines.nodes, runtime, begun, place, image, connect)
    result = engines.alice([*mnrun, "-x", "V=a b", "--", HELLO, "-e", "V", "-x", "7"])
    assert result.code == 7, result
    assert {rank.value for rank in check(replace(result, code=0), *engines.nodes)} == {"a b"}, result
    if begun == "inside" or full():  # test_runtimes.py and test_ends.py kill some of the others in every run
        few = some(engines.nodes, engines.nodes[:2])
        with engines.running([*line(few, runtime, begun, place, image, connect), "--", HELLO, "-s", "3600"]) as job:
            start(engines, job, 2 * len(few))
            act(engines, "SIGKILL", job)
            clean_soon(engines, time.monotonic(), killed=True)
    assert engines.containers() == []


REFUSED = {
    "srun without Slurm": (["--hosts", "node01", "--launcher", "srun", "--mode", "outside-in"], "--launcher mpirun")
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_cell_that_cannot_work(cluster: Cluster, wrong: str) -> None:
    words, instead = REFUSED[wrong]
    refusal(cluster.alice(["mnrun", *words, "--image", "/images/ompi5.sif", "--", HELLO]), 122, instead)
