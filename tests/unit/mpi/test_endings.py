"""Messages of mpirun about the end of a rank, in front of which the program's own lines are lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnrun.diagnosis.culprit import culprit
from mnrun.mpi.endings import Endings, without_endings
from mnrun.schedulers.slurm.client import CLIENT_LINES
from mnrun.system.client import without
from unit.diagnosis.test_culprit import CODE_4, CODE_5, SIGNAL_4, SIGNAL_5
from unit.diagnosis.test_recognise import ALL

RECORDED = Path(__file__).parents[1] / "recorded/scancel.txt"
# name of the way -> the bytes that mpirun, Hydra and srun wrote. A NUL at the end has no line of its own.
CANCELLED = {
    name: text.replace("␀\n", "␀").replace("␀", "\0").encode()
    for name, text in re.findall(r"^== (.*)\n((?:(?!== ).*\n)*)", RECORDED.read_text(encoding="utf-8"), re.MULTILINE)
}
RULE = "-" * 74
OURS = ["step 1", RULE, "loss  0.3", RULE, "error: no such table"]


def test_lines_of_srun_about_memory_come_last_or_never() -> None:
    """Slurm 24.11, with control groups."""
    ends = CLIENT_LINES.ends
    lines = [
        b"slurmstepd-node01: error: Detected 1 oom_kill event in StepId=2.1. Some of the step "
        b"tasks have been OOM Killed.",
        b"srun: error: node01: task 0: Out Of Memory",
    ]
    data = b"".join(line + b"\n" for line in (b"rank 0", b"", lines[0], b"rank 1", lines[1], b"", b"rank 2"))
    for parts in ([data], data.splitlines(keepends=True)):
        rest = b"".join(Endings(False, ends.pattern, ends.begins).put_last(parts))
        assert rest == b"rank 0\n\nrank 1\n\nrank 2\n"
        assert b"".join(Endings(True, ends.pattern, ends.begins).put_last(parts)) == rest + b"\n".join([*lines, b""])
        assert b"".join(Endings(wanted=False).put_last(parts)) == data


@pytest.mark.parametrize("text", [CODE_5, SIGNAL_5, CODE_4, SIGNAL_4])
def test_the_programs_lines_stay(text: str) -> None:
    assert without_endings([*OURS, RULE, *text.split("\n"), RULE, "last"]) == [*OURS, "last"]


@pytest.mark.parametrize("name", ["mpirun-crash", "openmpi-abort"])
def test_nothing_is_left_of_a_whole_text(name: str) -> None:
    (output,) = (text.output for text in ALL if text.entry == name)
    assert "".join(without_endings(output.split("\n"))) == ""


def test_the_box_of_mpich() -> None:
    (output,) = (text.output for text in ALL if text.entry == "mpich-crash")
    assert without_endings(output.split("\n"))[0].startswith("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segm")


def test_other_messages_stay() -> None:
    slots = [RULE, "There are not enough slots available in the system", RULE]
    assert without_endings(slots) == slots
    cut = ["a", RULE, "mpirun noticed that process rank 2"]
    assert without_endings(cut) == cut


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
LOST = "[node01:07013] oob:tcp: send_msg: write failed: Broken pipe (32) [sd = 21]\n"
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
        (f"a\n{BOX.replace('prterun', LOST + 'prterun')}{LOST}b\n", "a\nb\n"),
        (f"{RULE}\n{LOST}A table\n{RULE}\n", f"{RULE}\n{LOST}A table\n{RULE}\n"),
        (CRASH.format("/usr/bin/mpirun") + SOCKET, ""),
        (CRASH.format("/home/alice/app") + PROXY, CRASH.format("/home/alice/app") + PROXY),
        (f"step {RULE}\n{RULE}\n", f"step {RULE}\n{RULE}\n"),
    ],
    ids=(
        "between",
        "several",
        "after others",
        "a lost connection within",
        "a table of a program with such a line",
        "a crash of mpirun",
        "a crash of the program",
        "rules",
    ),
)
def test_messages_about_the_end_of_ranks_come_last_or_never(text: str, rest: str) -> None:
    """As mnrun or the scheduler has ended the program (4.9)."""
    data = text.encode()
    for parts in ([data], data.splitlines(keepends=True)):
        assert b"".join(Endings(wanted=False).put_last(parts)).decode() == rest
        shown = b"".join(Endings(wanted=True).put_last(parts)).decode()
        assert shown.startswith(rest)
        assert sorted(shown.replace("b-", "b\n-").splitlines()) == sorted(text.splitlines())


def test_what_a_program_writes_is_never_lost_and_never_waits() -> None:
    text = f"{RULE}\nA table\n{RULE}\n 10%|#\r 20%|##\r".encode()
    for size in (1, 7, 80):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        assert b"".join(Endings(wanted=False).put_last(parts)) == text
    shown = Endings().put_last(iter([f"{RULE}\n".encode(), b" 10%|#\r", b""]))
    assert [next(shown), next(shown)] == [b"", f"{RULE}\n 10%|#\r".encode()]


@pytest.mark.parametrize("name", CANCELLED)
def test_nothing_is_left_of_a_job_that_was_cancelled(name: str) -> None:
    data = b"rank 0\n" + CANCELLED[name]
    for parts in ([data], data.splitlines(keepends=True)):
        own = without(iter(parts), CLIENT_LINES.own)
        shown = b"".join(Endings(wanted=False).put_last(own))
        assert shown.replace(b"\n", b"").replace(b"\0", b"") == b"rank 0", shown
        if parts == [data]:
            assert shown == b"rank 0\n"
        kept = b"".join(Endings().put_last(iter(parts)))
        assert sorted(kept) == sorted(data)


@pytest.mark.parametrize("text", [CODE_5, SIGNAL_5, CODE_4, SIGNAL_4])
def test_what_only_names_the_failed_rank_is_left_out(text: str) -> None:
    data = f"a\n{RULE}\n{text}\n{RULE}\nb\n".encode()
    endings = Endings()
    endings.told = lambda lines: culprit(lines, dict.fromkeys(range(8), "node01")) is not None
    assert b"".join(endings.put_last([data])).decode() == "a\nb\n"
    assert culprit(endings.left_out.splitlines(), dict.fromkeys(range(8), "node01")) is not None
    unknown = Endings()
    unknown.told = lambda lines: culprit(lines, {}) is not None
    assert len(b"".join(unknown.put_last([data]))) == len(data)
