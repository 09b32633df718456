"""Slurm's reasons for a waiting job, in a person's words."""

from __future__ import annotations

from typing import Any

import pytest

from mnrun.schedulers.queue import Job
from mnrun.schedulers.slurm import reasons

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("word", "more", "meaning"),
    [
        ("Resources", {}, "waits for nodes or GPUs that others use"),
        ("Priority", {}, "other jobs are before it in the queue"),
        ("Dependency", {"depends": "afterok:12(unfulfilled),afterany:13_*(unfulfilled)"}, "waits for job 12, 13_*"),
        ("Dependency", {"depends": "singleton"}, "waits for another job"),
        (
            "DependencyNeverSatisfied",
            {"depends": "afterok:12(failed)"},
            "can never start, since its dependency cannot be met; cancel it",
        ),
        ("JobHeldUser", {}, "held by you; release it with: scontrol release 7"),
        ("BeginTime", {"start": NOW + 3600}, "starts in 1:00:00 at the earliest"),
        ("BeginTime", {}, "its start time has not come"),
        ("QOSMaxGRESPerUser", {}, "a limit of your QOS is reached (Slurm: QOSMaxGRESPerUser)"),
        ("AssocGrpGRES", {}, "a limit of your account is reached (Slurm: AssocGrpGRES)"),
        ("ReqNodeNotAvail, UnavailableNodes:n2", {}, "nodes that it asks for are down, drained or reserved"),
        ("", {}, "was submitted just now"),
        ("SomethingNew", {}, "Slurm: SomethingNew"),
    ],
)
def test_why_a_job_waits(word: str, more: dict[str, Any], meaning: str) -> None:
    """In a person's words."""
    assert reasons.sentence(Job("7", "x", "PENDING", word, **more), NOW) == meaning
