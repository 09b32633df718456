"""PBS, by its stand-in: each verb on its jobs."""

from __future__ import annotations

import json
import re

import pytest

from .batch import ends_by_ctrl_c, output, submit
from .cells import full
from .services import a_service, beside_a_job
from .stage import LOGIN, Cluster, Desk, held, tells_what_is_held, wait_for
from .terminal import Terminal
from .test_grid_engine import CATCHES
from .test_pbs import HOST, SHAPE
from .test_pbs import cluster as cluster
from .test_pbs import forgotten as forgotten

pytestmark = [pytest.mark.xdist_group("pbs"), pytest.mark.usefixtures("forgotten")]


def test_what_a_job_asks_for(cluster: Cluster, desk: Desk) -> None:
    """Each node's CPUs, GPUs and memory are what PBS gives it."""
    words = ("--mem", "2G", "--gpus-per-node", "2", *SHAPE, *HOST, "--", "sh", "-c")
    with held(cluster):
        job = submit(cluster, desk, *words, "/opt/pbs/bin/qstat -f $PBS_JOBID")
        assert cluster.alice(["mnrun", "wait", job]).code == 0
    said = re.sub("\n\t", "", output(desk, job))
    assert tells_what_is_held(said), said
    found = {re.sub(r".* = ", "", line) for line in said.splitlines() if "exec_vnode = " in line}
    assert found == {"(node02:ncpus=2:ngpus=2:mem=2097152kb)+(node01:ncpus=2:ngpus=2:mem=2097152kb)"}, said


@pytest.mark.skipif(not full(), reason="with --full")
def test_a_signal_before_the_limit(cluster: Cluster, desk: Desk) -> None:
    """PBS has none: mnrun sends it."""
    words = ("-N", "1", "-t", "1", "--signal", "USR1@55", *HOST, "--", "python3", "-c", CATCHES)
    job = submit(cluster, desk, *words)
    assert cluster.alice(["mnrun", "wait", job]).code == 0, output(desk, job)


@pytest.mark.skipif(not full(), reason="with --full")
def test_ctrl_c_cancels_a_run(cluster: Cluster, desk: Desk) -> None:
    ends_by_ctrl_c(cluster, desk, *SHAPE, *HOST)


def test_logs_follow_a_job(cluster: Cluster, desk: Desk) -> None:
    job = submit(
        cluster, desk, *SHAPE, *HOST, "--", "sh", "-c", "echo up; until [ -e go ]; do sleep 0.1; done; echo on"
    )
    with cluster.running(["mnrun", "logs", "-f", job]) as follower:
        follower.saying(lambda said: said.out.count("up\n") == 4, "following")
        desk.put("go", "")
        assert follower.end().out.count("on\n") == 4
    assert cluster.alice(["mnrun", "wait", job]).code == 0


def test_a_shell(cluster: Cluster, desk: Desk) -> None:
    """It is that of qsub -I, whose own code is always 0."""
    with Terminal(cluster.argv(LOGIN, "alice", ["mnrun", "shell", *SHAPE, "--runtime", "host"], desk.path)) as terminal:
        terminal.expect(r"\$ ")
        terminal.write("sleep 600\n")
        wait_for(lambda: any(p.argv == ("sleep", "600") for p in cluster.processes()), "asleep")
        terminal.write("\x03")
        terminal.write("echo it en''ded $?\n")
        terminal.expect("it ended 130")
        terminal.write("exit 7\n")
        assert terminal.end() == 7
    refusal = cluster.alice(["mnrun", "shell", *SHAPE], cwd=desk.path, stdin=b"true\n")
    assert refusal.code in (2, 122), refusal


def test_check_asks_the_nodes_of_a_job(cluster: Cluster, desk: Desk) -> None:
    text = "#PBS -l select=2:ncpus=1 -l place=scatter -j oe -o /dev/null\nmnrun check --json >$PBS_O_WORKDIR/out\n"
    done = cluster.alice(["qsub", "-W", "block=true", desk.put("own.sh", text)], cwd=desk.path)
    assert done.code == 0, done
    assert len({row["node"] for row in json.loads(desk.read("out"))["findings"]}) == 2


@pytest.mark.skipif(not full(), reason="with --full")
def test_a_node_may_hand_in_no_job(cluster: Cluster, desk: Desk) -> None:
    """Unless an admin lets it, and mnrun says what the admin does."""
    again = "PATH=$PATH:/opt/pbs/bin; mnrun submit -o /dev/null --runtime host -- true"
    job = submit(cluster, desk, "-N", "1", *HOST, "--", "sh", "-c", f"{again}; mnrun cancel ${{PBS_JOBID%%.*}}")
    cluster.alice(["mnrun", "wait", job])
    assert output(desk, job).count("flatuid=True") == 2, output(desk, job)
    cluster.root(LOGIN, "qmgr", "-c", "set server flatuid=True")
    try:
        job = submit(cluster, desk, "-N", "1", *HOST, "--", "sh", "-c", again)
        assert cluster.alice(["mnrun", "wait", job]).code == 0, output(desk, job)
        wait_for(lambda: not cluster.jobs(), "over")
    finally:
        cluster.root(LOGIN, "qmgr", "-c", "set server flatuid=False")


@pytest.mark.skipif(not full(), reason="with --full")
def test_a_job_that_starts_again(cluster: Cluster, desk: Desk) -> None:
    """PBS's operator asks for it. No variable of the job tells it, and qstat does."""
    program = ("sh", "-c", "echo up; until [ -e go ]; do sleep 0.1; done")
    job = submit(cluster, desk, "--requeue", *SHAPE, *HOST, "--", *program)
    wait_for(lambda: output(desk, job).count("up\n") == 4, "up", state=lambda: output(desk, job))
    cluster.root(LOGIN, "qrerun", job)
    wait_for(lambda: "run_count = 2" in cluster.alice(["qstat", "-f", job]).out, "started again")
    wait_for(lambda: output(desk, job).count("up\n") == 4, "up again", state=lambda: output(desk, job))
    desk.put("go", "")
    assert cluster.alice(["mnrun", "wait", job]).code == 0


def test_a_service(cluster: Cluster, desk: Desk) -> None:
    a_service(cluster, desk, "--runtime", "host")


@pytest.mark.skipif(not full(), reason="with --full")
def test_a_service_beside_a_job(cluster: Cluster, desk: Desk) -> None:
    beside_a_job(cluster, desk, "--runtime", "host")
