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
from .reports import check, mine, only_line, refusal
from .stage import LOGIN, Cluster, Desk, Result, wait_for
from .stranger import kill

COPIES = "/var/tmp/mnrun.alice/images"
SLOW = """\
#!/bin/sh
# Copies as sbcast does, and then takes its time.
/usr/bin/sbcast "$@"
exec sleep 600
"""


@pytest.fixture(autouse=True)
def no_copies(cluster: Cluster) -> Iterator[None]:
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
    return [line.rpartition(" to ")[2] for line in mine(result) if line.startswith("copying ")]


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_staging_sends_an_image_once(cluster: Cluster, way: Way) -> None:
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


def test_staging_gives_an_image_of_a_store_to_other_hosts(engines: Cluster) -> None:
    """Hosts without a registry get the image of Docker on the machine where mnrun is, and only if they lack it."""
    first, second = engines.nodes[:2]
    name = "localhost/given:1"
    make = "c=$(docker create localhost/ompi5 true) && docker commit $c $0 && docker rm $c"
    launch = ("mnrun", "--hosts", f"{first}:1,{second}:1", "--runtime", "docker", "--launcher", "env", "--image", name)
    try:
        assert engines.alice(["sh", "-c", make, name], node=first).code == 0
        refused = engines.alice([*launch, "--", "true"], node=first)
        assert (refused.code, f"{second}: docker has no image {name}" in refused.err) == (121, True), refused
        for given in (True, False):
            result = engines.alice([*launch, "--stage", "--", "uname", "-n"], node=first)
            assert (result.code, sorted(result.out.split())) == (0, [first, second]), result
            assert (f"copied {name} from this machine's docker to {second}" in result.err) == given, result
        lacking = engines.alice([*launch[:-1], "localhost/none:1", "--stage", "--", "true"], node=first)
        assert "docker has no image localhost/none:1 on this machine" in only_line(lacking, 121), lacking
    finally:
        for node in (first, second):
            engines.alice(["docker", "rmi", name], node=node)
