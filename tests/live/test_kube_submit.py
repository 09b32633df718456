"""Kubernetes 1.20: jobs that are submitted. A launcher in an image of mnrun's starts MPI on nodes that call it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from published import checked

from .batch import forget
from .cells import HELLO
from .kube import BARE, LAUNCHER, LOOK, SECOND, TOKEN, UP, Lab, answers, server, spoke
from .kube import cluster as cluster
from .kube import lab as lab
from .kube import launcher_built as launcher_built
from .kube import launcher_image as launcher_image
from .reports import tells
from .services import ready
from .stage import LOGIN, Result, wait_for

pytestmark = SECOND


class Submitted:
    """A job whose nodes call its launcher."""

    def __init__(self, lab: Lab, image: str, *words: str) -> None:
        self.lab = lab
        done = lab.run("--kubernetes", f"launcher_image={image}", *words, verb="submit")
        assert done.code == 0, done
        self.name = done.out.strip()

    def pods(self, role: str) -> list[dict[str, Any]]:
        """Return its pods of a role, in the order of their names."""
        label = f"mnrun/job={self.name},mnrun/role={role}"
        found = json.loads(self.lab.kubectl("get", "pods", "-l", label, "-o", "json"))
        return sorted(found["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def up(self) -> None:
        self.saying(lambda text: text.count("up\n") == 4, "up")

    def saying(self, wanted: Callable[[str], bool], what: str) -> None:
        def said() -> str:
            label = f"mnrun/job={self.name},mnrun/role=launcher"
            return self.lab.cluster.alice(["kubectl", "logs", "-l", label, "--tail=-1"]).out

        wait_for(lambda: wanted(said()), what, 90, said, LOOK)

    def kill(self, role: str) -> None:
        """Kill the container of the last pod of a role, as its node may."""

        def known() -> str:  # kubelet tells of a container a moment after its begin
            return str(self.pods(role)[-1]["status"]["containerStatuses"][0].get("containerID", ""))

        wait_for(lambda: known() != "", "an id of the container")
        identity = known().removeprefix("docker://")
        self.lab.cluster.root(self.pods(role)[-1]["spec"]["nodeName"], "docker", "kill", identity)

    def ended(self) -> int:
        """Return the job's code. Its pods have all ended by themselves then, or do so within a minute."""
        code = self.lab.mnrun("wait", self.name).code

        def running() -> list[str]:
            nodes = [*self.pods("node"), *self.pods("launcher")]
            return [pod["metadata"]["name"] for pod in nodes if pod["status"]["phase"] in ("Running", "Pending")]

        wait_for(lambda: not running(), "ended", 60, lambda: str(running()), LOOK)
        return code


@pytest.fixture
def submit(lab: Lab, launcher_image: str) -> Iterator[Callable[..., Submitted]]:
    """Submits jobs, and removes all of them."""
    made: list[Submitted] = []

    def one(*words: str) -> Submitted:
        made.append(Submitted(lab, launcher_image, *words))
        return made[-1]

    yield one
    for each in made:
        lab.mnrun("cancel", each.name)
        lab.wait_gone(each.name)
    forget(lab.cluster)


def test_mpi_without_an_operator(lab: Lab, submit: Callable[..., Submitted]) -> None:
    job = submit("-x", "V=a b", "--", HELLO, "-e", "V", "-x", "7")
    followed = lab.mnrun("logs", "-f", job.name)
    lines = [line for line in followed.raw.splitlines(True) if line.startswith(b"rank ")]
    spoke(Result(7, b"".join(lines), ""), 7)
    assert job.ended() == 7
    assert "failed" in lab.mnrun("status", job.name).out
    assert job.name not in lab.mnrun("exec", job.name, "--", "true").out
    assert lab.mnrun("cancel", job.name).code == 0  # removes what is left of it
    lab.wait_gone(job.name)
    assert lab.mnrun("wait", job.name).code == 7


def test_bandwidth_between_nodes_that_call(submit: Callable[..., Submitted]) -> None:
    job = submit("--ntasks-per-node", "1", "--", "/opt/mpi/pingpong")
    assert job.ended() == 0
    job.saying(lambda text: re.search(r"\d", text) is not None, "measured")


def test_a_submitted_run_is_entered_and_cancelled(lab: Lab, submit: Callable[..., Submitted]) -> None:
    job = submit("--", *UP)
    job.up()
    entered = lab.mnrun("exec", job.name, "--rank", "3", "--", "sh", "-c", "hostname; exit 5")
    assert (entered.code, entered.out) == (5, f"{job.name}-node-1\n"), entered
    assert "running" in lab.mnrun("status", job.name).out
    assert "up" in lab.mnrun("why", job.name).out
    assert lab.mnrun("cancel", job.name).code == 0
    assert job.ended() == 143
    tells(checked("report", lab.mnrun("report", job.name, "--json").out), 143, UP[-1], ranks=0)
    lab.wait_gone(job.name)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_detached_service(lab: Lab, launcher_image: str, nodes: int) -> None:
    """No mnrun of the user's is needed while it lives, and nothing of it is left, nor of its token in a log."""
    line = ("--detach", "-N", str(nodes), "--image", BARE, "--kubernetes", f"launcher_image={launcher_image}", *TOKEN)
    given = lab.mnrun("serve", *line, "--", *server(3))
    assert given.code == 0, given
    name = given.out.strip()
    try:
        early = lab.mnrun("serve", "--show", name)
        assert early.code == 121, early
        found = ready(lab.cluster, name)
        assert LOGIN not in {process.node for process in lab.cluster.mnruns()}
        assert found["node"] == f"{name}-node-0"
        assert f"serves {name}-node-0:{found['port']}" in lab.mnrun("status").out
        answers(lab, name, found["page"])
        assert found["token"] not in lab.mnrun("logs", name).out
        assert lab.mnrun("serve", "--show", name, user="bob").code in (2, 123)
        assert lab.mnrun("cancel", name).code == 0
        assert lab.mnrun("wait", name).code == 143
        assert lab.mnrun("serve", "--show", name).code == 2
        lab.wait_gone(name)
    finally:
        lab.mnrun("cancel", name)
        forget(lab.cluster)


def test_a_detached_service_that_nobody_asks_ends(lab: Lab, launcher_image: str) -> None:
    line = ("--detach", "-N", "1", "--image", BARE, "--kubernetes", f"launcher_image={launcher_image}", "--idle", "1")
    name = lab.mnrun("serve", *line, "--", *server(0)).out.strip()
    try:
        assert lab.mnrun("wait", name).code == 0
        assert lab.mnrun("cancel", name).code == 0
        lab.wait_gone(name)
    finally:
        forget(lab.cluster)


def test_the_time_limit_of_nodes_that_call(submit: Callable[..., Submitted]) -> None:
    assert submit("-t", "0:06", "--", *UP).ended() == 124


@pytest.mark.parametrize(("role", "code"), [("node", 121), ("launcher", 137)])
def test_a_killed_pod_of_a_submitted_job(submit: Callable[..., Submitted], role: str, code: int) -> None:
    job = submit("--", *UP)
    job.up()
    job.kill(role)
    assert job.ended() == code


def test_a_deleted_pod_of_a_submitted_job(lab: Lab, submit: Callable[..., Submitted]) -> None:
    """Its guard is warned before it is killed, and hands that on to the program."""
    job = submit("--", "sh", "-c", "trap 'echo told; exit 9' TERM; echo up; while :; do sleep 0.1; done")
    job.up()
    lab.kubectl("delete", "pod", job.pods("node")[1]["metadata"]["name"], "--wait=false")
    assert job.ended() == 9
    job.saying(lambda text: "told" in text, "told")


def test_a_submitted_job_that_is_refused(lab: Lab) -> None:
    """Nothing is left of it. One without an image for its launcher is not made."""
    result = lab.run("--", HELLO, verb="submit")
    assert result.code == 2, result
    assert "containers/mnrun" in result.err, result
    lab.cluster.root(LOGIN, "kubectl", "create", "quota", "none", "-n", "lab", "--hard=secrets=1")
    try:
        refused = lab.run("--kubernetes", f"launcher_image={LAUNCHER}", "--", HELLO, verb="submit")
        assert refused.code == 123, refused
        lab.wait_gone("hello")
    finally:
        lab.cluster.root(LOGIN, "kubectl", "delete", "quota", "none", "-n", "lab")
