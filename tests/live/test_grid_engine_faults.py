"""Faults under Grid Engine: its column in the table of faults, signals that warn, two users at once, and refusals."""

from __future__ import annotations

import json

import pytest

from faults import engine
from faults.acts import suspended
from faults.scene import Scene
from faults.table import Cell, cells

from .batch import SHAPE, forget, output, submit
from .cells import INSIDE, MPIRUN, Way, some
from .grid import cluster as cluster
from .stage import LOGIN, Cluster, Desk, wait_for
from .test_faults import judge

pytestmark = pytest.mark.xdist_group("grid-engine")
TURNS = [
    Cell("qdel", "run", "outside", "sge"),
    Cell("SIGKILL of a qrsh", "run", "pipe", "sge"),
    Cell("SIGKILL of mnrun", "run", "outside", "sge"),
    Cell("sge_execd of a worker restarted", "run", "pipe", "sge"),
]
# Every other rank catches the signals that warn.
CATCHER = """
import os, signal, time
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
def say(word):
    os.write(1, f"{word} {rank}\\n".encode())  # in one piece
for number in (signal.SIGUSR1, signal.SIGUSR2) if rank % 2 == 0 else ():
    signal.signal(number, lambda number, _: say(number))
say("up")
while not os.path.exists("again"):
    time.sleep(0.1)
say("again")
time.sleep(600)
"""


@pytest.mark.parametrize("cell", some([cell for cell in cells() if cell.place == "sge"], TURNS), ids=str)
def test_fault(cluster: Cluster, cell: Cell) -> None:
    engine.warm(cluster.name)
    judge(cluster, cell)


@pytest.mark.parametrize("way", [INSIDE, MPIRUN], ids=str)
def test_a_warning_is_for_ranks_that_catch_it(cluster: Cluster, desk: Desk, way: Way) -> None:
    """USR1 comes before a suspension, and USR2 before the end. Other ranks and mnrun's helpers go on."""
    desk.put("catcher.py", CATCHER)
    job = submit(cluster, desk, *SHAPE, *way.words, "--", "python3", "catcher.py")

    def said(words: str, ranks: int) -> None:
        lines = [f"{words} {rank}" for rank in range(0, 4, 4 // ranks)]
        wait_for(lambda: set(lines) <= set(output(desk, job).splitlines()), words, state=lambda: output(desk, job))

    said("up", 4)
    suspended(Scene(cluster))
    said("10", 2)
    desk.put("again", "")
    said("again", 4)
    cluster.root(LOGIN, "qdel", job)
    said("12", 2)
    assert cluster.alice(["mnrun", "wait", job]).code == 143
    forget(cluster)


def test_60_jobs_of_two_users_at_once(cluster: Cluster) -> None:
    """Each has its own code, and nothing is left of any."""
    shape = ["-N", "2", "--ntasks-per-node", "1", "--array", "0-29", "-o", "/dev/null", "--runtime", "host"]
    words = ["mnrun", "submit", "-Q", *shape, "--launcher", "env", "--", "sh", "-c", "exit $((SGE_TASK_ID % 4))"]
    jobs = {user: cluster.alice(words, user=user, cwd=f"/home/{user}").out.strip() for user in ("alice", "bob")}
    for user, job in jobs.items():
        assert cluster.alice(["mnrun", "wait", job], user=user).code == 3
        told = json.loads(cluster.alice(["mnrun", "status", "--json", job], user=user).out)["jobs"]
        assert {one["id"]: one["code"] for one in told} == {f"{job}_{task}": task % 4 for task in range(30)}
        cluster.root(LOGIN, "rm", "-rf", f"/home/{user}/.mnrun")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ntasks-per-node=3",), "loose (3, control_slaves FALSE)"),
        (
            ("--ntasks-per-node=4", "-p", "few.q"),
            "no PE of few.q gives 4 slots on each of 2 nodes: mpi-2 (2); an admin",
        ),
        (("--ntasks-per-node=2", "--profile=nope"), "no PE nope (the profile's) gives"),
    ],
)
def test_without_a_pe_a_job_is_refused_with_a_line_for_the_admin(
    cluster: Cluster, site: str, words: tuple[str, ...], says: str
) -> None:
    cluster.put(f"{site}/profiles/nope.toml", '[sge]\npe = "nope"\n', uid=0)
    done = cluster.alice(["mnrun", "submit", "-N2", *words, *INSIDE.words, "--", "true"])
    assert done.code == 122 and says in done.err and "qconf -ap mpi-" in done.err, done


def test_a_script_whose_pe_lets_it_start_nothing_elsewhere(cluster: Cluster, desk: Desk) -> None:
    text = "#$ -S /bin/bash -cwd -notify -pe loose 6 -j y -o out\nmnrun --runtime host -- true\n"
    done = cluster.alice(["qsub", "-sync", "y", desk.put("own.sh", text)], cwd=desk.path)
    said = desk.read("out").decode()
    assert done.code == 122 and "qconf -mp loose" in said, said
    forget(cluster)
