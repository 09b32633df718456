"""Grid Engine: each verb on its jobs, and what another user can see of them."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from typing import Any

import pytest

from published import checked

from .batch import ends_by_ctrl_c, programs, submit
from .cells import HELLO, OMPI5, full
from .grid import cluster as cluster
from .grid import forgotten as forgotten
from .reports import check, tells
from .services import a_service, beside_a_job
from .stage import LOGIN, Cluster, Desk, held, tells_what_is_held, wait_for
from .terminal import Terminal
from .test_api import follow_and_map
from .test_completion import in_bash
from .test_ray import ACTORS

pytestmark = [pytest.mark.xdist_group("grid-engine"), pytest.mark.usefixtures("forgotten")]
SHAPE = ("-N", "2", "--ntasks-per-node", "2", "-t", "5", "--runtime", "host")
# Says that it is up, and of each USR1 that it has come.
PROGRAM = """
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: print("got it", flush=True))
print("up", flush=True)
while True:
    time.sleep(600)
"""


def said(cluster: Cluster, job: str, word: str) -> int:
    """Return how often the job has said this by now. The lines of two ranks may come as `upup`."""
    return cluster.alice(["mnrun", "logs", job]).out.count(word)


def viewed(cluster: Cluster, job: str) -> Any:
    """Return what `mnrun status --json` says of this job."""
    return json.loads(cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"][0]


def test_a_job_that_runs(cluster: Cluster, desk: Desk) -> None:
    job = submit(cluster, desk, *SHAPE, "--", "python3", "-c", PROGRAM)
    wait_for(lambda: said(cluster, job, "up") == 4, "up")
    # Grid Engine hears of a job's start after its first lines: until then its state is `t`, which is CONFIGURING.
    wait_for(lambda: viewed(cluster, job)["state"] == "RUNNING", "running")
    view = viewed(cluster, job)
    assert view["nodes"] == 2
    assert 0 < view["left"] <= 300
    assert view["submitted"] > 0
    assert cluster.alice(["mnrun", "why", job]).out.count("sleeps") == 4
    used = checked("top", cluster.alice(["mnrun", "top", "--once", "--json", job]).out)
    assert [len(node["ranks"]) for node in used["nodes"]] == [2, 2], used
    for line, word in {"mnrun exec ": job, "mnrun submit -p all": "all.q"}.items():
        assert word in in_bash(cluster, line).out.split()
    there = cluster.alice(["mnrun", "exec", job, "--rank", "3", "--", "sh", "-c", "uname -n; exit 5"])
    assert there.code == 5
    names = [node["node"] for node in used["nodes"]]
    every = cluster.alice(["mnrun", "exec", job, "--all", "--", "sh", "-c", "echo here; exit 5"])
    assert (every.code, sorted(every.out.splitlines())) == (5, [f"{name}| here" for name in sorted(names)]), every
    copies = "head -c 300000 /dev/urandom >made; mnrun cp made $0:$1:$PWD/far && mnrun cp $0:$1:$PWD/far back"
    words = ["sh", "-c", f"{copies} && cmp made back", job, names[1]]
    made = cluster.alice(words, cwd=desk.path)
    assert (made.code, made.err) == (0, ""), made
    for verb in (["status"], ["logs"], ["cancel"], ["cancel", "-s", "USR1"], ["wait"], ["why"], ["exec"]):
        words = [job, "--", "id"] if verb == ["exec"] else [job]
        refusal = cluster.alice(["mnrun", *verb, *words], user="bob")
        assert refusal.code == 123, refusal
        assert f"job {job} is alice's" in refusal.err
    # Grid Engine ends a job if one of its clients is killed.
    words = ["mnrun", "exec", job, "--rank", "3", "--", "sh", "-c", "echo begun; sleep 600"]
    with Terminal(cluster.argv(LOGIN, "alice", words)) as terminal:
        terminal.expect("begun")
        terminal.write("\x03")
        assert terminal.end() == 130
    with Terminal(cluster.argv(LOGIN, "alice", ["mnrun", "exec", "-t", job, "--rank", "3", "--", "sh"])) as terminal:
        terminal.expect(r"\$ ")
        terminal.write("stty size; exit 6\n")
        terminal.expect(r"50 200")
        assert terminal.end() == 6
    assert cluster.alice(["mnrun", "cancel", "-s", "USR1", job]).code == 0
    wait_for(lambda: said(cluster, job, "got it") == 4, "told")
    with cluster.running(words) as one, cluster.running(words) as two:  # the job has two slots there
        for entered in (one, two):
            entered.saying(lambda said: "begun" in said.out, "begun")
        refusal = cluster.alice(["mnrun", "exec", job, "--rank", "3", "--", "true"])
        assert refusal.code == 1 and "-c 2" in refusal.err and "execution daemon" not in refusal.err, refusal
        assert cluster.alice(["mnrun", "cancel", job]).code == 0
        assert cluster.alice(["mnrun", "wait", job]).code == 143
    tells(checked("report", cluster.alice(["mnrun", "report", job, "--json"]).out), 143, PROGRAM)


def test_the_end_of_another_job_decides(cluster: Cluster, desk: Desk) -> None:
    first = submit(cluster, desk, "-t", "5", "--runtime", "host", "--", "sh", "-c", "exit 3")
    after = {
        kind: submit(cluster, desk, "-t", "5", "--runtime", "host", "--dependency", f"{kind}:{first}", "--", "true")
        for kind in ("afterok", "afternotok", "afterany")
    }
    codes = {kind: cluster.alice(["mnrun", "wait", job]) for kind, job in after.items()}
    assert {kind: end.code for kind, end in codes.items()} == {"afterok": 123, "afternotok": 0, "afterany": 0}
    assert f"--dependency afterok:{first} is not met" in codes["afterok"].err


def test_tasks_of_an_array(cluster: Cluster, desk: Desk) -> None:
    """Ranks know the task's number, of which Grid Engine knows the position alone. Those that failed run once more."""
    program = ("sh", "-c", 'echo "task $SGE_TASK_ID"; [ $SGE_TASK_ID != 5 ] || exit 5')
    job = submit(
        cluster, desk, "-t", "5", "--runtime", "host", "--launcher", "env", "--array", "2,5,9%2", "--", *program
    )
    assert cluster.alice(["mnrun", "wait", job]).code == 5
    view = json.loads(cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"]
    assert [(task["id"], task["code"]) for task in view] == [(f"{job}_2", 0), (f"{job}_5", 5), (f"{job}_9", 0)]
    failed = cluster.alice(["mnrun", "logs", "--failed", job]).out
    assert "task 5\n" in failed and "task 2" not in failed
    again = cluster.alice(["mnrun", "rerun", "--failed", job], cwd="/tmp")
    assert again.code == 0, again
    other = again.out.strip()
    assert cluster.alice(["mnrun", "wait", other]).code == 5
    assert [task["id"] for task in json.loads(cluster.alice(["mnrun", "status", "--json", other]).out)["jobs"]] == [
        f"{other}_5"
    ]


def test_what_a_job_asks_for(cluster: Cluster, desk: Desk) -> None:
    words = ("--mem", "2G", "--gpus-per-node", "2", *SHAPE, "--", "sh", "-c", "qstat -j $JOB_ID | grep hard")
    with held(cluster):
        job = submit(cluster, desk, *words)
        assert cluster.alice(["mnrun", "wait", job]).code == 0
    said = cluster.alice(["mnrun", "logs", job])
    assert tells_what_is_held(said.out + said.err), said
    asked = programs(said.out)
    assert {"h_rt=300", "m_mem_free=1024M", "gpu=1"} == set(asked.split()[-1].split(",")), asked
    refusal = cluster.alice(["mnrun", "submit", *SHAPE, "--gpus-per-node", "40", "--", "true"], cwd=desk.path)
    assert refusal.code == 123
    assert "8 CPUs and 4 GPUs" in refusal.err, refusal
    refusal = cluster.alice(["mnrun", "submit", *SHAPE, "--mem", "64G", "--", "true"], cwd=desk.path)
    assert refusal.code == 123
    assert "15.625G" in refusal.err and "qsub" not in refusal.err, refusal


def test_ctrl_c_cancels_a_run(cluster: Cluster, desk: Desk) -> None:
    ends_by_ctrl_c(cluster, desk, *SHAPE)


def test_a_shell_on_a_terminal(cluster: Cluster, desk: Desk) -> None:
    with Terminal(cluster.argv(LOGIN, "alice", ["mnrun", "shell", *SHAPE], desk.path)) as terminal:
        terminal.expect(r"\$ ")
        terminal.write("stty size\n")
        terminal.expect("50 200")
        terminal.resize(44, 111)
        terminal.write("until [ \"$(stty size)\" = '44 111' ]; do sleep 0.1; done; echo re''sized\n")
        terminal.expect("resized")
        terminal.write("sleep 600\n")
        wait_for(lambda: any(p.argv == ("sleep", "600") for p in cluster.processes()), "asleep")
        terminal.write("\x03")
        terminal.write("echo it en''ded $?\n")
        terminal.expect("it ended 130")
        terminal.write("exit 7\n")
        assert terminal.end() == 7


def test_a_shell_without_a_terminal(cluster: Cluster, desk: Desk) -> None:
    result = cluster.alice(["mnrun", "shell", *SHAPE], cwd=desk.path, stdin=b"mpirun uname -n </dev/null\nexit 4\n")
    assert result.code == 4
    assert len(set(result.out.split())) == 2, result


def test_check_asks_the_nodes_of_a_job(cluster: Cluster, desk: Desk) -> None:
    result = cluster.alice(["mnrun", "check", "-N", "2", "--json"], cwd=desk.path)
    assert result.code == 0, result
    assert len({row["node"] for row in json.loads(result.out)["findings"]}) == 2


def test_staging_sends_the_image_by_the_lease(cluster: Cluster, desk: Desk) -> None:
    """To both nodes, and then to the one that lacks it."""
    pair = cluster.nodes[:2]
    words = ("-N", "2", "--ntasks-per-node", "2", "-w", ",".join(pair), "--stage", "--stage-dir", "/var/tmp")
    line = ["mnrun", *words, "--quiet", "--image", OMPI5, "--", HELLO]
    first, second = (cluster.path("/var/tmp/mnrun.alice/images", node) for node in pair)
    check(cluster.alice(line, cwd=desk.path), *pair)
    (copy,) = first.iterdir()
    assert copy.name == f"sha256-{sha256(cluster.path(OMPI5).read_bytes()).hexdigest()}.sif"
    before = copy.stat()
    (there,) = second.iterdir()
    there.unlink()
    check(cluster.alice(line, cwd=desk.path), *pair)
    assert [path.name for path in second.iterdir()] == [copy.name]
    assert copy.stat().st_ino == before.st_ino
    for node in pair:
        cluster.root(node, "rm", "-r", "/var/tmp/mnrun.alice")


def test_a_service(cluster: Cluster, desk: Desk) -> None:
    a_service(cluster, desk, "--image", OMPI5)


@pytest.mark.skipif(not full(), reason="Ray starts slowly")
def test_ray(cluster: Cluster, desk: Desk) -> None:
    cluster.tool("images", "ray")
    cluster.alice(["mkdir", "desk.ray"], cwd=desk.path)
    desk.put("desk.ray/over", "")
    words = ["mnrun", *SHAPE[:-2], "--launcher", "ray", "--image", "/images/ray.sif", "--", "python3", "-c", ACTORS]
    result = cluster.alice(words, cwd=desk.path)
    nodes = [line for line in result.out.splitlines() if line.startswith("node")]
    assert (result.code, sorted(Counter(nodes).values())) == (7, [2, 2]), result  # Grid Engine chooses the nodes


@pytest.mark.usefixtures("bare")
def test_a_function_is_called_in_tasks_and_a_job_is_followed(cluster: Cluster, desk: Desk) -> None:
    follow_and_map(cluster, desk)


@pytest.mark.skipif(not full(), reason="--full: the same under Slurm is in every run")
def test_a_service_beside_a_job(cluster: Cluster, desk: Desk) -> None:
    beside_a_job(cluster, desk, "--image", OMPI5)
