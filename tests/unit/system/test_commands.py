"""What is asked of the scheduler takes no longer than it may."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mnrun.errors import SchedulerError
from mnrun.system import commands
from unit.conftest import Shell
from unit.texts import Refused, Says
from unit.world import World

LAUNCHER = Path(commands.__file__).parents[2]
LIBRARY = """
import ctypes, sys
from mnrun.system import commands
from mnrun.errors import NoAnswerError
assert commands.call("pyslurm", lambda: ["job"], 30) == ["job"]
assert commands.call("pyslurm", lambda: 1 / 0, 30) is None
assert commands.call("pyslurm", lambda: ctypes.PyDLL(None)._exit(1), 30) is None
assert commands.call("pyslurm", lambda: sys.exit(sys.stderr.write("fatal: no slurm.conf")), 30) is None
try:
    commands.call("pyslurm", lambda: ctypes.PyDLL(None).pause(), 0.2, "slurmctld")  # holds Python, too
except NoAnswerError as error:
    print(error)
"""


def test_a_library_that_hangs_is_left_alone(sh: Shell, says: Says) -> None:
    said = sh('exec "$1" -c "$2"', sys.executable, LIBRARY, environ={"PYTHONPATH": str(LAUNCHER)}).decode()
    says(said)


def test_a_question_outlives_the_signals_of_programs(sh: Shell) -> None:
    """A scheduler may send them to all processes of a job."""
    asked = '("sh", "-c", "kill -USR2 $$; echo 7")'
    line = f"from mnrun.system import commands; print(commands.captured({asked}, 60).stdout)"
    assert sh('exec "$1" -c "$2"', sys.executable, line, environ={"PYTHONPATH": str(LAUNCHER)}).split() == [b"7"]


def test_a_question_that_has_begun_is_not_asked_twice(sh: Shell) -> None:
    begun = """
import os
from mnrun.system import commands
words = ("sh", "-c", "echo $$; echo $PPID >&2; exit 3")
commands.begin(words, dict(os.environ))
first, second = (commands.captured(words, 60) for _ in range(2))
print(first.stdout != second.stdout, first.stderr == second.stderr, first.returncode, second.returncode)
commands.begin(("nonexistent/words",), {})
commands.begin(("sleep", "600"), dict(os.environ))
try:
    commands.captured(("sleep", "600"), 0.1)
except commands.subprocess.TimeoutExpired:
    print("late")
"""
    said = sh('exec "$1" -c "$2"', sys.executable, begun, environ={"PYTHONPATH": str(LAUNCHER)})
    assert said == b"True True 3 3\nlate\n"


@pytest.mark.parametrize(
    ("errors", "line"),
    [
        ("srun: error: Unable to create step: busy\nsrun: error: more\n", "srun: error: Unable to create step: busy"),
        ("bash: line 3: x\nsrun: error: node01: task 0: Exited\n", "srun: error: node01: task 0: Exited"),
        ("slurm_load_jobs error: Invalid job id\n", "srun: slurm_load_jobs error: Invalid job id"),
        ("first\nlast\n", "srun: last"),
        ("", "srun: exit code 3"),
    ],
)
def test_a_complaint_is_one_line_without_the_command(errors: str, line: str) -> None:
    done = subprocess.CompletedProcess(["srun", "bash", "-c", "a script\nof many lines"], 3, "", errors)
    assert commands.complaint(done) == line


def test_a_command_that_cannot_start(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    (tmp_path / "squeue").touch(0o600)
    monkeypatch.setenv("PATH", str(tmp_path))
    with world.allowed(), refused(SchedulerError):
        commands.run(("squeue",), 5, instead="use --local")
