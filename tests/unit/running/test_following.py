"""A run on a scheduler that gives nodes to its own jobs alone."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun import versioned
from mnrun.api import Job
from mnrun.attach import output
from mnrun.errors import Impossible, UsageError
from mnrun.jobs import records, waiting
from mnrun.jobs.records import Begun, Ended
from mnrun.running import request, session
from mnrun.schedulers.slurm import scheduler as slurm
from unit.samples import SITE
from unit.texts import Refused, Says


class Queue:
    """A queue that ends a job when it is told to, as the job's own record then says."""

    poll = 30.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cancelled: list[str] = []

    def cancel(self, ids: list[str], signal: str, scripts: object) -> None:
        self.cancelled += ids
        _end(self.folder, 143)

    def forget(self) -> None:
        pass

    def nodes(self) -> tuple[object, ...]:
        return ()


def _end(folder: Path, code: int) -> None:
    (folder / records.OUTCOME).write_text(versioned.text(Ended(2.0, code)))


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture) -> Queue:
    """That of a scheduler which holds no nodes for others. Its job 42 has begun, and written a line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "jobs/42/0"
    queue = Queue(folder)

    def submit(script: str, *_: object) -> tuple[str, str]:
        assert "--array" not in script
        folder.mkdir(parents=True)
        (tmp_path / "out").write_text("hello\n")
        (folder / records.BEGUN).write_text(versioned.text(Begun(1.0, output=str(tmp_path / "out"))))
        return "42", ""

    for name, answer in {"is_here": True, "request": (), "user_queue": queue, "doubts": []}.items():
        mocker.patch.object(slurm, name, return_value=answer)
    mocker.patch.object(slurm, "submit", side_effect=submit)
    mocker.patch.object(waiting, "LOOK", 0.01)
    return queue


def run(**options: Any) -> int:
    return Job(["./app"], image="docker://app", job_dir="jobs", **options).run()


@pytest.mark.parametrize("code", [0, 3])
def test_its_code_is_that_of_the_jobs_own_record(
    queue: Queue, capsys: pytest.CaptureFixture[str], mocker: MockerFixture, code: int
) -> None:
    show = output.show

    def shown(*words: Any, **how: Any) -> None:
        _end(queue.folder, code)
        show(*words, **how)

    mocker.patch.object(output, "show", side_effect=shown)
    assert run(array="0-3") == code
    out, err = capsys.readouterr()
    assert out == "hello\n"
    assert "this is job 42" in err
    assert "--array: no effect" in err
    assert queue.cancelled == []


def test_a_job_without_output(queue: Queue, mocker: MockerFixture) -> None:
    mocker.patch.object(output, "show", side_effect=UsageError("job 42 ended before it started"))
    mocker.patch.object(waiting, "wait", return_value=1)
    mocker.patch.object(waiting, "tell_ends", return_value=1)
    assert run() == 1


@pytest.mark.parametrize(
    ("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(128 + signal.SIGTERM), 128 + signal.SIGTERM)]
)
def test_a_signal_cancels_the_job(queue: Queue, mocker: MockerFixture, stop: BaseException, code: int) -> None:
    mocker.patch.object(output, "show", side_effect=stop)
    assert run() == code
    assert queue.cancelled == ["42"]


def test_what_needs_nodes_here_says_so(queue: Queue, mocker: MockerFixture, refused: Refused, says: Says) -> None:
    mocker.patch.object(slurm, "site", return_value=SITE)
    with refused(UsageError):
        run(alloc=False)
    says(Job(["./app"], image="docker://app").plan()["notes"][-1])


def test_a_prompt_is_opened_by_the_schedulers_own_command(
    queue: Queue, mocker: MockerFixture, refused: Refused
) -> None:
    asked = request.read((), {"image": "docker://app"}, "terminal", live=True)
    with refused(Impossible):
        session.carry_out(asked)
    mocker.patch.object(slurm, "interactive", side_effect=lambda spec, options, words, environ: ("qrsh", "--", *words))
    started = mocker.patch("subprocess.run", return_value=subprocess.CompletedProcess((), 7))
    assert session.carry_out(asked) == 7
    assert started.call_args.args[0][:2] == ("qrsh", "--")
