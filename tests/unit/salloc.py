"""salloc as a play, for the unit tests of what mnrun does around an allocation of its own."""

from __future__ import annotations

import os
import queue
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import SchedulerError
from mnrun.model import Command, Words
from mnrun.running import execute, probe
from mnrun.schedulers.queue import Job, PartitionNode, Snapshot
from mnrun.schedulers.slurm import allocate, cluster
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.schedulers.slurm.queue import UserQueue
from mnrun.schedulers.vocabulary import JobState
from mnrun.system.events import Event, Line

from .samples import SITE, held
from .typed import Launched, Terminal

GRANTED = ["SLURM_JOB_ID=8", "SLURM_JOB_NAME=a = b", ""]


@dataclass
class Queue:
    """A queue in which job 8 waits for these reasons, one after the other. After the last one, `then` is called."""

    reasons: list[str] = field(default_factory=list)
    then: Callable[[], None] = lambda: None
    poll: float = 0.01
    held: tuple[PartitionNode, ...] = ()
    forgotten: int = 0

    def jobs(self, age: float = 0) -> Snapshot:
        if not self.reasons:
            self.then()
            raise SchedulerError("squeue: Unable to contact slurm controller")
        reason = self.reasons.pop(0)
        jobs = (Job("7", "other", JobState.PENDING, "its own"), Job("8", "app", JobState.PENDING, reason))
        return Snapshot(jobs, time.time())

    def history(self, ids: object = ()) -> tuple[Job, ...]:
        return ()

    def nodes(self) -> tuple[PartitionNode, ...]:
        return self.held

    def names(self, option: str) -> tuple[str, ...]:
        return ()

    def cancel(self, ids: object, signal: str = "", scripts: object = ()) -> list[str]:
        return []

    def forget(self) -> None:
        self.forgotten += 1


class Salloc:
    """Plays it: what it says, on its errors and on its output, and how it ends."""

    def __init__(self) -> None:
        self.argv: Words = ()
        self.said = ""
        self.events: list[Event] = [Line("salloc", line) for line in GRANTED]
        self.returncode: int | None = 0
        self.done: list[object] = []
        self.process = self
        self.stubborn = False
        self.heard: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def start(
        self, name: str, command: Command, environ: object, events: Any, piped: bool, errors: IO[bytes]
    ) -> Salloc:
        assert piped
        tie, _, _, _, script, *argv = command.argv
        assert (tie, os.path.basename(script)) == ("tied", "withdraw.sh"), "it ends with us, and so does the job"
        self.argv, self.heard = tuple(argv), events
        errors.write(self.said.encode())
        errors.flush()
        for event in self.events:
            events.put(event)
        return self

    def grant(self) -> None:
        """Grant the job, which had to wait."""
        for line in GRANTED:
            self.heard.put(Line("salloc", line))

    def send(self, data: bytes) -> None:
        self.done.append(data)
        self.returncode = int(data) if self.returncode == 0 else self.returncode  # that of its command

    def close(self) -> None:
        self.done.append("close")

    def wait(self, seconds: float) -> bool:
        return not self.stubborn

    def end(self, signum: int) -> None:
        self.done.append(signum)


@pytest.fixture
def salloc(mocker: MockerFixture, tmp_path: Path) -> Iterator[Salloc]:
    played = Salloc()
    mocker.patch.object(tempfile, "tempdir", str(tmp_path))
    mocker.patch.object(allocate, "start", played.start)
    mocker.patch.object(allocate, "tied", lambda argv: ("tied", *argv))
    mocker.patch.object(allocate, "which", return_value="/usr/bin/salloc")
    mocker.patch.object(cluster, "end", side_effect=lambda job, environ: played.done.append(job))
    mocker.patch.object(slurm, "version", return_value=(24, 11))
    before = signal.getsignal(signal.SIGINT)
    yield played
    assert signal.getsignal(signal.SIGINT) == before
    assert played.done[1:2] in ([], ["close"])


@pytest.fixture
def outside(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Terminal:
    """On a Slurm site, in no job; standard input is no terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NAME"):
        monkeypatch.setenv(name, "")  # so that they are as before after the test
        monkeypatch.delenv(name)
    mocker.patch.object(slurm, "is_here", return_value=True)
    mocker.patch.object(os, "isatty", return_value=False)
    mocker.patch.object(slurm, "site", return_value=SITE)
    mocker.patch.object(UserQueue, "nodes", return_value=())
    mocker.patch.object(probe.Probe, "ask", return_value=None)
    return Terminal(mocker, capsys)


@pytest.fixture
def granted(mocker: MockerFixture) -> Launched:
    """Return the nodes of the granted job. A launch on them ends with code 7."""
    mocker.patch.object(slurm, "current", return_value=(held("node01", "node02"), SITE))
    launched = Launched(code=7)
    mocker.patch.object(execute.Launch, "run", autospec=True, side_effect=launched)
    return launched
