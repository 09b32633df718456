"""`mnrun exec` and `mnrun why` as they are typed: the command that enters the job, and each refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun import versioned
from mnrun.cli.work import why
from mnrun.jobs import launches
from mnrun.jobs.launches import LaunchRecord
from mnrun.model import Command
from mnrun.schedulers import hosts, slurm
from mnrun.schedulers.model import Trace
from mnrun.schedulers.queue import Job
from mnrun.system import client, commands
from published import checked
from unit.cli.test_jobs import Slurm
from unit.jobs.test_archive import made
from unit.typed import Terminal

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
    mocker.patch.object(slurm, "why_down", return_value={})
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
    """The id and the options may come in any order. Every word after them is the command's."""
    running(jobs)
    assert mnrun("exec", *typed).code == 0
    (command,) = became
    assert command[: len(srun(node))] == srun(node)
    inner = command[len(srun(node)) :]
    assert inner[:2] == ("env", "MNRUN_JOB_ID=12-abcdef")
    assert inner[-len(words) - 3 :] == (DIR, "enter.sh", rank, *words)


def test_a_node_with_gpus_shows_the_jobs_own(mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path) -> None:
    running(jobs)
    assert mnrun("exec", "--rank", "3", "--", "nvidia-smi").code == 0
    assert became[0][: len(srun("n2", "--gres=gpu:4"))] == srun("n2", "--gres=gpu:4")


def test_a_submitted_job_is_entered_by_its_id(mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path) -> None:
    """A task of an array has a number of its own at Slurm's, which its record holds."""
    start = made(jobs, "40_2", None) / "0"
    record = LaunchRecord("42-abcdef", "slurm", "42", "/tmp/mnrun.42-abcdef", ("n7",))
    (start / launches.LAUNCH).write_text(versioned.text(record))
    assert mnrun("exec", "40_2", "ps").code == 0
    assert became[0][: len(srun("n7", job="42"))] == srun("n7", job="42")


def test_a_host_is_reached_by_ssh(
    mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path, mocker: MockerFixture
) -> None:
    mocker.patch("mnrun.schedulers.hosts.remote.place")
    mocker.patch("mnrun.schedulers.hosts.remote.is_here", return_value=False)
    assert hosts.why_down(["ws1"]) == {}
    running(jobs, "hosts-abcdef", "hosts", ("ws1", "ws2"))
    assert mnrun("exec", "--rank", "2", "--", "ps").code == 0
    assert became[0][:2] == ("ssh", "-T")
    assert became[0][-3:-1] == ("--", "ws2")


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["13", "ps"], "no job 13 of yours: neither Slurm nor {jobs} knows it; "),
        (["6", "ps"], "job 6 has not begun; see mnrun status 6"),
        (["7", "ps"], "job 7 has ended, with code 3; see mnrun why 7"),
        (["--rank", "9", "ps"], "job 12-abcdef has no rank 9; its ranks are 0-3"),
        (["--node", "n9", "ps"], "job 12-abcdef has no node n9; its nodes are n[1-2]"),
        (["--node", "n1", "--rank", "0", "ps"], "--rank and --node together; choose one"),
        (["-t", "ps"], "-t needs a terminal, and standard input is none; leave out -t"),
    ],
)
def test_a_wrong_target_is_refused_in_a_line(mnrun: Terminal, jobs: Path, typed: list[str], line: str) -> None:
    running(jobs)
    made(jobs, "6")
    made(jobs, "7", 3)
    done = mnrun("exec", *typed)
    assert done.code == (123 if line.startswith("no job") else 2)
    assert done.err.startswith(f"mnrun: {line.format(jobs=jobs)}"), done.err
    assert done.err.count("\n") == 1


def test_several_jobs_are_named(mnrun: Terminal, jobs: Path) -> None:
    """So are several launches in one job. A launch whose mnrun is dead does not count."""
    running(jobs)
    running(jobs, "12-ghijkm")
    (running(jobs, "14-abcdef") / launches.OWNER).write_text(launches.mark(4194305))
    assert mnrun("exec", "ps").err == "mnrun: 2 jobs of yours run; name one of 12-abcdef, 12-ghijkm\n"
    assert mnrun("exec", "12", "ps").err == "mnrun: job 12 has 2 launches; name one of 12-abcdef, 12-ghijkm\n"


def test_a_local_run_of_another_machine(mnrun: Terminal, became: list[tuple[str, ...]], jobs: Path) -> None:
    """Machines may share a home. The run cannot be entered from here, and counts only where it is named."""
    (running(jobs, "local-abcdef", "local", ("ws1",)) / launches.OWNER).write_text("ws1 1 1\n")
    for verb in (["exec"], ["why"]):
        done = mnrun(*verb, "local-abcdef")
        assert (done.code, done.out) == (2, "")
        assert done.err == "mnrun: job local-abcdef runs on ws1 without a scheduler; enter it there\n"
    assert mnrun("exec", "--", "ps").err.startswith("mnrun: no job of yours runs now")
    running(jobs)
    assert mnrun("exec", "--", "ps").code == 0
    assert len(became) == 1


def test_a_job_that_slurm_has_ended_is_not_entered(mnrun: Terminal, jobs: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(slurm, "runs", return_value=False)
    running(jobs)
    done = mnrun("exec", "ps")
    assert (done.code, done.err.split(";")[0]) == (2, f"mnrun: no job of yours runs now, by the records in {jobs}")


def test_a_node_that_is_down_is_named(mnrun: Terminal, jobs: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(slurm, "why_down", return_value={"n1": "down*"})
    running(jobs)
    done = mnrun("exec", "ps")
    assert (done.code, done.err) == (
        121,
        "mnrun: no command can start on n1: down*; choose another with --node\n",
    )


ANSWER = "\n".join(
    [
        "rank\tn1\t0\t77\tS\t0\tfutex_wait_queue\t202\tpython train.py ",
        "rank\tn2\t1\t78\tR\t99\t0\t-\tpython train.py ",
        "gone\tn2\t2",
        "stack\tn1\t0\t77\tThread 77 (idle)",
        "stack\tn1\t0\t77\t    wait (train.py:12)",
        "stack\tn2\t1\t78\tThread 78 (idle)",
        "stack\tn2\t1\t78\t    wait (train.py:12)",
        "half a li",
    ]
)


@pytest.fixture
def answer(mocker: MockerFixture) -> None:
    mocker.patch.object(commands, "run", return_value=mocker.Mock(stdout=ANSWER, stderr="", returncode=0))


def test_why_shows_each_rank_and_equal_stacks_once(mnrun: Terminal, jobs: Path, answer: None) -> None:
    """A rank that its node did not report has ended, too."""
    (running(jobs) / "fabric").write_text("NCCL_SOCKET_IFNAME=eth0: on all nodes\n")
    done = mnrun("why", "12")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "job 12-abcdef runs on 2 nodes; CPU is of one second",
        "RANK  NODE  PID  STATE   CPU   WAITS IN          PROGRAM",
        "0     n1    77   sleeps  0 %   futex_wait_queue  python train.py",
        "1     n2    78   runs    99 %                    python train.py",
        "2     n2         ended",
        "3     n2         ended",
        "",
        "stack of ranks 0, 1:",
        "  Thread 77 (idle)",
        "      wait (train.py:12)",
        "network: NCCL_SOCKET_IFNAME=eth0: on all nodes",
    ]


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


def test_why_without_a_debugger_says_how_to_have_one(mnrun: Terminal, jobs: Path, mocker: MockerFixture) -> None:
    """py-spy of the home directory can be used at once."""
    lines = "".join(line + "\n" for line in ANSWER.splitlines() if not line.startswith("stack"))
    mocker.patch.object(commands, "run", return_value=mocker.Mock(stdout=lines, stderr="", returncode=0))
    running(jobs)
    *_, missing, install, remedy = mnrun("why", "12").out.splitlines()
    assert missing.startswith("no stacks: neither the image nor a node has py-spy or gdb")
    assert install.endswith("python3 -m venv ~/spy && ~/spy/bin/pip install py-spy")
    assert remedy.endswith(": mnrun exec 12-abcdef --rank 0 -- sh -c '~/spy/bin/py-spy dump --pid $MNRUN_RANK_PID'")


def test_why_for_programs(mnrun: Terminal, jobs: Path, answer: None) -> None:
    running(jobs)
    found = checked("why", mnrun("why", "--json").out)
    assert (found["version"], found["job"], found["state"]) == (1, "12-abcdef", "RUNNING")
    assert [(rank["rank"], rank["state"], rank["cpu"]) for rank in found["ranks"]] == [
        *((0, "S", 0), (1, "R", 99)),
        *((2, "", 0), (3, "", 0)),
    ]
    assert found["ranks"][0]["stack"] == ["Thread 77 (idle)", "    wait (train.py:12)"]


def test_why_of_an_ended_job_names_the_rank_that_failed_first(mnrun: Terminal, jobs: Path, tmp_path: Path) -> None:
    """Ranks that were told to end, and those that ended well, are not the cause."""
    folder = made(jobs, "7", 3)
    (folder / "0" / "log").write_text("ended n1 1 0\nended n2 5 143 told\nended n2 3 9\nended n1 0 1\n")
    box = f"{'-' * 74}\nmpirun noticed that process rank 3 with PID 8 on node n2 exited on signal 9.\n{'-' * 74}\n"
    (tmp_path / "out").write_text("".join(f"line {number}\n" for number in range(14)) + box)
    begun = {"time": 5.0, "nodes": "n[1-2]", "output": str(tmp_path / "out"), "error": str(tmp_path / "out")}
    (folder / "0" / "begun").write_text(json.dumps(begun))
    done = mnrun("why", "7")
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            "job 7: failed, with code 3",
            "rank 3 on n2 failed first, with code 9",
            "last lines of its output:",
            *(f"  line {number}" for number in range(4, 14)),
        ],
    )
    found = checked("why", mnrun("why", "--json", "7").out)
    assert (found["code"], found["first"]) == (3, {"rank": 3, "node": "n2", "code": 9})


@pytest.mark.parametrize(("runtime", "place"), [("apptainer", "in the container"), ("host", "on the node")])
def test_why_of_a_program_that_lacks_a_module(
    mnrun: Terminal, jobs: Path, tmp_path: Path, runtime: str, place: str
) -> None:
    """The place where it is missing depends on the runtime."""
    start = made(jobs, "7", 1) / "0"
    record = LaunchRecord("7-abcdef", "slurm", "7", "/tmp/mnrun.7-abcdef", ("n1",), runtime=runtime)
    (start / launches.LAUNCH).write_text(versioned.text(record))
    out = tmp_path / "out"
    out.write_text("ModuleNotFoundError: No module named 'pandas'\n")
    begun = {"time": 5.0, "nodes": "n1", "output": str(out), "error": str(out)}
    (start / "begun").write_text(json.dumps(begun))
    assert f"cause: Python {place} has no module pandas; install it " in mnrun("why", "7").out


def test_why_names_the_rank_by_the_words_of_mpirun(mnrun: Terminal, jobs: Path, tmp_path: Path) -> None:
    """A rank of mpirun does not report its own end."""
    folder = made(jobs, "7", 3)
    (folder / "0" / "log").write_text("rank n1 0 4\nrank n2 1 4\n")
    out = tmp_path / "out"
    out.write_text("  Process name: [[4242,1],1]\n  Exit code:    3\n")
    begun = {"time": 5.0, "nodes": "n[1-2]", "output": str(out), "error": str(out)}
    (folder / "0" / "begun").write_text(json.dumps(begun))
    assert "rank 1 on n2 failed first, with code 3" in mnrun("why", "7").out.splitlines()


def test_why_of_a_live_run_that_was_kept(mnrun: Terminal, jobs: Path) -> None:
    """By its job's number and by its name: its end, if it has recorded one."""
    folder = running(jobs)
    (folder / launches.OWNER).unlink()
    (folder / "summary").write_text("4 ranks on n[1-2] x 2\n")
    assert mnrun("why", "12").out.splitlines()[0] == "job 12-abcdef: unknown: it left no record of its end"
    (folder / "outcome").write_text(json.dumps({"time": 5.0, "code": 3, "why": "rank 1 on n1 exited with 3"}))
    for name in ("12", "12-abcdef"):
        assert mnrun("why", name).out.splitlines() == [
            "job 12-abcdef: failed, with code 3: rank 1 on n1 exited with 3",
            "4 ranks on n[1-2] x 2",
        ]
    assert checked("why", mnrun("why", "--json", "12").out)["code"] == 3


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (Trace(False, ""), "leave records; its messages went to its terminal"),
        (Trace(True, ""), "mnrun runs nothing in job 13 now; see mnrun status 13"),
    ],
)
@pytest.mark.parametrize("verb", ["why", "logs", "report"])
def test_a_job_without_records(
    mnrun: Terminal, mocker: MockerFixture, verb: str, trace: Trace | None, said: str
) -> None:
    """A live run, or a script with a plain line of mnrun: Slurm knows where its output is, for some minutes."""
    mocker.patch.object(slurm, "trace", return_value=trace)
    answer = mnrun(verb, "13")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.rstrip("\n").endswith(said), answer.err


def test_why_of_a_job_that_waits_says_so(mnrun: Terminal, jobs: Path, mocker: MockerFixture) -> None:
    queue = Slurm()
    queue.known = (Job("6", "x", "PENDING", "other jobs are before it in the queue"),)
    mocker.patch.object(why, "user_queue", return_value=queue)
    made(jobs, "6")
    assert mnrun("why", "6").out == "job 6: pending: other jobs are before it in the queue\n"


def test_why_of_an_array_that_waits(mnrun: Terminal, jobs: Path, mocker: MockerFixture) -> None:
    """Slurm lists the tasks that run their setup lines by themselves, and the others together."""
    queue = Slurm()
    queue.known = (Job("6_0", "x", "RUNNING"), Job("6_[1-3]", "x", "PENDING", "other jobs are before it in the queue"))
    mocker.patch.object(why, "user_queue", return_value=queue)
    mocker.patch.object(slurm, "trace", return_value=Trace(True, ""))
    made(jobs, "6")
    answer = mnrun("why", "6")
    assert (answer.code, answer.err) == (2, "mnrun: job 6 is an array; name one of its tasks: 6_0, 6_[1-3]\n")
    assert mnrun("why", "6_0").out == "job 6_0: running\n"
    assert mnrun("why", "6_2").out == "job 6_[1-3]: pending: other jobs are before it in the queue\n"


def test_why_needs_an_id(mnrun: Terminal) -> None:
    done = mnrun("why", "x")
    assert (done.code, done.err.split(";")[0]) == (2, "mnrun: 'x' is not the ID of a job")
