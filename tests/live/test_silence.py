"""A slurmctld that hangs: whoever asks it is told so within a bounded time, and what it takes later is no loss."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from .batch import forget, output, state
from .cells import INSIDE
from .reports import refusal
from .stage import LOGIN, Cluster, Desk, wait_for

SECONDS = 90  # for each that asks; a noisy machine included
SILENT = "slurmctld does not answer: ask the cluster's admins"


@contextmanager
def hanging(cluster: Cluster) -> Iterator[None]:
    cluster.root(LOGIN, "sh", "-c", "kill -STOP $(cat /run/slurmctld.pid)")
    try:
        yield
    finally:
        cluster.root(LOGIN, "sh", "-c", "kill -CONT $(cat /run/slurmctld.pid)")


def test_a_slurmctld_that_hangs(cluster: Cluster, desk: Desk) -> None:
    """submit, status, and a launch in an allocation that was there before; later the job that sbatch left runs."""
    place = 'cd $0; touch in; until [ -e go ]; do sleep 0.1; done; exec mnrun "$@"'
    held = ["salloc", "-Q", "-N2", "sh", "-c", place, desk.path, *INSIDE.words, "--", "true"]
    program = desk.put("program", "#!/bin/sh\necho it runs\n", 0o755)
    submit = ["sh", "-c", 'cd $0; exec mnrun "$@"', desk.path, "submit", "-o", "%x-%j.out", "-N1", "-n1"]
    with ExitStack() as stack:
        launch = stack.enter_context(cluster.running(held))
        wait_for(lambda: "in" in desk.names(), "in its allocation", state=lambda: str(launch.so_far()))
        with hanging(cluster):
            desk.put("go", "")
            status = stack.enter_context(cluster.running(["env", "MNRUN_SLURM_POLL=1", "mnrun", "status"]))
            handed = stack.enter_context(cluster.running([*submit, "--runtime", "host", "--", program]))
            refusal(status.end(SECONDS), 123, SILENT)
            refusal(handed.end(SECONDS), 123, "sbatch", "may have been submitted: look at mnrun status")
            launched = launch.end(SECONDS)
        assert launched.code == 123, launched
        assert SILENT in launched.err, launched
    wait_for(lambda: bool(desk_output(desk)), "the job has run", state=lambda: str(desk.names()))
    (job,) = desk_output(desk)
    wait_for(lambda: state(cluster, job)["JobState"] == "COMPLETED", "completed", state=lambda: output(desk, job))
    assert "it runs\n" in output(desk, job)
    record = cluster.path(f"/home/alice/.mnrun/jobs/{job}/0/outcome").read_text()
    assert json.loads(record)["code"] == 0
    forget(cluster)


def desk_output(desk: Desk) -> list[str]:
    return [name.split("-")[1].partition(".")[0] for name in desk.names() if name.endswith(".out")]
