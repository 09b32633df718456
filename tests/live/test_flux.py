"""Flux, by a stand-in for its commands (rehearsal/flux.py): jobs, their nodes by flux exec, and their ends.

The stand-in runs on two nodes of the cluster of Slurm, of which nobody asks Slurm for any.
"""

from __future__ import annotations

import pytest

from rehearsal import flux

from .batch import programs
from .cells import full
from .stage import Cluster, Desk
from .stand_in import SLEEP, Site
from .stand_in import test_a_job_that_runs as test_a_job_that_runs
from .stand_in import test_a_service as test_a_service
from .stand_in import test_a_service_beside_a_job as test_a_service_beside_a_job
from .stand_in import test_cell as test_cell
from .stand_in import test_nothing_is_left_of_a_killed_launcher as test_nothing_is_left_of_a_killed_launcher
from .test_jobfile import ANYWHERE, check_anywhere


@pytest.fixture
def site(cluster: Cluster, desk: Desk) -> Site:
    return Site(cluster, desk, flux, ["flux"], "FLUX_URI=", "LANG=C.UTF-8")


def test_in_a_job_a_slot_is_a_rank(site: Site) -> None:
    """A script of the user's calls mnrun. Its verbs take the id as Flux shows it."""
    script = "#!/bin/bash\n#flux: -N 2 -n 4 -t 30m --output=out\nmnrun --runtime host --launcher env -- hostname\n"
    site.desk.put("job.sh", script.encode())
    job = site("flux", "batch", "job.sh").out.strip()
    assert job.startswith("ƒ"), job
    assert site("mnrun", "wait", job).code == 0
    assert sorted(programs(site("cat", "out").out).split()) == ["node01", "node01", "node02", "node02"]
    site.clean()


@pytest.mark.skipif(not full(), reason="with --full")
def test_the_file_of_all_systems(site: Site) -> None:
    site.desk.put("job.toml", ANYWHERE.read_bytes())
    check_anywhere(site("mnrun", "job.toml"))
    site.clean()


def test_the_time_limit(site: Site) -> None:
    job = site.submit("-N", "2", "-t", "0:0:02", *SLEEP)
    assert site("mnrun", "wait", job).code == 124
    site.clean()


def test_what_flux_exec_does(site: Site) -> None:
    """As recorded of 0.88: input and its end reach the rank, words stay as they are, and so does the exit code."""
    script = """#!/bin/bash
#flux: -N 2 --output=out
printf 'a\\nb' | stdbuf -o0 flux exec -q -r 1 sh -c 'cat; hostname; printf "<%s>" "$@"; exit 4' sh '$HOME ' 'q"q' ''
echo " code $?"
flux exec -r 1 sh -c 'kill -9 $$'
echo "killed $?"
flux exec -r 7 true
echo "nowhere $?"
mkfifo input
flux exec -r 1 sh -c "trap 'echo TERM >>ended' TERM; touch up; cat; echo end >>ended" <input &
exec 3>input
until [ -e up ]; do sleep 0.1; done
kill -9 $!
exec 3>&-
until [ -z "$(flux exec -r 1 pgrep -f '[e]cho TERM')" ]; do sleep 0.1; done
cat ended 2>/dev/null || echo 'no end seen'
"""
    site.desk.put("job.sh", script.encode())
    assert site("mnrun", "wait", site("flux", "batch", "job.sh").out.strip()).code == 0
    lines = [line for line in site("cat", "out").out.splitlines() if "Killed" not in line and "rank 7" not in line]
    assert lines == ["a", "bnode02", '<$HOME ><q"q><> code 4', "killed 137", "nowhere 68", "no end seen"]


@pytest.mark.skipif(not full(), reason="with --full")
def test_the_second_node_is_switched_off(site: Site) -> None:
    site.without_its_second_node()


def test_what_flux_refuses(site: Site) -> None:
    result = site("mnrun", "submit", "-p", "nosuch", *SLEEP)
    assert (result.code, "'nosuch' is not a valid queue" in result.err) == (123, True), result
    result = site("mnrun", "submit", "--mem", "1G", *SLEEP)
    assert result.code == 122, result
    job = site.submit("-N", "9", *SLEEP)  # Flux takes it, and ends it by an exception
    assert site("mnrun", "wait", job).code == 123
