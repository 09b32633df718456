"""The stage of a fault under Kubernetes: pods, which are the nodes of a launch there, and holds of its phases.

A program that the guards call waits in each pod, as on the nodes of other schedulers. In `prepare` no node takes pods.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from live.stage import LOGIN, Cluster, Desk, Job, wait_for

from . import checker
from .phases import LATE, NODES, RANKS, SHIM, SHIMS

IMAGE, LAUNCHER = "localhost/ompi5:1", "localhost/mnrun:1"
KINDS = "pods,jobs,configmaps,secrets,services,networkpolicies,persistentvolumeclaims,resourcequotas"
UNENDED = "status.phase!=Succeeded,status.phase!=Failed"
# Caches, and what kubelet has: mounts, and a port of any number for each start.
NOT_OURS = re.compile(r"/\.kube/cache|/kubernetes\.json$|: mount at /(var/lib/kubelet|run/docker)|port tcp \d{5} of 0")
# A guard starts what is in a pod by this.
CASES = {**SHIMS, "await": ("setsid", "*'--fork bash --norc -p -c trap'*")}
PROGRAMS = {f"/usr/local/bin/{program}" for program, _ in (*CASES.values(), LATE)}


def kubectl(cluster: Cluster, *words: str) -> str:
    return cluster.root(LOGIN, "kubectl", "-n", "lab", *words)


def there(cluster: Cluster, role: str = "node") -> list[dict[str, Any]]:
    """Return the pods of a launch with that role, in the order of their names."""
    found = json.loads(kubectl(cluster, "get", "pods", "-l", f"mnrun/role={role}", "-o", "json"))["items"]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def names(cluster: Cluster) -> dict[str, str]:
    """Return node of a launch -> its pod, as far as there are any."""
    return {node: str(pod["metadata"]["name"]) for node, pod in zip(NODES, there(cluster))}


def hosts(cluster: Cluster) -> dict[str, str]:
    """Return node of a launch -> the node of the cluster on which its pod is."""
    return {node: str(pod["spec"].get("nodeName", "")) for node, pod in zip(NODES, there(cluster))}


def launches(cluster: Cluster) -> list[str]:
    """Return the names of all jobs of which objects are there."""
    found = json.loads(kubectl(cluster, "get", KINDS, "-l", "mnrun/job", "-o", "json"))["items"]
    return sorted({str(one["metadata"]["labels"]["mnrun/job"]) for one in found})


def picture(cluster: Cluster) -> checker.Picture:
    """Return what is on all nodes, and the objects of the tests' namespace, without caches and what is of kubelet."""
    objects = Counter(f"object {name}" for name in kubectl(cluster, "get", KINDS, "-o", "name").split())
    nodes = checker.picture(cluster.model)
    return objects + Counter({line: nodes[line] for line in nodes if not NOT_OURS.search(line)})


@dataclass(frozen=True)
class Hold:
    """A phase that a launch on pods will stay in. The desk is a directory of each pod."""

    cluster: Cluster
    desk: Desk
    phase: str

    @property
    def image(self) -> Sequence[str]:
        binds = (self.desk.path, f"{self.desk.path}/bin:/usr/local/bin")
        return ("--image", IMAGE, *(word for bind in binds for word in ("--bind", bind)))

    @property
    def program(self) -> Sequence[str]:
        """Return a program whose ranks say `up`, and end once the desk has the file `go`. The last one takes memory
        where it has the file `eat`."""
        go, eat = f"{self.desk.path}/go", f"{self.desk.path}/eat"
        code = (
            "import os, time\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nos.write(2, b'up\\n')\n"
            f"while not os.path.exists({go!r}):\n time.sleep(0.2)\n"
            f" if MPI.COMM_WORLD.rank == {RANKS - 1} and os.path.exists({eat!r}): bytearray(b'1') * 10**9\n"
            "MPI.COMM_WORLD.Barrier()\n"
        )
        return ("python3", "-c", code)

    def written(self) -> str:
        return ""

    def reached(self, job: Job) -> None:
        """Return when the launch is in the phase."""
        if self.phase == "prepare":
            self._of(job, lambda: len(there(self.cluster)) == len(NODES))
        if self.phase in ("run", "stop"):
            job.saying(lambda said: said.err.count("up\n") >= RANKS, "running on all ranks")
        if self.phase == "stop":
            self.put(*LATE)
            self.end()
        if self.phase in CASES:
            self._of(job, lambda: len(self._held()) == len(NODES))

    def _of(self, job: Job, condition: Any) -> None:
        job.saying(lambda _: condition(), f"in the phase {self.phase}")

    def _held(self) -> set[str]:
        return {process.node for process in self.cluster.processes() if PROGRAMS & set(process.argv[:2])}

    def put(self, program: str, cases: str) -> None:
        text = SHIM.format(cases=cases, open=f"{self.desk.path}/open", program=program)
        self.desk.put(f"bin/{program}", text, 0o755)

    def open(self) -> None:
        """Let the launch go on."""
        self.desk.put("open", "")
        if self.phase == "prepare":
            kubectl(self.cluster, "uncordon", *NODES)

    def end(self) -> None:
        self.desk.put("go", "")


@contextmanager
def held(cluster: Cluster, phase: str, desk: Desk) -> Iterator[Hold]:
    """Prepare a hold, once the pods of the last launch have gone, and take it away at the end."""
    quiet(cluster, 60)
    cluster.alice(["mkdir", f"{desk.path}/bin"])
    hold = Hold(cluster, desk, phase)
    if phase in CASES:
        hold.put(*CASES[phase])
    if phase == "prepare":
        kubectl(cluster, "cordon", *NODES)
    try:
        yield hold
    finally:
        if phase == "prepare":
            kubectl(cluster, "uncordon", *NODES)


def quiet(cluster: Cluster, seconds: float) -> list[str]:
    """Return the processes in pods after that long, and the pods that have not ended, or [] as soon as none is left,
    nor a container: dockerd has processes of its own for each. They end by themselves. A pod that no node has taken yet
    has no process."""

    def busy() -> list[str]:
        inside = [str(process) for process in cluster.processes() if process.node not in (LOGIN, *cluster.nodes)]
        inside = inside or kubectl(cluster, "get", "pods", "-o", "name", "--field-selector", UNENDED).split()
        there = (node for node in cluster.nodes if not inside and cluster.model.pid(node))
        return inside or [line for node in there for line in cluster.root(node, "docker", "ps", "-q").split()]

    try:
        wait_for(lambda: not busy(), "quiet", seconds)
    except AssertionError:
        return busy()
    return []
