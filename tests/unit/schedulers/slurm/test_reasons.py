"""Slurm's reasons for a waiting job, in a person's words."""

from __future__ import annotations

from mnrun.schedulers.queue import Job
from mnrun.schedulers.slurm import reasons
from mnrun.schedulers.vocabulary import JobState
from unit.cases import Cases, given

NOW = 1_800_000_000.0


def test_why_a_job_waits(cases: Cases) -> None:
    def sentence(word: str, more: str) -> str:
        known = given(more)
        if "start" in known:
            known["start"] = NOW + int(known["start"])
        return reasons.sentence(Job("7", "x", JobState.PENDING, word, **known), NOW)

    cases(sentence)
