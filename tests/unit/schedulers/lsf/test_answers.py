"""The answers of bjobs, in the shape that public logs show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnrun.errors import SchedulerError
from mnrun.schedulers.lsf import answers
from mnrun.schedulers.queue import Job
from mnrun.schedulers.vocabulary import JobId, JobState
from unit.texts import Refused

BJOBS = (Path(__file__).parents[2] / "recorded/lsf/bjobs.json").read_text(encoding="utf-8")
NOW = 1_800_000_000.0


def ended(reason: str, code: str) -> Job:
    record = {**json.loads(BJOBS)["RECORDS"][0], "STAT": "EXIT", "EXIT_REASON": reason, "EXIT_CODE": code}
    (job,) = answers.jobs(json.dumps({"RECORDS": [record]}), NOW)
    return job


def test_jobs_of_each_state() -> None:
    """An array of mnrun's has its tasks' own numbers, and one of the user's has LSF's."""
    found = answers.jobs(BJOBS, NOW)
    assert [(job.id, job.name, job.state, job.nodelist, job.code, job.signal) for job in found] == [
        ("22005", "hello", JobState.RUNNING, "node[01-02]", 0, 0),
        ("22006", "short", JobState.RUNNING, "node[01,03]", 0, 0),
        ("22007_0", "sweep", JobState.COMPLETED, "node01", 0, 0),
        ("22007_5", "sweep", JobState.PENDING, "", 0, 0),
        ("22008_10", "own", JobState.PENDING, "", 0, 0),
        ("22009", "long", JobState.TIMEOUT, "node02", 0, 12),
        ("22010", "three", JobState.FAILED, "node02", 3, 0),
        ("22011", "cut", JobState.RUNNING, "node02", 0, 0),
    ]


def test_times_of_a_job_that_runs() -> None:
    limited, open_ended = answers.jobs(BJOBS, NOW)[:2]
    assert (limited.start, limited.end) == (NOW - 40, NOW + 560)
    assert (open_ended.start, open_ended.end) == (NOW - 93601, 0)


def test_the_reason_for_waiting() -> None:
    reasons = {job.id: job.reason for job in answers.jobs(BJOBS, NOW) if job.reason}
    assert reasons == {"22007_5": "New job is waiting for scheduling", "22008_10": "held, until bresume releases it"}


@pytest.mark.parametrize(
    ("reason", "code", "state"),
    [
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit", "140", JobState.TIMEOUT),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit", "137", JobState.OUT_OF_MEMORY),
        ("TERM_OWNER: job killed by owner", "130", JobState.CANCELLED),
        ("TERM_FORCE_ADMIN: job killed by root or LSF administrator", "137", JobState.CANCELLED),
        ("TERM_PREEMPT: job killed after preemption", "137", JobState.PREEMPTED),
        ("TERM_ZOMBI: job exited while LSF is not available", "", JobState.NODE_FAIL),
        ("TERM_EXTERNAL_SIGNAL: job killed by a signal external to LSF", "137", JobState.FAILED),
        ("", "143", JobState.CANCELLED),
        ("", "7", JobState.FAILED),
    ],
)
def test_the_end_of_a_job(reason: str, code: str, state: JobState) -> None:
    assert ended(reason, code).state == state


@pytest.mark.parametrize(
    ("job", "own"),
    [
        ("22005", {"22005": "RUN"}),
        ("22007", {"22007[1]": "DONE", "22007[2]": "PEND"}),
        ("22007_5", {"22007[2]": "PEND"}),
        ("22007_9", {}),
    ],
)
def test_the_ids_by_which_lsf_knows_a_job(job: str, own: dict[str, str]) -> None:
    assert answers.alive(BJOBS, JobId.of(job)) == own


def test_nothing_is_no_failure_and_a_table_is_one(refused: Refused) -> None:
    """bjobs that is older than 10.1.0.2 has no -json."""
    assert answers.jobs("", NOW) == []
    with refused(SchedulerError):
        answers.jobs("JOBID USER STAT\n1 alice RUN\n", NOW)


def test_hosts_are_in_the_jobs_order() -> None:
    assert answers.hosts("node02 2 node01 4") == {"node02": 2, "node01": 4}
    assert answers.hosts("") == {}
