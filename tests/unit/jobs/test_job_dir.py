"""What a launch leaves where it was started: private, whole, and gone at the end."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest
from pytest_mock import MockerFixture

from mnrun import versioned
from mnrun.errors import NodeError, UsageError
from mnrun.jobs import about, archive, job_dir, launches, timeline
from mnrun.jobs.records import Ended, Submitted
from mnrun.model import Outcome, Worker
from mnrun.running import execute
from mnrun.system.clock import Clock
from mnrun.system.screen import Screen
from unit.played import READY, Play, Stage, say
from unit.samples import SITE, build, make
from unit.texts import Refused


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def leave(parent: Path, job: str, owner: str) -> Path:
    path = parent / job
    path.mkdir(parents=True)
    (path / job_dir.OWNER).write_text(owner)
    (path / "log").write_text("x\n")
    return path


def test_it_is_there_for_as_long_as_the_launch(tmp_path: Path) -> None:
    with job_dir.opened(str(tmp_path / "a/b"), "7-abc", keep=False) as records:
        records.log("a line")
        assert records.path == tmp_path / "a/b/7-abc"
        assert records.path.is_dir()
    assert not records.path.exists()


def test_samples_stay_below_a_size(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("mnrun.watching.kept.LIMIT", 1000)
    with job_dir.opened(str(tmp_path), "7-abc", keep=True) as records:
        for tick in range(200):
            for node in ("n1", "n2"):
                records.log(f"sample {node} {tick}.00 cpu {tick}.00 4", "sample")
    text = (records.path / "samples").read_text()
    assert 300 < len(text) <= 1000
    times = {
        node: [int(line.split()[2][:-3]) for line in text.splitlines() if f" {node} " in line] for node in ("n1", "n2")
    }
    steps = {after - before for ticks in times.values() for before, after in zip(ticks, ticks[1:])}
    assert times["n1"][0] == 0 and len(steps) == 1, "the ticks that stay are as far from each other"
    assert times["n1"][-1] > 150, "and the end is there, too"


def test_it_goes_when_the_launch_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), job_dir.opened(str(tmp_path), "7-abc", keep=False):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [True, False])
def test_a_file_system_that_becomes_read_only_takes_no_exit_code(
    tmp_path: Path, mocker: MockerFixture, keep: bool
) -> None:
    ended = False
    with job_dir.opened(str(tmp_path), "7-abc", keep=keep) as records:
        mocker.patch("pathlib.Path.unlink", side_effect=OSError(errno.EROFS, "Read-only file system"))
        mocker.patch("shutil.rmtree")
        records.ended()
        ended = True
    assert ended


def test_it_stays_where_it_is_kept(tmp_path: Path) -> None:
    with job_dir.opened(str(tmp_path), "7-abc", keep=True) as records:
        records.log("one")
        records.log("two ü")
        records.ready([Worker("node01", "node01", "10.0.0.1", 22345, "3"), Worker("node02", "n2", "")])
    assert sorted(path.name for path in records.path.iterdir()) == ["log", "nodes.json", "outcome"]
    assert (records.path / "log").read_text() == "one\ntwo ü\n"
    record = json.loads((records.path / "nodes.json").read_text())
    first, second = record["nodes"]
    assert (record["version"], second["host"]) == (1, "n2")
    assert first == {
        "name": "node01",
        "host": "node01",
        "address": "10.0.0.1",
        "port": 22345,
        "step": "3",
        "user": "",
        "image": "",
        "master": 0,
        "service": 0,
    }


def test_the_last_launch_of_a_script_stays(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir(mode=0o700)
    (tmp_path / "7" / "submitted").write_text(versioned.text(Submitted("7", own=True)))
    last = tmp_path / "7" / "last"
    for number, keep in enumerate((False, True, False)):
        with job_dir.opened(str(tmp_path), f"7-abcde{number}", keep, str(last)) as records:
            records.outcome = Outcome(number)
            records.log(f"launch {number}")
        assert (last / "log").read_text() == f"launch {number}\n"
        assert (tmp_path / f"7-abcde{number}").exists() == keep
        assert sorted(path.name for path in last.parent.iterdir()) == ["last", "submitted"]
        record = archive.read([tmp_path])["7"]
        assert record.launched is not None
        assert (record.launched.code, record.over, archive.last_start(record)) == (number, False, last)
    with pytest.raises(NodeError), job_dir.opened(str(tmp_path), "7-abcdex", False, str(last)):
        raise NodeError("node02 is gone")
    assert archive.outcome(last) == Ended(mock.ANY, 121, "node02 is gone", "node")


def test_why_a_live_run_failed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    base = tmp_path / ".mnrun/jobs"
    ends = [Outcome(3, why="rank 1 exited with 3"), Outcome(0), Outcome(4), None]
    for number, end in enumerate([*ends, *ends[:1] * archive.MOST_ENDS]):
        with suppress(NodeError), job_dir.opened(str(base), "7-abc", keep=False, number=str(number)) as records:
            records.outcome = end
            if end is None:
                raise NodeError("node02 is gone")
        if number == 3:
            told = archive.live_ends(tmp_path)
            assert told == {
                "0": Ended(mock.ANY, 3, "rank 1 exited with 3"),
                "3": Ended(mock.ANY, 121, mock.ANY, "node"),
            }
    assert list(archive.live_ends(tmp_path)) == [str(4 + number) for number in range(archive.MOST_ENDS)]
    file = tmp_path / ".mnrun/ends"
    assert mode(file) == 0o600
    file.write_text('{"id": "5", "code": 3, "why": "half"}\nnonsense\n[]\n{"code": 3}\n')
    assert archive.live_ends(tmp_path) == {"5": Ended(0, 3, "half")}


@pytest.mark.usefixtures("open_umask")
def test_the_records_of_all_jobs_are_private(tmp_path: Path) -> None:
    job_dir.writable(str(tmp_path / ".mnrun/jobs"))
    assert [mode(tmp_path / name) for name in (".mnrun", ".mnrun/jobs")] == [0o700, 0o700]


@pytest.mark.usefixtures("open_umask")
def test_it_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """Directories 0700, files 0600."""
    with job_dir.opened(str(tmp_path), "7-abc", keep=True) as records:
        records.log("x")
        records.write("a", "x")
        records.write("a", "y")
        assert (records.path / "a").read_text() == "y"
        assert {path.name: mode(path) for path in records.path.iterdir()} == {
            "log": 0o600,
            "a": 0o600,
            job_dir.OWNER: 0o600,
        }
    assert mode(records.path) == 0o700


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = job_dir.Records(tmp_path)
    records.write("a", "before")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        records.write("a", "after")
    assert (tmp_path / "a").read_text() == "before"


@pytest.mark.parametrize(("where", "call"), [(Path, "mkdir"), (os, "replace")], ids=["mkdir", "replace"])
def test_a_directory_that_cannot_be_written_is_one_line(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: object, call: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(where, call, fail)
    with refused(UsageError), job_dir.opened(str(tmp_path / "jobs"), "7-abc", keep=False):
        pytest.fail("it was opened")
    monkeypatch.undo()
    assert not (tmp_path / "jobs/7-abc").exists()


def test_a_file_in_its_place_is_one_line(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with refused(UsageError), job_dir.opened(str(tmp_path / "file"), "7-abc", keep=False):
        pytest.fail("it was opened")
    assert (tmp_path / "file").read_text() == "precious"


def test_what_a_killed_launch_left_goes_with_the_next(tmp_path: Path) -> None:
    dead = leave(tmp_path, "6-old", launches.mark(4194305))  # above the kernel's highest pid
    with job_dir.opened(str(tmp_path), "7-abc", keep=False):
        assert not dead.exists()


def test_nothing_goes_where_others_may_rename_directories(refused: Refused, tmp_path: Path) -> None:
    """(S6) They could give the name of an old launch to a directory that is in use. So it is judged first."""
    dead = leave(tmp_path, "6-old", launches.mark(4194305))
    tmp_path.chmod(0o777)
    with refused(UsageError), job_dir.opened(str(tmp_path), "7-abc", keep=False):
        pytest.fail("it was opened")
    assert dead.exists()


GONE = launches.mark(4194305)
MARKS = {
    "alive": launches.mark(),
    "another host": GONE.replace(platform.node(), "another"),
    "another machine of this name": re.sub(r"[0-9a-f-]{36}", "0" * 36, GONE),
    "another process namespace": re.sub(r"pid:\[\d+\]", "pid:[1]", GONE),
    "an unknown namespace": f"4194305 1 {platform.node()} unknown\n",
    "empty": "",
    "odd": "odd",
    "no numbers": "a b c\n",
    "too little": f"{platform.node()} 4194305\n",
}


@pytest.mark.parametrize("owner", MARKS)
def test_what_may_be_under_way_stays(tmp_path: Path, owner: str) -> None:
    """(R5) A living process, one elsewhere, or a mark that cannot be read: it is not ours to remove."""
    other = leave(tmp_path, "6-other", MARKS[owner])
    with job_dir.opened(str(tmp_path), "7-abc", keep=False):
        assert (other / "log").exists()


def test_what_was_kept_stays(tmp_path: Path) -> None:
    """A kept directory has no mark, so that the next launch leaves it alone."""
    with job_dir.opened(str(tmp_path), "6-kept", keep=True):
        pass
    with job_dir.opened(str(tmp_path), "7-abc", keep=False):
        assert (tmp_path / "6-kept").is_dir()


def test_the_timeline_has_every_phase_of_every_node(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    plan = make(build("./app", timeline=str(file)), 2, 1)
    records = job_dir.Records(tmp_path)
    with job_dir.reported(Clock(), plan, Screen(), records):
        records.launched(plan, SITE)
        records.clock.mark("held")
        with records.timed(plan.job, plan.layout.nodes):
            records.outcome = execute.Launch(plan, SITE, {}, records, Screen(), stage.start).run()
    found = timeline.parse((tmp_path / "timeline").read_text())
    assert found is not None
    assert None not in vars(found.moments).values()
    assert all(0 < node.ready < node.rank < node.bye for node in found.nodes.values())  # type: ignore[operator]
    assert timeline.parse(file.read_text()) == found
    told = about.parse(file.read_text())
    assert told is not None
    assert (told.code, told.command, told.nodes, told.ranks) == (0, ("./app",), 2, 3)
    assert file.read_text() == versioned.text(about.report(found, told))


def test_a_launch_that_fails_has_a_timeline_too(stage: Stage, tmp_path: Path) -> None:
    plan = make(build("./app"), 2, 1)
    stage.play = Play(kit=say(READY[0], "fail node02 x"))
    records = job_dir.Records(tmp_path)
    with pytest.raises(NodeError), records.timed(plan.job, plan.layout.nodes):
        execute.Launch(plan, SITE, {}, records, Screen(), stage.start).run()
    found = timeline.parse((tmp_path / "timeline").read_text())
    assert found is not None
    assert found.moments.go is None
    assert set(found.nodes) == {"node01", "node02"}


def test_a_timeline_that_cannot_be_written_is_refused_before_the_launch(tmp_path: Path, refused: Refused) -> None:
    plan = make(build("./app", timeline=f"{tmp_path}/none/file"), 1)
    records = job_dir.Records(tmp_path)
    with refused(UsageError), job_dir.reported(Clock(), plan, Screen(), records):
        pytest.fail("the launch began")


def test_a_timeline_that_goes_wrong_at_the_end_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = make(build("./app", timeline=f"{tmp_path}/below/file"), 1)
    (tmp_path / "below").mkdir()
    records = job_dir.Records(tmp_path)
    with job_dir.reported(Clock(), plan, Screen(), records), records.timed(plan.job, plan.layout.nodes):
        shutil.rmtree(tmp_path / "below")
    assert "mnrun: warning: --timeline" in capsys.readouterr().err
