"""Kubernetes 1.20, a real server with two nodes: ranks in pods, how they end, and why some do not start.

test_kube_submit.py has jobs that are submitted, and test_kube_texts.py rights and texts. All three run on two clusters
at once, since they wait for most of their time: `scripts/test --full kube kube_submit kube_texts`.
test_kubernetes.py has a stand-in for kubectl, which also fails on demand.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from .cells import HELLO
from .kube import BARE, FIRST, LOOK, SHAPE, TOKEN, UP, Lab, answers, server, spoke
from .kube import cluster as cluster
from .kube import lab as lab
from .reports import ranks
from .services import ready
from .stage import LOGIN, Cluster, wait_for
from .terminal import Terminal

pytestmark = FIRST
KUBELET = "/var/lib/kubelet/config.yaml"
NO_BASH = f"printf 'FROM {BARE}\\nRUN rm /bin/bash\\n' | docker build -q --network=none -t localhost/nobash:1 -"


@pytest.mark.parametrize("image", ["nosshd", "ompi4", "ompi5"])
def test_ranks_of_an_mpi(lab: Lab, image: str) -> None:
    result = lab.run("-x", "V=a b", "--", HELLO, "-e", "V", "-x", "7", image=f"localhost/{image}:1")
    spoke(result, 7)
    assert {rank.value for rank in ranks(result)} == {"a b"}, result


def test_bandwidth_between_pods(lab: Lab) -> None:
    result = lab.mnrun(*SHAPE[:-1], "1", "--image", BARE, "--", "/opt/mpi/pingpong")
    assert result.code == 0, result
    assert re.search(r"\d", result.out), result


def test_a_run_is_entered_and_looked_at(lab: Lab) -> None:
    with lab.running() as (job, name):
        assert {lab.node(f"{name}-{number}") for number in (0, 1)} == {"node01", "node02"}
        assert lab.mnrun("exec", name, "--rank", "3", "--", "sh", "-c", "hostname; exit 5").code == 5
        assert name in lab.mnrun("status").out
        assert lab.mnrun("cancel", name).code == 0
        assert job.end().code == 143


def test_a_service(lab: Lab) -> None:
    """It answers its user alone, through kubectl, and one beside it does so, too."""
    with lab.cluster.running(["mnrun", "serve", "-N", "2", "--image", BARE, *TOKEN, "--", *server(0)]) as job:
        name = re.findall(r"mnrun: job ([a-z0-9-]+):", job.saying(lambda said: ": job" in said.err, "named").err)[0]
        found = ready(lab.cluster, name)
        assert found["node"] == f"{name}-0"
        assert f"{name}-0:{found['port']}" in lab.mnrun("status").out
        answers(lab, name, found["page"])
        ask = f"GET {found['page'][21:]} HTTP/1.0\r\n\r\n".encode()
        plain = lab.cluster.alice(["mnrun", "proxy", name, "--port", str(found["port"])], ask)
        assert plain.raw.endswith(b"hello"), plain
        assert lab.mnrun("proxy", name).code == 125  # its image has no sshd
        beside = lab.mnrun("serve", "--beside", name, "--node", f"{name}-1", "--idle", "1", "--", *server(0)[4:])
        assert beside.code == 0, beside
        assert lab.mnrun("cancel", name).code == 0
        assert job.end().code == 143
    lab.wait_gone(name)


def test_interrupted(lab: Lab) -> None:
    line = ["mnrun", *SHAPE, "--image", BARE, "--", *UP]
    with Terminal(lab.cluster.argv(LOGIN, "alice", line, lab.desk.path)) as terminal:
        terminal.expect("up\r?\n")
        terminal.write("\x03")
        assert terminal.end() == 130


@pytest.mark.xdist_group("second")  # pytest-xdist makes the group kube_second of both
def test_a_killed_launcher(lab: Lab) -> None:
    """Its pods end by themselves, half a minute after the guards. What is left is known, and `clean` removes it."""
    with lab.running() as (_, name):
        lab.cluster.launcher().send(signal.SIGKILL)
        wait_for(lambda: not lab.cluster.mnruns(), "killed")

        def phases() -> set[str]:
            return {str(pod["status"]["phase"]) for pod in lab.pods()}

        assert phases() == {"Running"}
        wait_for(lambda: phases() == {"Failed"}, "over", 60, lambda: str(phases()), LOOK)
        (told,) = json.loads(lab.mnrun("status", name, "--json").out)["jobs"]
        assert (told["state"], told["code"]) == ("FAILED", 76), told
        cleaned = lab.mnrun("clean")
        assert (cleaned.code, cleaned.out.splitlines()[0]) == (0, f"removed {name}"), cleaned
    kept = lab.cluster.alice(["sh", "-c", "ls ~/.mnrun/jobs ~/.mnrun/kubernetes"]).out
    assert name not in kept


def test_a_killed_kubectl(lab: Lab) -> None:
    with lab.running() as (job, name):
        one = next(p for p in lab.cluster.processes() if f"{name}-1" in p.argv and "exec" in p.argv)
        one.send(signal.SIGKILL)
        ended = job.end()
        assert ended.code == 121, ended
        assert f"{name}-1" in ended.err, ended


def test_a_deleted_pod(lab: Lab) -> None:
    with lab.running() as (job, name):
        lab.kubectl("delete", "pod", f"{name}-1", "--wait=false")
        ended = job.end()
        assert ended.code == 121, ended
        assert f"{name}-1" in ended.err, ended
        assert "deleted" in ended.err, ended


def test_a_drained_node(lab: Lab) -> None:
    with lab.running() as (job, name):
        node = lab.node(f"{name}-1")
        words = ("--force", "--ignore-daemonsets", "--delete-emptydir-data")
        lab.cluster.root(LOGIN, "kubectl", "drain", node, *words)
        try:
            ended = job.end()
            assert ended.code == 121, ended
            assert f"{name}-1" in ended.err, ended
        finally:
            lab.cluster.root(LOGIN, "kubectl", "uncordon", node)


def test_a_lost_node(lab: Lab) -> None:
    with lab.running() as (job, name):
        node = lab.node(f"{name}-1")
        lab.cluster.tool("kill", node)
        try:
            ended = job.end()
            assert ended.code == 121, ended
            assert f"{name}-1" in ended.err, ended
        finally:
            lab.cluster.tool("heal", node)


def test_the_time_limit(lab: Lab) -> None:
    result = lab.run("-t", "0:05", "--", "sleep", "600")
    assert result.code == 124, result


def test_too_much_memory(lab: Lab) -> None:
    """With control groups of version 1 the rank alone is killed, and its pod lives on, so the guard names the limit."""
    program = "import os; b = os.environ['OMPI_COMM_WORLD_RANK'] == '3' and bytearray(b'1') * 10**9"
    result = lab.run("--mem", "300M", "--", "python3", "-c", program)
    assert result.code == 137, result
    assert "killed: the job has 300 MB there" in result.err, result


def keep_free(cluster: Cluster, memory: str) -> None:
    """Start kubelet anew on each node, which then evicts pods where less memory is free."""
    for node in cluster.nodes:
        pid = cluster.root(node, "pgrep", "-x", "kubelet").strip()
        words = cluster.root(node, "cat", f"/proc/{pid}/cmdline").split("\0")[:-1]
        cluster.root(node, "sed", "-i", f"s/memory.available: .*}}/memory.available: {memory}}}/", KUBELET)
        cluster.root(node, "kill", pid)
        wait_for(partial(lambda place: not place.exists(), cluster.path(f"/proc/{pid}", node)), "ended", 20)
        cluster.root(node, "sh", "-c", f"exec setsid {shlex.join(words)} >>/var/log/kube/kubelet.log 2>&1 <&- &")


def test_nodes_low_on_memory(lab: Lab) -> None:
    """Both pods are evicted at once, which is no cancel. kubelet looks every 10 s, and pods start in less."""

    def low() -> list[str]:
        pressure = '{.items[*].status.conditions[?(@.type=="MemoryPressure")].status}'
        return lab.kubectl("get", "nodes", "-o", f"jsonpath={pressure}").split()

    keep_free(lab.cluster, '"99%"')
    try:
        wait_for(lambda: low() == ["True", "True"], "low on memory", 60, lambda: str(low()), LOOK)
        ended = lab.run(
            "--kubernetes", "tolerations=node.kubernetes.io/memory-pressure:NoSchedule", "--", "sleep", "600"
        )
        assert ended.code == 137, ended
        assert "--kubernetes" not in ended.err, ended
    finally:
        keep_free(lab.cluster, "100Mi")


NEVER = [
    (("--image", "localhost/none:1"), 125, "cannot be pulled"),
    (("--image", "localhost/nobash:1"), 125, "its image has no bash"),
    (("--image", BARE, "--gpus-per-node", "8", "--start-timeout", "4"), 124, "nvidia.com/gpu"),
    (("--image", BARE, "--cpus-per-task", "64", "--start-timeout", "4"), 124, "cpu"),
]


def test_pods_that_never_start(lab: Lab) -> None:
    for node in lab.cluster.nodes:
        lab.cluster.root(node, "sh", "-c", NO_BASH)
    lines = [["mnrun", *SHAPE, *words, "--", "true"] for words, _, _ in NEVER]
    with ExitStack() as stack:  # all at once, since kubelet pulls more than once
        jobs = [stack.enter_context(lab.cluster.running(line)) for line in lines]
        for job, (_, code, said) in zip(jobs, NEVER):
            result = job.end()
            assert result.code == code, result
            assert said in result.err, result


def test_without_rights(lab: Lab) -> None:
    result = lab.mnrun(*SHAPE, "--image", BARE, "--", "true", user="bob")
    assert result.code == 123, result
    assert "bob may not create" in result.err, result
    # Its removal is refused, too, so mnrun keeps the name.
    lab.cluster.root(LOGIN, "rm", "-rf", "/home/bob/.mnrun/kubernetes")


@pytest.fixture
def quota(cluster: Cluster) -> Iterator[None]:
    cluster.root(LOGIN, "kubectl", "create", "quota", "few", "-n", "lab", "--hard=pods=1")
    yield
    cluster.root(LOGIN, "kubectl", "delete", "quota", "few", "-n", "lab")


@pytest.mark.usefixtures("quota")
def test_a_quota(lab: Lab) -> None:
    result = lab.run("--", "true")
    assert result.code == 123, result
    assert "few" in result.err, result
