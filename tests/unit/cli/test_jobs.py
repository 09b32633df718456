"""The verbs that follow jobs, as they are typed: what is asked, what is printed, and the code."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun import versioned
from mnrun.cli import main
from mnrun.cli.work import jobs as verbs
from mnrun.errors import NotYours, SchedulerError
from mnrun.jobs import launches
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import Submitted
from mnrun.schedulers.model import Trace
from mnrun.schedulers.queue import Job, PartitionNode, Snapshot
from mnrun.schedulers.slurm import answers
from mnrun.system import screen
from published import checked
from unit.jobs.test_archive import made
from unit.samples import RECORDED
from unit.typed import Terminal


class Slurm:
    """What it knows, and what it was asked and told."""

    poll = 30.0

    def __init__(self) -> None:
        self.known: tuple[Job, ...] = ()
        self.news: tuple[Job, ...] | None = None  # of a new answer
        self.past: tuple[Job, ...] = ()
        self.asked: list[str] = []
        self.down = False
        self.ended: list[str] = []
        self.age = 0.0  # of an answer, if an answer may be as old as that

    def jobs(self, age: float = math.inf) -> Snapshot:
        self.asked.append("jobs")
        if self.down:
            raise SchedulerError("squeue: Unable to contact slurm controller")
        if self.age < age:
            return Snapshot(self.known, time.time() - self.age)
        self.asked.append("anew")
        return Snapshot(self.known if self.news is None else self.news, time.time())

    def history(self, ids: tuple[str, ...] = ()) -> tuple[Job, ...]:
        self.asked.append("history " + ",".join(ids))
        return self.past

    def nodes(self) -> list[PartitionNode]:
        self.asked.append("places")
        return answers.sinfo_columns((RECORDED / "answers" / "sinfo_drained.txt").read_text())

    def forget(self) -> None:
        self.asked.append("forget")

    def cancel(self, ids: tuple[str, ...], signal: str, scripts: list[str]) -> list[str]:
        self.asked.append(f"cancel {','.join(ids)} {signal} {','.join(scripts)}".strip())
        return self.ended


@pytest.fixture
def mnrun(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Terminal:
    monkeypatch.setenv("HOME", str(tmp_path))
    mocker.patch("time.sleep")
    mocker.patch("mnrun.schedulers.slurm.trace", return_value=None)
    mocker.patch("mnrun.schedulers.slurm.is_here", return_value=True)
    return Terminal(mocker, capsys)


@pytest.fixture
def slurm(mocker: MockerFixture) -> Slurm:
    slurm = Slurm()
    mocker.patch.object(verbs, "user_queue", return_value=slurm)
    return slurm


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Where jobs leave their records."""
    return tmp_path / ".mnrun" / "jobs"


def test_status_of_all(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Plain columns, since this is no terminal."""
    later = time.time() + 3725
    slurm.known = (
        Job("12", "train", "RUNNING", nodes=2, nodelist="n[1-2]", gpus=8, end=later + 0.9),
        Job("13", "a b", "PENDING", "other jobs are before it in the queue", nodes=4),
        Job("14", "x", "RUNNING", nodes=1, nodelist="n3"),
    )
    made(jobs, "7", 3, time=time.time())
    done = mnrun("status")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "JOB  NAME   STATE    NODES   GPUS  LEFT      CODE  WHY",
        "7           failed   n[1-2]                  3",
        "12   train  running  n[1-2]  8     1:02:05",
        "13   a b    pending  4                             other jobs are before it in the queue",
        "14   x      running  n3            no limit",
    ]
    assert slurm.asked == ["jobs", "history "]


def test_status_where_there_is_nothing(mnrun: Terminal, slurm: Slurm) -> None:
    done = mnrun("status")
    assert (done.code, done.out, done.err) == (0, "", "mnrun: no jobs of yours in the last 7 days\n")


def lives(base: Path, job: str, owner: str, title: str = "app") -> Path:
    """Write the records of a live run on two nodes."""
    folder = base / job
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    record = LaunchRecord(job, "slurm", job.partition("-")[0], "", ("n1", "n2"), gpus={"n1": 4, "n2": 4}, title=title)
    (folder / launches.LAUNCH).write_text(versioned.text(record))
    (folder / launches.OWNER).write_text(owner)
    return folder


def test_status_of_live_runs(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Each with the time that its allocation has left. One on another machine counts if its job runs."""
    slurm.known = (Job("12", "interactive", "RUNNING", nodes=2, nodelist="n[1-2]", end=time.time() + 60.9),)
    lives(jobs, "12-abcdef", launches.mark(), "train")
    lives(jobs, "hosts-abcdef", launches.mark())
    lives(jobs, "12-ghijkm", "other-login 1 1\n")
    lives(jobs, "11-abcdef", "other-login 1 1\n")
    assert mnrun("status").out.splitlines()[1:] == [
        "12            interactive  running  n[1-2]        1:00",
        "12-abcdef     train        running  n[1-2]  8     1:00",
        "12-ghijkm     app          running  n[1-2]  8     1:00",
        "hosts-abcdef  app          running  n[1-2]  8     no limit",
    ]
    assert [job["id"] for job in json.loads(mnrun("status", "--json", "12").out)["jobs"]] == [
        *("12", "12-abcdef", "12-ghijkm")
    ]
    slurm.asked.clear()
    assert mnrun("status", "hosts-abcdef").out.splitlines()[1:] == [
        "hosts-abcdef  app   running  n[1-2]  8     no limit"
    ]
    assert slurm.asked == []
    assert mnrun("status", "11-abcdef").err.startswith("mnrun: no job 11-abcdef of yours: neither Slurm nor ")


@pytest.mark.parametrize("what", ["gone", "another process", "open to others", "a link", "another user's"])
def test_status_believes_no_record_by_its_name(
    mnrun: Terminal, slurm: Slurm, jobs: Path, tmp_path: Path, mocker: MockerFixture, what: str
) -> None:
    """The launcher is a process of that start, and nobody else could have written the record."""
    pid, start, kernel = launches.mark().split(" ", 2)
    marks = {"gone": launches.mark(4194305), "another process": f"{pid} {int(start) + 1} {kernel}"}
    base = tmp_path / "elsewhere" if what == "a link" else jobs
    folder = lives(base, "hosts-abcdef", marks.get(what, launches.mark()))
    if what == "open to others":
        folder.chmod(0o772)
    if what == "a link":
        jobs.mkdir(parents=True)
        (jobs / "hosts-abcdef").symlink_to(folder)
    if what == "another user's":
        mocker.patch("os.getuid", return_value=4711)
    assert mnrun("status").err == "mnrun: no jobs of yours in the last 7 days\n"


def test_status_without_a_scheduler(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture) -> None:
    """Nobody is asked."""
    mocker.patch("mnrun.schedulers.slurm.is_here", return_value=False)
    lives(jobs, "local-abcdef", launches.mark())
    assert [line.split()[0] for line in mnrun("status").out.splitlines()] == ["JOB", "local-abcdef"]
    assert slurm.asked == []


def test_status_for_programs(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """And no question about a job that has said all."""
    made(jobs, "7", 3)
    done = mnrun("status", "--json", "7")
    (seen,) = checked("status", done.out)["jobs"]
    assert (seen["id"], seen["state"], seen["code"], seen["left"]) == ("7", "FAILED", 3, None)
    assert slurm.asked == []


def test_status_of_a_job_that_slurm_forgot(mnrun: Terminal, slurm: Slurm) -> None:
    """The accounting is asked for that one alone."""
    slurm.known = (Job("8", "y", "RUNNING"),)
    slurm.past = (Job("7", "x", "TIMEOUT"),)
    assert "timed out" in mnrun("status", "7", "8").out
    assert slurm.asked == ["jobs", "history 7"]


def test_status_of_a_job_that_nobody_knows(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """The others are shown all the same."""
    slurm.known = (Job("8", "y", "RUNNING"),)
    done = mnrun("status", "8", "4711")
    assert done.code == 123
    assert "running" in done.out
    assert done.err.startswith(f"mnrun: no job 4711 of yours: neither Slurm nor {jobs} knows it; ")


@pytest.mark.parametrize("verb", ["status", "logs", "exec", "why", "wait", "report", "cancel"])
@pytest.mark.parametrize("whose", ["nobody's", "alice's"])
def test_an_id_that_is_no_job_of_yours(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, verb: str, whose: str
) -> None:
    """The same answer and code of each verb, with the other user's name."""
    trace = Trace(True, "/x", owner="alice") if whose == "alice's" else None
    mocker.patch("mnrun.schedulers.slurm.trace", return_value=trace)
    mocker.patch.object(slurm, "cancel", side_effect=NotYours("", ["65"]))
    done = mnrun(verb, "65", *(["true"] if verb == "exec" else []))
    first = "job 65 is alice's; " if trace else f"no job 65 of yours: neither Slurm nor {jobs} knows it; "
    assert (done.code, done.out, done.err[: len(first) + 7]) == (123, "", f"mnrun: {first}")


def test_status_of_a_job_that_is_newer_than_the_answer(mnrun: Terminal, slurm: Slurm) -> None:
    """Slurm is asked anew for an id that was typed, and that its last answer lacks."""
    slurm.age, slurm.known, slurm.news = 12, (Job("8", "y", "RUNNING"),), (Job("9", "own", "RUNNING"),)
    assert mnrun("status", "8").err.startswith("mnrun: as of ")
    done = mnrun("status", "9")
    assert (done.code, done.out.splitlines()[1].split()[:3], done.err) == (0, ["9", "own", "running"], "")
    assert mnrun("status", "4711").code == 123
    assert slurm.asked == ["jobs", *("jobs", "jobs", "anew"), *("jobs", "jobs", "anew", "history 4711")]


def test_status_says_how_old_it_is(mnrun: Terminal, slurm: Slurm) -> None:
    """Not of a young answer; --fresh gets one."""
    slurm.known, slurm.news = (Job("8", "y", "PENDING"),), (Job("8", "y", "RUNNING"),)
    assert mnrun("status").err == ""
    slurm.age = 12
    old = mnrun("status")
    asked = time.strftime("%H:%M:", time.localtime(time.time() - 12))
    assert (old.out.splitlines()[1].split()[2], old.err[: len("mnrun: as of ") + 6]) == (
        "pending",
        f"mnrun: as of {asked}",
    )
    new = mnrun("status", "--fresh")
    assert (new.out.splitlines()[1].split()[2], new.err) == ("running", "")
    seen = checked("status", mnrun("status", "--json").out)
    assert seen["asked"] < time.time() - 11


@pytest.mark.parametrize("change", ["a record", "a live run has ended"])
def test_an_answer_from_before_a_change_does_not_count(mnrun: Terminal, slurm: Slurm, jobs: Path, change: str) -> None:
    """mnrun knows that something of the user's has begun or ended since."""
    slurm.age, slurm.known, slurm.news = 12, (Job("8", "y", "RUNNING"),), ()
    made(jobs, "7", 0, time=time.time() - 50)
    run = lives(jobs, "8-abcdef", launches.mark())
    os.utime(jobs, (time.time() - 50,) * 2)
    (run / launches.OWNER).write_text("gone 1 1\n")
    assert "8" in mnrun("status").out.split()
    assert "anew" not in slurm.asked
    if change == "a record":
        (jobs / "7" / "0" / "outcome").write_text(json.dumps({"time": time.time() - 3, "code": 1}))
    else:
        shutil.rmtree(run)
    assert "8" not in mnrun("status").out.split()


def test_a_task_that_has_begun_does_not_wait(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """By its own record, though Slurm's answer is older. Another array of that number has other tasks."""
    slurm.known = (Job("12_[2-5,9%2]", "sh", "PENDING", submitted=100),)
    made(jobs, "12_2", 3, time=200)
    made(jobs, "12_3", 0, time=200)
    rows = [line.split()[0] for line in mnrun("status").out.splitlines()[1:]]
    assert rows == ["12_[4-5,9%2]"]  # the ends are older than a week
    slurm.known = (Job("12_[2-3%2]", "sh", "PENDING", submitted=100),)
    assert mnrun("status", "12_2", "12_3").out.split("\n")[1].split()[:2] == ["12_2", "failed"]
    assert mnrun("status").err == "mnrun: no jobs of yours in the last 7 days\n"
    slurm.known = (Job("12_[2-3%2]", "sh", "PENDING", submitted=300),)
    assert mnrun("status").out.splitlines()[1].split()[0] == "12_[2-3%2]"


@pytest.mark.parametrize(("age", "state"), [(1.5, "done"), (0.0, "pending")])
def test_a_record_of_the_end_counts_above_an_older_answer(
    mnrun: Terminal, slurm: Slurm, jobs: Path, age: float, state: str
) -> None:
    """A younger answer means that the job begins anew."""
    slurm.known, slurm.age = (Job("7", "train", "PENDING", "was submitted just now"),), age
    made(jobs, "7", 0, time=time.time() - 0.5)
    assert mnrun("status").out.splitlines()[1].split()[:3] == (
        ["7", "train", state] if age == 0 else ["7", state, "n[1-2]"]
    )


def test_a_job_that_began_after_the_answer(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Slurm is asked anew, however young its answer is."""
    slurm.known, slurm.age, slurm.news = (Job("7", "train", "PENDING", "x"),), 1.5, (Job("7", "train", "RUNNING"),)
    made(jobs, "7", None, time=time.time() - 0.5)
    assert mnrun("status", "7").out.splitlines()[1].split()[:3] == ["7", "train", "running"]
    assert slurm.asked[-1] == "anew"


def test_status_while_slurmctld_is_down(mnrun: Terminal, slurm: Slurm) -> None:
    slurm.down = True
    done = mnrun("status")
    assert (done.code, done.err) == (123, "mnrun: squeue: Unable to contact slurm controller\n")


@pytest.mark.parametrize("verb", ["status", "wait", "logs", "cancel"])
def test_what_is_no_id(mnrun: Terminal, slurm: Slurm, verb: str) -> None:
    """One line, before anything is asked."""
    done = mnrun(verb, "../7")
    assert (done.code, done.err.split(";")[0]) == (2, "mnrun: '../7' is not the ID of a job")
    assert slurm.asked == []


@pytest.mark.parametrize("verb", ["cancel", "logs", "wait"])
def test_no_id(mnrun: Terminal, slurm: Slurm, verb: str) -> None:
    """One line, before anything is asked."""
    done = mnrun(verb)
    assert (done.code, done.err) == (2, f"mnrun: {verb} needs the ID of a job; mnrun status shows them\n")
    assert slurm.asked == []


def test_cancel(mnrun: Terminal, slurm: Slurm) -> None:
    """Each job has its line."""
    slurm.ended = ["8_1"]
    done = mnrun("cancel", "7", "8_1")
    assert (done.code, done.out) == (0, "")
    assert done.err == "mnrun: job 8_1 has ended already\nmnrun: job 7 was cancelled\n"
    slurm.ended = []
    assert mnrun("cancel", "-s", "USR1", "9_[0-3]").err == "mnrun: job 9_[0-3] was sent USR1\n"
    assert slurm.asked == ["cancel 7,8_1", "cancel 9_[0-3] USR1"]


def test_a_signal_to_jobs_with_and_without_a_script_of_ours(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Only ours hands it on; what it does not hand on is refused, of a job that has it."""
    made(jobs, "9")
    made(jobs, "12_3", 0)
    assert mnrun("cancel", "-s", "SIGusr1", "8", "9_[0-3]", "12_4").code == 0
    assert slurm.asked == ["cancel 8,9_[0-3],12_4 SIGusr1 9_[0-3],12_4"]
    assert mnrun("cancel", "-s", "KILL", "8").code == 0
    for wrong in ("WINCH", "foo", "KILL"):
        assert mnrun("cancel", "-s", wrong, "9").err == (
            f"mnrun: --signal {wrong}: mnrun does not forward this signal to programs; "
            "use one of TERM, INT, HUP, QUIT, USR1, USR2, ALRM, CONT, or end the job without -s\n"
        )
    assert len(slurm.asked) == 2


def test_wait_gives_the_jobs_code(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Of several, the largest."""
    made(jobs, "7", 3)
    made(jobs, "8", 0)
    assert mnrun("wait", "7").code == 3
    assert mnrun("wait", "8", "7", "8").code == 3
    slurm.known = (Job("9", "", "NODE_FAIL"),)
    assert mnrun("wait", "9", "7").code == 121


def test_nodes(mnrun: Terminal, slurm: Slurm) -> None:
    done = mnrun("nodes")
    assert done.out.splitlines() == [
        f"PARTITION  LIMIT     FREE NOW{' ' * 39}NODES  CPUS  MEM  GPUS  FEATURES  TAKES NO JOBS",
        "main*      infinite  0 of 2 nodes free, 1 partly, 1 of 8 GPUs free  2      8          4               "
        "node02 drained: bad fan: 3",
    ]
    (main,) = checked("nodes", mnrun("nodes", "--json", "-p", "main").out)["partitions"]
    assert (main["free"], main["gpus_free"], main["out"]) == (0, 1, ["node02 drained: bad fan: 3"])
    alike = {"nodes": 2, "cpus": 8, "memory": 0, "gpus": 4, "gpu_types": [], "features": []}
    assert main["kinds"] == [alike]
    assert mnrun("nodes", "-p", "x").err == "mnrun: there is no partition x; Slurm has main\n"


def test_clean(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """What is old and has ended; Slurm is asked only where there is such."""
    now = time.time()
    made(jobs, "7", 0, time=now)
    done = mnrun("clean")
    assert (done.code, done.out, slurm.asked) == (0, "", [])
    assert done.err == f"mnrun: records of 0 of 1 job removed from {jobs}\n"
    made(jobs, "8", 0, time=now - 41 * 86400)
    made(jobs, "9", None, time=now - 41 * 86400)
    os.utime(jobs / "9" / "0", (now - 41 * 86400,) * 2)
    slurm.known = (Job("9", "", "RUNNING"),)
    done = mnrun("clean", "--older", "30d")
    assert done.out == f"removed {jobs / '8'}: 41 days old\n"
    assert done.err == f"mnrun: records of 1 of 3 jobs removed from {jobs}\n"
    assert sorted(path.name for path in jobs.iterdir()) == ["7", "9"]
    slurm.down = True
    assert mnrun("clean").code == 123
    assert "--older 'x' is not a time; write 30d, 12h or 4w" in mnrun("clean", "--older", "x").err


def test_a_closed_directory_of_records(mnrun: Terminal, slurm: Slurm) -> None:
    """Here for the length of its name. It holds nothing for those who may not enter it."""
    closed = ("--job-dir", "/" + "x" * 300)
    assert mnrun("status", *closed).code == 0
    done = mnrun("why", "7", *closed)
    assert done.code == 123 and "no job 7 of yours" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "--images"), "--nodes and --images exclude each other"),
        (("--nodes", "--older", "7d"), "--nodes and --older exclude each other"),
        (("--nodes", "--dry-run"), "--nodes and --dry-run exclude each other"),
        (("--nodes", "--job-dir", "d"), "--nodes and --job-dir exclude each other"),
        (("--images", "--job-dir", "d"), "--images and --job-dir exclude each other"),
        (("--image-cache", "d"), "--image-cache is for images alone; add --images"),
    ],
)
def test_clean_ignores_no_option(mnrun: Terminal, slurm: Slurm, words: tuple[str, ...], said: str) -> None:
    done = mnrun("clean", *words)
    assert (done.code, slurm.asked) == (2, []) and said in done.err


def logged(jobs: Path, *starts: int | None, **begun: object) -> Path:
    """Job 7, whose output lies beside its records."""
    path = made(jobs, "7", *starts)
    (jobs / "out").write_text("one\ntwo\n")
    record = {"time": 5, "nodes": "n[1-2]", "output": str(jobs / "out"), **begun}
    (path / str(len(starts) - 1) / "begun").write_text(json.dumps(record))
    return path


def test_logs(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """The output, or its end; Slurm is never asked."""
    logged(jobs, 0)
    assert mnrun("logs", "7").out == "one\ntwo\n"
    assert mnrun("logs", "-n", "1", "7").out == "two\n"
    assert mnrun("logs", "7", "-f").out == "one\ntwo\n"
    assert slurm.asked == []


def test_logs_follows_to_the_end(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture) -> None:
    """From before the job begins, through a restart, until its outcome is there."""
    path = made(jobs, "7")
    steps = iter(["begin", "end", "again", "more", "done"])

    def sleep(seconds: float) -> None:
        step = next(steps, "")
        if step == "begin":
            (path / "0").mkdir()
            (jobs / "out").write_text("one\n")
            (path / "0" / "begun").write_text(json.dumps({"time": 5, "output": str(jobs / "out")}))
        elif step == "end":
            (path / "0" / "outcome").write_text('{"time": 5, "code": 75, "why": "requeued"}')
        elif step == "again":
            (path / "1").mkdir()
            (path / "1" / "begun").write_text(json.dumps({"time": 5, "output": str(jobs / "out2")}))
        elif step == "more":
            (jobs / "out2").write_text("two\nhal")
        elif step == "done":
            (jobs / "out2").write_text("two\nhalf")
            (path / "1" / "outcome").write_text('{"time": 5, "code": 0}')

    mocker.patch("time.sleep", side_effect=sleep)
    slurm.known = (Job("7", "x", "PENDING", "other jobs are before it"),)
    done = mnrun("logs", "-f", "7")
    assert (done.code, done.out) == (0, "one\ntwo\nhalf")
    assert done.err == "mnrun: job 7 waits: other jobs are before it\nmnrun: job 7: done, with code 0\n"


def test_the_code_of_a_job_that_was_followed(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Its end is said, and its code is that of the command on request."""
    logged(jobs, 3)
    done = mnrun("logs", "-f", "7")
    assert (done.code, done.out, done.err) == (0, "one\ntwo\n", "mnrun: job 7: failed, with code 3\n")
    assert mnrun("logs", "-f", "--exit-status", "7").code == 3
    waited = mnrun("wait", "7")
    assert (waited.code, waited.err) == (3, "mnrun: job 7: failed, with code 3\n")
    refused = mnrun("logs", "--exit-status", "7")
    assert (refused.code, refused.out) == (2, "")


def test_the_output_of_a_script_of_ones_own(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture) -> None:
    """By Slurm's word before mnrun begins there, and by its record after that; with its errors, if apart."""
    (out, err) = (jobs.parent / "slurm-8.out", jobs.parent / "slurm-8.err")
    jobs.mkdir(parents=True)
    out.write_text("one\n")
    err.write_text("careful\n")
    slurm.known = (Job("8", "own", "RUNNING"),)
    mocker.patch("mnrun.schedulers.slurm.trace", return_value=Trace(True, str(out), str(err)))
    done = mnrun("logs", "8")
    assert (done.code, done.out, done.err) == (0, "one\n", "careful\n")
    mocker.patch("mnrun.schedulers.slurm.trace", return_value=None)
    (jobs / "8").mkdir()
    request = Submitted(id="8", output=str(out).replace("%", "%%"), own=True)
    (jobs / "8" / "submitted").write_text(versioned.text(request))
    assert mnrun("logs", "8").out == "one\n"
    slurm.known = (Job("8", "own", "FAILED", code=3),)
    done = mnrun("logs", "-f", "--exit-status", "8")
    assert (done.code, done.out, done.err) == (3, "one\n", "mnrun: job 8: failed, with code 3\n")
    mocker.patch("mnrun.cli.work.why.user_queue", return_value=slurm)
    assert "last lines of its output:\n  one\n" in mnrun("why", "8").out
    assert "job 8 has no timeline, since its script goes on after mnrun; " in mnrun("report", "8").err
    out.unlink()
    assert f"{out} is not there; look where the output was moved" in mnrun("logs", "8").err
    assert mnrun("cancel", "-s", "USR1", "8").code == 0
    assert slurm.asked[-1] == "cancel 8 USR1", "its shell must not get the signal alone"


def test_status_shows_a_script_and_its_launch_once(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """The launch of a script is the script's job for a person, who may name it by that."""
    slurm.known = (Job("8", "own", "RUNNING", nodes=2, nodelist="n[1-2]"),)
    run = lives(jobs, "8-abcdef", launches.mark())
    record = json.loads((run / launches.LAUNCH).read_text())
    (run / launches.LAUNCH).write_text(json.dumps({**record, "script": "8"}))
    assert [line.split()[0] for line in mnrun("status").out.splitlines()] == ["JOB", "8"]
    assert [line.split()[0] for line in mnrun("status", "8-abcdef").out.splitlines()] == ["JOB", "8-abcdef"]


def test_logs_of_a_job_that_ends_before_it_begins(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """It leaves no word: Slurm's counts, which is asked as seldom as ever."""
    made(jobs, "7")
    slurm.poll = 0.0
    slurm.known = (Job("7", "x", "CANCELLED"),)
    for words in (("logs", "-f", "7"), ("logs", "7")):
        done = mnrun(*words)
        assert (done.code, done.err) == (2, "mnrun: job 7 was cancelled before it started\n")
    assert slurm.asked == ["jobs"] * 3
    slurm.known = (Job("7", "x", "BOOT_FAIL"),)
    assert mnrun("logs", "7").err == "mnrun: job 7 ended before it started; mnrun status 7 shows the reason\n"


def test_logs_of_a_task_without_a_directory(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture) -> None:
    """It waits among others, then runs its setup lines. Slurm is asked once whether there is such a task."""
    (made(jobs, "7") / "submitted").write_text(json.dumps({"id": "7", "output": str(jobs / "out.%A_%a"), "tasks": 9}))
    assert f"no job 7_4 of yours: neither Slurm nor {jobs} knows it; " in mnrun("logs", "-f", "7_4").err
    trace = mocker.patch("mnrun.schedulers.slurm.trace", return_value=Trace(True, ""))
    slurm.known = (Job("7_[0-8]", "x", "PENDING"),)
    assert "job 7_4 has not started, and has no output yet; wait for it with -f" in mnrun("logs", "7_4").err
    slurm.known = (Job("7_[0-8]", "x", "CANCELLED"),)
    assert "job 7_4 was cancelled before it started" in mnrun("logs", "7_4").err
    trace.reset_mock()
    slurm.known = (Job("7_[0-8]", "x", "PENDING", "other jobs are before it"),)

    def sleep(seconds: float) -> None:
        if not (jobs / "out.7_4").exists():
            (jobs / "out.7_4").write_text("loading\n")
        elif not (jobs / "7_4").exists():
            made(jobs, "7_4", 0)
            (jobs / "7_4" / "0" / "begun").write_text(json.dumps({"time": 5, "output": str(jobs / "out.7_4")}))

    mocker.patch("time.sleep", side_effect=sleep)
    done = mnrun("logs", "-f", "7_4")
    assert (done.code, done.out) == (0, "loading\n")
    assert done.err == "mnrun: job 7_[0-8] waits: other jobs are before it\nmnrun: job 7_4: done, with code 0\n"
    trace.assert_called_once()


def test_a_time_that_gets_shorter_is_told_once(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture
) -> None:
    made(jobs, "7")
    reasons = ["starts in 1-00:00:59 at the earliest", "starts in 0:29 at the earliest", "its start time has not come"]

    def look(age: float = 0) -> Snapshot:
        if not reasons:
            made(jobs / "later", "7", 0)
            (jobs / "later" / "7" / "0").rename(jobs / "7" / "0")
            return Snapshot((Job("7", "x", "COMPLETED"),), time.time())
        return Snapshot((Job("7", "x", "PENDING", reasons.pop(0)),), time.time())

    mocker.patch("time.sleep")
    mocker.patch.object(slurm, "jobs", side_effect=look)
    mocker.patch.object(slurm, "poll", 0.0)
    said = [line.partition("7 ")[2] for line in mnrun("wait", "7").err.splitlines()]
    assert said[:2] == ["waits: starts in 1-00:00:59 at the earliest", "waits: its start time has not come"]


def test_logs_of_ranks(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Apart, together with a prefix, or those of a node; what went to standard error goes there."""
    logged(jobs, 0, split_output=str(jobs / "split"), ranks=[1, 2])
    (jobs / "split").mkdir()
    for rank in range(3):
        (jobs / "split" / f"rank.{rank}.out").write_text(f"I am {rank}\n")
    (jobs / "split" / "rank.1.err").write_text("careful")
    log = "ready n1 port=1\nready n2 port=2\nrank n2 0 3\nrank n1 1 3\nrank n2 2 3\n"  # mapped by node
    (jobs / "7" / "0" / "log").write_text(log)
    assert mnrun("logs", "7", "--rank", "1").out == "I am 1\n"
    assert mnrun("logs", "7", "--rank", "1").err == "careful"
    whole = mnrun("logs", "7")
    assert whole.out == "one\ntwo\n[0] I am 0\n[1] I am 1\n[2] I am 2\n"
    assert whole.err == "[1] careful\n"
    two = mnrun("logs", "7", "--node", "n2")
    assert (two.out, two.err) == ("[0] I am 0\n[2] I am 2\n", "")
    verbose = mnrun("logs", "7", "--node", "n2", "-v")
    assert (verbose.out, verbose.err) == (two.out, "ready n2 port=2\nrank n2 0 3\nrank n2 2 3\n")
    assert mnrun("logs", "7", "-v").err == log + "[1] careful\n"
    assert "rank 9 of job 7 has written nothing" in mnrun("logs", "7", "--rank", "9").err
    assert "job 7 has no node n9; its nodes are n[1-2]" in mnrun("logs", "7", "--node", "n9").err
    assert "choose one" in mnrun("logs", "7", "--node", "n1", "--rank", "0").err


def test_logs_that_cannot_be_shown(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Each with what to do."""
    assert f"no job 7 of yours: neither Slurm nor {jobs} knows it; " in mnrun("logs", "7").err
    made(jobs, "8")
    slurm.down = True
    assert "job 8 has not started, and has no output yet; wait for it with -f" in mnrun("logs", "8").err
    slurm.down = False
    slurm.known = (Job("8", "x", "PENDING"),)
    assert "job 8 has not started, and has no output yet; wait for it with -f" in mnrun("logs", "8").err
    made(jobs, "9")
    made(jobs, "9_0", 0)
    for verb in ("logs", "why", "report"):
        assert "job 9 is an array; name one of its tasks: 9_0" in mnrun(verb, "9").err
    assert "job 9 is an array; name one of its tasks: 9_0" in mnrun("exec", "9", "--", "true").err
    made(jobs, "10_1", 0)
    assert "job 10 is an array; name one of its tasks: 10_1" in mnrun("logs", "10").err
    logged(jobs, 0)
    assert (
        "has no separate output for each rank; submit it with --split-output" in mnrun("logs", "7", "--rank", "0").err
    )
    (jobs / "7" / "0" / "log").write_text("ready n1 port=1\n")
    line = "mnrun: job 7 has no separate output for each rank; submit it with --split-output DIR"
    assert mnrun("logs", "7", "--node", "n1").err == f"{line}; -v shows mnrun's lines about n1\n"
    assert mnrun("logs", "7", "--node", "n1", "-v").err == "ready n1 port=1\n"
    (jobs / "out").unlink()
    assert "out is not there; look where the output was moved" in mnrun("logs", "7").err


def test_where_the_records_are(mnrun: Terminal, slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option, else the variable, else in ~/.mnrun/jobs."""
    made(tmp_path / "a", "7", 4)
    made(tmp_path / "b", "7", 5)
    monkeypatch.setenv("MNRUN_JOB_DIR", str(tmp_path / "a"))
    assert mnrun("wait", "7").code == 4
    assert mnrun("wait", "--job-dir", str(tmp_path / "b"), "7").code == 5
    assert mnrun("wait", "--job-dir", "~/b", "7").code == 5


def test_how_often_slurm_may_be_asked(mnrun: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """As any time of ours is written."""
    assert verbs.user_queue().poll == 30
    monkeypatch.setenv("MNRUN_SLURM_POLL", "2m")
    assert verbs.user_queue().poll == 120
    monkeypatch.setenv("MNRUN_SLURM_POLL", "x")
    assert "'x' is not a time (MNRUN_SLURM_POLL)" in mnrun("status").err


def test_a_table_on_a_terminal(mocker: MockerFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """Framed, and nothing in it is markup."""
    mocker.patch.object(sys.stdout, "isatty", return_value=True)
    screen.table(("JOB", "NAME"), [("7", "[red]x")])
    out = capsys.readouterr().out
    assert "JOB" in out and "─" in out and "[red]x" in out
    screen.table(("NAME",), [("\x1b[2Jx\n",)])
    assert "?[2Jx?" in capsys.readouterr().out


def test_no_verb_is_missing() -> None:
    """Each is a command of the module that the table names."""
    context = main.main.make_context("mnrun", ["status", "--help"], resilient_parsing=True)
    for verb in main.VERBS:
        command = main.main.get_command(context, verb)
        assert command is not None and command.help, verb
