"""Several jobs at once on the same nodes: all succeed, and none sees, ends or disturbs another's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product

import pytest

from .batch import forget
from .cells import HELLO, INSIDE, MAIN, OMPI4, OMPI5, Way, one, some
from .reports import check, everybody_spoke
from .stage import LOGIN, USERS, Cluster, Desk, Job, wait_for

NAMED = {str(way): way for way in MAIN}
TRIPLES = some([*product(NAMED, NAMED)], [(str(MAIN[0]), str(MAIN[1]))])


TOLD = "until [ -e ~/.finish ]; do sleep 0.2; done"  # a program goes on once `told` makes this file
SLOW = f'echo "on $(uname -n)"; {TOLD}; echo to the end'


@contextmanager
def told(cluster: Cluster) -> Iterator[None]:
    files = {f"/home/{user}/.finish": uid for user, uid in zip(("alice", "bob"), USERS)}
    for path, uid in files.items():
        cluster.put(path, "", uid=uid)
    try:
        yield
    finally:
        cluster.root(LOGIN, "rm", *files)


def started(job: Job) -> None:
    job.saying(everybody_spoke(8), "running on all ranks")


@pytest.mark.parametrize(("first", "second"), TRIPLES)
def test_neighbours_all_succeed(cluster: Cluster, first: str, second: str) -> None:
    words = ("sh", "-c", f"{HELLO}; {TOLD}")
    with ExitStack() as stack:
        jobs = [
            stack.enter_context(cluster.running(cluster.launch(*way.words, "--", *words), user=user))
            for way, user in ((NAMED[first], "alice"), (NAMED[second], "alice"), (INSIDE, "bob"))
        ]
        for job in jobs:
            started(job)
        assert len(cluster.mnruns()) == 3  # all at once, that is
        with told(cluster):
            for job in jobs:
                check(job.end(), *cluster.nodes)


def test_neighbours_in_one_allocation(cluster: Cluster) -> None:
    runs = " ".join(
        f"mnrun {' '.join(way.words)} -- {HELLO} >$HOME/.one.{n} &" for n, way in enumerate([*MAIN, INSIDE])
    )
    script = f"umask 077; {runs} wait; cat $HOME/.one.?; rm $HOME/.one.?"
    result = cluster.alice(["salloc", "-Q", "-N4", "--ntasks-per-node=2", "sh", "-c", script])
    assert result.code == 0, result
    lines = result.out.splitlines()
    assert len(lines) == 32, result
    for rank in range(8):
        assert sum(line.startswith(f"rank {rank} of 8 ") for line in lines) == 4, result


@pytest.mark.parametrize(
    ("first", "how"),
    [
        (["-N1", "-w", "node01"], "sbatch"),
        (["-N1", "-w", "node01"], "mnrun submit"),
        (["-N1", "-w", "node01", "--mode", "outside-in", "--launcher", "srun"], "sbatch"),
        (["--local"], "sbatch"),
        (["--hosts", "node01"], "sbatch"),
    ],
    ids=" ".join,
)
def test_neighbours_that_were_handed_in_from_a_job(cluster: Cluster, desk: Desk, first: list[str], how: str) -> None:
    """(B1, R2) A job that a job hands in, on the same node, is not ended with it. It knows nothing of the first one: it
    has a place for its files, and looks for programs in no directory that has gone."""
    seen = 'env | grep -e "/mnrun.$(cat first.id)" -e "=$(cat first.id)"'
    lives = f"until [ -e over ]; do sleep 0.1; done; {seen}; rm -v $(mktemp) && echo lived >lived"
    desk.put("next", f"#!/bin/sh\n{lives}\n", 0o755)
    hands = {
        "sbatch": f"sbatch -Q -w node01 -o {desk.path}/next.out next",
        "mnrun submit": f"mnrun submit -Q --nodelist node01 -o {desk.path}/next.out --runtime host -- {desk.path}/next",
    }
    waits = "until squeue -h -t R -n next | grep -q .; do sleep 0.2; done"
    desk.put("first", f"#!/bin/sh\necho $MNRUN_JOB_ID >first.id; {hands[how]} && {waits}\n", 0o755)
    run = ["mnrun", "-Q", "--runtime", "host", "--launcher", "env", *first, "--", "./first"]
    result = cluster.alice(run, cwd=desk.path, node="node01" if "--local" in first else LOGIN)
    assert result.code == 0, result
    desk.put("over", "")
    wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h", "-n", "next"), "ended")
    said = desk.read("next.out").decode()
    assert "lived" in desk.names() and len(said.splitlines()) == 1, said
    assert how == "sbatch" or "/tmp/mnrun." in said, said
    forget(cluster)


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_neighbours_survive_each_others_ends(cluster: Cluster, way: Way) -> None:
    with ExitStack() as stack:
        long_ones = [
            stack.enter_context(cluster.running(cluster.launch(*kind.words, "--", "sh", "-c", SLOW), user=user))
            for kind, user in ((way, "alice"), (INSIDE, "bob"))
        ]
        for job in long_ones:
            started(job)
        survivors = cluster.mnruns()
        check(cluster.mnrun(*way.words, "--", HELLO), *cluster.nodes)

        with cluster.running(cluster.launch(*way.words, "--", HELLO, "-s", "3600")) as victim:
            started(victim)
            (launcher,) = (process for process in cluster.mnruns() if process not in survivors)
            launcher.send(signal.SIGKILL)
            victim.end()
        with cluster.running(cluster.launch(*way.words, "--", HELLO, "-s", "3600")) as victim:
            started(victim)
            newest = max(map(int, cluster.root(LOGIN, "squeue", "-h", "-o", "%i").split()))
            cluster.alice(["scancel", str(newest)])
            victim.end()

        for path in cluster.path("/home/alice").glob(".mnrun/jobs/*"):  # of the one that was killed
            if path.name.split("-")[0] == str(newest - 1):
                cluster.root(LOGIN, "rm", "-r", f"/home/alice/.mnrun/jobs/{path.name}")
        with told(cluster):
            for job in long_ones:
                result = job.end()
                assert result.code == 0, result
                assert result.out.count("to the end\n") == 8, result


def test_neighbours_cannot_look_in(cluster: Cluster) -> None:
    secret = "the-combination-of-the-safe"
    line = cluster.launch(*INSIDE.words, "-x", "TOKEN", "--", HELLO, "-s", "3600", env={"TOKEN": secret})
    with cluster.running(line) as job:
        started(job)
        for node in (LOGIN, *cluster.nodes):
            look = (
                "for f in $(find /tmp /dev/shm /var/tmp /home/alice /run /proc/[0-9]*/environ 2>/dev/null); do "
                "if [ -f $f ] && [ -r $f ]; then grep -lsF -e PRIVATE -e the-combination-of-the-safe $f; fi; done; "
                "ls -A /tmp/mnrun.* /dev/shm/mnrun.*"
            )
            seen = cluster.alice(["sh", "-c", look], node=node, user="bob")
            assert seen.out == "", seen
        for process in cluster.processes():
            if process.argv[0] not in ("salloc", "env"):
                assert secret not in " ".join(process.argv), process
                assert "PRIVATE KEY" not in " ".join(process.argv), process


def test_neighbours_are_out_of_sight_inside_out(cluster: Cluster) -> None:
    with cluster.running(cluster.launch("--mode", "inside-out", "--image", OMPI4, "--", HELLO, "-s", "3600")) as job:
        started(job)
        result = cluster.mnrun("--image", OMPI5, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", nodes=1)
        assert result.code == 0, result
        assert "3600" not in result.out, result
        assert "ompi4" not in result.out, result


def test_neighbours_keep_their_gpus(cluster: Cluster) -> None:
    with cluster.running(
        cluster.launch(*INSIDE.words, "--", HELLO, "-g", "-s", "3600", salloc=["--gres=gpu:2"])
    ) as job:
        started(job)
        first = {line.split("gpus=")[1] for line in job.so_far().out.splitlines()}
        second = check(cluster.mnrun(*INSIDE.words, "--", HELLO, "-g", salloc=["--gres=gpu:2"]), *cluster.nodes)
        assert first == {"0,1"}
        assert {rank.gpus for rank in second} == {"2,3"}
