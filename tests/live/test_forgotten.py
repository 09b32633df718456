"""What takes minutes of Slurm's own time, and so is for --full: many starts, and jobs that Slurm has forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from published import checked

from .batch import end, forget, output, programs, state, submit
from .cells import INSIDE, full
from .stage import LOGIN, Cluster, Desk, wait_for

pytestmark = pytest.mark.skipif(not full(), reason="minutes of Slurm's own time: --full")

CONF = "/etc/slurm/slurm.conf"


def test_a_job_that_something_ends_again_and_again(cluster: Cluster, desk: Desk) -> None:
    job = submit(cluster, desk, "-N", "1", "--requeue", *INSIDE.words, "--", "sh", "-c", "echo up; sleep 3600")
    records = cluster.path(f"/home/alice/.mnrun/jobs/{job}")
    for start in range(6):
        wait_for(
            lambda: programs(output(desk, job)) == "up\n", f"up, start {start}", 240, lambda: str(state(cluster, job))
        )
        cluster.root(LOGIN, "scontrol", "requeue", job)
        wait_for(lambda: state(cluster, job)["JobState"] == "PENDING", "requeued", state=lambda: output(desk, job))
        (records / str(start) / "outcome").unlink(missing_ok=True)  # as if nobody had had time for a word
        desk.put(f"sh-{job}_4294967294-{job}.out", "")
        cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "StartTime=now+3")  # Slurm lets it wait two minutes
    wait_for(lambda: (records / "6" / "outcome").exists(), "given up", 240, lambda: output(desk, job))
    outcome = json.loads((records / "6" / "outcome").read_text())
    said = "this is start number 7: something ends this job again and again"
    assert (outcome["code"], outcome["why"]) == (121, said)
    assert cluster.alice(["mnrun", "wait", job]).code == 121
    assert said in end(cluster, desk, job).err


@pytest.fixture
def forgetful(cluster: Cluster) -> Iterator[None]:
    """A slurmctld that forgets jobs once they have ended; it looks every minute."""
    cluster.root(LOGIN, "sh", "-c", f"echo MinJobAge=2 >>{CONF} && scontrol reconfigure")
    yield
    cluster.root(LOGIN, "sh", "-c", f"sed -i /^MinJobAge/d {CONF} && scontrol reconfigure")


@pytest.mark.usefixtures("forgetful")
def test_a_job_that_slurm_has_forgotten(cluster: Cluster, desk: Desk) -> None:
    job = submit(cluster, desk, "-N", "1", *INSIDE.words, "--", "sh", "-c", "echo said; exit 3")
    assert cluster.alice(["mnrun", "wait", job]).code == 3
    forgotten = ["sh", "-c", "! scontrol show job $0 >/dev/null 2>&1", job]
    wait_for(lambda: cluster.alice(forgotten).code == 0, "forgotten", 200)
    (seen,) = checked("status", cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"]
    assert (seen["id"], seen["state"], seen["code"]) == (job, "FAILED", 3), seen
    assert "said\n" in cluster.alice(["mnrun", "logs", "-f", job]).out
    assert cluster.alice(["mnrun", "wait", job]).code == 3
    anew = ["env", "MNRUN_SLURM_POLL=1s", "mnrun"]
    assert f"removed /home/alice/.mnrun/jobs/{job}: " in cluster.alice([*anew, "clean", "--older", "0d"]).out
    gone = cluster.alice([*anew, "status", job])
    assert (gone.code, f"no job {job} of yours" in gone.err) == (123, True), gone
    forget(cluster)
