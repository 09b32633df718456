"""`mnrun WORDS` as a person types it: where a launch would begin, a fake looks at what it is given."""

from __future__ import annotations

import errno
import io
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest
from pytest_mock import MockerFixture

from mnrun.cli import main
from mnrun.model import Outcome, Plan
from mnrun.running import execute, probe
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.schedulers.slurm.queue import UserQueue
from mnrun.system.screen import Screen

from .samples import SITE, held
from .texts import Says


@dataclass
class Answer:
    code: int
    out: str
    err: str


@dataclass
class Launched:
    """The launches, and their outcome."""

    plans: list[Plan] = field(default_factory=list)
    screens: list[Screen] = field(default_factory=list)
    code: int = 0
    failure: BaseException | None = None

    def __call__(self, launch: execute.Launch) -> Outcome:
        self.plans.append(launch.plan)
        self.screens.append(launch.screen)
        if self.failure is not None:
            raise self.failure
        return Outcome(self.code)

    @property
    def plan(self) -> Plan:
        (plan,) = self.plans
        return plan


class ClosedTerminal(io.StringIO):
    """Standard error after its terminal was closed."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


class Terminal:
    """Types `mnrun WORDS` and waits for the prompt."""

    def __init__(self, mocker: MockerFixture, capsys: pytest.CaptureFixture[str]) -> None:
        self._mocker, self._capsys = mocker, capsys

    def __call__(self, *words: str) -> Answer:
        self._mocker.patch.object(sys, "argv", ["mnrun", *words])
        with pytest.raises(SystemExit) as left:
            main.entry()
        out, err = self._capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Answer(left.value.code, out, err)


@pytest.fixture
def mnrun(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Terminal:
    """On a Slurm site, in no job, in the folder of the test. Every module can be loaded, and changes nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    mocker.patch.object(slurm, "is_here", return_value=True)
    mocker.patch.object(slurm, "site", return_value=SITE)
    mocker.patch.object(UserQueue, "nodes", return_value=())
    mocker.patch("mnrun.system.modules.load", side_effect=lambda names, environ: environ)
    mocker.patch.object(probe.Probe, "ask", return_value=None)
    mocker.patch.object(probe.Probe, "networks", return_value=[])
    return Terminal(mocker, capsys)


@pytest.fixture
def job(mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch) -> Launched:
    """In Slurm job 7 with four nodes; what would be launched is kept."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    mocker.patch.object(slurm, "current", return_value=(held("node01", "node02", "node03", "node04"), SITE))
    launched = Launched()
    mocker.patch.object(execute.Launch, "run", autospec=True, side_effect=launched)
    return launched


class Complaint(Protocol):
    """`complaint(ANSWER)` expects this code and nothing on standard output. The message is in messages.md."""

    def __call__(self, answer: Answer, code: int = ...) -> None: ...


@pytest.fixture
def complaint(says: Says) -> Complaint:
    def expect(answer: Answer, code: int = 2) -> None:
        assert (answer.code, answer.out) == (code, "")
        assert answer.err.startswith("mnrun: ")
        says(f"exit {code}: {answer.err[len('mnrun: ') :]}")

    return expect
