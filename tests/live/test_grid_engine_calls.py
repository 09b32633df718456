"""Nodes that call mnrun back, under Grid Engine: strangers at the port, the secret, and the ends of such launches."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from faults.engine import play, warm
from faults.table import FAULTS, Cell

from .cells import some
from .grid import cluster as cluster
from .grid import forgotten as forgotten
from .stage import LOGIN, Cluster, Desk, wait_for
from .stranger import ALICE, LAIR, lair

pytestmark = pytest.mark.xdist_group("grid-engine")
CALL = ("--reach", "call", "--runtime", "host", "--launcher", "env")
CROWD = Path(__file__).parent / "programs" / "crowd.py"
QUEUES = "all.q@node01,all.q@node02"
HEAD = "-masterq all.q@node01"
LATER = 2.0  # seconds that a launch may be later for all strangers
# Grid Engine itself deletes the job of a qrsh that is killed. Its connections go on until then.
ENDS = [
    Cell(fault, "run", "call", "sge")
    for fault in (
        "SIGKILL of mnrun",
        "qdel",
        "power off, a worker",
        "connections of a worker reset",
        "network of a worker cut for good",
    )
]


@contextmanager
def slow(cluster: Cluster, program: str, waits: str) -> Iterator[None]:
    """Yield a second node on which a program waits first. `last` is the last of its words."""
    place = f"/usr/local/bin/{program}"
    text = f'#!/bin/sh\nfor last; do :; done\n{waits}\nexec /usr/bin/{program} "$@"\n'
    try:
        cluster.put(place, text, 0o755, "node02")
        yield
    finally:
        cluster.root("node02", "unlink", place)


def launched(cluster: Cluster, desk: Desk) -> tuple[float, str]:
    """Return the seconds that a launch takes in a job, and what it says."""
    line = shlex.join(["mnrun", "--ntasks-per-node", "1", *CALL, "--", "true"])
    asks = f"#$ -S /bin/bash -cwd -notify -V -j y -o out -pe mpi-2 4 -q {QUEUES} {HEAD}"
    script = f"{asks}\nTIMEFORMAT='took %R'\ntime {line}\n"
    done = cluster.alice(["qsub", "-sync", "y", desk.put("timed.sh", script)], cwd=desk.path)
    said = desk.read("out").decode()
    took = re.search(r"^took ([0-9.]+)$", said, re.MULTILINE)
    assert done.code == 0 and took, said
    desk.put("out", "")
    return float(took[1]), said


@pytest.mark.usefixtures("forgotten")
def test_a_crowd_at_the_port_keeps_no_node_away(cluster: Cluster, desk: Desk) -> None:
    """It is on each node of the job, where it sees the words of the call, and on another one."""
    with ExitStack() as stack:
        bob = stack.enter_context(lair(cluster))
        stack.enter_context(slow(cluster, "sha512sum", "sleep 1"))
        alone, _ = launched(cluster, desk)
        crowd = []
        for node in ("node01", "node02", "node03"):
            words = ["python3", cluster.put(f"{LAIR}/crowd.py", CROWD.read_bytes(), 0o755, node), "node01", "scan"]
            crowd.append(stack.enter_context(cluster.running(words, node=node, user=bob.name)))
        beset, said = launched(cluster, desk)
        told = [re.search(r"idle (\d+) made (\d+) answers (\d+)", each.end().out) for each in crowd]
        idle, made, answers = (sum(int(found[part]) for found in told if found) for part in (1, 2, 3))
        assert all(told) and idle > 500 and made > 0, f"the crowd is none: {told}"
        assert answers == 0, told
    assert "strangers" in said and beset < alone + LATER, (alone, beset, said)


SEARCH = """
    cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -aF -f "$0" && echo of a process
    for place in / /home /tmp /dev/shm /run /var/spool; do
        find "$place" -xdev -type f -mmin -5 ! -path '/proc/*' -print0 | xargs -0r grep -laF -f "$0"
    done
"""


@pytest.mark.usefixtures("forgotten")
def test_nothing_but_its_file_has_the_secret(cluster: Cluster, desk: Desk) -> None:
    """Neither a process, a log, what Grid Engine keeps, nor another file, while the file is there and after it."""
    everywhere = (LOGIN, *cluster.nodes[:2])
    records = cluster.path("/home/alice/.mnrun/jobs")

    def found() -> list[Path]:
        return list(records.glob(".call.*"))

    def search(secret: str, node: str) -> str:
        pattern = cluster.put("/dev/shm/pattern", secret, 0o600, node, 0)
        said = cluster.alice(["sh", "-c", SEARCH, pattern], node=node, user="root").out
        cluster.root(node, "rm", pattern)
        return "".join(line for line in said.splitlines(True) if line not in (f"{pattern}\n", *allowed))

    until_then = f"case $last in */.call.*) until [ -e {desk.path}/searched ]; do sleep 0.1; done ;; esac"
    with slow(cluster, "rm", until_then):
        words = [
            "mnrun",
            "-N2",
            "--ntasks-per-node",
            "1",
            "-w",
            "node01,node02",
            "--sge",
            HEAD,
            *CALL,
            "--",
            "sleep",
            "5",
        ]
        with cluster.running(["sh", "-c", f"cd {desk.path} && exec {shlex.join(words)}"]) as job:
            wait_for(lambda: any(file.read_text().endswith("\n") for file in found()), "with a secret")
            (file,) = found()
            secret = file.read_text().split()[1]
            assert (len(secret), file.stat().st_mode & 0o777, file.stat().st_uid) == (64, 0o600, ALICE)
            allowed = {f"/home/alice/.mnrun/jobs/{file.name}\n"}
            assert {node: search(secret, node) for node in everywhere} == dict.fromkeys(everywhere, "")
            assert file.exists(), "the search came too late"
            desk.put("searched", "")
            wait_for(lambda: not found(), "called")
            assert {node: search(secret, node) for node in everywhere} == dict.fromkeys(everywhere, "")
            assert job.end().code == 0
    assert {node: search(secret, node) for node in everywhere} == dict.fromkeys(everywhere, "")


@pytest.mark.parametrize("cell", some(ENDS, ENDS[:2]), ids=str)
def test_an_end(cluster: Cluster, cell: Cell) -> None:
    warm(cluster.name)
    wrong = (played := play(cluster, cell)).wrong(FAULTS[cell.fault], cell.phase)
    assert not wrong, "\n".join([*wrong, str(played.result)])
