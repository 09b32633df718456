"""Nodes that never become ready: their names, the reason, a code of ours, and everything cleaned."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .batch import end, submit
from .cells import HELLO, INSIDE, MAIN, MPIRUN, NOSSHD, OMPI4, OMPI5, SRUN, Way, one, some
from .reports import check, refusal
from .stage import LOGIN, Cluster, Desk, wait_for

SOON = 60.0  # far below the deadline for starting, which is 120 s


@contextmanager
def image_on(cluster: Cluster, *nodes: str) -> Iterator[str]:
    path = "/var/tmp/local.sif"
    try:
        for node in nodes:
            cluster.root(node, "ln", "-s", OMPI5, path)
        yield path
    finally:
        for node in nodes:
            cluster.root(node, "rm", "-f", path)


def refused_soon(cluster: Cluster, words: list[str], *wanted: str, without: tuple[str, ...] = ()) -> None:
    """Refused with code 121, long before the deadline, naming what is wanted and nobody else."""
    begin = time.monotonic()
    line = refusal(cluster.mnrun(*words), 121, *wanted)
    assert time.monotonic() - begin < SOON
    for text in without:
        assert text not in line


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_not_ready_without_the_image(cluster: Cluster, way: Way) -> None:
    with image_on(cluster, "node01", "node02", "node04") as image:
        words = [*way.words[:-1], image, "--", HELLO]
        refused_soon(cluster, words, "node03", image, without=("node01", "node02", "node04"))


def test_not_ready_with_images_on_all_nodes_but_not_here(cluster: Cluster) -> None:
    with image_on(cluster, *cluster.nodes) as image:
        assert not cluster.path(image, LOGIN).is_symlink()
        check(cluster.mnrun("--mode", "inside-out", "--image", image, "--", HELLO), *cluster.nodes)


@pytest.mark.parametrize("way", [INSIDE], ids=str)
def test_not_ready_with_a_broken_image(cluster: Cluster, way: Way) -> None:
    with image_on(cluster, "node01", "node03", "node04") as image:
        cluster.root("node02", "sh", "-c", f"head -c 5000000 {OMPI5} >{image}")
        try:
            result = cluster.mnrun(*way.words[:-1], image, "--", HELLO, seconds=90)
        finally:
            cluster.root("node02", "rm", "-f", image)
        refusal(result, (121, 125), "node02")


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_not_ready_without_the_runtime(cluster: Cluster, way: Way) -> None:
    """Apptainer is missing on one node."""
    cluster.root("node02", "mv", "/usr/bin/apptainer", "/usr/bin/apptainer.away")
    try:
        refused_soon(cluster, [*way.words, "--", HELLO], "node02", "apptainer", without=("node03",))
    finally:
        cluster.root("node02", "mv", "/usr/bin/apptainer.away", "/usr/bin/apptainer")


def test_not_ready_without_mpirun(cluster: Cluster) -> None:
    cluster.root("node01", "mv", "/usr/bin/mpirun", "/usr/bin/mpirun.away")
    try:
        refused_soon(cluster, [*MPIRUN.words, "--", HELLO], "node01", "mpirun")
    finally:
        cluster.root("node01", "mv", "/usr/bin/mpirun.away", "/usr/bin/mpirun")


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_not_ready_where_nothing_can_be_written(cluster: Cluster, way: Way) -> None:
    cluster.root("node04", "chmod", "755", "/tmp")
    try:
        refused_soon(cluster, [*way.words, "--", HELLO], "node04", "/tmp", without=("node02",))
    finally:
        cluster.root("node04", "chmod", "1777", "/tmp")


@pytest.mark.parametrize("way", some(MAIN, [INSIDE]), ids=str)
def test_not_ready_with_a_cut_node(cluster: Cluster, way: Way) -> None:
    cluster.tool("cut", "node03")
    try:
        line = refusal(cluster.mnrun("--start-timeout", "60s", *way.words, "--", HELLO), (121, 124), "node03")
        assert not {"node01", "node02", "node04"} & set(re.findall(r"node\d+", line)), line
    finally:
        cluster.tool("heal", "node03")


def test_not_ready_without_sshd(cluster: Cluster) -> None:
    """An image without sshd: said at once, with what to install; outside-in and the pipe do not need it."""
    refused_soon(cluster, ["--connect", "ssh", "--image", NOSSHD, "--", HELLO], "sshd", "openssh-server")
    check(cluster.mnrun("--mode", "outside-in", "--image", NOSSHD, "--", HELLO), *cluster.nodes)


def test_not_ready_at_the_deadline(cluster: Cluster, desk: Desk) -> None:
    """One node's sshd never listens: at --start-timeout that node is named, with our code for a deadline; in a
    submitted job, too."""
    lazy = desk.put(
        "sshd", '#!/bin/sh\n[ "$(uname -n)" = node02 ] && exec sleep 3600\nexec /usr/sbin/sshd "$@"\n', 0o755
    )
    bind = ["--connect", "ssh", "--bind", f"{lazy}:/usr/local/sbin/sshd"]
    words = ["--start-timeout", "60s", *bind, *INSIDE.words, "--", HELLO]
    job = submit(cluster, desk, "-w", "node[01-02]", *words)
    begin = time.monotonic()
    result = cluster.mnrun(*words)
    line = refusal(result, 124, "node02", "60 s", "--start-timeout")
    assert "node03" not in line
    assert time.monotonic() - begin > 59
    submitted = end(cluster, desk, job)
    assert (submitted.code, submitted.out) == (124, ""), submitted
    assert "mnrun: 1 of 2 nodes not ready after 60 s: node02: not ready yet" in submitted.err, submitted
    assert "--start-timeout allows more time" in submitted.err, submitted


def test_not_ready_with_the_sshd_s_last_words(cluster: Cluster, desk: Desk) -> None:
    """One node's sshd ends: that node and what sshd said, at once."""
    words = '#!/bin/sh\n[ "$(uname -n)" = node02 ] && { echo "it is monday" >&2; exit 1; }\nexec /usr/sbin/sshd "$@"\n'
    moody = desk.put("sshd", words, 0o755)
    line = ["--bind", f"{moody}:/usr/local/sbin/sshd", "--connect", "ssh", *INSIDE.words, "--", HELLO]
    refused_soon(cluster, line, "node02", "it is monday", without=("node03",))


# Ports


@contextmanager
def taken(cluster: Cluster, node: str, *ports: int) -> Iterator[None]:
    code = (
        "import socket, sys, signal\n"
        "held = [socket.create_server(('', int(port))) for port in sys.argv[1:]]\n"
        "print('listening', flush=True)\n"
        "signal.pause()\n"
    )
    words = ["python3", "-c", code, *map(str, ports)]
    with cluster.running(words, node=node, user="root") as job:
        job.saying(lambda result: "listening" in result.out, "listening")
        yield
    wait_for(lambda: cluster.root(node, "sh", "-c", f"ss -Hltn sport = :{ports[0]}") == "", "free again")


def test_not_ready_without_a_free_port(cluster: Cluster) -> None:
    with taken(cluster, "node02", 23456, 23457):
        words = ["--connect", "ssh", "--ports", "23456-23457", *INSIDE.words, "--", HELLO]
        refused_soon(cluster, words, "node02", "23456-23457", without=("node03",))


def test_ready_on_the_last_free_port(cluster: Cluster) -> None:
    with taken(cluster, "node02", 23456, 23458):
        check(cluster.mnrun("--connect", "ssh", "--ports", "23456-23458", *INSIDE.words, "--", HELLO), *cluster.nodes)


def test_ready_within_the_range_of_ports(cluster: Cluster) -> None:
    """sshd listens where --ports lets it."""
    words = ["--connect", "ssh", "--ports", "23456-23459", *INSIDE.words, "--", HELLO, "-s", "3600"]
    with cluster.running(cluster.launch(*words)) as job:
        job.saying(lambda result: result.out.count("\n") == 8, "running")
        for node in cluster.nodes:
            listening = cluster.root(node, "sh", "-c", "ss -Hltn 'sport >= :23456 && sport <= :23459'")
            assert len(listening.splitlines()) == 1, listening


# Bound paths


def test_not_ready_with_a_bind_source_missing_on_one_node(cluster: Cluster) -> None:
    with cluster.desk(("node01", "node02", "node03"), under="/var/tmp") as desk:
        words = ["--bind", f"{desk.path}:/data", *INSIDE.words, "--", HELLO]
        refused_soon(cluster, words, "node04", desk.path, without=("node02",))


def test_not_ready_with_images_that_differ(cluster: Cluster) -> None:
    """A file of the nodes' own, another one on node03; --force runs it all the same."""
    path = "/var/tmp/local.sif"
    try:
        for node in cluster.nodes:
            cluster.root(node, "ln", "-s", OMPI4 if node == "node03" else OMPI5, path)
        words = [*SRUN.words[:-1], path, "--", "true"]
        line = refusal(cluster.mnrun(*words, tasks=1), 121, f"{path} is not the same on all nodes", "name one that all")
        assert "node03: " in line and "node[01-02,04]: " in line, line
        assert cluster.mnrun("--force", *words, tasks=1).code == 0
    finally:
        for node in cluster.nodes:
            cluster.root(node, "rm", "-f", path)


def test_not_ready_without_the_working_directory(cluster: Cluster) -> None:
    with cluster.desk((LOGIN, "node01"), under="/var/tmp") as desk:
        result = cluster.mnrun(*INSIDE.words, "--", HELLO, cwd=desk.path)
        refusal(result, 121, desk.path, "node[02-04]")
