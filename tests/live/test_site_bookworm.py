"""A site with an older Slurm: Debian 12's 22.05, with Open MPI 4.1 on the nodes, podman 4.3 and docker 20.10. Apptainer
is not there, so ranks run on the nodes themselves, or in docker."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from . import test_ends, test_env, test_exec, test_exit_codes, test_signals, test_sites, test_submit
from .cells import HELLO, Way, cells, full, one, some
from .conftest import NAME, up
from .reports import check, everybody_spoke, mine
from .stage import LOGIN, Cluster, Desk

pytestmark = pytest.mark.xdist_group("bookworm")

HOSTS = (Way("inside", "host"), Way("mpirun", "host"), Way("inside", "host", connect="pipe"))
BY_NAME = {str(way): way for way in HOSTS}
ENDS = some(tuple(test_exit_codes.ENDS), ("7", "SIGKILL", "not found", "not executable"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    given = os.environ.get("MNRUN_TEST_BOOKWORM_CLUSTER")
    if given:
        yield Cluster(given)
        return
    with up(f"{NAME}-bw", 4, "--debian=bookworm") as ours:
        assert "22.05" in ours.root(LOGIN, "srun", "--version")
        yield ours


def test_older_slurm_runs(cluster: Cluster) -> None:
    test_sites.every_way(cluster)
    test_sites.every_verb(cluster)


@pytest.mark.parametrize(("end", "start"), cells({"end": ENDS, "start": ("inside", "mpirun")}, together=1))
def test_older_slurm_exit_codes(cluster: Cluster, end: str, start: str) -> None:
    test_exit_codes.test_exit_code_is_the_programs(cluster, end, start, "host", "auto")


@pytest.mark.parametrize("way", HOSTS, ids=str)
def test_older_slurm_enters_a_job(cluster: Cluster, way: Way) -> None:
    test_exec.test_exec_enters_the_container_of_a_rank(cluster, way)


@pytest.mark.parametrize(
    ("how", "way"), cells({"how": ("SIGINT", "SIGKILL", "scancel", "kill srun"), "way": tuple(BY_NAME)}, together=1)
)
def test_older_slurm_ends(cluster: Cluster, how: str, way: str) -> None:
    with cluster.running(cluster.launch(*BY_NAME[way].words, "--", *test_ends.FOREVER)) as job:
        job.saying(everybody_spoke(8), "running on all ranks")
        test_ends.act(cluster, how, job)
        result = job.end(test_ends.SECONDS)
        wanted = {"SIGINT": 130, "scancel": 143, "kill srun": 121}.get(how)
        assert result.code == wanted or wanted is None, result
        test_ends.clean_soon(cluster, 0, killed=how == "SIGKILL")


@pytest.mark.parametrize("way", one(0, HOSTS), ids=str)
def test_older_slurm_signals(cluster: Cluster, desk: Desk, way: Way) -> None:
    test_signals.test_a_signal_to_the_script_reaches_every_rank_once(cluster, desk, way)


@pytest.mark.parametrize("way", one(1, HOSTS), ids=str)
def test_older_slurm_environment(cluster: Cluster, desk: Desk, way: Way) -> None:
    test_env.test_env_of_the_job(cluster, desk, way)


@pytest.mark.parametrize("way", one(0, HOSTS), ids=str)
def test_older_slurm_submits(cluster: Cluster, desk: Desk, way: Way) -> None:
    test_submit.test_submit_and_scancel(cluster, desk, way)
    batch = ["sbatch", "--parsable", "-o", "/dev/null", "--wait", "--wrap", "exit 7"]
    number = cluster.alice(batch).out.strip()
    shown = cluster.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "status", number])
    assert [shown.out.splitlines()[-1].split()[n] for n in (2, -1)] == ["failed", "7"], shown


def test_older_slurm_says_what_cannot_be(cluster: Cluster) -> None:
    why = "it has no --write-fake"
    checked = cluster.mnrun("check", nodes=2, tasks=0)
    assert [line for line in checked.out.splitlines() if line.startswith("charliecloud") and why in line], checked
    refused = cluster.mnrun("--runtime", "charliecloud", "--image", "/images/ompi5", "--", HELLO, nodes=2)
    assert (refused.code, len([line for line in mine(refused) if why in line])) == (121, 1), refused
    test_sites.cannot(cluster, "bookworm")


@pytest.mark.skipif(not full(), reason="--full: an image for docker on each node")
def test_older_docker_runs(cluster: Cluster) -> None:
    """Docker 20.10, both modes."""
    cluster.tool("engines")
    cluster.settle()
    for start in ("inside", "mpirun"):
        check(cluster.mnrun(*Way(start, "ompi5", runtime="docker").words, "--", HELLO), *cluster.nodes)
