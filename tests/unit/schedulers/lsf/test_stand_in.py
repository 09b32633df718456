"""The stand-in of the live tests answers in the shape that public logs show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnrun.schedulers.lsf import answers
from rehearsal import lsf as stand_in
from unit.schedulers.lsf.test_answers import BJOBS, NOW

WORDS = ["-a", "-hms", "-json", "-o", answers.FIELDS]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the stand-in's folder, with the jobs that public logs show."""
    monkeypatch.setattr(stand_in, "PLACE", tmp_path)
    own = {"signals": [], "limit": 600, "began": 0, "ended": 0}
    jobs = {(one["JOBID"].partition("[")[0] + one["JOBINDEX"]): {**one, **own} for one in json.loads(BJOBS)["RECORDS"]}
    (tmp_path / "jobs").write_text(json.dumps(jobs))
    return tmp_path


def test_its_jobs_are_those_of_lsf(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stand_in.bjobs(WORDS) == 0
    said, real = json.loads(capsys.readouterr().out), json.loads(BJOBS)
    assert said.keys() == real.keys()
    for one, other in zip(said["RECORDS"], real["RECORDS"]):
        assert {name: type(value) for name, value in one.items()} == dict.fromkeys(other, str)
    assert [job.id for job in answers.jobs(json.dumps(said), NOW)] == [job.id for job in answers.jobs(BJOBS, NOW)]


def test_it_finds_no_unknown_job(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As LSF, it then prints no JSON."""
    assert stand_in.bjobs([*WORDS, "7"]) == 255
    assert capsys.readouterr() == ("", "Job <7> is not found\n")
    assert stand_in.bkill(["7"]) == 255
    assert capsys.readouterr() == ("", "Job <7>: No matching job found\n")
