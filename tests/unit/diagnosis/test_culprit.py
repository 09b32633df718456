"""The rank that mpirun calls failed, in what Open MPI 4.1 and 5.0 printed on the rehearsal cluster."""

from __future__ import annotations

import pytest

from mnrun.diagnosis.culprit import culprit
from mnrun.model import Culprit

PLACES = {0: "node01", 1: "node01", 2: "node02", 3: "node02"}
CODE_5 = """prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-node01-14@1,2]
   Exit code:    7"""
SIGNAL_5 = """prterun noticed that process rank 2 with PID 256 on node node02 exited on
signal 9 (Killed)."""
CODE_4 = """mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[8055,1],2]
  Exit code:    7"""
SIGNAL_4 = "mpirun noticed that process rank 2 with PID 240 on node node02 exited on signal 9 (Killed)."


@pytest.mark.parametrize("text", [CODE_5, SIGNAL_5, CODE_4, SIGNAL_4])
def test_the_rank_that_failed(text: str) -> None:
    assert culprit(text.split("\n"), PLACES) == Culprit(2, "node02")


@pytest.mark.parametrize("text", ["", "rank 2 failed", "Process name: [[8055,1],9]", "Process name: [[8055,1],2] or 3"])
def test_no_rank_is_guessed(text: str) -> None:
    assert culprit(text.split("\n"), PLACES) is None


def test_the_first_of_several() -> None:
    assert culprit([*CODE_5.split("\n"), *CODE_5.replace("1,2]", "1,0]").split("\n")], PLACES) == Culprit(2, "node02")
