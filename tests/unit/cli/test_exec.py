"""`mnrun exec` and `mnrun why` as they are typed: the command that enters the job, and each refusal."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun import versioned
from mnrun.attach import copying, user
from mnrun.errors import SchedulerError
from mnrun.jobs import archive, launches
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import Ended
from mnrun.model import Command, Unwell
from mnrun.schedulers import hosts
from mnrun.schedulers.kubernetes import scheduler as kubernetes
from mnrun.schedulers.queue import Job
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.schedulers.vocabulary import JobState, Trace
from mnrun.system import client, commands
from published import checked
from unit.cli.test_jobs import Slurm
from unit.jobs.test_archive import made
from unit.texts import Says
from unit.typed import Complaint, Terminal

DIR = "/tmp/mnrun.12-abcdef"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Return the directory of jobs' records."""
    return tmp_path / ".mnrun" / "jobs"


@pytest.fixture
def mnrun(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Terminal:
    monkeypatch.setenv("HOME", str(tmp_path))
    mocker.patch.object(slurm, "runs", return_value=True)
    mocker.patch.object(slurm, "lost", return_value={})
    mocker.patch.object(slurm, "trace", return_value=None)
    return Terminal(mocker, capsys)


@pytest.fixture
def became(mocker: MockerFixture) -> list[tuple[str, ...]]:
    """Return the list that gets the words of each command that enters a job."""
    commands: list[tuple[str, ...]] = []

    def run(command: Command, environ: dict[str, str], own: object, output: int | None) -> int:
        commands.append(command.argv)
        return 0

    mocker.patch.object(client, "run", run)
    return commands


def running(
    base: Path, job: str = "12-abcdef", scheduler: str = "slurm", nodes: tuple[str, ...] = ("n1", "n2")
) -> Path:
    """Write the records of a live launch with two ranks on each node."""
    folder = base / job
    folder.mkdir(parents=True)
    record = LaunchRecord(job, scheduler, job.partition("-")[0], f"/tmp/mnrun.{job}", nodes, gpus={"n2": 4})
    (folder / launches.LAUNCH).write_text(versioned.text(record))
    (folder / launches.OWNER).write_text(launches.mark())
    ranks = [(node, 2 * place + number) for place, node in enumerate(nodes) for number in range(2)]
    (folder / "log").write_text("".join(f"rank {node} {rank} 4\n" for node, rank in ranks))
    return folder


def srun(node: str, *more: str, job: str = "12") -> tuple[str, ...]:
    """Return the words of a step beside the job."""
    shape = ("--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={node}", *more)
    client = ("srun", "--quiet", f"--jobid={job}", "--overlap", "--quit-on-interrupt")
    return (*client, *shape, "--mem=0", "--cpu-bind=none", "--mpi=none", "--chdir=/")


@pytest.mark.parametrize(
    ("typed", "node", "rank", "words"),
    [
        (["--", "ps"], "n1", "", ["ps"]),
        (["ps", "--rank", "1"], "n1", "", ["ps", "--rank", "1"]),
        (["12", "--rank", "1", "--", "12", "-x"], "n1", "1", ["12", "-x"]),
        (["--rank", "1", "12-abcdef", "gdb", "-p"], "n1", "1", ["gdb", "-p"]),
        (["12", "--", "-odd"], "n1", "", ["-odd"]),
        (["--node=n1", "12"], "n1", "", []),
    ],
)
def test_the_command_runs_beside_the_rank(
    mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path, typed: list[str], node: str, rank: str, words: list[str]
) -> None:
    running(jobs)
    assert mnrun("exec", *typed).code == 0
    (command,) = became
    assert command[: len(srun(node))] == srun(node)
    inner = command[len(srun(node)) :]
    assert inner[:2] == ("env", "MNRUN_JOB_ID=12-abcdef")
    assert inner[-len(words) - 3 :] == (DIR, "enter.sh", rank, *words)


@pytest.mark.parametrize(
    ("typed", "job", "words"),
    [
        ("train -- ps", "13", ["ps"]),
        ("train --rank 1 -- ps -t", "13", ["ps", "-t"]),
        ("--rank 1 train -- ps", "13", ["ps"]),
        ("train --node n2 -- ps", "13", ["ps"]),
        ("train --node=n2 ps -- x", "13", ["ps", "--", "x"]),
        ("--node n1 train ps", "13", ["ps"]),
        ("train", "13", []),
        ("ls --rank 1 -- ls", "14", ["ls"]),
        ("ls -l", "", ["ls", "-l"]),
        ("old --all -l", "", ["old", "--all", "-l"]),
        ("ls", "", ["ls"]),
    ],
)
def test_a_name_is_as_good_as_an_id(
    mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path, typed: str, job: str, words: list[str]
) -> None:
    """The name of a program may be that of its job, too. So it counts alone only where a person has given it."""
    for number, title in (("13", "train"), ("14", "ls")):
        if not job or number == job:
            folder = running(jobs, f"{number}-abcdef")
            record = next(launches.read(folder))
            named = replace(record, title=title, command=("/bin/ls", "-R") if title == "ls" else ("python", "x.py"))
            (folder / launches.LAUNCH).write_text(versioned.text(named))
    if job:
        running(jobs, "15-abcdef")
        assert mnrun("exec", *typed.split()).code == 0
        assert became[0][2] == f"--jobid={job}"
        assert list(became[0][became[0].index("enter.sh") + 2 :]) == words
    else:
        done = mnrun("exec", *typed.split())
        assert done.code == 2, done
        assert "13-abcdef, 14-abcdef" in done.err


@pytest.mark.parametrize("typed", ["hang --rank 1 -- ps", "hnag --rank 1 -- ps", "hang -- ps", "hang --all -- ps"])
def test_the_name_of_a_job_that_has_ended_is_no_command(
    mnrun: Terminal,
    became: list[tuple[str, ...]],
    jobs: Path,
    typed: str,
    mocker: MockerFixture,
    complaint: Complaint,
) -> None:
    mocker.patch.object(user, "queue", return_value=Slurm())
    path = made(jobs, "7", 3, time=time.time())
    (path / "submitted").write_text(json.dumps({"id": "7", "name": "hang", "time": time.time()}))
    running(jobs)
    complaint(mnrun("exec", *typed.split()))
    assert became == []


def test_copies_go_to_a_job_by_its_name(
    mnrun: Terminal,
    mocker: MockerFixture,
    jobs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    complaint: Complaint,
) -> None:
    monkeypatch.chdir(tmp_path)
    mocker.patch.object(user, "queue", return_value=Slurm())
    became: list[tuple[str, ...]] = []
    mocker.patch.object(copying, "fetch", lambda enter, *places: became.append(enter(words=("ps",)).command.argv))
    folder = running(jobs, "13-abcdef")
    record = replace(next(launches.read(folder)), title="train")
    (folder / launches.LAUNCH).write_text(versioned.text(record))
    running(jobs, "15-abcdef")
    for words in (("train:/tmp/x", "."), ("train:n2:/tmp/x", "y:z"), ("13:/tmp/x", ".")):
        mnrun("cp", *words)
    assert [command[2] for command in became] == ["--jobid=13"] * 3
    assert [command[command.index("--ntasks=1") + 2] for command in became[:2]] == ["--nodelist=n1", "--nodelist=n2"]
    for words in (("lost:/tmp/x", "."), ("train:x", "13:y"), ("a", "b")):
        complaint(mnrun("cp", *words))
    (tmp_path / "train:x").touch()
    complaint(mnrun("cp", "train:x", "y"))


def test_why_of_the_last_live_run(mnrun: Terminal, jobs: Path, tmp_path: Path, mocker: MockerFixture) -> None:
    """A launch that was killed hard has left a record that it runs, and its scheduler knows better."""
    mocker.patch.object(user, "queue", return_value=Slurm())
    mocker.patch.object(slurm, "runs", return_value=False)
    path = made(jobs, "7", 3, time=time.time() - 60)
    (path / "submitted").write_text(json.dumps({"id": "7", "name": "old", "time": time.time() - 60}))
    start = made(jobs, "6", None) / "0"
    record = LaunchRecord("6-abcdef", "slurm", "6", "/tmp/mnrun.6-abcdef", ("n7",))
    (start / launches.LAUNCH).write_text(versioned.text(record))
    assert json.loads(mnrun("why", "--json").out)["job"] == "7"
    archive.note_end(tmp_path, "12", Ended(time.time(), 9, "rank 1 on n1 exited with 9", "program"))
    for words in (("why", "--json"), ("why", "--json", "12")):
        told = checked("why", mnrun(*words).out)
        assert (told["job"], told["code"], told["why"]) == ("12", 9, "rank 1 on n1 exited with 9")
    assert mnrun("why").code == 0
    made(jobs, "13", 0, time=time.time() + 1)
    (jobs / "13" / "submitted").write_text(json.dumps({"id": "13", "time": time.time() + 1}))
    assert json.loads(mnrun("why", "--json").out)["job"] == "13"


def test_a_node_with_gpus_shows_the_jobs_own(mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path) -> None:
    running(jobs)
    assert mnrun("exec", "--rank", "3", "--", "nvidia-smi").code == 0
    assert became[0][: len(srun("n2", "--gres=gpu:4"))] == srun("n2", "--gres=gpu:4")


def test_a_submitted_job_is_entered_by_its_id(
    mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path, mocker: MockerFixture
) -> None:
    mocker.patch.object(user, "queue", return_value=Slurm())
    start = made(jobs, "40_2", None) / "0"
    record = LaunchRecord("42-abcdef", "slurm", "42", "/tmp/mnrun.42-abcdef", ("n7",))
    (start / launches.LAUNCH).write_text(versioned.text(record))
    (jobs / "40" / "submitted").parent.mkdir()
    (jobs / "40" / "submitted").write_text(json.dumps({"id": "40", "name": "train", "tasks": 3, "time": time.time()}))
    for words in (("40_2", "ps"), ("--node", "n7", "train", "ps"), ("train_2", "--", "ps")):
        assert mnrun("exec", *words).code == 0
    assert [command[: len(srun("n7", job="42"))] for command in became] == [srun("n7", job="42")] * 3


def test_a_host_is_reached_by_ssh(
    mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path, mocker: MockerFixture
) -> None:
    mocker.patch("mnrun.schedulers.hosts.ssh.target")
    mocker.patch("mnrun.schedulers.hosts.ssh.is_here", return_value=False)
    assert hosts.lost(["ws1"], {}) == {}
    running(jobs, "hosts-abcdef", "hosts", ("ws1", "ws2"))
    assert mnrun("exec", "--rank", "2", "--", "ps").code == 0
    assert became[0][:2] == ("ssh", "-T")
    assert became[0][-3:-1] == ("--", "ws2")


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("13 ps", 123),
        ("6 ps", 2),
        ("7 ps", 2),
        ("--rank 9 ps", 2),
        ("--node n9 ps", 2),
        ("--node n1 --rank 0 ps", 2),
        ("-t ps", 2),
    ],
)
def test_a_wrong_target_is_refused_in_a_line(
    mnrun: Terminal, jobs: Path, typed: str, code: int, complaint: Complaint
) -> None:
    running(jobs)
    made(jobs, "6")
    made(jobs, "7", 3)
    complaint(mnrun("exec", *typed.split()), code)


def test_several_jobs_are_named(mnrun: Terminal, jobs: Path, complaint: Complaint) -> None:
    running(jobs)
    running(jobs, "12-ghijkm")
    (running(jobs, "14-abcdef") / launches.OWNER).write_text(launches.mark(4194305))
    complaint(mnrun("exec", "ps"))
    complaint(mnrun("exec", "12", "ps"))


def test_a_local_run_of_another_machine(
    mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path, complaint: Complaint
) -> None:
    """Machines may share a home. The run cannot be entered from here, and counts only where it is named."""
    (running(jobs, "local-abcdef", "local", ("ws1",)) / launches.OWNER).write_text("ws1 1 1\n")
    for verb in (["exec"], ["why"]):
        complaint(mnrun(*verb, "local-abcdef"))
    complaint(mnrun("exec", "--", "ps"))
    running(jobs)
    assert mnrun("exec", "--", "ps").code == 0
    assert len(became) == 1


def test_a_job_that_slurm_has_ended_is_not_entered(
    mnrun: Terminal, jobs: Path, mocker: MockerFixture, complaint: Complaint
) -> None:
    mocker.patch.object(slurm, "runs", return_value=False)
    running(jobs)
    complaint(mnrun("exec", "ps"))


def test_clean_removes_the_records_of_killed_runs(mnrun: Terminal, jobs: Path, mocker: MockerFixture) -> None:
    """Of those that are over, and of those whose pods it has just removed, which the scheduler may know for a while."""
    for job in ("12-abcdef", "13-abcdef"):
        (running(jobs, job) / launches.OWNER).write_text(launches.mark(4194305))
    mocker.patch.object(slurm, "sweep", return_value=["13"])
    mnrun("clean")
    assert [path.name for path in jobs.iterdir()] == ["12-abcdef"]
    mocker.patch.object(slurm, "runs", return_value=False)
    mnrun("clean")
    assert [path.name for path in jobs.iterdir()] == []


def test_a_node_that_is_down_is_named(mnrun: Terminal, jobs: Path, mocker: MockerFixture, complaint: Complaint) -> None:
    mocker.patch.object(slurm, "lost", return_value={"n1": Unwell("Slurm says down*")})
    running(jobs)
    complaint(mnrun("exec", "ps"), 121)


ANSWER = "\n".join(
    [
        "rank\tn1\t0\t77\tS\t0\tfutex_wait_queue\t202\tpython train.py ",
        *("rank\tn2\t1\t78\tR\t99\t0\t-\tpython train.py ", "gone\tn2\t2", "stack\tn1\t0\t77\tThread 77 (idle)"),
        *("stack\tn1\t0\t77\t    wait (train.py:12)", "stack\tn2\t1\t78\tThread 78 (idle)"),
        *("stack\tn2\t1\t78\t    wait (train.py:12)", "half a li"),
    ]
)


@pytest.fixture
def answer(mocker: MockerFixture) -> None:
    mocker.patch.object(commands, "run", return_value=mocker.Mock(stdout=ANSWER, stderr="", returncode=0))


def test_why_shows_each_rank_and_equal_stacks_once(mnrun: Terminal, jobs: Path, answer: None, says: Says) -> None:
    (running(jobs) / "fabric").write_text("NCCL_SOCKET_IFNAME=eth0: on all nodes\n")
    done = mnrun("why", "12")
    assert (done.code, done.err) == (0, "")
    says(done.out)


def test_why_does_not_call_the_ranks_of_a_silent_node_ended(mnrun: Terminal, jobs: Path, mocker: MockerFixture) -> None:
    lines = "".join(line + "\n" for line in ANSWER.splitlines() if "\tn1\t" in line)
    done = mocker.Mock(stdout=lines, stderr="ssh: connect to host n2 port 22: No route to host\n", returncode=255)
    mocker.patch.object(commands, "run", return_value=done)
    running(jobs)
    answer = mnrun("why", "12")
    assert answer.err == "mnrun: warning: ssh: connect to host n2 port 22: No route to host\n"
    assert answer.out.splitlines()[1:6] == [
        "RANK  NODE  PID  STATE      CPU  WAITS IN          PROGRAM",
        "0     n1    77   sleeps     0 %  futex_wait_queue  python train.py",
        "1     n1         ended",
        "2     n2         no answer",
        "3     n2         no answer",
    ]
    found = checked("why", mnrun("why", "--json", "12").out)
    assert [rank["silent"] for rank in found["ranks"]] == [False, False, True, True]


def test_why_without_a_debugger_says_how_to_have_one(
    mnrun: Terminal, jobs: Path, mocker: MockerFixture, says: Says
) -> None:
    lines = "".join(line + "\n" for line in ANSWER.splitlines() if not line.startswith("stack"))
    mocker.patch.object(commands, "run", return_value=mocker.Mock(stdout=lines, stderr="", returncode=0))
    running(jobs)
    says(mnrun("why", "12").out)


def test_why_for_programs(mnrun: Terminal, jobs: Path, answer: None) -> None:
    running(jobs)
    found = checked("why", mnrun("why", "--json").out)
    assert (found["version"], found["job"], found["state"]) == (1, "12-abcdef", "RUNNING")
    assert [(rank["rank"], rank["state"], rank["cpu"]) for rank in found["ranks"]] == [
        *((0, "S", 0), (1, "R", 99)),
        *((2, "", 0), (3, "", 0)),
    ]
    assert found["ranks"][0]["stack"] == ["Thread 77 (idle)", "    wait (train.py:12)"]


def test_why_of_an_ended_job_names_the_rank_that_failed_first(
    mnrun: Terminal, jobs: Path, tmp_path: Path, says: Says
) -> None:
    folder = made(jobs, "7", 3)
    (folder / "0" / "log").write_text("ended n1 1 0\nended n2 5 143 told\nended n2 3 9\nended n1 0 1\n")
    box = f"{'-' * 74}\nmpirun noticed that process rank 3 with PID 8 on node n2 exited on signal 9.\n{'-' * 74}\n"
    (tmp_path / "out").write_text("".join(f"line {number}\n" for number in range(14)) + box)
    begun = {"time": 5.0, "nodes": "n[1-2]", "output": str(tmp_path / "out"), "error": str(tmp_path / "out")}
    (folder / "0" / "begun").write_text(json.dumps(begun))
    says(mnrun("why", "7").out)
    found = checked("why", mnrun("why", "--json", "7").out)
    assert (found["code"], found["first"]) == (3, {"rank": 3, "node": "n2", "code": 9})


@pytest.mark.parametrize(("runtime", "place"), [("apptainer", "in the container"), ("host", "on the node")])
def test_why_of_a_program_that_lacks_a_module(
    mnrun: Terminal, jobs: Path, tmp_path: Path, runtime: str, place: str
) -> None:
    start = made(jobs, "7", 1) / "0"
    record = LaunchRecord("7-abcdef", "slurm", "7", "/tmp/mnrun.7-abcdef", ("n1",), runtime=runtime)
    (start / launches.LAUNCH).write_text(versioned.text(record))
    out = tmp_path / "out"
    out.write_text("ModuleNotFoundError: No module named 'pandas'\n")
    begun = {"time": 5.0, "nodes": "n1", "output": str(out), "error": str(out)}
    (start / "begun").write_text(json.dumps(begun))
    assert f"cause: Python {place} has no module pandas; install it " in mnrun("why", "7").out
    assert checked("why", mnrun("why", "--json", "7").out)["reason"] == "python-module"


def test_why_asks_the_scheduler_of_the_jobs_name(mnrun: Terminal, jobs: Path, mocker: MockerFixture) -> None:
    """Where jobs have numbers by default."""
    made(jobs, "app-8k2xd")
    mocker.patch.object(kubernetes, "logs", return_value=())
    pods = mocker.patch.object(kubernetes, "user_queue", return_value=Slurm())
    pods.return_value.known = (Job("app-8k2xd", "app", JobState.COMPLETED),)
    assert mnrun("why", "app-8k2xd").code == 0
    pods.assert_called()


def test_why_names_the_rank_by_the_words_of_mpirun(mnrun: Terminal, jobs: Path, tmp_path: Path) -> None:
    folder = made(jobs, "7", 3)
    (folder / "0" / "log").write_text("rank n1 0 4\nrank n2 1 4\n")
    out = tmp_path / "out"
    out.write_text("  Process name: [[4242,1],1]\n  Exit code:    3\n")
    begun = {"time": 5.0, "nodes": "n[1-2]", "output": str(out), "error": str(out)}
    (folder / "0" / "begun").write_text(json.dumps(begun))
    assert checked("why", mnrun("why", "--json", "7").out)["first"] == {"rank": 1, "node": "n2", "code": 3}


def test_clean_removes_the_records_that_a_run_has_kept(mnrun: Terminal, jobs: Path) -> None:
    runs, folder = running(jobs), running(jobs, "13-abcdef")
    (folder / launches.OWNER).unlink()
    assert mnrun("clean", "--older", "0d").out == "" and folder.exists()
    assert str(folder) in mnrun("clean", "--kept", "--dry-run").out and folder.exists()
    assert str(folder) in mnrun("clean", "--kept").out
    assert runs.exists() and not folder.exists()


def test_why_of_a_live_run_that_was_kept(mnrun: Terminal, jobs: Path, says: Says) -> None:
    folder = running(jobs)
    (folder / launches.OWNER).unlink()
    (folder / "summary").write_text("4 ranks on n[1-2] x 2\n")
    says(mnrun("why", "12").out)
    (folder / "outcome").write_text(json.dumps({"time": 5.0, "code": 3, "why": "n2 was lost", "reason": "node"}))
    for name in ("12", "12-abcdef"):
        says(mnrun("why", name).out)
    found = checked("why", mnrun("why", "--json", "12").out)
    assert (found["code"], found["reason"]) == (3, "node")


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("verb", ["why", "logs", "report"])
def test_a_job_without_records(
    mnrun: Terminal, mocker: MockerFixture, verb: str, script: bool, complaint: Complaint
) -> None:
    """A live run, or a script with a plain line of mnrun: Slurm knows where its output is, for some minutes."""
    mocker.patch.object(slurm, "trace", return_value=Trace(script, ""))
    complaint(mnrun(verb, "13"))


def test_why_of_a_job_that_waits_says_so(mnrun: Terminal, jobs: Path, mocker: MockerFixture, says: Says) -> None:
    queue = Slurm()
    queue.known = (Job("6", "x", JobState.PENDING, "other jobs are before it in the queue"),)
    mocker.patch.object(user, "queue", return_value=queue)
    made(jobs, "6")
    says(mnrun("why", "6").out)


def test_why_of_an_array_that_waits(
    mnrun: Terminal, jobs: Path, mocker: MockerFixture, complaint: Complaint, says: Says
) -> None:
    """Slurm lists the tasks that run their setup lines by themselves, and the others together."""
    queue = Slurm()
    queue.known = (
        Job("6_0", "x", JobState.RUNNING),
        Job("6_[1-3]", "x", JobState.PENDING, "other jobs are before it in the queue"),
    )
    mocker.patch.object(user, "queue", return_value=queue)
    mocker.patch.object(slurm, "trace", return_value=Trace(True, ""))
    made(jobs, "6")
    complaint(mnrun("why", "6"))
    says(mnrun("why", "6_0").out)
    says(mnrun("why", "6_2").out)


def test_why_needs_an_id(mnrun: Terminal, mocker: MockerFixture, complaint: Complaint) -> None:
    mocker.patch("mnrun.attach.user.queue", side_effect=SchedulerError("no answer"))
    complaint(mnrun("why", "x"))
