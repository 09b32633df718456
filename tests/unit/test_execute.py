"""Carrying out a plan: the state machine of execute.py, against guards that are only played.

`start` is a fake: no process, no Slurm, no container. What is said by guards, srun and a
person's Ctrl-C is a script of events, given as the lease is written to. So these tests say
what the launcher does with each word, quickly and for words that are hard to provoke; whether
the real parts say them is for the live tests, and those are the ones that count.
"""

from __future__ import annotations

import base64
import queue
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from launcher import execute, kit, transports
from launcher.errors import DeadlineError, JobEnded, LaunchError, NodeError, RuntimeFailed, SchedulerError
from launcher.job_dir import Records
from launcher.model import Outcome, Plan, Site, Words
from launcher.progress import Screen
from launcher.transports import Event

from .samples import build, held, make
from .test_kit import unpack

SITE = Site("slurm", "7", (24, 11))
READY = ("ready node01 host=node01 address=10.0.0.1 step=3 port=20001", "ready node02 host=n2 address=10.0.0.2 step=3")
RANKS = ("rank node01 0 3", "rank node01 1 3", "rank node02 2 3")
BYE = ("bye node01 ", "bye node02 ")


def say(*lines: str) -> list[Event]:
    """Lines of the guards."""
    return [("line", "serve", line) for line in lines]


def noise(*lines: str) -> list[Event]:
    """srun's own complaints."""
    return [("noise", "serve", line) for line in lines]


def ended(name: str, code: int) -> list[Event]:
    return [("ended", name, code)]


def signalled(*signums: int) -> list[Event]:
    return [("signal", "", signum) for signum in signums]


@dataclass
class Play:
    """What is heard once the kit has arrived, after go, after `log` and `end`, and after the lease's end."""

    kit: list[Event] = field(default_factory=lambda: say(*READY))
    go: list[Event] = field(default_factory=lambda: say(*RANKS) + ended("run", 0))
    log: list[Event] = field(default_factory=list)
    term: list[Event] = field(default_factory=lambda: ended("run", 143))
    close: list[Event] = field(default_factory=lambda: say(*BYE) + ended("serve", 0))


class Lease:
    """The serving step's standard input: takes little at a time, and plays what follows."""

    def __init__(self, play: Play, events: queue.SimpleQueue[Event]) -> None:
        self._play, self._events = play, events
        self._answers = {b"go": play.go, b"log": play.log, b"end": play.term}
        self._pending = b""
        self.kit = b""
        self.lines: list[bytes] = []
        self.closed = False

    def write(self, data: memoryview) -> int:
        assert not self.closed
        part = bytes(data[:1000])
        self._pending += part
        self._understand()
        return len(part)

    def _understand(self) -> None:
        if not self.kit:
            size, newline, rest = self._pending.partition(b"\n")
            if not newline or len(rest) < int(size):
                return
            self.kit, self._pending = self._pending, b""
            self._hear(self._play.kit)
        while b"\n" in self._pending:
            line, _, self._pending = self._pending.partition(b"\n")
            self.lines.append(line)
            self._hear(self._answers.get(line, []))

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            self._events.put(event)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._hear(self._play.close)

    def is_closed(self, seconds: float = 10) -> bool:
        """At once or soon: what was sent before goes first."""
        deadline = time.monotonic() + seconds
        while not self.closed and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.closed


class Process:
    """As much of a Popen as a launch looks at."""

    def __init__(self, stdin: Lease | None) -> None:
        self.stdin = stdin
        self.waited = False

    def wait(self, timeout: float) -> int:
        assert self.stdin is not None
        self.waited = self.stdin.is_closed(timeout)
        return 0


class Played(transports.Running):
    """The real one but for its end, which reaches no process."""

    def __init__(self, stage: Stage, name: str, stdin: Lease | None) -> None:
        self.played = Process(stdin)
        super().__init__(name, self.played)  # type: ignore[arg-type]
        self.stage = stage
        self.signals: list[int] = []

    def end(self, signum: int) -> None:
        self.signals.append(signum)
        if self.name == "run":
            self.stage.events.put(("ended", "run", 128 + signum))


class Stage:
    """In transports.start's place: keeps who was started with which words."""

    def __init__(self) -> None:
        self.play = Play()
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.started: dict[str, Played] = {}
        self.argv: dict[str, Words] = {}
        self.environ: dict[str, str] = {}
        self.order: list[str] = []
        self.absent = ""

    def start(
        self,
        name: str,
        argv: Words,
        environ: dict[str, str],
        events: queue.SimpleQueue[Event],
        held: bool,
        terminal: bool = False,
        apart: bool = False,
    ) -> Played:
        if name == self.absent:
            raise FileNotFoundError(argv[0])
        assert held == (name != "run"), "the program has the user's own input and output"
        self.events, self.environ = events, environ
        lease = Lease(self.play if name == "serve" else Play(close=[]), events) if held else None
        self.started[name], self.argv[name] = Played(self, name, lease), argv
        self.order.append(name)
        return self.started[name]

    @property
    def lease(self) -> Lease:
        lease = self.started["serve"].played.stdin
        assert lease is not None
        return lease


@dataclass
class Slurm:
    """What the real one would answer."""

    thoughts: dict[str, str] = field(default_factory=dict)
    ending: str = ""
    ended_steps: list[str] = field(default_factory=list)
    runs: bool = True


@pytest.fixture
def slurm(mocker: MockerFixture) -> Slurm:
    answers = Slurm()
    mocker.patch("launcher.cluster.why_down", side_effect=lambda names: answers.thoughts)
    mocker.patch("launcher.cluster.ending", side_effect=lambda job: answers.ending)
    mocker.patch("launcher.cluster.runs", side_effect=lambda job: answers.runs)
    mocker.patch("launcher.cluster.end", side_effect=answers.ended_steps.append)
    return answers


@pytest.fixture
def stage(mocker: MockerFixture, slurm: Slurm) -> Iterator[Stage]:
    """Every launch of the test ends with its lease closed, whatever became of it."""
    stage = Stage()
    mocker.patch.object(execute, "start", stage.start)
    mocker.patch.object(execute, "GRACE", 0.05)
    mocker.patch.object(execute, "FAREWELL", 0.05)
    mocker.patch.object(execute, "ANSWER", 0.05)
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    yield stage
    if "serve" in stage.started:
        assert stage.lease.is_closed(), "the lease was left open: everything of the job would live on"
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.fixture
def launch(stage: Stage, tmp_path: Path) -> Launcher:
    return Launcher(stage, tmp_path)


class Launcher:
    """Carries out a job of two nodes with two ranks and one, as `mnrun` would."""

    def __init__(self, stage: Stage, path: Path) -> None:
        self._stage = stage
        self.path = path

    def __call__(self, play: Play, environ: Mapping[str, str] = {}, **given: Any) -> Outcome:
        self._stage.play = play
        return self.carry_out(make(build("./app", **given), 2, 1), environ)

    def carry_out(self, plan: Plan, environ: Mapping[str, str] = {}, cpus: int = 8) -> Outcome:
        nodes = held("node01", "node02", cpus=cpus)
        return execute.execute(plan, nodes, SITE, environ, Records(self.path), Screen())


FOUND = {"node01": 2, "node02": 1}

# what is played -> the outcome, or the failure with its whole line
ENDS: dict[str, tuple[Play, Outcome | LaunchError]] = {
    "all is well": (Play(), Outcome(0, FOUND)),
    "the program's own code": (Play(go=say(*RANKS) + ended("run", 7)), Outcome(7, FOUND)),
    "a rank that was killed": (Play(go=say(*RANKS) + ended("run", 137)), Outcome(137, FOUND)),
    "a program that fails before its ranks": (Play(go=ended("run", 127)), Outcome(127, {})),
    "ranks that speak late": (
        Play(go=ended("run", 0), close=say(*RANKS, *BYE) + ended("serve", 0)),
        Outcome(0, FOUND),
    ),
    "a node without ranks": (
        Play(go=say("rank node01 0 2", "rank node01 1 2") + ended("run", 0)),
        NodeError(
            "ranks started on node01 x 2, but node01 x 2, node02 x 1 was asked for",
            "mpirun found other hosts or slots: look for settings of the image's own (openmpi-mca-params.conf)",
        ),
    ),
    "no ranks at all": (
        Play(go=ended("run", 0)),
        NodeError(
            "ranks started on no node, but node01 x 2, node02 x 1 was asked for",
            "mpirun found other hosts or slots: look for settings of the image's own (openmpi-mca-params.conf)",
        ),
    ),
    "ranks that took themselves for the only one": (
        Play(close=say("alone node01 1", "alone node02 2", *BYE) + ended("serve", 0)),
        RuntimeFailed(
            "2 of 3 ranks took themselves for rank 0 of 1",
            "the image's MPI does not understand the starter: try --mode inside-out, or another --mpi",
        ),
    ),
    "ranks that miscount": (
        Play(go=say("rank node01 0 1", "rank node01 1 1", "rank node02 2 1") + ended("run", 0)),
        RuntimeFailed("ranks thought that there are 1 of them, not 3"),
    ),
    "a node that cannot take part": (
        Play(kit=say(READY[0], "fail node02 the image /app.sif is not there")),
        NodeError("1 of 2 nodes not ready: node02: the image /app.sif is not there"),
    ),
    "two nodes with one reason": (
        Play(kit=say("fail node01 no apptainer", "fail node02 no apptainer")),
        NodeError("2 of 2 nodes not ready: node[01-02]: no apptainer"),
    ),
    "a container that ends at once": (
        Play(kit=say(READY[0], "log node02 FATAL: no such image", "gone node02 255")),
        NodeError("1 of 2 nodes not ready: node02: its container ended with 255 (FATAL: no such image)"),
    ),
    "one fails, one is silent": (
        Play(kit=say("fail node01 no apptainer")),
        NodeError("2 of 2 nodes not ready: node01: no apptainer; node02: no word from it"),
    ),
    "one fails, one is late": (
        Play(kit=say("fail node01 no apptainer", READY[1])),
        NodeError("1 of 2 nodes not ready: node01: no apptainer"),
    ),
    "a serving step that never begins": (
        Play(kit=noise("srun: error: Unable to create step") + ended("serve", 1), close=[]),
        NodeError("2 of 2 nodes not ready: node[01-02]: no word from it (srun: error: Unable to create step)"),
    ),
    "a program that ends before go": (
        Play(kit=say(READY[0]) + ended("run", 1)),
        NodeError("1 of 2 nodes not ready: node02: no word from it"),
    ),
    "an image that does not suit the starter": (
        Play(go=say("rank node01 0 1", "fail node01 the image has MPICH") + ended("run", 1)),
        RuntimeFailed("node01: the image has MPICH"),
    ),
    "a failure that is told after the end": (
        Play(go=ended("run", 1), close=say("fail node01 sshd ended", *BYE) + ended("serve", 0)),
        RuntimeFailed("node01: sshd ended"),
    ),
    "a container that ends while the program runs": (
        Play(go=say(*RANKS, "log node02 oom", "gone node02 137")),
        NodeError("node02: its container ended with 137 (oom)"),
    ),
    "ranks that srun ended because one failed": (
        Play(go=say(*RANKS, "ended node02 2 9", "ended node01 0 143") + ended("run", 143)),
        Outcome(9, FOUND),
    ),
    "a node that is silent after a failure": (
        Play(go=say(*RANKS) + ended("run", 1), close=say(BYE[0])),
        NodeError("node02: lost while the program ran"),
    ),
    "a serving step that is killed": (
        Play(go=say(*RANKS) + noise("srun: error: slurmd gone") + ended("serve", 137), close=[]),
        NodeError("the serving step ended while the program ran (srun: error: slurmd gone)"),
    ),
    "a serving step that is killed without a word": (
        Play(go=ended("serve", 137), close=[]),
        NodeError("the serving step ended while the program ran (without a word)"),
    ),
    "a program that ends as its serving step is killed": (
        Play(go=say(*RANKS) + ended("run", 143) + ended("serve", 143), close=[]),
        NodeError("the serving step ended while the program ran (without a word)"),
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_how_a_launch_ends(launch: Launcher, end: str) -> None:
    """The program's code where all is well; else one line that says which node, and why."""
    play, expected = ENDS[end]
    if isinstance(expected, Outcome):
        assert launch(play) == expected
        return
    with pytest.raises(LaunchError) as wrong:
        launch(play)
    assert (type(wrong.value), str(wrong.value)) == (type(expected), str(expected))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("CANCELLED", JobEnded("job 7 was cancelled")),
        ("TIMEOUT", DeadlineError("job 7 reached its time limit", "ask for more with --time of salloc or sbatch")),
        ("NODE_FAIL", NodeError("a node of job 7 failed")),
        ("RUNNING", NodeError("the serving step ended while the program ran (without a word)")),
        ("", NodeError("the serving step ended while the program ran (without a word)")),
    ],
)
@pytest.mark.parametrize("program", [[], ended("run", 143)], ids=["it runs", "it has ended"])
def test_a_job_that_ends_under_us(
    launch: Launcher, slurm: Slurm, state: str, expected: LaunchError, program: list[Event]
) -> None:
    """scancel and the time limit end the serving step with the rest: Slurm is asked which it was."""
    slurm.ending = state
    with pytest.raises(LaunchError) as wrong:
        launch(Play(go=program + ended("serve", 143), close=[]))
    assert (type(wrong.value), str(wrong.value)) == (type(expected), str(expected))


WARNED = say(*RANKS, "warned node01", "warned node02")


@pytest.mark.parametrize("then", [[], say("fail node02 sshd ended"), say("gone node02 1"), ended("run", 143)])
def test_a_term_that_ends_the_job(launch: Launcher, slurm: Slurm, then: list[Event]) -> None:
    """scancel tells every process: what else is heard is only its consequence."""
    slurm.ending, slurm.runs = "CANCELLED", False
    with pytest.raises(JobEnded, match=r"^job 7 was cancelled$"):
        launch(Play(go=WARNED + then))


def test_a_term_that_is_a_warning(launch: Launcher) -> None:
    """--signal=TERM@60, or a preemption with a time of grace: the program may make use of it."""
    assert launch(Play(go=WARNED + ended("run", 0))) == Outcome(0, FOUND)
    assert launch(Play(go=WARNED + ended("run", 15))) == Outcome(15, FOUND)


def test_a_node_that_slurm_has_lost(launch: Launcher, slurm: Slurm) -> None:
    """By its name, with Slurm's word for it."""
    slurm.ending, slurm.thoughts = "NODE_FAIL", {"node02": "down*"}
    with pytest.raises(NodeError, match=r"^lost while the program ran: node02: Slurm says down\*$"):
        launch(Play(go=say(*RANKS) + ended("serve", 143), close=[]))


def test_what_slow_containers_have_said(launch: Launcher, stage: Stage) -> None:
    """At the deadline their guards are asked for it."""
    here = say("here node01", "here node02", READY[0])
    stage.play = Play(kit=here, log=say("log node02 Server cannot bind"))
    plan = make(build("./app"), 2, 1)
    with pytest.raises(DeadlineError, match=r"^1 of 2 nodes .* node02: not ready yet \(Server cannot bind\)"):
        launch.carry_out(replace(plan, spec=replace(plan.spec, start_timeout=0)))


def test_silence_until_the_deadline(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    """The missing nodes by name, with what Slurm thinks of them, what srun said, and how to wait longer."""
    slurm.thoughts = {"node02": "down*"}
    stage.play = Play(kit=say(READY[0]) + noise("srun: warning: slow"))
    plan = make(build("./app"), 2, 1)
    with pytest.raises(DeadlineError) as wrong:
        launch.carry_out(replace(plan, spec=replace(plan.spec, start_timeout=0)))
    assert str(wrong.value) == (
        "1 of 2 nodes not ready after 0 s: node02: no word from it (Slurm says down*) (srun: warning: slow); "
        "--start-timeout gives them longer"
    )


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_program_runs(launch: Launcher, stage: Stage, signum: int) -> None:
    """The program is told through the lease, has a moment to end by itself, and the code is 128 + n."""
    assert launch(Play(go=say(*RANKS) + signalled(signum))) == Outcome(128 + signum)
    assert stage.lease.lines[-1] == b"end"


def test_a_program_that_does_not_end_is_killed(launch: Launcher, stage: Stage) -> None:
    """After its moment, and after the guards had theirs."""
    assert launch(Play(go=say(*RANKS) + signalled(signal.SIGTERM), term=[])) == Outcome(143)
    assert stage.started["run"].signals == [signal.SIGKILL]


def test_ctrl_c_twice_does_not_wait(launch: Launcher, stage: Stage) -> None:
    """The second one: at once, then; the lease is closed all the same."""
    play = Play(go=say(*RANKS) + signalled(signal.SIGINT, signal.SIGINT), term=[])
    assert launch(play) == Outcome(130)
    assert stage.lease.lines[-1] == b"end"
    assert stage.lease.closed


def test_ctrl_c_again_and_again_while_stopping(launch: Launcher) -> None:
    """We are stopping: the farewell is waited for."""
    interrupts = signalled(*[signal.SIGINT] * 5)
    play = Play(go=signalled(signal.SIGINT), term=interrupts, close=interrupts + say(*BYE) + ended("serve", 0))
    assert launch(play) == Outcome(130)


def test_a_signal_before_all_are_ready(launch: Launcher, stage: Stage) -> None:
    """Nobody runs yet who could be told; the lease's end is enough."""
    assert launch(Play(kit=say(READY[0]) + signalled(signal.SIGTERM))) == Outcome(143)
    assert b"end" not in stage.lease.lines
    assert b"go" not in stage.lease.lines


def test_a_signal_is_no_judgement(launch: Launcher) -> None:
    """Ranks that are missing because we stopped them are no failure of their own."""
    assert launch(Play(go=say(RANKS[0]) + signalled(signal.SIGTERM), term=ended("run", 0))) == Outcome(143)


def test_a_node_that_says_no_farewell(
    launch: Launcher, stage: Stage, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was cut off: Slurm ends the step there once it can, and the user is told."""
    assert launch(Play(close=say(BYE[0]))) == Outcome(0, FOUND)
    assert slurm.ended_steps == ["7.3"]
    assert stage.started["serve"].signals == [signal.SIGKILL]
    assert capsys.readouterr().err == (
        "mnrun: warning: no farewell from node02: Slurm ends what is left there once it can\n"
    )


def test_guards_that_were_killed_are_swept_after(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    """Their step has ended without a farewell: a step of its own does their last work."""
    with pytest.raises(NodeError):
        launch(Play(go=say(*RANKS) + ended("serve", 137), close=[]))
    assert stage.order == ["serve", "run", "sweep"]
    assert stage.argv["sweep"][-3:] == ("bash", "-p", "/tmp/mnrun.7-abcdef/sweep.sh")
    sweep = stage.started["sweep"].played
    assert sweep.stdin is not None
    assert sweep.stdin.closed
    assert sweep.waited
    assert slurm.ended_steps == []


def test_nothing_is_swept_where_everyone_said_farewell(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    """The common end: one step that serves, one that runs."""
    launch(Play())
    assert stage.order == ["serve", "run"]
    assert slurm.ended_steps == []
    assert stage.argv["serve"][0] == "srun"


def test_processes_that_could_not_be_ended_are_named(launch: Launcher, capsys: pytest.CaptureFixture[str]) -> None:
    """A process in an uninterruptible sleep outlives its SIGKILL."""
    launch(Play(close=say(BYE[0], "bye node02 17 18 ") + ended("serve", 0)))
    assert capsys.readouterr().err == "mnrun: warning: on node02 these processes could not be ended: 17 18\n"


@pytest.mark.parametrize("name", ["serve", "run"])
def test_no_srun(launch: Launcher, stage: Stage, name: str) -> None:
    """One line; and what was started before is ended."""
    stage.absent = name
    with pytest.raises(SchedulerError, match=r"^srun is not on PATH$"):
        launch(Play())


def test_a_lease_whose_reader_is_gone(launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    """srun ended while we wrote: its end, with the reason, is on its way to us."""

    def broken(lease: Lease, data: memoryview) -> int:
        lease._hear(noise("srun: error: no") + ended("serve", 1))
        raise BrokenPipeError

    mocker.patch.object(Lease, "write", broken)
    with pytest.raises(NodeError, match=r"no word from it \(srun: error: no\)$"):
        launch(Play(close=[]))


def test_the_master_starts_together_with_the_others(launch: Launcher, stage: Stage) -> None:
    """Its start is off the critical path: it waits on its node. srun's ranks would not, and start after go."""
    with pytest.raises(NodeError):
        launch(Play(kit=say(READY[0], "fail node02 x")))
    assert stage.order == ["serve", "run"]
    stage.order.clear()
    with pytest.raises(NodeError):
        launch(Play(kit=say(READY[0], "fail node02 x")), mode="outside-in", launcher="srun")
    assert stage.order == ["serve"]
    stage.order.clear()
    assert launch(Play(), mode="outside-in", launcher="srun") == Outcome(0, FOUND)
    assert stage.order == ["serve", "run"]


def test_a_prompt_starts_when_all_is_ready(launch: Launcher, stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """Its srun has the terminal from its start on; what it says of the shell's last command is nobody's business."""
    shell = make(build(shell="terminal"), 2, 1)
    with pytest.raises(NodeError):
        stage.play = Play(kit=say(READY[0], "fail node02 x"))
        launch.carry_out(shell)
    assert stage.order == ["serve"]
    stage.order.clear()
    said = ["srun: error: node01: task 0: Exited with exit code 7", "srun: error: other"]
    stage.play = Play(go=[("noise", "run", line) for line in said] + ended("run", 7))
    assert launch.carry_out(shell) == Outcome(7, {})
    assert stage.order == ["serve", "run"]
    assert capsys.readouterr().err.splitlines() == said[1:]


def test_a_prompt_is_hung_up(launch: Launcher, stage: Stage) -> None:
    """A shell at a prompt takes no notice of a TERM."""
    stage.play = Play(go=signalled(signal.SIGTERM))
    assert launch.carry_out(make(build(shell="terminal"), 2, 1)) == Outcome(143)
    assert stage.started["run"].signals[0] == signal.SIGHUP
    assert b"end" not in stage.lease.lines


def test_what_goes_down_the_lease_inside_out(launch: Launcher, stage: Stage) -> None:
    """The kit with this job's keys; once all are ready, how to reach them; then go, and nothing after it."""
    launch(Play())
    names = set(unpack(stage.lease.kit))
    assert {"key", "authorized_keys", "hostkey", "known_hosts", "guard.sh", "job.sh"} <= names
    sent = {}
    for line in stage.lease.lines[:-1]:
        word, name, data = line.split(b" ")
        assert word == b"file"
        sent[name.decode()] = base64.b64decode(data).decode()
    assert sorted(sent) == ["hostfile", "hostfile.hydra", "launch.env", "ssh_config"]
    assert sent["hostfile"] == "node01 slots=2\nnode02 slots=1\n"
    assert "Host node02 n2\n    HostName 10.0.0.2\n" in sent["ssh_config"]
    assert stage.lease.lines[-1] == b"go"


def test_what_goes_down_the_lease_outside_in(launch: Launcher, stage: Stage) -> None:
    """No keys: nobody connects; what the host's mpirun must see is in the kit."""
    launch(Play(), mode="outside-in")
    files = unpack(stage.lease.kit)
    assert "key" not in files
    assert "export SLURM_TASKS_PER_NODE='2,1'\n" in files["launch.env"][1]
    assert stage.lease.lines == [b"go"]


def test_two_launches_have_different_keys(launch: Launcher, stage: Stage) -> None:
    """Every key belongs to one job."""
    keys = []
    for _ in range(2):
        launch(Play())
        keys.append(unpack(stage.lease.kit)["key"])
    assert keys[0] != keys[1]


def test_a_script_is_not_counted(launch: Launcher) -> None:
    """It starts as many ranks as it likes, or none."""
    assert launch(Play(go=ended("run", 0)), script="job.sh") == Outcome(0, {})


@pytest.mark.parametrize(("cpus", "overcommits"), [(8, False), (1, True)])
def test_more_ranks_than_cpus(launch: Launcher, stage: Stage, cpus: int, overcommits: bool) -> None:
    """srun must be told, or it refuses the step."""
    launch.carry_out(make(build("./app", mode="outside-in", launcher="srun"), 2, 1), cpus=cpus)
    assert ("--overcommit" in stage.argv["run"]) == overcommits


def test_the_steps_see_nothing_of_the_surrounding_step(launch: Launcher, stage: Stage) -> None:
    """srun's inputs of the job around us would shape our steps."""
    launch(Play(), {"PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "64", "SLURM_CPU_BIND": "cores"})
    assert stage.environ == {"PATH": "/bin", "SLURM_JOB_ID": "7"}


def test_what_is_recorded(launch: Launcher) -> None:
    """Every line in the log, and a record of each node that was ready."""
    launch(Play(kit=noise("srun: a warning") + say(*READY)))
    log = (launch.path / "log").read_text().splitlines()
    assert log == ["srun: a warning", *READY, *RANKS, *BYE]
    assert sorted(path.name for path in launch.path.glob("node.*")) == ["node.node01.json", "node.node02.json"]


def test_a_bug_of_ours_still_closes_the_lease(launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    """Whatever happens."""
    mocker.patch.object(kit, "hostfiles", side_effect=RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        launch(Play())
    assert stage.lease.closed
