"""`mnrun report`: the times of a launch, by the ID of its job or by its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun import versioned
from mnrun.jobs import timeline
from published import checked
from unit.jobs.test_archive import made
from unit.jobs.test_timeline import LAUNCH
from unit.typed import Terminal


@pytest.fixture
def mnrun(mocker: MockerFixture, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(mocker, capsys)


def test_a_job_by_its_id(mnrun: Terminal, tmp_path: Path) -> None:
    """Its last start counts."""
    path = made(tmp_path, "271", 1, 0)
    (path / "1" / "timeline").write_text(versioned.text(LAUNCH))
    said = mnrun("report", "271", "--job-dir", str(tmp_path))
    assert said.out.splitlines()[:2] == [
        "launch 271-abc: 2 nodes, 9.000 s",
        "PHASE      50 %   90 %   99 %   100 %  SLOWEST",
    ]
    assert said.out.endswith(f"\n{timeline.LEGEND}\n")
    assert "container  0.750  1.500  1.500  1.500  node02 1.500, node01 0.750" in said.out


def test_a_file(mnrun: Terminal, tmp_path: Path) -> None:
    """--json prints what --timeline writes, and --html a page."""
    file = tmp_path / "times.json"
    file.write_text(versioned.text(LAUNCH))
    assert mnrun("report", str(file), "--json").out == versioned.text(timeline.trace(LAUNCH), 2)
    checked("report", mnrun("report", str(file), "--json").out)
    assert mnrun("report", str(file), "--html").out.startswith("<!DOCTYPE html>")


def test_a_job_without_one(mnrun: Terminal, tmp_path: Path) -> None:
    made(tmp_path, "271", None)
    said = mnrun("report", "271", "--job-dir", str(tmp_path))
    assert said.code == 2
    assert said.err == (
        f"mnrun: there is no timeline in {tmp_path}/271/0/timeline; mnrun writes it when the job has ended\n"
    )


def test_an_unknown_job(mnrun: Terminal, tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("mnrun.schedulers.slurm.trace", return_value=None)
    said = mnrun("report", "272", "--job-dir", str(tmp_path))
    assert said.code == 123
    assert said.err.startswith(f"mnrun: no job 272 of yours: neither Slurm nor {tmp_path} knows it; ")


def test_another_file(mnrun: Terminal, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    said = mnrun("report", str(tmp_path / "binary"))
    assert said.code == 2
    assert "name a job's ID, or a file that --timeline has written" in said.err
