"""LSF, by a stand-in for its commands (rehearsal/lsf.py): jobs, their nodes by blaunch, and their ends.

The stand-in runs on two nodes of the cluster of Slurm, of which nobody asks Slurm for any. No real LSF has run mnrun.
"""

from __future__ import annotations

import pytest

from rehearsal import lsf

from .batch import SIZE
from .cells import OMPI5
from .stage import Cluster, Desk
from .stand_in import SLEEP, Site
from .stand_in import test_a_job_that_runs as test_a_job_that_runs
from .stand_in import test_a_service as test_a_service
from .stand_in import test_a_service_beside_a_job as test_a_service_beside_a_job
from .stand_in import test_cell as test_cell
from .stand_in import test_nothing_is_left_of_a_killed_launcher as test_nothing_is_left_of_a_killed_launcher
from .test_jobfile import ANYWHERE, check_anywhere

MINUTE = 4  # seconds


@pytest.fixture
def site(cluster: Cluster, desk: Desk) -> Site:
    return Site(cluster, desk, lsf, ["bsub", "bjobs", "bkill", "blaunch"], f"LSF_MINUTE={MINUTE}")


def test_the_file_of_all_systems(site: Site) -> None:
    site.desk.put("job.toml", ANYWHERE.read_bytes())
    check_anywhere(site("mnrun", "job.toml"))
    site.clean()


def test_the_code_of_the_program(site: Site) -> None:
    assert site("mnrun", *SIZE, "--image", OMPI5, "--", "sh", "-c", "exit 7").code == 7
    site.clean()


def test_tasks_of_an_array_have_their_numbers(site: Site) -> None:
    job = site.submit("-N", "2", "--array", "0,5", "--runtime", "host", "--launcher", "env", "--", "hostname")
    assert site("mnrun", "wait", job).code == 0
    ids = [line.split()[0] for line in site("mnrun", "status", job).out.splitlines()[1:]]
    assert ids == [f"{job}_0", f"{job}_5"]
    site.clean()


@pytest.mark.parametrize("caught", [False, True])
def test_the_time_limit(site: Site, caught: bool) -> None:
    """LSF sends a USR2, and a KILL later to what is still there."""
    program = ("sh", "-c", "trap '' USR2; sleep 300") if caught else ("sleep", "300")
    job = site.submit("-N", "2", "-t", "1", "--image", OMPI5, "--", *program)
    assert site("mnrun", "wait", job).code == 124
    site.clean()


def test_nothing_is_left_after_a_kill_of_lsfs(site: Site) -> None:
    """By default, bkill gives a parallel job a KILL alone. It does not reach processes with a session of their own."""
    job = site.running("-N", "2", *SLEEP)
    assert site("bkill", job).code == 0
    assert site("mnrun", "wait", job).code == 143
    site.clean()


def test_the_second_node_is_switched_off(site: Site) -> None:
    site.without_its_second_node()


def test_what_lsf_refuses(site: Site) -> None:
    result = site("mnrun", "submit", "-p", "nosuch", *SLEEP)
    assert (result.code, "nosuch: No such queue" in result.err) == (123, True), result
    result = site("mnrun", "submit", "-N", "2", "-n", "3", *SLEEP)
    assert result.code == 122, result
