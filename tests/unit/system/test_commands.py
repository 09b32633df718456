"""What is asked of the scheduler takes no longer than it may."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mnrun.errors import NoAnswerError, SchedulerError
from mnrun.system import commands
from unit.conftest import Shell
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
    commands.call("pyslurm", lambda: ctypes.PyDLL(None).pause(), 0.2)  # holds Python as well, as its calls do
except NoAnswerError as error:
    print(error)
"""


def test_a_library_that_hangs_is_left_alone(sh: Shell) -> None:
    """What it gives comes back whole; where it fails, it has said nothing."""
    said = sh('exec "$1" -c "$2"', sys.executable, LIBRARY, environ={"PYTHONPATH": str(LAUNCHER)}).decode()
    assert said == "pyslurm did not answer within 0 s; ask the cluster's admins about slurmctld\n"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: error: Socket timed out on send/recv operation", NoAnswerError),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", SchedulerError),
    ],
)
def test_silence_is_no_refusal(said: str, kind: type[SchedulerError]) -> None:
    """After a timeout the job may be there all the same; of a slurmctld that is not there nothing comes."""
    with pytest.raises(SchedulerError, match="slurmctld does not answer") as failure:
        commands.refuse_silence(subprocess.CompletedProcess(["sbatch"], 1, "", said))
    assert type(failure.value) is kind
    commands.refuse_silence(subprocess.CompletedProcess(["sbatch"], 1, "", "invalid partition"))


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
    """The words may be a whole script."""
    done = subprocess.CompletedProcess(["srun", "bash", "-c", "a script\nof many lines"], 3, "", errors)
    assert commands.complaint(done) == line


def test_a_command_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """Its file has no right to run. A closed directory of PATH gives the same error."""
    (tmp_path / "squeue").touch(0o600)
    monkeypatch.setenv("PATH", str(tmp_path))
    with world.allowed(), pytest.raises(SchedulerError, match="squeue cannot start: Permission denied; check PATH, or"):
        commands.run(("squeue",), 5)
