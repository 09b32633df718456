"""`mnrun shell`, part by part: its words for salloc, its start, its refusals, and the terminal afterwards."""

from __future__ import annotations

import os
import re
import termios
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.cli import main
from mnrun.files import folder
from mnrun.model import Where, Words
from mnrun.planning import show
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.schedulers.slurm import steps
from mnrun.system import terminal
from unit.conftest import Shell
from unit.salloc import Salloc
from unit.samples import SITE, build, make
from unit.texts import Says
from unit.typed import Answer, Complaint, Launched, Terminal
from unit.wrappers.node import SHELLS, Node

# What is made of it


@pytest.mark.parametrize("kind", ["terminal", "input"])
def test_a_shell_runs_once_in_the_master_container(kind: str) -> None:
    plan = make(build(shell=kind), 1, 1)
    assert plan.steps[1].argv[-2:] == ("/tmp/mnrun.7-abcdef/box/shell.sh", kind)
    assert (plan.stdin, plan.counted) == ("", False)
    words = steps.srun(Where.HEAD, plan, SITE)
    assert ("--pty" in words) == (kind == "terminal")
    assert ("--input=0" in words) == (kind == "input")
    assert "--input=all" in steps.srun(Where.ALL, plan, SITE)
    assert "a shell" in show.as_text(plan, SITE, show.Judgement(None, "", plan.spec), commands=True)


# Its wrapper


@pytest.fixture
def node(sh: Shell, tmp_path: Path) -> Node:
    return Node(sh, tmp_path / "mnrun.7-abcdef")


@pytest.mark.parametrize("shell", SHELLS[:2])
@pytest.mark.parametrize("kind", ["terminal", "input"])
def test_it_becomes_bash_where_there_is_one(node: Node, tmp_path: Path, shell: str, kind: str) -> None:
    node.fill(1, shell=kind)
    bash = tmp_path / "image/bash"
    bash.parent.mkdir()
    bash.write_text('#!/bin/sh\nprintf "%s|" "$*" "$(printenv PS1)" "$(printenv PROMPT_COMMAND)" "$(printenv ENV)"\n')
    bash.chmod(0o700)
    environ = {"PATH": f"{bash.parent}:{os.environ['PATH']}", "PROMPT_COMMAND": "x", "ENV": "y", "PS1": "z"}
    said = node.run("shell.sh", kind, shell=shell, environ=environ).decode()
    assert said == ("--norc|mnrun:node01:\\w\\$ |||" if kind == "terminal" else "--norc||||")


def test_it_becomes_sh_where_there_is_no_bash(node: Node, tmp_path: Path) -> None:
    node.fill(1, shell="terminal")
    place = tmp_path / "image/sh"
    place.parent.mkdir()
    place.write_text('#!/bin/sh\necho "$# $PS1"\n')
    place.chmod(0o700)
    said = node.run("shell.sh", "terminal", shell="/bin/sh", environ={"PATH": str(place.parent)}).decode()
    assert said == "0 mnrun:node01:$PWD $ \n"


def test_an_image_without_mpirun_is_no_reason_to_end_a_prompt(node: Node, says: Says) -> None:
    node.fill(1, shell="terminal")
    said = node.run("bin/mpirun", before="exec 2>&1\n", environ={"PATH": f"{node.path}/bin:/nowhere:/bin"}, code=127)
    says(said.decode())
    assert node.said == ""


@pytest.mark.parametrize(("kind", "noted"), [("terminal", False), ("input", True)])
def test_a_prompt_that_shares_its_users_session_does_not_end_it(node: Node, kind: str, noted: bool) -> None:
    node.fill(1, shell=kind)
    node.run("clean_env.sh", "inside", "tmp", "true", shell="bash")
    sessions = node.path / "sessions"
    assert sessions.exists() == noted


# The verb


def test_the_verb_allocates_and_gives_back(outside: Terminal, salloc: Salloc, granted: Launched) -> None:
    """Options that salloc understands go to it, the rest is the launch's; the shell's code is ours."""
    words = ("-N", "2", "--ntasks-per-node=2", "-w", "node01,node02", "--mem", "96G", "-t", "8:00:00", "-p", "gpu")
    answer: Answer = outside("shell", *words, "-A", "abc", "--image", "/app.sif")
    assert answer.code == 7, answer
    asked = {"-N", "2", "--ntasks-per-node", "-w", "node01,node02", "--mem=96G", "--time=8:00:00", "--partition=gpu"}
    assert set(salloc.argv[1:-4]) == {*asked, "--account=abc", "--wait-all-nodes=1", "--job-name=mnrun"}
    assert salloc.done == [b"7\n", "close"], "the job ends with our code"
    job = granted.plan.spec
    assert job.program.prompt == "input"
    assert "exited with" not in answer.err, "the code of the shell's last command is no failure"
    assert {v.name: v.value for v in job.program.env}["SLURM_JOB_ID"] == "8", "its programs know their job"


def test_the_verb_in_an_allocation(
    outside: Terminal, salloc: Salloc, granted: Launched, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    mocker.patch.object(os, "isatty", return_value=True)
    answer = outside("shell", "--mem", "96G", "--image", "/app.sif")
    assert answer.code == 7, answer
    assert answer.err.count("--mem: no effect here") == 1
    assert salloc.argv == ()
    assert granted.plan.spec.program.prompt == "terminal"


def test_the_verb_in_a_job_that_was_got_for_it(
    outside: Terminal, granted: Launched, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture
) -> None:
    """As `qrsh` starts it, with the options that the job has already."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    mocker.patch.object(os, "isatty", return_value=True)
    mocker.patch.object(slurm, "request", return_value=())
    answer = outside("shell", "--mem", "96G", "-t", "10", "--image", "/app.sif")
    assert (answer.code, "no effect" in answer.err) == (7, False), answer


def test_the_verb_refuses_before_it_allocates(outside: Terminal, salloc: Salloc, complaint: Complaint) -> None:
    complaint(outside("shell", "--image", "/app.sif", "--mode", "outside-in"), 122)
    assert salloc.argv == ()
    assert outside("shell", "--image", "/app.sif", "./app").code == 2
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
    return sh('exec "$@" 2>&1', str(door), *words, code=code, environ=environ).decode().splitlines()


def test_the_front_door_speaks_mnruns_words(sh: Shell, door: Path) -> None:
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


@pytest.mark.parametrize("words", [("--container=x",), ("--script=x",), ("--script", "x"), ("--envlist=A-B",)])
def test_the_front_door_refuses_once(sh: Shell, door: Path, words: Words, says: Says) -> None:
    (line,) = knock(sh, door, *words, code=2)
    says(line)
    assert knock(sh, door, *words, code=2, SLURM_PROCID="1") == []


@pytest.mark.parametrize(("own", "told"), [("", "1 "), ("elsewhere 3", "1 3"), ("HERE 3", "0 3")])
def test_the_front_door_waits_until_it_is_told(sh: Shell, tmp_path: Path, own: str, told: str) -> None:
    place = tmp_path / "door"
    place.mkdir()
    if own:
        (place / "own").write_text(own.replace("HERE", str(place)) + "\n")
    function = re.search(r"^answered\(\).*?^}", DOOR.read_text(), re.MULTILINE | re.DOTALL)
    assert function
    said = sh(f'{function[0]}\nplace=$1; answered; echo "$? ${{code-}}"', str(place), shell="bash")
    assert said.decode().strip("\n") == told


def test_the_front_door_without_mnrun(sh: Shell, door: Path, says: Says) -> None:
    (door.parent / "mnrun").unlink()
    (line,) = knock(sh, door, "--container=x", "--script=y", code=2, PATH="/usr/bin:/bin")
    says(line.partition(" beside ")[0])
