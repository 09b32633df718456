"""A job whose nodes call a launcher. What its pods would run runs in containers on nodes, and mnrun as the launcher.

The containers have neither an sshd nor mnrun. No kubectl is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mnrun.planning.layout import lay_out
from mnrun.schedulers.kubernetes import detached, pods
from mnrun.schedulers.kubernetes.objects import Asked
from unit.schedulers.kubernetes.jobs import job

from .cells import HELLO, NOSSHD
from .stage import LOGIN, Cluster, Desk, Job

SHAPE = ("-N", "2", "--ntasks-per-node", "2", "--image", "org/app:1")
SECRET = "5" * 64
NODES = ("node01", "node02")


class Site:
    """The objects of a job, whose pods are on the nodes of a cluster."""

    def __init__(self, cluster: Cluster, desk: Desk, *words: str) -> None:
        self.cluster, self.home = cluster, desk.path
        spec = job(ntasks_per_node="2", kubernetes="launcher_image=site/mnrun:1", start_timeout="15s")
        layout = lay_out(spec, None)
        told = (*SHAPE, "--start-timeout", "15s", *words)
        own = pods.settings(spec) | {"name": pods.Said("x", "")}
        *found, node = pods.plain(detached.objects(Asked(spec, layout, own, "", told, SECRET)))
        found += detached.apart(node)
        self.text = desk.put("call.sh", next(one["data"]["call.sh"] for one in found if one["kind"] == "ConfigMap"))
        self.launcher = found[0]["spec"]["template"]["spec"]["containers"][0]
        self.pods = [one["spec"]["containers"][0] for one in found if one["kind"] == "Pod"]

    def _words(self, container: dict[str, Any], secret: str) -> list[str]:
        values = {one["name"]: one.get("value", secret) for one in container["env"]}
        return ["env", f"HOME={self.home}", *(f"{name}={value}" for name, value in values.items())]

    @contextmanager
    def pod(self, number: int, secret: str = SECRET) -> Iterator[Job]:
        node, command = NODES[number], [*self.pods[number]["command"]]
        command[-2:] = LOGIN, "5"  # no name of a Service is here
        around = ["apptainer", "-s", "exec", "-C", "--writable-tmpfs", "-B", f"{self.text}:{detached.TEXT}/call.sh"]
        words = [*around, NOSSHD, *self._words(self.pods[number], secret), *command]
        with self.cluster.running(words, node=node) as it:
            yield it

    @contextmanager
    def run(self) -> Iterator[Job]:
        with self.cluster.running([*self._words(self.launcher, SECRET), *self.launcher["command"]]) as it:
            yield it


SLEEP = ("--launcher", "env", "--", "sh", "-c", "echo up; exec sleep 300")
UP = "up\n" * 4


def test_ranks_on_nodes_that_call(cluster: Cluster, desk: Desk) -> None:
    """The launcher's code is the job's. A stranger at its port gets nothing, and no rank gets the secret."""
    site = Site(cluster, desk, "--mpi", "openmpi", "--", "sh", "-c", f"{HELLO} && env && exit 7")
    says = f"until exec 3<>/dev/tcp/{LOGIN}/{detached.PORT}; do :; done; echo x-node-0 1 2 >&3; cat <&3"
    beset = cluster.running(["bash", "-c", says], node="node01", user="bob")
    with beset as bob, site.run() as launcher, site.pod(0) as first, site.pod(1) as second:
        result = launcher.end()
        assert result.code == 7 and result.out.count("of 4") == 4 and "PWD=" in result.out, result
        assert SECRET not in result.out + result.err
        assert "1 stranger connected" in result.err and bob.end().out == ""
        assert [each.end().code for each in (first, second)] == [0, 0]


def test_a_pod_that_never_calls(cluster: Cluster, desk: Desk) -> None:
    """One has another secret, and the other one does not start."""
    site = Site(cluster, desk, "--", "true")
    with site.run() as launcher, site.pod(0, "6" * 64) as wrong:
        result = launcher.end()
        assert result.code == 121 and len(result.err.splitlines()) == 1, result
        assert "x-node-[0-1]: it did not call within 15 s" in result.err
        assert "code 75" in wrong.end().err


def test_the_end_of_a_pod(cluster: Cluster, desk: Desk) -> None:
    site = Site(cluster, desk, *SLEEP)
    with site.run() as launcher, site.pod(0) as first, site.pod(1) as second:
        launcher.saying(lambda said: said.out == UP, "up")
        end(cluster, "node02", "call.sh")
        result = launcher.end()
        assert result.code == 121 and "x-node-1" in result.err, result
        assert first.end().code == 76 and second.end(20).code


def test_the_end_of_the_launcher(cluster: Cluster, desk: Desk) -> None:
    site = Site(cluster, desk, *SLEEP)
    with site.run() as launcher, site.pod(0) as first, site.pod(1) as second:
        launcher.saying(lambda said: said.out == UP, "up")
        end(cluster, LOGIN, "mnrun run")
        assert [each.end().code for each in (first, second)] == [76, 76]


def end(cluster: Cluster, node: str, words: str) -> None:
    """Kill the oldest process of alice's with these words."""
    cluster.root(node, "pkill", "-KILL", "-o", "-u", "alice", "-f", words)
