"""`mnrun report`: the times of a launch, by the ID of its job or by its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun import versioned
from mnrun.errors import SchedulerError
from mnrun.jobs import about, launches, records, timeline
from mnrun.schedulers.queue import Job, Snapshot
from mnrun.schedulers.vocabulary import JobState
from published import checked
from unit.cli.test_exec import running
from unit.jobs.test_archive import made
from unit.jobs.test_timeline import LAUNCH
from unit.typed import Complaint, Terminal
from unit.watching.test_series import lines


@pytest.fixture
def mnrun(mocker: MockerFixture, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(mocker, capsys)


def test_a_job_by_its_id(mnrun: Terminal, tmp_path: Path) -> None:
    path = made(tmp_path, "271", 1, 0)
    (path / "1" / "timeline").write_text(versioned.text(LAUNCH))
    said = mnrun("report", "271", "--job-dir", str(tmp_path))
    lines = said.out.splitlines()
    assert lines.index("launch 271-abc: 2 nodes, 9.000 s") + 1 == lines.index(
        "PHASE      50 %   90 %   99 %   100 %  SLOWEST"
    )
    assert lines[0].startswith("job 271: done, with code 0")
    assert said.out.endswith(f"\n{timeline.LEGEND}\n")
    assert "container  0.750  1.500  1.500  1.500  node02 1.500, node01 0.750" in said.out


def test_a_job_that_was_watched_shows_what_it_used(mnrun: Terminal, tmp_path: Path) -> None:
    path = made(tmp_path, "271", 1, 0)
    (path / "1" / "timeline").write_text(versioned.text(LAUNCH))
    (path / "1" / "samples").write_text(lines(3, "gpu 0 97 1000 2000 60 300 {t}000", "cpu {t}0.00 4"))
    said = mnrun("report", "271", "--job-dir", str(tmp_path))
    assert "\nused        CPU 25 % of 4, GPUs 97 %, 0.556 Wh\n" in said.out
    assert "\nGPU use          97 %   97 % n1 GPU 0   97 % n1 GPU 0\n" in said.out
    assert "<h3>GPU use</h3>" in mnrun("report", "271", "--html", "--job-dir", str(tmp_path)).out


def test_a_live_run_that_was_kept(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    folder = running(tmp_path)
    (folder / launches.OWNER).unlink()
    (folder / "timeline").write_text(versioned.text(LAUNCH))
    (folder / "samples").write_text(lines(3, "cpu {t}0.00 4"))
    for name in ("12", "12-abcdef"):
        said = mnrun("report", name, "--job-dir", str(tmp_path))
        assert "launch 271-abc: 2 nodes" in said.out
        assert "CPU use" in said.out
        assert "\nran on      4 ranks on 2 nodes (n[1-2]), 4 GPUs\n" in said.out
    (folder / "timeline").unlink()
    values = checked("report", mnrun("report", "12-abcdef", "--json", "--job-dir", str(tmp_path)).out)
    assert (values["about"]["id"], values["about"]["ranks"], values["nodes"]) == ("12-abcdef", 4, {})


def test_a_script_that_goes_on_shows_its_last_launch(mnrun: Terminal, tmp_path: Path, mocker: MockerFixture) -> None:
    path = made(tmp_path, "271")
    (path / "submitted").write_text('{"id": "271", "own": true, "name": "mine", "time": 5}')
    running(tmp_path).rename(path / "last")
    (path / "last" / "timeline").write_text(versioned.text(LAUNCH))
    (path / "last" / "outcome").write_text(versioned.text(records.Ended(9.0, 3, "rank 0 exited with 3", "x")))
    queue = mocker.patch("mnrun.attach.user.queue").return_value
    queue.jobs.return_value = Snapshot((Job("271", "mine", JobState.FAILED, code=3, submitted=4.0, end=9.0),), 10.0)
    queue.history.return_value = ()
    values = checked("report", mnrun("report", "271", "--json", "--job-dir", str(tmp_path)).out)
    told = values["about"]
    assert (told["state"], told["code"], told["why"]) == ("FAILED", 3, "rank 0 exited with 3")
    assert (told["submitted"], told["ranks"], values["job"]) == (4.0, 4, "271-abc")
    page = mnrun("report", "271", "--html", "--job-dir", str(tmp_path)).out
    assert "<dt>ran on</dt>" in page


def test_a_file(mnrun: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text(versioned.text(LAUNCH))
    assert mnrun("report", str(file), "--json").out == versioned.text(about.report(LAUNCH, None), 2)
    checked("report", mnrun("report", str(file), "--json").out)
    assert mnrun("report", str(file), "--html").out.startswith("<!DOCTYPE html>")


def test_a_job_that_has_not_ended(mnrun: Terminal, tmp_path: Path, mocker: MockerFixture) -> None:
    made(tmp_path, "271", None)
    mocker.patch("mnrun.attach.user.queue", side_effect=SchedulerError("no answer"))
    said = mnrun("report", "271", "--job-dir", str(tmp_path))
    assert "PHASE" not in said.out
    assert "\nstarted     1970-01-01 " in said.out
    checked("report", mnrun("report", "271", "--json", "--job-dir", str(tmp_path)).out)
    assert mnrun("report", "271", "--html", "--job-dir", str(tmp_path)).out.startswith("<!DOCTYPE html>")


def test_an_unknown_job(mnrun: Terminal, tmp_path: Path, mocker: MockerFixture, complaint: Complaint) -> None:
    mocker.patch("mnrun.schedulers.slurm.scheduler.trace", return_value=None)
    complaint(mnrun("report", "272", "--job-dir", str(tmp_path)), 123)


def test_another_file(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    complaint(mnrun("report", str(tmp_path / "binary")))
