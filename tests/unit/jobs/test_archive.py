"""The directories of submitted jobs, what they say, and their end."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import SchedulerError, UsageError
from mnrun.jobs import archive, asking, launches, state, waiting
from mnrun.jobs.asking import SOON
from mnrun.jobs.tail import Tail
from mnrun.schedulers.queue import Job, Snapshot
from mnrun.schedulers.vocabulary import JobState
from unit.texts import Refused


def made(base: Path, identity: str, *starts: int | None, time: float = 5.0) -> Path:
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
    for name in ("rank.10.out", "rank.2.out", "rank.2.err", "other"):
        (tmp_path / name).touch()
    assert list(archive.rank_files(str(tmp_path))) == [(2, "err"), (2, "out"), (10, "out")]
    assert archive.rank_files("/nowhere") == {}


def test_where_jobs_were_handed_in_from_is_remembered(tmp_path: Path) -> None:
    assert archive.directories(tmp_path) == []
    for base in (archive.usual(tmp_path), Path("/scratch/jobs"), Path("/data/jobs"), Path("/scratch/jobs")):
        archive.remember(tmp_path, base)
    assert archive.directories(tmp_path) == [Path("/scratch/jobs"), Path("/data/jobs")]


def test_removing(refused: Refused, tmp_path: Path, mocker: MockerFixture) -> None:
    path = made(tmp_path / "jobs", "7", 0)
    kept = archive.read([tmp_path / "jobs"])
    archive.remove(kept["7"].folder)
    assert not path.exists()
    with refused(UsageError):
        archive.remove(kept["7"].folder)
    elsewhere = made(tmp_path / "elsewhere", "8", 0)
    path.symlink_to(elsewhere)
    with refused(UsageError):
        archive.remove(kept["7"].folder)
    path.unlink()
    made(tmp_path / "jobs", "7", 0)
    mocker.patch("os.getuid", return_value=4711)
    with refused(UsageError):
        archive.remove(kept["7"].folder)


# A file that grows


def test_a_file_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "out"
    tail = Tail(path)
    assert tail.more() == b""
    path.write_bytes(b"one\ntw")
    assert (tail.more(), tail.more()) == (b"one\ntw", b"")
    path.write_bytes(b"one\ntwo\xff")
    assert (tail.more(), tail.rest()) == (b"o\xff", b"")
    path.write_bytes(b"new")
    assert tail.more() == b"new"


def test_a_pipe_in_the_place_of_a_file(tmp_path: Path) -> None:
    """Another user may have put it there. Nobody waits for it."""
    os.mkfifo(tmp_path / "out")
    assert Tail(tmp_path / "out").more() == b""


def test_lines_with_a_prefix(tmp_path: Path) -> None:
    path = tmp_path / "rank.2.out"
    path.write_bytes(b"one\ntw")
    tail = Tail(path, b"[2] ")
    assert tail.more() == b"[2] one\n"
    path.write_bytes(b"one\ntwo\nthree")
    assert (tail.more(), tail.rest(), tail.rest()) == (b"[2] two\n", b"[2] three\n", b"")


def test_progress_with_a_prefix_comes_as_it_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"1 %\r2 %\r")
    tail = Tail(path, b"9_1| ")
    assert tail.more() == b"9_1| 1 %\r"
    path.write_bytes(b"1 %\r2 %\r100 %\r\nend\n")
    assert tail.more() == b"9_1| 2 %\r9_1| 100 %\r\n9_1| end\n"


def test_lines_about_a_node(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"node1 ready\nnode12 ready\nrank 3 on node1: gone\nmy-node1 x\nbye node1")
    tail = Tail(path, only=re.compile(rb"(?<![-\w])node1\b"))
    assert tail.more() == b"node1 ready\nrank 3 on node1: gone\n"
    assert tail.rest() == b"bye node1\n"
    for lines, shown in ((0, b""), (1, b"bye node1\n"), (2, b"rank 3 on node1: gone\nbye node1\n")):
        last = Tail(path, lines=lines, only=re.compile(rb"(?<![-\w])node1\b"))
        assert last.more() + last.rest() == shown


def test_a_block_without_a_line_about_the_node(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("mnrun.jobs.tail.BLOCK", 7)
    path = tmp_path / "log"
    path.write_bytes(b"node12 ready\n" * 3 + b"node1 ready\n")
    assert Tail(path, only=re.compile(rb"(?<![-\w])node1\b")).more() == b"node1 ready\n"
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
    made(tmp_path, "7", 3)
    made(tmp_path, "8", 1, 0)
    queue = FakeQueue(mocker, [])
    assert wait(queue, tmp_path, "7", "8") == 3
    assert queue.asked == []


def test_slurm_is_asked_now_and_then(tmp_path: Path, mocker: MockerFixture) -> None:
    running = [Job("7", "", JobState.RUNNING), Job("8", "", JobState.RUNNING)]
    queue = FakeQueue(
        mocker, running, [running[0], Job("8", "", JobState.FAILED, code=3)], [Job("7", "", JobState.TIMEOUT)]
    )
    assert wait(queue, tmp_path, "7", "8") == 124
    assert queue.asked == [1000, 1030, 1060]


def test_a_job_that_says_so_between_two_questions(tmp_path: Path, mocker: MockerFixture) -> None:
    path = made(tmp_path, "7", None)
    queue = FakeQueue(mocker, [Job("7", "", JobState.RUNNING)])

    def sleep(seconds: float) -> None:
        queue.now += seconds
        if queue.now > 1003:
            (path / "0" / "outcome").write_text('{"time": 1, "code": 5}')

    mocker.patch("time.sleep", side_effect=sleep)
    assert wait(queue, tmp_path, "7") == 5
    assert (queue.asked, queue.now < 1005) == ([1000], True)


def test_slurm_forgets_tasks_as_we_wait(tmp_path: Path, mocker: MockerFixture) -> None:
    first = [Job("9_0", "", JobState.FAILED, code=7), Job("9_[1]", "", JobState.PENDING)]
    queue = FakeQueue(mocker, first, [Job("9_1", "", JobState.COMPLETED)])
    assert wait(queue, tmp_path, "9") == 7


def test_a_restart_of_slurmctld_is_no_end(tmp_path: Path, mocker: MockerFixture) -> None:
    down = SchedulerError("Unable to contact slurm controller")
    queue = FakeQueue(mocker, [Job("7", "", JobState.RUNNING)], down, down, [Job("7", "", JobState.COMPLETED)])
    assert wait(queue, tmp_path, "7") == 0
    with pytest.raises(SchedulerError):
        wait(FakeQueue(mocker, down), tmp_path, "7")
    for_ever = FakeQueue(mocker, [Job("7", "", JobState.RUNNING)], down)
    with pytest.raises(SchedulerError):
        wait(for_ever, tmp_path, "7")
    assert len(for_ever.asked) == 1 + waiting.PATIENCE + 1


def test_an_end_of_which_nobody_knows(refused: Refused, tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("mnrun.schedulers.slurm.scheduler.trace", return_value=None)
    made(tmp_path, "7", None)
    with refused(SchedulerError):
        wait(FakeQueue(mocker, []), tmp_path, "7")
    with refused(SchedulerError):
        wait(FakeQueue(mocker, []), tmp_path, "8")
    past = FakeQueue(mocker, [], history=(Job("7", "", JobState.NODE_FAIL),))
    assert wait(past, tmp_path, "7") == 121


def test_a_record_may_come_as_the_scheduler_forgets_the_job(tmp_path: Path, mocker: MockerFixture) -> None:
    path = made(tmp_path, "7", None)
    queue = FakeQueue(mocker, [])

    def jobs(age: float) -> Snapshot:
        (path / "0" / "outcome").write_text('{"time": 1, "code": 143}')
        return Snapshot((), queue.now)

    mocker.patch.object(queue, "jobs", side_effect=jobs)
    assert wait(queue, tmp_path, "7") == 143


def test_an_old_answer_does_not_say_that_a_job_is_not_there(tmp_path: Path, mocker: MockerFixture) -> None:
    queue = FakeQueue(mocker, [], [Job("7", "", JobState.COMPLETED)])
    old = Snapshot((), 990.0)
    real = queue.jobs
    answers = iter([lambda _: old, real, real])
    mocker.patch.object(queue, "jobs", side_effect=lambda age: next(answers)(age))
    queue.answers.pop(0)
    assert wait(queue, tmp_path, "7") == 0
    assert queue.asked == [1000.5]


def test_an_old_answer_does_not_know_all_tasks_of_an_array(tmp_path: Path, mocker: MockerFixture) -> None:
    old = Snapshot((Job("9_0", "", JobState.COMPLETED), Job("7", "", JobState.FAILED, code=3)), 990.0)
    queue = FakeQueue(mocker, [Job("9_0", "", JobState.COMPLETED), Job("9_1", "", JobState.FAILED, code=5)])
    real = queue.jobs
    answers = iter([lambda _: old, real])
    mocker.patch.object(queue, "jobs", side_effect=lambda age: next(answers)(age))
    assert wait(queue, tmp_path, "7", "9") == 5
    assert queue.asked == [1000.5]


def test_the_scheduler_is_asked_soon_after_a_kill(tmp_path: Path, mocker: MockerFixture) -> None:
    path = made(tmp_path, "7", None)
    running = [Job("7", "", JobState.RUNNING)]
    queue = FakeQueue(mocker, running, [Job("7", "", JobState.COMPLETING)], running, [Job("7", "", JobState.TIMEOUT)])

    def sleep(seconds: float) -> None:
        queue.now += seconds
        if queue.now == 1010:
            (path / "0" / "outcome").write_text('{"time": 1, "code": 143}')

    mocker.patch("time.sleep", side_effect=sleep)
    assert wait(queue, tmp_path, "7") == 124
    assert queue.asked == [1000, 1010.5, 1011.5, 1013.5]


def test_the_scheduler_is_asked_soon_when_a_job_cleans_up(tmp_path: Path, mocker: MockerFixture) -> None:
    running, ending = [Job("7", "", JobState.RUNNING)], [Job("7", "", JobState.COMPLETING)]
    queue = FakeQueue(mocker, running, ending, ending, [Job("7", "", JobState.CANCELLED, signal=15)])
    assert wait(queue, tmp_path, "7") == 143
    assert queue.asked == [1000, 1030, 1031, 1033]


@pytest.mark.parametrize(("asked", "ages"), [("7", [500, SOON]), ("8", [500]), ("", [500, SOON])])
def test_an_answer_in_which_a_job_cleans_up_is_soon_an_old_one(
    mocker: MockerFixture, asked: str, ages: list[float]
) -> None:
    queue = mocker.Mock()
    jobs = (Job("7", "", JobState.COMPLETING), Job("8", "", JobState.RUNNING))
    queue.jobs.side_effect = [Snapshot(jobs, 500.0), Snapshot((jobs[1],), 1000.0)]
    queue.history.return_value = (Job("7", "", JobState.CANCELLED),)
    mocker.patch("time.time", return_value=1000.0)
    asking.views([asked] if asked else [], {}, lambda: queue, changed=500.0)
    assert [call.args[0] for call in queue.jobs.call_args_list] == ages


def test_the_scheduler_is_asked_soon_after_the_launch_of_a_batch_script(tmp_path: Path, mocker: MockerFixture) -> None:
    path = made(tmp_path, "7")
    (path / "submitted").write_text(json.dumps({"id": "7", "time": 5, "own": True}))
    running = [Job("7", "", JobState.RUNNING)]
    queue = FakeQueue(mocker, running, running, [Job("7", "", JobState.FAILED, code=3)])
    mocker.patch.object(launches, "under_way", side_effect=lambda bases, job: queue.now < 1010)
    assert wait(queue, tmp_path, "7") == 3
    assert queue.asked == [1000, 1010.5, 1012.5]


def test_a_start_is_told_to_those_who_were_told_that_the_job_waits(tmp_path: Path, mocker: MockerFixture) -> None:
    path, told = made(tmp_path, "7"), list[str]()
    mocker.patch.object(state, "moment", return_value="14:20")
    late = [Job("7", "", JobState.PENDING, "other jobs are before it", start=start) for start in (2000, 2500, 3000)]
    queue = FakeQueue(mocker, *([job] for job in late))

    def sleep(seconds: float) -> None:
        queue.now += 10 * seconds
        if queue.now > 1080 and not (path / "0").exists():
            (path / "0").mkdir()
            (path / "0" / "begun").write_text('{"time": 5, "nodes": "n1"}')
        elif queue.now > 1090:
            (path / "0" / "outcome").write_text('{"time": 5, "code": 0}')

    mocker.patch("time.sleep", side_effect=sleep)
    assert waiting.wait(["7"], [tmp_path], queue, told.append) == 0  # type: ignore[arg-type]
    assert ["n1" in line for line in told] == [False, False, True], "the second time is near the first one"


def test_a_task_has_the_request_of_its_array(tmp_path: Path) -> None:
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
