"""--stage: an image file goes once to each node that lacks it, stays there, and makes room for others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from .batch import end, submit
from .cells import HELLO, MAIN, OMPI4, OMPI5, Way, full, one
from .reports import check, mine, refusal
from .stage import LOGIN, Cluster, Desk, Result, wait_for
from .stranger import kill

pytestmark = pytest.mark.live

COPIES = "/var/tmp/mnrun.alice/images"
SLOW = """\
#!/bin/sh
# Copies as sbcast does, and then takes its time.
/usr/bin/sbcast "$@"
exec sleep 600
"""


@pytest.fixture(autouse=True)
def no_copies(cluster: Cluster) -> Iterator[None]:
    """No node has a copy, before or afterwards."""

    def remove() -> None:
        for node in cluster.nodes:
            cluster.root(node, "rm", "-rf", "/var/tmp/mnrun.alice")

    remove()
    yield
    remove()


def copies(cluster: Cluster, node: str) -> list[Path]:
    folder = cluster.path(COPIES, node)
    return sorted(folder.iterdir()) if folder.is_dir() else []


def copied(result: Result) -> list[str]:
    """The nodes that mnrun said it copies to."""
    return [line.rpartition(" to ")[2] for line in mine(result) if line.startswith("copying ")]


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_staging_sends_an_image_once(cluster: Cluster, way: Way) -> None:
    """To all nodes, to one that has lost it, and to none; ranks read the copy."""
    first, second = cluster.nodes[:2]
    words = (*way.words, "--stage", "--", HELLO)
    result = cluster.mnrun(*words, nodes=2)
    check(result, first, second)
    assert copied(result) == [f"{first[:4]}[{first[4:]}-{second[4:]}]"], result
    (place,) = copies(cluster, first)
    assert place.name == f"sha256-{sha256(cluster.path(OMPI5).read_bytes()).hexdigest()}.sif"
    before = place.stat()
    cluster.root(second, "rm", f"{COPIES}/{place.name}")
    result = cluster.mnrun(*words, nodes=2)
    check(result, first, second)
    assert copied(result) == [second], result
    (place,) = copies(cluster, first)
    assert place.stat().st_ino == before.st_ino and place.stat().st_mtime > before.st_mtime
    result = cluster.mnrun("-v", *words, nodes=2)
    check(result, first, second)
    assert copied(result) == [] and f"{COPIES}/{place.name}" in result.err, result


def test_staging_needs_no_shared_files(cluster: Cluster, desk: Desk) -> None:
    """A submitted job whose image only its first node has. The script keeps what the job file says."""
    head, other = cluster.nodes[:2]
    cluster.root(head, "install", "-d", "-o", "alice", "/srv/image", "/srv/image/copies")
    cluster.root(other, "install", "-d", "-o", "alice", "/srv/image", "/srv/image/copies")
    try:
        cluster.root(head, "cp", OMPI5, "/srv/image/app.sif")
        desk.put("job.toml", 'image = "/srv/image/app.sif"\nstage = true\nstage_dir = "/srv/image/copies"\n')
        plan = cluster.alice(["mnrun", "plan", "--format", "sbatch", "job.toml", "--", HELLO], cwd=desk.path)
        assert "\n  --stage " in plan.out and "\n  --stage-dir=/srv/image/copies " in plan.out, plan
        shape = ("-N", "2", "--ntasks-per-node", "2", "-w", f"{head},{other}")
        job = submit(cluster, desk, *shape, "job.toml", "--", HELLO)
        check(end(cluster, desk, job), head, other)
        for node in (head, other):
            assert len(list(cluster.path("/srv/image/copies/mnrun.alice/images", node).iterdir())) == 1
    finally:
        for node in (head, other):
            cluster.root(node, "rm", "-rf", "/srv/image")


def test_staging_that_cannot_be(cluster: Cluster, desk: Desk) -> None:
    """One line each: what is wrong, where, and what to do."""
    first, second = cluster.nodes[:2]
    words = ("--mode", "inside-out", "--image", OMPI5, "--stage")
    cluster.root(second, "install", "-d", "-o", "bob", "-m", "777", "/var/tmp/mnrun.alice")
    said = refusal(cluster.mnrun(*words, "--", HELLO, nodes=2), 121, second, COPIES, "--stage-dir")
    assert first not in said, said
    cluster.root(second, "rm", "-r", "/var/tmp/mnrun.alice")
    for node in (first, second):
        cluster.root(node, "mkdir", "/srv/small")
    cluster.root(second, "mount", "-t", "tmpfs", "-o", "size=8m,mode=1777", "small", "/srv/small")
    cluster.root(first, "chmod", "1777", "/srv/small")
    try:
        result = cluster.mnrun(*words, "--stage-dir", "/srv/small", "--", HELLO, nodes=2)
        refusal(result, 121, f"{second}: no space left", "8 MB", "--stage-dir")
    finally:
        cluster.root(second, "umount", "/srv/small")
        for node in (first, second):
            cluster.root(node, "rm", "-r", "/srv/small")
    folder = cluster.mnrun("--mode", "inside-out", "--image", desk.path, "--stage", "--", HELLO, nodes=1)
    refusal(folder, 2, desk.path, "--no-stage")
    refusal(cluster.mnrun(*words, "--stage-limit", "50", "--", HELLO, nodes=1), 2, "--stage-limit", "50G")


@pytest.mark.skipif(not full(), reason="seconds each: --full")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_staging_that_is_cut_off(cluster: Cluster, desk: Desk, signum: int) -> None:
    """Nothing of the copy stays on any node."""
    desk.put("sbcast", SLOW, 0o755)
    way = {"PATH": f"{desk.path}:/usr/local/bin:/usr/bin:/bin"}
    line = cluster.launch("--image", OMPI5, "--stage", "--", HELLO, nodes=2, env=way)
    first, second = cluster.nodes[:2]
    whole = cluster.path(OMPI5).stat().st_size

    def arrived(node: str) -> bool:
        return [path.stat().st_size for path in copies(cluster, node) if path.suffix == ".part"] == [whole]

    with cluster.running(line) as job:
        wait_for(lambda: arrived(first) and arrived(second), "copied", state=lambda: str(job.so_far()))
        kill(cluster.mnruns(), signum)
        wait_for(lambda: not copies(cluster, first) and not copies(cluster, second), "removed")
        result = job.end()
    assert result.code == (0 if signum == signal.SIGKILL else 128 + signum), result  # salloc makes 0 of a kill -9
    cluster.root(LOGIN, "sh", "-c", "rm -rf /home/alice/.mnrun/jobs/*")


@pytest.mark.skipif(not full(), reason="half a minute: --full")
def test_staging_makes_room(cluster: Cluster) -> None:
    """For what is used now. An image that a job runs in stays, however long ago that was."""
    node = cluster.nodes[0]
    words = ("--mode", "outside-in", "--launcher", "srun", "--stage", "--stage-limit", "1M")

    def aged() -> None:
        for path in copies(cluster, node):
            os.utime(path, times=(time.time() - 7200,) * 2)

    with cluster.held("-N1", "-w", node, "--overcommit") as held:
        within = ["env", f"SLURM_JOB_ID={held}", f"SLURM_JOBID={held}", "SLURM_NNODES=1", f"SLURM_NODELIST={node}"]
        within += [f"SLURM_JOB_NODELIST={node}", "SLURM_TASKS_PER_NODE=8", "mnrun", "-n", "1"]
        with cluster.running([*within, *words, "--image", OMPI5, "--", "sh", "-c", "echo up; sleep 600"]) as job:
            job.saying(lambda result: result.out == "up\n", "up")
            (five,) = copies(cluster, node)
            aged()
            other = cluster.alice([*within, *words, "--image", OMPI4, "--", "true"])
            assert other.code == 0 and five.exists() and len(copies(cluster, node)) == 2, other
            kill(cluster.mnruns(), signal.SIGTERM)
            job.end()
        aged()
        other = cluster.alice([*within, *words, "--image", "/images/mpich.sif", "--mpi", "pmi2", "--", "true"])
        assert other.code == 0 and len(copies(cluster, node)) == 1 and not five.exists(), other
