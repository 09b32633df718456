"""`mnrun check`: here, on every node of an allocation, and on hosts without a scheduler."""

from __future__ import annotations

from published import checked

from .batch import of_modules
from .cells import HELLO, MADE, OMPI5
from .reports import mine, only_line
from .stage import LOGIN, Cluster, Desk, wait_for

AWAY = "/usr/hidden"
RUNTIMES = ("/usr/bin/apptainer", "/usr/bin/podman", "/usr/bin/ch-run")


def test_check_of_this_machine_and_of_an_allocation(cluster: Cluster) -> None:
    here = cluster.alice(["mnrun", "check"])
    assert here.code == 0, here
    assert "login" in here.out and "rootless" in here.out, here
    shown = cluster.alice(["salloc", "-Q", "-w", "node[01-03]", "-N3", "--gpus-per-node=1", "mnrun", "check"])
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in shown.out.splitlines()}
    assert lines["apptainer"].startswith("ok node[01-03] 1."), shown
    assert "node[01-03] Open MPI 5.0.7" in lines["MPI"], shown
    assert "pmix and pmi2" in lines["srun"], shown


def test_check_names_what_does_not_work(cluster: Cluster) -> None:
    cluster.root("node02", "mv", "/usr/bin/apptainer", "/usr/bin/hidden")
    try:
        found = cluster.alice(["salloc", "-Q", "-w", "node[01-02]", "-N2", "mnrun", "check", "--json"])
    finally:
        cluster.root("node02", "mv", "/usr/bin/hidden", "/usr/bin/apptainer")
    rows = {(row["node"], row["subject"]): row for row in checked("check", found.out)["findings"]}
    assert rows["node01", "apptainer"]["state"] == "ok", found
    assert rows["node02", "apptainer"]["found"] == "not installed", found
    assert "--module apptainer" in rows["node02", "apptainer"]["fix"]


def test_check_says_what_a_job_would_hear(engines: Cluster) -> None:
    """Docker, podman and ch-run where they work, and on the node where the first two do not."""
    engines.root("node02", "sh", "-c", "mv /run/docker.sock /run/away && mv /etc/subuid /etc/away")
    try:
        found = engines.alice(["salloc", "-Q", "-w", "node[01-02]", "-N2", "mnrun", "check", "--json"])
    finally:
        engines.root("node02", "sh", "-c", "mv /run/away /run/docker.sock && mv /etc/away /etc/subuid")
    rows = {(row["node"], row["subject"]): row for row in checked("check", found.out)["findings"]}
    assert "as root's daemon" in rows["node01", "docker"]["found"], found
    for runtime in MADE:
        assert rows["node01", runtime]["state"] == "ok", found
    assert rows["node02", "docker"]["found"] == "dockerd is not running on this node", found
    assert rows["node02", "podman"]["found"].startswith("alice has no subordinate ids here"), found
    assert "usermod" in rows["node02", "podman"]["fix"] and rows["node02", "charliecloud"]["state"] == "ok", found


def test_check_of_hosts(cluster: Cluster) -> None:
    found = cluster.alice(["mnrun", "check", "--hosts", "node[01-02]", "--json"])
    assert found.code == 0, found
    assert {row["node"] for row in checked("check", found.out)["findings"]} == {"node01", "node02"}
    only_line(cluster.alice(["mnrun", "check", "--hosts", "nowhere"]), 121, "nowhere")


def test_check_of_a_login_node(cluster: Cluster) -> None:
    here = cluster.alice(["mnrun", "check"])
    assert here.err == "mnrun: this is the login node only; ask the nodes: mnrun check -N 2\n", here
    cluster.root(LOGIN, "sh", "-c", f"mkdir {AWAY}; mv {' '.join(RUNTIMES)} {AWAY}")
    try:
        only = cluster.alice(["mnrun", "check"])
    finally:
        cluster.root(LOGIN, "sh", "-c", f"mv {AWAY}/* /usr/bin; rmdir {AWAY}")
    assert only.code == 122, only
    said = "no container runtime works on this machine, and this is the login node only"
    assert only.err == f"mnrun: {said}; ask the nodes: mnrun check -N 2\n", only


def test_check_gets_the_nodes_that_it_asks(cluster: Cluster) -> None:
    found = cluster.alice(["mnrun", "check", "-N", "2", "-w", "node[02-03]", "--image", OMPI5])
    assert found.code == 0, found
    assert "node[02-03]" in found.out and "\nverdict: inside-out: works: the image's Open MPI" in found.out, found
    assert mine(found) == ["no Slurm allocation here; mnrun gets one: salloc -N 2 -w 'node[02-03]'"]
    found = cluster.alice(["mnrun", "check", "-p", "main", "--image", OMPI5, "--json"])
    rows = checked("check", found.out)["findings"]
    assert [row["state"] for row in rows if row["subject"] == "image"] == ["ok"]
    wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h"), "given back")


def test_check_of_nodes_that_do_not_answer(cluster: Cluster, desk: Desk) -> None:
    words = "srun: error: Unable to create step for job: Requested nodes are busy"
    script = f'#!/bin/sh\n[ "$1" = --version ] && exec /usr/bin/srun --version\necho "{words}" >&2\nexit 1\n'
    desk.put("srun", script, 0o755)
    line = f"export PATH={desk.path}:$PATH; mnrun check; mnrun plan --image {OMPI5} -- {HELLO} | grep ^verdict"
    result = cluster.alice(["salloc", "-Q", "-N1", "-w", "node01", "sh", "-c", line])
    assert result.err == f"mnrun: {words}\n", result
    assert result.out == f"verdict: none, node01 could not be asked: {words}\n", result


def test_check_loads_a_module(cluster: Cluster) -> None:
    with of_modules(cluster, {"tool/1": "prepend-path PATH /nowhere\n"}):
        assert cluster.alice(["mnrun", "check", "--local", "--module", "tool/1"]).code == 0
        only_line(cluster.alice(["mnrun", "check", "--local", "--module", "none/1"]), (2, 122, 123), "none/1")
