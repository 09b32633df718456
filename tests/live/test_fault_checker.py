"""The checker of the fault suite can fail: each kind of thing that a job could leave is planted, and is reported."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from faults import checker

from .stage import Cluster, wait_for
from .stranger import bystander, kill

pytestmark = pytest.mark.xdist_group("faults")

NODE = "node02"
LISTENS = "import socket, signal; s = socket.create_server(('', 23499)); print('there', flush=True); signal.pause()"
HIDDEN = "exec env -i setsid sleep 3597"  # without a variable, in a session of its own
IN_A_BOX = "echo there; exec unshare --user --pid --fork --mount-proc sleep 3596"
QUEUE = "import ctypes; assert ctypes.CDLL(None).msgget(0x1234, 0o1600) >= 0"
PLANTS = {
    "process": (("sh", "-c", f"echo there; {HIDDEN}"), "process of 1500: sleep 3597"),
    "process in a namespace": (("sh", "-c", IN_A_BOX), "process of 1500: sleep 3596"),
    "port": (("python3", "-c", LISTENS), "port tcp 23499 of 1500"),
}
FILES = ("/tmp/planted", "/dev/shm/planted", "/var/tmp/planted/below", "/home/alice/.mnrun.planted")


@contextmanager
def mounted(cluster: Cluster) -> Iterator[str]:
    cluster.root(NODE, "mount", "-t", "tmpfs", "planted", "/mnt")
    yield "mount at /mnt: tmpfs of planted"
    cluster.root(NODE, "umount", "/mnt")


@contextmanager
def queued(cluster: Cluster) -> Iterator[str]:
    assert cluster.alice(["python3", "-c", QUEUE], node=NODE).code == 0
    yield "msg segment 4660 of 1500"
    cluster.root(NODE, "ipcrm", "-Q", "0x1234")


@contextmanager
def without_a_daemon(cluster: Cluster) -> Iterator[str]:
    (words,) = {line for line in checker.processes(cluster.model.pid(NODE) or 0) if "munged" in line}
    cluster.root(NODE, "pkill", "-x", "munged")
    wait_for(lambda: words not in checker.processes(cluster.model.pid(NODE) or 0), "without it")
    yield words
    cluster.root(NODE, *["setpriv", "--reuid", "munge", "--regid", "munge", "--init-groups", "/usr/sbin/munged"])


def reported(cluster: Cluster, before: checker.Picture, wanted: str, kind: str = "") -> None:
    found = checker.differences(before, checker.picture(cluster.model))
    assert [line for line in found if line == f"{kind}{NODE}: {wanted}"], (wanted, found)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_program_is_reported(cluster: Cluster, plant: str) -> None:
    words, wanted = PLANTS[plant]
    before = checker.picture(cluster.model)
    with cluster.running(words, node=NODE) as job:
        job.saying(lambda said: "there" in said.out, "there")
        line = f"{NODE}: {wanted}"  # sh first has to become all these programs
        wait_for(lambda: line in checker.differences(before, checker.picture(cluster.model)), f"reported: {line}")
    cluster.root(NODE, "sh", "-c", "pkill -KILL -x -u alice sleep || true")
    assert checker.wait_same(cluster.model, before, 60)[0] == []


def test_a_planted_thing_is_reported(cluster: Cluster) -> None:
    before = checker.picture(cluster.model)
    for path in FILES:
        assert cluster.alice(["install", "-D", "/dev/null", path], node=NODE).code == 0
        reported(cluster, before, f"file {path}")
        cluster.root(NODE, "rm", "-rf", "/var/tmp/planted", path)
    for plant, kind in ((mounted, ""), (queued, ""), (without_a_daemon, "gone: ")):
        with plant(cluster) as wanted:
            reported(cluster, before, wanted, kind)
    assert checker.wait_same(cluster.model, before, 60)[0] == []


def test_a_signal_is_for_the_process_that_was_seen(cluster: Cluster) -> None:
    with bystander(cluster, NODE) as seen:
        replace(seen, began=seen.began - 1).send(signal.SIGKILL)
        time.sleep(0.2)
    words = ["sleep", "3598"]
    with cluster.running(words, node=NODE) as job:
        wait_for(lambda: any(p.argv == tuple(words) for p in cluster.processes()), "there")
        sleeping = [p for p in cluster.processes() if p.argv == tuple(words)]
        kill([*sleeping, *sleeping])  # the second time it has ended, or is about to
        assert job.end().code == 137
