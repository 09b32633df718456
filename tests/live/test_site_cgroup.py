"""A site as most are: Slurm holds jobs in control groups, which memory and devices are limited by and out of which no
process gets; and between its two signals it waits 30 s. Beside what is here, some cells of other tests."""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from .cells import HELLO, INSIDE, MPIRUN, SRUN, Way, cells, full, one, some
from .conftest import NAME, up
from .reports import everybody_spoke, mine
from .stage import LOGIN, Cluster, Desk, Process, wait_for
from .stranger import at_once, kill
from .test_ends import FOREVER, act, clean_soon, files_of
from .test_ends import test_end_from_outside as test_end_from_outside
from .test_exec import test_nothing_of_exec_outlives_the_job as test_nothing_of_exec_outlives_the_job
from .test_exit_codes import test_exit_of_one_rank_ends_the_others as test_exit_of_one_rank_ends_the_others
from .test_signals import (
    test_a_signal_to_all_steps_reaches_every_rank_once as test_a_signal_to_all_steps_reaches_every_rank_once,
)
from .test_signals import (
    test_a_signal_to_the_script_reaches_every_rank_once as test_a_signal_to_the_script_reaches_every_rank_once,
)
from .test_submit import test_submit_and_scancel as test_submit_and_scancel

pytestmark = pytest.mark.xdist_group("cgroup")

SOON = 90.0  # seconds: Slurm ends all by force after 30, and then there are files that nobody takes away
SILENT = 140.0  # seconds after which the nodes of a quiet machine have noticed that there is no launcher any more
MODES = (INSIDE, MPIRUN)
EATER = """\
import os, time
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMIX_RANK") or os.environ["RANK"]
hoard = []
while rank == "{rank}":
    hoard.append(b"x" * 10_000_000)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with up(f"{NAME}-cg", 4, "--cgroup") as ours:
        found = ours.root(LOGIN, "scontrol", "show", "config")
        assert re.search(r"ProctrackType *= proctrack/cgroup\n", found) and re.search(r"KillWait *= 30 sec", found), (
            found
        )
        yield ours


def programs(cluster: Cluster) -> list[Process]:
    return [p for p in cluster.processes() if p.argv[0] == HELLO]


def launchers(cluster: Cluster) -> list[Process]:
    """All that a launch has on the login node: mnrun, salloc, srun with its helper, and who shows that it lives."""
    return [p for p in cluster.processes() if p.node == LOGIN]


BY_NAME = {str(way): way for way in MODES}
ENDS = cells({"how": ("scancel", "time limit", "SIGINT", "SIGKILL", "kill srun"), "way": tuple(BY_NAME)}, together=1)


@pytest.mark.parametrize(("how", "way"), ENDS)
def test_ends_before_slurm_must_kill(cluster: Cluster, how: str, way: str) -> None:
    with cluster.running(cluster.launch(*BY_NAME[way].words, "--", *FOREVER, nodes=2)) as job:
        job.saying(everybody_spoke(4), "running on all ranks")
        act(cluster, how, job)
        wait_for(lambda: not programs(cluster), "without its program", 90)
        begin = time.monotonic()
        wait_for(lambda: not files_of(cluster), "clean", SOON, lambda: "\n".join(cluster.leftovers()))
        result = job.end(SOON)
        wanted = {"scancel": 143, "time limit": 124, "SIGINT": 130, "kill srun": 121}.get(how)
        assert result.code == wanted or wanted is None, result
        clean_soon(cluster, begin, killed=how == "SIGKILL")


@pytest.mark.parametrize("way", one(1, (*MODES, SRUN)), ids=str)
def test_ends_by_itself(cluster: Cluster, way: Way) -> None:
    for words, code in (((HELLO,), 0), ((HELLO, "-x", "7"), 7)):
        result = cluster.mnrun(*way.words, "--", *words, nodes=2)
        assert result.code == code, result
        assert cluster.wait_clean(SOON) == []


@pytest.mark.parametrize("before", ["", "exec "])
def test_ends_of_a_script_of_ones_own(cluster: Cluster, desk: Desk, before: str) -> None:
    line = f"{before}mnrun {' '.join(INSIDE.words)} -- {HELLO} -s 3600"
    path = desk.put("job.sh", f"#!/bin/bash\n{line}\n", 0o755)
    shape = ("-N2", "--ntasks-per-node=2", "-o", f"{desk.path}/out", "-e", f"{desk.path}/err")
    number = cluster.alice(["sbatch", "--parsable", *shape, path]).out.strip()
    wait_for(lambda: "out" in desk.names() and desk.read("out").count(b"\n") == 4, "running on all ranks")
    assert cluster.alice(["scancel", number]).code == 0
    wait_for(lambda: not files_of(cluster), "clean", SOON, lambda: "\n".join(cluster.leftovers()))
    wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h", "-o", "%i"), "without the job", 60)
    wait_for(lambda: not cluster.processes(), "without processes", 60)
    cluster.root(LOGIN, "rm", "-rf", "/home/alice/.mnrun/jobs")  # of an mnrun that was killed
    assert (f"mnrun: job {number} was cancelled" in desk.read("err").decode()) == bool(before)


@pytest.mark.parametrize("way", some(MODES, (MPIRUN,)), ids=str)
def test_launcher_killed_as_slurm_ends_the_job(cluster: Cluster, way: Way) -> None:
    """salloc gives the job back whose mnrun and sruns are dead: its nodes wait for no launcher until Slurm's KILL."""
    with cluster.running(cluster.launch(*way.words, "--", *FOREVER, nodes=2)) as job:
        job.saying(everybody_spoke(4), "running on all ranks")
        at_once([p for p in launchers(cluster) if os.path.basename(p.argv[0]) != "salloc"])
        begin = time.monotonic()
        wait_for(lambda: not files_of(cluster), "clean", SOON, lambda: "\n".join(cluster.leftovers()))
        job.end()
        clean_soon(cluster, begin, killed=True)


@pytest.mark.skipif(not full(), reason="--full: it waits for two minutes")
def test_all_launchers_killed_at_once(cluster: Cluster) -> None:
    """B9: where mnrun, salloc and every srun die in one moment nobody closes the lease: the nodes miss the launcher's
    pulse. A launcher that is only stopped, as by Ctrl-Z, goes on having one."""
    with ExitStack() as stack:
        stopped = stack.enter_context(cluster.running(cluster.launch(*INSIDE.words, "--", *FOREVER, nodes=1)))
        stopped.saying(everybody_spoke(2), "running on all ranks")
        mine_alone = launchers(cluster)
        lasting = {p.pid for p in programs(cluster)}
        cluster.launcher().send(signal.SIGSTOP)
        begin = time.monotonic()
        for way in MODES:
            job = stack.enter_context(cluster.running(cluster.launch(*way.words, "--", *FOREVER, nodes=2, salloc=NEXT)))
            job.saying(everybody_spoke(4), "running on all ranks")
        jobs = cluster.root(LOGIN, "squeue", "-h", "-o", "%i").split()
        at_once([p for p in launchers(cluster) if p not in mine_alone])
        wait_for(lambda: {p.pid for p in programs(cluster)} == lasting, "without the others", 3 * SILENT)
        wait_for(lambda: not _of_nodes(cluster, "node02", "node03"), "clean", SOON)
        cluster.root(LOGIN, "scancel", *sorted(jobs)[1:])
        wait_for(lambda: time.monotonic() > begin + SILENT, "stopped for longer than that", 2 * SILENT)
        assert {p.pid for p in programs(cluster)} == lasting
        kill(mine_alone, signal.SIGCONT)  # salloc stops with its command
        cluster.launcher().send(signal.SIGINT)
        assert stopped.end().code == 130
    clean_soon(cluster, begin, killed=True)


NEXT = ("-w", "node[02-03]")


def _of_nodes(cluster: Cluster, *nodes: str) -> list[str]:
    return [line for line in cluster.leftovers() if line.startswith(nodes) and "/.mnrun" not in line]


STARVED = tuple(itertools.product(("0", "3"), (*MODES, SRUN)))


@pytest.mark.parametrize(("rank", "way"), some(STARVED, [("0", INSIDE), ("3", MPIRUN)]), ids=str)
def test_out_of_memory(cluster: Cluster, way: Way, rank: str) -> None:
    program = ["python3", "-c", EATER.format(rank=rank)]
    result = cluster.mnrun(*way.words, "--", *program, nodes=2, salloc=("--mem=300M",))
    node = "node01" if rank == "0" else "node02"
    said = [line for line in mine(result) if "out of memory" in line]
    assert (result.code, len(said)) == (137, 1), result
    assert not re.search("(?m)^(srun|slurmstepd)", result.err), result
    for word in (f"on {node}", "300 MB", "--mem", rank):
        assert word in said[0], result
    assert cluster.wait_clean(SOON) == []


@pytest.mark.parametrize("way", one(1, MODES), ids=str)
def test_remains_of_a_step_that_was_killed(cluster: Cluster, way: Way) -> None:
    """B9: a job whose processes Slurm has all killed leaves files, and nobody on the node: the user's next launch there
    takes them away, and so does `mnrun clean --nodes`."""
    for cleaner in ("launch", "clean"):
        with cluster.running(cluster.launch(*way.words, "--", *FOREVER, nodes=2)) as job:
            job.saying(everybody_spoke(4), "running on all ranks")
            number = cluster.root(LOGIN, "squeue", "-h", "-o", "%i").strip()
            at_once(launchers(cluster))
            steps = cluster.root(LOGIN, "squeue", "-h", "-s", "-o", "%i").split()  # of mpirun's daemons, too
            cluster.root(LOGIN, "scancel", "-s", "KILL", *(step for step in steps if not step.endswith("extern")))
            job.end()
            wait_for(lambda: not programs(cluster), "without its program", SOON)
            cluster.root(LOGIN, "scancel", number)
        wait_for(lambda: all(p.node == LOGIN for p in cluster.processes()), "without processes", SOON)
        assert files_of(cluster), "nothing is left that somebody would have to take away"
        if cleaner == "launch":
            assert cluster.mnrun(*way.words, "--", "true", nodes=2).code == 0
            wait_for(lambda: not files_of(cluster), "clean", SOON, lambda: "\n".join(cluster.leftovers()))
        else:
            result = cluster.mnrun("clean", "--nodes", nodes=2, tasks=0)
            assert result.code == 0, result
            assert not files_of(cluster), result
        clean_soon(cluster, time.monotonic(), killed=True)


@pytest.mark.parametrize("way", one(0, MODES), ids=str)
def test_devices_of_others_are_closed(cluster: Cluster, way: Way) -> None:
    told = 'grep -o "No such device\\|not permitted"'
    line = f"for n in 0 1 2 3; do {{ : </dev/nvidia$n; }} 2>&1 | {told}; done | sort | uniq -c"
    result = cluster.mnrun(*way.words, "--", "sh", "-c", line, nodes=2, salloc=("--gres=gpu:2",))
    assert result.code == 0, result
    assert result.out.count("2 No such device") == 4, result
    assert result.out.count("2 not permitted") == 4, result
