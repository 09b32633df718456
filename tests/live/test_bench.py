"""scripts/bench counts what a command costs on the nodes, and nothing else."""

from __future__ import annotations

import subprocess

import pytest

from bench.meter import Cost, Meter
from bench.rounds import measure
from bench.ways import Size, chosen, of_cluster, of_user
from rehearsal.errors import ClusterError

from .stage import LOGIN, Cluster


@pytest.fixture
def meter(cluster: Cluster) -> Meter:
    return Meter(cluster.model)


def least(meter: Meter, node: str, text: str) -> Cost:
    """Return the least of three: the daemons of the nodes start programs and threads of their own now and then."""
    costs = [meter.run(node, ["sh", "-c", text]).cost for _ in range(3)]
    return min(costs, key=lambda cost: (cost.login_forks if node == LOGIN else 0, cost.forks))


def test_forks_are_those_of_the_node(meter: Meter) -> None:
    with subprocess.Popen(["sh", "-c", "while :; do /bin/true; done"]) as neighbour:
        try:
            none = least(meter, "node01", ":")
            ten = least(meter, "node01", "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done")
            login = least(meter, LOGIN, "/bin/true; /bin/true; :")
        finally:
            neighbour.kill()
    # One is the command itself.
    assert 1 <= none.forks < 6
    assert 11 <= ten.forks < 16
    assert 3 <= login.login_forks < 8
    assert login.forks < 5
    assert ten.machine_forks > 20


def test_cpu_time_is_that_of_the_nodes(meter: Meter) -> None:
    spin = "import os; [i for i in range(30_000_000)]; times = os.times(); print(times.user + times.system)"
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as neighbour:
        try:
            done = meter.run("node01", ["python3", "-c", spin])
        finally:
            neighbour.kill()
    assert float(done.text) <= done.cost.cpu < float(done.text) + 1
    assert done.cost.login_cpu < 0.5


def test_the_end_is_the_last_process(meter: Meter) -> None:
    done = meter.run("node02", ["sh", "-c", "setsid sleep 1 >/dev/null 2>&1 &"])
    assert 0.8 < done.cost.wall + done.cost.teardown < 30
    assert done.cost.teardown > 0


def test_a_round_of_real_launches(meter: Meter) -> None:
    size = Size(2, 2)
    said: list[str] = []
    found = measure(meter, size, chosen(of_cluster(size), ["outside-in, srun"]), 1, said.append)
    ways = found["ways"]
    assert list(ways) == ["bare mpirun", "one container per node", "mnrun, outside-in, srun"]
    assert ways["mnrun, outside-in, srun"]["forks"][0] > ways["bare mpirun"]["forks"][0] > 0
    assert len(said) == 6


def test_a_line_of_the_users_own_stands_beside_the_others(meter: Meter) -> None:
    size = Size(2, 2)
    lines = [
        "hand=SLURM_PMIX_FENCE=ring srun --mpi=pmix -N {nodes} -n {ranks} apptainer -s exec {image} {program}",
        "empty=srun -N {nodes} -n {nodes} true",
    ]
    costs = measure(meter, size, of_user(lines, size), 1, lambda _: None)["ways"]
    assert costs["hand"]["cpu"][0] > costs["empty"]["cpu"][0] > 0
    with pytest.raises(ClusterError):
        measure(meter, size, of_user(["few=srun -N 1 -n 1 echo {program}"], size), 1, lambda _: None)
