"""The directories of submitted jobs, what they say, and their end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import SchedulerError, UsageError
from mnrun.jobs import archive, launches, state, waiting
from mnrun.jobs.tail import Tail
from mnrun.schedulers.queue import Job, Snapshot


def made(base: Path, identity: str, *starts: int | None, time: float = 5.0) -> Path:
    """A job's directory, with starts that ended with these codes (None: not)."""
    path = base / identity
    path.mkdir(parents=True)
    (path / "submitted").write_text(json.dumps({"id": identity, "time": time}))
    for number, code in enumerate(starts):
        start = path / str(number)
        start.mkdir()
        (start / "begun").write_text(json.dumps({"time": time, "nodes": "n[1-2]"}))
        if code is not None:
            (start / "outcome").write_text(json.dumps({"time": time, "code": code}))
    return path


def test_what_lies_there(tmp_path: Path) -> None:
    """Jobs, of each its last start; other things are none of ours."""
    made(tmp_path, "7", 1, 0)
    made(tmp_path, "8_1", None)
    made(tmp_path, "9")
    (tmp_path / "271-abcdef").mkdir()
    (tmp_path / "11").mkdir()
    (tmp_path / "12").write_text("a file")
    kept = archive.read([tmp_path])
    assert sorted(kept) == ["7", "8_1", "9"]
    assert (kept["7"].restart, kept["7"].over, kept["8_1"].over, kept["9"].restart) == (1, True, False, -1)
    assert sorted(archive.read([tmp_path], ["8"])) == ["8_1"]
    assert archive.read([tmp_path / "nowhere"]) == {}
    assert archive.log(kept["7"]) == tmp_path / "7" / "1" / "log"


def test_only_what_is_asked_for_is_looked_at(tmp_path: Path, mocker: MockerFixture) -> None:
    """(L10) There may be thousands of old records: those that a verb does not show cost nothing but their names."""
    for job in range(1, 100):
        os.utime(made(tmp_path, str(job), 0), (1000, 1000))
    made(tmp_path, "100", 0)
    read = mocker.spy(archive, "content")
    assert list(archive.read([tmp_path], since=2000)) == ["100"]
    assert read.call_count == 3
    assert list(archive.read([tmp_path], ["7"])) == ["7"]
    assert read.call_count == 6
    assert launches.folders(tmp_path) == []


@pytest.mark.parametrize("how", ["a link", "open to others", "another user's"])
def test_no_record_of_another_user_is_believed(tmp_path: Path, mocker: MockerFixture, how: str) -> None:
    """(S6) Whose directory it is, and not its name, says whose job it is."""
    job = made(tmp_path / "real", "7", 0)
    (tmp_path / "base").mkdir()
    (tmp_path / "base/7").symlink_to(job)
    base = tmp_path / ("base" if how == "a link" else "real")
    if how == "open to others":
        job.chmod(0o777)
    if how == "another user's":
        mocker.patch("os.getuid", return_value=4711)
    assert archive.read([base]) == {}
    assert archive.request(base / "7") is None


def test_records_of_jobs_that_ended_long_ago_go(tmp_path: Path) -> None:
    """(L10) Whenever a job is added. A job without an end may still run."""
    for job, code, age in (("1", 0, 91), ("2", 3, 91), ("3", None, 91), ("4", 0, 89)):
        then = time.time() - age * state.DAY
        os.utime(made(tmp_path, job, code, time=then), (then, then))
    archive.forget_some(tmp_path, time.time())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]


def test_files_of_ranks(tmp_path: Path) -> None:
    """In the order of ranks."""
    for name in ("rank.10.out", "rank.2.out", "rank.2.err", "other"):
        (tmp_path / name).touch()
    assert list(archive.rank_files(str(tmp_path))) == [(2, "err"), (2, "out"), (10, "out")]
    assert archive.rank_files("/nowhere") == {}


def test_where_jobs_were_handed_in_from_is_remembered(tmp_path: Path) -> None:
    """Once each; the usual place needs no word."""
    assert archive.places(tmp_path) == []
    for base in (archive.usual(tmp_path), Path("/scratch/jobs"), Path("/data/jobs"), Path("/scratch/jobs")):
        archive.remember(tmp_path, base)
    assert archive.places(tmp_path) == [Path("/scratch/jobs"), Path("/data/jobs")]


def test_removing(tmp_path: Path, mocker: MockerFixture) -> None:
    """The directory of a job; never through a link, and never another user's."""
    path = made(tmp_path / "jobs", "7", 0)
    kept = archive.read([tmp_path / "jobs"])
    assert archive.remove(kept["7"]) == path
    assert not path.exists()
    with pytest.raises(UsageError, match=r"cannot remove .*7: No such file"):
        archive.remove(kept["7"])
    elsewhere = made(tmp_path / "elsewhere", "8", 0)
    path.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is not a directory of yours"):
        archive.remove(kept["7"])
    path.unlink()
    made(tmp_path / "jobs", "7", 0)
    mocker.patch("os.getuid", return_value=4711)
    with pytest.raises(UsageError, match="is not a directory of yours"):
        archive.remove(kept["7"])


# A file that grows


def test_a_file_as_it_grows(tmp_path: Path) -> None:
    """Byte for byte; not there yet, and begun anew."""
    path = tmp_path / "out"
    tail = Tail(path)
    assert tail.more() == b""
    path.write_bytes(b"one\ntw")
    assert (tail.more(), tail.more()) == (b"one\ntw", b"")
    path.write_bytes(b"one\ntwo\xff")
    assert (tail.more(), tail.rest()) == (b"o\xff", b"")
    path.write_bytes(b"new")
    assert tail.more() == b"new"


def test_lines_with_a_prefix(tmp_path: Path) -> None:
    """Whole lines only, but for the very last."""
    path = tmp_path / "rank.2.out"
    path.write_bytes(b"one\ntw")
    tail = Tail(path, b"[2] ")
    assert tail.more() == b"[2] one\n"
    path.write_bytes(b"one\ntwo\nthree")
    assert (tail.more(), tail.rest(), tail.rest()) == (b"[2] two\n", b"[2] three\n", b"")


def test_lines_about_a_node(tmp_path: Path) -> None:
    """By its whole name."""
    path = tmp_path / "log"
    path.write_bytes(b"node1 ready\nnode12 ready\nrank 3 on node1: gone\nmy-node1 x\nbye node1")
    tail = Tail(path, only="node1")
    assert tail.more() == b"node1 ready\nrank 3 on node1: gone\n"
    assert tail.rest() == b"bye node1\n"
    for lines, shown in ((0, b""), (1, b"bye node1\n"), (2, b"rank 3 on node1: gone\nbye node1\n")):
        last = Tail(path, lines=lines, only="node1")
        assert last.more() + last.rest() == shown


def test_a_block_without_a_line_about_the_node(tmp_path: Path, mocker: MockerFixture) -> None:
    """It is not the end of the file. Neither is a block without the end of a line."""
    mocker.patch("mnrun.jobs.tail.BLOCK", 7)
    path = tmp_path / "log"
    path.write_bytes(b"node12 ready\n" * 3 + b"node1 ready\n")
    assert Tail(path, only="node1").more() == b"node1 ready\n"
    path.write_bytes(b"." * 30 + b"\n")
    assert Tail(path, b"[2] ").more() == b"[2] " + b"." * 30 + b"\n"


@pytest.mark.parametrize(
    ("text", "lines", "shown"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\n", 5, b"a\nb\n"),
        (b"a\n\n\n", 2, b"\n\n"),
        (b"a\nb\n", 0, b""),
        (b"", 3, b""),
        (b"x" * 30 + b"\n" + b"y" * 30 + b"\n", 1, b"y" * 30 + b"\n"),
    ],
)
def test_the_last_lines(tmp_path: Path, mocker: MockerFixture, text: bytes, lines: int, shown: bytes) -> None:
    """Found from the end, whatever the size."""
    mocker.patch("mnrun.jobs.tail.BLOCK", 7)
    (tmp_path / "out").write_bytes(text)
    tail = Tail(tmp_path / "out", lines=lines)
    said = b""
    while more := tail.more():
        said += more
    assert said == shown


# Waiting


class FakeQueue:
    """Slurm with an answer for each time that it is asked; the clock goes on as we sleep."""

    poll = 30.0

    def __init__(
        self, mocker: MockerFixture, *answers: list[Job] | SchedulerError, history: tuple[Job, ...] = ()
    ) -> None:
        self.answers = list(answers)
        self.now = 1000.0
        self.asked: list[float] = []
        self.past = history
        mocker.patch("time.time", side_effect=lambda: self.now)
        mocker.patch("time.sleep", side_effect=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def jobs(self, age: float) -> Snapshot:
        self.asked.append(self.now)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, SchedulerError):
            raise answer
        return Snapshot(tuple(answer), self.now)

    def history(self, ids: list[str]) -> tuple[Job, ...]:
        return self.past


def wait(queue: FakeQueue, base: Path, *ids: str) -> int:
    return waiting.wait(ids, [base], queue)  # type: ignore[arg-type]


def test_the_directory_is_looked_at_first(tmp_path: Path, mocker: MockerFixture) -> None:
    """Slurm is not asked where the jobs say all."""
    made(tmp_path, "7", 3)
    made(tmp_path, "8", 1, 0)
    queue = FakeQueue(mocker, [])
    assert wait(queue, tmp_path, "7", "8") == 3
    assert queue.asked == []


def test_slurm_is_asked_now_and_then(tmp_path: Path, mocker: MockerFixture) -> None:
    """Once for all jobs, and no more often than it may be."""
    running = [Job("7", "", "RUNNING"), Job("8", "", "RUNNING")]
    queue = FakeQueue(mocker, running, [running[0], Job("8", "", "FAILED", code=3)], [Job("7", "", "TIMEOUT")])
    assert wait(queue, tmp_path, "7", "8") == 124
    assert queue.asked == [1000, 1030, 1060]


def test_a_job_that_says_so_between_two_questions(tmp_path: Path, mocker: MockerFixture) -> None:
    """Is seen at once."""
    path = made(tmp_path, "7", None)
    queue = FakeQueue(mocker, [Job("7", "", "RUNNING")])

    def sleep(seconds: float) -> None:
        queue.now += seconds
        if queue.now > 1003:
            (path / "0" / "outcome").write_text('{"time": 1, "code": 5}')

    mocker.patch("time.sleep", side_effect=sleep)
    assert wait(queue, tmp_path, "7") == 5
    assert (queue.asked, queue.now < 1005) == ([1000], True)


def test_slurm_forgets_tasks_as_we_wait(tmp_path: Path, mocker: MockerFixture) -> None:
    """What it once said of them counts."""
    first = [Job("9_0", "", "FAILED", code=7), Job("9_[1]", "", "PENDING")]
    queue = FakeQueue(mocker, first, [Job("9_1", "", "COMPLETED")])
    assert wait(queue, tmp_path, "9") == 7


def test_a_restart_of_slurmctld_is_no_end(tmp_path: Path, mocker: MockerFixture) -> None:
    """Once it has answered; before, there is nothing to wait for."""
    down = SchedulerError("Unable to contact slurm controller")
    queue = FakeQueue(mocker, [Job("7", "", "RUNNING")], down, down, [Job("7", "", "COMPLETED")])
    assert wait(queue, tmp_path, "7") == 0
    with pytest.raises(SchedulerError):
        wait(FakeQueue(mocker, down), tmp_path, "7")
    for_ever = FakeQueue(mocker, [Job("7", "", "RUNNING")], down)
    with pytest.raises(SchedulerError):
        wait(for_ever, tmp_path, "7")
    assert len(for_ever.asked) == 1 + waiting.PATIENCE + 1


def test_an_end_of_which_nobody_knows(tmp_path: Path, mocker: MockerFixture) -> None:
    """It says so, rather than wait for ever."""
    mocker.patch("mnrun.schedulers.slurm.trace", return_value=None)
    made(tmp_path, "7", None)
    with pytest.raises(SchedulerError, match="the end of job 7 is unknown: Slurm no longer knows it"):
        wait(FakeQueue(mocker, []), tmp_path, "7")
    with pytest.raises(SchedulerError, match="no job 8 of yours"):
        wait(FakeQueue(mocker, []), tmp_path, "8")
    past = FakeQueue(mocker, [], history=(Job("7", "", "NODE_FAIL"),))
    assert wait(past, tmp_path, "7") == 121


def test_an_old_answer_does_not_say_that_a_job_is_not_there(tmp_path: Path, mocker: MockerFixture) -> None:
    """It may be younger than that."""
    queue = FakeQueue(mocker, [], [Job("7", "", "COMPLETED")])
    old = Snapshot((), 990.0)
    real = queue.jobs
    answers = iter([lambda _: old, real, real])
    mocker.patch.object(queue, "jobs", side_effect=lambda age: next(answers)(age))
    queue.answers.pop(0)
    assert wait(queue, tmp_path, "7") == 0
    assert queue.asked == [1000.5]


def test_an_old_answer_does_not_know_all_tasks_of_an_array(tmp_path: Path, mocker: MockerFixture) -> None:
    """Whoever asked before us; of a job that is none, its end is one."""
    old = Snapshot((Job("9_0", "", "COMPLETED"), Job("7", "", "FAILED", code=3)), 990.0)
    queue = FakeQueue(mocker, [Job("9_0", "", "COMPLETED"), Job("9_1", "", "FAILED", code=5)])
    real = queue.jobs
    answers = iter([lambda _: old, real])
    mocker.patch.object(queue, "jobs", side_effect=lambda age: next(answers)(age))
    assert wait(queue, tmp_path, "7", "9") == 5
    assert queue.asked == [1000.5]


def test_the_scheduler_is_asked_soon_after_a_kill(tmp_path: Path, mocker: MockerFixture) -> None:
    """It knows who has sent the signal, but perhaps not at once: each pause is twice as long."""
    path = made(tmp_path, "7", None)
    running = [Job("7", "", "RUNNING")]
    queue = FakeQueue(mocker, running, [Job("7", "", "COMPLETING")], running, [Job("7", "", "TIMEOUT")])

    def sleep(seconds: float) -> None:
        queue.now += seconds
        if queue.now == 1010:
            (path / "0" / "outcome").write_text('{"time": 1, "code": 143}')

    mocker.patch("time.sleep", side_effect=sleep)
    assert wait(queue, tmp_path, "7") == 124
    assert queue.asked == [1000, 1010.5, 1012.5, 1016.5]


def test_a_task_has_the_request_of_its_array(tmp_path: Path) -> None:
    """Which alone has its name, and the pattern of its output."""
    array = made(tmp_path, "9")
    (array / "submitted").write_text(json.dumps({"id": "9", "name": "sweep", "tasks": 2}))
    (made(tmp_path, "9_0", 0) / "submitted").unlink()
    (made(tmp_path, "9_1", None) / "submitted").unlink()
    found = archive.read([tmp_path], ["9_0"])
    assert [one.submitted.name for one in found.values() if one.submitted] == ["sweep"]
    assert state.final("9_0", found) == 0
    (view,), _ = state.gather(["9_0"], (), (), found, 0)
    assert (view.name, view.code) == ("sweep", 0)
    assert state.final("9", archive.read([tmp_path])) is None


def test_kept_days(tmp_path: Path) -> None:
    """The age of a record is that of the last thing it says, or wrote where it was killed before it could say so."""
    made(tmp_path, "8", None, time=5)
    (one,) = archive.read([tmp_path], ["8"]).values()
    assert one.time == (tmp_path / "8" / "0").stat().st_mtime
    os.utime(tmp_path / "8" / "0", (50, 50))
    (tmp_path / "8" / "0" / "log").touch()
    os.utime(tmp_path / "8" / "0" / "log", (70, 70))
    os.utime(tmp_path / "8" / "0", (50, 50))
    assert archive.read([tmp_path], ["8"])["8"].time == 70
    made(tmp_path, "7", 0, time=100 * state.DAY)
    kept = archive.read([tmp_path])
    assert [one.id for one in state.removable(kept, (), 101 * state.DAY)] == ["7", "8"]
    assert [one.id for one in state.removable(kept, (), 99 * state.DAY)] == ["8"]
