"""The nouns: which cluster, which nodes, where its things lie."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import Unable

LOGIN = "login"
RUN = Path("/run/mnrun")
# The first is that of a cluster that asks for none, and of the tools that build the images.
DEBIANS = ("trixie", "bookworm", "bullseye", "sid")
USERS = {"root": 0, "alice": 1500, "bob": 1501, "carol": 1502}
SUBORDINATES = 1000000  # where their subordinate ids begin


@dataclass(frozen=True)
class Options:
    """How a cluster is to be; the variants exist because sites differ."""

    nodes: int = 4
    affinity: bool = False
    separate_home: bool = False
    bare_login: bool = False
    accounting: bool = False
    decoys: bool = False
    cgroup: bool = False
    private_tmp: bool = False
    impatient: bool = False
    sge: bool = False
    wrappers: bool = False
    pbs: bool = False
    kube: bool = False
    debian: str = DEBIANS[0]

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 250:
            raise Unable(f"{self.nodes} nodes: from 1 to 250 are possible")
        for name in ("affinity", "accounting", "cgroup", "private_tmp", "wrappers"):
            if self.scheduler != "slurm" and getattr(self, name):
                option = name.replace("_", "-")
                raise Unable(f"--{option} is a setting of Slurm, which a cluster with --{self.scheduler} has not")
        chosen = [f"--{name}" for name in ("sge", "pbs", "kube") if getattr(self, name)]
        if len(chosen) > 1:
            raise Unable(f"{' and '.join(chosen)}: a cluster has one scheduler")
        if self.kube and self.debian != DEBIANS[0]:
            raise Unable(f"--kube: its nodes are of {DEBIANS[0]}")

    @property
    def scheduler(self) -> str:
        return next((name for name in ("sge", "pbs", "kube") if getattr(self, name)), "slurm")

    @property
    def compute(self) -> list[str]:
        width = max(2, len(str(self.nodes)))
        return [f"node{number:0{width}}" for number in range(1, self.nodes + 1)]

    @property
    def everyone(self) -> list[str]:
        return [LOGIN, *self.compute]

    def address(self, node: str) -> str:
        """Addresses may repeat between clusters: none of them leaves its own bridge."""
        return f"10.77.0.{1 + self.everyone.index(node)}"


@dataclass(frozen=True)
class Cluster:
    """A cluster by name, running or not."""

    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", self.name):
            raise Unable(f"{self.name!r} is no name for a cluster: use a-z, 0-9 and '-'")

    @property
    def state(self) -> Path:
        return RUN / self.name

    @property
    def lock(self) -> Path:
        return RUN / f"{self.name}.lock"

    def place(self, node: str) -> Path:
        return self.state / "nodes" / node

    def netns(self, node: str) -> str:
        # No name has a dot in it, so no cluster's prefix is another one's.
        return f"mnrun.{self.name}.{node}"

    @property
    def ready(self) -> Path:
        """There once `up` has seen all nodes idle: what lacks it was left by a crash."""
        return self.state / "ready"

    @property
    def tree(self) -> Path:
        """What the nodes stand on."""
        return (self.state / "tree").resolve()

    @property
    def images(self) -> Path:
        """What the nodes see as /images."""
        return (self.state / "images").resolve()

    @property
    def below(self) -> list[Path]:
        """All that the nodes stand on, the upper first: a layer over the tree where there is one, and the tree."""
        over = self.state / "over"
        return [*([over.resolve()] if over.is_symlink() else []), self.tree]

    def save(self, options: Options, below: Sequence[Path], images: Path) -> None:
        """Keep what later verbs need to know; recipes may change while a cluster runs."""
        *over, tree = below
        (self.state / "tree").symlink_to(tree)
        for layer in over:
            (self.state / "over").symlink_to(layer)
        (self.state / "images").symlink_to(images)
        (self.state / "options.json").write_text(json.dumps(asdict(options)))

    def options(self) -> Options:
        """Those it was brought up with."""
        try:
            return Options(**json.loads((self.state / "options.json").read_text()))
        except FileNotFoundError:
            raise Unable(f"cluster {self.name!r} is not up: `scripts/cluster --name {self.name} up`") from None

    def node(self, name: str) -> str:
        """The same name, if there is such a node."""
        everyone = self.options().everyone
        if name not in everyone:
            raise Unable(f"there is no node {name!r}: {everyone[0]}, {everyone[1]} … {everyone[-1]}")
        return name

    def pid(self, node: str) -> int | None:
        """The node's first process as this machine numbers it; None while it is switched off."""
        try:
            pid = int((self.place(node) / "pid").read_text())
            there = os.stat(f"/proc/{pid}/ns/net").st_ino
            # Numbers come round: the one we noted must still live in our network.
            return pid if there == os.stat(f"/run/netns/{self.netns(node)}").st_ino else None
        except (FileNotFoundError, ValueError, ProcessLookupError, PermissionError):
            return None
