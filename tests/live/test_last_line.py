"""The last line about a program that failed: which rank, on which node, how, and why."""

from __future__ import annotations

import re

import pytest

from published import checked

from .batch import forget
from .cells import INSIDE, MPIRUN, OMPI5, SRUN, Way
from .reports import mine
from .stage import Cluster, Desk

# One rank fails. Where all ranks fail at once, Open MPI 5's mpirun leaves out its words about them in one of ten runs.
LACKING = (
    *("sh", "-c"),
    '[ "${OMPI_COMM_WORLD_RANK-${PMIX_RANK-$RANK}}" = 1 ] || exec sleep 600; exec python3 -c "import no_such_module"',
)
CAUSE = "exited with 1: Python in the container has no module no_such_module"
ONE_FAILS = '[ "$PMIX_RANK" != 2 ] || {}; sleep 600'


def who(way: Way) -> str:
    """Who failed, as far as mnrun can know it: srun tells, and Open MPI 5's mpirun is silent in some runs."""
    return r"rank \d on node0\d" if way is SRUN else r"(rank \d on node0\d|the program)"


@pytest.mark.parametrize(
    ("fails", "end"), [("exit 7", "exited with 7"), ("kill -9 $$", "was killed by signal 9 (KILL)")]
)
def test_the_rank_and_its_node(cluster: Cluster, fails: str, end: str) -> None:
    result = cluster.mnrun(*SRUN.words, "--", "sh", "-c", ONE_FAILS.format(fails), nodes=2, tasks=2)
    assert re.fullmatch(rf"rank 2 on node0\d {re.escape(end)}", mine(result)[-1]), result


def test_a_program_that_ends_well(cluster: Cluster, desk: Desk) -> None:
    words = ("-Q", "-o", "out", *SRUN.words, "--", "sh", "-c", "echo 'cp: x: No space left on device'")
    result = cluster.mnrun(*words, nodes=2, cwd=desk.path)
    assert (result.code, mine(result)) == (0, []), result


@pytest.mark.parametrize("way", [INSIDE, MPIRUN, SRUN], ids=str)
def test_the_cause(cluster: Cluster, desk: Desk, way: Way) -> None:
    result = cluster.mnrun("-Q", "-o", "out", *way.words, "--", *LACKING, nodes=2, cwd=desk.path)
    (line,) = mine(result)
    said = desk.read("out").decode()
    assert re.match(rf"{who(way)} {re.escape(CAUSE)}; install it in the image", line), (result, said)
    assert "non-zero status" not in said


def test_the_cause_at_a_terminal(cluster: Cluster) -> None:
    result = cluster.mnrun("-Q", *INSIDE.words, "--", *LACKING, nodes=2)
    assert "ModuleNotFoundError: No module named 'no_such_module'\n" in result.err
    assert re.match(rf"{who(INSIDE)} {re.escape(CAUSE)}", mine(result)[-1]), result


def test_the_cause_in_the_files_of_ranks(cluster: Cluster, desk: Desk) -> None:
    words = ("--image", OMPI5, "--launcher", "env", "--split-output", f"{desk.path}/split")
    result = cluster.mnrun(*words, "--", *LACKING, nodes=2, cwd=desk.path)
    assert CAUSE in mine(result)[-1], result


def test_a_submitted_job(cluster: Cluster, desk: Desk) -> None:
    words = ("submit", "--wait", "-o", "out", "-N2", "--image", OMPI5, "--launcher", "env")
    done = cluster.alice(["mnrun", *words, "--", *LACKING], cwd=desk.path)
    assert done.code == 1, done
    assert CAUSE in desk.read("out").decode().splitlines()[-1]
    (shown,) = checked("status", cluster.alice(["mnrun", "status", "--json", done.out.strip()]).out)["jobs"]
    assert re.fullmatch(rf"rank \d on node0\d {CAUSE}", shown["why"]), shown
    forget(cluster)
