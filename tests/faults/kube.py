"""Faults of Kubernetes, for acts.py."""

from __future__ import annotations

import json
import re
import shlex
import signal
import time
from collections.abc import Generator
from pathlib import Path

from live.stage import LOGIN, Process, wait_for
from live.stranger import at_once

from . import pods
from .phases import NODES, RANKS
from .scene import SHORT, Act, Scene, daemon, once
from .table import WORKER

HOME, SERVER = "/var/lib/kubernetes", "kube-apiserver"
Words = list[str]
URGENT = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}


def _clients(scene: Scene) -> list[Process]:
    pod = scene.at(WORKER)
    return [p for p in scene.named("kubectl", LOGIN) if "exec" in p.argv and pod in p.argv]


def _cancel(scene: Scene) -> None:
    for job in pods.launches(scene.cluster):
        done = scene.cluster.alice(["mnrun", "cancel", job])
        assert done.code == 0, done


def _deleted(*how: str) -> Act:
    return once(lambda scene: pods.kubectl(scene.cluster, "delete", "pod", scene.at(WORKER), "--wait=false", *how))


def _drained(scene: Scene) -> Generator[None, None, None]:
    yield
    host = scene.host(WORKER)
    words = ("--force", "--ignore-daemonsets", "--delete-emptydir-data")
    try:
        scene.cluster.root(LOGIN, "kubectl", "drain", host, *words)
        yield
    finally:
        scene.cluster.root(LOGIN, "kubectl", "uncordon", host)


def _crowded(scene: Scene) -> Generator[None, None, None]:
    """A pod with a higher priority wants the CPUs of a pod of the launch."""
    yield
    container = {"name": "urgent", "image": "localhost/pause:1", "resources": {"requests": {"cpu": "1500m"}}}
    at = {"kubernetes.io/hostname": scene.host(WORKER)}
    spec = {"priorityClassName": "urgent", "nodeSelector": at, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": spec}
    things = {"apiVersion": "v1", "kind": "List", "items": [URGENT, pod]}
    scene.cluster.put("/run/faults.json", json.dumps(things), uid=0)
    try:
        pods.kubectl(scene.cluster, "create", "-f", "/run/faults.json")
        yield
    finally:
        pods.kubectl(scene.cluster, "delete", "-f", "/run/faults.json")
        scene.cluster.root(LOGIN, "rm", "/run/faults.json")


def _killed(scene: Scene, name: str, node: str) -> Words:
    """Kill a daemon, and return its words."""
    process = daemon(scene, name, node)
    words = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
    process.send(signal.SIGKILL)
    wait_for(lambda: name not in scene.cluster.root(node, "ps", "-e", "-o", "comm=").split(), f"without {name}", 20)
    return words[:-1]


def _begun(scene: Scene, name: str, node: str, words: Words) -> None:
    """Start a daemon as inside/kube.sh has done."""
    words = ["env", "HOME=/root", "setsid", *words]
    line = f"cd {HOME} 2>/dev/null; exec {shlex.join(words)} >>/var/log/kube/{name}.log 2>&1 <&- &"
    scene.cluster.root(node, "sh", "-c", line)


def _kubelet_restarted(scene: Scene) -> None:
    host = scene.host(WORKER)
    _begun(scene, "kubelet", host, _killed(scene, "kubelet", host))


def _kubelet_killed(scene: Scene) -> Generator[None, None, None]:
    """The pods run on. Kubernetes calls the node lost after a while, and cannot end them."""
    yield
    host = scene.host(WORKER)
    words = _killed(scene, "kubelet", host)
    try:
        yield
    finally:
        _begun(scene, "kubelet", host, words)


def _server_restarted(scene: Scene) -> None:
    _begun(scene, SERVER, LOGIN, _killed(scene, SERVER, LOGIN))
    wait_for(lambda: scene.cluster.alice(["kubectl", "get", "pods"]).code == 0, "answering", 60)


def _server_stopped(scene: Scene) -> None:
    server = daemon(scene, SERVER, LOGIN)
    server.send(signal.SIGSTOP)
    time.sleep(SHORT)
    server.send(signal.SIGCONT)


def _eat(scene: Scene) -> None:
    """Let the last rank take more memory than its pod has."""
    (desk,) = scene.cluster.path("/home/alice").glob("desk.*")
    (desk / "eat").touch()


def _eat_all(scene: Scene) -> None:
    """Let the kernel kill the first process of that pod for it, as it kills all of a pod since Kubernetes 1.28."""
    for process in scene.mine(scene.at(WORKER)):
        if "\t1\n" in re.findall(r"NSpid:.*\n", Path(f"/proc/{process.pid}/status").read_text())[0]:
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    _eat(scene)


def _few(scene: Scene) -> Generator[None, None, None]:
    pods.kubectl(scene.cluster, "create", "quota", "few", "--hard=pods=1")
    try:
        yield
        yield
    finally:
        pods.kubectl(scene.cluster, "delete", "quota", "few")


ACTS: dict[str, Act] = {
    "SIGKILL of a kubectl": once(lambda scene: at_once(_clients(scene))),
    "mnrun cancel": once(_cancel),
    "a pod deleted": _deleted(),
    "a pod deleted by force": _deleted("--grace-period=0", "--force"),
    "a node drained": _drained,
    "a pod of higher priority": _crowded,
    "activeDeadlineSeconds": once(lambda scene: None),
    "memory of a rank": once(_eat),
    "memory of a pod": once(_eat_all),
    "kubelet of a worker killed": _kubelet_killed,
    "kubelet of a worker restarted": once(_kubelet_restarted),
    "API server restarted": once(_server_restarted),
    "API server stopped for 5 s": once(_server_stopped),
    "an image that cannot be pulled": once(lambda scene: pods.kubectl(scene.cluster, "uncordon", *NODES)),
    "a quota": _few,
}
assert RANKS == 4  # the last one is of the worker
