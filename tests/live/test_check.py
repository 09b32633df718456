"""`mnrun check`: here, on every node of an allocation, and on hosts without a scheduler."""

from __future__ import annotations

import json

import pytest

from .reports import only_line
from .stage import Cluster

pytestmark = pytest.mark.live


def test_check_of_this_machine_and_of_an_allocation(cluster: Cluster) -> None:
    """What is there with its version, what is not with what to do; nodes that are alike on one line."""
    here = cluster.alice(["mnrun", "check"])
    assert here.code == 0, here
    assert "login" in here.out and "rootless" in here.out, here
    shown = cluster.alice(["salloc", "-Q", "-w", "node[01-03]", "-N3", "--gpus-per-node=1", "mnrun", "check"])
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in shown.out.splitlines()}
    assert lines["apptainer"].startswith("ok node[01-03] 1."), shown
    assert "node[01-03] Open MPI 5.0.7" in lines["MPI"], shown
    assert "pmix and pmi2" in lines["srun"], shown


def test_check_names_what_does_not_work(cluster: Cluster) -> None:
    """On the one node where that is so; and nothing is usable where no runtime is on all nodes."""
    cluster.root("node02", "mv", "/usr/bin/apptainer", "/usr/bin/hidden")
    try:
        found = cluster.alice(["salloc", "-Q", "-w", "node[01-02]", "-N2", "mnrun", "check", "--json"])
    finally:
        cluster.root("node02", "mv", "/usr/bin/hidden", "/usr/bin/apptainer")
    rows = {(row["node"], row["subject"]): row for row in json.loads(found.out)}
    assert rows["node01", "apptainer"]["state"] == "ok", found
    assert rows["node02", "apptainer"]["found"] == "not installed", found
    assert "--module apptainer" in rows["node02", "apptainer"]["fix"]


@pytest.mark.xdist_group("engines")
def test_check_says_what_a_job_would_hear(engines: Cluster) -> None:
    """Docker, podman and ch-run where they work, and on the node where the first two do not."""
    engines.root("node02", "sh", "-c", "mv /run/docker.sock /run/away && mv /etc/subuid /etc/away")
    try:
        found = engines.alice(["salloc", "-Q", "-w", "node[01-02]", "-N2", "mnrun", "check", "--json"])
    finally:
        engines.root("node02", "sh", "-c", "mv /run/away /run/docker.sock && mv /etc/away /etc/subuid")
    rows = {(row["node"], row["subject"]): row for row in json.loads(found.out)}
    assert "as root's daemon" in rows["node01", "docker"]["found"], found
    for runtime in ("docker", "podman", "charliecloud"):
        assert rows["node01", runtime]["state"] == "ok", found
    assert rows["node02", "docker"]["found"] == "dockerd is not running on this node", found
    assert rows["node02", "podman"]["found"].startswith("alice has no subordinate ids here"), found
    assert "usermod" in rows["node02", "podman"]["fix"] and rows["node02", "charliecloud"]["state"] == "ok", found


def test_check_of_hosts(cluster: Cluster) -> None:
    """By ssh, under the names that were given; one that is not there is named."""
    found = cluster.alice(["mnrun", "check", "--hosts", "node[01-02]", "--json"])
    assert found.code == 0, found
    assert {row["node"] for row in json.loads(found.out)} == {"node01", "node02"}
    only_line(cluster.alice(["mnrun", "check", "--hosts", "nowhere"]), 121, "nowhere")
