"""Faults in each phase of a launch: the exit code, the message, and nothing left, by a checker that knows no mnrun.

tests/faults has the table of the cells and the engine. `scripts/test --full faults` runs all of them, and writes the
table of docs/reliability.md. A plain run takes one cell for each phase.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import pytest

from faults import record
from faults.engine import HOSTS, play
from faults.table import FAULTS, LIVE, Cell, cells

from .cells import INSIDE, MPIRUN, full, some
from .conftest import NAME, given_or_up
from .reports import mine
from .stage import Cluster

pytestmark = pytest.mark.xdist_group("faults")

TURNS = [
    Cell("SIGTERM", "prepare", "pipe", "slurm"),
    Cell("scancel", "serve", "ssh", "slurm"),
    Cell("SIGKILL of a guard", "await", "pipe", "hosts"),
    Cell("SIGKILL of guard and undertaker", "run", "outside", "slurm"),
    Cell("SIGKILL of mnrun", "stop", "outside", "hosts"),
]


@pytest.fixture(scope="session")
def grouped() -> Iterator[Cluster]:
    with given_or_up("MNRUN_TEST_CGROUP_CLUSTER", f"{NAME}-cgf", 2, "--cgroup", "--impatient") as ours:
        yield ours


@functools.cache
def warm(name: str) -> None:
    """Launch once in each mode, so that what mnrun keeps for the next launch is there before the first picture."""
    for way, place in itertools.product((INSIDE, MPIRUN), (["salloc", "-Q", "-N2", "-n4", "mnrun"], ["mnrun", *HOSTS])):
        done = Cluster(name).alice([*place, *way.words, "--", "true"])
        assert done.code == 0, done
    failed = Cluster(name).alice(["salloc", "-Q", "-N1", "mnrun", "--runtime", "host", "--", "false"])
    assert failed.code == 1, failed  # its reason is kept


@pytest.mark.parametrize("cell", some([cell for cell in cells() if cell.place in LIVE], TURNS), ids=str)
def test_fault(request: pytest.FixtureRequest, cell: Cell) -> None:
    cluster: Cluster = request.getfixturevalue("grouped" if cell.place == "cgroup" else "cluster")
    warm(cluster.name)
    judge(cluster, cell)


def judge(cluster: Cluster, cell: Cell) -> None:
    """Play a cell. With --full, keep its result for the table."""
    try:
        played = play(cluster, cell)
    except AssertionError as error:  # it did not reach its phase, or never ended
        if full():
            record.keep(str(cell), [" ".join(str(error).split())[:300]])
        cluster.wipe()
        raise
    wrong = played.wrong(FAULTS[cell.fault], cell.phase, cell.place)
    if full():
        said = "".join(mine(played.result)[-1:])
        record.keep(str(cell), wrong, played.result.code, played.ended, played.took, said)
    assert not wrong, "\n".join([*wrong, str(played.result)])
