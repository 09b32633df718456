"""Messages of mpirun and srun about the end of a rank, in front of which the program's own lines are lost."""

from __future__ import annotations

import pytest

from mnrun.diagnosis.boxes import without_boxes
from unit.diagnosis.test_culprit import CODE_4, CODE_5, SIGNAL_4, SIGNAL_5
from unit.diagnosis.test_recognise import ALL

RULE = "-" * 74
OURS = ["step 1", RULE, "loss  0.3", RULE, "error: no such table"]
SRUN = "srun: error: node01: task 0: Exited with exit code 3"


@pytest.mark.parametrize("text", [CODE_5, SIGNAL_5, CODE_4, SIGNAL_4])
def test_the_programs_lines_stay(text: str) -> None:
    """A table of its own, too."""
    assert without_boxes([*OURS, RULE, *text.split("\n"), RULE, SRUN, "last"]) == [*OURS, "last"]


@pytest.mark.parametrize("name", ["mpirun-crash", "openmpi-abort"])
def test_nothing_is_left_of_a_whole_text(name: str) -> None:
    (output,) = (text.output for text in ALL if text.entry == name)
    assert "".join(without_boxes(output.split("\n"))) == ""


def test_the_box_of_mpich() -> None:
    """Its line with the signal stays."""
    (output,) = (text.output for text in ALL if text.entry == "mpich-crash")
    assert without_boxes(output.split("\n"))[0].startswith("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segm")


def test_other_messages_stay() -> None:
    """They may have the reason; one that is cut, too."""
    slots = [RULE, "There are not enough slots available in the system", RULE]
    assert without_boxes(slots) == slots
    assert without_boxes(["a", RULE, "mpirun noticed that process rank 2"]) == [
        "a",
        "mpirun noticed that process rank 2",
    ]
