"""The stage of a fault: the cluster with a launch, whose processes an act finds and hurts."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from live.stage import LOGIN, USERS, Cluster, Process
from rehearsal import signals

from . import pods

ALICE = USERS[0]
RECORDS = "/home/alice/.mnrun"
SHORT = 5.0  # seconds of a fault that passes
# A generator with two stops. It prepares the ground before the first stop, commits the fault before the second, and
# mends everything after it, or where it is closed.
Act = Callable[["Scene"], Generator[None, None, None]]


@dataclass(frozen=True)
class Scene:
    """The cluster with the launch, and the jobs of its user."""

    cluster: Cluster

    def mine(self, *nodes: str) -> list[Process]:
        return [p for p in self.cluster.processes() if p.uid == ALICE and p.node in nodes]

    def named(self, name: str, *nodes: str) -> list[Process]:
        """Return the user's processes of that program. sshd changes its words, so the first part of them counts."""
        return [p for p in self.mine(*nodes) if os.path.basename(p.argv[0].split(":")[0].split(" ")[0]) == name]

    def jobs(self) -> list[str]:
        return self.cluster.jobs()

    @property
    def pods(self) -> bool:
        """Return whether the nodes of the launch are pods."""
        return self.cluster.model.options().kube

    def at(self, node: str) -> str:
        """Return the node as the launch knows it: under Kubernetes, its pod."""
        return pods.names(self.cluster).get(node, node) if self.pods else node

    def host(self, node: str) -> str:
        """Return the machine that is a node of the launch, or has its pod."""
        return pods.hosts(self.cluster).get(node, node) if self.pods else node

    def launcher(self) -> Process:
        """Return the launcher. What waits on the login node for a submitted job is none."""
        (one,) = [p for p in self.cluster.mnruns() if p.node != LOGIN] or self.cluster.mnruns()
        return one


def once(strike: Callable[[Scene], object]) -> Act:
    """Return the act of a fault that needs no ground and leaves nothing to mend."""

    def act(scene: Scene) -> Generator[None, None, None]:
        yield
        strike(scene)
        yield

    return act


def daemon(scene: Scene, name: str, node: str) -> Process:
    """Return a daemon of root's or Slurm's."""
    return outer(scene.cluster, node, scene.cluster.root(node, "pidof", "-s", name).strip())


def outer(cluster: Cluster, node: str, inside: str) -> Process:
    """Return the process that the node knows by the number `inside`."""
    network = os.stat(f"/run/netns/{cluster.model.netns(node)}").st_ino
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, StopIteration):
                names = next(x for x in (entry / "status").read_text().splitlines() if x.startswith("NSpid:"))
                if names.split()[-1] == inside and (entry / "ns/net").stat().st_ino == network:
                    pid = int(entry.name)
                    return Process(pid, entry.stat().st_uid, node, (), began=signals.began(pid))
    raise AssertionError(f"no process {inside} on {node}")
