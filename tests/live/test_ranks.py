"""Ranks: as many as asked for, on all the nodes that were asked for, and all of them of one MPI job."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest

from .batch import end, submit
from .cells import (
    HELLO,
    INSIDE,
    MAIN,
    MPICH,
    MPIRUN,
    OMPI4,
    OMPI5,
    SRUN,
    WAYS,
    Way,
    cells,
    full,
    one,
    possible,
    some,
    turn,
)
from .reports import OURS, check, everybody_spoke, mine, only_line, ranks, refusal
from .stage import Cluster, Desk

# What is asked for, of the job and of mnrun, and how many ranks then run where.
SHAPES: dict[str, tuple[int, tuple[str, ...], tuple[str, ...], dict[str, int]]] = {
    "4x2": (4, ("--ntasks-per-node=2",), (), {"node01": 2, "node02": 2, "node03": 2, "node04": 2}),
    "one node": (1, ("--ntasks-per-node=2",), (), {"node01": 2}),
    "2 of 4": (4, ("--ntasks-per-node=2",), ("-N", "2"), {"node01": 2, "node02": 2}),
    "n7": (4, ("--ntasks-per-node=2",), ("-n", "7"), {"node01": 2, "node02": 2, "node03": 2, "node04": 1}),
    "nodelist": (4, ("--ntasks-per-node=2",), ("--nodelist", "node[02,04]"), {"node02": 2, "node04": 2}),
    "exclude": (
        3,
        ("--ntasks-per-node=3",),
        ("--exclude", "node01", "--ntasks-per-node", "3"),
        {"node02": 3, "node03": 3},
    ),
    "a most each": (2, ("-n", "3", "--ntasks-per-node=2"), (), {"node01": 2, "node02": 1}),
    "one of 4": (4, ("--ntasks-per-node=3",), ("--nodelist", "node03", "-n", "3"), {"node03": 3}),
}
MATRIX = cells(
    {
        "shape": tuple(SHAPES),
        "start": ("inside", "mpirun", "srun"),
        "image": ("ompi5", "ompi4", "mpich"),
        "per": ("auto", "node", "rank"),
    },
    lambda shape, start, image, per: possible(start, image, per),
    always=[("4x2", start, image, "auto") for start, image in (("inside", "ompi5"), ("mpirun", "ompi4"))],
    together=1,
)


@pytest.mark.parametrize(("shape", "start", "image", "per"), MATRIX)
def test_ranks_are_where_they_were_asked_for(cluster: Cluster, shape: str, start: str, image: str, per: str) -> None:
    nodes, salloc, asked, spread = SHAPES[shape]
    words = [*Way(start, image, per).words, *asked, "--", HELLO]
    check(cluster.mnrun(*words, nodes=nodes, tasks=0, salloc=salloc), spread=spread)


@pytest.mark.parametrize("start", one(1, ["inside", "mpirun", "srun"]))
def test_ranks_without_a_container(cluster: Cluster, start: str) -> None:
    check(cluster.mnrun(*Way(start, "host").words, "--", HELLO), *cluster.nodes)


EVERYWHERE = ("node01", "node02", "node03", "node04")
DEFAULTS = (
    (("-n", "6"), (), {"node01": 3, "node02": 1, "node03": 1, "node04": 1}, "asked for 6"),
    (("--ntasks-per-node=3",), (), dict.fromkeys(EVERYWHERE, 3), "asked for 3"),
    (("--gres=gpu:2",), (), dict.fromkeys(EVERYWHERE, 2), "one per GPU"),
    (("--gpus-per-node=3",), ("-N", "2"), {"node01": 3, "node02": 3}, "one per GPU"),
    ((), (), dict.fromkeys(EVERYWHERE, 1), "one per node"),
    (("--ntasks-per-node=3",), ("--ntasks-per-node", "1"), dict.fromkeys(EVERYWHERE, 1), "command line"),
    (("--gres=gpu:2", "-n", "4"), (), dict.fromkeys(EVERYWHERE, 1), "asked for 4"),
)


@pytest.mark.parametrize(("salloc", "asked", "spread", "origin"), one(3, DEFAULTS))
def test_ranks_default_and_its_origin(
    cluster: Cluster, salloc: tuple[str, ...], asked: tuple[str, ...], spread: dict[str, int], origin: str
) -> None:
    result = cluster.mnrun("-v", *INSIDE.words, *asked, "--", HELLO, tasks=0, salloc=salloc)
    check(result, spread=spread)
    assert any(origin in line for line in mine(result)), result


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_ranks_of_a_python_program(cluster: Cluster, way: Way) -> None:
    code = (
        "from mpi4py import MPI; w = MPI.COMM_WORLD; names = w.allgather(MPI.Get_processor_name());"
        "w.rank == 0 and print(w.size, sorted(names))"
    )
    result = cluster.mnrun(*way.words, "--", "python3", "-c", code)
    assert result.code == 0, result
    assert result.out == f"8 {sorted(list(cluster.nodes) * 2)}\n", result


@pytest.mark.parametrize("way", turn(1, [way for way in WAYS if way.image != "host"], [], MAIN), ids=str)
def test_ranks_that_end_at_once(cluster: Cluster, way: Way) -> None:
    with cluster.held("-N4", "--ntasks-per-node=2") as job:
        for _ in range(5 if full() else 3):
            line = ["env", f"SLURM_JOB_ID={job}", "mnrun", *way.words, "--ntasks-per-node", "2", "--", "true"]
            result = cluster.alice(line)
            assert result.code == 0, result
            assert result.out == "", result


@pytest.mark.parametrize("way", one(1, [INSIDE, MPIRUN]), ids=str)
def test_ranks_are_started_by_the_daemon_itself(cluster: Cluster, way: Way) -> None:
    """Open MPI 5 starts the ranks of the other nodes by 16 threads, and may miss a rank's end for ever."""
    with cluster.running(cluster.launch(*way.words, "--", HELLO, "-s", "3600", nodes=2)) as job:
        job.saying(everybody_spoke(4), "running on all ranks")
        daemons = [p for p in cluster.processes() if p.node == "node02" and os.path.basename(p.argv[0]) == "prted"]
        assert daemons, "no daemon of mpirun on node02"
        for daemon in daemons:
            assert len(os.listdir(f"/proc/{daemon.pid}/task")) < 16, daemon


@pytest.mark.parametrize("way", some([SRUN, Way("srun", "ompi5", "rank")], [SRUN]), ids=str)
def test_ranks_by_srun_do_not_race_in_init(cluster: Cluster, way: Way) -> None:
    """Open MPI 5 under srun --mpi=pmix dies in MPI_Init in some of a hundred starts unless the fence is right."""
    with cluster.held("-N4", "--ntasks-per-node=2") as job:
        for _ in range(20 if full() else 3):
            line = ["env", f"SLURM_JOB_ID={job}", "mnrun", *way.words, "--ntasks-per-node", "2", "--", HELLO]
            check(cluster.alice(line), *cluster.nodes)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--mpi", "pmix", "--image", MPICH), "MPICH"),
        (("--launcher", "mpirun", "--mpi", "openmpi", "--image", MPICH), "MPICH"),
        (("--mpi", "pmi2", "--image", OMPI5), "Open MPI"),
        (("--mpi", "pmi2", "--image", OMPI4), "Open MPI"),
    ],
)
def test_ranks_never_are_silent_singletons(cluster: Cluster, words: tuple[str, ...], why: str) -> None:
    result = cluster.mnrun("--mode", "outside-in", *words, "--", HELLO)
    only_line(result, 122, why, "0 of 1", "--mode inside-out works")


def test_ranks_of_a_batch_job_never_are_silent_singletons(cluster: Cluster, desk: Desk) -> None:
    job = submit(cluster, desk, "-N", "2", "--mpi", "pmix", "--image", MPICH, "--", HELLO)
    refusal(end(cluster, desk, job), 122, "MPICH", "0 of 1", "--mode inside-out works")


def test_ranks_of_an_image_whose_mpirun_is_hidden(cluster: Cluster) -> None:
    result = cluster.mnrun(*MPIRUN.words, "--", "env", "-u", "PMIX_NAMESPACE", "-u", "PMIX_RANK", HELLO)
    assert result.code in OURS, result
    assert "0 of 1" in mine(result)[-1], result


def test_ranks_elsewhere_are_noticed(cluster: Cluster) -> None:
    result = cluster.mnrun(*INSIDE.words, "--mpi-args", "--host node01:8", "--", HELLO)
    assert result.code in OURS, result
    assert "node01 x 8, but node[01-04] x 2" in mine(result)[-1], result


def test_ranks_bound_as_asked(cluster: Cluster) -> None:
    mask = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
    bound = cluster.mnrun(*INSIDE.words, "--bind-to", "hwthread", "-n", "2", "--", *mask, nodes=1)
    free = cluster.mnrun(*INSIDE.words, "-c", "1", "-n", "2", "--", *mask, nodes=1)
    assert bound.code == free.code == 0, (bound, free)
    assert len(set(bound.out.splitlines())) == 2, bound
    assert len(set(free.out.splitlines())) == 1, free
    assert set(free.out.splitlines()).isdisjoint(bound.out.splitlines()), (bound, free)


@pytest.mark.parametrize("way", [Way("inside", "ompi4"), Way("inside", "mpich")], ids=str)
def test_ranks_of_several_cores(cluster: Cluster, way: Way) -> None:
    mask = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
    result = cluster.mnrun(
        *way.words, "-c", "2", "--bind-to", "core", "-n", "1", "--", *mask, nodes=1, tasks=1, salloc=["-c2"]
    )
    assert result.code == 0, result
    assert re.search(r"\t\d+[-,]\d+$", result.out.strip()), result


def test_ranks_that_fit_are_where_they_were_asked_for_with_force(cluster: Cluster) -> None:
    for way in (INSIDE, MPIRUN):
        check(cluster.mnrun(*way.words, "--force", "--", HELLO, nodes=2), *cluster.nodes[:2])


@pytest.mark.parametrize("way", one(0, (INSIDE, MPIRUN, SRUN)), ids=str)
def test_ranks_where_hosts_of_the_job_want_them(cluster: Cluster, desk: Desk, way: Way) -> None:
    """As `mpirun --hostfile` has it."""
    file = desk.put("hosts", "node02 slots=3\nnode01\n")
    for words in (["--hosts", "node02:3,node01:1"], ["--hostfile", str(file)]):
        result = cluster.mnrun(*way.words, *words, "--", HELLO, nodes=2, tasks=4, cwd=desk.path)
        check(result, spread={"node02": 3, "node01": 1})
    result = cluster.mnrun(*way.words, "--hosts", "node02,node03", "--", HELLO, nodes=2)
    assert result.code == 122, result


def test_ranks_more_than_slots_with_force(cluster: Cluster) -> None:
    for way in one(1, MAIN):
        result = cluster.mnrun(*way.words, "--force", "-n", "5", "--", HELLO, nodes=1, tasks=0)
        assert result.code == 0, result
        assert [rank.rank for rank in ranks(result)] == [0, 1, 2, 3, 4], result


@pytest.mark.skipif(not full(), reason="minutes: sixty-four nodes on one machine")
def test_ranks_on_sixty_four_nodes(variant: Callable[..., Cluster]) -> None:
    """Of all nodes and of more ranks than nodes, live and in batch; by srun these are listed in a file (B2)."""
    many = variant(64)
    late = ["--start-timeout", "300"]
    check(many.mnrun(*INSIDE.words, *late, "--", HELLO, nodes=64, tasks=1, seconds=400), *many.nodes, tasks=1)
    spread = {name: 2 if name in many.nodes[:3] else 1 for name in many.nodes}
    words = [*SRUN.words, *late, "-n", "67", "--", HELLO]
    check(many.mnrun(*words, nodes=64, tasks=2, seconds=400), spread=spread)
    with many.desk() as desk:
        job = submit(many, desk, "-N", "64", *words)
        check(end(many, desk, job, 400), spread=spread)
