"""`mnrun shell`, part by part: what it asks salloc for, what it starts, what it refuses, and the terminal afterwards.

salloc and srun are played. Whether a real prompt works is for the live tests.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import tempfile
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pytest
from pytest_mock import MockerFixture

from mnrun.cli import main
from mnrun.errors import Impossible, LaunchError, SchedulerError, UsageError
from mnrun.files import folder
from mnrun.model import Command, Where, Words
from mnrun.planning import show
from mnrun.running import execute
from mnrun.schedulers import slurm
from mnrun.schedulers.slurm import allocate, cluster, steps
from mnrun.system import terminal
from mnrun.system.process import Event
from mnrun.system.screen import Screen
from unit.conftest import Shell
from unit.samples import SITE, build, held, make
from unit.typed import Answer, Launched, Terminal
from unit.wrappers.test_wrappers import SHELLS, Node

GRANTED = ["SLURM_JOB_ID=8", "SLURM_JOB_NAME=a = b", ""]


# What is made of it


@pytest.mark.parametrize("kind", ["terminal", "input"])
def test_a_shell_runs_once_in_the_master_container(kind: str) -> None:
    """Our wrapper, on the head; a step for a terminal says no other word about input."""
    plan = make(build(shell=kind), 1, 1)
    assert plan.steps[1].argv[-2:] == ("/tmp/mnrun.7-abcdef/shell.sh", kind)
    assert (plan.stdin, plan.counted) == ("", False)
    words = steps.srun(Where.HEAD, plan, SITE)
    assert ("--pty" in words) == (kind == "terminal")
    assert ("--input=0" in words) == (kind == "input")
    assert "--input=all" in steps.srun(Where.ALL, plan, SITE)
    assert "a shell" in show.as_text(plan, SITE, show.Judgement(None, "", plan.spec))


@pytest.mark.parametrize(
    ("words", "given", "error", "said"),
    [
        (("./app",), {}, UsageError, "mnrun shell takes no command, but found './app'; "),
        ((), {"script": "job.sh"}, UsageError, "mnrun shell takes no command, but found --script; "),
        (
            (),
            {"mode": "outside-in"},
            Impossible,
            "a shell runs in the first node's container, which outside-in lacks; ",
        ),
        ((), {"image": None}, UsageError, "no image; "),
    ],
)
def test_what_a_shell_is_not(words: Words, given: dict[str, Any], error: type[LaunchError], said: str) -> None:
    """Said before any node is asked for."""
    with pytest.raises(error) as raised:
        build(*words, shell="terminal", **given)
    assert str(raised.value).startswith(said)


# Its wrapper


@pytest.fixture
def node(sh: Shell, tmp_path: Path) -> Node:
    return Node(sh, tmp_path / "mnrun.7-abcdef")


@pytest.mark.parametrize("shell", SHELLS[:2])
@pytest.mark.parametrize("kind", ["terminal", "input"])
def test_it_becomes_bash_where_there_is_one(node: Node, tmp_path: Path, shell: str, kind: str) -> None:
    """With a prompt that names mnrun and the node, unless nobody sees it; nothing of Apptainer's prompt."""
    node.fill(1)
    bash = tmp_path / "image/bash"
    bash.parent.mkdir()
    bash.write_text('#!/bin/sh\nprintf "%s|" "$*" "$(printenv PS1)" "$(printenv PROMPT_COMMAND)" "$(printenv ENV)"\n')
    bash.chmod(0o700)
    environ = {"PATH": f"{bash.parent}:{os.environ['PATH']}", "PROMPT_COMMAND": "x", "ENV": "y", "PS1": "z"}
    said = node.run("shell.sh", kind, shell=shell, environ=environ).decode()
    assert said == ("--norc|mnrun:node01:\\w\\$ |||" if kind == "terminal" else "--norc||||")


def test_it_becomes_sh_where_there_is_no_bash(node: Node, tmp_path: Path) -> None:
    """Which knows no \\w."""
    node.fill(1)
    place = tmp_path / "image/sh"
    place.parent.mkdir()
    place.write_text('#!/bin/sh\necho "$# $PS1"\n')
    place.chmod(0o700)
    said = node.run("shell.sh", "terminal", shell="/bin/sh", environ={"PATH": str(place.parent)}).decode()
    assert said == "0 mnrun:node01:$PWD $ \n"


def test_an_image_without_mpirun_is_no_reason_to_end_a_prompt(node: Node) -> None:
    """It is said there, and not to the launcher."""
    node.fill(1, shell="terminal")
    said = node.run("bin/mpirun", before="exec 2>&1\n", environ={"PATH": f"{node.path}/bin:/nowhere:/bin"}, code=127)
    assert said.decode().startswith("mnrun: the image has no mpirun on its PATH (")
    assert node.said == ""


@pytest.mark.parametrize(("kind", "noted"), [("terminal", False), ("input", True)])
def test_a_prompt_that_shares_its_users_session_does_not_end_it(node: Node, kind: str, noted: bool) -> None:
    """The guard ends whatever is left of the sessions that were noted."""
    node.fill(1, shell=kind)
    node.run("clean_env.sh", "inside", "tmp", "true", shell="bash")
    sessions = node.path / "sessions"
    assert sessions.exists() == noted


# The allocation


class Salloc:
    """Plays it: what it says, on its errors and on its output, and how it ends."""

    def __init__(self) -> None:
        self.argv: Words = ()
        self.said = ""
        self.events: list[Event] = [("line", "salloc", line) for line in GRANTED]
        self.returncode: int | None = 0
        self.done: list[object] = []
        self.process = self
        self.stubborn = False

    def start(
        self,
        name: str,
        command: Command,
        environ: Mapping[str, str],
        events: queue.SimpleQueue[Event],
        piped: bool,
        errors: IO[bytes],
    ) -> Salloc:
        assert piped
        assert command.argv[0] == "tied to HUP", "it ends with us, and so does the job"
        self.argv = command.argv[1:]
        errors.write(self.said.encode())
        errors.flush()
        for event in self.events:
            events.put(event)
        return self

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
    mocker.patch.object(allocate, "tied", lambda argv, signum: (f"tied to {signum.name[3:]}", *argv))
    mocker.patch.object(cluster, "end", side_effect=played.done.append)
    mocker.patch.object(slurm, "version", return_value=(24, 11))
    before = signal.getsignal(signal.SIGINT)
    yield played
    assert signal.getsignal(signal.SIGINT) == before
    assert played.done[:2] in ([], [signal.SIGHUP, "close"])


def test_an_allocation_is_held_by_a_pipe(salloc: Salloc) -> None:
    """The job's variables, for as long as the pipe is open."""
    with allocate.allocated(("salloc", "-N", "2"), {}, Screen(quiet=True)) as found:
        assert found == {"SLURM_JOB_ID": "8", "SLURM_JOB_NAME": "a = b"}
        assert salloc.argv[:5] == ("salloc", "-N", "2", "sh", "-c")
        assert salloc.done == []
    assert salloc.done == [signal.SIGHUP, "close"]


def test_an_allocation_whose_salloc_was_killed_is_given_back(salloc: Salloc) -> None:
    """By scancel, since nobody else would."""
    salloc.returncode = -9
    with allocate.allocated(("salloc",), {}, Screen(quiet=True)):
        pass
    assert salloc.done == [signal.SIGHUP, "close", "8"]


def test_an_salloc_that_does_not_end(salloc: Salloc) -> None:
    """By force, and its job by scancel."""
    salloc.stubborn, salloc.returncode = True, None
    with pytest.raises(ValueError), allocate.allocated(("salloc",), {}, Screen(quiet=True)):
        raise ValueError
    assert salloc.done == [signal.SIGHUP, "close", signal.SIGKILL, "8"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("salloc: error: invalid partition specified: x\nsalloc: error: Job submit/allocate failed: no\n", None),
        ("salloc: Job allocation 4 has been revoked.\n", "Job allocation 4 has been revoked."),
        ("", "no message"),
    ],
)
def test_an_allocation_that_is_refused(salloc: Salloc, said: str, reason: str | None) -> None:
    """salloc's own reasons, and what it was asked for."""
    salloc.said, salloc.events = said, [("ended", "salloc", 1)]
    with pytest.raises(SchedulerError) as raised, allocate.allocated(("salloc", "-p", "x"), {}, Screen(quiet=True)):
        pass
    reason = reason or "invalid partition specified: x; Job submit/allocate failed: no"
    assert str(raised.value) == f"salloc: {reason}; the request was -p x"
    assert salloc.done == [signal.SIGHUP, "close"]


def test_a_signal_while_it_waits_withdraws_the_request(salloc: Salloc) -> None:
    """And is mnrun's code."""
    salloc.events = [("signal", "", 2)]
    with pytest.raises(SystemExit) as raised, allocate.allocated(("salloc",), {}, Screen(quiet=True)):
        pass
    assert raised.value.code == 130
    assert salloc.done == [signal.SIGHUP, "close"]


def test_no_salloc(salloc: Salloc, mocker: MockerFixture) -> None:
    """Slurm's module is not loaded."""
    mocker.patch.object(allocate, "start", side_effect=FileNotFoundError)
    with (
        pytest.raises(SchedulerError, match="salloc is not on PATH"),
        allocate.allocated(("salloc",), {}, Screen(True)),
    ):
        pass


# The verb


@pytest.fixture
def mnrun(
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
    return Terminal(mocker, capsys)


@pytest.fixture
def launched(mocker: MockerFixture) -> Launched:
    mocker.patch.object(slurm, "current", return_value=(held("node01", "node02"), SITE))
    launched = Launched(code=7)
    mocker.patch.object(execute, "execute", launched)
    return launched


def test_the_verb_allocates_and_gives_back(mnrun: Terminal, salloc: Salloc, launched: Launched) -> None:
    """Options that salloc understands go to it, the rest is the launch's; the shell's code is ours."""
    words = ("-N", "2", "--ntasks-per-node=2", "-w", "node01,node02", "--mem", "96G", "-t", "8:00:00", "-p", "gpu")
    answer: Answer = mnrun("shell", *words, "-A", "abc", "--image", "/app.sif")
    assert answer.code == 7, answer
    asked = {"-N", "2", "--ntasks-per-node", "-w", "node01,node02", "--mem=96G", "--time=8:00:00", "--partition=gpu"}
    assert set(salloc.argv[1:-3]) == {*asked, "--account=abc", "--job-name=mnrun"}
    assert salloc.done == [signal.SIGHUP, "close"]
    job = launched.plan.spec
    assert job.program.shell == "input"
    assert "exited with" not in answer.err, "the code of the shell's last command is no failure"
    assert {v.name: v.value for v in job.program.env}["SLURM_JOB_ID"] == "8", "its programs know their job"


def test_the_verb_in_an_allocation(
    mnrun: Terminal, salloc: Salloc, launched: Launched, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture
) -> None:
    """That one is used; what only salloc could give is said to have no effect, once."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    mocker.patch.object(os, "isatty", return_value=True)
    answer = mnrun("shell", "--mem", "96G", "--image", "/app.sif")
    assert answer.code == 7, answer
    assert answer.err.count("--mem: no effect here") == 1
    assert salloc.argv == ()
    assert launched.plan.spec.program.shell == "terminal"


def test_the_verb_refuses_before_it_allocates(mnrun: Terminal, salloc: Salloc) -> None:
    """Nobody waits in a queue for a mistake."""
    answer = mnrun("shell", "--image", "/app.sif", "--mode", "outside-in")
    assert (answer.code, answer.out, salloc.argv) == (122, "", ())
    assert answer.err.startswith("mnrun: a shell runs in the first node's container")
    assert mnrun("shell", "--image", "/app.sif", "./app").code == 2
    assert "shell" in main.VERBS


# The terminal


def test_the_terminal_is_given_back_as_it_was(mocker: MockerFixture) -> None:
    """Raw or without echo, as a killed srun leaves it."""
    ours, theirs = os.openpty()
    try:
        mocker.patch.object(terminal, "INPUT", theirs)
        mocker.patch.object(os, "tcgetpgrp", return_value=os.getpgrp())
        mocker.patch.object(terminal, "_lives", return_value=True)
        before = termios.tcgetattr(theirs)
        with pytest.raises(ValueError), terminal.restoring():
            changed = termios.tcgetattr(theirs)
            changed[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(theirs, termios.TCSANOW, changed)
            raise ValueError
        assert termios.tcgetattr(theirs) == before
    finally:
        os.close(ours)
        os.close(theirs)


def test_no_terminal_is_no_matter(mocker: MockerFixture, tmp_path: Path) -> None:
    """Where standard input is a file."""
    with open(tmp_path / "file", "w") as file:
        mocker.patch.object(terminal, "INPUT", file.fileno())
        with terminal.restoring():
            pass


# The front door


DOOR = folder("wrappers") / "srun_singularity.sh"
"""Beside a mnrun that says what it is given."""


@pytest.fixture
def door(sh: Shell, tmp_path: Path) -> Path:
    place = tmp_path / "bin"
    place.mkdir()
    (place / DOOR.name).write_text(DOOR.read_text())
    (place / DOOR.name).chmod(0o700)
    (place / "mnrun").write_text('#!/bin/sh\nprintf "<%s>" "$@"\nenv | grep -c ^SLURM_NTASKS\nexit 4\n')
    (place / "mnrun").chmod(0o700)
    return place / DOOR.name


def knock(sh: Shell, door: Path, *words: str, code: int, **environ: str) -> list[str]:
    """What it says, its notes first."""
    return sh('exec "$@" 2>&1', str(door), *words, code=code, environ=environ).decode().splitlines()


def test_the_front_door_speaks_mnruns_words(sh: Shell, door: Path) -> None:
    """Option by option; what is not its own is the script's; the step's own shape is not the job's."""
    words = ["--container=a.sif", "x", "--script=j=1.sh", "--datamnts=/a,/b c", "--envlist=A,B,,HOME", "--script_help"]
    words += ["--slots_per_node=2", "--nodelist=n[1-2]", "--singopts=-B /x:/y --z=1", "--iname=a", "--lr=0.1"]
    said = knock(sh, door, *words, code=4, A="1 2", SLURM_NTASKS="2", SLURM_NTASKS_PER_NODE="1")
    assert said == [
        "srun_singularity.sh: --envlist: B is not set here, and is left out",
        "srun_singularity.sh: --iname has no effect now: each job has its own keys, configuration and names",
        "<run><--bind></a><--bind></b c><-x><A><-x><HOME><--ntasks-per-node><2><--force>"
        "<--container-args=-B /x:/y --z=1><--nodelist><n[1-2]><--mode><inside-out><--image><a.sif><--script><j=1.sh>"
        "<--><x><--lr=0.1><--help>0",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--container=x",), "no script: name one with --script=FILE"),
        (("--script=x",), "no image: name one with --container=FILE"),
        (("--script", "x"), "--script has no value: write --script=VALUE"),
        (("--envlist=A-B",), "--envlist: 'A-B' is not a variable name"),
    ],
)
def test_the_front_door_refuses_once(sh: Shell, door: Path, words: Words, said: str) -> None:
    """By its first task; the others leave with the same code."""
    assert knock(sh, door, *words, code=2) == [f"srun_singularity.sh: {said}"]
    assert knock(sh, door, *words, code=2, SLURM_PROCID="1") == []


@pytest.mark.parametrize(("own", "told"), [("", "1 "), ("elsewhere 3", "1 3"), ("HERE 3", "0 3")])
def test_the_front_door_waits_until_it_is_told(sh: Shell, tmp_path: Path, own: str, told: str) -> None:
    """The directory may be there before the code is in it."""
    place = tmp_path / "door"
    place.mkdir()
    if own:
        (place / "own").write_text(own.replace("HERE", str(place)) + "\n")
    function = re.search(r"^told\(\).*?^}", DOOR.read_text(), re.MULTILINE | re.DOTALL)
    assert function
    said = sh(f'{function[0]}\nplace=$1; told; echo "$? ${{code-}}"', str(place), shell="bash")
    assert said.decode().strip("\n") == told


def test_the_front_door_without_mnrun(sh: Shell, door: Path) -> None:
    """One line."""
    (door.parent / "mnrun").unlink()
    said = knock(sh, door, "--container=x", "--script=y", code=2, PATH="/usr/bin:/bin")
    assert [line.partition(" beside ")[0] for line in said] == ["srun_singularity.sh: mnrun is not installed"]
