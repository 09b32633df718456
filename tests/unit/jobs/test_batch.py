"""A start of a submitted job: its records, and when a job is given up."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import BUG, NodeError, Requeued, tell
from mnrun.jobs import archive, batch, job_dir, records
from mnrun.model import Outcome
from mnrun.schedulers.slurm import scheduler as slurm
from unit.samples import build
from unit.texts import Refused

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[01-02]", "SLURMD_NODENAME": "node01", "SLURM_JOB_NAME": "x"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def start_of(environ: Mapping[str, str]) -> batch.Start:
    return batch.Start(slurm.start(environ))


def started(
    base: Path, environ: Mapping[str, str] = {}, outcome: Outcome | BaseException | None = None
) -> dict[str, Any]:
    whole = {**JOB, **environ}
    job, start = build("./app", job_dir=str(base), gpus="a100:4")._replace(as_given=True), start_of(whole)
    try:
        with batch.recorded(job, start) as kept:
            kept.outcome = outcome if isinstance(outcome, Outcome) else None
            if isinstance(outcome, BaseException):
                raise outcome
    except BaseException as error:
        if error is not outcome:
            raise
    place = base / start.batch.id / str(start.batch.restart)
    found: dict[str, Any] = json.loads((place / "outcome").read_text())
    begun = records.begun((place / "begun").read_text())
    assert begun is not None
    assert (begun.nodes, begun.head) == ("node[01-02]", "node01")
    return {key: found[key] for key in ("code", "why", "reason")}


@pytest.mark.parametrize(
    ("environ", "start"),
    [
        ({}, ("7", 0)),
        ({"SLURM_RESTART_COUNT": "2"}, ("7", 2)),
        ({"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}, ("5_3", 0)),
    ],
)
def test_which_start_it_is(environ: dict[str, str], start: tuple[str, int]) -> None:
    found = start_of({**JOB, **environ})
    assert (found.batch.id, found.batch.restart, found.is_script) == (*start, False)
    assert start_of({**JOB, "SLURM_TASK_PID": str(os.getpid())}).is_script


@pytest.mark.parametrize(
    ("outcome", "code", "why", "reason"),
    [
        (Outcome(3), 3, "", ""),
        (Outcome(0, why="requeued"), 0, "requeued", ""),
        (Outcome(1, why="it lacks a", reason="python-module"), 1, "it lacks a", "python-module"),
        (NodeError("node02 is gone", "look there"), 121, "node02 is gone", "node"),
        (Requeued("job 7 was preempted"), 143, "requeued", "requeued"),
        (RuntimeError("a bug"), BUG, "", ""),
        (SystemExit(143), 143, "", ""),
    ],
)
def test_every_end_is_recorded(
    tmp_path: Path, outcome: Outcome | BaseException, code: int, why: str, reason: str
) -> None:
    assert started(tmp_path, outcome=outcome) == {"code": code, "why": why, "reason": reason}


def test_the_record_of_an_end_comes_after_the_last_line(
    tmp_path: Path, mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    mocker.patch.object(job_dir.Records, "ended", lambda *_: said.append(capsys.readouterr().err))
    error = NodeError("node02 is gone", "look there")
    with pytest.raises(NodeError), batch.recorded(build("./app", job_dir=str(tmp_path)), start_of(JOB)):
        raise error
    assert said == ["mnrun: node02 is gone; look there\n"]
    assert (tell(error), capsys.readouterr().err) == (121, "")


def test_its_followers_know_a_job_that_was_handed_in_by_hand(tmp_path: Path) -> None:
    started(tmp_path, {"SLURM_JOB_NUM_NODES": "2"}, Outcome(0))
    found = archive.read([tmp_path])["7"]
    assert found.submitted is not None
    assert (found.submitted.name, found.submitted.nodes, found.submitted.command) == ("x", 2, ("./app",))
    assert found.submitted.gpus == 4
    files = [tmp_path / "7" / name for name in ("submitted", "0/begun", "0/outcome")]
    assert [json.loads(file.read_text())["version"] for file in files] == [1, 1, 1]
    (tmp_path / "7/submitted").write_text('{"id": "7", "name": "ours"}')
    started(tmp_path, {"SLURM_RESTART_COUNT": "1"}, Outcome(0))
    assert json.loads((tmp_path / "7/submitted").read_text())["name"] == "ours"
    started(tmp_path, {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}, Outcome(0))
    assert (tmp_path / "5/submitted").exists()
    assert not (tmp_path / "5_3/submitted").exists()


def test_a_job_that_something_ends_again_and_again(refused: Refused, tmp_path: Path) -> None:
    for number in range(batch.MOST_LOST):
        (tmp_path / "7" / str(number)).mkdir(parents=True)
    assert started(tmp_path, {"SLURM_RESTART_COUNT": "5"}, Requeued("x"))["why"] == "requeued"
    assert started(tmp_path, {"SLURM_RESTART_COUNT": "6"}, Outcome(3))["code"] == 3
    with refused(NodeError):
        started(tmp_path, {"SLURM_RESTART_COUNT": "7"}, Outcome(0))
    assert json.loads((tmp_path / "7/7/outcome").read_text())["code"] == 121


def test_another_job_had_this_number(tmp_path: Path) -> None:
    started(tmp_path, outcome=Outcome(3))
    with batch.recorded(build("./app", job_dir=str(tmp_path)), start_of(JOB)) as kept:
        assert not (tmp_path / "7/0/outcome").exists()
        kept.outcome = Outcome(0)


def test_records_that_cannot_be_written(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "7").write_text("")
    with refused(NodeError):
        started(tmp_path, outcome=Outcome(0))


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, "out"),
        ({"SLURM_RESTART_COUNT": "1"}, "out/start.1"),
        ({"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "2"}, "out/3/start.2"),
    ],
)
def test_each_task_and_start_has_files_of_its_own(environ: dict[str, str], folder: str) -> None:
    job = build("./app", split_output="out")._replace(as_given=True)
    assert batch.with_own_folder(job, start_of({**JOB, **environ})).program.split_output == f"/home/alice/run/{folder}"
    assert batch.with_own_folder(build("./app"), start_of(JOB)).program.split_output == ""
