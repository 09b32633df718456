"""Slurm's commands and their lines."""

from __future__ import annotations

import subprocess

import pytest

from mnrun.errors import SchedulerError
from mnrun.schedulers.slurm import client
from unit.texts import Refused


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: Socket timed out on send/recv operation",
        "sbatch: error: Unable to contact slurm controller (connect failure)",
    ],
)
def test_silence_is_no_refusal(said: str, refused: Refused) -> None:
    with refused(SchedulerError):
        client.refuse_silence(subprocess.CompletedProcess(["sbatch"], 1, "", said))
    client.refuse_silence(subprocess.CompletedProcess(["sbatch"], 1, "", "invalid partition"))


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("srun: error: node01: task 0: Exited with exit code 3", True),
        (" srun: error: node01: tasks 0-1,3: Terminated", True),
        ("srun: Terminating StepId=7.1", True),
        ("srun: error: node01: task 0: Killed", True),
        ("slurmstepd-node01: error: *** STEP 25.1 ON node01 CANCELLED AT 2026-11-28T04:49:11 ***", True),
        ("slurmstepd-node01: error: Detected 1 oom_kill event in StepId=7.1.", False),
        ("srun: error: no such job", False),
    ],
)
def test_lines_that_nobody_needs(line: str, own: bool) -> None:
    assert client.CLIENT_LINES.own.has(line) is own
