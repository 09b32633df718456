"""A launch against guards that are only played, for the unit tests of execute.py: a script of events on a lease."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.jobs.job_dir import Records
from mnrun.model import Command, Outcome, Plan, Site, Unwell, Words
from mnrun.running import execute
from mnrun.schedulers.slurm.details import Details
from mnrun.schedulers.vocabulary import JobState
from mnrun.system import process
from mnrun.system.events import Ended, Event, Line, Noise, Signal
from mnrun.system.screen import Screen

from .samples import build, make

SITE = Site("slurm", "7", Details((24, 11)))
READY = ("ready node01 host=node01 address=10.0.0.1 step=3 port=20001", "ready node02 host=n2 address=10.0.0.2 step=3")
RANKS = ("rank node01 0 3", "rank node01 1 3", "rank node02 2 3")
BYE = ("bye node01 ", "bye node02 ")
FOUND = {"node01": 2, "node02": 1}  # ranks that were there


def kit_end(data: bytes) -> int:
    """Return where the kit ends (kit.pack) in what the lease has carried so far. -1: it has not come whole."""
    begin = data.find(b"\n") + 1
    at = begin + int(data[:begin] or b"0")
    end = at + sum(int(size) for size in data[begin:at].split()[1::2])
    return end if begin and end <= len(data) else -1


def say(*lines: str) -> list[Event]:
    """Return lines of the guards."""
    return [Line("serve", line) for line in lines]


def noise(*lines: str) -> list[Event]:
    """srun's own complaints."""
    return [Noise("serve", line) for line in lines]


def ended(name: str, code: int) -> list[Event]:
    return [Ended(name, code)]


def signalled(*signums: int) -> list[Event]:
    return [Signal(signum) for signum in signums]


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
            end = kit_end(self._pending)
            if end < 0:
                return
            self.kit, self._pending = self._pending[:end], self._pending[end:]
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
        if self.stdin is not None:
            self.waited = self.stdin.is_closed(timeout)
        return 0


class Played(process.Child):
    """The real one but for its end, which reaches no process."""

    def __init__(self, stage: Stage, name: str, stdin: Lease | None) -> None:
        self.played = Process(stdin)
        super().__init__(name, self.played)  # type: ignore[arg-type]
        self.stage = stage
        self.signals: list[int] = []

    def end(self, signum: int) -> None:
        self.signals.append(signum)
        if self.name == "run":
            self.stage.events.put(Ended("run", 128 + signum))


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
        self, name: str, command: Command, environ: dict[str, str], events: Any, piped: bool, **_: object
    ) -> Played:
        if name == self.absent:
            raise FileNotFoundError(command.argv[0])
        assert piped == (name != "run"), "the program has the user's own input and output"
        self.events, self.environ = events, environ
        lease = Lease(self.play if name == "serve" else Play(close=[]), events) if piped else None
        self.started[name], self.argv[name] = Played(self, name, lease), command.argv
        self.order.append(name)
        return self.started[name]

    @property
    def lease(self) -> Lease:
        lease = self.started["serve"].played.stdin
        assert lease is not None
        return lease


DOWN = Unwell("Slurm says down*")
SLURM = "mnrun.schedulers.slurm.scheduler"


@dataclass
class Slurm:
    """What the real one would answer."""

    lost: dict[str, Unwell] = field(default_factory=dict)
    ending: JobState = JobState.UNKNOWN
    ended_steps: list[str] = field(default_factory=list)
    runs: bool = True


@pytest.fixture
def slurm(mocker: MockerFixture) -> Slurm:
    answers = Slurm()
    mocker.patch(f"{SLURM}.lost", side_effect=lambda names, environ, since=None: answers.lost)
    mocker.patch(f"{SLURM}.ending", side_effect=lambda site, environ: answers.ending)
    mocker.patch(f"{SLURM}.time_limit", return_value="00:05:00")
    mocker.patch(
        f"{SLURM}.preempted",
        side_effect=lambda job, environ: answers.ending == JobState.PREEMPTED,
    )
    mocker.patch(f"{SLURM}.runs", side_effect=lambda job, environ: answers.runs)
    mocker.patch(f"{SLURM}.end", side_effect=lambda step, environ: answers.ended_steps.append(step))
    return answers


@pytest.fixture
def stage(mocker: MockerFixture, slurm: Slurm) -> Iterator[Stage]:
    """Yield a stage on which every launch ends with its lease closed, whatever became of it."""
    stage = Stage()
    mocker.patch("mnrun.system.process.subprocess.Popen")  # of the pulse
    mocker.patch.object(execute, "GRACE", 0.05)
    mocker.patch.object(execute, "FAREWELL", 0.05)
    mocker.patch.object(execute, "ANSWER", 0.05)
    mocker.patch.object(execute, "NUDGE", 0.01)
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

    def carry_out(self, plan: Plan, environ: Mapping[str, str] = {}) -> Outcome:
        return execute.Launch(plan, SITE, environ, Records(self.path), Screen(), self._stage.start).run()
