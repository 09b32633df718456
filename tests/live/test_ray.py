"""--launcher ray: a cluster of Ray for the job, on nodes that others share. A plain run has a stand-in for Ray."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from .cells import MADE, NOSSHD, full, some
from .reports import errors
from .stage import USERS, Cluster, Process, Result

STAND_IN = (Path(__file__).parent / "programs/ray").read_bytes()
KINDS = some(["stand-in", "ray"], ["stand-in"])
RANGE = range(20000, 30000)
ACTORS = """
import os, ray, time
ray.init()
@ray.remote(num_cpus=1)
class Actor:
    def where(self):
        return os.uname().nodename
actors = [Actor.options(scheduling_strategy="SPREAD").remote() for _ in range(4)]
for place in sorted(ray.get([actor.where.remote() for actor in actors])):
    print(place, flush=True)
while not os.path.exists("desk.ray/over"):
    time.sleep(0.1)
raise SystemExit(7)
"""
LISTS = "ray list; until [ -e desk.ray/over ]; do sleep 0.1; done; exit 7"


HOMES = {user: f"/home/{user}/desk.ray" for user in ("alice", "bob")}  # with the stand-in, and `over`


@pytest.fixture(autouse=True)
def homes(cluster: Cluster) -> Iterator[None]:
    for home, uid in zip(HOMES.values(), USERS):
        cluster.path(home).mkdir(exist_ok=True)
        cluster.put(f"{home}/ray", STAND_IN, 0o755, uid=uid)
    yield
    for home in HOMES.values():
        shutil.rmtree(cluster.path(home))


def path(user: str = "alice") -> list[str]:
    return ["-x", f"PATH={HOMES[user]}:/usr/bin:/bin"]


def words(cluster: Cluster, kind: str, *more: str, user: str = "alice") -> list[str]:
    """Return the words of a run whose program tells what is there, and ends with 7 once there is a file `over`."""
    ray = ["--launcher", "ray", *more, "--image"]
    if kind == "ray":
        cluster.tool("images", "ray")
        return [*map(str, cluster.launch(*ray, "/images/ray.sif", "--", "python3", "-c", ACTORS, nodes=2))]
    return [*map(str, cluster.launch(*ray, NOSSHD, *path(user), "--", "sh", "-c", LISTS, nodes=2))]


def is_in(result: Result) -> bool:
    whole = result.out.endswith("\n")  # what a program has written so far may end within a line
    return whole and {line.split()[0] for line in result.out.splitlines()} == {"node01", "node02"}


def raylet(cluster: Cluster, node: str) -> Process:
    there = [p for p in cluster.processes() if p.node == node and (p.argv[0].endswith("raylet") or "1000000" in p.argv)]
    (one,) = there
    return one


def ports(result: Result) -> dict[str, list[int]]:
    """Return node -> its ports, by the stand-in's own words: node, CPUs, GPUs, and its ports."""
    lines = [line.replace(",", " ").split() for line in result.out.splitlines()]
    assert [line[:3] for line in lines] == [["node01", "2", "None"], ["node02", "2", "None"]], result
    return {line[0]: [*map(int, line[3:])] for line in lines}


@pytest.mark.parametrize("kind", KINDS)
def test_two_users_have_a_cluster_each_on_the_same_nodes(cluster: Cluster, kind: str) -> None:
    """(ray#59551) The head is late, so its command would start too early without mnrun."""
    with ExitStack() as stack:
        lines = {user: words(cluster, kind, "-x", "RAY_LATE=1", user=user) for user in HOMES}
        jobs = [stack.enter_context(cluster.running(line, user=user)) for user, line in lines.items()]
        results = [job.saying(is_in, "in") for job in jobs]
        assert len(cluster.mnruns()) == 2
        if kind == "stand-in":
            first, second = map(ports, results)
            for node in first:
                taken = [*first[node], *second[node]]
                assert set(taken) <= set(RANGE) and len(set(taken)) == len(taken), (node, taken)
        else:
            assert all(result.out.splitlines() == ["node01"] * 2 + ["node02"] * 2 for result in results), results
        for home in HOMES.values():
            cluster.put(f"{home}/over", "")
        ends = [job.end() for job in jobs]
    assert [end.code for end in ends] == [7, 7], ends
    assert not cluster.wait_clean(30, besides="desk."), ends


@pytest.mark.parametrize(
    ("kind", "victim"), some([*product(KINDS, ["node01", "node02", "mnrun"])], [("stand-in", "node02")])
)
def test_the_end_of_any_part_ends_all(cluster: Cluster, kind: str, victim: str) -> None:
    with cluster.running(words(cluster, kind)) as job:
        job.saying(is_in, "in")
        (cluster.launcher() if victim == "mnrun" else raylet(cluster, victim)).send(signal.SIGKILL)
        result = job.end()
    if victim == "mnrun":  # which cannot remove its record
        for place in cluster.path("/home/alice/.mnrun/jobs").iterdir():
            shutil.rmtree(place)
    else:
        assert result.code == 125, result
        assert f"{victim}: Ray has ended here: raylet [exit code=-9]" in errors(result), result
    assert not cluster.wait_clean(60, besides="desk."), result


def test_a_node_that_does_not_come_in_is_named(cluster: Cluster) -> None:
    with cluster.running(words(cluster, "stand-in", "-x", "RAY_HANGS=node02", "--start-timeout", "20s")) as job:
        result = job.end()
    assert result.code == 124, result
    assert "node02" in errors(result) and "node01," not in errors(result) and "Ray" in errors(result), result
    assert not result.out, result


def test_an_image_without_ray(cluster: Cluster) -> None:
    result = cluster.mnrun("--launcher", "ray", "--image", NOSSHD, "--", "true", nodes=2)
    assert result.code == 125, result
    assert "the image has no ray" in errors(result), result


@pytest.mark.skipif(not full(), reason="the same on other ground")
@pytest.mark.parametrize("place", ["--hosts", "--local"])
def test_without_a_scheduler(cluster: Cluster, place: str) -> None:
    where = ["--hosts", "node01:2,node02:2"] if place == "--hosts" else ["--local"]
    result = cluster.alice(["mnrun", *where, "--launcher", "ray", "--image", NOSSHD, *path(), "--", "ray", "list"])
    assert result.code == 0 and len(result.out.splitlines()) == (2 if place == "--hosts" else 1), result


@pytest.mark.skipif(not full(), reason="Ray starts slowly")
@pytest.mark.xdist_group("engines")
@pytest.mark.parametrize("runtime", MADE)
def test_each_runtime(cluster: Cluster, runtime: str) -> None:
    cluster.tool("engines", "ray")
    cluster.put(f"{HOMES['alice']}/over", "")
    image = "/images/ray" if runtime == "charliecloud" else "localhost/ray"
    words = ["--launcher", "ray", "--runtime", runtime, "--image", image, "--", "python3", "-c", ACTORS]
    result = cluster.mnrun(*words, nodes=2)
    assert (result.code, result.out.splitlines()) == (7, ["node01"] * 2 + ["node02"] * 2), result
    assert not cluster.wait_clean(30, besides="desk."), result
