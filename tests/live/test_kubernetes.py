"""Kubernetes, by a stand-in for kubectl (rehearsal/kube/standin.py): runs on pods, their ends, and what is left.

The pods are namespaces of processes on two nodes of the cluster of Slurm, of which nobody asks Slurm for any.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.acts import ACTS
from faults.scene import Scene
from faults.table import FAULTS
from published import checked
from rehearsal.kube import standin

from .batch import programs
from .cells import HELLO, full
from .reports import check
from .stage import LOGIN, Cluster, Desk, Job, Result, wait_for
from .terminal import Terminal

SHAPE = ("-N", "2", "--ntasks-per-node", "2", "--image", "org/app:1")
SLEEP = (*SHAPE, "--", "sh", "-c", "echo up; exec sleep 300")


class Site:
    """A user of Kubernetes, who has this desk as home."""

    def __init__(self, cluster: Cluster, desk: Desk) -> None:
        self.cluster, self.desk = cluster, desk
        self("mkdir", "-p", "bin", ".config/mnrun", ".kube-standin")
        desk.put("bin/kubectl", Path(standin.__file__).read_bytes(), 0o755)
        desk.put(".config/mnrun/config.toml", 'scheduler = "kubernetes"\npoll = 2\n')

    def words(self, *words: str) -> list[str]:
        home = self.desk.path
        around = (f"HOME={home}", f"PATH={home}/bin:/usr/local/bin:/usr/bin:/bin", "KUBE_HOSTS=node01 node02")
        return ["env", *around, "LANG=C.UTF-8", *words]

    def __call__(self, *words: str) -> Result:
        return self.cluster.alice(self.words(*words), cwd=self.desk.path)

    @contextmanager
    def running(self, *words: str) -> Iterator[tuple[Job, str]]:
        """Yield a run whose ranks are up, and the name of its job."""
        job = Job(self.cluster.argv(LOGIN, "alice", self.words("mnrun", *words), self.desk.path))
        try:
            said = job.saying(lambda result: result.out.count("up") == 4, "up")
            yield job, re.findall(r"mnrun: job ([a-z0-9-]+):", said.err)[0]
        finally:
            job.kill() if job.process.poll() is None else None

    def objects(self) -> list[str]:
        """Return the names of all objects in the cluster, and what mnrun keeps of jobs."""
        found = self("find", ".kube-standin", ".mnrun/kubernetes", "-type", "f", "-name", "*.*", "!", "-name", "log.*")
        return found.out.split()

    def clean(self) -> None:
        wait_for(lambda: self.objects() == [], "without objects", 60, lambda: str(self.objects()))
        assert self("ls", ".mnrun/kubernetes").out == ""
        assert self.cluster.wait_clean(30, besides="/desk.") == []

    def kill(self, job: str, number: int, why: str = "now") -> None:
        """End the first process of a pod."""
        file = f".kube-standin/Pod.{job}-{number}"
        pod = json.loads(self.desk.read(file))
        pod["metadata"]["killed"] = why
        self.desk.put(file, json.dumps(pod))

    def fault(self, word: str, pod: str) -> None:
        self.desk.put(".kube-standin/faults", f"{word} {pod}\n")


@pytest.fixture
def site(cluster: Cluster, desk: Desk) -> Site:
    return Site(cluster, desk)


@pytest.mark.parametrize("words", [(), ("--launcher", "env")])
def test_ranks_in_pods(site: Site, words: tuple[str, ...]) -> None:
    result = site("mnrun", *SHAPE, *words, "--", *((HELLO,) if not words else ("hostname",)))
    assert result.code == 0, result
    if words:
        assert site("mnrun", *SHAPE, *words, "--", "sh", "-c", "exit 7").code == 7
        lacks = site("mnrun", *SHAPE, *words, "--", "./none")
        assert lacks.code == 127, lacks
        assert "the container has no program" in lacks.err, lacks
        assert sorted(programs(result.out).split()) == ["node01", "node01", "node02", "node02"], result
    else:
        check(Result(result.code, result.raw, result.err), "node01", "node02")
    site.clean()


NEVER = {
    "missing": (125, "cannot be pulled"),
    "config": (125, 'configmap "settings" not found'),
    "nobash": (125, "image has no sh"),
    "big": (124, "too little nvidia.com/gpu"),
}


def test_pods_that_never_start(site: Site) -> None:
    for tag, (code, word) in NEVER.items():
        result = site("mnrun", "-N", "2", "--start-timeout", "2", "--image", f"org/app:{tag}", "--", "true")
        assert result.code == code, result
        assert word in result.err, result
        assert site.objects() == []
    site.clean()


def test_cancelled_while_its_pods_wait(site: Site) -> None:
    words = ("-N", "2", "--start-timeout", "60", "--image", "org/app:big", "--", "true")
    with site.cluster.running(site.words("mnrun", "run", *words)) as job:
        job.saying(lambda result: "too little" in result.err, "waiting")
        (name,) = site("ls", ".mnrun/kubernetes").out.split()
        assert site("mnrun", "cancel", name).code == 0
        ended = job.end(20)
        assert ended.code == 143, ended
        assert "was cancelled" in ended.err, ended
    submitted = site("mnrun", "submit", *words[4:]).out.strip()
    assert site("mnrun", "cancel", submitted).code == 0
    assert site("mnrun", "wait", submitted).code == 143
    site.clean()


def test_a_cluster_that_takes_no_pods(site: Site) -> None:
    quota = 'pods "NAME" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
    right = 'pods is forbidden: User "alice" cannot create resource "pods" in API group "" in the namespace "default"'
    for refused, words in ((f"Pod {quota}", "the quota few"), (f"Pod,ConfigMap {right}", "alice may not create pods")):
        site.desk.put(".kube-standin/refused", refused)
        result = site("mnrun", *SHAPE, "--", "true")
        assert result.code == 123, result
        assert words in result.err, result
    site("rm", ".kube-standin/refused")
    assert site("mnrun", *SHAPE, "--kubernetes", "context=nowhere", "--", "true").code == 123
    site.clean()


def test_interrupted(site: Site) -> None:
    with Terminal(site.cluster.argv(LOGIN, "alice", site.words("mnrun", *SLEEP), site.desk.path)) as terminal:
        terminal.expect("up\r?\n")
        terminal.write("\x03")
        assert terminal.end() == 130
    site.clean()


def test_a_run_is_entered_and_cancelled_from_elsewhere(site: Site) -> None:
    with site.running(*SLEEP) as (job, name):
        assert site("mnrun", "exec", name, "--node", f"{name}-1", "--", "hostname").out.split() == ["node02"]
        assert site("mnrun", "exec", name, "--rank", "3", "--", "sh", "-c", "hostname; exit 5").code == 5
        status = site("mnrun", "status")
        assert name in status.out, status
        assert "running" in status.out, status
        used = checked("top", site("mnrun", "top", "--once", "--json", name).out)
        ranks = {node["node"]: [rank["rank"] for rank in node["ranks"]] for node in used["nodes"]}
        assert ranks == {f"{name}-0": [0, 1], f"{name}-1": [2, 3]}, used
        assert site("mnrun", "cancel", name).code == 0
        ended = job.end()
        assert ended.code == 143, ended
        assert "was cancelled" in ended.err, ended
    site.clean()


@pytest.mark.skipif(not full(), reason="--full: it takes samples for seconds")
def test_a_watched_run(site: Site) -> None:
    result = site("mnrun", "--watch", "1", *SHAPE, "--launcher", "env", "--", "sleep", "4")
    assert (result.code, "used: CPU " in result.err) == (0, True), result
    site.clean()


def test_a_submitted_job(site: Site) -> None:
    """It needs no mnrun while it runs. Its name is its id, and its output is that of its pod."""
    program = 'echo "up $MNRUN_X"; until [ -e "$HOME/go" ]; do sleep 0.1; done; exit 4'
    submitted = site("mnrun", "submit", *SHAPE[4:], "--launcher", "env", "-x", "MNRUN_X=a b", "--", "sh", "-c", program)
    assert submitted.code == 0, submitted
    name = submitted.out.strip()
    wait_for(lambda: "running" in site("mnrun", "status", name).out, "running")
    entered = site("mnrun", "exec", name, "--", "sh", "-c", "echo in; exit 5")
    assert (entered.code, entered.out) == (5, "in\n"), entered
    site.fault("zero", name)  # kubectl ends early, with 0 (kubernetes issue 73056)
    assert site("mnrun", "exec", name, "--", "sleep", "60").code == 121
    site("rm", ".kube-standin/faults")
    assert "up a b" in site("mnrun", "why", name).out
    site.desk.put("go", "")
    followed = site("mnrun", "logs", "-f", name)
    assert "up a b" in followed.out, followed
    assert site("mnrun", "wait", name).code == 4
    assert site("mnrun", "cancel", name).code == 0
    site.clean()


def test_what_a_killed_launcher_leaves_is_found_and_removed(site: Site) -> None:
    with site.running(*SLEEP) as (_, name):
        site.cluster.launcher().send(signal.SIGKILL)
        assert name in site("mnrun", "status").out
        site.kill(name, 0)
        site.kill(name, 1)
        gone: list[str] = []

        def removed() -> bool:
            gone.append(site("mnrun", "clean").out)
            return f"removed {name}\n" in gone[-1]

        wait_for(removed, "over and removed", 60)
    assert f"/.mnrun/jobs/{name}-" in gone[-1]
    assert "a run that was killed" not in "".join(gone[:-1])
    assert name not in site("ls", ".mnrun/jobs").out
    site.clean()


def test_a_connection_that_ends_early(site: Site) -> None:
    """kubectl may exit with 0 (kubernetes issue 73056), and what it has started goes on (89031)."""
    for word, pod in (("zero", 0), ("kill", 1), *((("zero", 1), ("drop", 1)) if full() else ())):
        with site.running(*SLEEP) as (job, name):
            if word == "kill":
                own = [one for one in site.cluster.processes() if f"{name}-{pod}" in one.argv and "exec" in one.argv]
                own[0].send(signal.SIGKILL)
            else:
                site.fault(word, f"{name}-{pod}")
            ended = job.end()
            assert ended.code == 121, ended
            assert f"{name}-{pod}" in ended.err, ended
    site.clean()


def test_pods_that_end(site: Site) -> None:
    for change, code, words in (("oom", 137, "limit is 1024Mi"), ("delete", 121, "deleted"), ("-t", 124, "time limit")):
        limit = ("-t", "0:0:04") if change == "-t" else ()
        with site.running("--mem", "1G", *limit, *SLEEP) as (job, name):
            if change == "delete":
                site("kubectl", "delete", "pods", f"{name}-1", "--wait=false")
            elif change == "oom":
                site.kill(name, 1, "oom")
            ended = job.end()
            assert ended.code == code, ended
            assert words in ended.err, ended
            assert change == "-t" or f"{name}-1" in ended.err, ended
    site.clean()


# A program like that of the fault suite (tests/faults), whose processes have its marks.
RANKS = "import os, time; print('up', flush=True)\nwhile not os.path.exists('/nowhere'): time.sleep(0.2)"


@pytest.mark.parametrize("name", ["SIGKILL of a rank", "SIGKILL of a guard"])
def test_fault(site: Site, name: str) -> None:
    """Cells of the fault suite, which `scripts/test --full kube_faults` plays on a real server."""
    with site.running(*SHAPE, "--", "python3", "-c", RANKS) as (job, launch):
        fault, act = FAULTS[name], ACTS[name](Scene(site.cluster))
        next(act)
        next(act)
        ended = job.end()
        assert ended.code in fault.ends("run", "kube"), ended
        assert f"{launch}-1" in ended.err, ended
    site.clean()


@pytest.mark.skipif(not full(), reason="with --full: 30 s")
def test_a_kubectl_that_outlives_its_pod(site: Site) -> None:
    """Nobody tells the client (kubernetes issue 129144)."""
    with site.running(*SLEEP) as (job, name):
        site.fault("outlive", f"{name}-1")
        site.kill(name, 1)
        ended = job.end()
        assert ended.code == 121, ended
        assert f"{name}-1" in ended.err, ended
    site.clean()


@pytest.mark.skipif(not full(), reason="with --full: 20 s")
def test_a_gateway_without_an_end_of_input(site: Site) -> None:
    site.fault("deaf", "*")
    result = site("mnrun", *SHAPE, "--", "true")
    assert result.code == 124, result
    assert "gateway" in result.err, result
    site.clean()
