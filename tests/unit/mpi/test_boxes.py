"""Messages of mpirun and srun about the end of a rank, in front of which the program's own lines are lost."""

from __future__ import annotations

import pytest

from mnrun.mpi.boxes import Apart, without_boxes
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
    cut = ["a", RULE, "mpirun noticed that process rank 2"]
    assert without_boxes(cut) == cut


BOX = f"{RULE}\nprterun noticed that process rank 1 with PID 27 on node node02 exited on\nsignal 15.\n{RULE}\n"
CRASH = (
    "[node01:00017] *** Process received signal ***\n[node01:00017] Signal: Segmentation fault (11)\n"
    "[node01:00017] [ 7] {}(+0x13b9)[0x557dd0b7f3b9]\n[node01:00017] *** End of error message ***\n"
)
SOCKET = (
    "[node01:00012] *** An error occurred in Socket closed\n[node01:00012] *** reported by process [2590834689,1]\n"
    "[node01:00012] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
    "[node01:00012] ***    and MPI will try to terminate your MPI job as well)\n"
)
PROXY = "[proxy:0@node01] main (proxy/pmip.c:122): demux engine error waiting for event\n"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"a\n{BOX}b\n", "a\nb\n"),
        (f"{BOX} {BOX}mpirun: abort is already in progress...hit ctrl-c again\n{PROXY}b", "b"),
        (
            f"{RULE}\nA table\n{RULE}\n{BOX}{RULE}\n{RULE}\n{BOX}end\n",
            f"{RULE}\nA table\n{RULE}\n{RULE}\n{RULE}\nend\n",
        ),
        (CRASH.format("/usr/bin/mpirun") + SOCKET, ""),
        (CRASH.format("/home/alice/app") + PROXY, CRASH.format("/home/alice/app") + PROXY),
        (f"step {RULE}\n{RULE}\n", f"step {RULE}\n{RULE}\n"),
    ],
    ids=("between", "several", "after others", "a crash of mpirun", "a crash of the program", "rules"),
)
def test_messages_about_the_end_of_ranks_come_last_or_never(text: str, rest: str) -> None:
    """As mnrun or the scheduler has ended the program (4.9)."""
    data = text.encode()
    for parts in ([data], data.splitlines(keepends=True)):
        assert b"".join(Apart(wanted=False).rest(parts)).decode() == rest
        shown = b"".join(Apart(wanted=True).rest(parts)).decode()
        assert shown.startswith(rest)
        assert sorted(shown.replace("b-", "b\n-").splitlines()) == sorted(text.splitlines())


def test_what_a_program_writes_is_never_lost_and_never_waits() -> None:
    """However the bytes come: a bar of progress after a rule has no end of a line for long."""
    text = f"{RULE}\nA table\n{RULE}\n 10%|#\r 20%|##\r".encode()
    for size in (1, 7, 80):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        assert b"".join(Apart(wanted=False).rest(parts)) == text
    shown = Apart().rest(iter([f"{RULE}\n".encode(), b" 10%|#\r", b""]))
    assert [next(shown), next(shown)] == [b"", f"{RULE}\n 10%|#\r".encode()]
