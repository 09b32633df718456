"""Faults under PBS, by its stand-in: its column in the table of faults."""

from __future__ import annotations

import pytest

from faults import engine
from faults.table import FAULTS, Cell, cells

from .cells import full, some
from .stage import Cluster, Desk
from .stranger import at_once, found
from .test_faults import judge
from .test_pbs import HEAD, HOST, ended, under_way
from .test_pbs import cluster as cluster
from .test_pbs import forgotten as forgotten

pytestmark = pytest.mark.xdist_group("pbs")
TURNS = [
    Cell("qdel", "run", "pipe", "pbs"),
    Cell("SIGKILL of an ssh to a node", "run", "outside", "pbs"),
]
# Of these, each has an end where the nodes call, too. pbs_tmrsh starts them.
CALLED = ("SIGKILL of mnrun", "SIGKILL of a guard", "SIGKILL of all on a worker", "qdel", "power off, a worker")


@pytest.mark.parametrize("cell", some([cell for cell in cells() if cell.place == "pbs"], TURNS), ids=str)
def test_fault(cluster: Cluster, cell: Cell) -> None:
    engine.warm(cluster.name)
    judge(cluster, cell)


@pytest.mark.skipif(not full(), reason="with --full")
@pytest.mark.parametrize("fault", CALLED)
def test_fault_of_nodes_that_call(cluster: Cluster, fault: str) -> None:
    engine.warm(cluster.name)
    played = engine.play(cluster, Cell(fault, "run", "call", "pbs"))
    assert not played.wrong(FAULTS[fault], "run"), played.result


@pytest.mark.skipif(not full(), reason="with --full")
@pytest.mark.usefixtures("forgotten")
def test_a_killed_pbs_tmrsh(cluster: Cluster, desk: Desk) -> None:
    """PBS ends nothing then (seen, 23.06), and the connection of the node is the lease. So the launch goes on."""
    program = ("sh", "-c", "echo up; until [ -e go ]; do sleep 0.1; done; exit 5")
    with under_way(cluster, desk, "--reach", "call", *HOST, program=program) as job:
        clients = found(cluster, "pbs_tmrsh", node=HEAD)
        assert clients
        at_once(clients)
        desk.put("go", "")
        ended(cluster, job, 5)
