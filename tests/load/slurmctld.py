"""Count the questions to slurmctld, by sdiag."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from live.stage import LOGIN, Cluster

LISTS = ("REQUEST_JOB_INFO", "REQUEST_JOB_USER_INFO")  # those of squeue, which cost slurmctld the most


@dataclass(frozen=True)
class Questions:
    """The messages that slurmctld got, by type and by user. sdiag does not tell both together."""

    types: Mapping[str, int]
    users: Mapping[str, int]

    @property
    def all(self) -> int:
        return sum(self.types.values())

    @property
    def lists(self) -> int:
        return sum(self.types.get(name, 0) for name in LISTS)

    def of(self, users: Collection[str]) -> int:
        return sum(self.users.get(user, 0) for user in users)


def forget(cluster: Cluster) -> None:
    """Set slurmctld's counters to 0."""
    cluster.root(LOGIN, "sdiag", "--reset")


def asked(cluster: Cluster) -> Questions:
    """Return what slurmctld was asked since `forget`."""
    return parse(cluster.root(LOGIN, "sdiag", "--json"))


def parse(text: str) -> Questions:
    """Read the answer of `sdiag --json`, without sdiag's own questions."""
    found = json.loads(text)["statistics"]
    types = {entry["message_type"]: entry["count"] for entry in found["rpcs_by_message_type"]}
    users = {entry["user"]: entry["count"] for entry in found["rpcs_by_user"]}
    return Questions({name: count for name, count in types.items() if name != "REQUEST_STATS_INFO"}, users)
