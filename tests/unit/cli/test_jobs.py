"""The verbs that follow jobs, as they are typed: what is asked, what is printed, and the code."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
import pytest
from pytest_mock import MockerFixture

from mnrun import versioned
from mnrun.attach import connection, user
from mnrun.cli import main
from mnrun.errors import NotYours, SchedulerError
from mnrun.jobs import job_dir, launches, state
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import Submitted
from mnrun.schedulers.queue import Job, PartitionNode, Snapshot
from mnrun.schedulers.slurm import answers
from mnrun.schedulers.vocabulary import JobState, Trace
from mnrun.system import screen
from published import checked
from unit.jobs.test_archive import made
from unit.samples import RECORDED
from unit.texts import Says
from unit.typed import Complaint, Terminal
from unit.watching.test_series import lines


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
    mocker.patch("mnrun.schedulers.slurm.scheduler.trace", return_value=None)
    mocker.patch("mnrun.schedulers.slurm.scheduler.is_here", return_value=True)
    return Terminal(mocker, capsys)


@pytest.fixture
def slurm(mocker: MockerFixture) -> Slurm:
    slurm = Slurm()
    mocker.patch.object(user, "queue", return_value=slurm)
    return slurm


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return tmp_path / ".mnrun" / "jobs"


@pytest.fixture
def still(mocker: MockerFixture) -> None:
    """The clock stands still: no second begins between a test's look at it and mnrun's."""
    mocker.patch("time.time", return_value=time.time())


@pytest.mark.usefixtures("still")
def test_status_of_all(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Plain columns, since this is no terminal."""
    later = time.time() + 3725
    slurm.known = (
        Job("12", "train", JobState.RUNNING, nodes=2, nodelist="n[1-2]", gpus=8, end=later + 0.9, start=later - 3850),
        Job("13", "a b", JobState.PENDING, "other jobs are before it in the queue", nodes=4),
        Job("14", "x", JobState.RUNNING, nodes=1, nodelist="n3"),
    )
    now = time.time()
    made(jobs, "7", 3, time=now)
    done = mnrun("status")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "JOB  NAME   STATE    NODES   GPUS  TIME  LEFT      ENDED  CODE  WHY",
        f"7           failed   n[1-2]        0:00            {state.moment(now, now)}  3",
        "12   train  running  n[1-2]  8     2:05  1:02:05",
        "13   a b    pending  4                                          other jobs are before it in the queue",
        "14   x      running  n3                  no limit",
    ]
    assert slurm.asked == ["jobs", "history "]


def test_some_of_the_jobs(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint) -> None:
    """A refused request is no job, unless it is named."""
    now = time.time()
    slurm.known = (
        Job("30", "train", JobState.PENDING, "other jobs are before it in the queue", start=now + 86400),
        Job("31", "salloc", JobState.FAILED, submitted=now),
    )
    for number in range(1, 25):
        made(jobs, str(number), number % 2, time=now - 3600 * number)

    request = json.dumps({"id": "30", "name": "train", "time": now})
    (made(jobs, "30") / "submitted").write_text(request)

    def shown(*words: str) -> list[str]:
        return [line.split()[0] for line in mnrun("status", *words).out.splitlines()[1:]]

    assert shown() == [*map(str, range(1, 21)), "30"]
    assert shown("-n", "2") == ["1", "2", "30"]
    assert shown("--state", "failed", "-n", "3") == ["1", "3", "5"]
    assert shown("--state", "active") == ["30"]
    assert shown("--state", "COMPLETED,pending", "--since", "3h") == ["2", "30"]
    assert shown("31", "24") == ["31", "24"]
    assert "expected at" in mnrun("status", "train").out
    some = checked("status", mnrun("status", "--json", "--state", "done", "-n", "1").out)["jobs"]
    assert [(job["id"], job["began"], job["ended"]) for job in some] == [("2", now - 7200, now - 7200)]
    for wrong in (("--state", "lost"), ("--since", "3m"), ("--since", "x"), ("-w", "--json"), ("evaluate",)):
        complaint(mnrun("status", *wrong))


def test_status_until_the_end(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture) -> None:
    """Each new row once, where the output is no terminal, and nothing that changes each second."""
    path = made(jobs, "7", None)
    (path / "submitted").write_text(json.dumps({"id": "7", "name": "train", "time": 5}))
    slurm.known = (
        Job("7", "train", JobState.RUNNING, nodes=1, nodelist="n1", start=time.time(), end=time.time() + 60),
    )
    steps = iter(["", "", "end"])

    def sleep(seconds: float) -> None:
        if next(steps):
            (path / "0" / "outcome").write_text(json.dumps({"time": time.time(), "code": 3}))

    mocker.patch("time.sleep", side_effect=sleep)
    done = mnrun("status", "-w", "7")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[:3] for line in done.out.splitlines()] == [
        ["JOB", "NAME", "STATE"],
        ["7", "train", "running"],
        ["7", "train", "failed"],
    ]
    mocker.patch("mnrun.system.screen.sys.stdout.isatty", return_value=True)
    assert mnrun("status", "-w", "7").code == 0


def test_the_job_that_is_meant(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, complaint: Complaint
) -> None:
    """Without a word, it is the last one, also if no mnrun has begun in it. A name means the last job of that name."""
    for words in (("wait",), ("logs",), ("report",), ("why",), ("cancel",)):
        complaint(mnrun(*words))
    now = time.time()
    for identity, name, code, age in (("7", "train", 3, 50), ("8", "train", 4, 40), ("9", "test", 5, 30)):
        path = made(jobs, identity, code, time=now - age)
        (path / "submitted").write_text(json.dumps({"id": identity, "name": name, "time": now - age}))
        (path / "0" / "begun").write_text(json.dumps({"time": now - age, "output": str(jobs / f"out{identity}")}))
        (jobs / f"out{identity}").write_text(f"I am {identity}\n")
    assert mnrun("wait").code == 5
    assert mnrun("wait", "train").code == 4
    assert mnrun("wait", "train", "7", "test").code == 5
    assert mnrun("logs").out == "I am 9\n"
    assert mnrun("logs", "train").out == "I am 8\n"
    assert mnrun("logs", "7", "train").out == "7| I am 7\n8| I am 8\n"
    assert "with code 5" in mnrun("why").out
    assert "with code 4" in mnrun("why", "train").out
    slurm.asked.clear()
    assert "with code 4" in mnrun("why", "train").out
    assert mnrun("cancel", "train").code == 0
    assert slurm.asked == ["cancel 8"]
    complaint(mnrun("cancel"))  # no terminal to ask on
    mocker.patch("sys.stderr.isatty", return_value=True)
    mocker.patch("sys.stdin.isatty", return_value=True)
    for agreed in (False, True):
        confirm = mocker.patch("click.confirm", side_effect=None if agreed else click.Abort)
        assert mnrun("cancel").code == (0 if agreed else 130)
        assert "9" in confirm.call_args.args[0]
    assert [words for words in slurm.asked if words.startswith("cancel")] == ["cancel 8", "cancel 9"]
    script = Trace(True, str(jobs / "out9"))
    mocker.patch("mnrun.schedulers.slurm.scheduler.trace", side_effect=lambda job: script if job == "10" else None)
    slurm.known = tuple(Job(job, "mine", JobState.PENDING, submitted=now) for job in ("10", "11"))  # 11 is of salloc
    assert mnrun("logs").out == "I am 9\n"
    assert "job 10 (mine)" in mnrun("logs").err
    assert "job 10 (mine)" in mnrun("logs", "mine").err


@pytest.mark.parametrize(("age", "meant"), [(10, "12"), (50, "8")])
def test_the_live_run_that_is_meant(mnrun: Terminal, slurm: Slurm, jobs: Path, age: float, meant: str) -> None:
    """A name means the last job or live run, also for a verb that ends it, by the job that mnrun has got for it."""
    now = time.time()
    (made(jobs, "8", 4, time=now - 40) / "submitted").write_text(
        json.dumps({"id": "8", "name": "same", "time": now - 40})
    )
    lives(jobs, "12-abcdef", launches.mark(), "same", own=True, begun=now - age)
    assert mnrun("cancel", "same").code == 0
    assert [words for words in slurm.asked if words.startswith("cancel")] == [f"cancel {meant}"]


def test_a_job_whose_mnrun_was_killed(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """Python's own words on a signal are not the program's."""
    now = time.time()
    path = made(jobs, "7", None, time=now)
    (path / "submitted").write_text(json.dumps({"id": "7", "name": "train", "time": now}))
    (path / "0" / "begun").write_text(json.dumps({"time": now, "output": str(jobs / "out")}))
    (jobs / "out").write_text("step 3\nFatal Python error: Aborted\n\n  File clock.py\n")
    slurm.known = (Job("7", "train", JobState.FAILED, nodes=1, nodelist="n1", end=now, signal=6),)
    told = checked("why", mnrun("why", "--json", "7").out)
    assert (told["code"], told["output"]) == (134, ["step 3"])
    assert told["why"] != "signal 6"


def test_a_job_is_no_command_to_submit(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    path = made(jobs, "7", 0, time=time.time())
    (path / "submitted").write_text(json.dumps({"id": "7", "name": "train", "time": time.time()}))
    for words in (("train",), ("train", "-x", "A=b"), ("7",)):
        done = mnrun("submit", *words)
        assert done.code == 2
        assert "image" not in done.err, done


def test_the_name_of_an_array_has_tasks(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint) -> None:
    array, now = made(jobs, "12"), time.time()
    (array / "submitted").write_text(json.dumps({"id": "12", "name": "arr", "tasks": 2, "time": now}))
    for task in range(2):
        (jobs / f"out{task}").write_text(f"case {task}\n")
        start = made(jobs, f"12_{task}", task, time=now) / "0"
        (start / "begun").write_text(json.dumps({"time": now, "output": str(jobs / f"out{task}")}))
    assert mnrun("logs", "arr_1").out == "case 1\n"
    assert mnrun("wait", "arr_1").code == 1
    assert mnrun("wait", "arr_0").code == 0
    assert "12_1" in mnrun("why", "arr_1").out
    assert "12_1" in mnrun("status", "arr_1").out
    slurm.asked.clear()
    assert mnrun("cancel", "arr_1", "arr_[2-3]").code == 0
    assert slurm.asked[-1] == "cancel 12_1,12_[2-3]"
    complaint(mnrun("logs", "other_1"))


def test_the_name_of_a_live_run(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint) -> None:
    lives(jobs, "12-abcdef", launches.mark(), "web")
    slurm.known = (Job("12", "interactive", JobState.RUNNING, nodes=2, nodelist="n[1-2]", end=time.time() + 60.9),)
    assert mnrun("status", "web").out.splitlines()[1].split()[:3] == ["12-abcdef", "web", "running"]
    for verb in ("logs", "wait"):
        done = mnrun(verb, "web")
        assert done.code == 2
        assert "12-abcdef" in done.err
    complaint(mnrun("wait", "12-abcdef"))
    path = made(jobs, "7", 3, time=time.time() - 60)
    (path / "submitted").write_text(json.dumps({"id": "7", "name": "web", "time": time.time() - 60}))
    assert mnrun("wait", "web").code == 3


def test_logs_of_an_array(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture) -> None:
    """Its tasks come as they begin, and it ends with the last of them."""
    array = made(jobs, "12")
    (array / "submitted").write_text(json.dumps({"id": "12", "tasks": 2, "time": time.time()}))

    def begins(task: int, code: int | None) -> None:
        (jobs / f"out{task}").write_text(f"case {task}\n")
        start = jobs / f"12_{task}" / "0"
        start.mkdir(parents=True, exist_ok=True)
        (start / "begun").write_text(json.dumps({"time": time.time(), "output": str(jobs / f"out{task}")}))
        if code is not None:
            (start / "outcome").write_text(json.dumps({"time": time.time(), "code": code}))

    steps: Iterator[tuple[int, int | None]] = iter([(1, None), (0, 0), (1, 3)])

    def sleep(seconds: float) -> None:
        for step in islice(steps, 1):
            begins(*step)

    mocker.patch("time.sleep", side_effect=sleep)
    done = mnrun("logs", "-f", "--exit-status", "12")
    assert done.code == 3, done
    assert done.out == "12_1| case 1\n12_0| case 0\n"
    assert mnrun("logs", "12").out == "12_0| case 0\n12_1| case 1\n"


def test_status_names_gpus_that_idle(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    slurm.known = (Job("12", "train", JobState.RUNNING, nodes=1, nodelist="n1", gpus=2),)
    start = made(jobs, "12", None, time=time.time()) / "0"
    (start / "samples").write_text(lines(40, "gpu 0 97 1 1 1 1 1", "gpu 1 1 1 1 1 1 1"))
    (start / "begun").write_text(json.dumps({"time": time.time(), "nodes": "n1"}))
    live = jobs / "13-abcdef"
    live.mkdir()
    (live / launches.LAUNCH).write_text(versioned.text(LaunchRecord(live.name, "slurm", "13", "/tmp/x", ("n2",))))
    (live / launches.OWNER).write_text(launches.mark())
    (live / "samples").write_text(lines(40, "gpu 0 1 1 1 1 1 1", node="n2"))
    shown = {job["id"]: job["why"] for job in checked("status", mnrun("status", "--json").out)["jobs"]}
    assert shown == {"12": "1 of 2 GPUs idle: n1 GPU 1", "13-abcdef": "1 of 1 GPU idle: n2 GPU 0"}


def test_status_where_there_is_nothing(mnrun: Terminal, slurm: Slurm, complaint: Complaint) -> None:
    complaint(mnrun("status"), 0)


def lives(base: Path, job: str, owner: str, title: str = "app", own: bool = False, begun: float = 0) -> Path:
    """Write the records of a live run on two nodes."""
    folder = base / job
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    number, gpus = job.partition("-")[0], {"n1": 4, "n2": 4}
    record = LaunchRecord(job, "slurm", number, "", ("n1", "n2"), gpus=gpus, title=title, own=own, begun=begun)
    (folder / launches.LAUNCH).write_text(versioned.text(record))
    (folder / launches.OWNER).write_text(owner)
    return folder


@pytest.mark.usefixtures("still")
def test_status_of_live_runs(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint) -> None:
    slurm.known = (Job("12", "interactive", JobState.RUNNING, nodes=2, nodelist="n[1-2]", end=time.time() + 60.9),)
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
    complaint(mnrun("status", "11-abcdef"), 123)


@pytest.mark.parametrize("what", ["gone", "another process", "open to others", "a link", "another user's"])
def test_status_believes_no_record_by_its_name(
    mnrun: Terminal, slurm: Slurm, jobs: Path, tmp_path: Path, mocker: MockerFixture, what: str, complaint: Complaint
) -> None:
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
    complaint(mnrun("status"), 0)


def test_status_for_prometheus(mnrun: Terminal, slurm: Slurm, jobs: Path, tmp_path: Path) -> None:
    slurm.known = (
        Job("12", "interactive", JobState.RUNNING, nodes=2, nodelist="n[1-2]"),
        Job("13", "later", JobState.PENDING, nodes=2),
    )
    lives(jobs, "12-abcdef", launches.mark(), "train")
    lives(jobs, "hosts-abcdef", launches.mark())
    assert mnrun("status", "--metrics", f"{tmp_path}/m.prom").out == ""
    text = (tmp_path / "m.prom").read_text()
    rows = re.findall(
        r'^mnrun_job_info\{hpc_job="(.*?)",.*node="(.*?)".*\} 1\.0$', re.sub(",name=.*?,", ",", text), re.M
    )
    assert rows == [("12", "n1"), ("12", "n2"), ("hosts-abcdef", "n1"), ("hosts-abcdef", "n2")], text


def test_status_without_a_scheduler(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture) -> None:
    mocker.patch("mnrun.schedulers.slurm.scheduler.is_here", return_value=False)
    lives(jobs, "local-abcdef", launches.mark())
    assert [line.split()[0] for line in mnrun("status").out.splitlines()] == ["JOB", "local-abcdef"]
    assert slurm.asked == []


def test_status_for_programs(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    made(jobs, "7", 3)
    done = mnrun("status", "--json", "7")
    (seen,) = checked("status", done.out)["jobs"]
    assert (seen["id"], seen["state"], seen["code"], seen["left"]) == ("7", "FAILED", 3, None)
    assert slurm.asked == []


def test_status_of_a_job_that_slurm_forgot(mnrun: Terminal, slurm: Slurm) -> None:
    slurm.known = (Job("8", "y", JobState.RUNNING),)
    slurm.past = (Job("7", "x", JobState.TIMEOUT),)
    assert "timed out" in mnrun("status", "7", "8").out
    assert slurm.asked == ["jobs", "history 7"]


def test_status_of_a_job_that_nobody_knows(mnrun: Terminal, slurm: Slurm, jobs: Path, says: Says) -> None:
    slurm.known = (Job("8", "y", JobState.RUNNING),)
    done = mnrun("status", "8", "4711")
    assert done.code == 123
    assert "running" in done.out
    says(done.err)


@pytest.mark.parametrize("verb", ["status", "logs", "exec", "why", "wait", "report", "cancel"])
@pytest.mark.parametrize("whose", ["nobody's", "alice's"])
def test_an_id_that_is_no_job_of_yours(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, verb: str, whose: str, complaint: Complaint
) -> None:
    trace = Trace(True, "/x", owner="alice") if whose == "alice's" else None
    mocker.patch("mnrun.schedulers.slurm.scheduler.trace", return_value=trace)
    mocker.patch.object(slurm, "cancel", side_effect=NotYours("", ["65"]))
    complaint(mnrun(verb, "65", *(["true"] if verb == "exec" else [])), 123)


def test_the_accounting_still_knows_an_ended_job(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, complaint: Complaint
) -> None:
    """slurmctld forgets a job some minutes after its end (MinJobAge)."""
    slurm.past = (Job("65", "x", JobState.FAILED, code=3),)
    mocker.patch.object(slurm, "cancel", side_effect=NotYours("", ["65"]))
    assert mnrun("cancel", "65").code == 0
    mocker.patch.object(slurm, "cancel", side_effect=NotYours("", ["65", "66"]))
    complaint(mnrun("cancel", "65", "66"), 123)


def test_status_of_a_job_that_is_newer_than_the_answer(mnrun: Terminal, slurm: Slurm) -> None:
    slurm.age, slurm.known, slurm.news = 12, (Job("8", "y", JobState.RUNNING),), (Job("9", "own", JobState.RUNNING),)
    assert mnrun("status", "8").err.startswith("mnrun: as of ")
    done = mnrun("status", "9")
    assert (done.code, done.out.splitlines()[1].split()[:3], done.err) == (0, ["9", "own", "running"], "")
    assert mnrun("status", "4711").code == 123
    assert slurm.asked == ["jobs", *("jobs", "jobs", "anew"), *("jobs", "jobs", "anew", "history 4711")]


@pytest.mark.usefixtures("still")
def test_status_says_how_old_it_is(mnrun: Terminal, slurm: Slurm) -> None:
    slurm.known, slurm.news = (Job("8", "y", JobState.PENDING),), (Job("8", "y", JobState.RUNNING),)
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


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("change", ["a record", "a live run has ended"])
def test_an_answer_from_before_a_change_does_not_count(mnrun: Terminal, slurm: Slurm, jobs: Path, change: str) -> None:
    """mnrun knows that something of the user's has begun or ended since."""
    slurm.age, slurm.known, slurm.news = 12, (Job("8", "y", JobState.RUNNING),), ()
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


def test_a_task_that_has_begun_does_not_wait(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint) -> None:
    slurm.known = (Job("12_[2-5,9%2]", "sh", JobState.PENDING, submitted=100),)
    made(jobs, "12_2", 3, time=200)
    made(jobs, "12_3", 0, time=200)
    rows = [line.split()[0] for line in mnrun("status").out.splitlines()[1:]]
    assert rows == ["12_[4-5,9%2]"]  # the ends are older than a week
    slurm.known = (Job("12_[2-3%2]", "sh", JobState.PENDING, submitted=100),)
    assert mnrun("status", "12_2", "12_3").out.split("\n")[1].split()[:2] == ["12_2", "failed"]
    complaint(mnrun("status"), 0)
    slurm.known = (Job("12_[2-3%2]", "sh", JobState.PENDING, submitted=300),)
    assert mnrun("status").out.splitlines()[1].split()[0] == "12_[2-3%2]"


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("age", "state"), [(1.5, "done"), (0.0, "pending")])
def test_a_record_of_the_end_counts_above_an_older_answer(
    mnrun: Terminal, slurm: Slurm, jobs: Path, age: float, state: str
) -> None:
    slurm.known, slurm.age = (Job("7", "train", JobState.PENDING, "was submitted just now"),), age
    made(jobs, "7", 0, time=time.time() - 0.5)
    assert mnrun("status").out.splitlines()[1].split()[:3] == (
        ["7", "train", state] if age == 0 else ["7", state, "n[1-2]"]
    )


@pytest.mark.usefixtures("still")
def test_a_job_that_began_after_the_answer(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    slurm.known, slurm.age, slurm.news = (
        (Job("7", "train", JobState.PENDING, "x"),),
        1.5,
        (Job("7", "train", JobState.RUNNING),),
    )
    made(jobs, "7", None, time=time.time() - 0.5)
    assert mnrun("status", "7").out.splitlines()[1].split()[:3] == ["7", "train", "running"]
    assert slurm.asked[-1] == "anew"


def test_status_while_slurmctld_is_down(mnrun: Terminal, slurm: Slurm) -> None:
    slurm.down = True
    done = mnrun("status")
    assert (done.code, done.err) == (123, "mnrun: squeue: Unable to contact slurm controller\n")


def test_cancel(mnrun: Terminal, slurm: Slurm, complaint: Complaint) -> None:
    slurm.ended = ["8_1"]
    done = mnrun("cancel", "7", "8_1")
    complaint(done, 0)
    slurm.ended = ["app-8k2xd"]  # a name of Kubernetes, where something is left of it
    complaint(mnrun("cancel", "app-8k2xd"), 0)
    slurm.ended = []
    complaint(mnrun("cancel", "-s", "USR1", "9_[0-3]"), 0)
    assert slurm.asked == ["cancel 7,8_1", "cancel app-8k2xd", "cancel 9_[0-3] USR1"]


def test_a_signal_to_jobs_with_and_without_a_script_of_ours(
    mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint
) -> None:
    made(jobs, "9")
    made(jobs, "12_3", 0)
    assert mnrun("cancel", "-s", "SIGusr1", "8", "9_[0-3]", "12_4").code == 0
    assert slurm.asked == ["cancel 8,9_[0-3],12_4 SIGusr1 9_[0-3],12_4"]
    assert mnrun("cancel", "-s", "KILL", "8").code == 0
    for wrong in ("WINCH", "foo", "KILL"):
        complaint(mnrun("cancel", "-s", wrong, "9"))
    assert len(slurm.asked) == 2


def test_wait_gives_the_jobs_code(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    made(jobs, "7", 3)
    made(jobs, "8", 0)
    assert mnrun("wait", "7").code == 3
    assert mnrun("wait", "8", "7", "8").code == 3
    slurm.known = (Job("9", "", JobState.NODE_FAIL),)
    assert mnrun("wait", "9", "7").code == 121


def test_nodes(mnrun: Terminal, slurm: Slurm, complaint: Complaint) -> None:
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
    complaint(mnrun("nodes", "-p", "x"))


def test_clean(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint, says: Says) -> None:
    now = time.time()
    made(jobs, "7", 0, time=now)
    done = mnrun("clean")
    complaint(done, 0)
    assert slurm.asked == []
    made(jobs, "8", 0, time=now - 41 * 86400)
    made(jobs, "9", None, time=now - 41 * 86400)
    os.utime(jobs / "9" / "0", (now - 41 * 86400,) * 2)
    slurm.known = (Job("9", "", JobState.RUNNING),)
    done = mnrun("clean", "--older", "30d")
    assert done.out == f"removed {jobs / '8'}: 41 days old\n"
    says(done.err)
    assert sorted(path.name for path in jobs.iterdir()) == ["7", "9"]
    slurm.down = True
    assert mnrun("clean").code == 123
    complaint(mnrun("clean", "--older", "x"))


def test_clean_removes_keys(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    """And with all else that it is asked for, after a look."""
    home = jobs.parent
    for old in (("--keys",), ("--keys", "--images", "--older", "0d"), ("--all",)):
        connection.user_keys(home.parent)
        shutil.rmtree(jobs / "7", ignore_errors=True)
        made(jobs, "7", 0, time=time.time() - 2 * 86400)
        (home / "slurm.json").write_text("{}")
        shown = mnrun("clean", "--dry-run", *old)
        assert (home / "ssh" / "key").exists() and (jobs / "7").exists()
        done = mnrun("clean", *old)
        assert done.code == shown.code == 0
        assert done.out == shown.out.replace("would remove", "removed")
        assert not (home / "ssh").exists()
        assert (jobs / "7").exists() == (old == ("--keys",))
        assert home.exists() == (old != ("--all",))


def test_clean_leaves_the_records_of_a_job_that_runs(
    mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint
) -> None:
    made(jobs, "9", None, time=time.time())
    slurm.known = (Job("9", "", JobState.RUNNING),)
    complaint(mnrun("clean", "--all"), 122)
    assert (jobs / "9").exists()
    complaint(mnrun("clean", "--all", "--older", "2d"))


def test_a_closed_directory_of_records(mnrun: Terminal, slurm: Slurm) -> None:
    closed = ("--job-dir", "/" + "x" * 300)
    assert mnrun("status", *closed).code == 0
    assert mnrun("why", "7", *closed).code == 123


def logged(jobs: Path, *starts: int | None, **begun: object) -> Path:
    path = made(jobs, "7", *starts)
    (jobs / "out").write_text("one\ntwo\n")
    record = {"time": 5, "nodes": "n[1-2]", "output": str(jobs / "out"), **begun}
    (path / str(len(starts) - 1) / "begun").write_text(json.dumps(record))
    return path


def test_logs(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    logged(jobs, 0)
    assert mnrun("logs", "7").out == "one\ntwo\n"
    assert mnrun("logs", "-n", "1", "7").out == "two\n"
    assert mnrun("logs", "7", "-f").out == "one\ntwo\n"
    assert slurm.asked == []


def test_logs_follows_to_the_end(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, says: Says) -> None:
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
    slurm.known = (Job("7", "x", JobState.PENDING, "other jobs are before it"),)
    done = mnrun("logs", "-f", "7")
    assert (done.code, done.out) == (0, "one\ntwo\nhalf")
    says(done.err)


def test_the_code_of_a_job_that_was_followed(
    mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint, says: Says
) -> None:
    logged(jobs, 3)
    done = mnrun("logs", "-f", "7")
    assert (done.code, done.out) == (0, "one\ntwo\n")
    says(done.err)
    assert mnrun("logs", "-f", "--exit-status", "7").code == 3
    complaint(mnrun("wait", "7"), 3)
    complaint(mnrun("logs", "--exit-status", "7"))


def test_the_output_of_a_script_of_ones_own(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, complaint: Complaint, says: Says
) -> None:
    (out, err) = (jobs.parent / "slurm-8.out", jobs.parent / "slurm-8.err")
    jobs.mkdir(parents=True)
    out.write_text("one\n")
    err.write_text("careful\n")
    slurm.known = (Job("8", "own", JobState.RUNNING),)
    mocker.patch("mnrun.schedulers.slurm.scheduler.trace", return_value=Trace(True, str(out), str(err)))
    done = mnrun("logs", "8")
    assert (done.code, done.out, done.err) == (0, "one\n", "careful\n")
    mocker.patch("mnrun.schedulers.slurm.scheduler.trace", return_value=None)
    (jobs / "8").mkdir()
    request = Submitted(id="8", output=str(out).replace("%", "%%"), own=True)
    (jobs / "8" / "submitted").write_text(versioned.text(request))
    assert mnrun("logs", "8").out == "one\n"
    slurm.known = (Job("8", "own", JobState.FAILED, code=3),)
    done = mnrun("logs", "-f", "--exit-status", "8")
    assert (done.code, done.out) == (3, "one\n")
    says(mnrun("why", "8").out)
    assert mnrun("report", "8").code == 0
    out.unlink()
    complaint(mnrun("logs", "8"))
    assert mnrun("cancel", "-s", "USR1", "8").code == 0
    assert slurm.asked[-1] == "cancel 8 USR1", "its shell must not get the signal alone"


def test_status_shows_a_script_and_its_launch_once(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    slurm.known = (Job("8", "own", JobState.RUNNING, nodes=2, nodelist="n[1-2]"),)
    run = lives(jobs, "8-abcdef", launches.mark())
    record = json.loads((run / launches.LAUNCH).read_text())
    (run / launches.LAUNCH).write_text(json.dumps({**record, "script": "8"}))
    assert [line.split()[0] for line in mnrun("status").out.splitlines()] == ["JOB", "8"]
    assert [line.split()[0] for line in mnrun("status", "8-abcdef").out.splitlines()] == ["JOB", "8-abcdef"]


def test_status_shows_a_run_and_the_job_that_it_got_once(mnrun: Terminal, slurm: Slurm, jobs: Path) -> None:
    slurm.known = (Job("8", "web", JobState.RUNNING, nodes=2, nodelist="n[1-2]", gpus=2),)
    run = lives(jobs, "8-abcdef", launches.mark(), "web", own=True)
    (run / "samples").write_text(lines(40, "gpu 0 97 1 1 1 1 1", "gpu 1 1 1 1 1 1 1"))
    (seen,) = json.loads(mnrun("status", "--json").out)["jobs"]
    assert (seen["id"], seen["why"]) == ("8", "1 of 2 GPUs idle: n1 GPU 1")
    assert [line.split()[0] for line in mnrun("status", "8").out.splitlines()] == ["JOB", "8"]
    assert [line.split()[0] for line in mnrun("status", "web").out.splitlines()] == ["JOB", "8-abcdef"]


def test_a_live_run_with_a_job_of_its_own(mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture) -> None:
    """Its job ends it. A signal goes to its mnrun, and not to the processes of the job's steps."""
    lives(jobs, "8-abcdef", launches.mark(), "web", own=True)
    kill = mocker.patch("os.kill")
    for word in ("web", "8-abcdef", "8"):
        assert mnrun("cancel", word).code == 0
        assert slurm.asked[-1] == "cancel 8"
        assert mnrun("cancel", "-s", "usr1", word).code == 0
        kill.assert_called_once_with(os.getpid(), 10)
        kill.reset_mock()
    assert json.loads(mnrun("report", "--json", "web").out)["about"]["state"] == "RUNNING"
    slurm.known = (Job("8", "web", JobState.FAILED, nodelist="n1", code=3),)
    assert mnrun("wait", "web").code == 3


def test_the_end_of_a_live_run_in_no_job_of_its_own(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, complaint: Complaint
) -> None:
    lives(jobs, "hosts-abcdef", launches.mark(), "web")
    lives(jobs, "12-abcdef", "other-login 1 1 x\n", "far")
    kill = mocker.patch("os.kill")
    assert mnrun("cancel", "web").code == 0
    kill.assert_called_once_with(os.getpid(), 15)
    assert not any("cancel" in asked for asked in slurm.asked)
    complaint(mnrun("cancel", "far"))
    complaint(mnrun("cancel", "-s", "ALRM", "web"))
    assert kill.call_count == 1


@pytest.mark.parametrize("own", [False, True])
def test_a_job_does_not_go_on_whose_mnrun_was_killed(mnrun: Terminal, slurm: Slurm, jobs: Path, own: bool) -> None:
    """A job of the user's goes on after a run in it."""
    slurm.age, slurm.known = 12, (Job("8", "train", JobState.RUNNING, nodes=1),)
    slurm.news = (Job("8", "train", JobState.FAILED, nodes=1, nodelist="n1", code=137, end=time.time()),)
    run = lives(jobs, "8-abcdef", launches.mark(4194305), "train", own)
    os.utime(jobs, (time.time() - 50,) * 2)
    (seen,) = json.loads(mnrun("status", "--json").out)["jobs"]
    assert (seen["code"], seen["why"] != "") == ((137, True) if own else (None, False))
    assert ("anew" in slurm.asked) == own
    with job_dir.opened(str(jobs), "9-abcdef", keep=False):
        assert not run.exists()
    slurm.age, slurm.known = 0, slurm.news
    (seen,) = json.loads(mnrun("status", "--json").out)["jobs"]
    assert seen["code"] == 137
    assert seen["why"] != "", "the next launch has kept it"


@pytest.mark.parametrize("away", [False, True])
def test_status_of_two_systems(mnrun: Terminal, jobs: Path, mocker: MockerFixture, away: bool) -> None:
    """Each is asked for the jobs whose ids are like its own. One that is away hides no job of the other."""
    queues = {False: Slurm(), True: Slurm()}
    queues[False].known = (Job("8", "x", JobState.RUNNING),)
    queues[True].known = (Job("app-8k2xd", "app", JobState.RUNNING),)
    queues[True].down = away
    mocker.patch("mnrun.schedulers.kubernetes.scheduler.is_here", return_value=True)
    mocker.patch.object(user, "queue", side_effect=lambda named="", ids=(): queues[bool(ids) and ids[0] != "8"])
    made(jobs, "app-8k2xd", time=time.time())
    done = mnrun("status", "--json")
    assert {job["id"]: job["state"] for job in json.loads(done.out)["jobs"]} == (
        {"8": "RUNNING"} if away else {"8": "RUNNING", "app-8k2xd": "RUNNING"}
    )
    assert ("unable" in done.err.lower()) == away
    done = mnrun("status", "--json", "8", "app-8k2xd")
    assert done.code == (123 if away else 0)


def test_logs_of_a_job_that_ends_before_it_begins(
    mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint
) -> None:
    made(jobs, "7")
    slurm.poll = 0.0
    slurm.known = (Job("7", "x", JobState.CANCELLED),)
    for words in (("logs", "-f", "7"), ("logs", "7")):
        complaint(mnrun(*words))
    assert slurm.asked == ["jobs"] * 3
    slurm.known = (Job("7", "x", JobState.NODE_FAIL),)
    complaint(mnrun("logs", "7"))


def test_logs_of_a_task_without_a_directory(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, complaint: Complaint, says: Says
) -> None:
    (made(jobs, "7") / "submitted").write_text(json.dumps({"id": "7", "output": str(jobs / "out.%A_%a"), "tasks": 9}))
    complaint(mnrun("logs", "-f", "7_4"), 123)
    trace = mocker.patch("mnrun.schedulers.slurm.scheduler.trace", return_value=Trace(True, ""))
    slurm.known = (Job("7_[0-8]", "x", JobState.PENDING),)
    complaint(mnrun("logs", "7_4"))
    slurm.known = (Job("7_[0-8]", "x", JobState.CANCELLED),)
    complaint(mnrun("logs", "7_4"))
    trace.reset_mock()
    slurm.known = (Job("7_[0-8]", "x", JobState.PENDING, "other jobs are before it"),)

    def sleep(seconds: float) -> None:
        if not (jobs / "out.7_4").exists():
            (jobs / "out.7_4").write_text("loading\n")
        elif not (jobs / "7_4").exists():
            made(jobs, "7_4", 0)
            (jobs / "7_4" / "0" / "begun").write_text(json.dumps({"time": 5, "output": str(jobs / "out.7_4")}))

    mocker.patch("time.sleep", side_effect=sleep)
    done = mnrun("logs", "-f", "7_4")
    assert (done.code, done.out) == (0, "loading\n")
    says(done.err)
    trace.assert_called_once()


def test_a_time_that_gets_shorter_is_told_once(
    mnrun: Terminal, slurm: Slurm, jobs: Path, mocker: MockerFixture, says: Says
) -> None:
    made(jobs, "7")
    reasons = ["starts in 1-00:00:59 at the earliest", "starts in 0:29 at the earliest", "its start time has not come"]

    def look(age: float = 0) -> Snapshot:
        if not reasons:
            made(jobs / "later", "7", 0)
            (jobs / "later" / "7" / "0").rename(jobs / "7" / "0")
            return Snapshot((Job("7", "x", JobState.COMPLETED),), time.time())
        return Snapshot((Job("7", "x", JobState.PENDING, reasons.pop(0)),), time.time())

    mocker.patch("time.sleep")
    mocker.patch.object(slurm, "jobs", side_effect=look)
    mocker.patch.object(slurm, "poll", 0.0)
    says(mnrun("wait", "7").err)


def test_logs_of_ranks(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint) -> None:
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
    for words in (("--rank", "9"), ("--node", "n9"), ("--node", "n1", "--rank", "0")):
        complaint(mnrun("logs", "7", *words))


def test_logs_of_labelled_ranks(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint) -> None:
    logged(jobs, 0, label=True)
    (jobs / "out").write_text("mnrun: hi\n0: I am 0\n 2: I am 2\n12: I am 12\n1: 2: I am 1\n0: end\n")
    (jobs / "7" / "0" / "log").write_text("rank n2 0 3\nrank n1 1 3\nrank n2 2 3\n")
    assert mnrun("logs", "7", "--rank", "0").out == "I am 0\nend\n"
    assert mnrun("logs", "7", "--rank", "0", "-n", "1").out == "end\n"
    assert mnrun("logs", "7", "--ranks", "1-2").out == " 2: I am 2\n1: 2: I am 1\n"
    assert mnrun("logs", "7", "--node", "n1").out == "1: 2: I am 1\n"
    complaint(mnrun("logs", "7", "--rank", "one"))


def test_logs_of_what_failed(mnrun: Terminal, slurm: Slurm, jobs: Path, says: Says, complaint: Complaint) -> None:
    """A rank that had a TERM after the first has not failed by itself."""
    logged(jobs, 3, label=True)
    (jobs / "out").write_text("0: fine\n1: bad\n2: also ended\n")
    log = jobs / "7" / "0" / "log"
    log.write_text("rank n1 0 3\nrank n1 1 3\nrank n2 2 3\nended n1 1 3\nended n2 2 143 told\n")
    done = mnrun("logs", "--failed", "7")
    assert (done.code, done.out) == (0, "bad\n")
    says(done.err)
    log.write_text("rank n1 0 3\nrank n1 1 3\n")
    (jobs / "out").write_text("0: fine\n1: bad\nmnrun: rank 1 on n1 exited with 3\n")
    assert mnrun("logs", "--failed", "7").out == "bad\n", "mpirun tells no end of a rank"
    (jobs / "out").write_text("fine\n")
    assert mnrun("logs", "--failed", "7").out == "fine\n", "nobody knows the rank"
    complaint(mnrun("logs", "--failed", "-f", "7"))


def test_logs_of_the_tasks_that_failed(mnrun: Terminal, slurm: Slurm, jobs: Path, says: Says) -> None:
    (made(jobs, "12") / "submitted").write_text(json.dumps({"id": "12", "tasks": 3}))
    for task, code in enumerate((0, 4, 0)):
        made(jobs, f"12_{task}", code)
        (jobs / f"out{task}").write_text(f"case {task}\n")
        begun = json.dumps({"time": 5, "output": str(jobs / f"out{task}")})
        (jobs / f"12_{task}" / "0" / "begun").write_text(begun)
    done = mnrun("logs", "--failed", "12")
    assert (done.code, done.out) == (0, "case 1\n")
    says(done.err)
    done = mnrun("logs", "--failed", "12_0")
    assert (done.code, done.out) == (0, "")
    says(done.err)


def test_logs_that_cannot_be_shown(mnrun: Terminal, slurm: Slurm, jobs: Path, complaint: Complaint) -> None:
    complaint(mnrun("logs", "7"), 123)
    made(jobs, "8")
    slurm.down = True
    complaint(mnrun("logs", "8"))
    slurm.down = False
    slurm.known = (Job("8", "x", JobState.PENDING),)
    complaint(mnrun("logs", "8"))
    made(jobs, "9")
    made(jobs, "9_0", 0)
    for words in (("logs", "9"), ("why", "9"), ("report", "9"), ("exec", "9", "--", "true")):
        complaint(mnrun(*words))
    made(jobs, "10_1", 0)
    complaint(mnrun("logs", "10"))
    logged(jobs, 0)
    complaint(mnrun("logs", "7", "--rank", "0"))
    (jobs / "7" / "0" / "log").write_text("ready n1 port=1\n")
    complaint(mnrun("logs", "7", "--node", "n1"))
    assert mnrun("logs", "7", "--node", "n1", "-v").err == "ready n1 port=1\n"
    (jobs / "out").unlink()
    complaint(mnrun("logs", "7"))


def test_where_the_records_are(mnrun: Terminal, slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "a", "7", 4)
    made(tmp_path / "b", "7", 5)
    monkeypatch.setenv("MNRUN_JOB_DIR", str(tmp_path / "a"))
    assert mnrun("wait", "7").code == 4
    assert mnrun("wait", "--job-dir", str(tmp_path / "b"), "7").code == 5
    assert mnrun("wait", "--job-dir", "~/b", "7").code == 5


def test_how_often_slurm_may_be_asked(mnrun: Terminal, monkeypatch: pytest.MonkeyPatch, complaint: Complaint) -> None:
    assert user.queue().poll == 30
    monkeypatch.setenv("MNRUN_SLURM_POLL", "2m")
    assert user.queue().poll == 120
    monkeypatch.setenv("MNRUN_SLURM_POLL", "x")
    complaint(mnrun("status"))


def test_a_table_on_a_terminal(mocker: MockerFixture, capsys: pytest.CaptureFixture[str]) -> None:
    mocker.patch.object(sys.stdout, "isatty", return_value=True)
    screen.table(("JOB", "NAME"), [("7", "[red]x")])
    out = capsys.readouterr().out
    assert "JOB" in out and "─" in out and "[red]x" in out
    screen.table(("NAME",), [("\x1b[2Jx\n",)])
    assert "?[2Jx?" in capsys.readouterr().out


def test_no_verb_is_missing() -> None:
    context = main.main.make_context("mnrun", ["status", "--help"], resilient_parsing=True)
    for verb in main.VERBS:
        command = main.main.get_command(context, verb)
        assert command is not None and command.help, verb
