"""Slurm's own PBS commands take mnrun's `#PBS` text, and such a place is Slurm's for mnrun.

Their qsub, qstat and qdel are Perl scripts that call Slurm, and sbatch reads the lines (sbatch(1), --ignore-pbs).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from .batch import forget, of_the_site, state
from .cells import HELLO, INSIDE
from .conftest import NAME, up
from .reports import check
from .stage import Cluster, Desk, wait_for

pytestmark = [pytest.mark.xdist_group("wrappers"), pytest.mark.usefixtures("forgotten")]
DIALECTS = ("openpbs", "torque")
OF_PBS = re.compile(
    r"^  --scheduler=pbs .*\n", re.MULTILINE
)  # by this line of a script, mnrun would not look for itself
SHAPE = ("-N", "2", "--ntasks-per-node", "2", "-t", "5")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with up(f"{NAME}-wr", 2, "--wrappers") as ours:
        yield ours


@pytest.fixture
def forgotten(cluster: Cluster) -> Iterator[None]:
    yield
    forget(cluster)


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest, cluster: Cluster, site: str) -> str:
    """A dialect of PBS, which the site's profile names."""
    of_the_site(cluster, "profiles/here.toml", f'match.hostname = "*"\npbs.dialect = "{request.param}"\n')
    return str(request.param)


def text(cluster: Cluster, desk: Desk, scheduler: str, *words: str) -> str:
    """Return mnrun's script for a scheduler."""
    line = ["mnrun", "plan", "--format", "sbatch", "--scheduler", scheduler, *words]
    made = cluster.alice(line, cwd=desk.path)
    assert made.code == 0, made
    return made.out


def handed_in(cluster: Cluster, desk: Desk, *words: str) -> str:
    """Hand the `#PBS` text of a job to qsub. Return the job's id."""
    script = text(cluster, desk, "pbs", *words)
    assert "#PBS" in script
    assert "#SBATCH" not in script
    desk.put("job.sh", OF_PBS.sub("", script))
    done = cluster.alice(["qsub", "job.sh"], cwd=desk.path)
    assert done.code == 0, done
    assert done.out.strip().isdecimal(), done
    return done.out.strip()


def said(desk: Desk) -> bytes:
    return b"".join(desk.read(name) for name in desk.names() if re.search(r"\.o\d+$|\.out$", name))


def listed(cluster: Cluster, job: str) -> str:
    """Return the letter of qstat for a job."""
    rows = (line.split() for line in cluster.alice(["qstat"]).out.splitlines())
    return next((row[4] for row in rows if row and row[0] == job), "")


def test_the_place_is_slurms(cluster: Cluster, desk: Desk) -> None:
    assert cluster.alice(["sh", "-c", "command -v qsub qstat qdel"]).code == 0
    assert cluster.alice(["mnrun", "plan", "--format", "sbatch", "--runtime", "host", "id"]).out.count("#SBATCH ")
    other = cluster.alice(["mnrun", "submit", "--scheduler", "pbs", "--runtime", "host", "id"], cwd=desk.path)
    assert (other.code, other.out) == (2, ""), other


def test_a_script_is_taken_and_runs(cluster: Cluster, desk: Desk, dialect: str) -> None:
    job = handed_in(cluster, desk, *SHAPE, *INSIDE.words, "--", HELLO)
    assert cluster.alice(["mnrun", "wait", job]).code == 0
    wait_for(lambda: state(cluster, job)["JobState"] == "COMPLETED", "ended")
    assert state(cluster, job)["NumNodes"] == "2"
    assert listed(cluster, job) == "C"
    ours = b"".join(line for line in said(desk).splitlines(True) if line.startswith(b"rank "))
    # of nodes=2:ppn=2, Slurm makes four tasks on two nodes
    spread = {"openpbs": {"node01": 2, "node02": 2}, "torque": {"node01": 3, "node02": 1}}[dialect]
    check(replace(cluster.alice(["true"]), raw=ours), spread=spread)


@pytest.mark.parametrize("ends", [["qdel"], ["mnrun", "cancel"]], ids=["qdel", "mnrun"])
def test_a_job_that_is_cancelled(cluster: Cluster, desk: Desk, dialect: str, ends: list[str]) -> None:
    job = handed_in(cluster, desk, *SHAPE, "--runtime", "host", "--", "sh", "-c", "echo up; exec sleep 600")
    wait_for(lambda: said(desk).count(b"up") == 4, "up")
    assert listed(cluster, job) == "R"
    view = json.loads(cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"][0]
    assert (view["state"], view["nodes"]) == ("RUNNING", 2), view
    assert cluster.alice([*ends, job]).code == 0
    wait_for(lambda: state(cluster, job)["JobState"] == "CANCELLED", "ended")
    assert cluster.alice(["mnrun", "wait", job]).code == 143


OPTIONS = (
    *(*SHAPE, "-c", "2", "-p", "main", "-J", "wave", "-A", "physics", "--array", "0-3%2", "--dependency", "afterany:1"),
    *("--mail-type", "END,FAIL", "--mail-user", "alice@site", "--runtime", "host", "--", "id"),
)


def understood(cluster: Cluster, script: str) -> dict[str, str]:
    """Return what sbatch reads in a script."""
    told = cluster.alice(["sbatch", "-v", "--test-only"], script.encode()).err
    found = dict(re.findall(r"^sbatch: ([a-z-]+) +: (.*)$", told, re.MULTILINE))
    return {name: value for name, value in found.items() if name not in ("verbose", "test-only", "output", "error")}


def test_sbatch_reads_the_lines(cluster: Cluster, desk: Desk, dialect: str) -> None:
    """Of both texts of a job it reads the same, but for the CPUs of ranks in Torque's words. -v has mnrun's own."""
    slurm = understood(cluster, text(cluster, desk, "slurm", *OPTIONS))
    pbs = understood(cluster, text(cluster, desk, "pbs", *OPTIONS))
    shape = {
        "openpbs": {"mincpus": "4", "ntasks-per-node": "2", "cpus-per-task": "2"},
        "torque": {"ntasks": "8"},
    }[dialect]
    assert [slurm.pop(name) for name in ("ntasks-per-node", "cpus-per-task")] == ["2", "2"]
    assert pbs == {**slurm, **shape, "export": "MNRUN_JOB_CPUS=2"}, (pbs, slurm)
